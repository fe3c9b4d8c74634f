//! App identity, OAuth2 tokens and Socket Mode URLs.

use super::{ApiResult, SlackApiError};
use crate::api::args::Args;
use crate::tokens::TokenHolder;
use crate::workspace::{Workspace, seed};
use serde_json::{Value, json};

pub(super) fn api_test(_: &mut Workspace, _: &TokenHolder, args: &Args) -> ApiResult {
    match args.text("error") {
        Some(error) => Err(SlackApiError::new(error.to_owned())),
        None => Ok(json!({"args": args.for_log()})),
    }
}

pub(super) fn test(workspace: &mut Workspace, _: &TokenHolder, _: &Args) -> ApiResult {
    Ok(json!({
        "url": format!("{}/", workspace.base_url), "team": seed::TEAM_NAME, "user": "interzone",
        "team_id": workspace.team, "user_id": workspace.bot_user, "bot_id": workspace.bot,
        "app_id": workspace.app, "is_enterprise_install": false,
    }))
}

pub(super) fn revoke(workspace: &mut Workspace, _: &TokenHolder, args: &Args) -> ApiResult {
    let real = !args.flag("test");
    if let Some(token) = args.token().filter(|_| real) {
        workspace.tokens.revoke(token);
    }
    Ok(json!({"revoked": real}))
}

/// Returns a Socket Mode URL. Its ticket is valid for one socket.
pub(super) fn connections_open(
    workspace: &mut Workspace,
    caller: &TokenHolder,
    _: &Args,
) -> ApiResult {
    caller.require_scope("connections:write")?;
    let number = workspace.next_number("ticket");
    let host = workspace.base_url.replacen("http", "ws", 1);
    let ticket = format!("{}-{number}", uuid::Uuid::new_v4());
    workspace.tokens.add_ticket(ticket.clone());
    let app = &workspace.app;
    Ok(json!({"url": format!("{host}/link/?ticket={ticket}&app_id={app}")}))
}

pub(super) fn access(workspace: &mut Workspace, _: &TokenHolder, args: &Args) -> ApiResult {
    let now = workspace.clock.unix();
    let client = args.client_credentials();
    let client = (client.0.as_str(), client.1.as_str());
    let granted = match args.text("grant_type").unwrap_or("authorization_code") {
        "authorization_code" => {
            let code = args
                .text("code")
                .ok_or(SlackApiError::new("invalid_code"))?;
            let redirect = args.text("redirect_uri");
            workspace.tokens.redeem_code(client, code, redirect, now)?
        }
        "refresh_token" => {
            let token = args.text("refresh_token");
            let token = token.ok_or(SlackApiError::new("invalid_refresh_token"))?;
            workspace.tokens.redeem_refresh_token(client, token, now)?
        }
        _ => return Err(SlackApiError::new("invalid_grant_type")),
    };
    let mut response = json!({
        "app_id": workspace.app, "authed_user": {"id": granted.user}, "scope": granted.scope,
        "token_type": "bot", "access_token": granted.token, "bot_user_id": workspace.bot_user,
        "team": {"id": workspace.team, "name": seed::TEAM_NAME}, "enterprise": null,
        "is_enterprise_install": false,
    });
    if let (Some((refresh, life)), Some(fields)) = (granted.refresh, response.as_object_mut()) {
        fields.insert("refresh_token".to_owned(), refresh.into());
        fields.insert("expires_in".to_owned(), Value::from(life));
    }
    Ok(response)
}
