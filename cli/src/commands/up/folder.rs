//! The folder of `interzone up`: one process at a time, and how to begin anew.

use crate::config::Profile;
use crate::exit::Failure;
use crate::printable;
use crate::private;
use crate::wiring::StartError;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;

/// Held while a process has the folder.
const LOCK: &str = "up.lock";
/// What a project that is kept in git must not take along: everything.
const IGNORE: &str = ".gitignore";

/// All that is made in the folder. Whatever else somebody put there stays.
const MADE: &[&str] = &[
    IGNORE,
    "ca.pem",
    "ca-key.pem",
    "cert.pem",
    "key.pem",
    "connection.toml",
    "interzone.db",
    "verification.db",
    "slack.db",
    "verification.secret",
    "slack-signing.secret",
    "slack-bot.secret",
    "audit.log",
    "slack-audit.log",
];
/// What stands beside a file while it is in use: SQLite's, its lock, and a new one before it is named.
const BESIDE: &[&str] = &["-wal", "-shm", "-journal", ".lock", ".new"];

/// The folder, for as long as this lives.
#[derive(Debug)]
pub(super) struct Held {
    _lock: File,
}

impl Held {
    /// Makes the folder if it is not there, and takes it.
    ///
    /// # Errors
    /// Somebody else has it, or it cannot be made.
    pub(super) fn take(folder: &Path, reset: bool) -> Result<Self, Failure> {
        let failed = |error| Failure::Save(folder.to_owned(), error);
        private::make_folder(folder).map_err(failed)?;
        let mut options = OpenOptions::new();
        let options = options.create(true).truncate(false).write(true);
        let lock = options.open(folder.join(LOCK)).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let profile = Profile::read(folder).ok().flatten();
                return Err(Failure::Start(StartError::AlreadyUp {
                    folder: printable::text(&folder.to_string_lossy()),
                    url: profile.map(|profile| profile.url),
                }));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        if reset {
            forget(folder).map_err(failed)?;
        }
        ignore(folder).map_err(failed)?;
        Ok(Self { _lock: lock })
    }
}

/// Removes what was made here, and nothing else.
fn forget(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_file() && entry.file_name().to_str().is_some_and(is_made) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn is_made(name: &str) -> bool {
    let beside = |made: &str| {
        let rest = name.strip_prefix(made);
        rest.is_some_and(|rest| rest.is_empty() || BESIDE.contains(&rest))
    };
    MADE.iter().any(|made| beside(made))
}

fn ignore(folder: &Path) -> io::Result<()> {
    let path = folder.join(IGNORE);
    if path.exists() {
        return Ok(());
    }
    fs::write(path, "*\n")
}

#[cfg(test)]
mod tests {
    use super::{Held, LOCK};
    use crate::exit::Failure;
    use crate::wiring::StartError;
    use std::fs;

    #[test]
    fn beginning_anew_takes_what_was_made_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("f");
        drop(Held::take(&folder, false).unwrap());
        let write = |name: &str| fs::write(folder.join(name), "x").unwrap();
        for made in [
            "ca.pem",
            "interzone.db",
            "interzone.db-wal",
            "interzone.db.lock",
        ] {
            write(made);
        }
        for kept in ["letter.txt", "interzone.db.backup", "my-key.pem"] {
            write(kept);
        }
        fs::create_dir(folder.join("audit.log")).unwrap();
        let _held = Held::take(&folder, true).unwrap();
        let entries = fs::read_dir(&folder).unwrap();
        let mut left: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        let expected = [
            ".gitignore",
            "audit.log",
            "interzone.db.backup",
            "letter.txt",
            "my-key.pem",
            LOCK,
        ];
        assert_eq!(left, expected);
    }

    #[test]
    fn one_at_a_time() {
        let root = tempfile::tempdir().unwrap();
        let held = Held::take(root.path(), false).unwrap();
        let second = Held::take(root.path(), true);
        assert!(
            matches!(second, Err(Failure::Start(StartError::AlreadyUp { .. }))),
            "{second:?}"
        );
        drop(held);
        Held::take(root.path(), false).unwrap();
    }
}
