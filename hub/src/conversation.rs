//! Conversations: the workspace thread and user that a task originates from, and feedback on it. Contains only
//! identifiers; the messages belong to the task.

use interzone_protocol::vocab::{AgentId, TaskId, TaskState, Timestamp};

/// Maximum bytes of an identifier.
const MAX_NAME_BYTES: usize = 128;

/// A thread of a workspace. The team is empty if the caller names none.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadKey {
    /// The workspace (team).
    pub team: String,
    /// The channel.
    pub channel: String,
    /// The thread.
    pub thread: String,
}

/// Thread and user that a task originates from.
///
/// ```
/// use interzone_hub::ThreadOrigin;
///
/// assert!(ThreadOrigin::new("T1", "C1", "1700000000.000100", "U1").is_some());
/// assert!(ThreadOrigin::new("T1", "C1", "", "U1").is_none(), "a thread is required");
/// assert!(ThreadOrigin::new("T1", "C\n1", "1.2", "U1").is_none());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadOrigin {
    /// The thread.
    pub thread: ThreadKey,
    /// The user; empty if the caller named none.
    pub user: String,
}

impl ThreadOrigin {
    /// Creates an origin from the caller's values. Returns `None` if there is no thread, or if a value is not a valid
    /// identifier: such a task is processed normally, but belongs to no conversation.
    pub fn new(team: &str, channel: &str, thread: &str, user: &str) -> Option<Self> {
        let is_valid =
            |name: &str| name.len() <= MAX_NAME_BYTES && !name.chars().any(char::is_control);
        let all_valid = [team, channel, thread, user].into_iter().all(is_valid);
        let has_thread = !channel.is_empty() && !thread.is_empty();
        (all_valid && has_thread).then(|| Self {
            thread: ThreadKey {
                team: team.to_owned(),
                channel: channel.to_owned(),
                thread: thread.to_owned(),
            },
            user: user.to_owned(),
        })
    }
}

/// A task that was created in a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadTask {
    /// Ordinal; later tasks have higher numbers.
    pub number: u64,
    /// The task.
    pub task_id: TaskId,
    /// Thread and user.
    pub origin: ThreadOrigin,
    /// Creation time.
    pub created_at: Timestamp,
    /// The task's state.
    pub state: TaskState,
    /// The task's agent.
    pub agent: AgentId,
}

/// Summary of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversation {
    /// The last task.
    pub last_task: ThreadTask,
    /// Number of tasks, counted up to [`Conversation::MAX_COUNTED_TASKS`].
    pub task_count: u64,
    /// Number of positive ratings of these tasks.
    pub positive_feedback: u64,
    /// Number of negative ratings of these tasks.
    pub negative_feedback: u64,
}

impl Conversation {
    /// Maximum number of tasks of a thread that are counted, together with their feedback.
    pub const MAX_COUNTED_TASKS: u64 = 100;
}

/// Filter of thread tasks or conversations, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConversationQuery {
    /// User who asked; `None` for any.
    pub user: Option<String>,
    /// Only tasks with a lower ordinal; `None` starts with the newest.
    pub before: Option<u64>,
    /// Maximum number of results.
    pub limit: usize,
}

/// A user's feedback on a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feedback {
    /// The task.
    pub task_id: TaskId,
    /// The user who gave it.
    pub author: String,
    /// True if positive.
    pub is_positive: bool,
    /// Optional comment.
    pub comment: Option<String>,
    /// Time of the feedback.
    pub given_at: Timestamp,
}

impl Feedback {
    /// Maximum bytes of the author's name.
    pub const MAX_AUTHOR_BYTES: usize = MAX_NAME_BYTES;
    /// Maximum bytes of the comment.
    pub const MAX_COMMENT_BYTES: usize = 4_096;
    /// Maximum number of authors per task.
    pub const MAX_PER_TASK: usize = 200;
}
