//! Files that hold secrets: readable for their owner alone from the first moment.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// Makes a folder that only its owner can look into.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt;
        builder.mode(0o700);
    }
    builder.create(path)
}

/// Writes a file that must not be there yet.
pub(crate) fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut file = create(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Writes a file in place of the one that may be there. Whoever reads it sees one or the other.
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
    use super::{make_folder, replace, write_new};
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_the_owner_can_read() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("a");
        make_folder(&folder).unwrap();
        let file = folder.join("secret");
        replace(&file, "one").unwrap();
        replace(&file, "two").unwrap();
        assert!(write_new(&file, "three").is_err());
        assert_eq!(fs::read_to_string(&file).unwrap(), "two");
        let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&file)), (0o700, 0o600));
    }
}
