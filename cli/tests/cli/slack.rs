//! What an operator asks of a Verification Zone from outside: who may ask, what is wrong, and which command a
//! file is for.

#![expect(clippy::panic, reason = "a test that cannot go on has failed")]

use crate::journey::Zone;
use crate::{Run, run};
use serde_json::Value;
use std::fs;
use std::path::Path;

const EXAMPLE: &str = "examples/verification.toml";

fn explain(ids: [&str; 3], more: &[&str]) -> Run {
    let [team, user, channel] = ids;
    let named = ["--team", team, "--user", user, "--channel", channel];
    let command = ["policy", "explain", "--config", EXAMPLE];
    run(&[&command[..], &named, more].concat())
}

#[test]
fn the_policy_is_explained_without_reading_a_secret() {
    let may = explain(["T0123ABCD", "U1", "D1"], &[]);
    assert_eq!(may.code, Some(0), "{}", may.stderr);
    assert_eq!(
        may.stdout,
        "U1 may ask in D1\n  teams: T0123ABCD may, because it is in the list\n  channels: D1 may, \
         because the list has \"*\"\n  users: U1 may, because the list has \"*\"\n  10 times a minute\n"
    );
    let may_not = explain(["T9", "U1", "C1"], &[]);
    assert_eq!(may_not.code, Some(4));
    assert!(may_not.stdout.starts_with("U1 may not ask in C1\n"));
    let json = explain(["T9", "U1", "C1"], &["--output", "json"]);
    assert_eq!(json.code, Some(4));
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["allowed"], false);
    assert_eq!(json["lists"][0]["reason"], "team_not_listed");
    let shared = explain(["T0123ABCD", "U1", "C1"], &["--user-team", "T9"]);
    assert_eq!(shared.code, Some(4), "{}", shared.stdout);
    let wrong = explain(["T9", "anna", "C1"], &[]);
    assert_eq!(wrong.code, Some(2), "{}", wrong.stderr);
}

#[test]
fn a_file_says_which_command_it_is_for() {
    let execute = run(&["execute", "--config", EXAMPLE]);
    assert_eq!(execute.code, Some(2));
    assert!(
        execute.stderr.contains("run `interzone verify`"),
        "{}",
        execute.stderr
    );
    let verify = run(&["verify", "--config", "examples/execution.toml"]);
    assert_eq!(verify.code, Some(2));
    assert!(
        verify.stderr.contains("run `interzone execute`"),
        "{}",
        verify.stderr
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
fn the_doctor_names_every_file_that_is_not_there() {
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

/// A folder with the configuration of an Execution Zone that nobody has started, and that file.
fn an_execution_zone() -> (tempfile::TempDir, std::path::PathBuf) {
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
fn the_doctor_knows_an_execution_zone_too() {
    let (folder, file) = an_execution_zone();
    let files = interzone_edge::tls::DevCa::open_or_make(folder.path(), &[]).unwrap();
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
        "it only looks"
    );
    fs::write(files.key, "no key").unwrap();
    let (code, report) = doctor(&file);
    assert_eq!((code, verdict(&report, "certificate")), (Some(1), "fail"));
}

#[test]
fn a_zone_that_is_not_believed_is_not_one_that_is_not_there() {
    let zone = Zone::up();
    let file = zone.path().join("interzone.toml");
    let of = |trust: &str| {
        let text = format!(
            "[tls]\ncert = \".interzone/cert.pem\"\nkey = \".interzone/key.pem\"\n{trust}\
             [execution]\npublic_url = \"{}\"\n",
            zone.url
        );
        fs::write(&file, text).unwrap();
        let (_, report) = doctor(&file);
        let checks = report["checks"].as_array().unwrap().clone();
        let own = |check: &Value| check["name"] == "this zone";
        checks.into_iter().find(own).expect("it is looked at")
    };
    let strange = of("");
    assert_eq!(strange["verdict"], "warn", "{strange}");
    let found = strange["found"].as_str().unwrap();
    assert!(found.starts_with("somebody serves at"), "{found}");
    assert!(strange["next"].as_str().unwrap().contains("tls.trust"));
    let known = of("trust = [\".interzone/ca.pem\"]\n");
    assert_eq!(known["verdict"], "pass", "{known}");
    // Whoever calls is told by which option.
    let elsewhere = run(&["check", &zone.url]);
    assert_eq!(elsewhere.code, Some(3), "{}", elsewhere.stderr);
    assert!(elsewhere.stderr.contains("--ca"), "{}", elsewhere.stderr);
}

#[test]
fn the_doctor_leaves_an_older_store_as_it_is() {
    let (folder, file) = an_execution_zone();
    interzone_edge::tls::DevCa::open_or_make(folder.path(), &[]).unwrap();
    let added = run(&[
        "client",
        "add",
        "--name",
        "a",
        "--config",
        file.to_str().unwrap(),
    ]);
    assert_eq!(added.code, Some(0), "{}", added.stderr);
    // The header of a SQLite file has what its program says of itself, four bytes from the 60th on.
    let store = folder.path().join("interzone.db");
    let mut bytes = fs::read(&store).unwrap();
    bytes[63] -= 1;
    fs::write(&store, &bytes).unwrap();
    let (_, report) = doctor(&file);
    assert_eq!(verdict(&report, "store"), "pass", "{report:#}");
    assert!(
        report.to_string().contains("renewed at the next start"),
        "{report:#}"
    );
    assert_eq!(fs::read(&store).unwrap(), bytes);
}
