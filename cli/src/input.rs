//! Reads files and standard input, up to a size limit.

use crate::printable;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, IsTerminal, Read, Write};
use std::path::PathBuf;

/// Size limit of the input. It is far above what any server accepts and fits in memory, so that `/dev/zero` or
/// a disk image given by mistake ends with an error message.
pub(crate) const MAX_INPUT_SIZE: u64 = 64 * 1024 * 1024;

/// Source of the input.
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
    /// It cannot be read, is the null device, or is larger than [`MAX_INPUT_SIZE`].
    pub(crate) fn read(&self) -> Result<Vec<u8>, InputError> {
        let read = match self {
            Self::Standard => {
                let stdin = io::stdin();
                if stdin.is_terminal() {
                    let _ = writeln!(io::stderr(), "{TERMINAL_NOTICE}");
                }
                let read = read_limited(stdin.lock(), 0);
                if matches!(&read, Ok(Some(bytes)) if bytes.is_empty()) && is_null_device(&stdin) {
                    return Err(InputError::NotConnected);
                }
                read
            }
            Self::File(path) => File::open(path).and_then(|file| {
                let size = file.metadata()?.len();
                read_limited(file, size)
            }),
        };
        match read {
            Ok(Some(bytes)) => Ok(bytes),
            Ok(None) => Err(InputError::TooLarge(self.name())),
            Err(error) => Err(self.refuse(error)),
        }
    }

    /// Returns the name for messages.
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

/// Notice that the program reads from the terminal, in case the user forgot the pipe.
const TERMINAL_NOTICE: &str = if cfg!(windows) {
    "reading a message from the terminal; end with Ctrl-Z and Enter"
} else {
    "reading a message from the terminal; end with Ctrl-D"
};

/// Returns true if standard input is the null device, which a closed one becomes before `main`.
#[cfg(unix)]
fn is_null_device(stdin: &io::Stdin) -> bool {
    use std::os::fd::AsFd;
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    let opened = stdin.as_fd().try_clone_to_owned().map(File::from);
    let opened = opened.and_then(|file| file.metadata());
    let (Ok(opened), Ok(null)) = (opened, fs::metadata("/dev/null")) else {
        return false;
    };
    opened.file_type().is_char_device() && opened.rdev() == null.rdev()
}

/// Other systems cannot distinguish it from an empty input.
#[cfg(not(unix))]
fn is_null_device(_: &io::Stdin) -> bool {
    false
}

/// Reads to the end; None if there is more than [`MAX_INPUT_SIZE`].
///
/// `size` is the size according to the file system. It is 0 for a device or a pipe, and a file may grow while
/// it is read, so the reading itself is limited too.
fn read_limited(source: impl Read, size: u64) -> io::Result<Option<Vec<u8>>> {
    if size > MAX_INPUT_SIZE {
        return Ok(None);
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    let read = source.take(MAX_INPUT_SIZE + 1).read_to_end(&mut bytes)?;
    Ok((read as u64 <= MAX_INPUT_SIZE).then_some(bytes))
}

/// Error of reading the input. Each message names the remedy.
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
    #[error("cannot read {0}: permission denied; change its permissions, or give another file")]
    Forbidden(String),
    #[error(
        "cannot read {0}: it is larger than {max} MiB; use a smaller input",
        max = MAX_INPUT_SIZE / 1024 / 1024
    )]
    TooLarge(String),
    #[error("cannot read {0}: {1}; give a file that can be read, or - to read standard input")]
    Unreadable(String, #[source] io::Error),
}

#[cfg(test)]
mod tests {
    use super::{MAX_INPUT_SIZE, read_limited};
    use std::io::{self, Read};

    #[test]
    fn input_is_read_up_to_the_limit() {
        let length = |bytes: u64| {
            read_limited(io::repeat(b' ').take(bytes), 0)
                .unwrap()
                .map(|read| read.len() as u64)
        };
        assert_eq!(length(0), Some(0));
        assert_eq!(length(MAX_INPUT_SIZE), Some(MAX_INPUT_SIZE));
        assert_eq!(length(MAX_INPUT_SIZE + 1), None);
        assert!(read_limited(io::repeat(b' '), 0).unwrap().is_none());
    }

    #[test]
    fn large_file_is_rejected_without_reading() {
        struct Unread;
        impl Read for Unread {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                panic!("was read")
            }
        }
        assert!(read_limited(Unread, MAX_INPUT_SIZE + 1).unwrap().is_none());
    }
}
