//! Who the app is, how it gets its tokens, and where its socket is.

use super::{Answer, Refused};
use crate::access::Caller;
use crate::api::args::Args;
use crate::workspace::{Workspace, seed};
use serde_json::{Value, json};

pub(super) fn api_test(_: &mut Workspace, _: &Caller, args: &Args) -> Answer {
    match args.text("error") {
        Some(error) => Err(Refused::new(error.to_owned())),
        None => Ok(json!({"args": args.logged()})),
    }
}

pub(super) fn test(workspace: &mut Workspace, _: &Caller, _: &Args) -> Answer {
    Ok(json!({
        "url": format!("{}/", workspace.base), "team": seed::TEAM_NAME, "user": "interzone",
        "team_id": workspace.team, "user_id": workspace.bot_user, "bot_id": workspace.bot,
        "app_id": workspace.app, "is_enterprise_install": false,
    }))
}

pub(super) fn revoke(workspace: &mut Workspace, _: &Caller, args: &Args) -> Answer {
    let real = !args.flag("test");
    if let Some(token) = args.token().filter(|_| real) {
        workspace.tokens.revoke(token);
    }
    Ok(json!({"revoked": real}))
}

/// Where the app's socket is. The ticket in it is good for one socket.
pub(super) fn connections_open(workspace: &mut Workspace, caller: &Caller, _: &Args) -> Answer {
    caller.need("connections:write")?;
    let number = workspace.next("ticket");
    let host = workspace.base.replacen("http", "ws", 1);
    let ticket = format!("{}-{number}", uuid::Uuid::new_v4());
    workspace.tokens.ticket(ticket.clone());
    let app = &workspace.app;
    Ok(json!({"url": format!("{host}/link/?ticket={ticket}&app_id={app}")}))
}

pub(super) fn access(workspace: &mut Workspace, _: &Caller, args: &Args) -> Answer {
    let now = workspace.clock.unix();
    let client = args.client();
    let client = (client.0.as_str(), client.1.as_str());
    let granted = match args.text("grant_type").unwrap_or("authorization_code") {
        "authorization_code" => {
            let code = args.text("code").ok_or(Refused::new("invalid_code"))?;
            let redirect = args.text("redirect_uri");
            workspace.tokens.redeem(client, code, redirect, now)?
        }
        "refresh_token" => {
            let token = args.text("refresh_token");
            let token = token.ok_or(Refused::new("invalid_refresh_token"))?;
            workspace.tokens.refresh(client, token, now)?
        }
        _ => return Err(Refused::new("invalid_grant_type")),
    };
    let mut told = json!({
        "app_id": workspace.app, "authed_user": {"id": granted.user}, "scope": granted.scope,
        "token_type": "bot", "access_token": granted.token, "bot_user_id": workspace.bot_user,
        "team": {"id": workspace.team, "name": seed::TEAM_NAME}, "enterprise": null,
        "is_enterprise_install": false,
    });
    if let (Some((refresh, life)), Some(fields)) = (granted.refresh, told.as_object_mut()) {
        fields.insert("refresh_token".to_owned(), refresh.into());
        fields.insert("expires_in".to_owned(), Value::from(life));
    }
    Ok(told)
}
