//! Version, shell completions, man pages, and `interzone health`.

use crate::journey::{UpZone, interzone as here};
use crate::{root, run, scratch};
use serde_json::Value;
use std::fs;
use std::process::Command;

#[test]
fn version_includes_commit_if_known() {
    let run = run(&["--version"]);
    assert_eq!(run.code, Some(0));
    let number = concat!("interzone ", env!("CARGO_PKG_VERSION"));
    let suffix = run.stdout.trim_end().strip_prefix(number).unwrap();
    if suffix.is_empty() {
        // Built from neither a Git repository nor an archive.
        return;
    }
    let inner = suffix
        .strip_prefix(" (")
        .and_then(|suffix| suffix.strip_suffix(')'));
    let (hash, day) = inner.and_then(|inner| inner.split_once(", ")).unwrap();
    assert!(
        hash.len() == 7 && hash.bytes().all(|b| b.is_ascii_hexdigit()),
        "{suffix}"
    );
    assert!(day.len() == 10 && day.starts_with("20"), "{suffix}");
}

#[test]
fn build_script_finds_commit_from_any_source() {
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
    // Builds and runs the build script with this environment, and returns the version.
    let version = |commit: Option<&str>, path: Option<&str>| {
        let mut rustc = Command::new("rustc");
        let rustc = rustc
            .current_dir(&cli)
            .args(["--edition", "2024", "build.rs"]);
        rustc
            .env("CARGO_PKG_VERSION", "1.2.3")
            .env("CARGO_MANIFEST_DIR", &cli);
        match commit {
            Some(commit) => rustc.env("INTERZONE_BUILD_COMMIT", commit),
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
    // A repository further up is not ours.
    git(&["init", "--quiet"]);
    git(&["commit", "--quiet", "--allow-empty", "--message", "theirs"]);
    fs::write(cli.join("commit.txt"), "$Format:%H %cs$\n").unwrap();
    assert_eq!(version(None, None), "1.2.3");
    // An archive contains the commit.
    let archived = "0123456789abcdef0123456789abcdef01234567 2026-01-02\n";
    fs::write(cli.join("commit.txt"), archived).unwrap();
    assert_eq!(version(None, None), "1.2.3 (0123456, 2026-01-02)");
    assert_eq!(
        version(None, Some("/nowhere")),
        "1.2.3 (0123456, 2026-01-02)"
    );
    assert_eq!(
        version(Some("nonsense"), None),
        "1.2.3 (0123456, 2026-01-02)"
    );
    let commit = "fedcba9876543210 2025-12-31";
    assert_eq!(version(Some(commit), None), "1.2.3 (fedcba9, 2025-12-31)");
    // Our own repository takes precedence.
    fs::rename(outer.join(".git"), outer.join("in/.git")).unwrap();
    let ours = version(None, None);
    assert!(
        ours.starts_with("1.2.3 (") && !ours.contains("0123456"),
        "{ours}"
    );
}

#[test]
fn completions_contain_every_command() {
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
fn bash_completion_works() {
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
    let completed = String::from_utf8(bash.stdout).unwrap();
    assert_eq!(
        completed.lines().collect::<Vec<_>>(),
        ["doctor", "watch", "zsh"]
    );
}

#[test]
fn every_command_has_a_man_page() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("man1");
    let run = run(&["man", "--out", out.to_str().unwrap(), "--output", "json"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let output: Value = serde_json::from_str(&run.stdout).unwrap();
    let pages: Vec<&str> = output["pages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|page| page.as_str().unwrap())
        .collect();
    for page in [
        "interzone.1",
        "interzone-up.1",
        "interzone-serve-execution.1",
        "interzone-task-create.1",
        "interzone-check.1",
    ] {
        assert!(pages.contains(&page), "{pages:?}");
    }
    assert_eq!(fs::read_dir(&out).unwrap().count(), pages.len());
    let has_man = Command::new("man").arg("--version").output().is_ok();
    for page in pages {
        let path = out.join(page);
        let text = fs::read_to_string(&path).unwrap();
        for section in ["NAME", "SYNOPSIS", "OPTIONS"] {
            assert!(
                text.contains(&format!(".SH {section}")),
                "{page}: {section}"
            );
        }
        if !has_man {
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
fn health_reports_local_zone() {
    let zone = UpZone::up();
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
            (Some(0), "execution: healthy\n"),
            "{run:?}"
        );
    }
    // No server listens on port 1.
    config("1", "");
    let run = zone.run(&["health"]);
    assert_eq!(run.code, Some(3), "{run:?}");
    // A zone that requires a client certificate is healthy too.
    config("0", "client_ca = \".interzone/ca.pem\"\n");
    let mut guarded = crate::journey::Program::spawn(
        here(zone.path())
            .args(["serve", "execution", "--output", "json"])
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
    assert_eq!(
        run.stdout,
        "execution: healthy, requires a client certificate\n"
    );
    crate::journey::terminate(&guarded);
    assert_eq!(guarded.0.wait().unwrap().code(), Some(0));
}
