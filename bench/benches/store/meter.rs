//! Wall time, CPU time and memory of this process.

use std::time::{Duration, Instant};

/// Wall and CPU time since its creation.
pub(crate) struct Meter {
    wall: Instant,
    cpu: Duration,
}

impl Meter {
    pub(crate) fn start() -> Self {
        Self {
            wall: Instant::now(),
            cpu: cpu_time(),
        }
    }

    pub(crate) fn wall(&self) -> Duration {
        self.wall.elapsed()
    }

    pub(crate) fn cpu(&self) -> Duration {
        cpu_time().saturating_sub(self.cpu)
    }

    /// Operations per second.
    pub(crate) fn rate(&self, count: usize) -> f64 {
        per_second(count, self.wall())
    }
}

pub(crate) fn per_second(count: usize, time: Duration) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    let count = count as f64;
    count / time.as_secs_f64()
}

/// CPU time of this process, all threads together.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or(0))
}

/// Resident memory of this process, in MiB.
pub(crate) fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line
        .and_then(|line| line.split_whitespace().nth(1))
        .and_then(|n| n.parse().ok());
    kib.unwrap_or(0) / 1024
}
