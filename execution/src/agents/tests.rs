//! What the tests of all agents share: a turn to give, and a place to put things.

use async_trait::async_trait;
use interzone_hub::{HubError, Output, Task, Turn};
use interzone_protocol::vocab::{
    AgentId, Artifact, ContextId, Message, PrincipalId, Priority, TaskId, TaskState, Timestamp,
};
use std::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// Keeps what is put out.
#[derive(Default)]
pub(crate) struct Kept {
    pub(crate) lines: Mutex<Vec<String>>,
    pub(crate) artifacts: Mutex<Vec<Artifact>>,
    /// Says stop after this many lines.
    pub(crate) patience: Option<usize>,
}

impl Kept {
    fn keep(&self, line: String) -> Result<(), HubError> {
        let mut lines = self.lines.lock().unwrap();
        if self.patience.is_some_and(|most| lines.len() >= most) {
            return Err(HubError::Stopped);
        }
        lines.push(line);
        Ok(())
    }
}

#[async_trait]
impl Output for Kept {
    async fn text(&self, delta: &str) -> Result<(), HubError> {
        self.keep(delta.to_owned())
    }

    async fn status(&self, text: &str) -> Result<(), HubError> {
        self.keep(format!("[{text}]"))
    }

    async fn artifact(&self, artifact: Artifact, append: bool, last: bool) -> Result<(), HubError> {
        assert!(!append && last, "these agents hand over whole artifacts");
        self.artifacts.lock().unwrap().push(artifact);
        Ok(())
    }
}

pub(crate) fn turn(id: &str, message: Message, history: Vec<Message>) -> Turn {
    let at = Timestamp::from_millis(0);
    Turn {
        task: Task {
            id: TaskId::new(id).unwrap(),
            context_id: ContextId::new("c").unwrap(),
            owner: PrincipalId::new("alice").unwrap(),
            agent: AgentId::new("demo").unwrap(),
            state: TaskState::Working,
            priority: Priority::Normal,
            metadata: None,
            status: None,
            created_at: at,
            updated_at: at,
            finished_at: None,
            revision: 1,
            seq: 1,
            messages: 1,
            artifacts: 0,
            pushes: 0,
        },
        message,
        history,
        attempt: 1,
        stop: CancellationToken::new(),
    }
}
