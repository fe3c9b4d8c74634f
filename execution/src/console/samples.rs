//! The last hour in figures: what the node counts of itself, looked at every few seconds. It is read as
//! whoever collects metrics reads it, so the two never differ. How it is drawn is not known here.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often it is looked.
pub(super) const EVERY: Duration = Duration::from_secs(10);
/// How many looks are remembered: an hour.
pub(super) const KEPT: usize = 360;
/// Outcomes of calls that went well.
const WELL: [&str; 2] = ["ok", "streaming"];
/// What counts those who were refused before their call was looked at.
const REFUSALS: [&str; 3] = [
    "interzone_rate_limited_total",
    "interzone_auth_refusals_total",
    "interzone_requests_turned_away_total",
];

/// What the node has counted since it began.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures(Vec<Figure>);

#[derive(Clone, Debug)]
struct Figure {
    name: String,
    labels: Vec<(String, String)>,
    value: f64,
}

impl Figure {
    fn label(&self, name: &str) -> &str {
        let found = self.labels.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value)
    }
}

impl Figures {
    /// Reads the text of the metrics. Labels are words of ours and names from the configuration, so
    /// neither quotes nor commas are looked for inside.
    pub(super) fn read(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        Self(lines.filter_map(figure).collect())
    }

    fn named<'f>(&'f self, name: &'f str) -> impl Iterator<Item = &'f Figure> {
        self.0.iter().filter(move |figure| figure.name == name)
    }

    /// All of this name together.
    pub(super) fn sum(&self, name: &str) -> f64 {
        self.named(name).map(|figure| figure.value).sum()
    }

    /// Those of this name whose label has this value.
    pub(super) fn sum_where(&self, name: &str, label: &str, value: &str) -> f64 {
        let those = self.named(name).filter(|one| one.label(label) == value);
        those.map(|figure| figure.value).sum()
    }

    /// Those of this name by some labels, in the order of their values.
    pub(super) fn by<const N: usize>(
        &self,
        name: &str,
        labels: [&str; N],
    ) -> BTreeMap<[String; N], f64> {
        let mut all = BTreeMap::new();
        for figure in self.named(name) {
            let key = labels.map(|label| figure.label(label).to_owned());
            *all.entry(key).or_insert(0.0) += figure.value;
        }
        all
    }

    fn errors(&self) -> f64 {
        let calls = self.named("interzone_requests_total");
        let bad = calls.filter(|call| !WELL.contains(&call.label("outcome")));
        bad.map(|figure| figure.value).sum()
    }

    /// How many calls took at most so many seconds, for each limit in rising order.
    fn buckets(&self) -> Vec<(f64, f64)> {
        let mut all: Vec<(f64, f64)> = Vec::new();
        for figure in self.named("interzone_request_duration_seconds_bucket") {
            let Ok(limit) = figure.label("le").replace("+Inf", "inf").parse::<f64>() else {
                continue;
            };
            match all.iter_mut().find(|(known, _)| *known == limit) {
                Some((_, count)) => *count += figure.value,
                None => all.push((limit, figure.value)),
            }
        }
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        all
    }
}

fn figure(line: &str) -> Option<Figure> {
    let (head, value) = line.rsplit_once(' ')?;
    let value = value.parse().ok()?;
    let (name, labels) = match head.split_once('{') {
        Some((name, rest)) => (name, rest.strip_suffix('}')?),
        None => (head, ""),
    };
    let labels = labels.split("\",").filter_map(|label| {
        let (name, value) = label.split_once("=\"")?;
        Some((name.to_owned(), value.trim_end_matches('"').to_owned()))
    });
    Some(Figure {
        name: name.to_owned(),
        labels: labels.collect(),
        value,
    })
}

/// What happened between two looks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sample {
    /// Calls a second.
    pub(super) calls: f64,
    /// Calls a second that went wrong.
    pub(super) errors: f64,
    /// Requests a second that were refused before.
    pub(super) refused: f64,
    /// In how many milliseconds half of the calls were answered, if there were any.
    pub(super) median: Option<f64>,
    /// And 95 of a hundred.
    pub(super) slow: Option<f64>,
}

/// The last hour.
#[derive(Default)]
pub(super) struct Samples(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    last: Option<Arc<Figures>>,
    ring: VecDeque<Sample>,
}

impl Samples {
    /// Looks once more. The first look only says where counting begins.
    pub(super) fn look(&self, figures: Figures) {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let figures = Arc::new(figures);
        if let Some(last) = inner.last.replace(Arc::clone(&figures)) {
            if inner.ring.len() >= KEPT {
                inner.ring.pop_front();
            }
            inner.ring.push_back(between(&last, &figures));
        }
    }

    /// What was seen, the oldest first.
    pub(super) fn all(&self) -> Vec<Sample> {
        let inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.ring.iter().copied().collect()
    }
}

fn between(last: &Figures, now: &Figures) -> Sample {
    let seconds = EVERY.as_secs_f64();
    let rate = |before: f64, after: f64| ((after - before) / seconds).max(0.0);
    let calls = "interzone_requests_total";
    let refused = |figures: &Figures| REFUSALS.iter().map(|name| figures.sum(name)).sum();
    let before = last.buckets();
    let buckets: Vec<(f64, f64)> = now
        .buckets()
        .into_iter()
        .map(|(limit, count)| {
            let known = before.iter().find(|(known, _)| *known == limit);
            (
                limit,
                (count - known.map_or(0.0, |(_, count)| *count)).max(0.0),
            )
        })
        .collect();
    Sample {
        calls: rate(last.sum(calls), now.sum(calls)),
        errors: rate(last.errors(), now.errors()),
        refused: rate(refused(last), refused(now)),
        median: quantile(&buckets, 0.5),
        slow: quantile(&buckets, 0.95),
    }
}

/// The milliseconds within which this part of all calls was answered, as well as buckets can tell.
fn quantile(buckets: &[(f64, f64)], part: f64) -> Option<f64> {
    let all = buckets.last().map(|(_, count)| *count)?;
    if all <= 0.0 {
        return None;
    }
    let wanted = all * part;
    let (mut low, mut below) = (0.0, 0.0);
    for (limit, count) in buckets {
        if *count >= wanted {
            let seconds = if limit.is_finite() {
                low + (limit - low) * (wanted - below) / (count - below).max(f64::MIN_POSITIVE)
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
    fn what_happened_between_two_looks_is_told() {
        let (metrics, samples) = (Metrics::new(), Samples::default());
        metrics.request("tasks.get", "ok", 0.002);
        samples.look(Figures::read(&metrics.encode()));
        assert!(samples.all().is_empty());
        for _ in 0..19 {
            metrics.request("tasks.get", "ok", 0.002);
        }
        metrics.request("tasks.create", "invalid_params", 0.002);
        metrics.rate_limited();
        metrics.auth_refused("expired");
        samples.look(Figures::read(&metrics.encode()));
        samples.look(Figures::read(&metrics.encode()));
        let all = samples.all();
        let [busy, quiet] = all.as_slice() else {
            panic!("{all:?}");
        };
        assert_eq!((busy.calls, busy.errors, busy.refused), (2.0, 0.1, 0.2));
        let median = busy.median.unwrap();
        assert!((1.0..=2.5).contains(&median), "{median}");
        assert!(busy.slow.unwrap() >= median);
        assert_eq!((quiet.calls, quiet.median), (0.0, None));
    }

    #[test]
    fn only_an_hour_is_kept() {
        let samples = Samples::default();
        for _ in 0..(KEPT + 20) {
            samples.look(Figures::default());
        }
        assert_eq!(samples.all().len(), KEPT);
    }

    #[test]
    fn figures_are_found_by_their_labels() {
        let metrics = Metrics::new();
        metrics.agent_run("demo", "completed", Duration::from_secs(2));
        metrics.agent_run("demo", "failed", Duration::from_secs(4));
        let figures = Figures::read(&metrics.encode());
        let runs = figures.by("interzone_agent_runs_total", ["agent", "outcome"]);
        assert_eq!(runs.len(), 2);
        let name = "interzone_agent_run_duration_seconds_sum";
        assert_eq!(figures.sum_where(name, "agent", "demo"), 6.0);
        assert_eq!(figures.sum_where(name, "agent", "other"), 0.0);
    }
}
