//! Allowed dependencies between the crates, and placement of external crates. ARCHITECTURE.md has the table,
//! `ALLOWED_DEPENDENCIES` is the checked copy, and a test keeps the two equal.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::source::{SourceFile, is_word};
use crate::tree::{Finding, root};

/// Each crate, by its folder, with the crates of this repository that it may use. `protocol::vocab` is an edge
/// to `protocol` that allows only that module.
pub(crate) type DependencyTable<'a> = &'a [(&'a str, &'a [&'a str])];

pub(crate) const ALLOWED_DEPENDENCIES: DependencyTable<'static> = &[
    ("backoff", &[]),
    ("options", &[]),
    ("jsonrpc", &[]),
    ("protocol", &["jsonrpc"]),
    ("hub", &["backoff", "options", "protocol::vocab"]),
    ("store", &["backoff", "options", "hub", "protocol::vocab"]),
    ("edge", &["backoff", "options", "protocol::vocab"]),
    ("issuer", &["hub", "edge", "protocol::vocab"]),
    ("client", &["backoff", "jsonrpc", "protocol"]),
    ("delivery", &["backoff", "hub"]),
    (
        "execution",
        &[
            "backoff", "options", "jsonrpc", "protocol", "hub", "edge", "issuer", "client",
            "delivery",
        ],
    ),
    (
        "verification",
        &[
            "backoff", "options", "protocol", "hub", "edge", "client", "delivery",
        ],
    ),
    ("playground", &["edge"]),
    ("cli", EVERY_LIBRARY),
    ("tests", EVERY_LIBRARY),
    ("bench", EVERY_LIBRARY),
    ("fuzz", &["jsonrpc", "protocol"]),
];

/// Edges that only unit tests use.
const ALLOWED_TEST_DEPENDENCIES: DependencyTable<'static> = &[("execution", &["store"])];

const EVERY_LIBRARY: &[&str] = &[
    "options",
    "backoff",
    "jsonrpc",
    "protocol",
    "hub",
    "store",
    "edge",
    "issuer",
    "client",
    "delivery",
    "execution",
    "verification",
    "playground",
];

/// Crates that test or measure: their dependencies never ship.
const TEST_CRATES: &[&str] = &["tests", "bench", "fuzz"];

/// Complete list of the external crates that a crate may use.
const ALLOWED_EXTERNAL: &[(&str, &[&str])] = &[
    ("options", &["serde"]),
    ("jsonrpc", &["serde", "serde_json"]),
];

/// External crates that a crate must not use: these crates are independent of transport and storage.
const FORBIDDEN_EXTERNAL: &[(&str, &[&str])] = &[
    ("protocol", TRANSPORT_AND_STORAGE),
    ("hub", TRANSPORT_AND_STORAGE_BUT_TOKIO),
];
const TRANSPORT_AND_STORAGE: &[&str] = &[
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
// The hub waits for events, so it may use channels and timers.
const TRANSPORT_AND_STORAGE_BUT_TOKIO: &[&str] = TRANSPORT_AND_STORAGE.split_at(1).1;

/// External crates that only a few crates may use. A name that ends in `*` is a prefix.
const RESTRICTED_EXTERNAL: &[(&str, &[&str])] = &[
    (
        "axum",
        &["edge", "issuer", "execution", "verification", "playground"],
    ),
    // Optional: behind the feature `aws` (docs/adr/0008-credentials-for-aws.md).
    ("aws-*", &["client", "execution"]),
    ("rusqlite", &["store"]),
    ("tokio-postgres", &["store"]),
    ("deadpool-postgres", &["store"]),
    ("anyhow", &["cli"]),
];
/// Prefix of TLS crates, which are exempt from `aws-*`.
const AWS_TLS_PREFIX: &str = "aws-lc-";

/// A crate of this repository as its manifest describes it.
pub(crate) struct CrateManifest {
    /// Its folder.
    pub(crate) name: String,
    /// Package names, and whether they are dev-dependencies.
    pub(crate) uses: Vec<(String, bool)>,
}

/// Returns every member of the workspace, and the fuzz crate, which is a workspace of its own.
pub(crate) fn members() -> Vec<CrateManifest> {
    ["Cargo.toml", "fuzz/Cargo.toml"]
        .iter()
        .map(|manifest| root().join(manifest))
        .filter(|manifest| manifest.exists())
        .flat_map(|manifest| read_metadata(&manifest))
        .collect()
}

fn read_metadata(manifest: &Path) -> Vec<CrateManifest> {
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
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    list(&metadata["packages"])
        .iter()
        .map(|package| CrateManifest {
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

/// Edges between our own crates that are not in `allowed`; dev-dependencies count.
pub(crate) fn undeclared_edges(
    member: &CrateManifest,
    allowed: DependencyTable<'_>,
) -> Vec<String> {
    let name = &member.name;
    let Some((_, edges)) = allowed.iter().find(|(krate, _)| krate == name) else {
        return vec![format!("`{name}` is not in the table")];
    };
    let ours = member
        .uses
        .iter()
        .filter_map(|(used, dev)| Some((used.strip_prefix("interzone-")?, *dev)));
    ours.filter(|(used, dev)| {
        let is_test_edge = |(krate, edges): &(&str, &[&str])| krate == name && edges.contains(used);
        let is_for_tests = *dev && ALLOWED_TEST_DEPENDENCIES.iter().any(is_test_edge);
        let is_allowed = |edge: &&str| edge.split("::").next() == Some(*used);
        !is_for_tests && !edges.iter().any(is_allowed)
    })
    .map(|(used, _)| format!("`{name}` uses `{used}`"))
    .collect()
}

/// External crates used where they must not be. Dev-dependencies are exempt.
pub(crate) fn misplaced_external_crates(member: &CrateManifest) -> Vec<String> {
    let name = member.name.as_str();
    let listed = |list: &[&str], used: &str| list.contains(&used);
    let list_for = |table: &[(&str, &'static [&str])]| {
        table
            .iter()
            .find(|(krate, _)| *krate == name)
            .map(|(_, list)| *list)
    };
    let external = member
        .uses
        .iter()
        .filter(|(used, dev)| !dev && !used.starts_with("interzone-"));
    let misplaced = external.filter(|(used, _)| {
        let is_restricted = RESTRICTED_EXTERNAL.iter().any(|(krate, crates)| {
            let is_match = match krate.strip_suffix('*') {
                Some(start) => used.starts_with(start) && !used.starts_with(AWS_TLS_PREFIX),
                None => krate == used,
            };
            is_match && !listed(crates, name) && !listed(TEST_CRATES, name)
        });
        is_restricted
            || list_for(ALLOWED_EXTERNAL).is_some_and(|only| !listed(only, used))
            || list_for(FORBIDDEN_EXTERNAL).is_some_and(|never| listed(never, used))
    });
    misplaced
        .map(|(used, _)| format!("`{name}` uses `{used}`"))
        .collect()
}

/// AWS's crates that a package is built with on this system; those of the TLS provider are not counted.
pub(crate) fn aws_crates(package: &str, features: &[&str]) -> Vec<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--locked", "--edges=normal"])
        .args(["--prefix=none", "--format={p}", "--package", package])
        .args(features)
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let tree = String::from_utf8_lossy(&output.stdout);
    let names: BTreeSet<&str> = tree
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    let is_aws = |name: &&&str| name.starts_with("aws-") && !name.starts_with(AWS_TLS_PREFIX);
    names
        .iter()
        .filter(is_aws)
        .map(|name| (*name).to_owned())
        .collect()
}

/// Crates limited to `protocol::vocab` name no other module of `protocol`.
pub(crate) fn only_vocab(source: &SourceFile) -> Vec<Finding> {
    let krate_name = source.path.split('/').next().unwrap_or_default();
    if !ALLOWED_DEPENDENCIES
        .iter()
        .any(|(name, edges)| *name == krate_name && edges.contains(&"protocol::vocab"))
    {
        return Vec::new();
    }
    let krate = "interzone_protocol";
    let broken = |code: &str| {
        code.match_indices(krate).any(|(at, _)| {
            let path = &code[at + krate.len()..];
            path.strip_prefix("::vocab")
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

/// Parses the table of ARCHITECTURE.md that has the columns `crate` and `may use`.
pub(crate) fn table_in_markdown(markdown: &str) -> BTreeMap<String, Vec<String>> {
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
            let quoted_names = |cell: &str| -> Vec<String> {
                cell.split('`')
                    .skip(1)
                    .step_by(2)
                    .map(str::to_owned)
                    .collect()
            };
            let cell = |at: usize| cells.get(at).copied().unwrap_or_default();
            for name in quoted_names(cell(name)) {
                let mut edges = quoted_names(cell(uses));
                edges.sort();
                rows.insert(name, edges);
            }
        }
    }
    rows
}

/// Returns `allowed` in the form of [`table_in_markdown`].
pub(crate) fn table_as_map(allowed: DependencyTable<'_>) -> BTreeMap<String, Vec<String>> {
    let sorted = |edges: &[&str]| {
        let mut edges: Vec<String> = edges.iter().map(|edge| (*edge).to_owned()).collect();
        edges.sort();
        edges
    };
    allowed
        .iter()
        .map(|(name, edges)| ((*name).to_owned(), sorted(edges)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule_assertions::{assert_breaks, assert_passes};

    fn member(name: &str, uses: &[&str], dev: bool) -> CrateManifest {
        let uses = uses.iter().map(|used| ((*used).to_owned(), dev)).collect();
        CrateManifest {
            name: name.to_owned(),
            uses,
        }
    }

    #[test]
    fn undeclared_edges_are_found() {
        let check = |name: &str, used: &str, expect: usize| {
            for dev in [false, true] {
                let found = undeclared_edges(&member(name, &[used], dev), ALLOWED_DEPENDENCIES);
                assert_eq!(found.len(), expect, "{name} {used} {dev}");
            }
        };
        check("protocol", "interzone-jsonrpc", 0);
        check("jsonrpc", "interzone-protocol", 1);
        check("hub", "interzone-protocol", 0);
        check("hub", "interzone-jsonrpc", 1);
        check("execution", "interzone-verification", 1);
        check("playground", "interzone-protocol", 1);
        check("unlisted", "serde", 1);
        for (dev, expect) in [(false, 1), (true, 0)] {
            let member = member("execution", &["interzone-store"], dev);
            let found = undeclared_edges(&member, ALLOWED_DEPENDENCIES);
            assert_eq!(found.len(), expect, "{dev}");
        }
    }

    #[test]
    fn misplaced_external_crates_are_found() {
        let check = |name: &str, used: &str, expect: usize| {
            for (dev, expect) in [(false, expect), (true, 0)] {
                let found = misplaced_external_crates(&member(name, &[used], dev));
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
        check("client", "aws-sigv4", 0);
        check("cli", "aws-config", 1);
        check("edge", "aws-lc-rs", 0);
        check("edge", "axum", 0);
        check("cli", "axum", 1);
        check("tests", "axum", 0);
    }

    #[test]
    fn other_protocol_modules_are_found() {
        let vocab = "use interzone_protocol::vocab::TaskId;";
        assert_passes(only_vocab, "hub/src/a.rs", vocab);
        for other in [
            "use interzone_protocol::acp::Task;",
            "use interzone_protocol::{acp, vocab};",
            "use interzone_protocol as p;",
            "use interzone_protocol::vocabulary;",
        ] {
            assert_breaks(only_vocab, "hub/src/a.rs", other);
            assert_breaks(only_vocab, "store/src/a.rs", other);
            assert_passes(only_vocab, "execution/src/a.rs", other);
        }
    }

    #[test]
    fn markdown_table_is_parsed() {
        let text = "| crate | contents | may use |\n|---|---|---|\n| `a` | x | – |\n\
                    | `b` | `y` | `a`, `c::d` |\n\n| `z` | no | `table` |\n";
        let allowed: DependencyTable<'_> = &[("b", &["c::d", "a"]), ("a", &[])];
        assert_eq!(table_in_markdown(text), table_as_map(allowed));
        assert_ne!(
            table_in_markdown(&text.replace("`a`, ", "")),
            table_as_map(allowed)
        );
    }
}
