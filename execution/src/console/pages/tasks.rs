//! All tasks, by what they are, a page at a time.

use super::{Asked, asking, task_table};
use crate::console::Console;
use crate::console::feed::query;
use crate::console::guard::Visitor;
use crate::console::html::{Html, html};
use crate::console::layout::{self, Problem};
use crate::console::words::called;
use axum::Extension;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use interzone_hub::{TaskCursor, TaskQuery};
use interzone_protocol::vocab::{AgentId, PrincipalId, TaskState};
use std::sync::Arc;

const ROWS: usize = 50;
/// Those that wait for a person, whatever for.
const WAITING: &str = "waiting";

/// `GET /console/tasks`.
pub(in crate::console) async fn page(
    State(console): State<Arc<Console>>,
    Extension(visitor): Extension<Arc<Visitor>>,
    uri: Uri,
) -> Response {
    let body = body(&console, &visitor, &Asked::of(&uri)).await;
    layout::page(&console, &visitor, "/console/tasks", "Tasks", body)
}

async fn body(console: &Console, visitor: &Visitor, asked: &Asked) -> Result<Html, Problem> {
    let hub = &console.zone.hub;
    let states = match asked.get("state") {
        Some(WAITING) => vec![TaskState::InputRequired, TaskState::AuthRequired],
        Some(name) => TaskState::from_name(name).into_iter().collect(),
        None => Vec::new(),
    };
    // What cannot be a name is nobody's.
    let owner = asked.get("owner").map(PrincipalId::new).transpose();
    let agent = asked.get("agent").map(AgentId::new).transpose();
    let tasks = match (owner, agent) {
        (Ok(owner), Ok(agent)) => {
            let query = TaskQuery {
                owner,
                agent,
                after: asked.get("after").and_then(TaskCursor::from_token),
                ..query(&states, ROWS)
            };
            hub.list_tasks(&visitor.caller, query).await?
        }
        _ => interzone_hub::TaskPage {
            tasks: Vec::new(),
            next: None,
        },
    };
    let mut out = Html::new();
    html!(out, "<h1>Tasks</h1>"[filters(console, asked)]);
    let none = "No task is like this.";
    html!(out, "<section class=\"card\">" [task_table(&console.names, &tasks.tasks, hub.now(), None, none)]
        "<nav class=\"turn\" aria-label=\"Pages\">");
    let given = |after| {
        asking(&[
            ("state", asked.get("state")),
            ("agent", asked.get("agent")),
            ("owner", asked.get("owner")),
            ("after", after),
        ])
    };
    if asked.get("after").is_some() {
        html!(out, "<a class=\"button\" href=\"/console/tasks" (given(None)) "\">Newest</a>");
    }
    if let Some(next) = tasks.next {
        let next = next.to_token();
        html!(out, "<a class=\"button\" rel=\"next\" href=\"/console/tasks" (given(Some(&next)))
            "\">Older</a>");
    }
    html!(out, "</nav></section>");
    Ok(out)
}

fn filters(console: &Console, asked: &Asked) -> Html {
    let mut out = Html::new();
    html!(out, "<form class=\"filters\" action=\"/console/tasks\">"
        "<label>State <select name=\"state\"><option value=\"\">Any</option>");
    let option = |out: &mut Html, value: &str, word: &str, chosen: Option<&str>| {
        html!(out, "<option value=\"" (value) "\"");
        if chosen == Some(value) {
            html!(out, " selected");
        }
        html!(out, ">" (word) "</option>");
    };
    let chosen = asked.get("state");
    for state in TaskState::ALL {
        option(&mut out, state.name(), called(state), chosen);
    }
    option(&mut out, WAITING, "Waits for a person", chosen);
    html!(
        out,
        "</select></label><label>Agent <select name=\"agent\"><option value=\"\">Any</option>"
    );
    for agent in console.zone.hub.agents().iter() {
        let id = agent.info().id.as_str();
        option(&mut out, id, id, asked.get("agent"));
    }
    html!(out, "</select></label><label>Owner <input name=\"owner\" maxlength=\"256\" value=\""
        (asked.get("owner").unwrap_or_default())
        "\" placeholder=\"exact name\" autocomplete=\"off\"></label><button>Show</button></form>");
    out
}
