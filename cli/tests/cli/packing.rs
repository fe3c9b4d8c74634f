//! What comes along with the binary: its version, what shells complete, the manual, and how it is asked
//! whether a zone is well.

use crate::journey::{Zone, interzone as here};
use crate::{root, run, scratch};
use serde_json::Value;
use std::fs;
use std::process::Command;

#[test]
fn the_version_names_the_commit_if_there_is_one() {
    let run = run(&["--version"]);
    assert_eq!(run.code, Some(0));
    let number = concat!("interzone ", env!("CARGO_PKG_VERSION"));
    let rest = run.stdout.trim_end().strip_prefix(number).unwrap();
    if rest.is_empty() {
        // Neither git nor an archive said anything.
        return;
    }
    let inner = rest
        .strip_prefix(" (")
        .and_then(|rest| rest.strip_suffix(')'));
    let (hash, day) = inner.and_then(|inner| inner.split_once(", ")).unwrap();
    assert!(
        hash.len() == 7 && hash.bytes().all(|b| b.is_ascii_hexdigit()),
        "{rest}"
    );
    assert!(day.len() == 10 && day.starts_with("20"), "{rest}");
}

#[test]
fn the_commit_is_found_wherever_the_source_came_from() {
    let folder = tempfile::tempdir().unwrap();
    let (outer, cli) = (folder.path(), folder.path().join("in/cli"));
    fs::create_dir_all(&cli).unwrap();
    fs::copy(root().join("cli/build.rs"), cli.join("build.rs")).unwrap();
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.current_dir(outer)
            .args(["-c", "user.name=a", "-c", "user.email=a@b"]);
        let status = git.args(arguments).status();
        assert!(status.unwrap().success(), "{arguments:?}");
    };
    // What the script says, when it is built with this in its environment.
    let says = |told: Option<&str>, path: Option<&str>| {
        let mut rustc = Command::new("rustc");
        let rustc = rustc
            .current_dir(&cli)
            .args(["--edition", "2024", "build.rs"]);
        rustc
            .env("CARGO_PKG_VERSION", "1.2.3")
            .env("CARGO_MANIFEST_DIR", &cli);
        match told {
            Some(told) => rustc.env("INTERZONE_BUILD_COMMIT", told),
            None => rustc.env_remove("INTERZONE_BUILD_COMMIT"),
        };
        assert!(rustc.status().unwrap().success());
        let mut script = Command::new(cli.join("build"));
        let script = script.current_dir(&cli).env_remove("GIT_DIR");
        if let Some(path) = path {
            script.env("PATH", path);
        }
        let text = String::from_utf8(script.output().unwrap().stdout).unwrap();
        let (_, version) = text.split_once("INTERZONE_VERSION=").unwrap();
        version.lines().next().unwrap().to_owned()
    };
    // A repository further up is somebody else's.
    git(&["init", "--quiet"]);
    git(&["commit", "--quiet", "--allow-empty", "--message", "theirs"]);
    fs::write(cli.join("commit.txt"), "$Format:%H %cs$\n").unwrap();
    assert_eq!(says(None, None), "1.2.3");
    // An archive has it written down.
    let archived = "0123456789abcdef0123456789abcdef01234567 2026-01-02\n";
    fs::write(cli.join("commit.txt"), archived).unwrap();
    assert_eq!(says(None, None), "1.2.3 (0123456, 2026-01-02)");
    assert_eq!(says(None, Some("/nowhere")), "1.2.3 (0123456, 2026-01-02)");
    assert_eq!(says(Some("nonsense"), None), "1.2.3 (0123456, 2026-01-02)");
    let told = "fedcba9876543210 2025-12-31";
    assert_eq!(says(Some(told), None), "1.2.3 (fedcba9, 2025-12-31)");
    // A repository of our own knows best.
    fs::rename(outer.join(".git"), outer.join("in/.git")).unwrap();
    let ours = says(None, None);
    assert!(
        ours.starts_with("1.2.3 (") && !ours.contains("0123456"),
        "{ours}"
    );
}

#[test]
fn shells_complete_every_command() {
    let help = run(&["--help"]).stdout;
    let (_, commands) = help.split_once("Commands:\n").unwrap();
    let commands: Vec<&str> = commands
        .lines()
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(commands.len() > 15, "{commands:?}");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(&["completions", shell]);
        assert_eq!(
            (script.code, script.stderr.as_str()),
            (Some(0), ""),
            "{shell}"
        );
        for command in &commands {
            assert!(script.stdout.contains(command), "{shell}: {command}");
        }
        for hidden in ["extract-file", "run-program"] {
            assert!(!script.stdout.contains(hidden), "{shell}: {hidden}");
        }
    }
    assert_eq!(run(&["completions", "sh"]).code, Some(2));
}

#[test]
fn bash_loads_the_script_and_completes() {
    let path = scratch("completions.bash");
    fs::write(&path, run(&["completions", "bash"]).stdout).unwrap();
    let ask = r#"
        source "$1" || exit 1
        complete -p interzone >/dev/null || exit 2
        words() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
                  _interzone interzone "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
                  echo "${COMPREPLY[*]}"; }
        words interzone doc
        words interzone task wa
        words interzone completions z
    "#;
    let bash = Command::new("bash")
        .args(["--norc", "-c", ask, "bash"])
        .arg(&path)
        .output()
        .unwrap();
    assert!(bash.status.success(), "{bash:?}");
    let told = String::from_utf8(bash.stdout).unwrap();
    assert_eq!(told.lines().collect::<Vec<_>>(), ["doctor", "watch", "zsh"]);
}

#[test]
fn every_command_has_a_page_of_the_manual() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("man1");
    let run = run(&["man", "--out", out.to_str().unwrap(), "--output", "json"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let told: Value = serde_json::from_str(&run.stdout).unwrap();
    let pages: Vec<&str> = told["pages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|page| page.as_str().unwrap())
        .collect();
    for page in [
        "interzone.1",
        "interzone-up.1",
        "interzone-task-create.1",
        "interzone-check.1",
    ] {
        assert!(pages.contains(&page), "{pages:?}");
    }
    assert_eq!(fs::read_dir(&out).unwrap().count(), pages.len());
    let man_is_there = Command::new("man").arg("--version").output().is_ok();
    for page in pages {
        let path = out.join(page);
        let text = fs::read_to_string(&path).unwrap();
        for section in ["NAME", "SYNOPSIS", "OPTIONS"] {
            assert!(
                text.contains(&format!(".SH {section}")),
                "{page}: {section}"
            );
        }
        if !man_is_there {
            continue;
        }
        let shown = Command::new("man")
            .env("MANWIDTH", "100")
            .arg("--local-file")
            .arg(&path)
            .output()
            .unwrap();
        let shown_text = String::from_utf8_lossy(&shown.stdout);
        assert!(shown.status.success(), "{page}: {shown:?}");
        assert_eq!(String::from_utf8_lossy(&shown.stderr), "", "{page}");
        assert!(shown_text.contains("interzone"), "{page}: {shown_text}");
    }
}

#[test]
fn a_zone_is_asked_whether_it_is_well() {
    let zone = Zone::up();
    let port = zone.url.rsplit(':').next().unwrap().to_owned();
    let config = |port: &str, more: &str| {
        let text = format!(
            "[tls]\ncert = \".interzone/cert.pem\"\nkey = \".interzone/key.pem\"\n{more}\
             [execution]\nlisten = \"0.0.0.0:{port}\"\npublic_url = \"https://agents.example.com\"\n"
        );
        fs::write(zone.path().join("interzone.toml"), text).unwrap();
    };
    config(&port, "");
    for arguments in [&["health"][..], &["health", "--ready"]] {
        let run = zone.run(arguments);
        assert_eq!(
            (run.code, run.stdout.as_str()),
            (Some(0), "execution: well\n"),
            "{run:?}"
        );
    }
    // Port 1 is nobody's.
    config("1", "");
    let run = zone.run(&["health"]);
    assert_eq!(run.code, Some(3), "{run:?}");
    // One that wants a certificate lives as well.
    config("0", "client_ca = \".interzone/ca.pem\"\n");
    let mut guarded = crate::journey::Program::spawn(
        here(zone.path())
            .args(["execute", "--output", "json"])
            .env("INTERZONE__STORE__URL", "sqlite:guarded.db")
            .env("INTERZONE__EXECUTION__PUBLIC_URL", "https://localhost:0")
            .stdout(std::process::Stdio::piped()),
    );
    let ready = crate::journey::first_line(guarded.0.stdout.take().unwrap());
    let ready: Value = serde_json::from_str(&ready).unwrap();
    let port = ready["url"].as_str().unwrap().rsplit(':').next().unwrap();
    config(port, "client_ca = \".interzone/ca.pem\"\n");
    let run = zone.run(&["health"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_eq!(run.stdout, "execution: well, and asks for a certificate\n");
    crate::journey::terminate(&guarded);
    assert_eq!(guarded.0.wait().unwrap().code(), Some(0));
}
