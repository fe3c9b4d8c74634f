//! Signals to a program and all that it has started.
//!
//! The program, or the supervisor that runs it, leads a process group of its own, so that nothing in that
//! group outlives it.

/// What is asked of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// To end.
    End,
    /// Of a supervisor: to end everything below it, and then itself.
    EndAll,
    /// Nothing any more.
    Die,
}

/// Asks it of the whole group that the process with this number leads, or of a supervisor alone.
#[cfg(unix)]
pub(super) fn send(leader: u32, ask: Ask) {
    use rustix::process::{Pid, Signal, kill_process, kill_process_group};
    if let Some(leader) = i32::try_from(leader).ok().and_then(Pid::from_raw) {
        // An error means that no process is left to be asked, which is as good.
        let _ = match ask {
            Ask::End => kill_process_group(leader, Signal::TERM),
            Ask::EndAll => kill_process(leader, Signal::INT),
            Ask::Die => kill_process_group(leader, Signal::KILL),
        };
    }
}

/// Elsewhere there are no groups; the process itself is killed by whoever waits for it.
#[cfg(not(unix))]
pub(super) fn send(_leader: u32, _ask: Ask) {}
