//! Where bytes come from and go to: standard input, devices, pipes, and what becomes of a verdict when
//! one of them fails.

use super::{check_stdin, finish, interzone, run, scratch};
use insta::assert_snapshot;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::process::{Command, Stdio};

#[test]
fn standard_input_is_read_where_asked() {
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

/// Standard input that leads nowhere is a forgotten pipe, not an empty message.
#[cfg(unix)]
#[test]
fn no_standard_input_is_no_verdict() {
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
    assert_eq!(
        run.code,
        Some(1),
        "a file that is asked for by name is judged"
    );
}

#[test]
fn what_never_ends_is_not_read_to_its_end() {
    let run = finish(interzone().args(["check", "-"]), io::repeat(b' '));
    assert_eq!(run.code, Some(2));
    assert_eq!(run.stdout, "");
    assert_snapshot!(run.stderr, @"error: cannot read standard input: it is larger than 64 MiB; give less at once");
}

#[cfg(target_os = "linux")]
#[test]
fn a_device_is_not_read_to_its_end() {
    let run = run(&["check", "/dev/zero"]);
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("larger than 64 MiB"), "{}", run.stderr);
}

#[cfg(target_os = "linux")]
#[test]
fn an_answer_that_cannot_be_written_is_no_verdict() {
    for arguments in [
        &["check", "examples/messages/request.json"][..],
        &["--help"],
        &["check", "-h"],
        &["--version"],
    ] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = interzone().args(arguments).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(
            told.starts_with("error: cannot write the answer: "),
            "{told}"
        );
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    // Far more lines than a pipe holds, so the binary is still writing when nobody reads.
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
        assert_eq!(output.status.code(), Some(code), "the verdict stands");
    }
}
