//! Sets the commit that the binary is built from. It never fails a build, and two builds of the same commit are
//! identical.
//!
//! Sources, in this order: `INTERZONE_BUILD_COMMIT` ("HASH DATE"), for builds in a container; git; and
//! `commit.txt`, which `git archive` fills in when it creates a tarball.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Filled in by `git archive`, see .gitattributes.
const ARCHIVE_COMMIT_FILE: &str = "commit.txt";
/// Digits of the short hash; fixed, so that it does not depend on the clone.
const SHORT_HASH_LENGTH: usize = 7;

fn main() {
    for path in ["build.rs", ARCHIVE_COMMIT_FILE] {
        println!("cargo::rerun-if-changed={path}");
    }
    let from_env = option_env!("INTERZONE_BUILD_COMMIT").and_then(parse_commit);
    let found = from_env
        .or_else(commit_from_git)
        .or_else(commit_from_archive);
    let number = env!("CARGO_PKG_VERSION");
    let (version, hash) = match found {
        Some((hash, date)) => (format!("{number} ({hash}, {date})"), hash),
        None => (number.to_owned(), "unknown".to_owned()),
    };
    println!("cargo::rustc-env=INTERZONE_VERSION={version}");
    println!("cargo::rustc-env=INTERZONE_COMMIT={hash}");
}

/// Reads the commit from git, if the repository's root is the folder above; an outer repository is not ours.
fn commit_from_git() -> Option<(String, String)> {
    let top = git(&["rev-parse", "--show-toplevel"])?;
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?;
    if Path::new(&top).canonicalize().ok()? != above.canonicalize().ok()? {
        return None;
    }
    // Each change of HEAD changes one of these files. A missing path would rerun the script every time.
    let branch = git(&["rev-parse", "--symbolic-full-name", "HEAD"]);
    let branch = branch.as_deref().unwrap_or("HEAD");
    for name in ["HEAD", "logs/HEAD", "packed-refs", branch] {
        let path = git(&["rev-parse", "--git-path", name]);
        if let Some(path) = path.filter(|path| Path::new(path).exists()) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    parse_commit(&git(&[
        "rev-list",
        "--no-commit-header",
        "--max-count=1",
        "--format=%H %cs",
        "HEAD",
    ])?)
}

fn commit_from_archive() -> Option<(String, String)> {
    parse_commit(&fs::read_to_string(ARCHIVE_COMMIT_FILE).ok()?)
}

/// Runs git and returns its output, if successful.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let text = text.trim();
    (output.status.success() && !text.is_empty()).then(|| text.to_owned())
}

/// Parses hash and date, and shortens the hash. Returns None for anything else.
fn parse_commit(text: &str) -> Option<(String, String)> {
    let (hash, day) = text.trim().split_once(' ')?;
    let is_hash =
        hash.len() >= SHORT_HASH_LENGTH && hash.bytes().all(|digit| digit.is_ascii_hexdigit());
    let is_day = day.len() == 10
        && day.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    let short = hash.get(..SHORT_HASH_LENGTH)?;
    (is_hash && is_day).then(|| (short.to_owned(), day.to_owned()))
}
