//! The reference of every metric: names, kinds and labels are told by a node that has counted one of
//! each. What the values of labels mean is in `words`.

use super::tables::{code, opening, table, words};
use super::words::LABELS;
use super::{files, is_current, text_of};
use interzone_edge::telemetry::Metrics;
use std::collections::BTreeMap;
use std::time::Duration;

/// A metric as Prometheus sees it.
#[derive(Debug, Default)]
pub(super) struct Metric {
    pub(super) kind: String,
    pub(super) help: String,
    pub(super) labels: Vec<String>,
    /// The names of its lines.
    pub(super) series: Vec<String>,
}

/// All metrics, by the name of their family.
pub(super) fn all() -> BTreeMap<String, Metric> {
    let metrics = Metrics::new();
    metrics.request("a", "b", 0.1);
    metrics.turned_away("a");
    metrics.connection_refused("a");
    metrics.cut_off("a", 1);
    metrics.handshake("a");
    metrics.rate_limited();
    metrics.auth_refused("a");
    metrics.queue(0, 0);
    metrics.outbox(0, 0);
    metrics.webhook("a");
    metrics.agent_run("a", "b", Duration::from_secs(1));
    metrics.audit_dropped();
    metrics.pairs_dropped(1);
    let _open = (metrics.connection(), metrics.watcher("a"));
    let mut found: BTreeMap<String, Metric> = BTreeMap::new();
    for line in metrics.encode().lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            found.entry(name.to_owned()).or_default().help = help.trim_end_matches('.').to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            found.entry(name.to_owned()).or_default().kind = kind.to_owned();
        } else if !line.starts_with('#') {
            let (series, labels) = match line.split_once('{') {
                Some((series, rest)) => (series, rest.split_once('}').unwrap().0),
                None => (line.split_once(' ').unwrap().0, ""),
            };
            let of = |family: &&String| series.starts_with(family.as_str());
            let family = found.keys().filter(of).max_by_key(|family| family.len());
            let family = family.unwrap().clone();
            let metric = found.get_mut(&family).unwrap();
            let names = labels.split(',').filter_map(|label| label.split_once('='));
            for name in names.map(|(name, _)| name).filter(|name| *name != "le") {
                if !metric.labels.iter().any(|known| known == name) {
                    metric.labels.push(name.to_owned());
                }
            }
            if !metric.series.iter().any(|known| known == series) {
                metric.series.push(series.to_owned());
            }
        }
    }
    found
}

#[test]
fn reference_of_metrics_is_current() {
    let all = all();
    // What is registered is what was counted above: a new one must be counted there too.
    let source = text_of("edge/src/telemetry/metrics.rs");
    let product = source.split("#[cfg(test)]").next().unwrap();
    let registered = product.matches("with(").count() + product.matches("times(").count();
    assert_eq!(
        registered,
        all.len(),
        "count one of each in `all`: {:?}",
        all.keys()
    );

    let mut page = opening("Every metric", "what a node says at `/metrics`");
    page.push_str(
        "`GET /metrics` speaks OpenMetrics, for Prometheus and all that read it. It needs a token with the \
         scope `interzone:operate`, unless `metrics.public = true`; a Verification Zone has it only then. \
         [Operations](../operations.md#metrics) tells how to collect them and what to watch. All values are \
         of one node since it began, but for `interzone_queue` and `interzone_outbox`, which are of the \
         whole store.\n\n",
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
                words(&metric.help),
            ]
        })
        .collect();
    page.push_str(&table(&["metric", "kind", "labels", ""], &rows));
    page.push_str(
        "A histogram is three series: `_bucket` (with `le`), `_sum` and `_count`. No label holds anything \
         that a caller sent.\n\n## What the labels say\n\n",
    );
    let mut told = Vec::new();
    for (metric, label, values) in LABELS {
        let family = all
            .get(*metric)
            .unwrap_or_else(|| panic!("there is no {metric}"));
        assert!(
            family.labels.iter().any(|known| known == label),
            "{metric} has no {label}"
        );
        told.push((*metric, *label));
        page.push_str(&format!("### `{label}` of `{metric}`\n\n"));
        let rows: Vec<_> = values
            .iter()
            .map(|(value, said)| {
                // A description is no value.
                let value = if value.contains(' ') {
                    words(value)
                } else {
                    code(value)
                };
                vec![value, words(said)]
            })
            .collect();
        page.push_str(&table(&["value", ""], &rows));
    }
    for (name, metric) in &all {
        for label in &metric.labels {
            let is_told = told.contains(&(name.as_str(), label.as_str()));
            assert!(
                is_told,
                "LABELS does not tell what `{label}` of {name} may be"
            );
        }
    }
    is_current("docs/reference/metrics.md", &page);
}

/// Every value that is told of is written somewhere in the product.
#[test]
fn values_of_labels_are_in_the_code() {
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
    .map(|path| text_of(&path))
    .collect();
    for (metric, label, values) in LABELS {
        for (value, _) in values.iter().filter(|(value, _)| !value.contains(' ')) {
            let literal = format!("\"{value}\"");
            assert!(
                product.contains(&literal),
                "nobody says {literal}, as {label} of {metric}"
            );
        }
    }
}
