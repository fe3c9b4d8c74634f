//! Signals to a program and the processes that it started.
//!
//! The program, or the supervisor that runs it, leads a process group of its own, so that nothing in that
//! group outlives it.

/// Signal for a process group or a supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProcessSignal {
    /// Terminate the group (SIGTERM).
    Terminate,
    /// Interrupt the supervisor (SIGINT), which ends everything below it and then itself.
    InterruptSupervisor,
    /// Kill the group (SIGKILL).
    Kill,
}

/// Sends the signal to the process group led by this process, or to the supervisor alone.
#[cfg(unix)]
pub(super) fn send(leader: u32, signal: ProcessSignal) {
    use rustix::process::{Pid, Signal, kill_process, kill_process_group};
    if let Some(leader) = i32::try_from(leader).ok().and_then(Pid::from_raw) {
        // An error means that no process is left to signal, which is fine.
        let _ = match signal {
            ProcessSignal::Terminate => kill_process_group(leader, Signal::TERM),
            ProcessSignal::InterruptSupervisor => kill_process(leader, Signal::INT),
            ProcessSignal::Kill => kill_process_group(leader, Signal::KILL),
        };
    }
}

/// Other systems have no process groups; the waiting task kills the process itself.
#[cfg(not(unix))]
pub(super) fn send(_leader: u32, _signal: ProcessSignal) {}
