//! The llm agent against providers that follow a script: real connections, real formats, bad manners.

use super::*;
use crate::agents::tests::{Kept, turn};
use crate::files::{FileReader, FileRules};
use interzone_edge::Secret;
use interzone_hub::failure_word;
use interzone_protocol::vocab::AgentId;
use serde_json::Value;
use stage::{Play, Stage};

mod anthropic;
mod attachments;
#[cfg(feature = "aws")]
mod bedrock;
mod files;
mod history;
mod openai;
mod stage;
mod time;
mod trouble;

const KEY: &str = "sk-very-secret";

/// Options for tests: whatever must not happen by itself takes too long to happen.
fn options(provider: Provider) -> LlmOptions {
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

fn openai_at(stage: &Stage) -> LlmOptions {
    options(Provider::OpenAi {
        base_url: stage.url("/v1"),
        key: Some(Secret::new(KEY)),
        native_files: false,
        images: true,
    })
}

fn anthropic_at(stage: &Stage) -> LlmOptions {
    options(Provider::Anthropic {
        base_url: stage.url(""),
        key: Some(Secret::new(KEY)),
    })
}

/// What came of a turn.
struct Ran {
    outcome: Result<Outcome, AgentError>,
    kept: Arc<Kept>,
}

impl Ran {
    /// The answer, which is also what was streamed.
    #[track_caller]
    fn text(&self) -> String {
        let Ok(Outcome::Completed {
            message: Some(message),
            ..
        }) = &self.outcome
        else {
            panic!("{:?} is no answer", self.outcome)
        };
        assert_eq!(message.text(), self.streamed());
        message.text()
    }

    /// What was streamed, without what was said about it.
    fn streamed(&self) -> String {
        let lines = self.kept.lines.lock().unwrap();
        let texts = lines.iter().filter(|line| !line.starts_with('['));
        texts.cloned().collect()
    }

    #[track_caller]
    fn metadata(&self, name: &str) -> Value {
        let Ok(Outcome::Completed {
            message: Some(message),
            ..
        }) = &self.outcome
        else {
            panic!("{:?} is no answer", self.outcome)
        };
        let found = message.metadata().unwrap().get(name);
        found.unwrap_or(Value::Null)
    }

    /// The word and the sentence of a failure.
    #[track_caller]
    fn failure(&self) -> (String, String) {
        let Ok(Outcome::Failed(message)) = &self.outcome else {
            panic!("{:?} is no failure", self.outcome)
        };
        let text = message.text();
        assert!(!text.contains(KEY) && !text.contains("tiny-1"), "{text}");
        (failure_word(message).unwrap(), text)
    }

    #[track_caller]
    fn word(&self) -> String {
        self.failure().0
    }
}

async fn run(options: LlmOptions, message: Message, before: Vec<Message>) -> Ran {
    let agent = LlmAgent::new(options).unwrap();
    let kept = Arc::new(Kept::default());
    let outcome = agent.run(turn("t", message, before), kept.clone()).await;
    Ran { outcome, kept }
}

async fn ask(options: LlmOptions, text: &str) -> Ran {
    run(options, Message::user_text(text), Vec::new()).await
}

#[test]
fn what_cannot_work_is_said_before_it_is_tried() {
    let provider = |base: &str, key: &str| Provider::OpenAi {
        base_url: base.parse().unwrap(),
        key: Some(Secret::new(key)),
        native_files: false,
        images: true,
    };
    let refused = |options: LlmOptions| LlmAgent::new(options).err().unwrap();
    let mut nameless = options(provider("https://x.example", KEY));
    nameless.model = " ".to_owned();
    assert!(matches!(refused(nameless), LlmError::NoModel));
    let plain = options(provider("http://x.example", KEY));
    assert!(matches!(refused(plain), LlmError::Plain { .. }));
    let broken = refused(options(provider("https://x.example", "sk-very-secret\n")));
    assert!(matches!(broken, LlmError::Key));
    assert!(!format!("{broken} {broken:?}").contains(KEY));
}
