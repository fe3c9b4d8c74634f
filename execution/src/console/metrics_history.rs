//! Metrics of the last hour, sampled every few seconds from the node's own `/metrics` text.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Interval between samples.
pub(super) const SAMPLE_INTERVAL: Duration = Duration::from_secs(10);
/// Number of samples kept: one hour.
pub(super) const MAX_SAMPLES: usize = 360;
/// Outcomes of successful calls.
const SUCCESS_OUTCOMES: [&str; 2] = ["ok", "streaming"];
/// Metrics that count requests rejected before dispatch.
const REJECTION_METRICS: [&str; 3] = [
    "interzone_rate_limited_total",
    "interzone_auth_failures_total",
    "interzone_requests_rejected_total",
];

/// Metric values since the node started.
#[derive(Clone, Debug, Default)]
pub(super) struct MetricsSnapshot(Vec<MetricValue>);

#[derive(Clone, Debug)]
struct MetricValue {
    name: String,
    labels: Vec<(String, String)>,
    value: f64,
}

impl MetricValue {
    fn label(&self, name: &str) -> &str {
        let found = self.labels.iter().find(|(label, _)| label == name);
        found.map_or("", |(_, value)| value)
    }
}

impl MetricsSnapshot {
    /// Parses metrics text. Label values are our own or come from the configuration, so quotes and commas
    /// inside them are not handled.
    pub(super) fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        Self(lines.filter_map(parse_line).collect())
    }

    fn named<'f>(&'f self, name: &'f str) -> impl Iterator<Item = &'f MetricValue> {
        self.0.iter().filter(move |figure| figure.name == name)
    }

    /// Sum of all values of this metric.
    pub(super) fn sum(&self, name: &str) -> f64 {
        self.named(name).map(|figure| figure.value).sum()
    }

    /// Sum of the values of this metric with this label value.
    pub(super) fn sum_where(&self, name: &str, label: &str, value: &str) -> f64 {
        let matching = self.named(name).filter(|one| one.label(label) == value);
        matching.map(|figure| figure.value).sum()
    }

    /// Values of this metric grouped by labels, sorted by label values.
    pub(super) fn group_by<const N: usize>(
        &self,
        name: &str,
        labels: [&str; N],
    ) -> BTreeMap<[String; N], f64> {
        let mut groups = BTreeMap::new();
        for figure in self.named(name) {
            let key = labels.map(|label| figure.label(label).to_owned());
            *groups.entry(key).or_insert(0.0) += figure.value;
        }
        groups
    }

    fn errors(&self) -> f64 {
        let calls = self.named("interzone_requests_total");
        let bad = calls.filter(|call| !SUCCESS_OUTCOMES.contains(&call.label("outcome")));
        bad.map(|figure| figure.value).sum()
    }

    /// Cumulative latency histogram: (upper bound in seconds, number of calls), ascending.
    fn buckets(&self) -> Vec<(f64, f64)> {
        let mut all: Vec<(f64, f64)> = Vec::new();
        for figure in self.named("interzone_request_duration_seconds_bucket") {
            let Ok(limit) = figure.label("le").replace("+Inf", "inf").parse::<f64>() else {
                continue;
            };
            match all.iter_mut().find(|(bound, _)| *bound == limit) {
                Some((_, count)) => *count += figure.value,
                None => all.push((limit, figure.value)),
            }
        }
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        all
    }
}

fn parse_line(line: &str) -> Option<MetricValue> {
    let (head, value) = line.rsplit_once(' ')?;
    let value = value.parse().ok()?;
    let (name, labels) = match head.split_once('{') {
        Some((name, labels)) => (name, labels.strip_suffix('}')?),
        None => (head, ""),
    };
    let labels = labels.split("\",").filter_map(|label| {
        let (name, value) = label.split_once("=\"")?;
        Some((name.to_owned(), value.trim_end_matches('"').to_owned()))
    });
    Some(MetricValue {
        name: name.to_owned(),
        labels: labels.collect(),
        value,
    })
}

/// Statistics of one sampling interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct MetricsInterval {
    /// Calls per second.
    pub(super) calls: f64,
    /// Failed calls per second.
    pub(super) errors: f64,
    /// Requests per second rejected before dispatch.
    pub(super) rejected: f64,
    /// Median latency in milliseconds, if there were calls.
    pub(super) median: Option<f64>,
    /// 95th percentile of the latency in milliseconds.
    pub(super) p95: Option<f64>,
}

/// Ring buffer of the last hour's intervals.
#[derive(Default)]
pub(super) struct MetricsHistory(Mutex<MetricsHistoryInner>);

#[derive(Default)]
struct MetricsHistoryInner {
    last: Option<Arc<MetricsSnapshot>>,
    ring: VecDeque<MetricsInterval>,
}

impl MetricsHistory {
    /// Records a snapshot. The first one is only the baseline.
    pub(super) fn record(&self, figures: MetricsSnapshot) {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let figures = Arc::new(figures);
        if let Some(last) = inner.last.replace(Arc::clone(&figures)) {
            if inner.ring.len() >= MAX_SAMPLES {
                inner.ring.pop_front();
            }
            inner.ring.push_back(interval_between(&last, &figures));
        }
    }

    /// All intervals, oldest first.
    pub(super) fn all(&self) -> Vec<MetricsInterval> {
        let inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.ring.iter().copied().collect()
    }
}

fn interval_between(last: &MetricsSnapshot, now: &MetricsSnapshot) -> MetricsInterval {
    let seconds = SAMPLE_INTERVAL.as_secs_f64();
    let rate = |before: f64, after: f64| ((after - before) / seconds).max(0.0);
    let calls = "interzone_requests_total";
    let rejected =
        |figures: &MetricsSnapshot| REJECTION_METRICS.iter().map(|name| figures.sum(name)).sum();
    let before = last.buckets();
    let buckets: Vec<(f64, f64)> = now
        .buckets()
        .into_iter()
        .map(|(limit, count)| {
            let previous = before.iter().find(|(bound, _)| *bound == limit);
            (
                limit,
                (count - previous.map_or(0.0, |(_, count)| *count)).max(0.0),
            )
        })
        .collect();
    MetricsInterval {
        calls: rate(last.sum(calls), now.sum(calls)),
        errors: rate(last.errors(), now.errors()),
        rejected: rate(rejected(last), rejected(now)),
        median: quantile(&buckets, 0.5),
        p95: quantile(&buckets, 0.95),
    }
}

/// Latency in milliseconds at this quantile, interpolated from histogram buckets.
fn quantile(buckets: &[(f64, f64)], fraction: f64) -> Option<f64> {
    let all = buckets.last().map(|(_, count)| *count)?;
    if all <= 0.0 {
        return None;
    }
    let rank = all * fraction;
    let (mut low, mut below) = (0.0, 0.0);
    for (limit, count) in buckets {
        if *count >= rank {
            let seconds = if limit.is_finite() {
                low + (limit - low) * (rank - below) / (count - below).max(f64::MIN_POSITIVE)
            } else {
                low
            };
            return Some(seconds * 1_000.0);
        }
        (low, below) = (*limit, *count);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use interzone_edge::telemetry::Metrics;

    #[test]
    fn interval_has_rates_and_quantiles_between_snapshots() {
        let (metrics, samples) = (Metrics::new(), MetricsHistory::default());
        metrics.record_request("tasks.get", "ok", 0.002);
        samples.record(MetricsSnapshot::parse(&metrics.encode()));
        assert!(samples.all().is_empty());
        for _ in 0..19 {
            metrics.record_request("tasks.get", "ok", 0.002);
        }
        metrics.record_request("tasks.create", "invalid_params", 0.002);
        metrics.record_rate_limited();
        metrics.record_auth_failure("expired");
        samples.record(MetricsSnapshot::parse(&metrics.encode()));
        samples.record(MetricsSnapshot::parse(&metrics.encode()));
        let all = samples.all();
        let [busy, quiet] = all.as_slice() else {
            panic!("{all:?}");
        };
        assert_eq!((busy.calls, busy.errors, busy.rejected), (2.0, 0.1, 0.2));
        let median = busy.median.unwrap();
        assert!((1.0..=2.5).contains(&median), "{median}");
        assert!(busy.p95.unwrap() >= median);
        assert_eq!((quiet.calls, quiet.median), (0.0, None));
    }

    #[test]
    fn history_keeps_one_hour() {
        let samples = MetricsHistory::default();
        for _ in 0..(MAX_SAMPLES + 20) {
            samples.record(MetricsSnapshot::default());
        }
        assert_eq!(samples.all().len(), MAX_SAMPLES);
    }

    #[test]
    fn snapshot_sums_and_groups_by_labels() {
        let metrics = Metrics::new();
        metrics.record_agent_run("demo", "completed", Duration::from_secs(2));
        metrics.record_agent_run("demo", "failed", Duration::from_secs(4));
        let figures = MetricsSnapshot::parse(&metrics.encode());
        let runs = figures.group_by("interzone_agent_runs_total", ["agent", "outcome"]);
        assert_eq!(runs.len(), 2);
        let name = "interzone_agent_run_duration_seconds_sum";
        assert_eq!(figures.sum_where(name, "agent", "demo"), 6.0);
        assert_eq!(figures.sum_where(name, "agent", "other"), 0.0);
    }
}
