//! Traces: spans of ours become OpenTelemetry's and leave in batches, by a thread of their own. A
//! collector that is away costs nothing but its traces, and one line in the log.

use super::{OtlpOptions, TelemetryError};
use crate::request::TraceParent;
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

/// Spans that may wait to be sent; more are dropped.
const QUEUE: usize = 4096;
/// How long one batch may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Makes `span` a part of the caller's trace. Does nothing if no traces are made.
pub fn follow(span: &Span, parent: &TraceParent) {
    let state = parent
        .state()
        .and_then(|text| TraceState::from_str(text).ok());
    let remote = SpanContext::new(
        TraceId::from_bytes(parent.trace()),
        SpanId::from_bytes(parent.span()),
        if parent.sampled() {
            TraceFlags::SAMPLED
        } else {
            TraceFlags::default()
        },
        true,
        state.unwrap_or_default(),
    );
    // It fails if nothing listens to the span, and then there is nothing to do.
    let _ = span.set_parent(opentelemetry::Context::new().with_remote_span_context(remote));
}

/// Where `span` is in its trace, to be told to those who are asked next; `None` if no traces are made.
pub fn current(span: &Span) -> Option<TraceParent> {
    let context = span.context();
    let here = context.span().span_context().clone();
    TraceParent::from_parts(
        here.trace_id().to_bytes(),
        here.span_id().to_bytes(),
        here.is_sampled(),
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
    let refuse = |source: Box<dyn std::error::Error + Send + Sync>| TelemetryError::Otlp {
        endpoint: options.endpoint.clone(),
        source,
    };
    let mut url = url::Url::parse(&options.endpoint).map_err(|error| refuse(error.into()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(refuse("neither http nor https".into()));
    }
    if url.path() == "/" {
        url.set_path("/v1/traces");
    }
    let mut headers = HashMap::new();
    for (name, value) in &options.headers {
        http::HeaderName::from_str(name).map_err(|error| refuse(error.into()))?;
        http::HeaderValue::from_str(value.expose()).map_err(|error| refuse(error.into()))?;
        headers.insert(name.clone(), value.expose().to_owned());
    }
    let client = options.trust.waiting_client(PATIENCE).map_err(refuse)?;
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(client)
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(url)
        .with_timeout(PATIENCE)
        .with_headers(headers)
        // What comes next waits meanwhile, and a node that stops would wait for all of it.
        .with_retry_policy(RetryPolicy::disabled())
        .build()
        .map_err(|error| refuse(error.into()))?;
    let batches = BatchConfigBuilder::default()
        .with_max_queue_size(QUEUE)
        .build();
    let processor = BatchSpanProcessor::builder(Reported::new(exporter))
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

/// An exporter that tells of a collector that goes away, and of its return, once each.
#[derive(Debug)]
struct Reported {
    inner: SpanExporter,
    away: AtomicBool,
}

impl Reported {
    fn new(inner: SpanExporter) -> Self {
        Self {
            inner,
            away: AtomicBool::new(false),
        }
    }
}

impl Export for Reported {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let result = self.inner.export(batch).await;
        match (&result, self.away.swap(result.is_err(), Ordering::Relaxed)) {
            (Err(error), false) => {
                tracing::warn!(%error, "traces do not reach the collector and are dropped");
            }
            (Ok(()), true) => tracing::info!("traces reach the collector again"),
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
