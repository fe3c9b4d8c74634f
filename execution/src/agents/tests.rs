//! Test helpers shared by all agents: a turn, and an output that records.

use async_trait::async_trait;
use interzone_hub::{HubError, Task, Turn, TurnOutput};
use interzone_protocol::vocab::{
    AgentId, Artifact, ContextId, Message, PrincipalId, Priority, TaskId, TaskState, Timestamp,
};
use std::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// Output that records what is written.
#[derive(Default)]
pub(crate) struct RecordedOutput {
    pub(crate) lines: Mutex<Vec<String>>,
    pub(crate) artifacts: Mutex<Vec<Artifact>>,
    /// Number of lines after which it returns `Stopped`.
    pub(crate) max_lines: Option<usize>,
}

impl RecordedOutput {
    fn record(&self, line: String) -> Result<(), HubError> {
        let mut lines = self.lines.lock().unwrap();
        if self.max_lines.is_some_and(|most| lines.len() >= most) {
            return Err(HubError::Stopped);
        }
        lines.push(line);
        Ok(())
    }
}

#[async_trait]
impl TurnOutput for RecordedOutput {
    async fn text(&self, delta: &str) -> Result<(), HubError> {
        self.record(delta.to_owned())
    }

    async fn status(&self, text: &str) -> Result<(), HubError> {
        self.record(format!("[{text}]"))
    }

    async fn artifact(&self, artifact: Artifact, append: bool, last: bool) -> Result<(), HubError> {
        assert!(!append && last, "these agents write complete artifacts");
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
            status_message: None,
            created_at: at,
            status_at: at,
            updated_at: at,
            finished_at: None,
            revision: 1,
            seq: 1,
            generation: 0,
            is_direct: false,
            message_count: 1,
            artifact_count: 0,
            push_count: 0,
        },
        message,
        history,
        attempt: 1,
        cancel_token: CancellationToken::new(),
    }
}
