//! Watching a task or a stream as it happens. A watch reconnects by itself and goes on where it
//! was: nothing is told twice, nothing is left out.

use crate::client::Client;
use crate::error::Error;
use feed::Feed;
use futures_util::stream::{self, Stream};
use interzone_jsonrpc::RawJson;
use interzone_protocol::acp::{Scope, StreamChunk, StreamStatus, TaskObject};
use interzone_protocol::vocab::{Artifact, Message};

mod event;
mod feed;
pub(crate) mod sse;
mod text;

/// What a watch saw.
///
/// ```
/// use interzone_client::Watched;
///
/// fn show(event: &Watched, page: &mut String) {
///     if let Watched::Text { delta, .. } = event {
///         page.push_str(delta);
///     }
/// }
/// # let mut page = String::new();
/// # show(&Watched::StatusLine("reading".to_owned()), &mut page);
/// # assert!(page.is_empty());
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Watched {
    /// The task's status changed.
    StatusChange(TaskObject),
    /// A message was added to the task.
    Message(Message),
    /// An artifact was made, or more of it.
    Artifact(Artifact),
    /// The agent's answer grew.
    Text {
        /// Which run of the agent: a later one begins its text anew.
        run: u64,
        /// Where the piece begins, in bytes from the start of the run's text.
        offset: u64,
        /// The piece.
        delta: String,
    },
    /// What the agent says it is doing.
    StatusLine(String),
    /// The task was completed.
    Completed(TaskObject),
    /// The task failed.
    Failed(TaskObject),
    /// Something was said on the stream.
    Chunk(StreamChunk),
    /// The stream's state changed.
    StreamState {
        /// What it is now.
        status: StreamStatus,
        /// Why.
        reason: Option<String>,
    },
    /// A notification that we do not know, or whose params we cannot read.
    Other {
        /// Its method.
        method: String,
        /// Its params as they were sent.
        params: Option<RawJson<'static>>,
    },
}

/// Watches one task until it is over.
///
/// ```no_run
/// # async fn example(client: interzone_client::Client) -> Result<(), interzone_client::Error> {
/// let mut watch = client.watch_task("task-1", None);
/// while let Some(event) = watch.next().await {
///     tracing::info!(event = ?event?, after = ?watch.position(), "news");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TaskWatch(Feed);

/// Watches one stream until it is closed.
///
/// ```no_run
/// # async fn example(client: interzone_client::Client) -> Result<(), interzone_client::Error> {
/// use interzone_client::Watched;
///
/// let mut watch = client.watch_stream("stream-1", None);
/// while let Some(event) = watch.next().await {
///     if let Watched::Chunk(chunk) = event? {
///         tracing::info!(sequence = chunk.sequence, "somebody said something");
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct StreamWatch(Feed);

/// The methods are the same; only what they watch differs.
macro_rules! watch {
    ($name:ident) => {
        impl $name {
            /// The next event, or nothing once all is over. An error ends the watch; what broke on
            /// the way has been mended by then as far as it can be.
            ///
            /// Giving up on the future, as in a `select!`, loses nothing.
            pub async fn next(&mut self) -> Option<Result<Watched, Error>> {
                self.0.next().await
            }

            /// The watch as a stream, for those who combine streams.
            pub fn into_stream(self) -> impl Stream<Item = Result<Watched, Error>> + Send {
                stream::unfold(self, |mut watch| async move {
                    let event = watch.next().await?;
                    Some((event, watch))
                })
            }

            /// The sequence number of the last event: what to give to a later watch as `after`.
            pub fn position(&self) -> Option<u64> {
                self.0.position()
            }
        }
    };
}

watch!(TaskWatch);
watch!(StreamWatch);

impl Client {
    /// Watches a task, from its beginning or after an event that was seen. It connects when the
    /// first event is asked for.
    pub fn watch_task(&self, id: &str, after: Option<u64>) -> TaskWatch {
        TaskWatch(Feed::new(self, "tasks", id, Scope::TasksRead, after))
    }

    /// Watches a stream, from its beginning or after an event that was seen. It connects when the
    /// first event is asked for.
    pub fn watch_stream(&self, id: &str, after: Option<u64>) -> StreamWatch {
        StreamWatch(Feed::new(self, "streams", id, Scope::StreamsRead, after))
    }
}
