//! A backup while the store is in use: written under another name, verified, and only then given its own.
//!
//! What is in it depends on the engine, and is made beside that. Here is what both have in common: the file.

use interzone_hub::ports::StoreError;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// A backup that was made and verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// The version of its schema.
    pub schema: u64,
    /// How many bytes it has.
    pub bytes: u64,
    /// How many rows each table has in it.
    pub rows: Vec<(String, u64)>,
}

impl Backup {
    /// How many tasks are in it.
    pub fn tasks(&self) -> u64 {
        let tasks = self.rows.iter().find(|(table, _)| table == "tasks");
        tasks.map_or(0, |(_, rows)| *rows)
    }
}

/// Why there is no backup.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file cannot be made, or not be written.
    #[error("the backup was not made: {0}")]
    Destination(String),
}

/// What SQLite adds to the name of a database for the files beside it.
pub(crate) const SIDE_FILES: [&str; 3] = ["-journal", "-wal", "-shm"];

/// A backup that is being made. Dropped before it is finished, it leaves nothing.
pub(crate) struct Draft {
    target: PathBuf,
    part: PathBuf,
}

impl Draft {
    /// Makes the file, empty and readable for its owner alone, under the name with `.part` at the end.
    ///
    /// # Errors
    /// There is a file of that name already, or none can be made there.
    pub(crate) fn begin(target: &Path) -> Result<(Self, File), BackupError> {
        let shown = target.display();
        if target.file_name().is_none() {
            return Err(destination(format!(
                "{shown} is not the path of a file: name one"
            )));
        }
        if fs::symlink_metadata(target).is_ok() {
            return Err(exists(target));
        }
        let part = with_end(target, ".part");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&part).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => destination(format!(
                "{} is there: another backup is being made, or one was cut off; if it was, remove that file",
                part.display()
            )),
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => no_room(target),
            _ => destination(format!("{} cannot be made: {error}", part.display())),
        })?;
        let target = target.to_owned();
        let draft = Self { target, part };
        // A journal of a backup that was cut off would be played back into this one.
        draft.remove_side_files();
        Ok((draft, file))
    }

    /// Where it is while it is being made.
    pub(crate) fn path(&self) -> &Path {
        &self.part
    }

    /// Makes it durable and gives it its name, unless another file has got that meanwhile. Answers how long it is.
    pub(crate) fn finish(self) -> Result<u64, BackupError> {
        let failed = |error: io::Error| failed(&self.target, &error);
        let file = OpenOptions::new().read(true).write(true).open(&self.part);
        let file = file.map_err(failed)?;
        file.sync_all().map_err(failed)?;
        let bytes = file.metadata().map_err(failed)?.len();
        drop(file);
        // A link, unlike a new name, does not replace a file that is there. Not every file system has links.
        match fs::hard_link(&self.part, &self.target) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                return Err(exists(&self.target));
            }
            Err(_) if fs::symlink_metadata(&self.target).is_ok() => {
                return Err(exists(&self.target));
            }
            Err(_) => fs::rename(&self.part, &self.target).map_err(failed)?,
        }
        let folder = self.target.parent().filter(|path| *path != Path::new(""));
        let synced = File::open(folder.unwrap_or(Path::new("."))).and_then(|file| file.sync_all());
        if let Err(error) = synced {
            // Not every system lets folders be synced; those that do not do it by themselves.
            tracing::debug!(%error, "the folder of the backup was not synced");
        }
        Ok(bytes)
    }

    fn remove_side_files(&self) {
        for end in SIDE_FILES {
            remove(&with_end(&self.part, end));
        }
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // After a new name it is not there any more.
        remove(&self.part);
        self.remove_side_files();
    }
}

fn remove(path: &Path) {
    let removed = fs::remove_file(path);
    if let Err(error) = removed
        && error.kind() != ErrorKind::NotFound
    {
        tracing::warn!(%error, path = %path.display(), "an unfinished backup was not removed");
    }
}

/// A path with this at its end.
pub(crate) fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

fn exists(target: &Path) -> BackupError {
    destination(format!(
        "{} is there already, and is left as it is: name a file that is not there yet",
        target.display()
    ))
}

/// What it means that the file could not be written.
pub(crate) fn failed(target: &Path, error: &io::Error) -> BackupError {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => no_room(target),
        _ => destination(format!("{} cannot be written: {error}", target.display())),
    }
}

/// There is no room for the file.
pub(crate) fn no_room(target: &Path) -> BackupError {
    destination(format!(
        "there is no room for {}: free some space there, or name a file on another disk",
        target.display()
    ))
}

pub(crate) const fn destination(why: String) -> BackupError {
    BackupError::Destination(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let name = format!("interzone-backup-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        drop(fs::remove_dir_all(&path));
        fs::create_dir(&path).unwrap();
        path
    }

    #[test]
    fn unfinished_backup_leaves_nothing() {
        let folder = folder("unfinished");
        let target = folder.join("b");
        let draft = Draft::begin(&target).unwrap();
        for end in SIDE_FILES {
            fs::write(with_end(&folder.join("b.part"), end), "left").unwrap();
        }
        drop(draft);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn file_that_appears_meanwhile_is_not_replaced() {
        let folder = folder("appears");
        let target = folder.join("b");
        let (draft, _file) = Draft::begin(&target).unwrap();
        assert!(
            matches!(Draft::begin(&target), Err(BackupError::Destination(why)) if why.contains("b.part"))
        );
        fs::write(&target, "another").unwrap();
        assert!(
            matches!(draft.finish(), Err(BackupError::Destination(why)) if why.contains("there already"))
        );
        assert_eq!(fs::read_to_string(&target).unwrap(), "another");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(folder).unwrap();
    }
}
