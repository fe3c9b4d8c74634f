//! Child process that reads a single file of an untrusted sender.
//!
//! The file may take control of this process. So the process gives up what it does not need before it
//! reads the first byte: memory, processor time, files, sockets and child processes. It has no environment,
//! no configuration and no secrets.

use super::reader::{ReaderAnswer, ReaderJob, ReaderRequest};
use super::{FileKind, FileProblem, detect_kind, extract_text};
use std::io::{self, BufRead, Read, Write};

/// Resource limits of the child process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChildLimits {
    /// Address space, in bytes.
    pub memory: u64,
    /// Processor time, in seconds.
    pub cpu_seconds: u64,
}

/// Limits this process permanently.
///
/// Linux enforces all limits, and a limit that it does not accept is an error. In addition it denies access to file
/// names, sockets and programs, as far as the kernel can. Other Unix systems do not support all limits (macOS does not
/// bound the address space): those that they accept are used. Elsewhere there are none, and the parent bounds time and
/// output alone.
///
/// # Errors
/// The system refuses a limit.
#[cfg(unix)]
pub fn confine(limits: &ChildLimits) -> io::Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    // Before the limits: entering the sandbox needs a descriptor temporarily.
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
        // A lower existing limit is kept.
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

/// Does nothing: this system has no such limits.
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
/// The input is not a request, or the pipe broke.
pub fn answer_request(mut input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    let mut header = Vec::new();
    input.read_until(b'\n', &mut header)?;
    let request: ReaderRequest = serde_json::from_slice(&header)?;
    let size = usize::try_from(request.size).map_err(io::Error::other)?;
    let mut bytes = Vec::with_capacity(size);
    input.take(request.size).read_to_end(&mut bytes)?;
    if bytes.len() != size {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let answer = request
        .execute(&bytes)
        .unwrap_or_else(ReaderAnswer::Problem);
    serde_json::to_writer(&mut output, &answer)?;
    output.flush()
}

impl ReaderRequest {
    /// Executes the request in this process.
    pub(super) fn execute(&self, bytes: &[u8]) -> Result<ReaderAnswer, FileProblem> {
        let rules = &self.rules;
        match &self.job {
            ReaderJob::Identify { declared, name } => {
                detect_kind(bytes, declared, name, rules).map(ReaderAnswer::Kind)
            }
            ReaderJob::Check { declared, name } => {
                let kind = detect_kind(bytes, declared, name, rules)?;
                if kind == FileKind::Pdf || kind.is_office() {
                    extract_text(kind, bytes, rules)?;
                }
                Ok(ReaderAnswer::Kind(kind))
            }
            ReaderJob::Text { kind } => extract_text(*kind, bytes, rules).map(ReaderAnswer::Text),
        }
    }
}
