//! When things happen: at once, too late, or not any more.

use super::openai::{delta, finish, plain};
use super::*;
use tokio::sync::Notify;

const SHORT: Duration = Duration::from_millis(60);

#[tokio::test]
async fn every_word_is_passed_on_before_the_next_is_sent() {
    let words = ["one ", "two ", "three"];
    let signs: Vec<Arc<Notify>> = words.iter().map(|_| Arc::new(Notify::new())).collect();
    let play = words
        .iter()
        .zip(&signs)
        .fold(Play::events(), |play, (word, sign)| {
            play.event(&delta(word)).wait(sign)
        });
    let stage = Stage::new(vec![play.event(&finish("stop"))]).await;
    let agent = LlmAgent::new(openai_at(&stage)).unwrap();
    let kept = Arc::new(Kept::default());
    let given = turn("t", Message::user_text("Count."), Vec::new());
    let output = kept.clone();
    let run = tokio::spawn(async move { agent.run(given, output).await });
    for (count, sign) in (1..).zip(&signs) {
        while kept.lines.lock().unwrap().len() < count {
            tokio::task::yield_now().await;
        }
        assert_eq!(*kept.lines.lock().unwrap(), words[..count]);
        sign.notify_one();
    }
    assert!(matches!(run.await.unwrap(), Ok(Outcome::Completed { .. })));
}

#[tokio::test]
async fn a_model_that_does_not_begin_is_not_waited_for() {
    for play in [
        // Not even headers.
        Play::mute(),
        Play::events().hang(),
        // Only signs of life of the connection.
        Play::events().send(": ping\n\n").hang(),
    ] {
        let stage = Stage::new(vec![play, plain(&["Hi."])]).await;
        let mut options = openai_at(&stage);
        options.first_token_timeout = SHORT;
        assert_eq!(ask(options, "Hi").await.word(), "bedrock_timeout");
        assert_eq!(stage.asked().len(), 1);
        stage.left().await;
    }
}

#[tokio::test]
async fn a_model_that_falls_silent_is_not_waited_for() {
    let stage = Stage::new(vec![Play::events().event(&delta("Well,")).hang()]).await;
    let mut options = openai_at(&stage);
    options.idle_timeout = SHORT;
    let ran = ask(options, "Hi").await;
    assert_eq!(ran.word(), "bedrock_timeout");
    assert_eq!(ran.streamed(), "Well,");
    stage.left().await;
}

#[tokio::test]
async fn silence_after_the_answer_does_not_undo_it() {
    let play = Play::events()
        .event(&delta("Yes."))
        .event(&finish("stop"))
        .hang();
    let stage = Stage::new(vec![play]).await;
    let mut options = openai_at(&stage);
    options.idle_timeout = SHORT;
    assert_eq!(ask(options, "Is it?").await.text(), "Yes.");
}

#[tokio::test]
async fn a_turn_has_an_end() {
    let stage = Stage::new(vec![Play::events().event(&delta("Well,")).hang()]).await;
    let mut options = openai_at(&stage);
    options.timeout = SHORT;
    assert_eq!(ask(options, "Hi").await.word(), "bedrock_timeout");
    stage.left().await;
}

#[tokio::test]
async fn who_is_told_to_stop_hangs_up() {
    for play in [
        Play::mute(),
        Play::events().hang(),
        Play::events().event(&delta("Well,")).hang(),
    ] {
        let stage = Stage::new(vec![play]).await;
        let agent = LlmAgent::new(openai_at(&stage)).unwrap();
        let given = turn("t", Message::user_text("Hi"), Vec::new());
        let stop = given.stop.clone();
        let run = tokio::spawn(async move { agent.run(given, Arc::new(Kept::default())).await });
        stage.heard().await;
        stop.cancel();
        assert_eq!(run.await.unwrap().unwrap_err().code, "agent_stopped");
        stage.left().await;
    }
}

#[tokio::test]
async fn who_waits_to_try_again_stops_too() {
    let busy = Play::status(429, &[("retry-after", "30")], "{}");
    let stage = Stage::new(vec![busy, plain(&["Hi."])]).await;
    let agent = LlmAgent::new(openai_at(&stage)).unwrap();
    let given = turn("t", Message::user_text("Hi"), Vec::new());
    let stop = given.stop.clone();
    let run = tokio::spawn(async move { agent.run(given, Arc::new(Kept::default())).await });
    stage.heard().await;
    stop.cancel();
    assert_eq!(run.await.unwrap().unwrap_err().code, "agent_stopped");
}

#[tokio::test]
async fn what_nobody_takes_is_not_asked_for_any_longer() {
    let stage = Stage::new(vec![plain(&["one ", "two "]).hang()]).await;
    let agent = LlmAgent::new(openai_at(&stage)).unwrap();
    let kept = Arc::new(Kept {
        patience: Some(1),
        ..Kept::default()
    });
    let given = turn("t", Message::user_text("Hi"), Vec::new());
    let error = agent.run(given, kept).await.unwrap_err();
    assert_eq!(error.code, "agent_stopped");
    stage.left().await;
}
