//! Kernel sandbox of the process that reads a file: no access to file names, sockets or other programs.
//!
//! The limits on descriptors and processes leave code that takes over the process a way around them: it can close one
//! of its pipes and use that descriptor for something else. Landlock and seccomp refuse that too. A kernel that lacks
//! one of them enforces the other, and the limits in any case.

use landlock::{
    ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetError, RulesetStatus, Scope,
};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use std::collections::BTreeMap;

/// System calls that reading a file never needs: sockets, programs, and `io_uring`, whose calls bypass the filter.
const REFUSED_CALLS: [i64; 5] = [
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_io_uring_setup,
];

/// Restrictions that the kernel enforces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sandbox {
    /// No file can be opened, made or removed by its name.
    pub(super) has_no_files: bool,
    /// No socket can be made, and no program started.
    pub(super) has_no_sockets: bool,
}

impl Sandbox {
    /// Restricts this thread, and all that it starts, for the rest of its life.
    pub(super) fn enter() -> Self {
        Self {
            has_no_files: refuse_files().unwrap_or(false),
            has_no_sockets: refuse_calls().is_ok(),
        }
    }
}

/// Handles every access that the kernel knows, and allows none. Returns false if the kernel enforces nothing.
fn refuse_files() -> Result<bool, RulesetError> {
    let restricted = Ruleset::default()
        .handle_access(AccessFs::from_all(ABI::V5))?
        .handle_access(AccessNet::from_all(ABI::V5))?
        .scope(Scope::from_all(ABI::V6))?
        .create()?
        .restrict_self()?;
    Ok(restricted.ruleset != RulesetStatus::NotEnforced)
}

fn refuse_calls() -> Result<(), seccompiler::Error> {
    let rules: BTreeMap<_, _> = REFUSED_CALLS.map(|call| (call, Vec::new())).into();
    let refusal = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let architecture = std::env::consts::ARCH.try_into()?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refusal, architecture)?;
    let program: BpfProgram = filter.try_into()?;
    seccompiler::apply_filter(&program)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{ErrorKind, Read};
    use std::net::UdpSocket;
    use std::os::unix::net::UnixStream;
    use std::process::Command;

    #[test]
    fn sandboxed_thread_cannot_open_files_sockets_or_programs() {
        let mut open = File::open("/proc/self/stat").unwrap();
        let refused = std::thread::spawn(move || {
            let sandbox = Sandbox::enter();
            let mut text = String::new();
            // A file that is already open can be read.
            open.read_to_string(&mut text).unwrap();
            assert!(!text.is_empty());
            let kind = |error: Option<std::io::Error>| error.map(|error| error.kind());
            let files = [
                kind(File::open("/etc/passwd").err()),
                kind(File::create(std::env::temp_dir().join("sandboxed")).err()),
            ];
            let others = [
                kind(UdpSocket::bind("127.0.0.1:0").err()),
                kind(UnixStream::pair().err()),
                kind(Command::new("/bin/true").spawn().err()),
            ];
            (sandbox, files, others)
        });
        let (sandbox, files, others) = refused.join().unwrap();
        let refusal = Some(ErrorKind::PermissionDenied);
        // A kernel may lack Landlock or seccomp.
        if sandbox.has_no_files {
            assert_eq!(files, [refusal; 2]);
        }
        if sandbox.has_no_sockets {
            assert_eq!(others, [refusal; 3]);
        }
        assert!(
            sandbox.has_no_files || sandbox.has_no_sockets,
            "this kernel has neither Landlock nor seccomp"
        );
    }
}
