//! Files that an agent made, put on the disk under names that are safe there.
//!
//! A name comes from outside: it may try to leave the folder, to hide, or to take the place of a file
//! that is there. None of that works.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Bytes of a name. File systems take 255; some are left for the number of a copy.
const LONGEST: usize = 200;
/// Copies of one name; whoever has so many does not want another.
const MOST_COPIES: u32 = 1000;

/// Writes `bytes` to a new file in `folder`, called `name` or nearly so, and says which it became.
///
/// # Errors
/// It cannot be written.
pub(crate) fn save(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
    let name = safe_name(name);
    for copy in 1..=MOST_COPIES {
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
        "there are too many files of that name",
    ))
}

/// Only a file that was not there, and no link that leads elsewhere.
fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path)
}

/// `report.csv`, `report (2).csv`, …
fn numbered(name: &str, copy: u32) -> String {
    match (copy, name.rsplit_once('.')) {
        (1, _) => name.to_owned(),
        (_, Some((stem, extension))) if !stem.is_empty() => format!("{stem} ({copy}).{extension}"),
        _ => format!("{name} ({copy})"),
    }
}

/// The last part of a path without anything that a file system or a terminal takes in its own way.
fn safe_name(name: &str) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let kept: String = last
        .chars()
        .filter(|c| crate::printable::is_tame(*c))
        .map(|c| if r#"<>:"|?*"#.contains(c) { '_' } else { c })
        .collect();
    // A dot first hides a file, a dot or space last is lost on some systems, a hyphen first looks
    // like an option.
    let kept = kept
        .trim_start_matches(['.', ' ', '-'])
        .trim_end_matches(['.', ' ']);
    let mut end = kept.len().min(LONGEST);
    while !kept.is_char_boundary(end) {
        end -= 1;
    }
    let kept = kept.get(..end).unwrap_or_default();
    let stem = kept.split('.').next().unwrap_or_default();
    if kept.is_empty() {
        "file".to_owned()
    } else if is_device(stem) {
        format!("_{kept}")
    } else {
        kept.to_owned()
    }
}

/// Names that mean a device on Windows, whatever comes after the dot.
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
    fn names_stay_in_the_folder_and_in_sight() {
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
    fn nothing_is_overwritten() {
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
