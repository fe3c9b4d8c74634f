//! Keeps a program running: restarts it when it ends, with exponential backoff.

use super::CommandOptions;
use super::process::{AgentProcess, ProcessEnd};
use super::process_handle::ProcessHandle;
use interzone_backoff::Backoff;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Consecutive failures after which the agent is unavailable until the program runs again.
const FAILURE_THRESHOLD: u32 = 3;

/// Time that a failing program must run before it is given work again.
const PROBATION: Duration = Duration::from_secs(1);

/// A program that ran this long counts as healthy, and its failure count is reset.
const HEALTHY_AFTER: Duration = Duration::from_secs(30);

/// State of the program.
pub(super) enum ProcessState {
    /// Being started or restarted.
    Starting,
    /// Running.
    Running(Arc<ProcessHandle>),
    /// Failing repeatedly; not available before this time.
    Failing(Instant),
    /// Shut down.
    Ended,
}

/// Keeps a program running until `stop` is canceled.
pub(super) async fn supervise_process(
    program: PathBuf,
    options: Arc<CommandOptions>,
    state: watch::Sender<ProcessState>,
    stop: CancellationToken,
) {
    let agent = &options.id;
    let mut failures = 0_u32;
    while !stop.is_cancelled() {
        match AgentProcess::start(&program, &options) {
            Err(error) => {
                // It existed at startup, so this failure will not go away at once.
                if failures < FAILURE_THRESHOLD {
                    tracing::error!(%agent, ?program, %error, "cannot start agent program, retrying");
                }
                failures = failures.saturating_add(1).max(FAILURE_THRESHOLD);
            }
            Ok(process) => {
                let started_at = Instant::now();
                let (end, answered, lost) = serve(process, failures, &options, &state, &stop).await;
                if matches!(end, ProcessEnd::Stopped) {
                    break;
                }
                if answered || started_at.elapsed() >= HEALTHY_AFTER {
                    failures = 0;
                }
                failures = failures.saturating_add(1);
                tracing::warn!(%agent, reason = %end, lost, failures, "agent program ended, restarting it");
            }
        }
        let delay = restart_delay(&options, failures);
        let next = if failures >= FAILURE_THRESHOLD {
            ProcessState::Failing(Instant::now() + delay + PROBATION)
        } else {
            ProcessState::Starting
        };
        state.send_replace(next);
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(delay) => {}
        }
    }
    state.send_replace(ProcessState::Ended);
}

/// Serves runs with a process until it ends. Returns the reason, whether it ever answered, and the number of lost
/// runs.
async fn serve(
    mut process: AgentProcess,
    failures: u32,
    options: &CommandOptions,
    state: &watch::Sender<ProcessState>,
    stop: &CancellationToken,
) -> (ProcessEnd, bool, usize) {
    let handle = process.handle.clone();
    let publish_running = async {
        if failures >= FAILURE_THRESHOLD {
            tokio::time::sleep(PROBATION).await;
            tracing::info!(agent = %options.id, "agent program recovered");
        }
        state.send_replace(ProcessState::Running(handle.clone()));
        std::future::pending::<()>().await;
    };
    let mut lost = 0;
    let end = tokio::select! {
        end = process.run_to_end(stop, options.exit_grace, &mut lost) => end,
        () = publish_running => ProcessEnd::OutputClosed,
    };
    (end, handle.has_answered(), lost)
}

/// Returns the delay before a restart: doubled with each failure, half of it random, so that programs that failed
/// together do not restart together.
fn restart_delay(options: &CommandOptions, failures: u32) -> Duration {
    Backoff::new(options.initial_restart_delay, options.max_restart_delay)
        .equal_jitter(failures.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use interzone_protocol::vocab::AgentId;

    #[test]
    fn restart_delay_doubles_up_to_the_maximum() {
        let options = CommandOptions {
            initial_restart_delay: Duration::from_millis(100),
            max_restart_delay: Duration::from_secs(2),
            ..CommandOptions::new(AgentId::new("x").unwrap(), Vec::new())
        };
        for (failures, least, most) in
            [(1, 50, 100), (2, 100, 200), (3, 200, 400), (99, 1000, 2000)]
        {
            for _ in 0..100 {
                let delay = restart_delay(&options, failures).as_millis();
                assert!((least..=most).contains(&delay), "{failures}: {delay}");
            }
        }
    }
}
