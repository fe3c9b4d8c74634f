//! The data folder of `interzone up`: locking and reset.

use crate::config::ConnectionProfile;
use crate::exit::Failure;
use crate::printable;
use crate::private_file;
use crate::wiring::StartError;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;

/// Lock file, held by the process that uses the folder.
const LOCK_FILE: &str = "up.lock";
/// Keeps the folder out of Git repositories.
const GITIGNORE: &str = ".gitignore";
const GITIGNORE_CONTENT: &[u8] = b"*\n";

/// Files that `interzone up` creates in the folder. Other files are left alone.
const MANAGED_FILES: &[&str] = &[
    GITIGNORE,
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
/// Suffixes of sidecar files: SQLite's files, locks, and files that are being written.
const SIDECAR_SUFFIXES: &[&str] = &["-wal", "-shm", "-journal", ".lock", ".new"];

/// The data folder, locked until dropped.
#[derive(Debug)]
pub(super) struct DataDir {
    _lock: File,
    /// Symbolic links that a reset removed; their targets were kept.
    pub(super) unlinked: Vec<String>,
}

impl DataDir {
    /// Creates the folder if necessary, and locks it.
    ///
    /// # Errors
    /// Another process has locked the folder, or it cannot be created.
    pub(super) fn lock(folder: &Path, reset: bool) -> Result<Self, Failure> {
        let failed = |error| Failure::Save(folder.to_owned(), error);
        private_file::create_private_dir(folder).map_err(failed)?;
        if let Some(name) = find_foreign_file(folder) {
            return Err(Failure::Start(StartError::ForeignFolder {
                folder: printable::text(&folder.to_string_lossy()),
                name,
            }));
        }
        let mut options = OpenOptions::new();
        let options = options.create(true).truncate(false).write(true);
        let lock = options.open(folder.join(LOCK_FILE)).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let profile = ConnectionProfile::read(folder).ok().flatten();
                return Err(Failure::Start(StartError::AlreadyUp {
                    folder: printable::text(&folder.to_string_lossy()),
                    url: profile.map(|profile| profile.url),
                }));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let unlinked = match reset {
            true => remove_managed_files(folder).map_err(failed)?,
            false => Vec::new(),
        };
        write_gitignore(folder).map_err(failed)?;
        Ok(Self {
            _lock: lock,
            unlinked,
        })
    }
}

/// Returns a file that `interzone up` would overwrite, in a folder that it has never used.
fn find_foreign_file(folder: &Path) -> Option<&'static str> {
    let exists = |name: &str| fs::symlink_metadata(folder.join(name)).is_ok();
    if [LOCK_FILE, "connection.toml"].into_iter().any(exists) {
        return None;
    }
    // An existing `.gitignore` is kept.
    let mut made = MANAGED_FILES.iter().filter(|name| **name != GITIGNORE);
    made.find(|name| exists(name)).copied()
}

/// Removes the managed files. For a symbolic link, only the link is removed, not its target. Returns the names of
/// such links.
fn remove_managed_files(folder: &Path) -> io::Result<Vec<String>> {
    let mut unlinked = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| is_managed(name)) else {
            continue;
        };
        let (path, kind) = (entry.path(), entry.file_type()?);
        if name == GITIGNORE && (kind.is_symlink() || fs::read(&path)? != GITIGNORE_CONTENT) {
            // The user has written their own.
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

fn is_managed(name: &str) -> bool {
    let matches = |managed: &str| {
        let suffix = name.strip_prefix(managed);
        suffix.is_some_and(|suffix| suffix.is_empty() || SIDECAR_SUFFIXES.contains(&suffix))
    };
    MANAGED_FILES.iter().any(|managed| matches(managed))
}

fn write_gitignore(folder: &Path) -> io::Result<()> {
    let path = folder.join(GITIGNORE);
    if fs::symlink_metadata(&path).is_ok() {
        return Ok(());
    }
    fs::write(path, GITIGNORE_CONTENT)
}

#[cfg(test)]
mod tests {
    use super::{DataDir, LOCK_FILE};
    use crate::exit::Failure;
    use crate::wiring::StartError;
    use std::fs;

    #[test]
    fn reset_removes_only_managed_files() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("f");
        drop(DataDir::lock(&folder, false).unwrap());
        let write = |name: &str| fs::write(folder.join(name), "x").unwrap();
        for managed in [
            "ca.pem",
            "interzone.db",
            "interzone.db-wal",
            "interzone.db.lock",
        ] {
            write(managed);
        }
        for other in ["notes.txt", "interzone.db.backup", "my-key.pem"] {
            write(other);
        }
        fs::create_dir(folder.join("audit.log")).unwrap();
        let _data_dir = DataDir::lock(&folder, true).unwrap();
        let entries = fs::read_dir(&folder).unwrap();
        let mut left: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        let expected = [
            ".gitignore",
            "audit.log",
            "interzone.db.backup",
            "my-key.pem",
            "notes.txt",
            LOCK_FILE,
        ];
        assert_eq!(left, expected);
    }

    #[cfg(unix)]
    #[test]
    fn reset_removes_symlink_and_keeps_target() {
        use std::os::unix::fs::symlink;
        let root = tempfile::tempdir().unwrap();
        let (folder, other) = (root.path().join("f"), root.path().join("other"));
        drop(DataDir::lock(&folder, false).unwrap());
        fs::remove_file(folder.join(".gitignore")).unwrap();
        fs::create_dir(&other).unwrap();
        fs::write(other.join("kept.db"), "kept").unwrap();
        let link = |to: &str, name: &str| symlink(other.join(to), folder.join(name)).unwrap();
        link("kept.db", "interzone.db");
        link("nowhere", "audit.log");
        link("nowhere", ".gitignore");
        link("", "my-folder");
        let data_dir = DataDir::lock(&folder, true).unwrap();
        assert_eq!(data_dir.unlinked, ["audit.log", "interzone.db"]);
        assert!(fs::symlink_metadata(folder.join("interzone.db")).is_err());
        assert_eq!(fs::read_to_string(other.join("kept.db")).unwrap(), "kept");
        for theirs in [".gitignore", "my-folder"] {
            assert!(folder.join(theirs).is_symlink(), "{theirs}");
        }
    }

    #[test]
    fn foreign_files_are_not_overwritten() {
        let root = tempfile::tempdir().unwrap();
        let theirs = root.path().join(".gitignore");
        fs::write(&theirs, "target/\n").unwrap();
        drop(DataDir::lock(root.path(), false).unwrap());
        drop(DataDir::lock(root.path(), true).unwrap());
        assert_eq!(fs::read_to_string(&theirs).unwrap(), "target/\n");

        let root = tempfile::tempdir().unwrap();
        let theirs = root.path().join("cert.pem");
        fs::write(&theirs, "theirs").unwrap();
        for reset in [false, true] {
            let taken = DataDir::lock(root.path(), reset);
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
        assert!(!root.path().join(LOCK_FILE).exists());
    }

    #[test]
    fn folder_is_used_by_one_process_at_a_time() {
        let root = tempfile::tempdir().unwrap();
        let first = DataDir::lock(root.path(), false).unwrap();
        let second = DataDir::lock(root.path(), true);
        assert!(
            matches!(second, Err(Failure::Start(StartError::AlreadyUp { .. }))),
            "{second:?}"
        );
        drop(first);
        DataDir::lock(root.path(), false).unwrap();
    }
}
