//! Saves files from agents under safe names.
//!
//! The names are untrusted: they cannot leave the folder, be hidden, or overwrite an existing file.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Maximum length of a name in bytes. File systems allow 255; the difference is for the number of a copy.
const MAX_NAME_LENGTH: usize = 200;
/// Maximum number of copies with the same name.
const MAX_COPIES: u32 = 1000;

/// Writes `bytes` to a new file in `folder`, named `name` or similar, and returns its path.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn save(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
    let name = safe_name(name);
    for copy in 1..=MAX_COPIES {
        let path = folder.join(numbered(&name, copy));
        match create(&path) {
            Ok(mut file) => {
                file.write_all(bytes)?;
                return Ok(path);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(
        io::ErrorKind::AlreadyExists,
        "too many files with that name",
    ))
}

/// Creates a new file; an existing file or link is an error.
fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path)
}

/// Returns `report.csv`, `report (2).csv`, …
fn numbered(name: &str, copy: u32) -> String {
    match (copy, name.rsplit_once('.')) {
        (1, _) => name.to_owned(),
        (_, Some((stem, extension))) if !stem.is_empty() => format!("{stem} ({copy}).{extension}"),
        _ => format!("{name} ({copy})"),
    }
}

/// Returns the last component of a path without characters that are special for file systems or terminals.
fn safe_name(name: &str) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let safe: String = last
        .chars()
        .filter(|c| crate::printable::is_printable(*c))
        .map(|c| if r#"<>:"|?*"#.contains(c) { '_' } else { c })
        .collect();
    // A leading dot hides a file, a trailing dot or space is lost on some systems, a leading hyphen
    // looks like an option.
    let safe = safe
        .trim_start_matches(['.', ' ', '-'])
        .trim_end_matches(['.', ' ']);
    let mut end = safe.len().min(MAX_NAME_LENGTH);
    while !safe.is_char_boundary(end) {
        end -= 1;
    }
    let safe = safe.get(..end).unwrap_or_default();
    let stem = safe.split('.').next().unwrap_or_default();
    if safe.is_empty() {
        "file".to_owned()
    } else if is_device(stem) {
        format!("_{safe}")
    } else {
        safe.to_owned()
    }
}

/// Returns true for device names of Windows, which apply with any extension.
fn is_device(stem: &str) -> bool {
    let stem = stem.to_ascii_lowercase();
    let numbered = |prefix: &str| {
        stem.strip_prefix(prefix)
            .is_some_and(|rest| rest.len() == 1 && rest.chars().all(|c| c.is_ascii_digit()))
    };
    matches!(stem.as_str(), "con" | "prn" | "aux" | "nul") || numbered("com") || numbered("lpt")
}

#[cfg(test)]
mod tests {
    use super::{safe_name, save};
    use std::fs;

    #[test]
    fn file_names_are_sanitized() {
        for (name, safe) in [
            ("data.csv", "data.csv"),
            ("../../etc/passwd", "passwd"),
            ("C:\\Windows\\x.dll", "x.dll"),
            ("/abs/olute", "olute"),
            (".bashrc", "bashrc"),
            ("..", "file"),
            ("", "file"),
            ("-rf", "rf"),
            ("a\u{202e}vsc.exe", "avsc.exe"),
            ("a\n\u{1b}[2Jb", "a[2Jb"),
            ("a:b*c?.txt", "a_b_c_.txt"),
            ("con.txt", "_con.txt"),
            ("LPT1", "_LPT1"),
            ("日本語.md", "日本語.md"),
            ("trailing. . ", "trailing"),
        ] {
            assert_eq!(safe_name(name), safe, "{name:?}");
        }
        assert!(safe_name(&"日".repeat(1000)).len() <= 200);
    }

    #[test]
    fn existing_files_and_links_are_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let names: Vec<String> = (0..3)
            .map(|_| save(folder.path(), "a.csv", b"x").unwrap())
            .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
            .collect();
        assert_eq!(names, ["a.csv", "a (2).csv", "a (3).csv"]);
        #[cfg(unix)]
        {
            let outside = folder.path().join("outside");
            std::os::unix::fs::symlink(&outside, folder.path().join("b.csv")).unwrap();
            let path = save(folder.path(), "b.csv", b"x").unwrap();
            assert!(path.ends_with("b (2).csv"));
            assert!(!fs::exists(&outside).unwrap());
        }
    }
}
