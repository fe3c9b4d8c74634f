//! The command agent with real programs, good ones and bad ones.

use super::*;
use crate::agents::tests::{Kept, turn};
use interzone_protocol::vocab::{Json, Metadata, TaskId};
use std::path::Path;
use tokio::io::AsyncReadExt;
use tokio::task::JoinHandle;

/// Something in our own environment that no program needs.
const OURS: &str = "CARGO_MANIFEST_DIR";

/// What every program begins with: how to speak, and how to hear.
const PRELUDE: &str = r#"
import json, os, sys, time, threading, subprocess, signal
def say(message):
    message["jsonrpc"] = "2.0"
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()
def tell(method, **params):
    say({"method": method, "params": params})
def message(text):
    return {"role": "agent", "parts": [{"type": "TextPart", "content": text}]}
def answer(request, text, state="completed"):
    say({"id": request["id"], "result": {"state": state, "message": message(text)}})
def words(request):
    return request["params"]["message"]["parts"][0]["content"]
def hear():
    for line in sys.stdin:
        yield json.loads(line)
def runs():
    return (heard for heard in hear() if heard["method"] == "agent.run")
"#;

struct Program {
    agent: Arc<CommandAgent>,
    folder: tempfile::TempDir,
}

impl Program {
    fn new(code: &str) -> Self {
        Self::with(code, |_| {})
    }

    fn with(code: &str, change: impl FnOnce(&mut CommandOptions)) -> Self {
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

    fn begin(&self, given: Turn) -> (JoinHandle<Result<Outcome, AgentError>>, Arc<Kept>) {
        let kept = Arc::new(Kept::default());
        let (agent, output) = (self.agent.clone(), kept.clone());
        let run = tokio::spawn(async move { agent.run(given, output).await });
        (run, kept)
    }

    async fn ask(&self, text: &str) -> Result<String, &'static str> {
        let given = turn(&format!("t-{text}"), Message::user_text(text), Vec::new());
        self.finish(self.begin(given).0).await
    }

    async fn finish(
        &self,
        run: JoinHandle<Result<Outcome, AgentError>>,
    ) -> Result<String, &'static str> {
        match run.await.unwrap() {
            Ok(Outcome::Completed { message, .. }) => Ok(message.unwrap().text()),
            Ok(other) => panic!("{other:?} is no answer"),
            Err(error) => Err(error.code),
        }
    }

    async fn is(&self, wanted: fn(&Presence) -> bool) {
        let mut presence = self.agent.presence.clone();
        presence.wait_for(wanted).await.unwrap();
    }

    /// Waits until a run has put out so many lines.
    async fn lines(kept: &Kept, count: usize) -> Vec<String> {
        loop {
            let lines = kept.lines.lock().unwrap().clone();
            if lines.len() >= count {
                return lines;
            }
            tokio::task::yield_now().await;
        }
    }
}

/// It runs, and has not answered anything yet.
fn fresh(now: &Presence) -> bool {
    matches!(now, Presence::Up(live) if live.is_open() && !live.has_answered())
}

#[expect(
    clippy::disallowed_methods,
    reason = "the test finds Python as the one who runs it does"
)]
fn environment() -> BTreeMap<String, String> {
    assert!(std::env::var(OURS).is_ok(), "cargo sets it");
    let inherited = INHERITED.iter();
    inherited
        .filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)))
        .collect()
}

fn options(command: &[&str], folder: &Path) -> CommandOptions {
    let command = command.iter().map(|word| (*word).to_owned()).collect();
    CommandOptions {
        cwd: Some(folder.to_owned()),
        env: environment(),
        cancel_grace: Duration::from_millis(300),
        exit_grace: Duration::from_millis(300),
        restart_first: Duration::from_millis(1),
        restart_longest: Duration::from_millis(5),
        ..CommandOptions::new(AgentId::new("program").unwrap(), command)
    }
}

#[tokio::test]
async fn a_good_program_is_given_all_and_heard_out() {
    let program = Program::new(
        r#"
for run in runs():
    p = run["params"]
    tell("agent.status", taskId=p["taskId"], text="thinking")
    tell("agent.text", taskId=p["taskId"], delta="Hello, ")
    tell("agent.text", taskId=p["taskId"], delta="you")
    tell("agent.artifact", taskId=p["taskId"], artifact={"artifactId": "a", "name": "n", "parts": []})
    p["env"] = sorted(os.environ)
    p["messageId"] = p["message"]["messageId"]
    answer(run, json.dumps(p))
"#,
    );
    let asked = Message::user_text("hi\nthere")
        .with_message_id(interzone_protocol::vocab::MessageId::new("m-1").unwrap());
    let mut given = turn("t-1", asked, vec![Message::user_text("before")]);
    // What the caller attached has line ends in it, which must not end the line.
    let attached = Json::parse("{\"a\":\r\n1}").unwrap();
    given.task.metadata = Some(Metadata::new(attached).unwrap());
    given.attempt = 2;
    let (run, kept) = program.begin(given);
    let seen = program.finish(run).await.unwrap();
    let seen: serde_json::Value = serde_json::from_str(&seen).unwrap();
    assert_eq!(seen["taskId"], "t-1");
    assert_eq!(seen["contextId"], "c");
    assert_eq!(seen["attempt"], 2);
    assert_eq!(seen["metadata"]["a"], 1);
    assert_eq!(seen["messageId"], "m-1");
    assert_eq!(seen["message"]["parts"][0]["content"], "hi\nthere");
    assert_eq!(seen["history"][0]["parts"][0]["content"], "before");
    let env: Vec<&str> = seen["env"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|name| name.as_str())
        .collect();
    assert!(env.contains(&"PATH"), "{env:?}");
    assert!(!env.contains(&OURS), "{OURS} leaked");
    let lines = kept.lines.lock().unwrap().clone();
    assert_eq!(lines, ["[thinking]", "Hello, ", "you"]);
    assert_eq!(kept.artifacts.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn each_way_to_end_is_understood() {
    let program = Program::new(
        r#"
for run in runs():
    word = words(run)
    if word == "text":
        tell("agent.text", taskId=run["params"]["taskId"], delta="all of it")
        say({"id": run["id"], "result": {"state": "completed", "direct": True}})
    elif word == "error":
        say({"id": run["id"], "error": {"code": 7, "message": "no \x1b luck"}})
    elif word == "bare":
        say({"id": run["id"], "result": {"state": "failed"}})
    else:
        answer(run, "why", word)
"#,
    );
    let ask = |word: &str| {
        let given = turn(word, Message::user_text(word), Vec::new());
        program.begin(given).0
    };
    let why = || Message::agent_text("why");
    for (word, expected) in [
        ("input_required", Outcome::InputRequired(why())),
        ("auth_required", Outcome::AuthRequired(why())),
        ("rejected", Outcome::Rejected(Some(why()))),
        ("failed", Outcome::Failed(why())),
    ] {
        assert_eq!(ask(word).await.unwrap().unwrap(), expected);
    }
    let text = Outcome::Completed {
        message: Some(Message::agent_text("all of it")),
        direct: true,
    };
    assert_eq!(ask("text").await.unwrap().unwrap(), text);
    assert!(matches!(ask("bare").await.unwrap(), Ok(Outcome::Failed(_))));
    let error = ask("error").await.unwrap().unwrap_err();
    assert_eq!(error.code, "agent_error");
    assert!(!error.detail.contains('\x1b'), "{}", error.detail);
}

#[tokio::test]
async fn one_process_serves_many_runs_at_once() {
    let program = Program::new(
        r#"
waiting = []
for run in runs():
    waiting.append(run)
    if len(waiting) == 16:
        for run in reversed(waiting):
            answer(run, words(run) + " by " + str(os.getpid()))
"#,
    );
    let ask = |number: u32| {
        let text = number.to_string();
        program
            .begin(turn(&text, Message::user_text(&text), Vec::new()))
            .0
    };
    let asked: Vec<_> = (0..16).map(ask).collect();
    let mut by = std::collections::BTreeSet::new();
    for (number, run) in asked.into_iter().enumerate() {
        let said = program.finish(run).await.unwrap();
        let (word, who) = said.split_once(" by ").unwrap();
        assert_eq!(word, number.to_string());
        by.insert(who.to_owned());
    }
    assert_eq!(by.len(), 1);
}

#[tokio::test]
async fn a_program_that_dies_fails_its_runs_and_is_started_again() {
    let program = Program::new(
        r#"
waiting = []
for run in runs():
    if words(run) == "fine":
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
async fn last_words_of_a_dying_program_count() {
    let program = Program::new("for run in runs():\n    answer(run, 'bye')\n    os._exit(1)\n");
    for _ in 0..3 {
        program.is(fresh).await;
        assert_eq!(program.ask("x").await, Ok("bye".to_owned()));
    }
}

#[tokio::test]
async fn a_run_that_is_called_off_is_told_and_cut_off() {
    let program = Program::new(
        r#"
open = {}
for heard in hear():
    p = heard["params"]
    if heard["method"] == "agent.cancel":
        request = open.pop(p["taskId"])
        if words(request) == "obeys":
            answer(request, "stopped", "failed")
        tell("agent.status", taskId="t-other", text="cancel " + p["taskId"])
    else:
        open[p["taskId"]] = heard
        tell("agent.status", taskId=p["taskId"], text="begun")
        if words(heard) == "end":
            answer(open.pop("t-other"), "done")
"#,
    );
    let begin = |text: &str| {
        let given = turn(&format!("t-{text}"), Message::user_text(text), Vec::new());
        let stop = given.stop.clone();
        let (run, kept) = program.begin(given);
        (run, kept, stop)
    };
    let (other, heard, _) = begin("other");
    Program::lines(&heard, 1).await;
    for (place, word) in ["obeys", "ignores"].into_iter().enumerate() {
        let (run, kept, stop) = begin(word);
        Program::lines(&kept, 1).await;
        stop.cancel();
        assert_eq!(program.finish(run).await, Err("agent_stopped"));
        let lines = Program::lines(&heard, place + 2).await;
        assert_eq!(lines[place + 1], format!("[cancel t-{word}]"));
    }
    // One that is cut off from outside is called off too.
    let (run, kept, _) = begin("dropped");
    Program::lines(&kept, 1).await;
    run.abort();
    let lines = Program::lines(&heard, 4).await;
    assert_eq!(lines[3], "[cancel t-dropped]");
    let (_end, _, _) = begin("end");
    assert_eq!(program.finish(other).await, Ok("done".to_owned()));
}

#[tokio::test]
async fn a_program_that_is_stuck_is_started_again() {
    let code = r#"
for run in runs():
    tell("agent.status", taskId=run["params"]["taskId"], text="begun")
    if words(run) == "hang":
        signal.pause()
    while words(run) == "flood":
        tell("agent.text", taskId=run["params"]["taskId"], delta="x" * 1000)
    answer(run, "fine")
"#;
    let program = Program::with(code, |options| options.line_bytes = 64 * 1024);
    let given = turn("t", Message::user_text("hang"), Vec::new());
    let stop = given.stop.clone();
    let (run, kept) = program.begin(given);
    Program::lines(&kept, 1).await;
    stop.cancel();
    assert_eq!(program.finish(run).await, Err("agent_stopped"));
    assert_eq!(program.ask("x").await, Ok("fine".to_owned()));
    assert_eq!(program.ask("flood").await, Err("agent_protocol"));
    assert_eq!(program.ask("y").await, Ok("fine".to_owned()));
}

#[tokio::test]
async fn rubbish_is_passed_over() {
    let program = Program::new(
        r#"
for run in runs():
    id = run["params"]["taskId"]
    sys.stdout.write("Loading model...\n\n{\"jsonrpc\"\n[1,2]\n\x1b[2J\n")
    sys.stdout.flush()
    sys.stdout.buffer.write(b"\xff\xfe\n")
    sys.stdout.buffer.flush()
    tell("agent.text", taskId="nobody", delta="x")
    tell("agent.dance", taskId=id)
    say({"id": 999, "result": {}})
    say({"id": "1", "result": {}})
    say({"id": None, "error": {"code": 1, "message": "m"}})
    print("complaint", file=sys.stderr, flush=True)
    say({"id": 5, "method": "give.me"})
    refused = json.loads(sys.stdin.readline())
    answer(run, "code " + str(refused["error"]["code"]))
    say({"id": run["id"], "result": "twice"})
"#,
    );
    for text in ["a", "b"] {
        assert_eq!(program.ask(text).await, Ok("code -32601".to_owned()));
    }
}

#[tokio::test]
async fn wrong_shapes_fail_the_run_they_belong_to_and_no_other() {
    let program = Program::new(
        r#"
wrong = json.load(open("wrong.json"))
first = None
for run in runs():
    if words(run) == "first":
        first = run
    elif words(run) == "last":
        answer(run, "last")
        answer(first, "first")
    else:
        line = wrong[int(words(run))]
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
    let first = program.begin(first).0;
    for (number, line) in wrong.iter().enumerate() {
        let failed = program.ask(&number.to_string()).await;
        assert_eq!(failed, Err("agent_protocol"), "{line}");
    }
    assert_eq!(program.ask("last").await, Ok("last".to_owned()));
    assert_eq!(program.finish(first).await, Ok("first".to_owned()));
}

#[tokio::test]
async fn a_line_without_end_is_the_end_of_the_program() {
    let code = r#"
for run in runs():
    if words(run) == "huge":
        while True:
            sys.stdout.write("x" * 65536)
    answer(run, "fine")
"#;
    let program = Program::with(code, |options| options.line_bytes = 1 << 20);
    assert_eq!(program.ask("huge").await, Err("agent_died"));
    assert_eq!(program.ask("fine").await, Ok("fine".to_owned()));
}

#[tokio::test]
async fn a_large_file_passes() {
    let program = Program::new(
        r#"
for run in runs():
    part = {"type": "FilePart", "content": "A" * (34 << 20), "encoding": "base64"}
    artifact = {"artifactId": "a", "name": "big", "parts": [part]}
    tell("agent.artifact", taskId=run["params"]["taskId"], artifact=artifact)
    answer(run, "fine")
"#,
    );
    let (run, kept) = program.begin(turn("t", Message::user_text("x"), Vec::new()));
    assert_eq!(program.finish(run).await, Ok("fine".to_owned()));
    let artifacts = kept.artifacts.lock().unwrap();
    assert_eq!(artifacts[0].parts()[0].as_text().unwrap().len(), 34 << 20);
}

#[tokio::test]
async fn a_program_that_does_not_read_is_killed_and_started_again() {
    let code = r#"
for run in runs():
    first = not os.path.exists("once")
    open("once", "w").close()
    answer(run, "fine")
    if first:
        signal.pause()
"#;
    let program = Program::with(code, |options| {
        options.write_patience = Duration::from_millis(200);
    });
    assert_eq!(program.ask("first").await, Ok("fine".to_owned()));
    // More than fits into the pipe.
    let large = turn("t", Message::user_text("x".repeat(1 << 20)), Vec::new());
    let large = program.begin(large).0;
    assert_eq!(program.finish(large).await, Err("agent_died"));
    assert_eq!(program.ask("fine").await, Ok("fine".to_owned()));
}

#[tokio::test]
async fn a_program_that_keeps_ending_is_not_available() {
    let program = Program::with("sys.exit(1)", |options| {
        options.restart_longest = Duration::from_secs(600);
        options.restart_first = Duration::from_millis(20);
        options.start_patience = Duration::from_millis(10);
    });
    program.is(|now| matches!(now, Presence::Troubled(_))).await;
    assert!(!program.agent.is_available());
    assert_eq!(program.ask("x").await, Err("agent_unavailable"));
}

#[tokio::test]
async fn a_program_that_is_gone_makes_the_agent_unavailable_until_it_returns() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tool");
    let write = || {
        let python = program::find(&options(&["python3"], folder.path())).unwrap();
        let code = "for run in runs():\n    answer(run, 'fine')\n    if words(run) == 'end': os._exit(0)\n";
        let text = format!("#!{}\n{PRELUDE}\n{code}", python.display());
        // Written elsewhere first: a file that is open for writing cannot be run.
        let draft = folder.path().join("draft");
        std::fs::write(&draft, text).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(&draft, mode).unwrap();
        std::fs::rename(&draft, &path).unwrap();
    };
    write();
    let given = options(&["./tool"], folder.path());
    let agent = Arc::new(CommandAgent::start(given, &CancellationToken::new()).unwrap());
    let program = Program {
        agent,
        folder: tempfile::tempdir().unwrap(),
    };
    assert_eq!(program.ask("a").await, Ok("fine".to_owned()));
    std::fs::remove_file(&path).unwrap();
    assert_eq!(program.ask("end").await, Ok("fine".to_owned()));
    program.is(|now| matches!(now, Presence::Troubled(_))).await;
    assert!(!program.agent.is_available());
    let back = program.agent.back_in().expect("it is tried again");
    assert!(back <= Duration::from_secs(60), "{back:?}");
    write();
    program.is(|now| matches!(now, Presence::Up(_))).await;
    assert!(program.agent.is_available());
    assert_eq!(program.agent.back_in(), None);
}

#[test]
fn what_cannot_be_run_is_named_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |command: &[&str]| program::find(&options(command, folder.path())).unwrap_err();
    let why = refused(&["no-such-program-anywhere", "x"]).to_string();
    assert!(why.contains("\"no-such-program-anywhere\""), "{why}");
    assert!(matches!(refused(&[]), CommandError::Empty { .. }));
    assert!(matches!(refused(&[""]), CommandError::Empty { .. }));
    // A file that is not meant to be run, and a folder.
    std::fs::write(folder.path().join("notes"), "x").unwrap();
    assert!(matches!(
        refused(&["./notes"]),
        CommandError::NotFound { .. }
    ));
    assert!(matches!(refused(&["./"]), CommandError::NotFound { .. }));
    let gone = options(&["python3"], Path::new("/no/such/folder"));
    let why = program::find(&gone).unwrap_err();
    assert!(matches!(why, CommandError::NoFolder { .. }), "{why}");
}

#[tokio::test]
async fn nothing_outlives_a_shutdown() {
    let program = Program::new(
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
    // The pipe ends when nobody holds its other end any more: neither the program nor its child.
    let mut nothing = Vec::new();
    let ended = alive.read_to_end(&mut nothing);
    let ended = tokio::time::timeout(Duration::from_secs(10), ended).await;
    assert!(ended.is_ok(), "something lives on");
    assert!(!program.agent.is_available());
    assert_eq!(program.ask("x").await, Err("agent_unavailable"));
}

#[tokio::test]
async fn a_program_that_ends_when_its_input_does_is_not_killed() {
    let code = "for run in runs():\n    answer(run, 'x')\nopen('tidy', 'w').close()\n";
    let program = Program::with(code, |options| options.exit_grace = Duration::from_secs(60));
    assert_eq!(program.ask("x").await, Ok("x".to_owned()));
    program.agent.shut_down().await;
    assert!(program.folder.path().join("tidy").exists());
}

#[test]
fn a_line_that_cannot_be_understood_still_tells_whose_it_is() {
    let whose = |line: &str| wire::whose(line.as_bytes());
    let task = TaskId::new("t").unwrap();
    assert_eq!(
        whose(r#"{"params":{"taskId":"t"}}"#),
        Some(wire::Of::Task(task))
    );
    assert_eq!(whose(r#"{"id":4,"x":1}"#), Some(wire::Of::Request(4)));
    assert_eq!(whose(r#"{"id":"4"}"#), None);
    assert_eq!(whose("hello"), None);
}
