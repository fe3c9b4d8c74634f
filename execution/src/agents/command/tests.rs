//! Tests of the command agent with real programs, correct and faulty ones.

use super::*;
use crate::agents::tests::{RecordedOutput, turn};
use interzone_protocol::vocab::{Metadata, TaskId, VerbatimJson};
use std::path::Path;
use tokio::io::AsyncReadExt;
use tokio::task::JoinHandle;

/// A variable of the test's own environment that no program may inherit.
const PRIVATE_ENV_VAR: &str = "CARGO_MANIFEST_DIR";

/// Helpers at the beginning of every test program.
const PRELUDE: &str = r#"
import json, os, sys, time, threading, subprocess, signal
def send(message):
    message["jsonrpc"] = "2.0"
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()
def notify(method, **params):
    send({"method": method, "params": params})
def message(text):
    return {"role": "agent", "parts": [{"type": "TextPart", "content": text}]}
def answer(request, text, state="completed"):
    send({"id": request["id"], "result": {"state": state, "message": message(text)}})
def text_of(request):
    return request["params"]["message"]["parts"][0]["content"]
def receive():
    for line in sys.stdin:
        yield json.loads(line)
def runs():
    return (received for received in receive() if received["method"] == "agent.run")
"#;

struct TestProgram {
    agent: Arc<CommandAgent>,
    folder: tempfile::TempDir,
}

impl TestProgram {
    fn new(code: &str) -> Self {
        Self::with_options(code, |_| {})
    }

    fn with_options(code: &str, change: impl FnOnce(&mut CommandOptions)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("agent.py"), format!("{PRELUDE}\n{code}")).unwrap();
        let mut options = options(&["python3", "agent.py"], folder.path());
        change(&mut options);
        let agent = CommandAgent::start(options, &CancellationToken::new()).unwrap();
        Self {
            agent: Arc::new(agent),
            folder,
        }
    }

    fn start_run(
        &self,
        given: Turn,
    ) -> (
        JoinHandle<Result<TurnOutcome, AgentError>>,
        Arc<RecordedOutput>,
    ) {
        let recorded = Arc::new(RecordedOutput::default());
        let (agent, output) = (self.agent.clone(), recorded.clone());
        let run = tokio::spawn(async move { agent.run(given, output).await });
        (run, recorded)
    }

    async fn ask(&self, text: &str) -> Result<String, &'static str> {
        let given = turn(&format!("t-{text}"), Message::user_text(text), Vec::new());
        self.finish(self.start_run(given).0).await
    }

    async fn finish(
        &self,
        run: JoinHandle<Result<TurnOutcome, AgentError>>,
    ) -> Result<String, &'static str> {
        match run.await.unwrap() {
            Ok(TurnOutcome::Completed { message, .. }) => Ok(message.unwrap().text()),
            Ok(other) => panic!("{other:?} is no answer"),
            Err(error) => Err(error.code),
        }
    }

    async fn wait_until(&self, predicate: fn(&ProcessState) -> bool) {
        let mut state = self.agent.state.clone();
        state.wait_for(predicate).await.unwrap();
    }

    /// Waits until a run has written this many lines.
    async fn wait_for_lines(output: &RecordedOutput, count: usize) -> Vec<String> {
        loop {
            let lines = output.lines.lock().unwrap().clone();
            if lines.len() >= count {
                return lines;
            }
            tokio::task::yield_now().await;
        }
    }
}

/// Matches a running process that has not answered anything yet.
fn is_fresh(now: &ProcessState) -> bool {
    matches!(now, ProcessState::Running(live) if live.is_open() && !live.has_answered())
}

#[expect(
    clippy::disallowed_methods,
    reason = "the test finds Python on the PATH of the user who runs it"
)]
fn environment() -> BTreeMap<String, String> {
    assert!(std::env::var(PRIVATE_ENV_VAR).is_ok(), "cargo sets it");
    let inherited = INHERITED_ENV_VARS.iter();
    inherited
        .filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)))
        .collect()
}

fn options(command: &[&str], folder: &Path) -> CommandOptions {
    let command = command
        .iter()
        .map(|argument| (*argument).to_owned())
        .collect();
    CommandOptions {
        cwd: Some(folder.to_owned()),
        env: environment(),
        cancel_grace: Duration::from_millis(300),
        exit_grace: Duration::from_millis(300),
        initial_restart_delay: Duration::from_millis(1),
        max_restart_delay: Duration::from_millis(5),
        ..CommandOptions::new(AgentId::new("program").unwrap(), command)
    }
}

#[tokio::test]
async fn program_receives_the_turn_and_its_output_is_relayed() {
    let program = TestProgram::new(
        r#"
for run in runs():
    p = run["params"]
    notify("agent.status", taskId=p["taskId"], text="thinking")
    notify("agent.text", taskId=p["taskId"], delta="Hello, ")
    notify("agent.text", taskId=p["taskId"], delta="you")
    notify("agent.artifact", taskId=p["taskId"], artifact={"artifactId": "a", "name": "n", "parts": []})
    p["env"] = sorted(os.environ)
    p["messageId"] = p["message"]["messageId"]
    answer(run, json.dumps(p))
"#,
    );
    let message = Message::user_text("hi\nthere")
        .with_message_id(interzone_protocol::vocab::MessageId::new("m-1").unwrap());
    let mut given = turn("t-1", message, vec![Message::user_text("before")]);
    // Line breaks in the attached metadata must not end the line.
    let attached = VerbatimJson::parse("{\"a\":\r\n1}").unwrap();
    given.task.metadata = Some(Metadata::new(attached).unwrap());
    given.attempt = 2;
    let (run, output) = program.start_run(given);
    let answer = program.finish(run).await.unwrap();
    let params: serde_json::Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(params["taskId"], "t-1");
    assert_eq!(params["contextId"], "c");
    assert_eq!(params["attempt"], 2);
    assert_eq!(params["metadata"]["a"], 1);
    assert_eq!(params["messageId"], "m-1");
    assert_eq!(params["message"]["parts"][0]["content"], "hi\nthere");
    assert_eq!(params["history"][0]["parts"][0]["content"], "before");
    let env: Vec<&str> = params["env"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|name| name.as_str())
        .collect();
    assert!(env.contains(&"PATH"), "{env:?}");
    assert!(!env.contains(&PRIVATE_ENV_VAR), "{PRIVATE_ENV_VAR} leaked");
    let lines = output.lines.lock().unwrap().clone();
    assert_eq!(lines, ["[thinking]", "Hello, ", "you"]);
    assert_eq!(output.artifacts.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn every_final_state_becomes_an_outcome() {
    let program = TestProgram::new(
        r#"
for run in runs():
    word = text_of(run)
    if word == "text":
        notify("agent.text", taskId=run["params"]["taskId"], delta="all of it")
        send({"id": run["id"], "result": {"state": "completed", "direct": True}})
    elif word == "error":
        send({"id": run["id"], "error": {"code": 7, "message": "no \x1b luck"}})
    elif word == "bare":
        send({"id": run["id"], "result": {"state": "failed"}})
    else:
        answer(run, "why", word)
"#,
    );
    let start = |state: &str| {
        let given = turn(state, Message::user_text(state), Vec::new());
        program.start_run(given).0
    };
    let message = || Message::agent_text("why");
    for (state, expected) in [
        ("input_required", TurnOutcome::InputRequired(message())),
        ("auth_required", TurnOutcome::AuthRequired(message())),
        ("rejected", TurnOutcome::Rejected(Some(message()))),
        ("failed", TurnOutcome::Failed(message())),
    ] {
        assert_eq!(start(state).await.unwrap().unwrap(), expected);
    }
    let text = TurnOutcome::Completed {
        message: Some(Message::agent_text("all of it")),
        direct: true,
    };
    assert_eq!(start("text").await.unwrap().unwrap(), text);
    assert!(matches!(
        start("bare").await.unwrap(),
        Ok(TurnOutcome::Failed(_))
    ));
    let error = start("error").await.unwrap().unwrap_err();
    assert_eq!(error.code, "agent_error");
    assert!(!error.detail.contains('\x1b'), "{}", error.detail);
}

#[tokio::test]
async fn one_process_serves_concurrent_runs() {
    let program = TestProgram::new(
        r#"
waiting = []
for run in runs():
    waiting.append(run)
    if len(waiting) == 16:
        for run in reversed(waiting):
            answer(run, text_of(run) + " by " + str(os.getpid()))
"#,
    );
    let ask = |number: u32| {
        let text = number.to_string();
        program
            .start_run(turn(&text, Message::user_text(&text), Vec::new()))
            .0
    };
    let runs: Vec<_> = (0..16).map(ask).collect();
    let mut pids = std::collections::BTreeSet::new();
    for (number, run) in runs.into_iter().enumerate() {
        let answer = program.finish(run).await.unwrap();
        let (text, pid) = answer.split_once(" by ").unwrap();
        assert_eq!(text, number.to_string());
        pids.insert(pid.to_owned());
    }
    assert_eq!(pids.len(), 1);
}

#[tokio::test]
async fn crashed_program_fails_its_runs_and_is_restarted() {
    let program = TestProgram::new(
        r#"
waiting = []
for run in runs():
    if text_of(run) == "fine":
        answer(run, "fine")
        continue
    waiting.append(run)
    if len(waiting) == 2:
        os._exit(3)
"#,
    );
    let (one, two) = tokio::join!(program.ask("one"), program.ask("two"));
    assert_eq!((one, two), (Err("agent_died"), Err("agent_died")));
    assert_eq!(program.ask("fine").await, Ok("fine".to_owned()));
}

#[tokio::test]
async fn answer_before_a_crash_is_delivered() {
    let program = TestProgram::new("for run in runs():\n    answer(run, 'bye')\n    os._exit(1)\n");
    for _ in 0..3 {
        program.wait_until(is_fresh).await;
        assert_eq!(program.ask("x").await, Ok("bye".to_owned()));
    }
}

#[tokio::test]
async fn canceled_run_is_notified_and_aborted() {
    let program = TestProgram::new(
        r#"
open = {}
for received in receive():
    p = received["params"]
    if received["method"] == "agent.cancel":
        request = open.pop(p["taskId"])
        if text_of(request) == "obeys":
            answer(request, "stopped", "failed")
        notify("agent.status", taskId="t-other", text="cancel " + p["taskId"])
    else:
        open[p["taskId"]] = received
        notify("agent.status", taskId=p["taskId"], text="begun")
        if text_of(received) == "end":
            answer(open.pop("t-other"), "done")
"#,
    );
    let start = |text: &str| {
        let given = turn(&format!("t-{text}"), Message::user_text(text), Vec::new());
        let stop = given.cancel_token.clone();
        let (run, output) = program.start_run(given);
        (run, output, stop)
    };
    let (other, other_output, _) = start("other");
    TestProgram::wait_for_lines(&other_output, 1).await;
    for (index, text) in ["obeys", "ignores"].into_iter().enumerate() {
        let (run, output, stop) = start(text);
        TestProgram::wait_for_lines(&output, 1).await;
        stop.cancel();
        assert_eq!(program.finish(run).await, Err("agent_stopped"));
        let lines = TestProgram::wait_for_lines(&other_output, index + 2).await;
        assert_eq!(lines[index + 1], format!("[cancel t-{text}]"));
    }
    // A run whose task is aborted is canceled too.
    let (run, output, _) = start("dropped");
    TestProgram::wait_for_lines(&output, 1).await;
    run.abort();
    let lines = TestProgram::wait_for_lines(&other_output, 4).await;
    assert_eq!(lines[3], "[cancel t-dropped]");
    let (_end, _, _) = start("end");
    assert_eq!(program.finish(other).await, Ok("done".to_owned()));
}

#[tokio::test]
async fn stuck_program_is_restarted() {
    let code = r#"
for run in runs():
    notify("agent.status", taskId=run["params"]["taskId"], text="begun")
    if text_of(run) == "hang":
        signal.pause()
    while text_of(run) == "flood":
        notify("agent.text", taskId=run["params"]["taskId"], delta="x" * 1000)
    answer(run, "fine")
"#;
    let program = TestProgram::with_options(code, |options| options.max_line_bytes = 64 * 1024);
    let given = turn("t", Message::user_text("hang"), Vec::new());
    let stop = given.cancel_token.clone();
    let (run, output) = program.start_run(given);
    TestProgram::wait_for_lines(&output, 1).await;
    stop.cancel();
    assert_eq!(program.finish(run).await, Err("agent_stopped"));
    assert_eq!(program.ask("x").await, Ok("fine".to_owned()));
    assert_eq!(program.ask("flood").await, Err("agent_protocol"));
    assert_eq!(program.ask("y").await, Ok("fine".to_owned()));
}

#[tokio::test]
async fn invalid_output_is_ignored() {
    let program = TestProgram::new(
        r#"
for run in runs():
    id = run["params"]["taskId"]
    sys.stdout.write("Loading model...\n\n{\"jsonrpc\"\n[1,2]\n\x1b[2J\n")
    sys.stdout.flush()
    sys.stdout.buffer.write(b"\xff\xfe\n")
    sys.stdout.buffer.flush()
    notify("agent.text", taskId="unknown", delta="x")
    notify("agent.dance", taskId=id)
    send({"id": 999, "result": {}})
    send({"id": "1", "result": {}})
    send({"id": None, "error": {"code": 1, "message": "m"}})
    print("complaint", file=sys.stderr, flush=True)
    send({"id": 5, "method": "give.me"})
    refused = json.loads(sys.stdin.readline())
    answer(run, "code " + str(refused["error"]["code"]))
    send({"id": run["id"], "result": "twice"})
"#,
    );
    for text in ["a", "b"] {
        assert_eq!(program.ask(text).await, Ok("code -32601".to_owned()));
    }
}

#[tokio::test]
async fn invalid_message_fails_only_its_own_run() {
    let program = TestProgram::new(
        r#"
wrong = json.load(open("wrong.json"))
first = None
for run in runs():
    if text_of(run) == "first":
        first = run
    elif text_of(run) == "last":
        answer(run, "last")
        answer(first, "first")
    else:
        line = wrong[int(text_of(run))]
        line = line.replace("ID", str(run["id"])).replace("TASK", run["params"]["taskId"])
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
"#,
    );
    let wrong = [
        r#"{"jsonrpc":"2.0","id":ID,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":ID,"result":null}"#,
        r#"{"jsonrpc":"2.0","id":ID,"result":{"state":"happy"}}"#,
        r#"{"jsonrpc":"2.0","id":ID,"result":{"state":"input_required"}}"#,
        r#"{"jsonrpc":"2.0","id":ID,"result":{"state":"completed","message":{"role":"agent","parts":[]}}}"#,
        r#"{"jsonrpc":"2.0","id":ID,"result":{"state":"completed","message":{"role":"user","parts":[{"type":"TextPart","content":"x"}]}}}"#,
        r#"{"id":ID,"result":{"state":"completed"}}"#,
        r#"{"jsonrpc":"2.0","id":ID,"result":1,"error":{"code":1,"message":"m"}}"#,
        r#"{"jsonrpc":"2.0","method":"agent.text","params":{"taskId":"TASK","delta":7}}"#,
        r#"{"jsonrpc":"2.0","method":"agent.status","params":{"taskId":"TASK"}}"#,
        r#"{"jsonrpc":"2.0","method":"agent.artifact","params":{"taskId":"TASK","artifact":{}}}"#,
        r#"{"method":"agent.text","params":{"taskId":"TASK","delta":"x"}}"#,
    ];
    let path = program.folder.path().join("wrong.json");
    std::fs::write(path, serde_json::to_string(&wrong).unwrap()).unwrap();
    let first = turn("first", Message::user_text("first"), Vec::new());
    let first = program.start_run(first).0;
    for (number, line) in wrong.iter().enumerate() {
        let failed = program.ask(&number.to_string()).await;
        assert_eq!(failed, Err("agent_protocol"), "{line}");
    }
    assert_eq!(program.ask("last").await, Ok("last".to_owned()));
    assert_eq!(program.finish(first).await, Ok("first".to_owned()));
}

#[tokio::test]
async fn endless_line_ends_the_program() {
    let code = r#"
for run in runs():
    if text_of(run) == "huge":
        while True:
            sys.stdout.write("x" * 65536)
    answer(run, "fine")
"#;
    let program = TestProgram::with_options(code, |options| options.max_line_bytes = 1 << 20);
    assert_eq!(program.ask("huge").await, Err("agent_died"));
    assert_eq!(program.ask("fine").await, Ok("fine".to_owned()));
}

#[tokio::test]
async fn large_file_is_accepted() {
    let program = TestProgram::new(
        r#"
for run in runs():
    part = {"type": "FilePart", "content": "A" * (34 << 20), "encoding": "base64"}
    artifact = {"artifactId": "a", "name": "big", "parts": [part]}
    notify("agent.artifact", taskId=run["params"]["taskId"], artifact=artifact)
    answer(run, "fine")
"#,
    );
    let (run, output) = program.start_run(turn("t", Message::user_text("x"), Vec::new()));
    assert_eq!(program.finish(run).await, Ok("fine".to_owned()));
    let artifacts = output.artifacts.lock().unwrap();
    assert_eq!(artifacts[0].parts()[0].as_text().unwrap().len(), 34 << 20);
}

#[tokio::test]
async fn program_that_does_not_read_input_is_restarted() {
    let code = r#"
for run in runs():
    first = not os.path.exists("once")
    open("once", "w").close()
    answer(run, "fine")
    if first:
        signal.pause()
"#;
    let program = TestProgram::with_options(code, |options| {
        options.write_timeout = Duration::from_millis(200);
    });
    assert_eq!(program.ask("first").await, Ok("fine".to_owned()));
    // More than fits into the pipe.
    let large = turn("t", Message::user_text("x".repeat(1 << 20)), Vec::new());
    let large = program.start_run(large).0;
    assert_eq!(program.finish(large).await, Err("agent_died"));
    assert_eq!(program.ask("fine").await, Ok("fine".to_owned()));
}

#[tokio::test]
async fn repeatedly_failing_program_is_unavailable() {
    let program = TestProgram::with_options("sys.exit(1)", |options| {
        options.max_restart_delay = Duration::from_secs(600);
        options.initial_restart_delay = Duration::from_millis(20);
        options.start_timeout = Duration::from_millis(10);
    });
    program
        .wait_until(|now| matches!(now, ProcessState::Failing(_)))
        .await;
    assert!(!program.agent.is_available());
    assert_eq!(program.ask("x").await, Err("agent_unavailable"));
}

#[tokio::test]
async fn agent_is_unavailable_while_executable_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tool");
    let write = || {
        let python = executable::resolve(&options(&["python3"], folder.path())).unwrap();
        let code = "for run in runs():\n    answer(run, 'fine')\n    if text_of(run) == 'end': os._exit(0)\n";
        let text = format!("#!{}\n{PRELUDE}\n{code}", python.display());
        // Written to another path first: a file that is open for writing cannot be executed.
        let draft = folder.path().join("draft");
        std::fs::write(&draft, text).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(&draft, mode).unwrap();
        std::fs::rename(&draft, &path).unwrap();
    };
    write();
    let given = options(&["./tool"], folder.path());
    let agent = Arc::new(CommandAgent::start(given, &CancellationToken::new()).unwrap());
    let program = TestProgram {
        agent,
        folder: tempfile::tempdir().unwrap(),
    };
    assert_eq!(program.ask("a").await, Ok("fine".to_owned()));
    std::fs::remove_file(&path).unwrap();
    assert_eq!(program.ask("end").await, Ok("fine".to_owned()));
    program
        .wait_until(|now| matches!(now, ProcessState::Failing(_)))
        .await;
    assert!(!program.agent.is_available());
    let back = program.agent.retry_after().expect("a restart is scheduled");
    assert!(back <= Duration::from_secs(60), "{back:?}");
    write();
    program
        .wait_until(|now| matches!(now, ProcessState::Running(_)))
        .await;
    assert!(program.agent.is_available());
    assert_eq!(program.agent.retry_after(), None);
}

#[test]
fn missing_program_or_directory_is_rejected_at_start() {
    let folder = tempfile::tempdir().unwrap();
    let refused =
        |command: &[&str]| executable::resolve(&options(command, folder.path())).unwrap_err();
    let error = refused(&["no-such-program-anywhere", "x"]).to_string();
    assert!(error.contains("\"no-such-program-anywhere\""), "{error}");
    assert!(matches!(refused(&[]), CommandError::Empty { .. }));
    assert!(matches!(refused(&[""]), CommandError::Empty { .. }));
    // A file that is not executable, and a directory.
    std::fs::write(folder.path().join("notes"), "x").unwrap();
    assert!(matches!(
        refused(&["./notes"]),
        CommandError::NotFound { .. }
    ));
    assert!(matches!(refused(&["./"]), CommandError::NotFound { .. }));
    let gone = options(&["python3"], Path::new("/no/such/folder"));
    let error = executable::resolve(&gone).unwrap_err();
    assert!(
        matches!(error, CommandError::NoWorkingDirectory { .. }),
        "{error}"
    );
}

#[tokio::test]
async fn shutdown_kills_all_descendants() {
    let program = TestProgram::new(
        r#"
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.mkfifo("alive")
alive = os.open("alive", os.O_RDWR)
subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL, pass_fds=[alive])
for run in runs():
    answer(run, "begun")
while True:
    signal.pause()
"#,
    );
    assert_eq!(program.ask("x").await, Ok("begun".to_owned()));
    let path = program.folder.path().join("alive");
    let mut alive = tokio::net::unix::pipe::OpenOptions::new()
        .open_receiver(path)
        .unwrap();
    program.agent.shut_down().await;
    // The pipe reaches end-of-file when neither the program nor its child has the other end open.
    let mut nothing = Vec::new();
    let ended = alive.read_to_end(&mut nothing);
    let ended = tokio::time::timeout(Duration::from_secs(10), ended).await;
    assert!(ended.is_ok(), "a process survived the shutdown");
    assert!(!program.agent.is_available());
    assert_eq!(program.ask("x").await, Err("agent_unavailable"));
}

#[tokio::test]
async fn program_that_exits_on_eof_is_not_killed() {
    let code = "for run in runs():\n    answer(run, 'x')\nopen('tidy', 'w').close()\n";
    let program =
        TestProgram::with_options(code, |options| options.exit_grace = Duration::from_secs(60));
    assert_eq!(program.ask("x").await, Ok("x".to_owned()));
    program.agent.shut_down().await;
    assert!(program.folder.path().join("tidy").exists());
}

#[test]
fn invalid_line_is_attributed_to_its_run() {
    let find_run = |line: &str| protocol::find_run(line.as_bytes());
    let task = TaskId::new("t").unwrap();
    assert_eq!(
        find_run(r#"{"params":{"taskId":"t"}}"#),
        Some(protocol::RunRef::Task(task))
    );
    assert_eq!(
        find_run(r#"{"id":4,"x":1}"#),
        Some(protocol::RunRef::Request(4))
    );
    assert_eq!(find_run(r#"{"id":"4"}"#), None);
    assert_eq!(find_run("hello"), None);
}
