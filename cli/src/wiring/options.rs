//! What the parts of a zone are told, from the configuration.

use super::StartError;
use crate::config::{AuditConfig, Config, LimitsConfig};
use interzone_edge::audit::Audit;
use interzone_edge::egress::Egress;
use interzone_edge::limits::{BodyRoom, HttpLimits};
use interzone_edge::telemetry::Metrics;
use interzone_execution::Operator;
use interzone_execution::files::FileReader;
use interzone_execution::intake::Intake;
use interzone_execution::webhooks::WebhookCarrier;
use interzone_execution::workers::{CarrierOptions, WorkerOptions};
use interzone_hub::{Limits, RetryPolicy};
use interzone_protocol::acp::Provider;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

pub(super) fn http_limits(config: &LimitsConfig) -> HttpLimits {
    // Whatever one body may have, there is room for several.
    let usual = HttpLimits::default();
    let room = || BodyRoom::new(config.body.saturating_mul(4).max(512 << 20));
    HttpLimits {
        body: config.body,
        bodies: room(),
        answers: room(),
        header_bytes: config.headers,
        handshake: config.handshake_time,
        header_time: config.header_time,
        body_time: config.body_time,
        request_time: config.request_time,
        idle: config.idle_time,
        stall: config.stall_time,
        watches: config.watches,
        connections: config.connections,
        requests: config.requests,
        ..usual
    }
}

pub(super) fn hub_limits(config: &Config) -> Limits {
    Limits {
        attempts: config.work.attempts,
        stream_idle: config.limits.stream_idle,
        ..Limits::default()
    }
}

/// The reader of files that callers send: this binary once more, for each file.
pub(super) fn file_reader(config: &Config) -> io::Result<FileReader> {
    // The link leads to the binary that runs, also after an upgrade has put another one in its place.
    let program = match cfg!(target_os = "linux") {
        true => PathBuf::from("/proc/self/exe"),
        false => std::env::current_exe()?,
    };
    let processes = config.attachments.extract_processes;
    Ok(FileReader::new(program, processes))
}

pub(super) fn worker_options(
    config: &Config,
    egress: &Egress,
    reader: &FileReader,
) -> WorkerOptions {
    // Two nodes of one name would take each other's work for their own.
    let made_up = || uuid::Uuid::new_v4().simple().to_string();
    let node = config.execution.node.clone().unwrap_or_else(made_up);
    let usual = WorkerOptions::new(node);
    WorkerOptions {
        lease: config.work.lease,
        turn_timeout: config.work.turn,
        retention: config.retention,
        intake: Some(Arc::new(Intake::new(
            egress.clone(),
            reader.clone(),
            config.attachments.clone(),
        ))),
        webhooks: CarrierOptions {
            retry: RetryPolicy {
                attempts: config.webhooks.attempts,
                ..usual.webhooks.retry
            },
            ..usual.webhooks
        },
        ..usual
    }
}

pub(super) fn webhooks(config: &Config, egress: Egress) -> WebhookCarrier {
    WebhookCarrier {
        egress,
        secret: config.webhooks.secret.clone(),
        bare: config.webhooks.bare,
    }
}

pub(super) fn audit(config: &AuditConfig, metrics: &Arc<Metrics>) -> Result<Audit, StartError> {
    let log = Audit::to_log(io::stderr(), metrics.clone()).map_err(StartError::Thread)?;
    match &config.file {
        None => Ok(log),
        Some(path) => log.and_to_file(path).map_err(|source| StartError::Audit {
            path: path.clone(),
            source,
        }),
    }
}

pub(super) fn operator(config: &Config) -> Operator {
    Operator {
        name: config.card.name.clone(),
        description: config.card.description.clone(),
        provider: Provider {
            organization: config.card.organization.clone(),
            contact: config.card.contact.clone(),
            website: config.card.website.clone(),
        },
    }
}
