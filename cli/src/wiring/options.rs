//! Limits and options of the Execution Zone's components, converted from configuration keys.

use super::StartError;
use crate::config::{AuditConfig, Config, LimitsConfig};
use interzone_delivery::DeliveryOptions;
use interzone_edge::audit::Audit;
use interzone_edge::budget::MemoryBudget;
use interzone_edge::egress::Egress;
use interzone_edge::limits::HttpLimits;
use interzone_edge::telemetry::Metrics;
use interzone_execution::OperatorInfo;
use interzone_execution::attachments::AttachmentLoader;
use interzone_execution::files::FileReader;
use interzone_execution::webhooks::WebhookDelivery;
use interzone_execution::workers::WorkerOptions;
use interzone_hub::{Hub, RetryPolicy};
use interzone_protocol::vocab::Provider;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

pub(super) fn http_limits(config: &LimitsConfig) -> HttpLimits {
    HttpLimits {
        body_memory: memory_budget(config),
        response_memory: memory_budget(config),
        connections: limit_connections(config.http.connections, raise_open_files()),
        ..config.http.clone()
    }
}

/// Creates a memory budget that callers share, for bodies, responses or agent input.
fn memory_budget(config: &LimitsConfig) -> MemoryBudget {
    let shares = config.http.shares;
    // The share of one principal must fit the largest body.
    let shares_of_body = shares.principal.max(4);
    let bytes = config.http.body_bytes.saturating_mul(shares_of_body);
    MemoryBudget::with_shares(bytes.max(512 << 20), shares)
}

/// Open files reserved for other uses than client connections: stores, files, agents, outgoing connections.
const RESERVED_FILES: u64 = 256;

/// Limits the connections to what the open file limit allows. Otherwise one address with its share of
/// `limits.connections` could use up all file descriptors of a process with a low limit.
fn limit_connections(wanted: usize, open_files: Option<u64>) -> usize {
    let Some(open_files) = open_files else {
        return wanted;
    };
    let max = open_files
        .saturating_sub(RESERVED_FILES)
        .max(open_files / 2);
    let max = usize::try_from(max).unwrap_or(usize::MAX).max(1);
    // A small reduction is not worth a warning.
    if max < wanted / 2 {
        tracing::warn!(
            open_files,
            connections = max,
            "open file limit reduces maximum connections"
        );
    }
    wanted.min(max)
}

/// Raises the soft limit of open files to the hard one, and returns the limit; `None` if unlimited.
#[cfg(unix)]
fn raise_open_files() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let current = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: current.maximum,
        maximum: current.maximum,
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => current.maximum,
        Err(error) => {
            tracing::warn!(%error, "cannot raise open file limit");
            current.current
        }
    }
}

#[cfg(not(unix))]
fn raise_open_files() -> Option<u64> {
    None
}

/// Creates the reader of attachments, which runs this binary for each file.
pub(super) fn file_reader(config: &Config) -> io::Result<FileReader> {
    // The link refers to the running binary, even after an upgrade has replaced it.
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
    let workers = &config.work.workers;
    let node = config.execution.node.clone();
    WorkerOptions {
        node: node.unwrap_or_else(|| workers.node.clone()),
        retention: config.retention,
        attachments: Some(Arc::new(AttachmentLoader::new(
            egress.clone(),
            reader.clone(),
            config.attachments.clone(),
        ))),
        memory: memory_budget(&config.limits),
        webhooks: DeliveryOptions {
            retry: RetryPolicy {
                max_attempts: config.webhooks.attempts,
                ..workers.webhooks.retry
            },
            ..workers.webhooks
        },
        ..workers.clone()
    }
}

pub(super) fn webhooks(config: &Config, hub: Hub, egress: Egress) -> WebhookDelivery {
    WebhookDelivery {
        hub,
        egress,
        secret: config.webhooks.secret.clone(),
        params_only: config.webhooks.params_only,
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

pub(super) fn operator(config: &Config) -> OperatorInfo {
    OperatorInfo {
        name: config.card.name.clone(),
        description: config.card.description.clone(),
        provider: Provider {
            organization: config.card.organization.clone(),
            contact: config.card.contact.clone(),
            website: config.card.website.clone(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::limit_connections;

    #[test]
    fn connections_are_limited_by_open_files() {
        assert_eq!(limit_connections(20_000, None), 20_000);
        assert_eq!(limit_connections(20_000, Some(65_536)), 20_000);
        assert_eq!(limit_connections(20_000, Some(1_024)), 768);
        assert_eq!(limit_connections(100, Some(1_024)), 100);
        assert_eq!(limit_connections(20_000, Some(64)), 32);
    }
}
