//! Talks: in which thread of a workspace a task was asked for and by whom, and what people think of what
//! came of it. What was said is the task's; here are only names.

use interzone_protocol::vocab::{AgentId, TaskId, TaskState, Timestamp};

/// The most bytes of a name.
const LONGEST: usize = 128;

/// A thread of a workspace. A caller that names no workspace has one without a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Thread {
    /// The workspace.
    pub team: String,
    /// The channel.
    pub channel: String,
    /// The thread.
    pub thread: String,
}

/// Where a task was asked for, and by whom.
///
/// ```
/// use interzone_hub::Asking;
///
/// assert!(Asking::new("T1", "C1", "1700000000.000100", "U1").is_some());
/// assert!(Asking::new("T1", "C1", "", "U1").is_none(), "no thread, no talk");
/// assert!(Asking::new("T1", "C\n1", "1.2", "U1").is_none());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asking {
    /// The thread.
    pub thread: Thread,
    /// Who asked; empty if the caller did not say.
    pub user: String,
}

impl Asking {
    /// From what a caller says. Nothing if there is no thread, or if what is said can be no name: such a
    /// task is done like any other, and is part of no talk.
    pub fn new(team: &str, channel: &str, thread: &str, user: &str) -> Option<Self> {
        let fits = |name: &str| name.len() <= LONGEST && !name.chars().any(char::is_control);
        let all_fit = [team, channel, thread, user].into_iter().all(fits);
        let named = !channel.is_empty() && !thread.is_empty();
        (all_fit && named).then(|| Self {
            thread: Thread {
                team: team.to_owned(),
                channel: channel.to_owned(),
                thread: thread.to_owned(),
            },
            user: user.to_owned(),
        })
    }
}

/// A task that was asked for in a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// A later one has a higher number.
    pub number: u64,
    /// The task.
    pub task_id: TaskId,
    /// Where, and by whom.
    pub asking: Asking,
    /// When.
    pub at: Timestamp,
    /// Where the task stands.
    pub state: TaskState,
    /// Who does it.
    pub agent: AgentId,
}

/// A thread, as a list of them shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversation {
    /// The last question.
    pub last: Question,
    /// How many there were; counted up to [`Conversation::COUNTED`].
    pub questions: u64,
    /// How many say that an answer was of use, among so many latest questions.
    pub good: u64,
    /// How many say that it was not.
    pub bad: u64,
}

impl Conversation {
    /// How many questions of a thread are counted, and looked at for what people think.
    pub const COUNTED: u64 = 100;
}

/// Which questions or conversations to list: the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TalkQuery {
    /// Asked by this one; none means anybody.
    pub user: Option<String>,
    /// With a number below this one; none begins with the newest.
    pub before: Option<u64>,
    /// At most this many.
    pub limit: usize,
}

/// What somebody thinks of what came of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feedback {
    /// The task.
    pub task_id: TaskId,
    /// Who says so.
    pub who: String,
    /// Whether it was of use.
    pub good: bool,
    /// What else they say.
    pub comment: Option<String>,
    /// When they said it.
    pub at: Timestamp,
}

impl Feedback {
    /// The most bytes of a name of somebody who says what they think.
    pub const LONGEST_NAME: usize = LONGEST;
    /// The most bytes of what they say beside.
    pub const LONGEST_COMMENT: usize = 4_096;
    /// The most people who may say what they think of one task.
    pub const MOST: usize = 200;
}
