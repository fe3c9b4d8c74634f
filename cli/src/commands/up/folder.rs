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
const EVERYTHING: &[u8] = b"*\n";

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
    /// Names under which something elsewhere was used, until it was begun anew.
    pub(super) unlinked: Vec<String>,
}

impl Held {
    /// Makes the folder if it is not there, and takes it.
    ///
    /// # Errors
    /// Somebody else has it, or it cannot be made.
    pub(super) fn take(folder: &Path, reset: bool) -> Result<Self, Failure> {
        let failed = |error| Failure::Save(folder.to_owned(), error);
        private::make_folder(folder).map_err(failed)?;
        if let Some(name) = foreign(folder) {
            return Err(Failure::Start(StartError::ForeignFolder {
                folder: printable::text(&folder.to_string_lossy()),
                name,
            }));
        }
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
        let unlinked = match reset {
            true => forget(folder).map_err(failed)?,
            false => Vec::new(),
        };
        ignore(folder).map_err(failed)?;
        Ok(Self {
            _lock: lock,
            unlinked,
        })
    }
}

/// A file of somebody else's that would be taken for one of ours, in a folder that we never had.
fn foreign(folder: &Path) -> Option<&'static str> {
    let there = |name: &str| fs::symlink_metadata(folder.join(name)).is_ok();
    if [LOCK, "connection.toml"].into_iter().any(there) {
        return None;
    }
    // A `.gitignore` is left as it is.
    let mut made = MADE.iter().filter(|name| **name != IGNORE);
    made.find(|name| there(name)).copied()
}

/// Removes what was made here, and nothing else. Where somebody put a link in its place, so that it is kept
/// elsewhere, the link goes and what it leads to stays. Gives the names of those.
fn forget(folder: &Path) -> io::Result<Vec<String>> {
    let mut unlinked = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| is_made(name)) else {
            continue;
        };
        let (path, kind) = (entry.path(), entry.file_type()?);
        if name == IGNORE && (kind.is_symlink() || fs::read(&path)? != EVERYTHING) {
            // One that says something else is somebody's own.
            continue;
        }
        if kind.is_symlink() {
            unlinked.push(name.to_owned());
        }
        if kind.is_file() || kind.is_symlink() {
            fs::remove_file(path)?;
        }
    }
    unlinked.sort();
    Ok(unlinked)
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
    if fs::symlink_metadata(&path).is_ok() {
        return Ok(());
    }
    fs::write(path, EVERYTHING)
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

    #[cfg(unix)]
    #[test]
    fn a_link_goes_and_what_it_leads_to_stays() {
        use std::os::unix::fs::symlink;
        let root = tempfile::tempdir().unwrap();
        let (folder, other) = (root.path().join("f"), root.path().join("other"));
        drop(Held::take(&folder, false).unwrap());
        fs::remove_file(folder.join(".gitignore")).unwrap();
        fs::create_dir(&other).unwrap();
        fs::write(other.join("kept.db"), "kept").unwrap();
        let link = |to: &str, name: &str| symlink(other.join(to), folder.join(name)).unwrap();
        link("kept.db", "interzone.db");
        link("nowhere", "audit.log");
        link("nowhere", ".gitignore");
        link("", "my-folder");
        let held = Held::take(&folder, true).unwrap();
        assert_eq!(held.unlinked, ["audit.log", "interzone.db"]);
        assert!(fs::symlink_metadata(folder.join("interzone.db")).is_err());
        assert_eq!(fs::read_to_string(other.join("kept.db")).unwrap(), "kept");
        for theirs in [".gitignore", "my-folder"] {
            assert!(folder.join(theirs).is_symlink(), "{theirs}");
        }
    }

    #[test]
    fn what_is_somebody_elses_is_left_alone() {
        let root = tempfile::tempdir().unwrap();
        let theirs = root.path().join(".gitignore");
        fs::write(&theirs, "target/\n").unwrap();
        drop(Held::take(root.path(), false).unwrap());
        drop(Held::take(root.path(), true).unwrap());
        assert_eq!(fs::read_to_string(&theirs).unwrap(), "target/\n");

        let root = tempfile::tempdir().unwrap();
        let theirs = root.path().join("cert.pem");
        fs::write(&theirs, "theirs").unwrap();
        for reset in [false, true] {
            let taken = Held::take(root.path(), reset);
            assert!(
                matches!(
                    taken,
                    Err(Failure::Start(StartError::ForeignFolder {
                        name: "cert.pem",
                        ..
                    }))
                ),
                "{taken:?}"
            );
        }
        assert_eq!(fs::read_to_string(&theirs).unwrap(), "theirs");
        assert!(!root.path().join(LOCK).exists());
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
