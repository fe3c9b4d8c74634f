//! Dead letters: what was given up on its way out, and sending it again.

use super::{segment, table};
use crate::console::Console;
use crate::console::guard::Visitor;
use crate::console::html::{Html, html};
use crate::console::layout::{self, Problem, may_not_change, token};
use crate::console::names::Names;
use crate::console::sign_in::see_other;
use crate::console::words::{moment, number};
use axum::Extension;
use axum::extract::{Path, State};
use axum::response::Response;
use interzone_hub::ports::DeadLetterQuery;
use interzone_hub::{OutboxEntry, Subject};
use interzone_protocol::vocab::DeliveryId;
use std::sync::Arc;

const ROWS: usize = 100;

/// `GET /console/dead-letters`.
pub(in crate::console) async fn page(
    State(console): State<Arc<Console>>,
    Extension(visitor): Extension<Arc<Visitor>>,
) -> Response {
    let body = body(&console, &visitor).await;
    let here = "/console/dead-letters";
    layout::page(&console, &visitor, here, "Dead letters", body)
}

/// `POST /console/dead-letters/{id}/replay`.
pub(in crate::console) async fn replay(
    State(console): State<Arc<Console>>,
    Extension(visitor): Extension<Arc<Visitor>>,
    Path(id): Path<String>,
) -> Response {
    let replayed = async {
        let id = DeliveryId::new(&id).map_err(|_| Problem::Nothing("letter"))?;
        let hub = &console.zone.hub;
        if hub.store().replay_outbox(&id, hub.now()).await? {
            Ok(())
        } else {
            Err(Problem::Nothing("dead letter"))
        }
    };
    match replayed.await {
        Ok(()) => see_other("/console/dead-letters"),
        Err(problem) => layout::problem(&console, Some(&visitor), &problem),
    }
}

async fn body(console: &Console, visitor: &Visitor) -> Result<Html, Problem> {
    let store = console.zone.hub.store();
    let query = DeadLetterQuery {
        limit: ROWS,
        ..DeadLetterQuery::default()
    };
    let dead = store.dead_letters(&query).await?;
    let (waiting, all) = store.outbox_depth().await?;
    let mut out = Html::new();
    html!(out, "<h1>Dead letters</h1><p class=\"lead\">" (number(all))
        " given up after their last attempt, " (number(waiting)) " on their way.</p>");
    if !visitor.rights.change && !dead.is_empty() {
        out.put(&may_not_change());
    }
    let mut heads = vec!["Channel", "About", "Owner", "Added", "Attempts", "Error"];
    if visitor.rights.change {
        heads.push("Replay");
    }
    let rows = dead.iter().map(|entry| row(&console.names, visitor, entry));
    let none = "None: everything that left has arrived, or is still tried.";
    html!(out, "<section class=\"card\">" [table(None, &heads, rows, none)] "</section>");
    Ok(out)
}

fn row(names: &Names, visitor: &Visitor, entry: &OutboxEntry) -> Html {
    let mut out = Html::new();
    html!(out, "<tr><td data-label=\"Channel\">" (entry.channel) "</td><td data-label=\"About\">");
    match &entry.subject {
        Some(subject) => {
            let (room, id) = match subject {
                Subject::Task(id) => ("tasks", id.as_str()),
                Subject::Stream(id) => ("streams", id.as_str()),
            };
            html!(out, "<a class=\"id\" href=\"/console/" (room) "/" (segment(id)) "\">" (id) "</a>");
        }
        None => html!(out, "–"),
    }
    html!(out, "</td><td data-label=\"Owner\" class=\"cut\" title=\"" (entry.owner) "\">" (names.called(entry.owner.as_str())) "</td><td data-label=\"Added\">"
        [moment(entry.created_at)] "</td><td data-label=\"Attempts\" class=\"n\">" (entry.attempt)
        "</td><td data-label=\"Error\">" (entry.error.as_deref().unwrap_or("–")) "</td>");
    if visitor.rights.change {
        html!(out, "<td data-label=\"Replay\"><form method=\"post\" action=\"/console/dead-letters/"
            (segment(entry.id.as_str())) "/replay\">" [token(visitor)] "<button>Replay</button></form></td>");
    }
    html!(out, "</tr>");
    out
}
