//! The child process that reads one file of an untrusted sender and ends.
//!
//! The file may take control of this process. So the process gives up what it does not need before it
//! reads the first byte: memory, processor time, files, sockets and child processes. It has no environment,
//! no configuration and no secrets.

use super::reader::{Answer, Job, Request};
use super::{Kind, Problem, examine, extract_text};
use std::io::{self, BufRead, Read, Write};

/// What the child process may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChildLimits {
    /// Bytes of address space.
    pub memory: u64,
    /// Seconds of processor time.
    pub cpu_seconds: u64,
}

/// Limits this process for the rest of its life.
///
/// Linux enforces all limits, and a limit that it does not accept is an error. Beside them it refuses names of files,
/// sockets and programs, as far as the kernel can. Other Unix systems do not
/// know all of them (macOS does not bound the address space): those that they accept are used. Elsewhere
/// there are none, and the parent bounds time and output alone.
///
/// # Errors
/// The system refuses a limit.
#[cfg(unix)]
pub fn confine(limits: &ChildLimits) -> io::Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    // Before the limits: entering it takes a descriptor for a moment.
    #[cfg(target_os = "linux")]
    super::sandbox::Sandbox::enter();
    // With 0, 1 and 2 open, a limit of 3 descriptors leaves none for a file or a socket. The hard limit of
    // the processor is one second later than the soft one, whose signal tells the parent the reason.
    let wanted = [
        (Resource::Core, 0, 0),
        (Resource::Fsize, 0, 0),
        (Resource::Nofile, 3, 3),
        (Resource::Nproc, 0, 0),
        (
            Resource::Cpu,
            limits.cpu_seconds,
            limits.cpu_seconds.saturating_add(1),
        ),
        (Resource::As, limits.memory, limits.memory),
    ];
    for (resource, soft, hard) in wanted {
        // A limit that is lower already stays.
        let now = getrlimit(resource);
        let lower =
            |limit: Option<u64>, wanted: u64| limit.map_or(wanted, |limit| limit.min(wanted));
        let hard = lower(now.maximum, hard);
        let limit = Rlimit {
            current: Some(soft.min(hard)),
            maximum: Some(hard),
        };
        let set = setrlimit(resource, limit);
        if cfg!(target_os = "linux") {
            set?;
        }
    }
    Ok(())
}

/// Limits this process for the rest of its life: this system has no such limits.
///
/// # Errors
/// Never.
#[cfg(not(unix))]
pub const fn confine(_: &ChildLimits) -> io::Result<()> {
    Ok(())
}

/// Reads a request and a file from `input`, and writes the result to `output`.
///
/// # Errors
/// What came is not a request, or the pipe broke.
pub fn answer_request(mut input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    let mut header = Vec::new();
    input.read_until(b'\n', &mut header)?;
    let request: Request = serde_json::from_slice(&header)?;
    let size = usize::try_from(request.size).map_err(io::Error::other)?;
    let mut bytes = Vec::with_capacity(size);
    input.take(request.size).read_to_end(&mut bytes)?;
    if bytes.len() != size {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let answer = request.answer(&bytes).unwrap_or_else(Answer::Problem);
    serde_json::to_writer(&mut output, &answer)?;
    output.flush()
}

impl Request {
    /// Does the work, in this process.
    pub(super) fn answer(&self, bytes: &[u8]) -> Result<Answer, Problem> {
        let rules = &self.rules;
        match &self.job {
            Job::Identify { declared, name } => {
                examine(bytes, declared, name, rules).map(Answer::Kind)
            }
            Job::Check { declared, name } => {
                let kind = examine(bytes, declared, name, rules)?;
                if kind == Kind::Pdf || kind.is_office() {
                    extract_text(kind, bytes, rules)?;
                }
                Ok(Answer::Kind(kind))
            }
            Job::Text { kind } => extract_text(*kind, bytes, rules).map(Answer::Text),
        }
    }
}
