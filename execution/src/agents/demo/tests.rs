//! Tests of the demo agent's commands.

use super::*;
use crate::agents::tests::{RecordedOutput, turn};
use crate::files::{FileKind, FileReader, InputRules, test_fixtures};
use base64::Engine;
use interzone_protocol::vocab::{Part, PartKind, Role, VerbatimJson};

fn demo() -> DemoAgent {
    let demo = DemoAgent::new(AgentId::new("demo").unwrap(), 4);
    demo.with_reader(FileReader::in_process(), InputRules::default())
}

async fn run_demo(message: Message, history: Vec<Message>) -> (TurnOutcome, Arc<RecordedOutput>) {
    let output = Arc::new(RecordedOutput::default());
    let outcome = demo()
        .run(turn("t", message, history), output.clone())
        .await;
    (outcome.unwrap(), output)
}

fn answer_text(outcome: &TurnOutcome) -> String {
    match outcome {
        TurnOutcome::Completed { message, .. } => message.as_ref().unwrap().text(),
        other => panic!("{other:?} is no answer"),
    }
}

async fn ask(text: &str) -> String {
    answer_text(&run_demo(Message::user_text(text), Vec::new()).await.0)
}

#[tokio::test]
async fn help_and_unknown_commands_list_all_commands() {
    assert_eq!(ask("help").await, HELP);
    assert_eq!(ask("  HeLp me").await, HELP);
    let polite = ask("make coffee").await;
    assert!(polite.starts_with("I do not know \"make\"."), "{polite}");
    assert!(polite.contains("echo TEXT"), "{polite}");
    let long = ask(&"x".repeat(10_000)).await;
    assert!(long.len() < 1_000, "an unknown command is truncated");
    assert!(ask(" ").await.contains("echo TEXT"));
}

#[tokio::test]
async fn echo_repeats_the_text() {
    assert_eq!(ask("echo  Hello,\n world").await, "Hello,\n world");
    assert_eq!(ask("ECHO 1").await, "1");
    assert!(ask("echo").await.contains("echo hello"));
}

#[tokio::test(start_paused = true)]
async fn stream_sends_the_words_of_the_answer() {
    let (outcome, output) = run_demo(Message::user_text("stream 14"), Vec::new()).await;
    let pieces = output.lines.lock().unwrap().clone();
    assert_eq!(pieces.len(), 14);
    assert_eq!(answer_text(&outcome), pieces.concat());
    assert_eq!(answer_text(&outcome).split(' ').count(), 14);
    for wrong in ["stream", "stream 0", "stream -1", "stream 1001", "stream x"] {
        assert!(ask(wrong).await.contains("stream 20"), "{wrong}");
    }
}

#[tokio::test(start_paused = true)]
async fn wait_reports_the_remaining_time() {
    let (outcome, output) = run_demo(Message::user_text("wait 2.5"), Vec::new()).await;
    assert_eq!(answer_text(&outcome), "I waited 2.5 s.");
    let lines = output.lines.lock().unwrap().clone();
    assert_eq!(
        lines,
        [
            "[waiting, 3 s left]",
            "[waiting, 2 s left]",
            "[waiting, 1 s left]"
        ]
    );
    for wrong in ["wait", "wait -1", "wait 541", "wait NaN", "wait inf"] {
        let answer = ask(wrong).await;
        assert!(
            answer.contains("wait 5. 540 is the most"),
            "{wrong}: {answer}"
        );
    }
    let (_, output) = run_demo(Message::user_text("wait 540"), Vec::new()).await;
    assert_eq!(output.lines.lock().unwrap().len(), 60);
}

#[tokio::test(start_paused = true)]
async fn canceled_run_stops_immediately() {
    for command in ["wait 540", "stream 1000"] {
        let turn = turn("t", Message::user_text(command), Vec::new());
        let stop = turn.cancel_token.clone();
        stop.cancel();
        let began = tokio::time::Instant::now();
        let error = demo().run(turn, Arc::new(RecordedOutput::default())).await;
        assert_eq!(error.unwrap_err().code, "agent_stopped");
        assert_eq!(began.elapsed(), Duration::ZERO, "{command}");
    }
    let limited = Arc::new(RecordedOutput {
        max_lines: Some(3),
        ..RecordedOutput::default()
    });
    let turn = turn("t", Message::user_text("stream 1000"), Vec::new());
    let error = demo().run(turn, limited).await.unwrap_err();
    assert_eq!(error.code, "agent_stopped");
}

#[tokio::test]
async fn ask_requires_input_and_takes_the_answer() {
    let command = Message::user_text("ask Which colour?");
    let (outcome, _) = run_demo(command.clone(), Vec::new()).await;
    let TurnOutcome::InputRequired(question) = outcome else {
        panic!("{outcome:?} is no question");
    };
    assert_eq!(question.text(), "Which colour?");
    let history = vec![command, question];
    let (outcome, _) = run_demo(Message::user_text("fail blue"), history).await;
    assert_eq!(answer_text(&outcome), "You answered: fail blue");
}

#[tokio::test]
async fn fail_command_fails_the_task() {
    let (outcome, _) = run_demo(Message::user_text("fail no paper"), Vec::new()).await;
    assert_eq!(
        outcome,
        TurnOutcome::Failed(Message::agent_text("no paper"))
    );
}

#[tokio::test]
async fn file_command_writes_an_artifact() {
    let (outcome, output) = run_demo(Message::user_text("file CSV a,b"), Vec::new()).await;
    assert_eq!(answer_text(&outcome), "Here is demo-a-b.csv (32 bytes).");
    let artifacts = output.artifacts.lock().unwrap().clone();
    let part = &artifacts[0].parts()[0];
    let content = part.as_text().unwrap();
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(content.as_bytes())
        .unwrap();
    assert_eq!(
        bytes,
        b"a,b\r\na 1,b 1\r\na 2,b 2\r\na 3,b 3\r\n"[..].to_vec()
    );
    assert_eq!(part.kind(), PartKind::File);
    assert_eq!(part.filename(), Some("demo-a-b.csv"));
    assert_eq!(part.media_type(), Some("text/csv"));
    assert_eq!(part.size(), Some(u64::try_from(bytes.len()).unwrap()));
    for wrong in ["file", "file exe x"] {
        assert!(ask(wrong).await.contains("csv, json, txt or md"));
    }
}

#[tokio::test]
async fn attachments_are_listed_with_type_and_size() {
    let text = base64::engine::general_purpose::STANDARD.encode("first line\nsecond");
    let parts = vec![
        Part::file(text)
            .with_filename("no\ntes.txt")
            .with_media_type("text/plain; charset=utf-8"),
        Part::file("AAECAwQ=").with_media_type("image/png"),
        Part::data(VerbatimJson::parse(r#"{"a":1}"#).unwrap()),
        Part::new(PartKind::Audio).with_size(7),
        Part::file("!!!").with_media_type("text/plain"),
    ];
    let message = Message::new(Role::User, parts).unwrap();
    let (outcome, _) = run_demo(message, Vec::new()).await;
    let expected = r#"Thank you, this arrived:
- file "no tes.txt" (text/plain; charset=utf-8, 17 bytes): "first line"
- file (image/png, 5 bytes)
- data (application/json, 7 bytes): "{"a":1}"
- audio (audio/*, 7 bytes)
- file (text/plain, 2 bytes)"#;
    assert_eq!(answer_text(&outcome), expected);
}

#[tokio::test]
async fn first_lines_of_documents_are_quoted() {
    let encode = |bytes: &[u8]| base64::engine::general_purpose::STANDARD.encode(bytes);
    let file_part = |kind: FileKind, bytes: &[u8]| {
        let name = format!("a.{}", kind.extension());
        Part::file(encode(bytes))
            .with_filename(name)
            .with_media_type(kind.media_type())
    };
    let japanese = encoding_rs::SHIFT_JIS.encode("売上の表\r\n1").0;
    let parts = vec![
        file_part(FileKind::Pdf, &test_fixtures::pdf(&["Annual report"])),
        file_part(FileKind::Xlsx, &test_fixtures::xlsx()),
        file_part(FileKind::Csv, &japanese),
    ];
    let message = Message::new(Role::User, parts).unwrap();
    let answer = answer_text(&run_demo(message, Vec::new()).await.0);
    for line in [": \"Annual report\"", ": \"made\"", ": \"売上の表\""] {
        assert!(answer.contains(line), "{line} is not in {answer}");
    }
}
