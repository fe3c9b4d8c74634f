//! Watches of tasks and streams over SSE. A watch reconnects and resumes by itself: each event is delivered
//! exactly once.

use crate::client::Client;
use crate::error::Error;
use futures_util::stream::{self, Stream};
use interzone_jsonrpc::RawJson;
use interzone_protocol::Scope;
use interzone_protocol::acp::{StreamChunk, StreamStatus, TaskObject};
use interzone_protocol::vocab::{Artifact, Message};
use watch_loop::WatchLoop;

mod event;
mod text_cursor;
mod watch_loop;

/// An event of a watch.
///
/// ```
/// use interzone_client::WatchEvent;
///
/// fn show(event: &WatchEvent, page: &mut String) {
///     if let WatchEvent::Text { delta, .. } = event {
///         page.push_str(delta);
///     }
/// }
/// # let mut page = String::new();
/// # show(&WatchEvent::StatusLine("reading".to_owned()), &mut page);
/// # assert!(page.is_empty());
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum WatchEvent {
    /// The task's status changed.
    StatusChange(TaskObject),
    /// A message was added to the task.
    Message(Message),
    /// An artifact was created or extended.
    Artifact(Artifact),
    /// Text was appended to the agent's answer.
    Text {
        /// The agent run; the text of a later run starts from the beginning.
        run: u64,
        /// Byte offset of the delta in the run's text.
        offset: u64,
        /// The appended text.
        delta: String,
    },
    /// The agent's status line.
    StatusLine(String),
    /// The task was completed.
    Completed(TaskObject),
    /// The task failed.
    Failed(TaskObject),
    /// A chunk of the stream.
    Chunk(StreamChunk),
    /// The stream's state changed.
    StreamState {
        /// The new status.
        status: StreamStatus,
        /// The reason.
        reason: Option<String>,
    },
    /// An unknown notification, or one with invalid params.
    Other {
        /// Its method.
        method: String,
        /// Its params as they were sent.
        params: Option<RawJson<'static>>,
    },
}

/// Watches one task until it is finished.
///
/// ```no_run
/// # async fn example(client: interzone_client::Client) -> Result<(), interzone_client::Error> {
/// let mut watch = client.watch_task("task-1", None);
/// while let Some(event) = watch.next().await {
///     tracing::info!(event = ?event?, after = ?watch.position(), "task event");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TaskWatch(WatchLoop);

/// Watches one stream until it is closed.
///
/// ```no_run
/// # async fn example(client: interzone_client::Client) -> Result<(), interzone_client::Error> {
/// use interzone_client::WatchEvent;
///
/// let mut watch = client.watch_stream("stream-1", None);
/// while let Some(event) = watch.next().await {
///     if let WatchEvent::Chunk(chunk) = event? {
///         tracing::info!(sequence = chunk.sequence, "chunk received");
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct StreamWatch(WatchLoop);

/// Implements the common methods of both watches.
macro_rules! watch {
    ($name:ident) => {
        impl $name {
            /// Returns the next event; `None` at the end. An error ends the watch; transient failures have been
            /// retried before.
            ///
            /// Cancel safe: no event is lost if the future is dropped, as in a `select!`.
            pub async fn next(&mut self) -> Option<Result<WatchEvent, Error>> {
                self.0.next().await
            }

            /// Converts the watch into a `Stream`.
            pub fn into_stream(self) -> impl Stream<Item = Result<WatchEvent, Error>> + Send {
                stream::unfold(self, |mut watch| async move {
                    let event = watch.next().await?;
                    Some((event, watch))
                })
            }

            /// Returns the sequence number of the last event, to resume with a later watch as `after`.
            pub fn position(&self) -> Option<u64> {
                self.0.position()
            }
        }
    };
}

watch!(TaskWatch);
watch!(StreamWatch);

impl Client {
    /// Watches a task, from its beginning or after an event. Connects when the first event is polled.
    pub fn watch_task(&self, id: &str, after: Option<u64>) -> TaskWatch {
        TaskWatch(WatchLoop::new(self, "tasks", id, Scope::TasksRead, after))
    }

    /// Watches a stream, from its beginning or after an event. Connects when the first event is polled.
    pub fn watch_stream(&self, id: &str, after: Option<u64>) -> StreamWatch {
        StreamWatch(WatchLoop::new(
            self,
            "streams",
            id,
            Scope::StreamsRead,
            after,
        ))
    }
}
