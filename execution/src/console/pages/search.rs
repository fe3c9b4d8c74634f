//! Search for a task, stream, request, conversation or caller by id or name.

use super::conversations::conversation_table;
use super::{QueryParams, card, path_segment, query_string, request_table, task_table};
use crate::console::Console;
use crate::console::auth_middleware::SignedInUser;
use crate::console::layout::{self, PageError};
use crate::console::live::counts::tasks_in_states;
use crate::console::sign_in::see_other;
use axum::Extension;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use interzone_edge::html::{Html, html};
use interzone_hub::ports::{RequestLogEntry, RequestQuery};
use interzone_hub::{ConversationQuery, TaskQuery};
use interzone_protocol::vocab::{ContextId, PrincipalId, StreamId, TaskId};
use std::sync::Arc;

const MAX_ROWS: usize = 25;
/// Maximum number of clients of the same name.
const MAX_SAME_NAME: usize = 5;

/// `GET /console/search?q=…`.
pub(in crate::console) async fn page(
    State(console): State<Arc<Console>>,
    Extension(visitor): Extension<Arc<SignedInUser>>,
    uri: Uri,
) -> Response {
    let params = QueryParams::from_uri(&uri);
    let Some(text) = params.get("q") else {
        return see_other("/console/tasks");
    };
    match find(&console, text).await {
        Ok(SearchResult::Redirect(address)) => see_other(&address),
        Ok(SearchResult::Page(body)) => layout::page(&console, &visitor, "", "Search", Ok(body)),
        Err(problem) => layout::error_page(&console, Some(&visitor), &problem),
    }
}

enum SearchResult {
    Redirect(String),
    Page(Html),
}

async fn find(console: &Console, text: &str) -> Result<SearchResult, PageError> {
    let hub = &console.zone.hub;
    let store = hub.store();
    let conversation = match ContextId::new(text) {
        Ok(context) => {
            let query = TaskQuery {
                context_id: Some(context),
                ..tasks_in_states(&[], MAX_ROWS)
            };
            store.tasks(&query).await?
        }
        Err(_) => Vec::new(),
    };
    // A conversation has the id of its first task: if it has other tasks, all are shown.
    if let Ok(id) = TaskId::new(text)
        && store.task(&id).await?.is_some()
        && conversation.iter().all(|task| task.id == id)
    {
        return Ok(SearchResult::Redirect(format!(
            "/console/tasks/{}",
            path_segment(text)
        )));
    }
    if let Ok(id) = StreamId::new(text)
        && store.stream(&id).await?.is_some()
    {
        return Ok(SearchResult::Redirect(format!(
            "/console/streams/{}",
            path_segment(text)
        )));
    }
    if let Some(log) = &console.zone.request_log {
        log.flushed().await;
    }
    let by_correlation = find_requests(console, |query| {
        query.correlation_id = Some(text.to_owned())
    })
    .await?;
    let mut by_id = Vec::new();
    for id in request_ids(text) {
        by_id.extend(find_requests(console, |query| query.id = Some(id.clone())).await?);
    }
    let mut task_lists = Vec::new();
    for id in console.names.resolve(text).into_iter().take(MAX_SAME_NAME) {
        let Ok(owner) = PrincipalId::new(&id) else {
            continue;
        };
        let query = TaskQuery {
            owner: Some(owner),
            ..tasks_in_states(&[], MAX_ROWS)
        };
        let title = match id == text {
            true => "Tasks of this user".to_owned(),
            false => format!("Tasks of {} ({id})", console.names.display_name(&id)),
        };
        task_lists.push((title, Some(id), store.tasks(&query).await?));
    }
    let title = "Tasks of this conversation".to_owned();
    task_lists.push((title, None, conversation));
    let conversation_query = ConversationQuery {
        user: Some(text.to_owned()),
        before: None,
        limit: MAX_ROWS,
    };
    let conversations = store
        .conversations(&conversation_query)
        .await?
        .conversations;
    let mut out = Html::new();
    html!(out, "<h1>Search</h1><p class=\"lead\">For <strong>" (text) "</strong></p>");
    let mut has_results = false;
    for (title, requests) in [
        ("Requests with this correlation id", by_correlation),
        ("Requests with this id", by_id),
    ] {
        if !requests.is_empty() {
            has_results = true;
            out.put(&card(
                title,
                &request_table(&console.names, &requests, true, ""),
            ));
        }
    }
    for (title, owner, tasks) in task_lists {
        if tasks.is_empty() {
            continue;
        }
        has_results = true;
        out.put(&card(
            &title,
            &task_table(&console.names, &tasks, hub.now(), None, ""),
        ));
        if let Some(owner) = owner {
            let all = query_string(&[("owner", Some(&owner))]);
            html!(out, "<p><a href=\"/console/tasks" (all) "\">All tasks of this user</a></p>");
        }
    }
    if !conversations.is_empty() {
        has_results = true;
        let table = conversation_table(&conversations, hub.now(), "");
        out.put(&card("Conversations in which this user asked", &table));
        let all = query_string(&[("user", Some(text))]);
        html!(out, "<p><a href=\"/console/conversations" (all) "\">All conversations of this user</a></p>");
    }
    if !has_results {
        html!(out, "<section class=\"card\"><p>No results. Task, stream, conversation, request and correlation "
            "ids and the names of clients and users must match exactly.</p></section>");
    }
    Ok(SearchResult::Page(out))
}

async fn find_requests(
    console: &Console,
    set_filter: impl FnOnce(&mut RequestQuery),
) -> Result<Vec<RequestLogEntry>, PageError> {
    let mut query = RequestQuery {
        limit: MAX_ROWS,
        ..RequestQuery::default()
    };
    set_filter(&mut query);
    Ok(console.zone.hub.store().find_requests(&query).await?)
}

/// JSON forms of a request id: a number, a string.
fn request_ids(text: &str) -> Vec<String> {
    let mut ids = Vec::new();
    if text.parse::<i64>().is_ok() {
        ids.push(text.to_owned());
    }
    ids.extend(serde_json::to_string(text).ok());
    ids
}
