//! The demo agent, word by word.

use super::*;
use crate::agents::tests::{Kept, turn};
use crate::files::{FileReader, InputRules, Kind, samples};
use base64::Engine;
use interzone_protocol::vocab::{Json, Part, PartKind};

fn demo() -> DemoAgent {
    let demo = DemoAgent::new(AgentId::new("demo").unwrap(), 4);
    demo.with_reader(FileReader::in_process(), InputRules::default())
}

async fn told(message: Message, history: Vec<Message>) -> (Outcome, Arc<Kept>) {
    let kept = Arc::new(Kept::default());
    let outcome = demo().run(turn("t", message, history), kept.clone()).await;
    (outcome.unwrap(), kept)
}

fn words(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Completed { message, .. } => message.as_ref().unwrap().text(),
        other => panic!("{other:?} is no answer"),
    }
}

async fn said(text: &str) -> String {
    words(&told(Message::user_text(text), Vec::new()).await.0)
}

#[tokio::test]
async fn it_says_what_it_can_do() {
    assert_eq!(said("help").await, HELP);
    assert_eq!(said("  HeLp me").await, HELP);
    let polite = said("make coffee").await;
    assert!(polite.starts_with("I do not know \"make\"."), "{polite}");
    assert!(polite.contains("echo TEXT"), "{polite}");
    let long = said(&"x".repeat(10_000)).await;
    assert!(long.len() < 1_000, "what it does not know is cut");
    assert!(said(" ").await.contains("echo TEXT"));
}

#[tokio::test]
async fn it_echoes() {
    assert_eq!(said("echo  Hello,\n world").await, "Hello,\n world");
    assert_eq!(said("ECHO 1").await, "1");
    assert!(said("echo").await.contains("echo hello"));
}

#[tokio::test(start_paused = true)]
async fn it_streams_words_that_make_the_answer() {
    let (outcome, kept) = told(Message::user_text("stream 14"), Vec::new()).await;
    let pieces = kept.lines.lock().unwrap().clone();
    assert_eq!(pieces.len(), 14);
    assert_eq!(words(&outcome), pieces.concat());
    assert_eq!(words(&outcome).split(' ').count(), 14);
    for wrong in ["stream", "stream 0", "stream -1", "stream 1001", "stream x"] {
        assert!(said(wrong).await.contains("stream 20"), "{wrong}");
    }
}

#[tokio::test(start_paused = true)]
async fn it_waits_and_says_so() {
    let (outcome, kept) = told(Message::user_text("wait 2.5"), Vec::new()).await;
    assert_eq!(words(&outcome), "I waited 2.5 s.");
    let lines = kept.lines.lock().unwrap().clone();
    assert_eq!(
        lines,
        [
            "[waiting, 3 s left]",
            "[waiting, 2 s left]",
            "[waiting, 1 s left]"
        ]
    );
    for wrong in ["wait", "wait -1", "wait 541", "wait NaN", "wait inf"] {
        let said = said(wrong).await;
        assert!(said.contains("wait 5. 540 is the most"), "{wrong}: {said}");
    }
    let (_, kept) = told(Message::user_text("wait 540"), Vec::new()).await;
    assert_eq!(kept.lines.lock().unwrap().len(), 60);
}

#[tokio::test(start_paused = true)]
async fn it_stops_at_once() {
    for command in ["wait 540", "stream 1000"] {
        let turn = turn("t", Message::user_text(command), Vec::new());
        let stop = turn.stop.clone();
        stop.cancel();
        let began = tokio::time::Instant::now();
        let error = demo().run(turn, Arc::new(Kept::default())).await;
        assert_eq!(error.unwrap_err().code, "agent_stopped");
        assert_eq!(began.elapsed(), Duration::ZERO, "{command}");
    }
    let full = Arc::new(Kept {
        patience: Some(3),
        ..Kept::default()
    });
    let turn = turn("t", Message::user_text("stream 1000"), Vec::new());
    let error = demo().run(turn, full).await.unwrap_err();
    assert_eq!(error.code, "agent_stopped");
}

#[tokio::test]
async fn it_asks_and_takes_the_answer() {
    let asked = Message::user_text("ask Which colour?");
    let (outcome, _) = told(asked.clone(), Vec::new()).await;
    let Outcome::InputRequired(question) = outcome else {
        panic!("{outcome:?} is no question");
    };
    assert_eq!(question.text(), "Which colour?");
    let history = vec![asked, question];
    let (outcome, _) = told(Message::user_text("fail blue"), history).await;
    assert_eq!(words(&outcome), "You answered: fail blue");
}

#[tokio::test]
async fn it_fails_when_told_to() {
    let (outcome, _) = told(Message::user_text("fail no paper"), Vec::new()).await;
    assert_eq!(outcome, Outcome::Failed(Message::agent_text("no paper")));
}

#[tokio::test]
async fn it_makes_real_files() {
    let (outcome, kept) = told(Message::user_text("file CSV a,b"), Vec::new()).await;
    assert_eq!(words(&outcome), "Here is demo-a-b.csv (32 bytes).");
    let artifacts = kept.artifacts.lock().unwrap().clone();
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
        assert!(said(wrong).await.contains("csv, json, txt or md"));
    }
}

#[tokio::test]
async fn it_names_what_was_attached() {
    let text = base64::engine::general_purpose::STANDARD.encode("first line\nsecond");
    let parts = vec![
        Part::file(text)
            .with_filename("no\ntes.txt")
            .with_media_type("text/plain; charset=utf-8"),
        Part::file("AAECAwQ=").with_media_type("image/png"),
        Part::data(Json::parse(r#"{"a":1}"#).unwrap()),
        Part::new(PartKind::Audio).with_size(7),
        Part::file("!!!").with_media_type("text/plain"),
    ];
    let message = Message::new(Role::User, parts).unwrap();
    let (outcome, _) = told(message, Vec::new()).await;
    let expected = r#"Thank you, this arrived:
- file "no tes.txt" (text/plain; charset=utf-8, 17 bytes): "first line"
- file (image/png, 5 bytes)
- data (application/json, 7 bytes): "{"a":1}"
- audio (audio/*, 7 bytes)
- file (text/plain, 2 bytes)"#;
    assert_eq!(words(&outcome), expected);
}

#[tokio::test]
async fn it_quotes_documents_too() {
    let encode = |bytes: &[u8]| base64::engine::general_purpose::STANDARD.encode(bytes);
    let of = |kind: Kind, bytes: &[u8]| {
        let name = format!("a.{}", kind.extension());
        Part::file(encode(bytes))
            .with_filename(name)
            .with_media_type(kind.media_type())
    };
    let japanese = encoding_rs::SHIFT_JIS.encode("売上の表\r\n1").0;
    let parts = vec![
        of(Kind::Pdf, &samples::pdf(&["Annual report"])),
        of(Kind::Xlsx, &samples::xlsx()),
        of(Kind::Csv, &japanese),
    ];
    let message = Message::new(Role::User, parts).unwrap();
    let said = words(&told(message, Vec::new()).await.0);
    for line in [": \"Annual report\"", ": \"made\"", ": \"売上の表\""] {
        assert!(said.contains(line), "{line} is not in {said}");
    }
}
