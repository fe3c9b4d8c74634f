//! Telemetry of a node: logs, traces to a collector (OTLP) and Prometheus metrics. Set up once, at the start.

mod metrics;
#[cfg(test)]
mod tests;
mod traces;

pub use metrics::{GaugeGuard, METRICS_MEDIA_TYPE, Metrics};
pub use traces::current_context;

use crate::Secret;
use crate::request_context::{CORRELATION_HEADER, CorrelationId, TraceParent};
use crate::tls::TrustRoots;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use opentelemetry_sdk::trace::SdkTracerProvider;
use serde::Deserialize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use traces::set_remote_parent;
use tracing::{Instrument, Level, Subscriber};
use tracing_subscriber::filter::{FilterExt, LevelFilter, Targets, filter_fn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, registry};

/// Timeout for sending the last traces when the node stops.
const TRACE_FLUSH_TIMEOUT: Duration = Duration::from_secs(3);

/// Format of log lines.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Human-readable text.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// Configuration of logs and traces.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// Format of log lines.
    pub format: LogFormat,
    /// Log filter, such as `info` or `warn,interzone_edge=debug`.
    pub filter: String,
    /// Colors, for a terminal. Only for [`LogFormat::Text`].
    pub colors: bool,
    /// Collector of traces; `None` disables them.
    pub otlp: Option<OtlpOptions>,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            format: LogFormat::Text,
            filter: "info".to_owned(),
            colors: false,
            otlp: None,
        }
    }
}

/// Trace collector, reached by OTLP over HTTP.
#[derive(Clone, Debug)]
pub struct OtlpOptions {
    /// URL of the collector, such as `http://localhost:4318`; `/v1/traces` is added if it has no path.
    pub endpoint: String,
    /// Headers of each export request, such as an API key.
    pub headers: Vec<(String, Secret)>,
    /// Service name of this node in the traces.
    pub service_name: String,
    /// Trusted CAs for an https collector.
    pub trust: TrustRoots,
}

/// Error setting up telemetry.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter is invalid.
    #[error("log filter `{filter}` is invalid: use a level such as `info`, or target=level")]
    Filter {
        /// The filter as given.
        filter: String,
        /// The cause.
        #[source]
        source: tracing_subscriber::filter::ParseError,
    },
    /// The collector's URL or a header is invalid.
    #[error("cannot send traces to `{endpoint}`: use an http or https URL and plain header values")]
    Otlp {
        /// The URL as given.
        endpoint: String,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A global subscriber is already set.
    #[error("logging is already set up: set it up once, at the start")]
    AlreadySet(#[source] tracing_subscriber::util::TryInitError),
}

/// Guard of the telemetry. Keep it until the end: dropping it sends the pending traces, for at most three seconds.
#[derive(Debug)]
#[must_use = "dropping it stops the traces"]
pub struct TelemetryGuard {
    traces: Option<SdkTracerProvider>,
}

impl Drop for TelemetryGuard {
    fn drop(&mut self) {
        if let Some(traces) = self.traces.take() {
            // A failing collector has been logged already.
            let _ = traces.shutdown_with_timeout(TRACE_FLUSH_TIMEOUT);
        }
    }
}

/// Sets up logs, and traces if configured, for the whole process. Lines go to `writer`; a program passes
/// `std::io::stderr`.
pub fn init<W>(options: &LogOptions, writer: W) -> Result<TelemetryGuard, TelemetryError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let (subscriber, guard) = build(options, writer)?;
    subscriber.try_init().map_err(TelemetryError::AlreadySet)?;
    AUDIT_ENABLED.store(filter_enables_audit(&options.filter), Ordering::Relaxed);
    Ok(guard)
}

/// Returns true if the log filter enables audit lines. The subscriber's own answer is useless here: it is true for
/// whatever any layer may want, and the trace layer may want anything.
pub(crate) fn audit_enabled() -> bool {
    AUDIT_ENABLED.load(Ordering::Relaxed)
}

fn filter_enables_audit(filter: &str) -> bool {
    let targets = filter.parse::<Targets>();
    targets.is_ok_and(|targets| targets.would_enable("audit", &Level::INFO))
}

/// Lowers the HTTP/2 library to errors, unless the filter names it or asks for debug lines: it warns about each
/// connection that resets many streams, and clients can open any number of them.
fn without_client_warnings(filter: Targets) -> Targets {
    const HTTP2: &str = "h2";
    let is_usual = filter
        .default_level()
        .is_some_and(|level| level == LevelFilter::WARN || level == LevelFilter::INFO);
    let is_named = filter.iter().any(|(target, _)| target.starts_with(HTTP2));
    match is_usual && !is_named {
        true => filter.with_target(HTTP2, LevelFilter::ERROR),
        false => filter,
    }
}

static AUDIT_ENABLED: AtomicBool = AtomicBool::new(true);

fn build<W>(
    options: &LogOptions,
    writer: W,
) -> Result<(impl Subscriber + Send + Sync + 'static, TelemetryGuard), TelemetryError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let filter = options
        .filter
        .parse::<Targets>()
        .map(without_client_warnings)
        .map_err(|source| TelemetryError::Filter {
            filter: options.filter.clone(),
            source,
        })?;
    // At trace level, libraries log the requests they send, which may hold secrets. The level hint is needed:
    // without it the other filter's hint would be lost.
    let no_library_trace =
        filter_fn(|meta| *meta.level() <= Level::DEBUG || meta.target().starts_with("interzone"))
            .with_max_level_hint(LevelFilter::TRACE);
    let lines = tracing_subscriber::fmt::layer().with_writer(writer);
    let lines = match options.format {
        LogFormat::Text => lines.with_ansi(options.colors).boxed(),
        LogFormat::Json => lines
            .json()
            .flatten_event(true)
            .with_span_list(false)
            .boxed(),
    };
    let provider = options.otlp.as_ref().map(traces::provider).transpose()?;
    let traces = provider.as_ref().map(|provider| {
        // Only our own spans: those of the exporter's HTTP client would never end.
        traces::layer(provider).with_filter(filter_fn(|meta| {
            meta.is_span() && *meta.level() <= Level::INFO && meta.target().starts_with("interzone")
        }))
    });
    // The trace layer is below the log layer: an absent layer counts as one that wants everything, and above the
    // logs it would have every span and debug event created.
    let subscriber = registry()
        .with(traces)
        .with(lines.with_filter(filter.and(no_library_trace)));
    Ok((subscriber, TelemetryGuard { traces: provider }))
}

/// Runs the request in a span `request` with the field `correlation`, as a child of the caller's span if it sent one.
/// Use it with [`axum::middleware::from_fn`].
///
/// A request without a valid correlation id gets a generated one in its header, so that every reader sees the same.
pub async fn trace_request(mut request: Request, next: Next) -> Response {
    let headers = request.headers_mut();
    let correlation = CorrelationId::from_headers(headers);
    headers.insert(CORRELATION_HEADER, correlation.to_header());
    let parent = TraceParent::from_headers(headers);
    // The level is the highest, so that every log filter that lets a line through lets its correlation id through.
    let span = tracing::error_span!("request", %correlation);
    if let Some(parent) = &parent {
        set_remote_parent(&span, parent);
    }
    let mut response = next.run(request).instrument(span.clone()).await;
    if let Some(parent) = parent {
        current_context(&span)
            .unwrap_or_else(|| parent.child())
            .inject(response.headers_mut());
    }
    response
}
