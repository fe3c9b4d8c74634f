//! Prometheus metrics of a node.
//!
//! Every label has a fixed, small set of values: string constants, or names from the configuration. Nothing that a
//! caller sends becomes a label, because each new value is memory for ever.

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

/// Buckets from half a millisecond (a response from memory) to half a minute.
const REQUEST_SECONDS_BUCKETS: [f64; 11] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0, 5.0, 15.0, 30.0,
];
/// Buckets of agent runs, which take seconds or minutes.
const RUN_SECONDS_BUCKETS: [f64; 9] = [0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    method: &'static str,
    outcome: &'static str,
}

impl CallLabels {
    /// Compares by pointer. Equal strings at different addresses count as different, which only costs a cache slot.
    fn is_same(&self, method: &'static str, outcome: &'static str) -> bool {
        std::ptr::eq(self.method, method) && std::ptr::eq(self.outcome, outcome)
    }
}

impl CallCounters {
    fn observe(&self, seconds: f64) {
        self.total.inc();
        self.seconds.observe(seconds);
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct MethodLabel {
    method: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabel {
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AgentLabel {
    agent: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AgentOutcomeLabels {
    agent: String,
    outcome: &'static str,
}

/// Cached counters of a method and outcome: a lookup by labels takes two locks that all threads share.
struct CallCounters {
    call: CallLabels,
    total: Counter,
    seconds: Histogram,
}

/// Number of cached pairs of method and outcome: more than are common.
const CALL_CACHE_SIZE: usize = 64;

type HistogramFamily<S> = Family<S, Histogram, fn() -> Histogram>;

/// Counters, gauges and histograms of a node. All methods are cheap and may be called from any thread.
pub struct Metrics {
    registry: Registry,
    requests: Family<CallLabels, Counter>,
    request_seconds: HistogramFamily<MethodLabel>,
    /// Cache of counters, filled from the front.
    call_cache: [OnceLock<CallCounters>; CALL_CACHE_SIZE],
    rejected: Family<ReasonLabel, Counter>,
    connections: Gauge,
    client_terminations: Family<ReasonLabel, Counter>,
    connections_rejected: Family<ReasonLabel, Counter>,
    handshakes: Family<OutcomeLabel, Counter>,
    rate_limited: Counter,
    auth_failures: Family<ReasonLabel, Counter>,
    watchers: Family<KindLabel, Gauge>,
    queue: Family<StateLabel, Gauge>,
    outbox: Family<StateLabel, Gauge>,
    webhooks: Family<OutcomeLabel, Counter>,
    agent_runs: Family<AgentOutcomeLabels, Counter>,
    agent_run_seconds: HistogramFamily<AgentLabel>,
    audit_dropped: Counter,
    request_log_dropped: Counter,
}

impl Metrics {
    /// Creates the metrics, all at zero.
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("interzone");
        let r = &mut registry;
        Self {
            call_cache: [const { OnceLock::new() }; CALL_CACHE_SIZE],
            requests: register(r, "requests", "Calls by method and outcome"),
            request_seconds: register_histogram(r, "request_duration", "Duration of calls", || {
                Histogram::new(REQUEST_SECONDS_BUCKETS)
            }),
            rejected: register(
                r,
                "requests_rejected",
                "Requests rejected before or instead of a response of their handler",
            ),
            connections: register(r, "connections", "Open connections"),
            client_terminations: register(
                r,
                "client_terminations",
                "Streams and connections that the server terminated because of the client",
            ),
            connections_rejected: register(
                r,
                "connections_rejected",
                "Connections over the share of their address",
            ),
            handshakes: register(r, "tls_handshakes", "TLS handshakes by outcome"),
            rate_limited: register(r, "rate_limited", "Requests rejected by the rate limit"),
            auth_failures: register(r, "auth_failures", "Requests that failed authentication"),
            watchers: register(r, "watchers", "Open watches by kind"),
            queue: register(r, "queue", "Tasks in the queue"),
            outbox: register(r, "outbox", "Deliveries in the outbox"),
            webhooks: register(
                r,
                "webhook_deliveries",
                "Webhook delivery attempts by outcome",
            ),
            agent_runs: register(r, "agent_runs", "Agent runs by outcome"),
            agent_run_seconds: register_histogram(
                r,
                "agent_run_duration",
                "Duration of agent runs",
                || Histogram::new(RUN_SECONDS_BUCKETS),
            ),
            audit_dropped: register(
                r,
                "audit_lines_dropped",
                "Audit lines that were not written",
            ),
            request_log_dropped: register(
                r,
                "request_log_dropped",
                "Requests that were not written to the request log",
            ),
            registry,
        }
    }

    /// Adds the build information: `interzone_build_info`.
    #[must_use]
    pub fn with_build_info(mut self, version: &'static str, commit: &'static str) -> Self {
        let build = Info::new([("version", version), ("commit", commit)]);
        self.registry
            .register("build", "Version and commit of this build", build);
        self
    }

    /// Counts a finished call. Both labels must be constants: an unknown method counts under one fixed name such as
    /// `unknown`, because its name is the caller's.
    pub fn record_request(&self, method: &'static str, outcome: &'static str, seconds: f64) {
        for slot in &self.call_cache {
            let counters = slot.get_or_init(|| self.counters_for(CallLabels { method, outcome }));
            if counters.call.is_same(method, outcome) {
                return counters.observe(seconds);
            }
        }
        self.counters_for(CallLabels { method, outcome })
            .observe(seconds);
    }

    fn counters_for(&self, call: CallLabels) -> CallCounters {
        let method = call.method;
        CallCounters {
            total: self.requests.get_or_create_owned(&call),
            seconds: self
                .request_seconds
                .get_or_create_owned(&MethodLabel { method }),
            call,
        }
    }

    /// Counts a request that was rejected before or instead of its handler's response.
    pub fn record_rejected(&self, reason: &'static str) {
        self.rejected.get_or_create(&ReasonLabel { reason }).inc();
    }

    /// Counts a connection that was rejected or closed because its address has too many.
    pub fn record_connection_rejected(&self, reason: &'static str) {
        let reason = ReasonLabel { reason };
        self.connections_rejected.get_or_create(&reason).inc();
    }

    /// Counts an open connection until the guard is dropped.
    pub fn track_connection(&self) -> GaugeGuard {
        GaugeGuard::new(self.connections.clone())
    }

    /// Counts streams or connections that were terminated because of the client.
    pub fn record_client_terminations(&self, reason: &'static str, count: u64) {
        if count > 0 {
            self.client_terminations
                .get_or_create(&ReasonLabel { reason })
                .inc_by(count);
        }
    }

    /// Counts a TLS handshake by outcome: `ok`, or the reason of the failure.
    pub fn record_handshake(&self, outcome: &'static str) {
        self.handshakes
            .get_or_create(&OutcomeLabel { outcome })
            .inc();
    }

    /// Counts a request over the rate limit.
    pub fn record_rate_limited(&self) {
        self.rate_limited.inc();
    }

    /// Counts a request that failed authentication.
    pub fn record_auth_failure(&self, reason: &'static str) {
        self.auth_failures
            .get_or_create(&ReasonLabel { reason })
            .inc();
    }

    /// Counts an open watch (`sse`, `ws`) until the guard is dropped.
    pub fn track_watcher(&self, kind: &'static str) -> GaugeGuard {
        GaugeGuard::new(self.watchers.get_or_create_owned(&KindLabel { kind }))
    }

    /// Sets the number of tasks that wait for an agent, and of those that are leased.
    pub fn set_queue(&self, waiting: u64, leased: u64) {
        set_state(&self.queue, "waiting", waiting);
        set_state(&self.queue, "leased", leased);
    }

    /// Sets the number of deliveries that wait, and of dead letters.
    pub fn set_outbox(&self, waiting: u64, dead: u64) {
        set_state(&self.outbox, "waiting", waiting);
        set_state(&self.outbox, "dead", dead);
    }

    /// Counts an attempt to deliver a webhook.
    pub fn record_webhook(&self, outcome: &'static str) {
        self.webhooks.get_or_create(&OutcomeLabel { outcome }).inc();
    }

    /// Counts a finished run of an agent. Its name comes from the configuration.
    pub fn record_agent_run(&self, agent: &str, outcome: &'static str, took: Duration) {
        let name = AgentLabel {
            agent: agent.to_owned(),
        };
        self.agent_run_seconds
            .get_or_create(&name)
            .observe(took.as_secs_f64());
        let agent = name.agent;
        self.agent_runs
            .get_or_create(&AgentOutcomeLabels { agent, outcome })
            .inc();
    }

    /// Counts an audit line that was not written.
    pub fn record_audit_dropped(&self) {
        self.audit_dropped.inc();
    }

    /// Counts several audit lines that were not written.
    pub(crate) fn record_audit_dropped_many(&self, lines: u64) {
        self.audit_dropped.inc_by(lines);
    }

    /// Counts requests that were not written to the request log.
    pub fn record_request_log_dropped(&self, count: u64) {
        self.request_log_dropped.inc_by(count);
    }

    /// Returns all metrics as text of the media type [`METRICS_MEDIA_TYPE`].
    pub fn encode(&self) -> String {
        let mut text = String::with_capacity(8 * 1024);
        // Writing to a String cannot fail.
        let _ = text::encode(&mut text, &self.registry);
        text
    }
}

/// Media type of [`Metrics::encode`].
pub const METRICS_MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

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

/// Guard that counts one open connection or watch until it is dropped.
#[derive(Debug)]
#[must_use = "the count ends when this is dropped"]
pub struct GaugeGuard(Gauge);

impl GaugeGuard {
    fn new(gauge: Gauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

fn register<M>(registry: &mut Registry, name: &str, help: &str) -> M
where
    M: prometheus_client::registry::Metric + Clone + Default,
{
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

fn register_histogram<S>(
    registry: &mut Registry,
    name: &str,
    help: &str,
    constructor: fn() -> Histogram,
) -> HistogramFamily<S>
where
    S: EncodeLabelSet + fmt::Debug + Clone + Hash + Eq + Send + Sync + 'static,
{
    let family = HistogramFamily::<S>::new_with_constructor(constructor);
    let unit = prometheus_client::registry::Unit::Seconds;
    registry.register_with_unit(name, help, unit, family.clone());
    family
}

fn set_state(family: &Family<StateLabel, Gauge>, state: &'static str, value: u64) {
    family
        .get_or_create(&StateLabel { state })
        .set(i64::try_from(value).unwrap_or(i64::MAX));
}

#[cfg(test)]
mod tests;
