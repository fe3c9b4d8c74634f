//! What the zones say to each other, typed: `execute_task` with its waiting, and what belongs to it.
//! How an answer is read is in `read`, how one is waited for in `execution`; what a user is told is
//! not decided here.

mod call;
pub(crate) mod execution;
pub(crate) mod read;

use crate::batch::{Batch, Handle};
use crate::client::call::Outgoing;
use crate::client::{Client, scopes_of, written};
use crate::error::Error;
use crate::methods::plain;
use crate::retry::Safety;
use execution::Execution;
use interzone_jsonrpc::{MethodName, Request, RequestId};
use interzone_protocol::acp::AgentCard;
use interzone_protocol::zone::{ExecuteResult, ExecuteTaskParams, Method};
use serde::Serialize;
use std::fmt;
use std::future::IntoFuture;
use std::time::Duration;
use uuid::Uuid;

/// How to wait for what was asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Waiting {
    /// The call itself tells what goes on, and at last what came of it.
    Events,
    /// The call answers when it is done, or that it will take longer; then the peer is asked again and
    /// again.
    #[default]
    Polls,
    /// Not at all: an answer that it will take longer is the answer.
    Not,
}

/// An `execute_task` in the making.
///
/// Its id is a fresh UUID unless one is given, and all tries of it carry the same: a peer that has
/// begun it once does not begin it again. Awaiting it gives the result; [`ExecuteTask::start`] gives
/// something to watch.
///
/// ```no_run
/// # async fn example(client: interzone_client::Client) -> Result<(), interzone_client::Error> {
/// use interzone_client::{ExecuteEvent, Waiting};
/// use interzone_protocol::zone::ExecuteTaskParams;
///
/// let params = ExecuteTaskParams::new("C1", "Summarise the quarter", "capability-1");
/// let result = client.execute_task(&params).await?;
/// tracing::info!(length = ?result.response_text.map(|text| text.len()), "an answer");
///
/// let mut run = client
///     .execute_task(&params)
///     .waiting(Waiting::Events)
///     .cancel_on_drop(true)
///     .start()?;
/// let mut page = String::new();
/// while let Some(event) = run.next().await {
///     if let ExecuteEvent::Text(delta) = event {
///         page.push_str(&delta);
///     }
/// }
/// let result = run.outcome().await?;
/// # let _ = result;
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is asked until it is started or awaited"]
pub struct ExecuteTask {
    client: Client,
    params: ExecuteTaskParams,
    id: String,
    waiting: Waiting,
    budget: Option<Duration>,
    cancel_on_drop: bool,
}

impl ExecuteTask {
    /// Gives the call this id. Tries and later calls with the same UUID and the same params are the
    /// same task to the peer; of ids that are not UUIDs it promises nothing, so a call that may have
    /// arrived is then not repeated.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }

    /// Says how to wait.
    pub fn waiting(mut self, waiting: Waiting) -> Self {
        self.waiting = waiting;
        self
    }

    /// Says how long to go on asking once the peer has said that it will take longer. Without it, that
    /// is what is left of two minutes since the call began, and half a minute at least.
    pub fn budget(mut self, budget: Duration) -> Self {
        self.budget = Some(budget);
        self
    }

    /// Has the task called off when nobody waits for it any more.
    pub fn cancel_on_drop(mut self, cancel: bool) -> Self {
        self.cancel_on_drop = cancel;
        self
    }

    /// Gives something to watch. The peer is called when the first event or the outcome is asked for.
    ///
    /// # Errors
    /// The params have no JSON form.
    pub fn start(self) -> Result<Execution, Error> {
        let name = MethodName::new(Method::ExecuteTask.name()).map_err(|_| Error::Method)?;
        let request = Request::new(self.id.as_str(), name).with_params(written(&self.params)?);
        let mut body = Vec::new();
        request.write_to(&mut body);
        let repeatable = Uuid::try_parse(&self.id).is_ok();
        let outgoing = Outgoing {
            body: body.into(),
            scopes: scopes_of([Method::ExecuteTask.name()]),
            // What the peer does once, however often it is asked, may be asked again.
            safety: if repeatable {
                Safety::Read
            } else {
                Safety::Write
            },
            limit: self.client.limit(Method::ExecuteTask.name()),
        };
        let client = match thread(&self.params) {
            Some(thread) if !self.client.has_conversation() => {
                self.client.with_conversation(&thread)
            }
            _ => self.client,
        };
        Ok(Execution::new(call::Call {
            client,
            outgoing,
            id: RequestId::from(self.id),
            waiting: self.waiting,
            budget: self.budget,
            cancel_on_drop: self.cancel_on_drop,
        }))
    }
}

/// What was asked in one thread is one conversation.
fn thread(params: &ExecuteTaskParams) -> Option<String> {
    let team = params.team_id.as_deref().unwrap_or_default();
    let thread = params.thread_ts.as_deref()?;
    Some(format!("{team}/{}/{thread}", params.channel))
}

impl IntoFuture for ExecuteTask {
    type Output = Result<ExecuteResult, Error>;
    type IntoFuture = futures_util::future::BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.start()?.outcome().await })
    }
}

impl fmt::Debug for ExecuteTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecuteTask")
            .field("id", &self.id)
            .field("waiting", &self.waiting)
            .finish_non_exhaustive()
    }
}

/// No params, in the form that every peer takes.
#[derive(Serialize)]
struct Nothing {}

impl Client {
    /// Has something done by an agent of a zone (`execute_task`), and waits for it as chosen.
    pub fn execute_task(&self, params: &ExecuteTaskParams) -> ExecuteTask {
        ExecuteTask {
            client: self.clone(),
            params: params.clone(),
            // It begins with the time, so that what keeps such ids in order grows at its end.
            id: Uuid::now_v7().to_string(),
            waiting: Waiting::default(),
            budget: None,
            cancel_on_drop: false,
        }
    }

    /// Asks who is there (`get_agent_card`).
    ///
    /// # Errors
    /// The call failed or was refused, as [`Error`] tells.
    pub async fn get_agent_card(&self) -> Result<AgentCard, Error> {
        let name = Method::GetAgentCard.name();
        self.call(name, &Nothing {}, plain).await
    }
}

impl Batch {
    /// Asks who is there (`get_agent_card`).
    pub fn get_agent_card(&mut self) -> Handle<AgentCard> {
        self.add(Method::GetAgentCard.name(), &Nothing {}, plain)
    }
}
