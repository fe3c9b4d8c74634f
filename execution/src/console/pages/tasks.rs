//! Paginated task list with filters.

use super::{ListFilter, QueryParams, query_string, task_table};
use crate::console::Console;
use crate::console::auth_middleware::SignedInUser;
use crate::console::format::state_label;
use crate::console::layout::{self, PageError};
use crate::console::live::counts::tasks_in_states;
use axum::Extension;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use interzone_edge::html::{Html, html};
use interzone_hub::{TaskCursor, TaskQuery};
use interzone_protocol::vocab::{AgentId, PrincipalId, TaskState};
use std::sync::Arc;

const PAGE_SIZE: usize = 50;
/// Maximum number of owner suggestions.
const MAX_SUGGESTIONS: usize = 100;
/// Filter value for all states that wait for input or sign-in.
const WAITING_FILTER: &str = "waiting";

/// `GET /console/tasks`.
pub(in crate::console) async fn page(
    State(console): State<Arc<Console>>,
    Extension(visitor): Extension<Arc<SignedInUser>>,
    uri: Uri,
) -> Response {
    let body = body(&console, &visitor, &QueryParams::from_uri(&uri)).await;
    layout::page(&console, &visitor, "/console/tasks", "Tasks", body)
}

async fn body(
    console: &Console,
    visitor: &SignedInUser,
    params: &QueryParams,
) -> Result<Html, PageError> {
    let hub = &console.zone.hub;
    let mut out = Html::new();
    html!(out, "<h1>Tasks</h1>"[filters(console, params)]);
    let states = match params.get("state") {
        Some(WAITING_FILTER) => vec![TaskState::InputRequired, TaskState::AuthRequired],
        Some(name) => match TaskState::from_name(name) {
            Some(state) => vec![state],
            // Showing all tasks would suggest that they are in this state.
            None => {
                html!(out, "<section class=\"card\"><p>Unknown state “" (name)
                    "”. Choose one above.</p></section>");
                return Ok(out);
            }
        },
        None => Vec::new(),
    };
    let owner = match params.get("owner").map(|text| console.names.resolve(text)) {
        None => None,
        Some(owners) => match owners.as_slice() {
            [owner] => Some(owner.clone()),
            owners => {
                out.put(&owner_choices(params, owners));
                return Ok(out);
            }
        },
    };
    // An invalid id matches no task.
    let owner_id = owner.as_deref().map(PrincipalId::new).transpose();
    let agent = params.get("agent").map(AgentId::new).transpose();
    let tasks = match (owner_id, agent) {
        (Ok(owner), Ok(agent)) => {
            let query = TaskQuery {
                owner,
                agent,
                after: params.get("after").and_then(TaskCursor::from_token),
                ..tasks_in_states(&states, PAGE_SIZE)
            };
            hub.list_tasks(&visitor.caller, query).await?
        }
        _ => interzone_hub::TaskPage {
            tasks: Vec::new(),
            next: None,
        },
    };
    let filter = ListFilter {
        resource: "tasks",
        is_first_page: params.get("after").is_none(),
        states: states.into_iter().map(state_label).collect(),
        agent: params.get("agent"),
        owner: owner.as_deref(),
    };
    let empty_text = "No matching tasks.";
    let table = task_table(
        &console.names,
        &tasks.tasks,
        hub.now(),
        Some("list"),
        empty_text,
    );
    html!(out, "<section class=\"card\" id=\"list\" tabindex=\"-1\"" [filter.render_header()] [table]
        "<nav class=\"turn\" aria-label=\"Pages\">");
    if params.get("after").is_some() {
        html!(out, "<a class=\"button\" href=\"/console/tasks" (list_query(params, params.get("owner"), None))
            "\">Newest</a>");
    }
    if let Some(next) = tasks.next {
        let next = list_query(params, params.get("owner"), Some(&next.to_token()));
        html!(out, "<a class=\"button\" rel=\"next\" href=\"/console/tasks" (next) "\">Older</a>");
    }
    html!(out, "</nav></section>");
    Ok(out)
}

/// Query string of this list for an owner and a cursor.
fn list_query(params: &QueryParams, owner: Option<&str>, after: Option<&str>) -> String {
    query_string(&[
        ("state", params.get("state")),
        ("agent", params.get("agent")),
        ("owner", owner),
        ("after", after),
    ])
}

/// List of the clients that share the requested name.
fn owner_choices(params: &QueryParams, owners: &[String]) -> Html {
    let mut out = Html::new();
    html!(out, "<section class=\"card\"><h2>" (owners.len()) " clients are named "
        (params.get("owner").unwrap_or_default()) "</h2><ul class=\"which\">");
    for owner in owners.iter().take(PAGE_SIZE) {
        let query = list_query(params, Some(owner), None);
        html!(out, "<li><a class=\"id\" href=\"/console/tasks" (query) "\">" (owner) "</a></li>");
    }
    html!(out, "</ul></section>");
    out
}

fn filters(console: &Console, params: &QueryParams) -> Html {
    let mut out = Html::new();
    html!(out, "<form class=\"filters\" action=\"/console/tasks\">"
        "<label>State <select name=\"state\"><option value=\"\">Any</option>");
    let option = |out: &mut Html, value: &str, label: &str, selected: Option<&str>| {
        html!(out, "<option value=\"" (value) "\"");
        if selected == Some(value) {
            html!(out, " selected");
        }
        html!(out, ">" (label) "</option>");
    };
    let selected = params.get("state");
    for state in TaskState::ALL {
        option(&mut out, state.name(), state_label(state), selected);
    }
    option(&mut out, WAITING_FILTER, "Waiting for input", selected);
    html!(
        out,
        "</select></label><label>Agent <select name=\"agent\"><option value=\"\">Any</option>"
    );
    for agent in console.zone.hub.agents().iter() {
        let id = agent.info().id.as_str();
        option(&mut out, id, id, params.get("agent"));
    }
    html!(out, "</select></label><label>Owner <input name=\"owner\" maxlength=\"256\" value=\""
        (params.get("owner").unwrap_or_default())
        "\" placeholder=\"name or id\" autocomplete=\"off\" list=\"owners\"></label>"
        "<button>Show</button><datalist id=\"owners\">");
    for name in console.names.suggestions(MAX_SUGGESTIONS) {
        html!(out, "<option value=\"" (name) "\"></option>");
    }
    html!(out, "</datalist></form>");
    out
}
