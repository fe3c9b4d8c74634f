//! Holds the dashboard and the alert rules to the metrics that there are: their names, and their labels.

use super::metrics::all;
use super::{files, text_of};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Labels that Prometheus adds itself.
const ADDED: [&str; 4] = ["le", "job", "instance", "node"];

/// Every series there is, with its labels.
fn series() -> BTreeMap<String, Vec<String>> {
    let metrics = all().into_values();
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

/// The series that an expression names, with what stands between braces behind each.
fn named(expression: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (at, _) in expression.match_indices("interzone_") {
        if expression[..at].ends_with(is_name) {
            continue;
        }
        let rest = &expression[at..];
        let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        let labels = rest[end..]
            .strip_prefix('{')
            .and_then(|rest| rest.split_once('}'));
        found.push((
            rest[..end].to_owned(),
            labels.map_or(String::new(), |(inner, _)| inner.to_owned()),
        ));
    }
    found
}

/// What is wrong with an expression.
fn wrong(expression: &str, known: &BTreeMap<String, Vec<String>>) -> Option<String> {
    let mut labels_of_all = BTreeSet::new();
    for (name, labels) in named(expression) {
        let Some(there) = known.get(&name) else {
            return Some(format!("there is no {name}"));
        };
        labels_of_all.extend(there.iter().cloned());
        // Values hold no commas and no equals signs.
        for label in labels.split(',').filter(|label| !label.trim().is_empty()) {
            let label = label.split(['=', '!']).next().unwrap_or_default().trim();
            if !there.iter().any(|known| known == label) && !ADDED.contains(&label) {
                return Some(format!("{name} has no label {label}"));
            }
        }
    }
    for grouped in expression.split("by (").skip(1) {
        let inner = grouped.split(')').next().unwrap_or_default();
        for label in inner.split(',').map(str::trim) {
            if !labels_of_all.contains(label) && !ADDED.contains(&label) {
                return Some(format!("nothing there has a label {label}"));
            }
        }
    }
    None
}

#[test]
fn a_wrong_name_is_seen() {
    let known = series();
    let check = |text: &str, good: bool| assert_eq!(wrong(text, &known).is_none(), good, "{text}");
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
fn dashboards_show_metrics_that_there_are() {
    let known = series();
    let mut seen = BTreeSet::new();
    let path = "examples/monitoring/grafana.json";
    let board: Value = serde_json::from_str(&text_of(path)).unwrap();
    let mut found = Vec::new();
    expressions(&board, &mut found);
    for expression in found {
        assert_eq!(wrong(expression, &known), None, "{path}: {expression}");
        seen.extend(named(expression).into_iter().map(|(name, _)| name));
    }
    // Every metric is somewhere on the board: what is not looked at need not be counted.
    for (family, metric) in all() {
        assert!(
            metric.series.iter().any(|name| seen.contains(name)),
            "{path} does not show {family}"
        );
    }
    let panels = board["panels"].as_array().unwrap();
    let ids: BTreeSet<_> = panels
        .iter()
        .map(|panel| panel["id"].as_u64().unwrap())
        .collect();
    assert_eq!(ids.len(), panels.len(), "two panels of {path} have one id");
}

#[test]
fn alerts_are_about_metrics_that_there_are() {
    let known = series();
    let mut rules = 0;
    for path in files("examples/monitoring", ".yml") {
        let text = text_of(&path);
        for (at, line) in text.lines().enumerate() {
            if let Some(expression) = line.trim().strip_prefix("expr: ") {
                assert_eq!(wrong(expression, &known), None, "{path}:{}", at + 1);
                rules += 1;
            }
        }
    }
    assert!(rules > 8, "only {rules} rules found");
}

/// Whoever is woken by an alert finds its name in the page on operations.
#[test]
fn every_alert_has_its_lines_in_operations() {
    let operations = text_of("docs/operations.md");
    let text = text_of("examples/monitoring/alerts.yml");
    let mut found = 0;
    for name in text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "))
    {
        assert!(
            operations.contains(&format!("`{name}`")),
            "docs/operations.md does not tell of {name}"
        );
        found += 1;
    }
    assert!(found > 8, "only {found} alerts found");
}
