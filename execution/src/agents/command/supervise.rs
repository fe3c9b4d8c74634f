//! Keeping a program running: it is started again when it ends, sooner at first and later if it keeps
//! ending.

use super::CommandOptions;
use super::live::Live;
use super::process::{End, Process};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// After so many failures in a row the agent is not available until the program runs again.
const TROUBLE: u32 = 3;

/// How long a program that was in trouble must run before it is given work.
const PROBATION: Duration = Duration::from_secs(1);

/// A program that ran this long was not in trouble.
const STEADY: Duration = Duration::from_secs(30);

/// Whether the program is there.
pub(super) enum Presence {
    /// It is being started, for the first time or again.
    Starting,
    /// It runs.
    Up(Arc<Live>),
    /// It does not run, and probably will not soon: not before this moment.
    Troubled(Instant),
    /// It has ended for good.
    Ended,
}

/// Keeps a program running until told to stop.
pub(super) async fn keep_running(
    program: PathBuf,
    options: Arc<CommandOptions>,
    here: watch::Sender<Presence>,
    stop: CancellationToken,
) {
    let agent = &options.id;
    let mut failures = 0_u32;
    while !stop.is_cancelled() {
        match Process::start(&program, &options) {
            Err(error) => {
                // It was there at the start, so this does not go away at once.
                if failures < TROUBLE {
                    tracing::error!(%agent, ?program, %error, "the program cannot be started; trying again from time to time");
                }
                failures = failures.saturating_add(1).max(TROUBLE);
            }
            Ok(process) => {
                let began = Instant::now();
                let (end, answered, lost) = serve(process, failures, &options, &here, &stop).await;
                if matches!(end, End::Stopped) {
                    break;
                }
                if answered || began.elapsed() >= STEADY {
                    failures = 0;
                }
                failures = failures.saturating_add(1);
                tracing::warn!(%agent, why = %end, lost, failures, "the program is gone; starting it again");
            }
        }
        let wait = wait(&options, failures);
        let next = if failures >= TROUBLE {
            Presence::Troubled(Instant::now() + wait + PROBATION)
        } else {
            Presence::Starting
        };
        here.send_replace(next);
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
    here.send_replace(Presence::Ended);
}

/// Lets a process work until it ends. Answers why it did, whether it ever answered, and how many runs
/// were lost with it.
async fn serve(
    mut process: Process,
    failures: u32,
    options: &CommandOptions,
    here: &watch::Sender<Presence>,
    stop: &CancellationToken,
) -> (End, bool, usize) {
    let live = process.live.clone();
    let trusted = async {
        if failures >= TROUBLE {
            tokio::time::sleep(PROBATION).await;
            tracing::info!(agent = %options.id, "the program runs again");
        }
        here.send_replace(Presence::Up(live.clone()));
        std::future::pending::<()>().await;
    };
    let mut lost = 0;
    let end = tokio::select! {
        end = process.attend(stop, options.exit_grace, &mut lost) => end,
        () = trusted => End::Silent,
    };
    (end, live.has_answered(), lost)
}

/// How long to wait after so many failures: twice as long each time, half of it by chance, so that
/// programs that fell together do not rise together.
fn wait(options: &CommandOptions, failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    let whole = options
        .restart_first
        .saturating_mul(1_u32 << doublings)
        .min(options.restart_longest);
    let half = whole / 2;
    let chance = u64::try_from(uuid::Uuid::new_v4().as_u128() & 0xffff).unwrap_or(0);
    let by_chance = half.as_nanos().saturating_mul(u128::from(chance)) / 0xffff;
    half + Duration::from_nanos(u64::try_from(by_chance).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use interzone_protocol::vocab::AgentId;

    #[test]
    fn waits_double_and_are_never_too_long() {
        let options = CommandOptions {
            restart_first: Duration::from_millis(100),
            restart_longest: Duration::from_secs(2),
            ..CommandOptions::new(AgentId::new("x").unwrap(), Vec::new())
        };
        for (failures, least, most) in
            [(1, 50, 100), (2, 100, 200), (3, 200, 400), (99, 1000, 2000)]
        {
            for _ in 0..100 {
                let wait = wait(&options, failures).as_millis();
                assert!((least..=most).contains(&wait), "{failures}: {wait}");
            }
        }
    }
}
