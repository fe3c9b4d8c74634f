//! Signals to a program and all that it has started.
//!
//! The program leads a process group of its own, so that nothing it started outlives it.

/// What is asked of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// To end.
    End,
    /// Nothing any more.
    Die,
}

/// Asks it of the whole group that the process with this number leads.
#[cfg(unix)]
pub(super) fn send(leader: u32, ask: Ask) {
    use rustix::process::{Pid, Signal, kill_process_group};
    let signal = match ask {
        Ask::End => Signal::TERM,
        Ask::Die => Signal::KILL,
    };
    if let Some(group) = i32::try_from(leader).ok().and_then(Pid::from_raw) {
        // An error means that nobody is left in the group, which is as good.
        let _ = kill_process_group(group, signal);
    }
}

/// Elsewhere there are no groups; the process itself is killed by whoever waits for it.
#[cfg(not(unix))]
pub(super) fn send(_leader: u32, _ask: Ask) {}
