//! An `execute_task` call, and the cancellation of its task.

use super::WaitMode;
use super::execution::Execution;
use crate::client::Client;
use crate::client::call::PreparedCall;
use crate::error::Error;
use crate::retry::Idempotency;
use interzone_jsonrpc::RequestId;
use interzone_protocol::zone::{ErrorReason, TaskIdParams};
use std::time::Duration;
use tokio::time::timeout;

/// Time limit for cancelling a task.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(10);

/// An encoded `execute_task` call with its wait options.
#[derive(Clone)]
pub(super) struct ExecuteCall {
    pub(super) client: Client,
    pub(super) prepared: PreparedCall,
    pub(super) id: RequestId<'static>,
    pub(super) wait_mode: WaitMode,
    pub(super) poll_timeout: Option<Duration>,
    pub(super) cancel_on_drop: bool,
}

impl ExecuteCall {
    /// Returns true if the call can be sent twice.
    pub(super) fn is_idempotent(&self) -> bool {
        self.prepared.idempotency == Idempotency::Idempotent
    }
}

/// Cancels a task. If its id is unknown, the call is sent again with the same request id, which does not start a
/// second task; the first event contains the task id.
pub(super) async fn cancel_call(
    call: &ExecuteCall,
    task_id: Option<String>,
) -> Result<bool, Error> {
    let work = async {
        let task_id = match task_id {
            Some(task_id) => task_id,
            None if call.is_idempotent() => match find_task_id(call).await? {
                Some(task_id) => task_id,
                None => return Ok(false),
            },
            None => return Ok(false),
        };
        match call.client.cancel_task(&TaskIdParams { task_id }).await {
            Ok(_) => Ok(true),
            Err(error) if error.reason() == ErrorReason::TaskFinished => Ok(false),
            Err(error) => Err(error),
        }
    };
    let timed_out = |_| {
        Err(Error::TimedOut {
            after: CANCEL_TIMEOUT,
        })
    };
    timeout(CANCEL_TIMEOUT, work)
        .await
        .unwrap_or_else(timed_out)
}

/// Returns the task id of a call; `None` if the task is finished.
async fn find_task_id(call: &ExecuteCall) -> Result<Option<String>, Error> {
    let mut repeated = Execution::new(ExecuteCall {
        wait_mode: WaitMode::Stream,
        cancel_on_drop: false,
        ..call.clone()
    });
    while repeated.task_id.is_none() && repeated.next().await.is_some() {}
    let is_running = repeated.outcome.is_none();
    Ok(repeated.task_id.take().filter(|_| is_running))
}
