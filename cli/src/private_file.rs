//! Files with secrets: created with access for the owner only.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// Creates a folder with access for the owner only.
pub(crate) fn create_private_dir(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt;
        builder.mode(0o700);
    }
    builder.create(path)
}

/// Writes a file that must not exist yet.
pub(crate) fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut file = create(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Writes a file atomically, replacing an existing one.
pub(crate) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = Path::new(&name);
    match fs::remove_file(new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    write_new(new, text)?;
    fs::rename(new, path)
}

fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options.open(path)
}

#[cfg(all(test, unix))]
mod tests {
    use super::{create_private_dir, replace, write_new};
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn private_files_are_readable_by_owner_only() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("a");
        create_private_dir(&folder).unwrap();
        let file = folder.join("secret");
        replace(&file, "one").unwrap();
        replace(&file, "two").unwrap();
        assert!(write_new(&file, "three").is_err());
        assert_eq!(fs::read_to_string(&file).unwrap(), "two");
        let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&file)), (0o700, 0o600));
    }
}
