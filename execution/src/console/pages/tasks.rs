//! All tasks, by what they are, a page at a time.

use super::{Asked, Shown, asking, task_table};
use crate::console::Console;
use crate::console::feed::counts::query;
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
/// How many names are offered to choose from.
const NAMES: usize = 100;
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
    let mut out = Html::new();
    html!(out, "<h1>Tasks</h1>"[filters(console, asked)]);
    let states = match asked.get("state") {
        Some(WAITING) => vec![TaskState::InputRequired, TaskState::AuthRequired],
        Some(name) => match TaskState::from_name(name) {
            Some(state) => vec![state],
            // To show all would look as if they were in a state of this name.
            None => {
                html!(out, "<section class=\"card\"><p>No state is called “" (name)
                    "”. Choose one of those above.</p></section>");
                return Ok(out);
            }
        },
        None => Vec::new(),
    };
    let owner = match asked.get("owner").map(|word| console.names.meant(word)) {
        None => None,
        Some(owners) => match owners.as_slice() {
            [owner] => Some(owner.clone()),
            owners => {
                out.put(&which(asked, owners));
                return Ok(out);
            }
        },
    };
    // What cannot be a name is nobody's.
    let by = owner.as_deref().map(PrincipalId::new).transpose();
    let agent = asked.get("agent").map(AgentId::new).transpose();
    let tasks = match (by, agent) {
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
    let shown = Shown {
        of: "tasks",
        first: asked.get("after").is_none(),
        states: states.into_iter().map(called).collect(),
        agent: asked.get("agent"),
        owner: owner.as_deref(),
    };
    let none = "No task is like this.";
    let table = task_table(&console.names, &tasks.tasks, hub.now(), Some("list"), none);
    html!(out, "<section class=\"card\" id=\"list\" tabindex=\"-1\"" [shown.written()] [table]
        "<nav class=\"turn\" aria-label=\"Pages\">");
    if asked.get("after").is_some() {
        html!(out, "<a class=\"button\" href=\"/console/tasks" (given(asked, asked.get("owner"), None))
            "\">Newest</a>");
    }
    if let Some(next) = tasks.next {
        let next = given(asked, asked.get("owner"), Some(&next.to_token()));
        html!(out, "<a class=\"button\" rel=\"next\" href=\"/console/tasks" (next) "\">Older</a>");
    }
    html!(out, "</nav></section>");
    Ok(out)
}

/// The end of the address of this list, of somebody and from somewhere on.
fn given(asked: &Asked, owner: Option<&str>, after: Option<&str>) -> String {
    asking(&[
        ("state", asked.get("state")),
        ("agent", asked.get("agent")),
        ("owner", owner),
        ("after", after),
    ])
}

/// What is shown where several have the name that was asked for.
fn which(asked: &Asked, owners: &[String]) -> Html {
    let mut out = Html::new();
    html!(out, "<section class=\"card\"><h2>" (owners.len()) " clients are called "
        (asked.get("owner").unwrap_or_default()) "</h2><ul class=\"which\">");
    for owner in owners.iter().take(ROWS) {
        let theirs = given(asked, Some(owner), None);
        html!(out, "<li><a class=\"id\" href=\"/console/tasks" (theirs) "\">" (owner) "</a></li>");
    }
    html!(out, "</ul></section>");
    out
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
        "\" placeholder=\"name or id\" autocomplete=\"off\" list=\"owners\"></label>"
        "<button>Show</button><datalist id=\"owners\">");
    for name in console.names.to_choose(NAMES) {
        html!(out, "<option value=\"" (name) "\"></option>");
    }
    html!(out, "</datalist></form>");
    out
}
