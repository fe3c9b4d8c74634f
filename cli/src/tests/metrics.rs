//! Generates the reference of all metrics from the metrics endpoint, after recording one of each. Label values
//! are described in `descriptions`.

use super::descriptions::LABEL_VALUES;
use super::tables::{cell_text, code, page_header, table};
use super::{assert_current, files, read_text};
use interzone_edge::telemetry::Metrics;
use std::collections::BTreeMap;
use std::time::Duration;

/// A metric in Prometheus format.
#[derive(Debug, Default)]
pub(super) struct Metric {
    pub(super) kind: String,
    pub(super) help: String,
    pub(super) labels: Vec<String>,
    /// Names of its series.
    pub(super) series: Vec<String>,
}

/// Returns all metrics by family name.
pub(super) fn all_metrics() -> BTreeMap<String, Metric> {
    let metrics = Metrics::new();
    metrics.record_request("a", "b", 0.1);
    metrics.record_rejected("a");
    metrics.record_connection_rejected("a");
    metrics.record_client_terminations("a", 1);
    metrics.record_handshake("a");
    metrics.record_rate_limited();
    metrics.record_auth_failure("a");
    metrics.set_queue(0, 0);
    metrics.set_outbox(0, 0);
    metrics.record_webhook("a");
    metrics.record_agent_run("a", "b", Duration::from_secs(1));
    metrics.record_audit_dropped();
    metrics.record_request_log_dropped(1);
    let _open = (metrics.track_connection(), metrics.track_watcher("a"));
    let mut found: BTreeMap<String, Metric> = BTreeMap::new();
    for line in metrics.encode().lines() {
        if let Some(text) = line.strip_prefix("# HELP ") {
            let (name, help) = text.split_once(' ').unwrap();
            found.entry(name.to_owned()).or_default().help = help.trim_end_matches('.').to_owned();
        } else if let Some(text) = line.strip_prefix("# TYPE ") {
            let (name, kind) = text.split_once(' ').unwrap();
            found.entry(name.to_owned()).or_default().kind = kind.to_owned();
        } else if !line.starts_with('#') {
            let (series, labels) = match line.split_once('{') {
                Some((series, labels)) => (series, labels.split_once('}').unwrap().0),
                None => (line.split_once(' ').unwrap().0, ""),
            };
            let matches = |family: &&String| series.starts_with(family.as_str());
            let family = found
                .keys()
                .filter(matches)
                .max_by_key(|family| family.len());
            let family = family.unwrap().clone();
            let metric = found.get_mut(&family).unwrap();
            let names = labels.split(',').filter_map(|label| label.split_once('='));
            for name in names.map(|(name, _)| name).filter(|name| *name != "le") {
                if !metric.labels.iter().any(|label| label == name) {
                    metric.labels.push(name.to_owned());
                }
            }
            if !metric.series.iter().any(|name| name == series) {
                metric.series.push(series.to_owned());
            }
        }
    }
    found
}

#[test]
fn reference_of_metrics_is_current() {
    let all = all_metrics();
    // All registered metrics must be recorded above.
    let source = read_text("edge/src/telemetry/metrics.rs");
    let product = source.split("#[cfg(test)]").next().unwrap();
    let registered =
        product.matches(": register(").count() + product.matches("register_histogram(").count();
    assert_eq!(
        registered,
        all.len(),
        "record one of each in `all_metrics`: {:?}",
        all.keys()
    );

    let mut page = page_header("Metrics reference", "the output of `/metrics`");
    page.push_str(
        "`GET /metrics` returns OpenMetrics, for Prometheus and compatible collectors. It needs a token with the \
         scope `interzone:operate`, unless `metrics.public = true`; a Verification Zone serves it only then. \
         [Operations](../operations.md#metrics) describes how to collect them and what to monitor. All values are \
         of one node since its start, except `interzone_queue` and `interzone_outbox`, which are of the entire \
         store.\n\n",
    );
    let rows: Vec<_> = all
        .iter()
        .map(|(name, metric)| {
            let name = match metric.kind.as_str() {
                "counter" => format!("{name}_total"),
                _ => name.clone(),
            };
            let labels = metric
                .labels
                .iter()
                .map(|label| code(label))
                .collect::<Vec<_>>();
            vec![
                code(&name),
                metric.kind.clone(),
                labels.join(", "),
                cell_text(&metric.help),
            ]
        })
        .collect();
    page.push_str(&table(&["metric", "type", "labels", ""], &rows));
    page.push_str(
        "A histogram has three series: `_bucket` (with `le`), `_sum` and `_count`. No label contains data \
         sent by a caller.\n\n## Label values\n\n",
    );
    let mut described = Vec::new();
    for (metric, label, values) in LABEL_VALUES {
        let family = all
            .get(*metric)
            .unwrap_or_else(|| panic!("unknown metric {metric}"));
        assert!(
            family.labels.iter().any(|name| name == label),
            "{metric} has no {label}"
        );
        described.push((*metric, *label));
        page.push_str(&format!("### `{label}` of `{metric}`\n\n"));
        let rows: Vec<_> = values
            .iter()
            .map(|(value, text)| {
                // Descriptions are not formatted as code.
                let value = if value.contains(' ') {
                    cell_text(value)
                } else {
                    code(value)
                };
                vec![value, cell_text(text)]
            })
            .collect();
        page.push_str(&table(&["value", ""], &rows));
    }
    for (name, metric) in &all {
        for label in &metric.labels {
            let is_described = described.contains(&(name.as_str(), label.as_str()));
            assert!(
                is_described,
                "descriptions.rs does not describe the values of `{label}` of {name}"
            );
        }
    }
    assert_current("docs/reference/metrics.md", &page);
}

/// Every described label value must occur in the source.
#[test]
fn described_label_values_are_in_the_source() {
    let product: String = [
        "edge/src",
        "execution/src",
        "verification/src",
        "protocol/src",
        "jsonrpc/src",
        "cli/src/wiring",
    ]
    .iter()
    .flat_map(|folder| files(folder, ".rs"))
    .map(|path| read_text(&path))
    .collect();
    for (metric, label, values) in LABEL_VALUES {
        for (value, _) in values.iter().filter(|(value, _)| !value.contains(' ')) {
            let literal = format!("\"{value}\"");
            assert!(
                product.contains(&literal),
                "{literal}, {label} of {metric}, is not in the source"
            );
        }
    }
}
