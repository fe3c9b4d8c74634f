//! Dead letters: failed outbox deliveries, and replaying them.

use super::{path_segment, table};
use crate::console::Console;
use crate::console::auth_middleware::SignedInUser;
use crate::console::client_names::ClientNames;
use crate::console::format::{format_number, timestamp};
use crate::console::layout::{self, PageError, csrf_field, missing_change_scope_notice};
use crate::console::sign_in::see_other;
use axum::Extension;
use axum::extract::{Path, State};
use axum::response::Response;
use interzone_edge::html::{Html, html};
use interzone_hub::ports::DeadLetterQuery;
use interzone_hub::{OutboxEntry, Subject};
use interzone_protocol::vocab::DeliveryId;
use std::sync::Arc;

const MAX_ROWS: usize = 100;

/// `GET /console/dead-letters`.
pub(in crate::console) async fn page(
    State(console): State<Arc<Console>>,
    Extension(visitor): Extension<Arc<SignedInUser>>,
) -> Response {
    let body = body(&console, &visitor).await;
    let here = "/console/dead-letters";
    layout::page(&console, &visitor, here, "Dead letters", body)
}

/// `POST /console/dead-letters/{id}/replay`.
pub(in crate::console) async fn replay(
    State(console): State<Arc<Console>>,
    Extension(visitor): Extension<Arc<SignedInUser>>,
    Path(id): Path<String>,
) -> Response {
    let result = async {
        let id = DeliveryId::new(&id).map_err(|_| PageError::NotFound("dead letter"))?;
        let hub = &console.zone.hub;
        if hub.store().replay_outbox(&id, hub.now()).await? {
            Ok(())
        } else {
            Err(PageError::NotFound("dead letter"))
        }
    };
    match result.await {
        Ok(()) => see_other("/console/dead-letters"),
        Err(problem) => layout::error_page(&console, Some(&visitor), &problem),
    }
}

async fn body(console: &Console, visitor: &SignedInUser) -> Result<Html, PageError> {
    let store = console.zone.hub.store();
    let query = DeadLetterQuery {
        limit: MAX_ROWS,
        ..DeadLetterQuery::default()
    };
    let dead_letters = store.dead_letters(&query).await?;
    let (waiting, total) = store.outbox_depth().await?;
    let mut out = Html::new();
    html!(out, "<h1>Dead letters</h1><p class=\"lead\">" (format_number(total))
        " failed on the last attempt, " (format_number(waiting)) " pending.</p>");
    if !visitor.rights.change && !dead_letters.is_empty() {
        out.put(&missing_change_scope_notice());
    }
    let mut heads = vec!["Channel", "About", "Owner", "Added", "Attempts", "Error"];
    if visitor.rights.change {
        heads.push("Replay");
    }
    let rows = dead_letters
        .iter()
        .map(|entry| row(&console.names, visitor, entry));
    let empty_text = "No dead letters.";
    html!(out, "<section class=\"card\">" [table(None, &heads, rows, empty_text)] "</section>");
    Ok(out)
}

fn row(names: &ClientNames, visitor: &SignedInUser, entry: &OutboxEntry) -> Html {
    let mut out = Html::new();
    html!(out, "<tr><td data-label=\"Channel\">" (entry.channel) "</td><td data-label=\"About\">");
    match &entry.subject {
        Some(subject) => {
            let (section, id) = match subject {
                Subject::Task(id) => ("tasks", id.as_str()),
                Subject::Stream(id) => ("streams", id.as_str()),
            };
            html!(out, "<a class=\"id\" href=\"/console/" (section) "/" (path_segment(id)) "\">" (id) "</a>");
        }
        None => html!(out, "–"),
    }
    html!(out, "</td><td data-label=\"Owner\" class=\"cut\" title=\"" (entry.owner) "\">" (names.display_name(entry.owner.as_str())) "</td><td data-label=\"Added\">"
        [timestamp(entry.created_at)] "</td><td data-label=\"Attempts\" class=\"n\">" (entry.attempt)
        "</td><td data-label=\"Error\">" (entry.error.as_deref().unwrap_or("–")) "</td>");
    if visitor.rights.change {
        html!(out, "<td data-label=\"Replay\"><form method=\"post\" action=\"/console/dead-letters/"
            (path_segment(entry.id.as_str())) "/replay\">" [csrf_field(visitor)] "<button>Replay</button></form></td>");
    }
    html!(out, "</tr>");
    out
}
