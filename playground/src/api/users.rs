//! Users, the workspace, and the assistant status.

use super::args::Args;
use super::{ApiResult, SlackApiError, paginate, writable_channel};
use crate::tokens::TokenHolder;
use crate::workspace::{Workspace, seed};
use serde_json::{Value, json};

pub(super) fn info(workspace: &mut Workspace, caller: &TokenHolder, args: &Args) -> ApiResult {
    caller.require_scope("users:read")?;
    let user = args.text("user").and_then(|id| workspace.users.get(id));
    let user = user.ok_or(SlackApiError::new("user_not_found"))?;
    Ok(json!({"user": user.to_json(&workspace.team, args.flag("include_locale"))}))
}

pub(super) fn list(workspace: &mut Workspace, caller: &TokenHolder, args: &Args) -> ApiResult {
    caller.require_scope("users:read")?;
    let with_locale = args.flag("include_locale");
    let users = workspace.users.values();
    let all: Vec<Value> = users
        .map(|user| user.to_json(&workspace.team, with_locale))
        .collect();
    let (members, cursor) = paginate(&all, args, 1000, 1000)?;
    Ok(json!({
        "members": members, "cache_ts": workspace.clock.unix(),
        "response_metadata": {"next_cursor": cursor},
    }))
}

pub(super) fn team_info(workspace: &mut Workspace, caller: &TokenHolder, args: &Args) -> ApiResult {
    caller.require_scope("team:read")?;
    if args.text("team").is_some_and(|team| team != workspace.team) {
        return Err(SlackApiError::new("team_not_found"));
    }
    Ok(json!({"team": {
        "id": workspace.team, "name": seed::TEAM_NAME, "domain": "playground",
        "url": format!("{}/", workspace.base_url), "email_domain": "",
        "icon": {"image_default": true},
    }}))
}

pub(super) fn set_status(
    workspace: &mut Workspace,
    caller: &TokenHolder,
    args: &Args,
) -> ApiResult {
    caller.require_any_scope(&["assistant:write", "chat:write"])?;
    let channel = writable_channel(workspace, args.required("channel_id")?)?.id;
    let thread = args.required("thread_ts")?;
    if workspace.message(&channel, thread).is_none() {
        return Err(SlackApiError::new("thread_not_found"));
    }
    let loading = args.json("loading_messages", "invalid_arguments")?;
    let loading = loading.as_ref().and_then(Value::as_array);
    if loading.is_some_and(|messages| messages.len() > 10) {
        return Err(SlackApiError::with_detail(
            "invalid_arguments",
            "no more than 10 items allowed [json-pointer:/loading_messages]",
        ));
    }
    let status = args.text("status").unwrap_or_default().to_owned();
    workspace.set_status(&channel, thread, &status);
    Ok(json!({}))
}
