//! Topics: subscriptions and undeliverable signals.

use super::{QueryParams, card, table};
use crate::console::Console;
use crate::console::auth_middleware::SignedInUser;
use crate::console::client_names::ClientNames;
use crate::console::format::{badge, format_number, relative_time, subscription_tone, timestamp};
use crate::console::layout::{self, PageError};
use axum::Extension;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use interzone_edge::html::{Html, html};
use interzone_hub::ports::SubscriptionQuery;
use interzone_hub::{SignalDelivery, Subscription};
use interzone_protocol::vocab::Timestamp;
use std::sync::Arc;

const PAGE_SIZE: usize = 50;
const MAX_DEAD_SIGNALS: usize = 50;

/// `GET /console/topics`.
pub(in crate::console) async fn page(
    State(console): State<Arc<Console>>,
    Extension(visitor): Extension<Arc<SignedInUser>>,
    uri: Uri,
) -> Response {
    let body = body(&console, &visitor, &QueryParams::from_uri(&uri)).await;
    layout::page(&console, &visitor, "/console/topics", "Topics", body)
}

async fn body(
    console: &Console,
    visitor: &SignedInUser,
    params: &QueryParams,
) -> Result<Html, PageError> {
    let hub = &console.zone.hub;
    let offset = params.get("from").and_then(|from| from.parse().ok());
    let offset: usize = offset.unwrap_or(0);
    let query = SubscriptionQuery {
        offset,
        limit: PAGE_SIZE,
        ..SubscriptionQuery::default()
    };
    let (subscriptions, total) = hub.list_subscriptions(&visitor.caller, query).await?;
    let dead_signals = hub.store().dead_signals(MAX_DEAD_SIGNALS).await?;
    let now = hub.now();
    let mut out = Html::new();
    html!(out, "<h1>Topics</h1><section class=\"card\"><h2>Subscriptions <span class=\"soft\">"
        (format_number(total)) "</span></h2>");
    let heads = ["State", "Topics", "Owner", "Age", "Until", "Subscription"];
    let rows = subscriptions
        .iter()
        .map(|one| subscription_row(&console.names, one, now));
    out.put(&table(None, &heads, rows, "No subscriptions."));
    html!(out, "<nav class=\"turn\" aria-label=\"Pages\">");
    let shown = offset.saturating_add(subscriptions.len());
    if offset > 0 {
        html!(
            out,
            "<a class=\"button\" href=\"/console/topics\">First</a>"
        );
    }
    if u64::try_from(shown).unwrap_or(u64::MAX) < total {
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
    let empty_text = "No undeliverable signals.";
    let rows = dead_signals
        .iter()
        .map(|one| signal_row(&console.names, one));
    let table = table(None, &heads, rows, empty_text);
    out.put(&card("Undeliverable signals", &table));
    Ok(out)
}

fn subscription_row(names: &ClientNames, one: &Subscription, now: Timestamp) -> Html {
    let mut out = Html::new();
    html!(out, "<tr><td data-label=\"State\">" [badge(subscription_tone(one.state), one.state.name())]
        "</td><td data-label=\"Topics\">");
    for pattern in &one.patterns {
        html!(out, "<code class=\"topic\">" (pattern) "</code> ");
    }
    html!(out, "</td><td data-label=\"Owner\" class=\"cut\" title=\"" (one.owner) "\">" (names.display_name(one.owner.as_str())) "</td><td data-label=\"Age\" class=\"n\">"
        [relative_time(one.created_at, now)] "</td><td data-label=\"Until\">");
    match one.expires_at {
        Some(at) => html!(out, [timestamp(at)]),
        None => html!(out, "–"),
    }
    html!(out, "</td><td data-label=\"Subscription\" class=\"id\">" (one.id) "</td></tr>");
    out
}

fn signal_row(names: &ClientNames, one: &SignalDelivery) -> Html {
    let mut out = Html::new();
    html!(out, "<tr><td data-label=\"Topic\"><code class=\"topic\">" (one.signal.topic)
        "</code></td><td data-label=\"Publisher\" title=\"" (one.signal.publisher) "\">" (names.display_name(one.signal.publisher.as_str()))
        "</td><td data-label=\"Published\">" [timestamp(one.signal.at)]
        "</td><td data-label=\"Attempts\" class=\"n\">" (one.attempt)
        "</td><td data-label=\"Subscription\" class=\"id\">" (one.subscription_id) "</td></tr>");
    out
}
