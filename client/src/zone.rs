//! Typed zone methods: `execute_task` with its wait modes, and `get_agent_card`. Results are decoded in `decode`,
//! waiting is implemented in `execution`.

mod call;
pub(crate) mod decode;
pub(crate) mod execution;

use crate::batch::{Batch, BatchHandle};
use crate::client::call::PreparedCall;
use crate::client::{Client, encode_params, required_scopes};
use crate::error::Error;
use crate::methods::decode_plain;
use crate::retry::Idempotency;
use execution::Execution;
use interzone_jsonrpc::{MethodName, Request, RequestId};
use interzone_protocol::acp::AgentCard;
use interzone_protocol::zone::{ExecuteResult, ExecuteTaskParams, Method};
use serde::Serialize;
use std::fmt;
use std::future::IntoFuture;
use std::time::Duration;
use uuid::Uuid;

/// Wait mode of an `execute_task` call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitMode {
    /// The call's response is an event stream that ends with the result.
    Stream,
    /// The call returns the result, or `accepted` for a long task, whose result is then polled.
    #[default]
    Poll,
    /// No waiting: `accepted` is returned as the result.
    NoWait,
}

/// Builder of an `execute_task` call.
///
/// Its id is a new UUID unless one is given, and all attempts have the same id: a peer that has started the task
/// does not start it again. Awaiting the builder returns the result; [`ExecuteTask::start`] returns an
/// [`Execution`] with events.
///
/// ```no_run
/// # async fn example(client: interzone_client::Client) -> Result<(), interzone_client::Error> {
/// use interzone_client::{ExecuteEvent, WaitMode};
/// use interzone_protocol::zone::ExecuteTaskParams;
///
/// let params = ExecuteTaskParams::new("C1", "Summarise the quarter", "capability-1");
/// let result = client.execute_task(&params).await?;
/// tracing::info!(length = ?result.response_text.map(|text| text.len()), "result received");
///
/// let mut run = client
///     .execute_task(&params)
///     .wait_mode(WaitMode::Stream)
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
#[must_use = "the call is not sent until it is started or awaited"]
pub struct ExecuteTask {
    client: Client,
    params: ExecuteTaskParams,
    id: String,
    wait_mode: WaitMode,
    poll_timeout: Option<Duration>,
    cancel_on_drop: bool,
}

impl ExecuteTask {
    /// Sets the id of the call. Calls with the same UUID and params are the same task to the peer (idempotency
    /// key). For ids that are not UUIDs this is not guaranteed, so such a call is not retried once it may have
    /// arrived.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }

    /// Sets the wait mode.
    pub fn wait_mode(mut self, wait_mode: WaitMode) -> Self {
        self.wait_mode = wait_mode;
        self
    }

    /// Sets how long to poll after the peer answered `accepted`. The default is the remainder of two minutes
    /// since the call began, and at least 30 seconds.
    pub fn poll_timeout(mut self, poll_timeout: Duration) -> Self {
        self.poll_timeout = Some(poll_timeout);
        self
    }

    /// Cancels the task when the [`Execution`] is dropped.
    pub fn cancel_on_drop(mut self, cancel: bool) -> Self {
        self.cancel_on_drop = cancel;
        self
    }

    /// Returns an [`Execution`]. The peer is called when the first event or the outcome is polled.
    ///
    /// # Errors
    /// If the params cannot be encoded as JSON.
    pub fn start(self) -> Result<Execution, Error> {
        let name = MethodName::new(Method::ExecuteTask.name()).map_err(|_| Error::Method)?;
        let request =
            Request::new(self.id.as_str(), name).with_params(encode_params(&self.params)?);
        let mut body = Vec::new();
        request.write_to(&mut body);
        let is_idempotent = Uuid::try_parse(&self.id).is_ok();
        let call = PreparedCall {
            body: body.into(),
            scopes: required_scopes([Method::ExecuteTask.name()]),
            // The peer executes a call with the same UUID once, so it can be retried.
            idempotency: if is_idempotent {
                Idempotency::Idempotent
            } else {
                Idempotency::NotIdempotent
            },
            timeout: self.client.timeout(Method::ExecuteTask.name()),
        };
        let client = match conversation_name(&self.params) {
            Some(thread) if !self.client.has_conversation() => {
                self.client.with_conversation(&thread)
            }
            _ => self.client,
        };
        Ok(Execution::new(call::ExecuteCall {
            client,
            prepared: call,
            id: RequestId::from(self.id),
            wait_mode: self.wait_mode,
            poll_timeout: self.poll_timeout,
            cancel_on_drop: self.cancel_on_drop,
        }))
    }
}

/// Returns the conversation of the params: one per Slack thread.
fn conversation_name(params: &ExecuteTaskParams) -> Option<String> {
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
            .field("waiting", &self.wait_mode)
            .finish_non_exhaustive()
    }
}

/// Empty params as an object, which every peer accepts.
#[derive(Serialize)]
struct EmptyParams {}

impl Client {
    /// Runs a task with an agent of a zone (`execute_task`) and waits for it according to the wait mode.
    pub fn execute_task(&self, params: &ExecuteTaskParams) -> ExecuteTask {
        ExecuteTask {
            client: self.clone(),
            params: params.clone(),
            // UUIDv7 starts with the time, so that indexes over these ids grow at their end.
            id: Uuid::now_v7().to_string(),
            wait_mode: WaitMode::default(),
            poll_timeout: None,
            cancel_on_drop: false,
        }
    }

    /// Returns the agent card (`get_agent_card`).
    ///
    /// # Errors
    /// If the call failed; see [`Error`].
    pub async fn get_agent_card(&self) -> Result<AgentCard, Error> {
        let name = Method::GetAgentCard.name();
        self.call(name, &EmptyParams {}, decode_plain).await
    }
}

impl Batch {
    /// Adds a request for the agent card (`get_agent_card`).
    pub fn get_agent_card(&mut self) -> BatchHandle<AgentCard> {
        self.add(Method::GetAgentCard.name(), &EmptyParams {}, decode_plain)
    }
}
