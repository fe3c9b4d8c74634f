//! Limits, quotas, rejected requests and recent errors.

use super::{card, request_table, table};
use crate::console::Console;
use crate::console::auth_middleware::SignedInUser;
use crate::console::format::{badge, duration_short, format_bytes, format_count, format_number};
use crate::console::layout::{self, PageError};
use crate::console::metrics_history::MetricsSnapshot;
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use interzone_edge::html::{Html, html};
use interzone_hub::ports::RequestQuery;
use std::sync::Arc;

/// Number of recent requests searched for errors.
const MAX_SEARCHED: usize = 500;
const MAX_SHOWN: usize = 50;
/// Maximum number of clients shown with their quota.
const MAX_CLIENTS: usize = 20;

/// `GET /console/limits`.
pub(in crate::console) async fn page(
    State(console): State<Arc<Console>>,
    Extension(visitor): Extension<Arc<SignedInUser>>,
) -> Response {
    let body = body(&console).await;
    layout::page(&console, &visitor, "/console/limits", "Limits", body)
}

async fn body(console: &Console) -> Result<Html, PageError> {
    let metrics = MetricsSnapshot::parse(&console.zone.metrics.encode());
    let query = RequestQuery {
        limit: MAX_SEARCHED,
        ..RequestQuery::default()
    };
    let mut requests = console.zone.hub.store().find_requests(&query).await?;
    requests.retain(|pair| pair.code.is_some());
    requests.truncate(MAX_SHOWN);
    let mut out = Html::new();
    html!(out, "<h1>Limits and rejected requests</h1><p class=\"lead\">This node, since start.</p>"
        "<div class=\"two\">");
    out.put(&card(
        "Rejected requests (authentication, limits)",
        &rejected_requests(&metrics),
    ));
    out.put(&card("Failed calls", &failed_calls(&metrics)));
    html!(out, "</div>");
    let empty_text = "No errors in the latest logged requests.";
    out.put(&card(
        "Latest errors",
        &request_table(&console.names, &requests, true, empty_text),
    ));
    out.put(&card("Quotas", &quotas(console)));
    out.put(&card("Limits of this node", &limits(console)));
    Ok(out)
}

/// Quota usage of the busiest clients.
fn quotas(console: &Console) -> Html {
    let mut out = Html::new();
    let Some((per_minute, burst)) = console.zone.rate.quota() else {
        html!(out, "<p>No rate limit is set.</p>");
        return out;
    };
    html!(out, "<p>Each client may send " (format_number(per_minute.into())) " requests per minute, in bursts of up to "
        (format_number(burst.into())) ".</p>");
    let rows = console.zone.rate.top_keys(MAX_CLIENTS);
    let rows = rows.into_iter().map(|(client, percent)| {
        let mut out = Html::new();
        let tone = match percent {
            0..60 => "good",
            60..95 => "wait",
            _ => "bad",
        };
        html!(out, "<tr><td data-label=\"Client\" title=\"" (client) "\">" (console.names.display_name(&client)) "</td><td data-label=\"Used now\">"
            [badge(tone, &format!("{percent} %"))] "</td></tr>");
        out
    });
    let empty_text = "No client is using its quota.";
    html!(
        out,
        [table(None, &["Client", "Used now"], rows, empty_text)]
    );
    out
}

fn rejected_requests(metrics: &MetricsSnapshot) -> Html {
    let mut rows = Vec::new();
    let mut add = |category: &str, detail: &str, count: f64| {
        if count > 0.0 {
            let mut out = Html::new();
            html!(out, "<tr><td data-label=\"Reason\">" (category) " <code>" (detail)
                "</code></td><td data-label=\"Count\" class=\"n\">" (format_count(count)) "</td></tr>");
            rows.push(out);
        }
    };
    add(
        "rate limit",
        "rate_limited",
        metrics.sum("interzone_rate_limited_total"),
    );
    for ([reason], count) in metrics.group_by("interzone_auth_failures_total", ["reason"]) {
        add("token", &reason, count);
    }
    for ([reason], count) in metrics.group_by("interzone_requests_rejected_total", ["reason"]) {
        add("rejected", &reason, count);
    }
    table(None, &["Reason", "Count"], rows, "No rejected requests.")
}

fn failed_calls(metrics: &MetricsSnapshot) -> Html {
    let calls = metrics.group_by("interzone_requests_total", ["method", "outcome"]);
    let failed = calls
        .iter()
        .filter(|([_, outcome], _)| !["ok", "streaming"].contains(&outcome.as_str()));
    let mut failed: Vec<_> = failed.collect();
    failed.sort_by(|a, b| b.1.total_cmp(a.1));
    let rows = failed.into_iter().map(|([method, outcome], count)| {
        let mut out = Html::new();
        html!(out, "<tr><td data-label=\"Method\"><code>" (method)
            "</code></td><td data-label=\"Outcome\">" (outcome)
            "</td><td data-label=\"Count\" class=\"n\">" (format_count(*count)) "</td></tr>");
        out
    });
    table(None, &["Method", "Outcome", "Count"], rows, "None.")
}

fn limits(console: &Console) -> Html {
    let limits = &console.zone.limits;
    let count = |value: usize| format_number(u64::try_from(value).unwrap_or(u64::MAX));
    let mut out = Html::new();
    html!(out, "<dl class=\"facts\">");
    for (name, value) in [
        (
            "Request body",
            format_bytes(u64::try_from(limits.body_bytes).unwrap_or(u64::MAX)),
        ),
        ("Messages per batch", count(console.zone.batch_limit)),
        ("Connections", count(limits.connections)),
        ("Concurrent requests", count(limits.requests)),
        ("Watches per caller", count(limits.watches_per_principal)),
        ("Request timeout", duration_short(limits.request_timeout)),
    ] {
        html!(out, "<div><dt>" (name) "</dt><dd>" (value) "</dd></div>");
    }
    html!(out, "</dl>");
    out
}
