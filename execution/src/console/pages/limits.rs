//! Quotas and refusals: who was turned away, how often and why, and what lately went wrong.

use super::{card, pair_table, table};
use crate::console::Console;
use crate::console::guard::Visitor;
use crate::console::html::{Html, html};
use crate::console::layout::{self, Problem};
use crate::console::samples::Figures;
use crate::console::words::{badge, bytes, figure, number, roughly};
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use interzone_hub::ports::PairQuery;
use std::sync::Arc;

/// Among how many requests those are looked for that went wrong.
const LOOKED: usize = 500;
const SHOWN: usize = 50;
/// How many clients are shown with what they use.
const BUSIEST: usize = 20;

/// `GET /console/limits`.
pub(in crate::console) async fn page(
    State(console): State<Arc<Console>>,
    Extension(visitor): Extension<Arc<Visitor>>,
) -> Response {
    let body = body(&console).await;
    layout::page(&console, &visitor, "/console/limits", "Limits", body)
}

async fn body(console: &Console) -> Result<Html, Problem> {
    let figures = Figures::read(&console.zone.metrics.encode());
    let query = PairQuery {
        limit: LOOKED,
        ..PairQuery::default()
    };
    let mut pairs = console.zone.hub.store().pairs(&query).await?;
    pairs.retain(|pair| pair.code.is_some());
    pairs.truncate(SHOWN);
    let mut out = Html::new();
    html!(out, "<h1>Limits and refusals</h1><p class=\"lead\">Of this node, since it began.</p>"
        "<div class=\"two\">");
    out.put(&card("Refused before their call", &refusals(&figures)));
    out.put(&card("Calls that went wrong", &wrong(&figures)));
    html!(out, "</div>");
    let none = "None of the latest requests that were noted went wrong.";
    out.put(&card(
        "Latest errors",
        &pair_table(&console.names, &pairs, true, none),
    ));
    out.put(&card("Quotas", &quotas(console)));
    out.put(&card("What may be asked of this node", &limits(console)));
    Ok(out)
}

/// How much of what they may the busiest clients ask for.
fn quotas(console: &Console) -> Html {
    let mut out = Html::new();
    let Some((per_minute, burst)) = console.zone.rate.rule() else {
        html!(out, "<p>Nobody's requests are limited by their number.</p>");
        return out;
    };
    html!(out, "<p>Each client may send " (number(per_minute.into())) " requests a minute, "
        (number(burst.into())) " of them at once.</p>");
    let rows = console.zone.rate.busiest(BUSIEST);
    let rows = rows.into_iter().map(|(client, percent)| {
        let mut out = Html::new();
        let tone = match percent {
            0..60 => "good",
            60..95 => "wait",
            _ => "bad",
        };
        html!(out, "<tr><td data-label=\"Client\" title=\"" (client) "\">" (console.names.called(&client)) "</td><td data-label=\"Used now\">"
            [badge(tone, &format!("{percent} %"))] "</td></tr>");
        out
    });
    let none = "Nobody is using any of it at this moment.";
    html!(out, [table(None, &["Client", "Used now"], rows, none)]);
    out
}

fn refusals(figures: &Figures) -> Html {
    let mut rows = Vec::new();
    let mut add = |why: &str, detail: &str, count: f64| {
        if count > 0.0 {
            let mut out = Html::new();
            html!(out, "<tr><td data-label=\"Why\">" (why) " <code>" (detail)
                "</code></td><td data-label=\"Count\" class=\"n\">" (figure(count)) "</td></tr>");
            rows.push(out);
        }
    };
    add(
        "rate limit",
        "rate_limited",
        figures.sum("interzone_rate_limited_total"),
    );
    for ([reason], count) in figures.by("interzone_auth_refusals_total", ["reason"]) {
        add("token", &reason, count);
    }
    for ([reason], count) in figures.by("interzone_requests_turned_away_total", ["reason"]) {
        add("turned away", &reason, count);
    }
    table(None, &["Why", "Count"], rows, "Nobody was refused.")
}

fn wrong(figures: &Figures) -> Html {
    let calls = figures.by("interzone_requests_total", ["method", "outcome"]);
    let bad = calls
        .iter()
        .filter(|([_, outcome], _)| !["ok", "streaming"].contains(&outcome.as_str()));
    let mut bad: Vec<_> = bad.collect();
    bad.sort_by(|a, b| b.1.total_cmp(a.1));
    let rows = bad.into_iter().map(|([method, outcome], count)| {
        let mut out = Html::new();
        html!(out, "<tr><td data-label=\"Method\"><code>" (method)
            "</code></td><td data-label=\"Outcome\">" (outcome)
            "</td><td data-label=\"Count\" class=\"n\">" (figure(*count)) "</td></tr>");
        out
    });
    table(None, &["Method", "Outcome", "Count"], rows, "None did.")
}

fn limits(console: &Console) -> Html {
    let limits = &console.zone.limits;
    let count = |value: usize| number(u64::try_from(value).unwrap_or(u64::MAX));
    let mut out = Html::new();
    html!(out, "<dl class=\"facts\">");
    for (name, value) in [
        (
            "Body of a request",
            bytes(u64::try_from(limits.body).unwrap_or(u64::MAX)),
        ),
        ("Messages of a batch", count(console.zone.batch)),
        ("Connections", count(limits.connections)),
        ("Requests at once", count(limits.requests)),
        ("Watches of one caller", count(limits.watches)),
        ("Time for an answer", roughly(limits.request_time)),
    ] {
        html!(out, "<div><dt>" (name) "</dt><dd>" (value) "</dd></div>");
    }
    html!(out, "</dl>");
    out
}
