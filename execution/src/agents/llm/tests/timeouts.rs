//! Streaming, timeouts and cancellation.

use super::openai::{finish_chunk, text_delta, text_response};
use super::*;
use tokio::sync::Notify;

const SHORT_TIMEOUT: Duration = Duration::from_millis(60);

#[tokio::test]
async fn every_delta_is_passed_on_immediately() {
    let deltas = ["one ", "two ", "three"];
    let signals: Vec<Arc<Notify>> = deltas.iter().map(|_| Arc::new(Notify::new())).collect();
    let response = deltas
        .iter()
        .zip(&signals)
        .fold(ScriptedResponse::events(), |response, (word, sign)| {
            response.event(&text_delta(word)).wait_for(sign)
        });
    let mock = MockProvider::new(vec![response.event(&finish_chunk("stop"))]).await;
    let agent = LlmAgent::new(openai_options(&mock)).unwrap();
    let recorded = Arc::new(RecordedOutput::default());
    let given = turn("t", Message::user_text("Count."), Vec::new());
    let output = recorded.clone();
    let run = tokio::spawn(async move { agent.run(given, output).await });
    for (count, sign) in (1..).zip(&signals) {
        while recorded.lines.lock().unwrap().len() < count {
            tokio::task::yield_now().await;
        }
        assert_eq!(*recorded.lines.lock().unwrap(), deltas[..count]);
        sign.notify_one();
    }
    assert!(matches!(
        run.await.unwrap(),
        Ok(TurnOutcome::Completed { .. })
    ));
}

#[tokio::test]
async fn missing_first_token_times_out() {
    for response in [
        // Not even headers.
        ScriptedResponse::no_response(),
        ScriptedResponse::events().hang(),
        // Only keep-alive comments.
        ScriptedResponse::events().send(": ping\n\n").hang(),
    ] {
        let mock = MockProvider::new(vec![response, text_response(&["Hi."])]).await;
        let mut options = openai_options(&mock);
        options.first_token_timeout = SHORT_TIMEOUT;
        assert_eq!(ask(options, "Hi").await.error_code(), "bedrock_timeout");
        assert_eq!(mock.requests().len(), 1);
        mock.wait_for_disconnect().await;
    }
}

#[tokio::test]
async fn stalled_stream_times_out() {
    let mock = MockProvider::new(vec![
        ScriptedResponse::events()
            .event(&text_delta("Well,"))
            .hang(),
    ])
    .await;
    let mut options = openai_options(&mock);
    options.idle_timeout = SHORT_TIMEOUT;
    let result = ask(options, "Hi").await;
    assert_eq!(result.error_code(), "bedrock_timeout");
    assert_eq!(result.streamed(), "Well,");
    mock.wait_for_disconnect().await;
}

#[tokio::test]
async fn stall_after_a_complete_answer_is_ignored() {
    let response = ScriptedResponse::events()
        .event(&text_delta("Yes."))
        .event(&finish_chunk("stop"))
        .hang();
    let mock = MockProvider::new(vec![response]).await;
    let mut options = openai_options(&mock);
    options.idle_timeout = SHORT_TIMEOUT;
    assert_eq!(ask(options, "Is it?").await.text(), "Yes.");
}

#[tokio::test]
async fn turn_time_limit_is_enforced() {
    let mock = MockProvider::new(vec![
        ScriptedResponse::events()
            .event(&text_delta("Well,"))
            .hang(),
    ])
    .await;
    let mut options = openai_options(&mock);
    options.timeout = SHORT_TIMEOUT;
    assert_eq!(ask(options, "Hi").await.error_code(), "bedrock_timeout");
    mock.wait_for_disconnect().await;
}

#[tokio::test]
async fn canceled_run_closes_the_connection() {
    for response in [
        ScriptedResponse::no_response(),
        ScriptedResponse::events().hang(),
        ScriptedResponse::events()
            .event(&text_delta("Well,"))
            .hang(),
    ] {
        let mock = MockProvider::new(vec![response]).await;
        let agent = LlmAgent::new(openai_options(&mock)).unwrap();
        let given = turn("t", Message::user_text("Hi"), Vec::new());
        let stop = given.cancel_token.clone();
        let run =
            tokio::spawn(
                async move { agent.run(given, Arc::new(RecordedOutput::default())).await },
            );
        mock.wait_for_request().await;
        stop.cancel();
        assert_eq!(run.await.unwrap().unwrap_err().code, "agent_stopped");
        mock.wait_for_disconnect().await;
    }
}

#[tokio::test]
async fn cancel_interrupts_the_retry_delay() {
    let throttled = ScriptedResponse::status(429, &[("retry-after", "30")], "{}");
    let mock = MockProvider::new(vec![throttled, text_response(&["Hi."])]).await;
    let agent = LlmAgent::new(openai_options(&mock)).unwrap();
    let given = turn("t", Message::user_text("Hi"), Vec::new());
    let stop = given.cancel_token.clone();
    let run =
        tokio::spawn(async move { agent.run(given, Arc::new(RecordedOutput::default())).await });
    mock.wait_for_request().await;
    stop.cancel();
    assert_eq!(run.await.unwrap().unwrap_err().code, "agent_stopped");
}

#[tokio::test]
async fn rejected_output_closes_the_connection() {
    let mock = MockProvider::new(vec![text_response(&["one ", "two "]).hang()]).await;
    let agent = LlmAgent::new(openai_options(&mock)).unwrap();
    let output = Arc::new(RecordedOutput {
        max_lines: Some(1),
        ..RecordedOutput::default()
    });
    let given = turn("t", Message::user_text("Hi"), Vec::new());
    let error = agent.run(given, output).await.unwrap_err();
    assert_eq!(error.code, "agent_stopped");
    mock.wait_for_disconnect().await;
}
