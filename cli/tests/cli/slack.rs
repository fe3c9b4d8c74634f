//! Commands for operators of a Verification Zone: `policy explain`, `doctor`, and errors about the wrong command.

#![expect(clippy::panic, reason = "a test that cannot go on has failed")]

use crate::journey::UpZone;
use crate::{RunOutput, run};
use serde_json::Value;
use std::fs;
use std::path::Path;

const EXAMPLE: &str = "examples/verification.toml";

fn explain(ids: [&str; 3], more: &[&str]) -> RunOutput {
    let [team, user, channel] = ids;
    let named = ["--team", team, "--user", user, "--channel", channel];
    let command = ["policy", "explain", "--config", EXAMPLE];
    run(&[&command[..], &named, more].concat())
}

#[test]
fn policy_explain_reads_no_secrets() {
    let allowed = explain(["T0123ABCD", "U1", "D1"], &[]);
    assert_eq!(allowed.code, Some(0), "{}", allowed.stderr);
    assert_eq!(
        allowed.stdout,
        "U1 may ask in D1\n  teams: T0123ABCD may, because it is in the list\n  channels: D1 may, \
         because the list has \"*\"\n  users: U1 may, because the list has \"*\"\n  10 requests per minute\n"
    );
    let denied = explain(["T9", "U1", "C1"], &[]);
    assert_eq!(denied.code, Some(4));
    assert!(denied.stdout.starts_with("U1 may not ask in C1\n"));
    let json = explain(["T9", "U1", "C1"], &["--output", "json"]);
    assert_eq!(json.code, Some(4));
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["allowed"], false);
    assert_eq!(json["lists"][0]["reason"], "team_not_listed");
    let shared = explain(["T0123ABCD", "U1", "C1"], &["--user-team", "T9"]);
    assert_eq!(shared.code, Some(4), "{}", shared.stdout);
    let invalid = explain(["T9", "anna", "C1"], &[]);
    assert_eq!(invalid.code, Some(2), "{}", invalid.stderr);
}

#[test]
fn wrong_zone_error_names_the_command() {
    let execution = run(&["serve", "execution", "--config", EXAMPLE]);
    assert_eq!(execution.code, Some(2));
    assert!(
        execution
            .stderr
            .contains("run `interzone serve verification`"),
        "{}",
        execution.stderr
    );
    let verification = run(&[
        "serve",
        "verification",
        "--config",
        "examples/execution.toml",
    ]);
    assert_eq!(verification.code, Some(2));
    assert!(
        verification
            .stderr
            .contains("run `interzone serve execution`"),
        "{}",
        verification.stderr
    );
}

fn doctor(file: &Path) -> (Option<i32>, Value) {
    let run = run(&[
        "doctor",
        "--config",
        file.to_str().unwrap(),
        "--output",
        "json",
    ]);
    let report = serde_json::from_str(&run.stdout);
    (
        run.code,
        report.unwrap_or_else(|_| panic!("{}", run.stderr)),
    )
}

fn verdict<'a>(report: &'a Value, name: &str) -> &'a str {
    let mut checks = report["checks"].as_array().unwrap().iter();
    let found = checks.find(|check| check["name"] == name);
    found.unwrap_or_else(|| panic!("{name}: {report:#}"))["verdict"]
        .as_str()
        .unwrap()
}

#[test]
fn doctor_reports_every_missing_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("interzone.toml");
    fs::copy(crate::root().join(EXAMPLE), &file).unwrap();
    let (code, report) = doctor(&file);
    assert_eq!(code, Some(1), "{report:#}");
    for key in [
        "tls.cert",
        "tls.key",
        "tls.trust",
        "slack.signing_secret_file",
        "slack.bot_token_file",
        "verification.oauth.client_secret_file",
    ] {
        assert_eq!(verdict(&report, &format!("file {key}")), "fail");
    }
    let checks = report["checks"].as_array().unwrap();
    let failed = checks.iter().filter(|check| check["verdict"] == "fail");
    assert!(
        failed.clone().all(|check| check["next"].is_string()),
        "{report:#}"
    );
    assert_eq!(report["failed"], failed.count());
    let nothing = run(&["doctor", "--config", "no/such/file"]);
    assert_eq!(nothing.code, Some(2), "{}", nothing.stderr);
}

/// Creates a folder with the configuration of an Execution Zone that is not running; returns both.
fn execution_config() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("interzone.toml");
    fs::write(
        &file,
        "[tls]\ncert = \"cert.pem\"\nkey = \"key.pem\"\n[execution]\nlisten = \"127.0.0.1:1\"\n",
    )
    .unwrap();
    (folder, file)
}

#[test]
fn doctor_checks_execution_zone() {
    let (folder, file) = execution_config();
    let files = interzone_edge::tls::DevCa::open_or_create(folder.path(), &[]).unwrap();
    let (code, report) = doctor(&file);
    assert_eq!(code, Some(0), "{report:#}");
    for name in [
        "configuration of the Execution Zone",
        "certificate",
        "store",
        "issuer",
    ] {
        assert_eq!(verdict(&report, name), "pass", "{name}");
    }
    assert_eq!(verdict(&report, "this zone"), "skip");
    assert!(
        !folder.path().join("interzone.db").exists(),
        "doctor is read-only"
    );
    fs::write(files.key, "no key").unwrap();
    let (code, report) = doctor(&file);
    assert_eq!((code, verdict(&report, "certificate")), (Some(1), "fail"));
}

#[test]
fn doctor_distinguishes_untrusted_from_unreachable() {
    let zone = UpZone::up();
    let file = zone.path().join("interzone.toml");
    let check_with = |trust: &str| {
        let text = format!(
            "[tls]\ncert = \".interzone/cert.pem\"\nkey = \".interzone/key.pem\"\n{trust}\
             [execution]\npublic_url = \"{}\"\n",
            zone.url
        );
        fs::write(&file, text).unwrap();
        let (_, report) = doctor(&file);
        let checks = report["checks"].as_array().unwrap().clone();
        let this_zone = |check: &Value| check["name"] == "this zone";
        checks
            .into_iter()
            .find(this_zone)
            .expect("the zone is checked")
    };
    let untrusted = check_with("");
    assert_eq!(untrusted["verdict"], "warn", "{untrusted}");
    let found = untrusted["found"].as_str().unwrap();
    assert!(found.starts_with("a server is running at"), "{found}");
    assert!(untrusted["next"].as_str().unwrap().contains("tls.trust"));
    let trusted = check_with("trust = [\".interzone/ca.pem\"]\n");
    assert_eq!(trusted["verdict"], "pass", "{trusted}");
    // Other commands name their own option.
    let elsewhere = run(&["check", &zone.url]);
    assert_eq!(elsewhere.code, Some(3), "{}", elsewhere.stderr);
    assert!(elsewhere.stderr.contains("--ca"), "{}", elsewhere.stderr);
}

#[test]
fn doctor_does_not_migrate_older_store() {
    let (folder, file) = execution_config();
    interzone_edge::tls::DevCa::open_or_create(folder.path(), &[]).unwrap();
    let added = run(&[
        "client",
        "add",
        "--name",
        "a",
        "--config",
        file.to_str().unwrap(),
    ]);
    assert_eq!(added.code, Some(0), "{}", added.stderr);
    // Bytes 60 to 63 of a SQLite file are its user version.
    let store = folder.path().join("interzone.db");
    let mut bytes = fs::read(&store).unwrap();
    bytes[63] -= 1;
    fs::write(&store, &bytes).unwrap();
    let (_, report) = doctor(&file);
    assert_eq!(verdict(&report, "store"), "pass", "{report:#}");
    assert!(
        report
            .to_string()
            .contains("the next start creates or migrates its tables"),
        "{report:#}"
    );
    assert_eq!(fs::read(&store).unwrap(), bytes);
}
