//! Clocks and counters of the machine.

use std::time::{Duration, Instant};

/// Time on the wall and time on the processor, from its making on.
pub(crate) struct Meter {
    wall: Instant,
    processor: Duration,
}

impl Meter {
    pub(crate) fn start() -> Self {
        Self {
            wall: Instant::now(),
            processor: processor_time(),
        }
    }

    pub(crate) fn wall(&self) -> Duration {
        self.wall.elapsed()
    }

    pub(crate) fn processor(&self) -> Duration {
        processor_time().saturating_sub(self.processor)
    }

    /// How many in a second.
    pub(crate) fn rate(&self, count: usize) -> f64 {
        per_second(count, self.wall())
    }
}

pub(crate) fn per_second(count: usize, time: Duration) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    let count = count as f64;
    count / time.as_secs_f64()
}

/// The time that this process, all its threads together, has spent on the processor.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or(0))
}

/// The memory that this process has, in MiB, as the kernel counts it.
pub(crate) fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line
        .and_then(|line| line.split_whitespace().nth(1))
        .and_then(|n| n.parse().ok());
    kib.unwrap_or(0) / 1024
}
