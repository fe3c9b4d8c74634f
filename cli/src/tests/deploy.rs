//! Tests of `deploy/`: its commands and configurations are valid for this binary, and every file that it names
//! exists. No container engine is run.

use crate::commands::Cli;
use crate::config::{Config, VerificationZoneConfig};
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

/// Asserts that the command line is valid.
fn assert_valid_command(arguments: &[&str]) {
    if let Err(error) = Cli::try_parse_from(arguments) {
        panic!("{arguments:?}: {error}");
    }
}

/// Asserts that the configuration is valid for its zone, with its secret files present.
fn assert_config_loads(zone: &str, path: &str) {
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
    let secrets_dir = folder.path().to_str().unwrap();
    let mut config = text.replace("/run/secrets", secrets_dir);
    config = config.replace("/var/lib/interzone/introduction", secrets_dir);
    config = config.replace(
        &format!("/run/credentials/interzone-{zone}.service"),
        secrets_dir,
    );
    let read = match zone {
        "execution" => Config::read(&config, [], folder.path()).map(drop),
        _ => VerificationZoneConfig::read(&config, [], folder.path()).map(drop),
    };
    read.unwrap_or_else(|error| panic!("{path}: {error}"));
}

/// Asserts that the policy allows no one by default.
fn assert_policy_empty(path: &str) {
    let table: toml::Table = read(path).parse().unwrap();
    let teams = table.get("policy").and_then(|policy| policy.get("teams"));
    assert_eq!(teams, Some(&toml::Value::Array(Vec::new())), "{path}");
}

/// Parses the instructions of a Dockerfile, joining continued lines.
fn instructions(text: &str) -> Vec<(String, String)> {
    let text = text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'))
        .collect::<Vec<_>>()
        .join("\n")
        .replace("\\\n", " ");
    text.lines()
        .filter_map(|line| line.trim().split_once(' '))
        .map(|(name, arguments)| (name.to_owned(), arguments.trim().to_owned()))
        .collect()
}

/// Parses a command in exec form (JSON), after its options.
fn exec_form(text: &str) -> Vec<String> {
    let begin = text.find('[').unwrap_or_else(|| panic!("{text}: no list"));
    serde_json::from_str(text.get(begin..).unwrap()).unwrap()
}

#[test]
fn image_commands_are_valid() {
    let all = instructions(&read("deploy/Dockerfile"));
    let last = |instruction: &str| {
        let mut found = all.iter().rev().filter(|(name, _)| name == instruction);
        let (_, arguments) = found.next().unwrap_or_else(|| panic!("no {instruction}"));
        arguments.clone()
    };
    let entry = exec_form(&last("ENTRYPOINT"));
    assert_eq!(entry, ["interzone"]);
    for command in [exec_form(&last("CMD")), exec_form(&last("HEALTHCHECK"))] {
        let mut arguments: Vec<&str> = command.iter().map(String::as_str).collect();
        if arguments.first() != Some(&"interzone") {
            arguments.insert(0, "interzone");
        }
        assert_valid_command(&arguments);
    }
    assert_valid_command(&["interzone", "man", "--out", "man1"]);
    // The user is not root, and the health check needs no extra program.
    let user = last("USER");
    assert!(
        user.split(':')
            .all(|id| id.parse::<u32>().is_ok_and(|id| id > 0)),
        "{user}"
    );
    let text = read("deploy/Dockerfile");
    assert!(!text.contains("curl") && !text.contains("wget"), "{text}");
    let names: Vec<_> = all.iter().filter(|(name, _)| name == "FROM").collect();
    assert_eq!(names.len(), 2, "a build stage and a runtime stage");
    for (_, from) in names {
        let image = from.split_whitespace().next().unwrap();
        let (_, tag) = image.split_once(':').expect("a tag");
        assert!(!image.contains('/') && tag != "latest", "{image}");
    }
}

#[test]
fn image_build_context_is_complete() {
    let lines = read(".dockerignore");
    let included: BTreeSet<&str> = lines.lines().filter_map(|l| l.strip_prefix('!')).collect();
    for name in &included {
        assert!(root().join(name).exists(), "{name}");
    }
    assert!(
        lines.lines().any(|line| line == "*"),
        "everything else is excluded"
    );
    // cargo needs all members of the workspace.
    let manifest: toml::Table = read("Cargo.toml").parse().unwrap();
    let members = manifest["workspace"]["members"].as_array().unwrap();
    for needed in members.iter().map(|member| member.as_str().unwrap()) {
        assert!(included.contains(needed), "{needed} is not in the context");
    }
    for needed in ["Cargo.toml", "Cargo.lock", "config.default.toml", ".cargo"] {
        assert!(included.contains(needed), "{needed} is not in the context");
    }
    for (name, arguments) in instructions(&read("deploy/Dockerfile")) {
        let from_here = name == "COPY" && !arguments.starts_with("--from");
        assert!(
            !from_here || arguments == ". .",
            "COPY {arguments}: not checked to exist"
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
fn compose_file_is_consistent() {
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
        "every secret is used"
    );
    for zone in ZONES {
        let service = &services[zone];
        let command = list(&service["command"]);
        let mut arguments = vec!["interzone"];
        arguments.extend(command.iter().map(String::as_str));
        assert_valid_command(&arguments);
        assert_eq!(service["read_only"], true);
        assert_eq!(list(&service["cap_drop"]), ["ALL"]);
        let config = format!("deploy/compose/{zone}.toml");
        assert_config_loads(zone, &config);
        let mounted = format!("./compose/{zone}.toml:/etc/interzone/interzone.toml:ro");
        assert!(list(&service["volumes"]).contains(&mounted), "{mounted}");
        // Each zone has exactly the secrets that its configuration names.
        let named: BTreeSet<String> = read(&config)
            .split("/run/secrets/")
            .skip(1)
            .map(|text| text.split('"').next().unwrap().to_owned())
            .collect();
        assert_eq!(
            named,
            list(&service["secrets"]).into_iter().collect(),
            "{zone}"
        );
    }
    assert_policy_empty("deploy/compose/verification.toml");
    let context = root()
        .join("deploy")
        .join(services["execution"]["build"]["context"].as_str().unwrap());
    let file = services["execution"]["build"]["dockerfile"]
        .as_str()
        .unwrap();
    assert!(context.join(file).is_file());
}

/// Parses a systemd unit, by key.
fn parse_unit(path: &str) -> BTreeMap<String, Vec<String>> {
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
fn systemd_units_are_valid_and_hardened() {
    for zone in ZONES {
        let unit = parse_unit(&format!("deploy/systemd/interzone-{zone}.service"));
        let single = |key: &str| match unit.get(key).map(Vec::as_slice) {
            Some([only]) => only.as_str(),
            other => panic!("{zone}: {key}: {other:?}"),
        };
        let mut arguments: Vec<&str> = single("ExecStart").split(' ').collect();
        assert_eq!(arguments[0], "/usr/local/bin/interzone");
        arguments[0] = "interzone";
        assert_valid_command(&arguments);
        assert_eq!(
            arguments.last(),
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
            assert_eq!(single(key), value, "{zone}: {key}");
        }
        let config = format!("deploy/systemd/{zone}.toml");
        assert_config_loads(zone, &config);
        // The configuration reads exactly the credentials that the unit passes.
        let credentials_dir = format!("/run/credentials/interzone-{zone}.service/");
        let named: BTreeSet<String> = read(&config)
            .split(&credentials_dir)
            .skip(1)
            .map(|text| text.split('"').next().unwrap().to_owned())
            .collect();
        let passed = unit["LoadCredential"].iter();
        let passed = passed.map(|entry| entry.split(':').next().unwrap().to_owned());
        assert_eq!(named, passed.collect(), "{zone}");
    }
    assert_policy_empty("deploy/systemd/verification.toml");
}

/// Checks the units with systemd-analyze, if installed.
#[test]
fn systemd_analyze_accepts_the_units() {
    let version = Command::new("systemd-analyze").arg("--version").output();
    if version.is_err() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // Any existing program will do in place of the installed binary.
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
        let (_, output) = analyze(&["verify", "--man=no"]);
        assert!(!output.contains(&name), "{output}");
        // Exposure in tenths: 100 is unrestricted, 0 fully sandboxed.
        let (safe, output) = analyze(&["security", "--offline=true", "--threshold=20"]);
        assert!(safe, "{output}");
    }
}

#[test]
fn deploy_scripts_have_valid_syntax() {
    for script in [
        "deploy/compose/databases.sh",
        "deploy/compose/make-secrets.sh",
    ] {
        let result = Command::new("sh")
            .arg("-n")
            .arg(root().join(script))
            .output()
            .unwrap();
        assert!(result.status.success(), "{script}: {result:?}");
    }
}
