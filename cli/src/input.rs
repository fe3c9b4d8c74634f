//! Reading what the user points at, and never more of it than can be meant.
//!
//! What is in it is not this file's business.

use crate::printable;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, IsTerminal, Read, Write};
use std::path::PathBuf;

/// The most that is read. It is far above what any server takes, and small enough for any machine,
/// so that `/dev/zero` or a disk image given by mistake ends in a sentence.
pub(crate) const MOST: u64 = 64 * 1024 * 1024;

/// Where to read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    Standard,
    File(PathBuf),
}

impl From<&OsStr> for Input {
    /// `-` is standard input; a file of that name is `./-`.
    fn from(argument: &OsStr) -> Self {
        if argument == "-" {
            Self::Standard
        } else {
            Self::File(argument.into())
        }
    }
}

impl Input {
    /// Reads all of it.
    ///
    /// # Errors
    /// It cannot be read, leads nowhere, or there is more of it than [`MOST`].
    pub(crate) fn read(&self) -> Result<Vec<u8>, InputError> {
        let read = match self {
            Self::Standard => {
                let stdin = io::stdin();
                if stdin.is_terminal() {
                    let _ = writeln!(io::stderr(), "{WAITING}");
                }
                let read = bounded(stdin.lock(), 0);
                if matches!(&read, Ok(Some(bytes)) if bytes.is_empty()) && leads_nowhere(&stdin) {
                    return Err(InputError::NotConnected);
                }
                read
            }
            Self::File(path) => File::open(path).and_then(|file| {
                let size = file.metadata()?.len();
                bounded(file, size)
            }),
        };
        match read {
            Ok(Some(bytes)) => Ok(bytes),
            Ok(None) => Err(InputError::TooLarge(self.name())),
            Err(error) => Err(self.refuse(error)),
        }
    }

    /// What to call it when speaking to the user.
    fn name(&self) -> String {
        match self {
            Self::Standard => "standard input".to_owned(),
            Self::File(path) if path.as_os_str().is_empty() => "\"\"".to_owned(),
            Self::File(path) => printable::text(&path.to_string_lossy()),
        }
    }

    fn refuse(&self, error: io::Error) -> InputError {
        let name = self.name();
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => InputError::Missing(name),
            io::ErrorKind::IsADirectory => InputError::Directory(name),
            io::ErrorKind::PermissionDenied => InputError::Forbidden(name),
            _ => InputError::Unreadable(name, error),
        }
    }
}

/// Somebody who forgot the pipe would wait for ever without a word.
const WAITING: &str = if cfg!(windows) {
    "reading a message from the terminal; end with Ctrl-Z and Enter"
} else {
    "reading a message from the terminal; end with Ctrl-D"
};

/// Whether standard input is the null device, which is what a closed one becomes before `main`.
#[cfg(unix)]
fn leads_nowhere(stdin: &io::Stdin) -> bool {
    use std::os::fd::AsFd;
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    let opened = stdin.as_fd().try_clone_to_owned().map(File::from);
    let opened = opened.and_then(|file| file.metadata());
    let (Ok(opened), Ok(null)) = (opened, fs::metadata("/dev/null")) else {
        return false;
    };
    opened.file_type().is_char_device() && opened.rdev() == null.rdev()
}

/// Elsewhere nothing tells it from an empty one.
#[cfg(not(unix))]
fn leads_nowhere(_: &io::Stdin) -> bool {
    false
}

/// Reads to the end, or gives nothing where that is further away than [`MOST`].
///
/// `size` is what the file system says. A device or a pipe says 0, and a file may grow while it is
/// read, so the reading itself is bounded too.
fn bounded(source: impl Read, size: u64) -> io::Result<Option<Vec<u8>>> {
    if size > MOST {
        return Ok(None);
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    let read = source.take(MOST + 1).read_to_end(&mut bytes)?;
    Ok((read as u64 <= MOST).then_some(bytes))
}

/// Why there is nothing to look at. Each says what to do about it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InputError {
    #[error("cannot read {0}: no such file; give the path of a file, or - to read standard input")]
    Missing(String),
    #[error(
        "cannot read standard input: it is closed or the null device; pipe a message into it, or give the path of a file"
    )]
    NotConnected,
    #[error("cannot read {0}: it is a directory; give the path of one file")]
    Directory(String),
    #[error("cannot read {0}: permission denied; make it readable for you, or give a file that is")]
    Forbidden(String),
    #[error(
        "cannot read {0}: it is larger than {most} MiB; give less at once",
        most = MOST / 1024 / 1024
    )]
    TooLarge(String),
    #[error("cannot read {0}: {1}; give a file that can be read, or - to read standard input")]
    Unreadable(String, #[source] io::Error),
}

#[cfg(test)]
mod tests {
    use super::{MOST, bounded};
    use std::io::{self, Read};

    #[test]
    fn reads_up_to_the_limit_and_no_further() {
        let length = |bytes: u64| {
            bounded(io::repeat(b' ').take(bytes), 0)
                .unwrap()
                .map(|read| read.len() as u64)
        };
        assert_eq!(length(0), Some(0));
        assert_eq!(length(MOST), Some(MOST));
        assert_eq!(length(MOST + 1), None);
        assert!(bounded(io::repeat(b' '), 0).unwrap().is_none());
    }

    #[test]
    fn refuses_a_large_file_without_reading_it() {
        struct Unread;
        impl Read for Unread {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                panic!("was read")
            }
        }
        assert!(bounded(Unread, MOST + 1).unwrap().is_none());
    }
}
