//! What the parts of a zone are told, from the configuration.

use super::StartError;
use crate::config::{AuditConfig, Config, LimitsConfig};
use interzone_edge::audit::Audit;
use interzone_edge::budget::{MemoryBudget, Shares};
use interzone_edge::egress::Egress;
use interzone_edge::limits::HttpLimits;
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
    let usual = HttpLimits::default();
    let shares = Shares {
        address: config.address_share,
        principal: config.principal_share,
    };
    HttpLimits {
        body: config.body,
        bodies: memory_budget(config),
        answers: memory_budget(config),
        shares,
        header_bytes: config.headers,
        handshake: config.handshake_time,
        header_time: config.header_time,
        body_time: config.body_time,
        body_rate: config.body_rate,
        request_time: config.request_time,
        idle: config.idle_time,
        stall: config.stall_time,
        watches: config.watches,
        connections: fit_connections(config.connections, raise_open_files()),
        requests: config.requests,
        arriving: config.arriving,
        heads: u64::try_from(config.heads).unwrap_or(u64::MAX),
        ..usual
    }
}

/// Memory that callers share, for bodies, for answers or for what agents are given.
fn memory_budget(config: &LimitsConfig) -> MemoryBudget {
    let shares = Shares {
        address: config.address_share,
        principal: config.principal_share,
    };
    // Whatever one body may have, the share of one principal has room for it.
    let several = config.principal_share.max(4);
    let bytes = config.body.saturating_mul(several).max(512 << 20);
    MemoryBudget::with_shares(bytes, shares)
}

/// Open files that are not connections of callers: stores, files, agents, connections to others.
const OTHER_FILES: u64 = 256;

/// As many connections as the limit of open files leaves room for. Without this, one address with its share of
/// `limits.connections` could take all descriptors of a process that has few.
fn fit_connections(wanted: usize, open_files: Option<u64>) -> usize {
    let Some(open_files) = open_files else {
        return wanted;
    };
    let most = open_files.saturating_sub(OTHER_FILES).max(open_files / 2);
    let most = usize::try_from(most).unwrap_or(usize::MAX).max(1);
    // A few less make no difference to anyone.
    if most < wanted / 2 {
        tracing::warn!(
            open_files,
            connections = most,
            "the limit of open files allows fewer connections than limits.connections"
        );
    }
    wanted.min(most)
}

/// Raises the soft limit of open files to the hard one, and says what it is then; `None` if there is none.
#[cfg(unix)]
fn raise_open_files() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let now = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: now.maximum,
        maximum: now.maximum,
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => now.maximum,
        Err(error) => {
            tracing::warn!(%error, "the limit of open files could not be raised");
            now.current
        }
    }
}

#[cfg(not(unix))]
fn raise_open_files() -> Option<u64> {
    None
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
        memory: memory_budget(&config.limits),
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

#[cfg(test)]
mod tests {
    use super::fit_connections;

    #[test]
    fn connections_leave_open_files_for_everything_else() {
        assert_eq!(fit_connections(20_000, None), 20_000);
        assert_eq!(fit_connections(20_000, Some(65_536)), 20_000);
        assert_eq!(fit_connections(20_000, Some(1_024)), 768);
        assert_eq!(fit_connections(100, Some(1_024)), 100);
        assert_eq!(fit_connections(20_000, Some(64)), 32);
    }
}
