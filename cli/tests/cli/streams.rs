//! Standard input and output: devices, pipes, and exit codes when one of them fails.

use super::{check_stdin, interzone, run, run_with_stdin, scratch};
use insta::assert_snapshot;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::process::{Command, Stdio};

#[test]
fn check_reads_standard_input() {
    let run = check_stdin(br#"{"jsonrpc":"2.0","method":"cauce.ping"}"#, &[]);
    assert_eq!(run.code, Some(0));
    assert_eq!(
        run.stdout,
        "valid notification: method \"cauce.ping\", no params\n"
    );
    assert_eq!(run.stderr, "");

    let run = check_stdin(b"", &[]);
    assert_eq!(run.code, Some(1));
    assert_snapshot!(run.stdout, @r"
    not valid: nothing was sent; send one JSON-RPC message or a batch (line 1, column 1)
    a server answers -32700 Parse error
    ");
}

/// A closed standard input is a forgotten pipe, not an empty message.
#[cfg(unix)]
#[test]
fn closed_standard_input_is_an_error() {
    let binary = env!("CARGO_BIN_EXE_interzone");
    let closed = "exec \"$0\" check - <&-";
    let mut shell = Command::new("sh");
    for command in [
        interzone().args(["check", "-"]).stdin(Stdio::null()),
        shell.args(["-c", closed, binary]),
    ] {
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(output.stdout, b"");
        assert_eq!(
            String::from_utf8(output.stderr).unwrap(),
            "error: cannot read standard input: it is closed or the null device; pipe a message \
             into it, or give the path of a file\n"
        );
    }
    let run = run(&["check", "/dev/null"]);
    assert_eq!(run.code, Some(1), "a file given by name is checked");
}

#[test]
fn endless_input_is_refused() {
    let run = run_with_stdin(interzone().args(["check", "-"]), io::repeat(b' '));
    assert_eq!(run.code, Some(2));
    assert_eq!(run.stdout, "");
    assert_snapshot!(run.stderr, @"error: cannot read standard input: it is larger than 64 MiB; use a smaller input");
}

#[cfg(target_os = "linux")]
#[test]
fn endless_device_is_refused() {
    let run = run(&["check", "/dev/zero"]);
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("larger than 64 MiB"), "{}", run.stderr);
}

#[cfg(target_os = "linux")]
#[test]
fn unwritable_output_exits_with_2() {
    for arguments in [
        &["check", "examples/messages/request.json"][..],
        &["--help"],
        &["check", "-h"],
        &["--version"],
    ] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = interzone().args(arguments).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(
            stderr.starts_with("error: cannot write the output: "),
            "{stderr}"
        );
    }
}

#[test]
fn closed_output_pipe_is_no_error() {
    // Far more lines than a pipe holds, so the binary is still writing when the reader exits.
    for (item, code) in [(r#"{"jsonrpc":"2.0","method":"a"}"#, 0), ("0", 1)] {
        let file = scratch(&format!("piped-{code}.json"));
        fs::write(&file, format!("[{}]", vec![item; 20_000].join(","))).unwrap();
        let mut child = interzone()
            .arg("check")
            .arg(file)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        drop(stdout);
        let output = child.wait_with_output().unwrap();
        assert!(line.starts_with("[0] "), "{line}");
        assert_eq!(output.stderr, b"");
        assert_eq!(output.status.code(), Some(code), "the exit code is kept");
    }
}
