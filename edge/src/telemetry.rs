//! What a node tells of itself: logs for whoever runs it, traces to a collector, numbers to whoever
//! asks. It is set up once, at the start; nothing in here decides anything about a request.

mod mark;
mod metrics;
#[cfg(test)]
mod tests;
mod traces;

pub use mark::{Mark, mark};
pub use metrics::{MEDIA_TYPE, Metrics, Open};
pub use traces::{current, follow};

use crate::Secret;
use crate::tls::Trust;
use mark::Marking;
use opentelemetry_sdk::trace::SdkTracerProvider;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tracing::{Level, Subscriber};
use tracing_subscriber::filter::{FilterExt, LevelFilter, Targets, filter_fn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, registry};

/// How long the last traces may take to leave when the node stops.
const FAREWELL: Duration = Duration::from_secs(3);

/// How a log line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line, for machines.
    Json,
}

/// What is told, and where.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// How lines look.
    pub format: LogFormat,
    /// Which lines there are, such as `info` or `warn,interzone_edge=debug`.
    pub filter: String,
    /// Colours, for a terminal. Only for [`LogFormat::Text`].
    pub colours: bool,
    /// Where traces go; `None` makes none.
    pub otlp: Option<OtlpOptions>,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            format: LogFormat::Text,
            filter: "info".to_owned(),
            colours: false,
            otlp: None,
        }
    }
}

/// Where traces go, by OTLP over HTTP.
#[derive(Clone, Debug)]
pub struct OtlpOptions {
    /// The collector, such as `http://localhost:4318`; `/v1/traces` is added if it has no path.
    pub endpoint: String,
    /// Headers for it, such as an API key.
    pub headers: Vec<(String, Secret)>,
    /// What this node is called there.
    pub service_name: String,
    /// The CAs that prove it, if it is reached by https.
    pub trust: Trust,
}

/// Why telemetry cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter cannot be read.
    #[error(
        "the log filter `{filter}` cannot be read: write a level such as `info`, or target=level"
    )]
    Filter {
        /// What was given.
        filter: String,
        /// What is wrong with it.
        #[source]
        source: tracing_subscriber::filter::ParseError,
    },
    /// The collector's address or a header cannot be used.
    #[error(
        "traces cannot be sent to `{endpoint}`: give an http or https URL and plain header values"
    )]
    Otlp {
        /// What was given.
        endpoint: String,
        /// What is wrong with it.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Somebody was first.
    #[error("logging is set up already: set it up once, at the start")]
    Twice(#[source] tracing_subscriber::util::TryInitError),
}

/// Keep it until the end: dropping it sends the traces that still wait, for at most a few seconds.
#[derive(Debug)]
#[must_use = "dropping it at once ends the traces"]
pub struct TelemetryGuard {
    traces: Option<SdkTracerProvider>,
}

impl Drop for TelemetryGuard {
    fn drop(&mut self) {
        if let Some(traces) = self.traces.take() {
            // A collector that is not there has been reported already.
            let _ = traces.shutdown_with_timeout(FAREWELL);
        }
    }
}

/// Sets up logs, and traces if they are wanted, for the whole process. Lines go to what `writer` gives;
/// for a program that is `std::io::stderr`, which only the program itself may open.
pub fn init<W>(options: &LogOptions, writer: W) -> Result<TelemetryGuard, TelemetryError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let (subscriber, guard) = build(options, writer)?;
    subscriber.try_init().map_err(TelemetryError::Twice)?;
    TRACED.store(options.otlp.is_some(), Ordering::Relaxed);
    AUDITED.store(lets_audit_through(&options.filter), Ordering::Relaxed);
    Ok(guard)
}

/// Whether the log's filter wants lines of the audit. The subscriber itself cannot be asked: it says yes
/// to whatever one of its layers may want, and traces may want anything.
pub(crate) fn audited() -> bool {
    AUDITED.load(Ordering::Relaxed)
}

fn lets_audit_through(filter: &str) -> bool {
    let targets = filter.parse::<Targets>();
    targets.is_ok_and(|targets| targets.would_enable("audit", &Level::INFO))
}

static AUDITED: AtomicBool = AtomicBool::new(true);

/// Whether traces go anywhere. If not, a span for each request is work for nothing.
pub fn traced() -> bool {
    TRACED.load(Ordering::Relaxed)
}

static TRACED: AtomicBool = AtomicBool::new(false);

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
        .map_err(|source| TelemetryError::Filter {
            filter: options.filter.clone(),
            source,
        })?;
    // At their most talkative, libraries print what they send, and that is not ours to print. It can
    // want any level: without that hint the other filter's would be lost.
    let discreet =
        filter_fn(|meta| *meta.level() <= Level::DEBUG || meta.target().starts_with("interzone"))
            .with_max_level_hint(LevelFilter::TRACE);
    let lines = tracing_subscriber::fmt::layer().with_writer(Marking {
        inner: writer,
        format: options.format,
    });
    let lines = match options.format {
        LogFormat::Text => lines.with_ansi(options.colours).boxed(),
        LogFormat::Json => lines
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .boxed(),
    };
    let provider = options.otlp.as_ref().map(traces::provider).transpose()?;
    let traces = provider.as_ref().map(|provider| {
        // Only spans of ours: those of the HTTP client that carries them would never end.
        traces::layer(provider).with_filter(filter_fn(|meta| {
            meta.is_span() && *meta.level() <= Level::INFO && meta.target().starts_with("interzone")
        }))
    });
    // Traces below the lines: a layer that is not there counts as one that wants everything, and above
    // them it would have each span and each small remark made that nobody sees.
    let subscriber = registry()
        .with(traces)
        .with(lines.with_filter(filter.and(discreet)));
    Ok((subscriber, TelemetryGuard { traces: provider }))
}
