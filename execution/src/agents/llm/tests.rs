//! Tests of the LLM agent against scripted providers: real connections and formats, faulty responses.

use super::*;
use crate::agents::tests::{RecordedOutput, turn};
use crate::files::{FileReader, FileRules};
use interzone_edge::Secret;
use interzone_hub::failure_code;
use interzone_protocol::vocab::AgentId;
use mock_provider::{MockProvider, ScriptedResponse};
use serde_json::Value;

mod anthropic;
mod attachments;
#[cfg(feature = "aws")]
mod bedrock;
mod files;
mod history;
mod mock_provider;
mod openai;
mod provider_errors;
mod timeouts;

const KEY: &str = "sk-very-secret";

/// Test options. Timeouts are long enough never to expire by accident.
fn options(provider: LlmProvider) -> LlmOptions {
    LlmOptions {
        system: Some("Be brief.".to_owned()),
        max_tokens: 256,
        timeout: Duration::from_secs(60),
        ..LlmOptions::new(
            AgentId::new("helper").unwrap(),
            provider,
            "tiny-1",
            FileReader::in_process(),
        )
    }
}

fn openai_options(mock: &MockProvider) -> LlmOptions {
    options(LlmProvider::OpenAi {
        base_url: mock.url("/v1"),
        key: Some(Secret::new(KEY)),
        native_files: false,
        images: true,
    })
}

fn anthropic_options(mock: &MockProvider) -> LlmOptions {
    options(LlmProvider::Anthropic {
        base_url: mock.url(""),
        key: Some(Secret::new(KEY)),
    })
}

/// Result of a turn.
struct LlmRun {
    outcome: Result<TurnOutcome, AgentError>,
    output: Arc<RecordedOutput>,
}

impl LlmRun {
    /// Returns the answer, which must equal the streamed text.
    #[track_caller]
    fn text(&self) -> String {
        let Ok(TurnOutcome::Completed {
            message: Some(message),
            ..
        }) = &self.outcome
        else {
            panic!("{:?} is no answer", self.outcome)
        };
        assert_eq!(message.text(), self.streamed());
        message.text()
    }

    /// Returns the streamed text, without status lines.
    fn streamed(&self) -> String {
        let lines = self.output.lines.lock().unwrap();
        let texts = lines.iter().filter(|line| !line.starts_with('['));
        texts.cloned().collect()
    }

    #[track_caller]
    fn metadata(&self, name: &str) -> Value {
        let Ok(TurnOutcome::Completed {
            message: Some(message),
            ..
        }) = &self.outcome
        else {
            panic!("{:?} is no answer", self.outcome)
        };
        let found = message.metadata().unwrap().get(name);
        found.unwrap_or(Value::Null)
    }

    /// Returns the error code and the text of a failure.
    #[track_caller]
    fn failure(&self) -> (String, String) {
        let Ok(TurnOutcome::Failed(message)) = &self.outcome else {
            panic!("{:?} is no failure", self.outcome)
        };
        let text = message.text();
        assert!(!text.contains(KEY) && !text.contains("tiny-1"), "{text}");
        (failure_code(message).unwrap(), text)
    }

    #[track_caller]
    fn error_code(&self) -> String {
        self.failure().0
    }
}

async fn run(options: LlmOptions, message: Message, history: Vec<Message>) -> LlmRun {
    let agent = LlmAgent::new(options).unwrap();
    let output = Arc::new(RecordedOutput::default());
    let outcome = agent.run(turn("t", message, history), output.clone()).await;
    LlmRun { outcome, output }
}

async fn ask(options: LlmOptions, text: &str) -> LlmRun {
    run(options, Message::user_text(text), Vec::new()).await
}

#[test]
fn invalid_options_are_rejected() {
    let provider = |base: &str, key: &str| LlmProvider::OpenAi {
        base_url: base.parse().unwrap(),
        key: Some(Secret::new(key)),
        native_files: false,
        images: true,
    };
    let error_of = |options: LlmOptions| LlmAgent::new(options).err().unwrap();
    let mut without_model = options(provider("https://x.example", KEY));
    without_model.model = " ".to_owned();
    assert!(matches!(error_of(without_model), LlmError::NoModel));
    let plain = options(provider("http://x.example", KEY));
    assert!(matches!(error_of(plain), LlmError::Unencrypted { .. }));
    let broken = error_of(options(provider("https://x.example", "sk-very-secret\n")));
    assert!(matches!(broken, LlmError::InvalidKey));
    assert!(!format!("{broken} {broken:?}").contains(KEY));
}
