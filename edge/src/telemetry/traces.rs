//! Trace export: spans are sent to an OpenTelemetry collector in batches, on a thread of their own. An unreachable
//! collector costs its traces and one log line.

use super::{OtlpOptions, TelemetryError};
use crate::request_context::TraceParent;
use opentelemetry::trace::{
    SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState, TracerProvider,
};
use opentelemetry_otlp::{Protocol, RetryPolicy, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SdkTracerProvider, SpanData, SpanExporter as Export,
};
use std::collections::HashMap;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tracing::{Span, Subscriber};
use tracing_opentelemetry::{OpenTelemetryLayer, OpenTelemetrySpanExt};
use tracing_subscriber::registry::LookupSpan;

/// Maximum number of spans that wait to be sent; more are dropped.
const MAX_QUEUED_SPANS: usize = 4096;
/// Timeout of one export request.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// Makes `span` a child of the caller's span. Does nothing if traces are disabled.
pub(super) fn set_remote_parent(span: &Span, parent: &TraceParent) {
    let state = parent
        .tracestate()
        .and_then(|text| TraceState::from_str(text).ok());
    let remote = SpanContext::new(
        TraceId::from_bytes(parent.trace_id()),
        SpanId::from_bytes(parent.span_id()),
        if parent.is_sampled() {
            TraceFlags::SAMPLED
        } else {
            TraceFlags::default()
        },
        true,
        state.unwrap_or_default(),
    );
    // Fails if no layer records the span; then there is nothing to do.
    let _ = span.set_parent(opentelemetry::Context::new().with_remote_span_context(remote));
}

/// Returns the trace context of `span` for outgoing requests; `None` if traces are disabled.
pub fn current_context(span: &Span) -> Option<TraceParent> {
    let context = span.context();
    let span_context = context.span().span_context().clone();
    TraceParent::from_parts(
        span_context.trace_id().to_bytes(),
        span_context.span_id().to_bytes(),
        span_context.is_sampled(),
    )
}

pub(super) fn layer<S>(
    provider: &SdkTracerProvider,
) -> OpenTelemetryLayer<S, opentelemetry_sdk::trace::Tracer>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    tracing_opentelemetry::layer()
        .with_tracer(provider.tracer("interzone"))
        .with_location(false)
        .with_threads(false)
        .with_tracked_inactivity(false)
}

pub(super) fn provider(options: &OtlpOptions) -> Result<SdkTracerProvider, TelemetryError> {
    let invalid = |source: Box<dyn std::error::Error + Send + Sync>| TelemetryError::Otlp {
        endpoint: options.endpoint.clone(),
        source,
    };
    let mut url = url::Url::parse(&options.endpoint).map_err(|error| invalid(error.into()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(invalid("neither http nor https".into()));
    }
    if url.path() == "/" {
        url.set_path("/v1/traces");
    }
    let mut headers = HashMap::new();
    for (name, value) in &options.headers {
        http::HeaderName::from_str(name).map_err(|error| invalid(error.into()))?;
        http::HeaderValue::from_str(value.expose()).map_err(|error| invalid(error.into()))?;
        headers.insert(name.clone(), value.expose().to_owned());
    }
    let client = options
        .trust
        .blocking_client(EXPORT_TIMEOUT)
        .map_err(invalid)?;
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(client)
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(url)
        .with_timeout(EXPORT_TIMEOUT)
        .with_headers(headers)
        // A retry would delay the next batches, and the shutdown of the node.
        .with_retry_policy(RetryPolicy::disabled())
        .build()
        .map_err(|error| invalid(error.into()))?;
    let batches = BatchConfigBuilder::default()
        .with_max_queue_size(MAX_QUEUED_SPANS)
        .build();
    let processor = BatchSpanProcessor::builder(ReportingExporter::new(exporter))
        .with_batch_config(batches)
        .build();
    let resource = Resource::builder_empty()
        .with_service_name(options.service_name.clone())
        .build();
    Ok(SdkTracerProvider::builder()
        .with_span_processor(processor)
        .with_resource(resource)
        .build())
}

/// Exporter that logs once when the collector becomes unreachable, and once when it recovers.
#[derive(Debug)]
struct ReportingExporter {
    inner: SpanExporter,
    failing: AtomicBool,
}

impl ReportingExporter {
    fn new(inner: SpanExporter) -> Self {
        Self {
            inner,
            failing: AtomicBool::new(false),
        }
    }
}

impl Export for ReportingExporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let result = self.inner.export(batch).await;
        match (
            &result,
            self.failing.swap(result.is_err(), Ordering::Relaxed),
        ) {
            (Err(error), false) => {
                tracing::warn!(%error, "trace export failed, dropping traces");
            }
            (Ok(()), true) => tracing::info!("trace export recovered"),
            _ => {}
        }
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}
