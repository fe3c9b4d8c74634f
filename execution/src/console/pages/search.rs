//! Finding something by any name that it has: a task, a stream, a request, a caller.

use super::talks::talk_table;
use super::{Asked, asking, card, pair_table, segment, task_table};
use crate::console::Console;
use crate::console::feed::counts::query;
use crate::console::guard::Visitor;
use crate::console::html::{Html, html};
use crate::console::layout::{self, Problem};
use crate::console::sign_in::see_other;
use axum::Extension;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use interzone_hub::ports::{Pair, PairQuery};
use interzone_hub::{TalkQuery, TaskQuery};
use interzone_protocol::vocab::{ContextId, PrincipalId, StreamId, TaskId};
use std::sync::Arc;

const ROWS: usize = 25;
/// How many of one name are shown.
const NAMESAKES: usize = 5;

/// `GET /console/search?q=…`.
pub(in crate::console) async fn page(
    State(console): State<Arc<Console>>,
    Extension(visitor): Extension<Arc<Visitor>>,
    uri: Uri,
) -> Response {
    let asked = Asked::of(&uri);
    let Some(wanted) = asked.get("q") else {
        return see_other("/console/tasks");
    };
    match find(&console, wanted).await {
        Ok(Found::There(address)) => see_other(&address),
        Ok(Found::Page(body)) => layout::page(&console, &visitor, "", "Search", Ok(body)),
        Err(problem) => layout::problem(&console, Some(&visitor), &problem),
    }
}

enum Found {
    There(String),
    Page(Html),
}

async fn find(console: &Console, wanted: &str) -> Result<Found, Problem> {
    let hub = &console.zone.hub;
    let store = hub.store();
    let conversation = match ContextId::new(wanted) {
        Ok(context) => {
            let query = TaskQuery {
                context_id: Some(context),
                ..query(&[], ROWS)
            };
            store.tasks(&query).await?
        }
        Err(_) => Vec::new(),
    };
    // A conversation has the id of the task that it began with: if there are others in it, all of them are shown.
    if let Ok(id) = TaskId::new(wanted)
        && store.task(&id).await?.is_some()
        && conversation.iter().all(|task| task.id == id)
    {
        return Ok(Found::There(format!("/console/tasks/{}", segment(wanted))));
    }
    if let Ok(id) = StreamId::new(wanted)
        && store.stream(&id).await?.is_some()
    {
        return Ok(Found::There(format!(
            "/console/streams/{}",
            segment(wanted)
        )));
    }
    if let Some(log) = &console.zone.pairs {
        log.settled().await;
    }
    let by_name = pairs(console, |query| query.correlation = Some(wanted.to_owned())).await?;
    let mut by_id = Vec::new();
    for id in ids(wanted) {
        by_id.extend(pairs(console, |query| query.id = Some(id.clone())).await?);
    }
    let mut found = Vec::new();
    for id in console.names.meant(wanted).into_iter().take(NAMESAKES) {
        let Ok(owner) = PrincipalId::new(&id) else {
            continue;
        };
        let query = TaskQuery {
            owner: Some(owner),
            ..query(&[], ROWS)
        };
        let title = match id == wanted {
            true => "Tasks of this user".to_owned(),
            false => format!("Tasks of {} ({id})", console.names.called(&id)),
        };
        found.push((title, Some(id), store.tasks(&query).await?));
    }
    let title = "Tasks of this conversation".to_owned();
    found.push((title, None, conversation));
    let talks = TalkQuery {
        user: Some(wanted.to_owned()),
        before: None,
        limit: ROWS,
    };
    let talks = store.conversations(&talks).await?.found;
    let mut out = Html::new();
    html!(out, "<h1>Search</h1><p class=\"lead\">For <strong>" (wanted) "</strong></p>");
    let mut any = false;
    for (title, pairs) in [
        ("Requests with this correlation id", by_name),
        ("Requests with this id", by_id),
    ] {
        if !pairs.is_empty() {
            any = true;
            out.put(&card(title, &pair_table(&console.names, &pairs, true, "")));
        }
    }
    for (title, owner, tasks) in found {
        if tasks.is_empty() {
            continue;
        }
        any = true;
        out.put(&card(
            &title,
            &task_table(&console.names, &tasks, hub.now(), None, ""),
        ));
        if let Some(owner) = owner {
            let all = asking(&[("owner", Some(&owner))]);
            html!(out, "<p><a href=\"/console/tasks" (all) "\">All tasks of this user</a></p>");
        }
    }
    if !talks.is_empty() {
        any = true;
        let table = talk_table(&talks, hub.now(), "");
        out.put(&card("Conversations in which this user asked", &table));
        let all = asking(&[("user", Some(wanted))]);
        html!(out, "<p><a href=\"/console/conversations" (all) "\">All conversations of this user</a></p>");
    }
    if !any {
        html!(out, "<section class=\"card\"><p>Nothing has this name. A task, stream, conversation, request or "
            "correlation id must be whole, and so must the name of a client or user.</p></section>");
    }
    Ok(Found::Page(out))
}

async fn pairs(console: &Console, ask: impl FnOnce(&mut PairQuery)) -> Result<Vec<Pair>, Problem> {
    let mut query = PairQuery {
        limit: ROWS,
        ..PairQuery::default()
    };
    ask(&mut query);
    Ok(console.zone.hub.store().pairs(&query).await?)
}

/// What somebody may mean by an id: a number, or a string.
fn ids(wanted: &str) -> Vec<String> {
    let mut ids = Vec::new();
    if wanted.parse::<i64>().is_ok() {
        ids.push(wanted.to_owned());
    }
    ids.extend(serde_json::to_string(wanted).ok());
    ids
}
