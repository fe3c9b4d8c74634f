//! Whether what is in `deploy/` fits this binary: its commands are understood, its configurations are read, and
//! every file that it names is there. Only tests are here; what an engine would do with it is not tried.

use crate::commands::Cli;
use crate::config::{Config, VerifyConfig};
use clap::Parser;
use serde_yaml_ng::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const ZONES: [&str; 2] = ["execution", "verification"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The command line is one that this binary understands.
fn understood(words: &[&str]) {
    if let Err(error) = Cli::try_parse_from(words) {
        panic!("{words:?}: {error}");
    }
}

/// The configuration is one that its zone reads, once its secrets are there.
fn loads(zone: &str, path: &str) {
    let folder = tempfile::tempdir().unwrap();
    let text = read(path);
    for line in text.lines().filter(|line| line.contains("_file = ")) {
        let (_, file) = line.split_once(" = \"").unwrap();
        let name = Path::new(file.trim_end_matches('"')).file_name().unwrap();
        let secret = match name.to_str().unwrap().contains("store") {
            true => "postgres://u:p@%2Fvar%2Frun%2Fpostgresql/db",
            false => "a-secret",
        };
        fs::write(folder.path().join(name), secret).unwrap();
    }
    let here = folder.path().to_str().unwrap();
    let mut moved = text.replace("/run/secrets", here);
    moved = moved.replace("/var/lib/interzone/introduction", here);
    moved = moved.replace(&format!("/run/credentials/interzone-{zone}.service"), here);
    let read = match zone {
        "execution" => Config::read(&moved, [], folder.path()).map(drop),
        _ => VerifyConfig::read(&moved, [], folder.path()).map(drop),
    };
    read.unwrap_or_else(|error| panic!("{path}: {error}"));
}

/// Every configuration lets nobody ask until somebody says who.
fn is_closed(path: &str) {
    let table: toml::Table = read(path).parse().unwrap();
    let teams = table.get("policy").and_then(|policy| policy.get("teams"));
    assert_eq!(teams, Some(&toml::Value::Array(Vec::new())), "{path}");
}

/// The instructions of a Dockerfile, with their continued lines.
fn instructions(text: &str) -> Vec<(String, String)> {
    let text = text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'))
        .collect::<Vec<_>>()
        .join("\n")
        .replace("\\\n", " ");
    text.lines()
        .filter_map(|line| line.trim().split_once(' '))
        .map(|(word, rest)| (word.to_owned(), rest.trim().to_owned()))
        .collect()
}

/// A command as JSON, after whatever options stand before it.
fn exec_form(text: &str) -> Vec<String> {
    let begin = text.find('[').unwrap_or_else(|| panic!("{text}: no list"));
    serde_json::from_str(text.get(begin..).unwrap()).unwrap()
}

#[test]
fn the_image_runs_what_this_binary_understands() {
    let all = instructions(&read("deploy/Dockerfile"));
    let last = |word: &str| {
        let mut found = all.iter().rev().filter(|(name, _)| name == word);
        let (_, rest) = found.next().unwrap_or_else(|| panic!("no {word}"));
        rest.clone()
    };
    let entry = exec_form(&last("ENTRYPOINT"));
    assert_eq!(entry, ["interzone"]);
    for command in [exec_form(&last("CMD")), exec_form(&last("HEALTHCHECK"))] {
        let mut words: Vec<&str> = command.iter().map(String::as_str).collect();
        if words.first() != Some(&"interzone") {
            words.insert(0, "interzone");
        }
        understood(&words);
    }
    understood(&["interzone", "man", "--out", "man1"]);
    // Nobody is root, and nothing is fetched to see whether it is well.
    let user = last("USER");
    assert!(
        user.split(':')
            .all(|id| id.parse::<u32>().is_ok_and(|id| id > 0)),
        "{user}"
    );
    let text = read("deploy/Dockerfile");
    assert!(!text.contains("curl") && !text.contains("wget"), "{text}");
    let names: Vec<_> = all.iter().filter(|(word, _)| word == "FROM").collect();
    assert_eq!(names.len(), 2, "a stage to build in, and one to run");
    for (_, from) in names {
        let image = from.split_whitespace().next().unwrap();
        let (_, tag) = image.split_once(':').expect("a tag");
        assert!(!image.contains('/') && tag != "latest", "{image}");
    }
}

#[test]
fn the_image_is_built_of_what_is_there() {
    let lines = read(".dockerignore");
    let kept: BTreeSet<&str> = lines.lines().filter_map(|l| l.strip_prefix('!')).collect();
    for name in &kept {
        assert!(root().join(name).exists(), "{name}");
    }
    assert!(lines.lines().any(|line| line == "*"), "the rest stays out");
    // Whatever the workspace has, cargo wants to see.
    let manifest: toml::Table = read("Cargo.toml").parse().unwrap();
    let members = manifest["workspace"]["members"].as_array().unwrap();
    for needed in members.iter().map(|member| member.as_str().unwrap()) {
        assert!(kept.contains(needed), "{needed} is not in the context");
    }
    for needed in ["Cargo.toml", "Cargo.lock", "config.default.toml", ".cargo"] {
        assert!(kept.contains(needed), "{needed} is not in the context");
    }
    for (word, rest) in instructions(&read("deploy/Dockerfile")) {
        let from_here = word == "COPY" && !rest.starts_with("--from");
        assert!(
            !from_here || rest == ". .",
            "COPY {rest}: look whether it is there"
        );
    }
    let version = manifest["workspace"]["package"]["rust-version"]
        .as_str()
        .unwrap();
    let base = format!("FROM rust:{version}-");
    assert!(
        read("deploy/Dockerfile").contains(&base),
        "the compiler is {version}"
    );
}

#[test]
fn the_compose_file_fits() {
    let compose: Value = serde_yaml_ng::from_str(&read("deploy/compose.yaml")).unwrap();
    let map = |value: &Value| -> BTreeMap<String, Value> {
        serde_yaml_ng::from_value(value.clone()).unwrap()
    };
    let list = |value: &Value| -> Vec<String> {
        let found: Option<Vec<String>> = serde_yaml_ng::from_value(value.clone()).unwrap();
        found.unwrap_or_default()
    };
    let services = map(&compose["services"]);
    let (secrets, volumes) = (map(&compose["secrets"]), map(&compose["volumes"]));
    let mut used = BTreeSet::new();
    for (name, service) in &services {
        for secret in list(&service["secrets"]) {
            assert!(secrets.contains_key(&secret), "{name}: {secret}");
            used.insert(secret);
        }
        for volume in list(&service["volumes"]) {
            let (from, _) = volume.split_once(':').unwrap();
            let there = match from.strip_prefix("./") {
                Some(path) => root().join("deploy").join(path).is_file(),
                None => volumes.contains_key(from),
            };
            assert!(there, "{name}: {volume}");
        }
    }
    assert_eq!(
        used,
        secrets.keys().cloned().collect(),
        "each secret has a use"
    );
    for zone in ZONES {
        let service = &services[zone];
        let command = list(&service["command"]);
        let mut words = vec!["interzone"];
        words.extend(command.iter().map(String::as_str));
        understood(&words);
        assert_eq!(service["read_only"], true);
        assert_eq!(list(&service["cap_drop"]), ["ALL"]);
        let config = format!("deploy/compose/{zone}.toml");
        loads(zone, &config);
        let mounted = format!("./compose/{zone}.toml:/etc/interzone/interzone.toml:ro");
        assert!(list(&service["volumes"]).contains(&mounted), "{mounted}");
        // Each zone has the secrets that its configuration names, and no other.
        let named: BTreeSet<String> = read(&config)
            .split("/run/secrets/")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap().to_owned())
            .collect();
        assert_eq!(
            named,
            list(&service["secrets"]).into_iter().collect(),
            "{zone}"
        );
    }
    is_closed("deploy/compose/verification.toml");
    let context = root()
        .join("deploy")
        .join(services["execution"]["build"]["context"].as_str().unwrap());
    let file = services["execution"]["build"]["dockerfile"]
        .as_str()
        .unwrap();
    assert!(context.join(file).is_file());
}

/// What a unit says, by its keys.
fn unit(path: &str) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in read(path).lines() {
        if let Some((key, value)) = line.split_once('=').filter(|_| !line.starts_with('#')) {
            found
                .entry(key.to_owned())
                .or_default()
                .push(value.to_owned());
        }
    }
    found
}

#[test]
fn the_units_run_what_this_binary_understands_and_little_else() {
    for zone in ZONES {
        let unit = unit(&format!("deploy/systemd/interzone-{zone}.service"));
        let one = |key: &str| match unit.get(key).map(Vec::as_slice) {
            Some([only]) => only.as_str(),
            other => panic!("{zone}: {key}: {other:?}"),
        };
        let mut words: Vec<&str> = one("ExecStart").split(' ').collect();
        assert_eq!(words[0], "/usr/local/bin/interzone");
        words[0] = "interzone";
        understood(&words);
        assert_eq!(
            words.last(),
            Some(&format!("/etc/interzone/{zone}.toml").as_str())
        );
        for (key, value) in [
            ("DynamicUser", "yes"),
            ("NoNewPrivileges", "yes"),
            ("ProtectSystem", "strict"),
            ("ProtectHome", "yes"),
            ("CapabilityBoundingSet", ""),
            ("UMask", "0077"),
            ("StateDirectory", &format!("interzone-{zone}")),
        ] {
            assert_eq!(one(key), value, "{zone}: {key}");
        }
        let config = format!("deploy/systemd/{zone}.toml");
        loads(zone, &config);
        // What the configuration reads is what the unit hands it.
        let place = format!("/run/credentials/interzone-{zone}.service/");
        let named: BTreeSet<String> = read(&config)
            .split(&place)
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap().to_owned())
            .collect();
        let handed = unit["LoadCredential"].iter();
        let handed = handed.map(|word| word.split(':').next().unwrap().to_owned());
        assert_eq!(named, handed.collect(), "{zone}");
    }
    is_closed("deploy/systemd/verification.toml");
}

/// systemd itself looks at the units, where it is there.
#[test]
fn systemd_finds_nothing_wrong_with_the_units() {
    let there = Command::new("systemd-analyze").arg("--version").output();
    if there.is_err() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // Any program that is there will do; ours is installed by whoever installs the units.
    let program = std::env::current_exe().unwrap();
    for zone in ZONES {
        let name = format!("interzone-{zone}.service");
        let text = read(&format!("deploy/systemd/{name}"));
        let text = text.replace("/usr/local/bin/interzone", program.to_str().unwrap());
        let path = folder.path().join(&name);
        fs::write(&path, text).unwrap();
        let analyze = |arguments: &[&str]| {
            let mut command = Command::new("systemd-analyze");
            let output = command.args(arguments).arg(&path).output().unwrap();
            let text = [output.stdout, output.stderr].concat();
            (
                output.status.success(),
                String::from_utf8_lossy(&text).into_owned(),
            )
        };
        let (_, told) = analyze(&["verify", "--man=no"]);
        assert!(!told.contains(&name), "{told}");
        // 10 is a process that may do anything, 0 one that may do nothing; by tenths.
        let (safe, told) = analyze(&["security", "--offline=true", "--threshold=20"]);
        assert!(safe, "{told}");
    }
}

#[test]
fn the_scripts_are_shell() {
    for script in [
        "deploy/compose/databases.sh",
        "deploy/compose/make-secrets.sh",
    ] {
        let looked = Command::new("sh")
            .arg("-n")
            .arg(root().join(script))
            .output()
            .unwrap();
        assert!(looked.status.success(), "{script}: {looked:?}");
    }
}
