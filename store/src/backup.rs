//! Online backup files: written under a temporary name, verified, then moved to the target path.
//!
//! The content is engine-specific; this module handles the file that both engines share.

use interzone_hub::ports::StoreError;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// A finished and verified backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupSummary {
    /// Schema version of the backup.
    pub schema: u64,
    /// File size in bytes.
    pub bytes: u64,
    /// Row count per table.
    pub rows: Vec<(String, u64)>,
}

impl BackupSummary {
    /// Number of tasks in the backup.
    pub fn tasks(&self) -> u64 {
        let tasks = self.rows.iter().find(|(table, _)| table == "tasks");
        tasks.map_or(0, |(_, rows)| *rows)
    }
}

/// Reasons why a backup failed.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file cannot be created or written.
    #[error("backup failed: {0}")]
    Destination(String),
}

/// Suffixes that SQLite appends to a database's name for its journal and WAL files.
pub(crate) const SQLITE_SIDE_FILE_SUFFIXES: [&str; 3] = ["-journal", "-wal", "-shm"];

/// A backup in progress. If dropped before it is finished, it removes its files.
pub(crate) struct PartialBackup {
    target: PathBuf,
    temp_path: PathBuf,
}

impl PartialBackup {
    /// Creates the empty file, readable by its owner only, under the target name plus `.part`.
    ///
    /// # Errors
    /// The target or the temporary file exists already, or the file cannot be created.
    pub(crate) fn create(target: &Path) -> Result<(Self, File), BackupError> {
        let path = target.display();
        if target.file_name().is_none() {
            return Err(destination_error(format!(
                "{path} is not a file path: give a file name"
            )));
        }
        if fs::symlink_metadata(target).is_ok() {
            return Err(already_exists_error(target));
        }
        let temp_path = append_suffix(target, ".part");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&temp_path).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => destination_error(format!(
                "{} exists: another backup is running, or one was interrupted; if so, remove that file",
                temp_path.display()
            )),
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => disk_full_error(target),
            _ => destination_error(format!("cannot create {}: {error}", temp_path.display())),
        })?;
        let target = target.to_owned();
        let partial = Self { target, temp_path };
        // SQLite would replay the journal of an interrupted backup into this one.
        partial.remove_side_files();
        Ok((partial, file))
    }

    /// Temporary path while the backup is in progress.
    pub(crate) fn temp_path(&self) -> &Path {
        &self.temp_path
    }

    /// Syncs the file and gives it its final name, unless that name was taken meanwhile. Returns its size in bytes.
    pub(crate) fn finish(self) -> Result<u64, BackupError> {
        let to_write_error = |error: io::Error| write_error(&self.target, &error);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&self.temp_path);
        let file = file.map_err(to_write_error)?;
        file.sync_all().map_err(to_write_error)?;
        let bytes = file.metadata().map_err(to_write_error)?.len();
        drop(file);
        // Unlike a rename, a hard link never replaces an existing file. Not every file system supports links.
        match fs::hard_link(&self.temp_path, &self.target) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                return Err(already_exists_error(&self.target));
            }
            Err(_) if fs::symlink_metadata(&self.target).is_ok() => {
                return Err(already_exists_error(&self.target));
            }
            Err(_) => fs::rename(&self.temp_path, &self.target).map_err(to_write_error)?,
        }
        let folder = self.target.parent().filter(|path| *path != Path::new(""));
        let synced = File::open(folder.unwrap_or(Path::new("."))).and_then(|file| file.sync_all());
        if let Err(error) = synced {
            // Some systems cannot sync directories; they make the rename durable without it.
            tracing::debug!(%error, "backup directory not synced");
        }
        Ok(bytes)
    }

    fn remove_side_files(&self) {
        for end in SQLITE_SIDE_FILE_SUFFIXES {
            remove_if_exists(&append_suffix(&self.temp_path, end));
        }
    }
}

impl Drop for PartialBackup {
    fn drop(&mut self) {
        // After a rename the temporary file is gone.
        remove_if_exists(&self.temp_path);
        self.remove_side_files();
    }
}

fn remove_if_exists(path: &Path) {
    let removed = fs::remove_file(path);
    if let Err(error) = removed
        && error.kind() != ErrorKind::NotFound
    {
        tracing::warn!(%error, path = %path.display(), "failed to remove unfinished backup");
    }
}

/// Appends a suffix to a path.
pub(crate) fn append_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn already_exists_error(target: &Path) -> BackupError {
    destination_error(format!(
        "{} already exists and was not overwritten: choose a path that does not exist",
        target.display()
    ))
}

/// Maps an I/O error of writing the backup file.
pub(crate) fn write_error(target: &Path, error: &io::Error) -> BackupError {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => disk_full_error(target),
        _ => destination_error(format!("cannot write {}: {error}", target.display())),
    }
}

/// The error for a full disk.
pub(crate) fn disk_full_error(target: &Path) -> BackupError {
    destination_error(format!(
        "no space left for {}: free some space, or choose a path on another disk",
        target.display()
    ))
}

pub(crate) const fn destination_error(reason: String) -> BackupError {
    BackupError::Destination(reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn temp_dir(name: &str) -> PathBuf {
        let name = format!("interzone-backup-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        drop(fs::remove_dir_all(&path));
        fs::create_dir(&path).unwrap();
        path
    }

    #[test]
    fn unfinished_backup_leaves_nothing() {
        let folder = temp_dir("unfinished");
        let target = folder.join("b");
        let draft = PartialBackup::create(&target).unwrap();
        for end in SQLITE_SIDE_FILE_SUFFIXES {
            fs::write(append_suffix(&folder.join("b.part"), end), "left").unwrap();
        }
        drop(draft);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn file_created_meanwhile_is_not_replaced() {
        let folder = temp_dir("appears");
        let target = folder.join("b");
        let (draft, _file) = PartialBackup::create(&target).unwrap();
        assert!(
            matches!(PartialBackup::create(&target), Err(BackupError::Destination(why)) if why.contains("b.part"))
        );
        fs::write(&target, "another").unwrap();
        assert!(
            matches!(draft.finish(), Err(BackupError::Destination(why)) if why.contains("already exists"))
        );
        assert_eq!(fs::read_to_string(&target).unwrap(), "another");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(folder).unwrap();
    }
}
