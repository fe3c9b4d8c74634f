//! Topics: who listens to what, and what nobody took.

use super::{Asked, card, table};
use crate::console::Console;
use crate::console::guard::Visitor;
use crate::console::html::{Html, html};
use crate::console::layout::{self, Problem};
use crate::console::names::Names;
use crate::console::words::{age, badge, moment, number, subscription_tone};
use axum::Extension;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use interzone_hub::ports::SubscriptionQuery;
use interzone_hub::{SignalDelivery, Subscription};
use interzone_protocol::vocab::Timestamp;
use std::sync::Arc;

const ROWS: usize = 50;
const BURIED: usize = 50;

/// `GET /console/topics`.
pub(in crate::console) async fn page(
    State(console): State<Arc<Console>>,
    Extension(visitor): Extension<Arc<Visitor>>,
    uri: Uri,
) -> Response {
    let body = body(&console, &visitor, &Asked::of(&uri)).await;
    layout::page(&console, &visitor, "/console/topics", "Topics", body)
}

async fn body(console: &Console, visitor: &Visitor, asked: &Asked) -> Result<Html, Problem> {
    let hub = &console.zone.hub;
    let offset = asked.get("from").and_then(|from| from.parse().ok());
    let offset: usize = offset.unwrap_or(0);
    let query = SubscriptionQuery {
        offset,
        limit: ROWS,
        ..SubscriptionQuery::default()
    };
    let (found, all) = hub.list_subscriptions(&visitor.caller, query).await?;
    let buried = hub.store().buried_signals(BURIED).await?;
    let now = hub.now();
    let mut out = Html::new();
    html!(out, "<h1>Topics</h1><section class=\"card\"><h2>Subscriptions <span class=\"soft\">"
        (number(all)) "</span></h2>");
    let heads = ["State", "Topics", "Owner", "Age", "Until", "Subscription"];
    let rows = found
        .iter()
        .map(|one| subscription(&console.names, one, now));
    out.put(&table(None, &heads, rows, "Nobody listens to a topic."));
    html!(out, "<nav class=\"turn\" aria-label=\"Pages\">");
    let shown = offset.saturating_add(found.len());
    if offset > 0 {
        html!(
            out,
            "<a class=\"button\" href=\"/console/topics\">First</a>"
        );
    }
    if u64::try_from(shown).unwrap_or(u64::MAX) < all {
        html!(out, "<a class=\"button\" rel=\"next\" href=\"/console/topics?from=" (shown) "\">Newer</a>");
    }
    html!(out, "</nav></section>");
    let heads = [
        "Topic",
        "Publisher",
        "Published",
        "Attempts",
        "Subscription",
    ];
    let none = "No signal was given up.";
    let rows = buried.iter().map(|one| signal(&console.names, one));
    let table = table(None, &heads, rows, none);
    out.put(&card("Signals that were given up", &table));
    Ok(out)
}

fn subscription(names: &Names, one: &Subscription, now: Timestamp) -> Html {
    let mut out = Html::new();
    html!(out, "<tr><td data-label=\"State\">" [badge(subscription_tone(one.state), one.state.name())]
        "</td><td data-label=\"Topics\">");
    for pattern in &one.patterns {
        html!(out, "<code class=\"topic\">" (pattern) "</code> ");
    }
    html!(out, "</td><td data-label=\"Owner\" class=\"cut\" title=\"" (one.owner) "\">" (names.called(one.owner.as_str())) "</td><td data-label=\"Age\" class=\"n\">"
        [age(one.created_at, now)] "</td><td data-label=\"Until\">");
    match one.expires_at {
        Some(at) => html!(out, [moment(at)]),
        None => html!(out, "–"),
    }
    html!(out, "</td><td data-label=\"Subscription\" class=\"id\">" (one.id) "</td></tr>");
    out
}

fn signal(names: &Names, one: &SignalDelivery) -> Html {
    let mut out = Html::new();
    html!(out, "<tr><td data-label=\"Topic\"><code class=\"topic\">" (one.signal.topic)
        "</code></td><td data-label=\"Publisher\" title=\"" (one.signal.publisher) "\">" (names.called(one.signal.publisher.as_str()))
        "</td><td data-label=\"Published\">" [moment(one.signal.at)]
        "</td><td data-label=\"Attempts\" class=\"n\">" (one.attempt)
        "</td><td data-label=\"Subscription\" class=\"id\">" (one.subscription_id) "</td></tr>");
    out
}
