//! Tests of the `interzone` binary: arguments, output and exit codes.
//!
//! Message validation itself is tested in `jsonrpc`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[cfg(unix)]
#[path = "cli/journey.rs"]
mod journey;
#[cfg(unix)]
#[path = "cli/packing.rs"]
mod packing;
#[cfg(target_os = "linux")]
#[path = "cli/programs.rs"]
mod programs;
#[path = "cli/servers.rs"]
mod servers;
#[path = "cli/slack.rs"]
mod slack;
#[cfg(unix)]
#[path = "cli/store.rs"]
mod store;
#[path = "cli/streams.rs"]
mod streams;
#[cfg(unix)]
#[path = "cli/up.rs"]
mod up;
#[cfg(unix)]
#[path = "cli/workspace.rs"]
mod workspace;

use insta::assert_snapshot;
use serde_json::Value;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Result of a run.
struct RunOutput {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn interzone() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_interzone"));
    command.current_dir(root()).stdin(Stdio::null());
    command
}

/// Runs the binary at the root of the repository, where the documented commands work.
fn run(arguments: &[&str]) -> RunOutput {
    run_with_stdin(interzone().args(arguments), io::empty())
}

fn check_stdin(bytes: &[u8], options: &[&str]) -> RunOutput {
    let mut command = interzone();
    run_with_stdin(command.args(["check", "-"]).args(options), bytes)
}

fn run_with_stdin(command: &mut Command, mut stdin: impl Read) -> RunOutput {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The binary reads everything before it answers, or stops reading and exits.
    let _ = io::copy(&mut stdin, &mut child.stdin.take().unwrap());
    let output = child.wait_with_output().unwrap();
    RunOutput {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the files of a folder below the root, sorted by name.
fn files(folder: &str) -> Vec<String> {
    let mut files: Vec<String> = fs::read_dir(root().join(folder))
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_type().unwrap().is_file())
        .map(|entry| format!("{folder}/{}", entry.file_name().to_str().unwrap()))
        .collect();
    files.sort();
    files
}

const VALID_EXAMPLES: &str = "examples/messages";
const INVALID_EXAMPLES: &str = "examples/messages/invalid";

/// The problem of each invalid example; `None` for a batch, whose items have it.
const PROBLEMS: &[(&str, Option<&str>)] = &[
    ("bare-error", Some("version_missing")),
    ("batch-with-a-bad-item", None),
    ("empty-batch", Some("empty_batch")),
    ("empty-method", Some("method_empty")),
    ("error-without-code", Some("error_code_missing")),
    ("fraction-id", Some("id_not_integer")),
    ("no-version", Some("version_missing")),
    ("null-id", Some("id_null")),
    ("old-version", Some("version_wrong")),
    ("placeholder", Some("unexpected_character")),
    ("result-and-error", Some("result_and_error")),
    ("trailing-comma", Some("unexpected_character")),
    ("two-ids", Some("duplicate_member")),
    ("two-messages", Some("trailing_bytes")),
    ("unfinished", Some("unexpected_end")),
];

#[test]
fn check_classifies_every_example() {
    for file in files(VALID_EXAMPLES) {
        let run = run(&["check", &file]);
        assert_eq!(run.code, Some(0), "{file}: {}", run.stdout);
        assert!(run.stdout.contains("valid "), "{file}: {}", run.stdout);
    }
    let listed: Vec<String> = PROBLEMS
        .iter()
        .map(|(name, _)| format!("{INVALID_EXAMPLES}/{name}.json"))
        .collect();
    assert_eq!(files(INVALID_EXAMPLES), listed, "PROBLEMS lists every file");
    for (file, (_, problem)) in listed.iter().zip(PROBLEMS) {
        let run = run(&["check", file, "--output", "json"]);
        let report: Value = serde_json::from_str(&run.stdout).unwrap();
        assert_eq!(run.code, Some(1), "{file}");
        assert_eq!(report["valid"], false, "{file}");
        assert_eq!(report["problem"]["name"].as_str(), *problem, "{file}");
    }
}

/// Returns the output of `check` for every file of a folder.
fn check_output(folder: &str, options: &[&str]) -> String {
    let mut output = String::new();
    for file in files(folder) {
        let mut arguments = vec!["check", &file];
        arguments.extend(options);
        let run = run(&arguments);
        assert_eq!(run.stderr, "", "{file}");
        writeln!(output, "--- {file}\n{}", run.stdout).unwrap();
    }
    output
}

#[test]
fn valid_examples_as_text() {
    assert_snapshot!(check_output(VALID_EXAMPLES, &[]));
}

#[test]
fn invalid_examples_as_text() {
    assert_snapshot!(check_output(INVALID_EXAMPLES, &[]));
}

#[test]
fn valid_examples_as_json() {
    assert_snapshot!(check_output(VALID_EXAMPLES, &["--output", "json"]));
}

#[test]
fn invalid_examples_as_json() {
    assert_snapshot!(check_output(INVALID_EXAMPLES, &["--output", "json"]));
}

#[test]
fn invalid_utf8_is_located() {
    let run = check_stdin(b"{\"jsonrpc\":\"2.0\",\"method\":\"\xff\xfe\"}", &[]);
    assert_eq!(run.code, Some(1));
    assert_snapshot!(run.stdout, @r#"
    not valid: the text is not UTF-8; send JSON encoded as UTF-8 (line 1, column 28)
    a server answers -32700 Parse error
      1 | {"jsonrpc":"2.0","method":"\xff\xfe"}
        |                            ^
    "#);
}

#[test]
fn byte_order_mark_gets_a_note() {
    let message = b"\xef\xbb\xbf{\"jsonrpc\":\"2.0\",\"method\":\"a\"}";
    let run = check_stdin(message, &[]);
    assert_eq!(run.code, Some(1));
    assert_snapshot!(run.stdout, @r#"
    not valid: JSON does not allow this character here (line 1, column 1)
    a server answers -32700 Parse error
      1 | \u{feff}{"jsonrpc":"2.0","method":"a"}
        | ^
    note: the text begins with a byte order mark, which JSON does not allow; save it as UTF-8 without one
    "#);
    let run = check_stdin(message, &["--output", "json"]);
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(report["notes"][0]["name"], "byte_order_mark");
}

#[test]
fn blank_text_has_no_excerpt() {
    let run = check_stdin(&[b' '; 1000], &[]);
    assert_snapshot!(run.stdout, @r"
    not valid: nothing was sent; send one JSON-RPC message or a batch (line 1, column 1001)
    a server answers -32700 Parse error
    ");
}

#[test]
fn marker_aligns_with_wide_characters() {
    let run = check_stdin("{\"題名\":\"日本語\",\"id\":nil}".as_bytes(), &[]);
    assert_snapshot!(run.stdout, @r#"
    not valid: JSON does not allow this character here (line 1, column 19)
    a server answers -32700 Parse error
      1 | {"題名":"日本語","id":nil}
        |                        ^
    "#);
}

#[test]
fn misuse_exits_with_2_and_advice() {
    let large = scratch("large.json");
    File::create(&large)
        .unwrap()
        .set_len(64 * 1024 * 1024 + 1)
        .unwrap();
    let cases: &[&[&str]] = &[
        &[],
        &["chekc", "a.json"],
        &["check"],
        &["check", "a.json", "b.json"],
        &["check", "--output", "xml", "a.json"],
        &["check", "--strict", "a.json"],
        &["check", "examples/x.json"],
        &["check", ""],
        &["check", "Cargo.toml/x.json"],
        &["check", "examples"],
        &["check", "examples/\u{1b}[2J\u{202e}.json"],
        &["check", "a.json", "\u{1b}[2J\u{202e}.json"],
        &["check", large.to_str().unwrap()],
        &["ask"],
        &["ask", "hi", "--timeout", "soon"],
        &["task", "get"],
        &[
            "task",
            "create",
            "hi",
            "--url",
            "https://127.0.0.1:1",
            "--metadata",
            "[]",
        ],
        &["call", "a", "{", "--url", "https://127.0.0.1:1"],
        &["ask", "hi", "--url", "http://127.0.0.1:1"],
        &[
            "ask",
            "hi",
            "--url",
            "https://127.0.0.1:1",
            "--client-id",
            "a",
        ],
        &[
            "ask",
            "hi",
            "--url",
            "https://127.0.0.1:1",
            "--token-file",
            "nowhere",
        ],
        &["serve", "execution", "--config", "nowhere.toml"],
        &["serve", "execution", "--config", "rustfmt.toml"],
        &["client", "list", "--folder", "nowhere"],
    ];
    let mut output = String::new();
    for arguments in cases {
        let run = run(arguments);
        assert_eq!(run.code, Some(2), "{arguments:?}");
        assert_eq!(run.stdout, "", "{arguments:?}");
        writeln!(output, "--- {arguments:?}\n{}", run.stderr).unwrap();
    }
    assert_snapshot!(output.replace(large.to_str().unwrap(), "large.json"));
}

#[test]
fn help_texts() {
    let mut output = String::new();
    for arguments in [
        &["--help"][..],
        &["up", "--help"],
        &["serve", "--help"],
        &["serve", "execution", "--help"],
        &["serve", "verification", "--help"],
        &["ask", "--help"],
        &["task", "--help"],
        &["task", "create", "--help"],
        &["stream", "--help"],
        &["call", "--help"],
        &["token", "--help"],
        &["client", "add", "--help"],
        &["user", "--help"],
        &["policy", "explain", "--help"],
        &["feedback", "--help"],
        &["doctor", "--help"],
        &["health", "--help"],
        &["completions", "--help"],
        &["man", "--help"],
        &["check", "--help"],
        &["check", "-h"],
    ] {
        let run = run(arguments);
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
        writeln!(output, "--- {arguments:?}\n{}", run.stdout).unwrap();
    }
    assert_snapshot!(output);
}

/// Control and bidirectional characters that a hostile file may contain.
const HOSTILE: &str = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m\u{202e}gnp.exe\u{2066}\u{200b}\r\u{8}";

#[test]
fn hostile_file_output_is_escaped() {
    let escaped: String = HOSTILE
        .encode_utf16()
        .map(|unit| format!("\\u{unit:04x}"))
        .collect();
    let messages = [
        format!(r#"{{"jsonrpc":"2.0","method":"{escaped}","id":"{escaped}"}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":1,"message":"{escaped}"}}}}"#),
        format!(r#"{{"jsonrpc":"2.0","method":"{HOSTILE}"}}"#),
        format!("{{\"jsonrpc\":{HOSTILE}\n{HOSTILE}"),
        format!("[{{\"{escaped}\":1}},{HOSTILE}"),
    ];
    for message in &messages {
        for options in [&[][..], &["--output", "json"]] {
            let run = check_stdin(message.as_bytes(), options);
            let is_unsafe = |c: &char| *c != '\n' && HOSTILE.contains(*c) && !c.is_ascii_graphic();
            assert_eq!(run.stdout.chars().find(is_unsafe), None, "{}", run.stdout);
        }
    }
}

#[test]
fn json_output_preserves_strings() {
    let name = format!("{HOSTILE}題\"\\");
    let message = serde_json::json!({"jsonrpc": "2.0", "method": name, "id": name});
    let run = check_stdin(message.to_string().as_bytes(), &["--output", "json"]);
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(report["method"], name);
    assert_eq!(report["id"], name);
    assert_eq!(run.stdout.lines().count(), 1);
}

#[test]
fn notes_do_not_affect_validity() {
    let names = |bytes: &str| {
        let run = check_stdin(bytes.as_bytes(), &["--output", "json"]);
        assert_eq!(run.code, Some(0), "{bytes}");
        let report: Value = serde_json::from_str(&run.stdout).unwrap();
        let notes = report["notes"].as_array().unwrap();
        let names: Vec<_> = notes.iter().map(|n| n["name"].as_str().unwrap()).collect();
        names.join(" ")
    };
    let call = |more: &str| format!(r#"{{"jsonrpc":"2.0","method":"a","id":1{more}}}"#);
    assert_eq!(names(&call("")), "");
    assert_eq!(names(&call(r#","params":{}"#)), "");
    assert_eq!(names(&call(r#","params":null"#)), "");
    assert_eq!(names(&call(r#","params":[]"#)), "params_array");
    assert_eq!(names(&call(r#","params":7"#)), "params_scalar");
    assert_eq!(names(&call(r#","extra":7"#)), "extra_member");
    assert_eq!(
        names(r#"{"jsonrpc":"2.0","method":"rpc.a"}"#),
        "method_reserved"
    );
    assert_eq!(
        names(r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"","extra":0}}"#),
        "extra_member"
    );
    let batch = |count: usize| format!("[{}]", vec![call(""); count].join(","));
    assert_eq!(names(&batch(1000)), "");
    assert_eq!(names(&batch(1001)), "batch_large");
}

#[test]
fn huge_batch_is_refused() {
    let batch = format!("[{}1]", "1,".repeat(100_000));
    let run = check_stdin(batch.as_bytes(), &["--output", "json"]);
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(run.code, Some(1));
    assert_eq!(report["problem"]["name"], "batch_too_large");
}

#[test]
fn documented_output_matches_binary() {
    const PROMPT: &str = "$ cargo run --release -- ";
    let mut shown = 0;
    for document in ["README.md", "docs/check.md"] {
        let text = fs::read_to_string(root().join(document)).unwrap();
        for block in text.split("```").skip(1).step_by(2) {
            for shown_run in block.split(PROMPT).skip(1) {
                let (command, expected) = shown_run.split_once('\n').unwrap();
                let run = run(&command.split_whitespace().collect::<Vec<_>>());
                assert_eq!(run.stdout.trim(), expected.trim(), "{document}: {command}");
                shown += 1;
            }
        }
    }
    assert!(shown > 2, "only {shown} commands found");
}

/// Returns a path for a temporary file of the tests.
fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("interzone-cli");
    fs::create_dir_all(&folder).unwrap();
    folder.join(name)
}
