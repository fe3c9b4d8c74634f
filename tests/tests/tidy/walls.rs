//! The walls between the crates: who may use whom, and which crates from outside stay where.
//! ARCHITECTURE.md draws them, `WALLS` is what the check believes, and a test holds the two equal.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::source::{Source, is_word};
use crate::tree::{Finding, root};

/// A crate, by its folder, and the crates of this repository that it may use.
/// `protocol::vocab` is an edge to `protocol` through which only that module may be seen.
pub(crate) type Walls<'a> = &'a [(&'a str, &'a [&'a str])];

pub(crate) const WALLS: Walls<'static> = &[
    ("jsonrpc", &[]),
    ("protocol", &["jsonrpc"]),
    ("hub", &["protocol::vocab"]),
    ("wal", &[]),
    ("store", &["hub", "protocol::vocab", "wal"]),
    ("edge", &["jsonrpc"]),
    ("client", &["jsonrpc", "protocol"]),
    (
        "execution",
        &["jsonrpc", "protocol", "hub", "edge", "client"],
    ),
    ("verification", &["protocol", "hub", "edge", "client"]),
    ("playground", &["edge"]),
    ("cli", EVERY_LIBRARY),
    ("tests", EVERY_LIBRARY),
    ("bench", EVERY_LIBRARY),
    ("fuzz", &["jsonrpc", "protocol"]),
];

const EVERY_LIBRARY: &[&str] = &[
    "jsonrpc",
    "protocol",
    "hub",
    "store",
    "edge",
    "client",
    "execution",
    "verification",
    "playground",
];

/// Rooms that test or measure: what they need from outside never ships.
const HARNESS: &[&str] = &["tests", "bench", "fuzz"];

/// All that a crate may take from outside.
const ONLY: &[(&str, &[&str])] = &[("jsonrpc", &["serde", "serde_json"])];

/// What a crate must not take from outside: here nothing knows how it is carried or kept.
const NEVER: &[(&str, &[&str])] = &[("protocol", CARRIERS), ("hub", CARRIERS_BUT_TOKIO)];
const CARRIERS: &[&str] = &[
    "tokio",
    "axum",
    "hyper",
    "hyper-util",
    "tower",
    "tower-http",
    "http",
    "reqwest",
    "rusqlite",
    "tokio-postgres",
    "rustls",
    "tokio-tungstenite",
];
// The hub waits for things, so it may use channels and timers.
const CARRIERS_BUT_TOKIO: &[&str] = CARRIERS.split_at(1).1;

/// Crates from outside that stay in a few rooms. A name that ends in `*` is a beginning.
const KEPT_IN: &[(&str, &[&str])] = &[
    ("axum", &["edge", "execution", "verification", "playground"]),
    // Many crates for one signature; the tests alone compare ours with theirs.
    ("aws-*", &[]),
    ("rusqlite", &["wal", "store"]),
    ("tokio-postgres", &["store"]),
    ("deadpool-postgres", &["store"]),
    ("anyhow", &["cli"]),
];
/// TLS, not a cloud.
const NOT_A_CLOUD: &str = "aws-lc-";

/// A crate of this repository as its manifest describes it.
pub(crate) struct Member {
    /// Its folder.
    pub(crate) name: String,
    /// Package names, and whether they are for tests only.
    pub(crate) uses: Vec<(String, bool)>,
}

/// Every member of the workspace, and the fuzz crate, which is a workspace of its own.
pub(crate) fn members() -> Vec<Member> {
    ["Cargo.toml", "fuzz/Cargo.toml"]
        .iter()
        .map(|manifest| root().join(manifest))
        .filter(|manifest| manifest.exists())
        .flat_map(|manifest| metadata(&manifest))
        .collect()
}

fn metadata(manifest: &Path) -> Vec<Member> {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version=1",
            "--manifest-path",
        ])
        .arg(manifest)
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let answer: Value = serde_json::from_slice(&output.stdout).expect("cargo answers in JSON");
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    list(&answer["packages"])
        .iter()
        .map(|package| Member {
            name: text(&package["manifest_path"])
                .rsplit(['/', '\\'])
                .nth(1)
                .unwrap_or_default()
                .to_owned(),
            uses: list(&package["dependencies"])
                .iter()
                .map(|dependency| (text(&dependency["name"]), dependency["kind"] == "dev"))
                .collect(),
        })
        .collect()
}

/// Edges between our own crates that are not in `walls`; an edge of tests is an edge.
pub(crate) fn undrawn(member: &Member, walls: Walls<'_>) -> Vec<String> {
    let name = &member.name;
    let Some((_, drawn)) = walls.iter().find(|(wall, _)| wall == name) else {
        return vec![format!("`{name}` is not in the table")];
    };
    let ours = member
        .uses
        .iter()
        .filter_map(|(used, _)| used.strip_prefix("interzone-"));
    ours.filter(|used| {
        !drawn
            .iter()
            .any(|edge| edge.split("::").next() == Some(used))
    })
    .map(|used| format!("`{name}` uses `{used}`"))
    .collect()
}

/// Crates from outside in a room where they must not be. What only tests use is free.
pub(crate) fn out_of_place(member: &Member) -> Vec<String> {
    let name = member.name.as_str();
    let listed = |list: &[&str], used: &str| list.contains(&used);
    let of = |table: &[(&str, &'static [&str])]| {
        table
            .iter()
            .find(|(room, _)| *room == name)
            .map(|(_, list)| *list)
    };
    let outside = member
        .uses
        .iter()
        .filter(|(used, dev)| !dev && !used.starts_with("interzone-"));
    let broken = outside.filter(|(used, _)| {
        let kept_out = KEPT_IN.iter().any(|(krate, rooms)| {
            let same = match krate.strip_suffix('*') {
                Some(start) => used.starts_with(start) && !used.starts_with(NOT_A_CLOUD),
                None => krate == used,
            };
            same && !listed(rooms, name) && !listed(HARNESS, name)
        });
        kept_out
            || of(ONLY).is_some_and(|only| !listed(only, used))
            || of(NEVER).is_some_and(|never| listed(never, used))
    });
    broken
        .map(|(used, _)| format!("`{name}` uses `{used}`"))
        .collect()
}

/// Who sees only the vocabulary of `protocol` names nothing else of it.
pub(crate) fn only_vocab(source: &Source) -> Vec<Finding> {
    let room = source.path.split('/').next().unwrap_or_default();
    if !WALLS
        .iter()
        .any(|(name, edges)| *name == room && edges.contains(&"protocol::vocab"))
    {
        return Vec::new();
    }
    let krate = "interzone_protocol";
    let broken = |code: &str| {
        code.match_indices(krate).any(|(at, _)| {
            let rest = &code[at + krate.len()..];
            rest.strip_prefix("::vocab")
                .is_none_or(|rest| rest.starts_with(is_word))
        })
    };
    source
        .lines
        .iter()
        .filter(|line| broken(&line.code))
        .map(|line| Finding::new(&source.path, line.number, line.code.trim()))
        .collect()
}

/// The table of ARCHITECTURE.md that has the columns `crate` and `may use`.
pub(crate) fn drawn(markdown: &str) -> BTreeMap<String, Vec<String>> {
    let mut rows = BTreeMap::new();
    let mut columns = None;
    for line in markdown.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let column = |title: &str| cells.iter().position(|cell| *cell == title);
        if !line.starts_with('|') {
            columns = None;
        } else if let (Some(name), Some(uses)) = (column("crate"), column("may use")) {
            columns = Some((name, uses));
        } else if let Some((name, uses)) = columns {
            let words = |cell: &str| -> Vec<String> {
                cell.split('`')
                    .skip(1)
                    .step_by(2)
                    .map(str::to_owned)
                    .collect()
            };
            let cell = |at: usize| cells.get(at).copied().unwrap_or_default();
            for name in words(cell(name)) {
                let mut edges = words(cell(uses));
                edges.sort();
                rows.insert(name, edges);
            }
        }
    }
    rows
}

/// `walls` in the form that [`drawn`] gives.
pub(crate) fn believed(walls: Walls<'_>) -> BTreeMap<String, Vec<String>> {
    let sorted = |edges: &[&str]| {
        let mut edges: Vec<String> = edges.iter().map(|edge| (*edge).to_owned()).collect();
        edges.sort();
        edges
    };
    walls
        .iter()
        .map(|(name, edges)| ((*name).to_owned(), sorted(edges)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prove::{breaks, keeps};

    fn member(name: &str, uses: &[&str], dev: bool) -> Member {
        let uses = uses.iter().map(|used| ((*used).to_owned(), dev)).collect();
        Member {
            name: name.to_owned(),
            uses,
        }
    }

    #[test]
    fn edges() {
        let check = |name: &str, used: &str, expect: usize| {
            for dev in [false, true] {
                let found = undrawn(&member(name, &[used], dev), WALLS);
                assert_eq!(found.len(), expect, "{name} {used} {dev}");
            }
        };
        check("protocol", "interzone-jsonrpc", 0);
        check("jsonrpc", "interzone-protocol", 1);
        check("hub", "interzone-protocol", 0);
        check("hub", "interzone-jsonrpc", 1);
        check("execution", "interzone-store", 1);
        check("playground", "interzone-protocol", 1);
        check("drawer", "serde", 1);
    }

    #[test]
    fn crates_from_outside() {
        let check = |name: &str, used: &str, expect: usize| {
            for (dev, expect) in [(false, expect), (true, 0)] {
                let found = out_of_place(&member(name, &[used], dev));
                assert_eq!(found.len(), expect, "{name} {used} {dev}");
            }
        };
        check("jsonrpc", "serde", 0);
        check("jsonrpc", "thiserror", 1);
        check("protocol", "tokio", 1);
        check("hub", "tokio", 0);
        check("hub", "reqwest", 1);
        check("cli", "rusqlite", 1);
        check("store", "rusqlite", 0);
        check("edge", "aws-config", 1);
        check("client", "aws-sigv4", 1);
        check("edge", "aws-lc-rs", 0);
        check("edge", "axum", 0);
        check("cli", "axum", 1);
        check("tests", "axum", 0);
    }

    #[test]
    fn vocabulary() {
        let vocab = "use interzone_protocol::vocab::TaskId;";
        keeps(only_vocab, "hub/src/a.rs", vocab);
        for other in [
            "use interzone_protocol::acp::Task;",
            "use interzone_protocol::{acp, vocab};",
            "use interzone_protocol as p;",
            "use interzone_protocol::vocabulary;",
        ] {
            breaks(only_vocab, "hub/src/a.rs", other);
            breaks(only_vocab, "store/src/a.rs", other);
            keeps(only_vocab, "execution/src/a.rs", other);
        }
    }

    #[test]
    fn drawing() {
        let text = "| crate | room | may use |\n|---|---|---|\n| `a` | x | – |\n\
                    | `b` | `y` | `a`, `c::d` |\n\n| `z` | no | `table` |\n";
        let walls: Walls<'_> = &[("b", &["c::d", "a"]), ("a", &[])];
        assert_eq!(drawn(text), believed(walls));
        assert_ne!(drawn(&text.replace("`a`, ", "")), believed(walls));
    }
}
