//! Checks the metric names and labels in the dashboard and the alert rules.

use super::metrics::all_metrics;
use super::{files, read_text};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Labels that Prometheus adds.
const PROMETHEUS_LABELS: [&str; 4] = ["le", "job", "instance", "node"];

/// Returns all series with their labels.
fn series() -> BTreeMap<String, Vec<String>> {
    let metrics = all_metrics().into_values();
    metrics
        .flat_map(|metric| {
            metric
                .series
                .into_iter()
                .map(move |name| (name, metric.labels.clone()))
        })
        .collect()
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Returns the series that an expression uses, with the label matchers of each.
fn series_in(expression: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (at, _) in expression.match_indices("interzone_") {
        if expression[..at].ends_with(is_name) {
            continue;
        }
        let text = &expression[at..];
        let end = text.find(|c| !is_name(c)).unwrap_or(text.len());
        let labels = text[end..]
            .strip_prefix('{')
            .and_then(|labels| labels.split_once('}'));
        found.push((
            text[..end].to_owned(),
            labels.map_or(String::new(), |(inner, _)| inner.to_owned()),
        ));
    }
    found
}

/// Returns the error in an expression, if any.
fn expression_error(
    expression: &str,
    all_series: &BTreeMap<String, Vec<String>>,
) -> Option<String> {
    let mut used_labels = BTreeSet::new();
    for (name, labels) in series_in(expression) {
        let Some(valid) = all_series.get(&name) else {
            return Some(format!("unknown metric {name}"));
        };
        used_labels.extend(valid.iter().cloned());
        // Values contain no commas and no equals signs.
        for label in labels.split(',').filter(|label| !label.trim().is_empty()) {
            let label = label.split(['=', '!']).next().unwrap_or_default().trim();
            if !valid.iter().any(|name| name == label) && !PROMETHEUS_LABELS.contains(&label) {
                return Some(format!("{name} has no label {label}"));
            }
        }
    }
    for grouped in expression.split("by (").skip(1) {
        let inner = grouped.split(')').next().unwrap_or_default();
        for label in inner.split(',').map(str::trim) {
            if !used_labels.contains(label) && !PROMETHEUS_LABELS.contains(&label) {
                return Some(format!("no metric in the expression has a label {label}"));
            }
        }
    }
    None
}

#[test]
fn unknown_metrics_and_labels_are_detected() {
    let all_series = series();
    let check = |text: &str, good: bool| {
        assert_eq!(
            expression_error(text, &all_series).is_none(),
            good,
            "{text}"
        )
    };
    check("rate(interzone_requests_total{method=\"a\"}[5m])", true);
    check(
        "sum by (outcome, instance) (interzone_requests_total)",
        true,
    );
    check("rate(interzone_requests[5m])", false);
    check("interzone_requests_total{verb=\"a\"}", false);
    check("sum by (agent) (interzone_requests_total)", false);
    check(
        "histogram_quantile(0.9, sum by (le) (rate(interzone_request_duration_seconds_bucket[5m])))",
        true,
    );
}

fn expressions<'v>(value: &'v Value, found: &mut Vec<&'v str>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                match value {
                    Value::String(text) if name == "expr" => found.push(text),
                    value => expressions(value, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| expressions(item, found)),
        _ => {}
    }
}

#[test]
fn dashboard_uses_existing_metrics_and_shows_all() {
    let all_series = series();
    let mut shown = BTreeSet::new();
    let path = "examples/monitoring/grafana.json";
    let board: Value = serde_json::from_str(&read_text(path)).unwrap();
    let mut found = Vec::new();
    expressions(&board, &mut found);
    for expression in found {
        assert_eq!(
            expression_error(expression, &all_series),
            None,
            "{path}: {expression}"
        );
        shown.extend(series_in(expression).into_iter().map(|(name, _)| name));
    }
    // Every metric must be on the dashboard.
    for (family, metric) in all_metrics() {
        assert!(
            metric.series.iter().any(|name| shown.contains(name)),
            "{path} does not show {family}"
        );
    }
    let panels = board["panels"].as_array().unwrap();
    let ids: BTreeSet<_> = panels
        .iter()
        .map(|panel| panel["id"].as_u64().unwrap())
        .collect();
    assert_eq!(
        ids.len(),
        panels.len(),
        "two panels of {path} have the same id"
    );
}

#[test]
fn alerts_use_existing_metrics() {
    let all_series = series();
    let mut rules = 0;
    for path in files("examples/monitoring", ".yml") {
        let text = read_text(&path);
        for (at, line) in text.lines().enumerate() {
            if let Some(expression) = line.trim().strip_prefix("expr: ") {
                assert_eq!(
                    expression_error(expression, &all_series),
                    None,
                    "{path}:{}",
                    at + 1
                );
                rules += 1;
            }
        }
    }
    assert!(rules > 8, "only {rules} rules found");
}

/// Every alert must be described in the runbook.
#[test]
fn every_alert_is_in_the_runbook() {
    let operations = read_text("docs/operations.md");
    let text = read_text("examples/monitoring/alerts.yml");
    let mut found = 0;
    for name in text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "))
    {
        assert!(
            operations.contains(&format!("`{name}`")),
            "docs/operations.md does not describe {name}"
        );
        found += 1;
    }
    assert!(found > 8, "only {found} alerts found");
}
