//! Tells the binary which commit it is made of. It never fails a build, and it says nothing that would make
//! two builds of one commit differ.
//!
//! Who is asked, in this order: `INTERZONE_BUILD_COMMIT` ("HASH DATE"), for builds in a container; git; and
//! `commit.txt`, into which `git archive` writes when it makes a tarball.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Written by `git archive`, by .gitattributes.
const ARCHIVED: &str = "commit.txt";
/// So many digits are shown: always the same, whatever else a clone has.
const DIGITS: usize = 7;

fn main() {
    for ours in ["build.rs", ARCHIVED] {
        println!("cargo::rerun-if-changed={ours}");
    }
    let told = option_env!("INTERZONE_BUILD_COMMIT").and_then(commit);
    let found = told.or_else(asked).or_else(archived);
    let number = env!("CARGO_PKG_VERSION");
    let (version, hash) = match found {
        Some((hash, date)) => (format!("{number} ({hash}, {date})"), hash),
        None => (number.to_owned(), "unknown".to_owned()),
    };
    println!("cargo::rustc-env=INTERZONE_VERSION={version}");
    println!("cargo::rustc-env=INTERZONE_COMMIT={hash}");
}

/// What git says of the folder above, if that is where its repository begins: one further up is not ours.
fn asked() -> Option<(String, String)> {
    let top = git(&["rev-parse", "--show-toplevel"])?;
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?;
    if Path::new(&top).canonicalize().ok()? != above.canonicalize().ok()? {
        return None;
    }
    // Whatever moves HEAD changes one of these. A path that is not there would have us run each time.
    let branch = git(&["rev-parse", "--symbolic-full-name", "HEAD"]);
    let branch = branch.as_deref().unwrap_or("HEAD");
    for name in ["HEAD", "logs/HEAD", "packed-refs", branch] {
        let path = git(&["rev-parse", "--git-path", name]);
        if let Some(path) = path.filter(|path| Path::new(path).exists()) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    commit(&git(&[
        "rev-list",
        "--no-commit-header",
        "--max-count=1",
        "--format=%H %cs",
        "HEAD",
    ])?)
}

fn archived() -> Option<(String, String)> {
    commit(&fs::read_to_string(ARCHIVED).ok()?)
}

/// What git answers, if it is there and has an answer.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let text = text.trim();
    (output.status.success() && !text.is_empty()).then(|| text.to_owned())
}

/// The hash, shortened, and the day. Anything else is none: it would be shown as if it were.
fn commit(text: &str) -> Option<(String, String)> {
    let (hash, day) = text.trim().split_once(' ')?;
    let is_hash = hash.len() >= DIGITS && hash.bytes().all(|digit| digit.is_ascii_hexdigit());
    let is_day = day.len() == 10
        && day.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    let short = hash.get(..DIGITS)?;
    (is_hash && is_day).then(|| (short.to_owned(), day.to_owned()))
}
