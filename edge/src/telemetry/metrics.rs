//! What a node counts of itself, in the format that Prometheus reads.
//!
//! Every label has a known, small set of values: words of ours, or names from the configuration.
//! Nothing that a caller sends becomes a label, for each new value is memory for ever.

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use std::fmt;
use std::hash::Hash;
use std::sync::OnceLock;
use std::time::Duration;

/// From half a millisecond, where an answer from memory lies, to half a minute.
const REQUEST_SECONDS: [f64; 11] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0, 5.0, 15.0, 30.0,
];
/// An agent thinks for seconds or for minutes.
const RUN_SECONDS: [f64; 9] = [0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Call {
    method: &'static str,
    outcome: &'static str,
}

impl Call {
    /// Whether it is of these very words. The same words at another address are not seen to be the
    /// same, which costs a place and nothing else.
    fn is(&self, method: &'static str, outcome: &'static str) -> bool {
        std::ptr::eq(self.method, method) && std::ptr::eq(self.outcome, outcome)
    }
}

impl Meter {
    fn count(&self, seconds: f64) {
        self.ended.inc();
        self.seconds.observe(seconds);
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Method {
    method: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct State {
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Agent {
    agent: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AgentOutcome {
    agent: String,
    outcome: &'static str,
}

/// What a call counts, found once: to look it up by its labels takes two locks that all threads share.
struct Meter {
    call: Call,
    ended: Counter,
    seconds: Histogram,
}

/// How many pairs of a method and an outcome are at hand like this: more than are common.
const METERS: usize = 64;

type Times<S> = Family<S, Histogram, fn() -> Histogram>;

/// The counters, gauges and histograms of a node. All methods are cheap and may be called from any
/// thread.
pub struct Metrics {
    registry: Registry,
    requests: Family<Call, Counter>,
    request_seconds: Times<Method>,
    /// Filled from the front.
    meters: [OnceLock<Meter>; METERS],
    turned_away: Family<Reason, Counter>,
    connections: Gauge,
    cut_off: Family<Reason, Counter>,
    connections_refused: Family<Reason, Counter>,
    handshakes: Family<Outcome, Counter>,
    rate_limited: Counter,
    auth_refusals: Family<Reason, Counter>,
    watchers: Family<Kind, Gauge>,
    queue: Family<State, Gauge>,
    outbox: Family<State, Gauge>,
    webhooks: Family<Outcome, Counter>,
    agent_runs: Family<AgentOutcome, Counter>,
    agent_run_seconds: Times<Agent>,
    audit_dropped: Counter,
    pairs_dropped: Counter,
}

impl Metrics {
    /// All of them at nought.
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("interzone");
        let r = &mut registry;
        Self {
            meters: [const { OnceLock::new() }; METERS],
            requests: with(r, "requests", "Calls of a method, by how they went"),
            request_seconds: times(
                r,
                "request_duration",
                "How long calls of a method took",
                || Histogram::new(REQUEST_SECONDS),
            ),
            turned_away: with(
                r,
                "requests_turned_away",
                "Requests that no handler saw, or whose handler took too long",
            ),
            connections: with(r, "connections", "Open connections"),
            cut_off: with(
                r,
                "cut_off",
                "Streams and connections that were ended for what the caller does or does not do",
            ),
            connections_refused: with(r, "connections_refused", "Connections over address shares"),
            handshakes: with(r, "tls_handshakes", "TLS handshakes, by how they went"),
            rate_limited: with(r, "rate_limited", "Requests refused by the rate limit"),
            auth_refusals: with(r, "auth_refusals", "Requests without a good token"),
            watchers: with(r, "watchers", "Watches that are open, by kind"),
            queue: with(r, "queue", "Tasks in the queue"),
            outbox: with(r, "outbox", "Deliveries in the outbox"),
            webhooks: with(r, "webhook_deliveries", "Attempts to deliver a webhook"),
            agent_runs: with(r, "agent_runs", "Runs of an agent, by how they went"),
            agent_run_seconds: times(r, "agent_run_duration", "How long runs took", || {
                Histogram::new(RUN_SECONDS)
            }),
            audit_dropped: with(
                r,
                "audit_lines_dropped",
                "Lines of the audit that were not written",
            ),
            pairs_dropped: with(
                r,
                "pairs_dropped",
                "Answered requests that were not noted for operators",
            ),
            registry,
        }
    }

    /// Tells of which build the node is: `interzone_build_info`.
    #[must_use]
    pub fn of_build(mut self, version: &'static str, commit: &'static str) -> Self {
        let build = Info::new([("version", version), ("commit", commit)]);
        self.registry
            .register("build", "The build that runs here", build);
        self
    }

    /// A call of `method` ended with `outcome`. Both must be words of ours: an unknown method's name
    /// is the caller's, and counts as one word such as `unknown`.
    pub fn request(&self, method: &'static str, outcome: &'static str, seconds: f64) {
        for place in &self.meters {
            let meter = place.get_or_init(|| self.meter(Call { method, outcome }));
            if meter.call.is(method, outcome) {
                return meter.count(seconds);
            }
        }
        self.meter(Call { method, outcome }).count(seconds);
    }

    fn meter(&self, call: Call) -> Meter {
        let method = call.method;
        Meter {
            ended: self.requests.get_or_create_owned(&call),
            seconds: self.request_seconds.get_or_create_owned(&Method { method }),
            call,
        }
    }

    /// A request ended before its handler did, or did not reach it.
    pub fn turned_away(&self, reason: &'static str) {
        self.turned_away.get_or_create(&Reason { reason }).inc();
    }

    /// A connection was refused or closed because its address has too many.
    pub fn connection_refused(&self, reason: &'static str) {
        let reason = Reason { reason };
        self.connections_refused.get_or_create(&reason).inc();
    }

    /// A connection is open for as long as the guard lives.
    pub fn connection(&self) -> Open {
        Open::count(self.connections.clone())
    }

    /// So many streams or connections were ended because of their caller.
    pub fn cut_off(&self, reason: &'static str, count: u64) {
        if count > 0 {
            self.cut_off.get_or_create(&Reason { reason }).inc_by(count);
        }
    }

    /// A TLS handshake ended: `ok`, or a word for why not.
    pub fn handshake(&self, outcome: &'static str) {
        self.handshakes.get_or_create(&Outcome { outcome }).inc();
    }

    /// A client asked too often.
    pub fn rate_limited(&self) {
        self.rate_limited.inc();
    }

    /// A request had no good token, for this reason.
    pub fn auth_refused(&self, reason: &'static str) {
        self.auth_refusals.get_or_create(&Reason { reason }).inc();
    }

    /// A watch (`sse`, `ws`) is open for as long as the guard lives.
    pub fn watcher(&self, kind: &'static str) -> Open {
        Open::count(self.watchers.get_or_create_owned(&Kind { kind }))
    }

    /// How many tasks wait for an agent, and how many are held by one.
    pub fn queue(&self, waiting: u64, held: u64) {
        set(&self.queue, "waiting", waiting);
        set(&self.queue, "held", held);
    }

    /// How many deliveries wait, and how many were given up.
    pub fn outbox(&self, waiting: u64, dead: u64) {
        set(&self.outbox, "waiting", waiting);
        set(&self.outbox, "dead", dead);
    }

    /// An attempt to deliver a webhook ended.
    pub fn webhook(&self, outcome: &'static str) {
        self.webhooks.get_or_create(&Outcome { outcome }).inc();
    }

    /// A run of the agent with this name, which comes from the configuration, ended.
    pub fn agent_run(&self, agent: &str, outcome: &'static str, took: Duration) {
        let name = Agent {
            agent: agent.to_owned(),
        };
        self.agent_run_seconds
            .get_or_create(&name)
            .observe(took.as_secs_f64());
        let agent = name.agent;
        self.agent_runs
            .get_or_create(&AgentOutcome { agent, outcome })
            .inc();
    }

    /// A line of the audit could not be written.
    pub fn audit_dropped(&self) {
        self.audit_dropped.inc();
    }

    /// So many lines of the audit could not be written.
    pub(crate) fn audit_dropped_many(&self, lines: u64) {
        self.audit_dropped.inc_by(lines);
    }

    /// So many answered requests could not be noted.
    pub fn pairs_dropped(&self, pairs: u64) {
        self.pairs_dropped.inc_by(pairs);
    }

    /// Everything as text, of the media type [`MEDIA_TYPE`].
    pub fn encode(&self) -> String {
        let mut text = String::with_capacity(8 * 1024);
        // Writing to a string does not fail.
        let _ = text::encode(&mut text, &self.registry);
        text
    }
}

/// What [`Metrics::encode`] gives.
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

/// Counts one thing that is open, until it is dropped.
#[derive(Debug)]
#[must_use = "what is counted ends when this is dropped"]
pub struct Open(Gauge);

impl Open {
    fn count(gauge: Gauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.dec();
    }
}

fn with<M>(registry: &mut Registry, name: &str, help: &str) -> M
where
    M: prometheus_client::registry::Metric + Clone + Default,
{
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

fn times<S>(registry: &mut Registry, name: &str, help: &str, make: fn() -> Histogram) -> Times<S>
where
    S: EncodeLabelSet + fmt::Debug + Clone + Hash + Eq + Send + Sync + 'static,
{
    let family = Times::<S>::new_with_constructor(make);
    let unit = prometheus_client::registry::Unit::Seconds;
    registry.register_with_unit(name, help, unit, family.clone());
    family
}

fn set(family: &Family<State, Gauge>, state: &'static str, value: u64) {
    family
        .get_or_create(&State { state })
        .set(i64::try_from(value).unwrap_or(i64::MAX));
}

#[cfg(test)]
mod tests;
