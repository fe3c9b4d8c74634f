//! A call of `execute_task`, and how what it began is called off.

use super::Waiting;
use super::execution::Execution;
use crate::client::Client;
use crate::client::call::Outgoing;
use crate::error::Error;
use crate::retry::Safety;
use interzone_jsonrpc::RequestId;
use interzone_protocol::zone::{ErrorWord, TaskIdParams};
use std::time::Duration;
use tokio::time::timeout;

/// How long it may take to call a task off.
const CANCEL: Duration = Duration::from_secs(10);

/// A call and how it is waited for.
#[derive(Clone)]
pub(super) struct Call {
    pub(super) client: Client,
    pub(super) outgoing: Outgoing,
    pub(super) id: RequestId<'static>,
    pub(super) waiting: Waiting,
    pub(super) budget: Option<Duration>,
    pub(super) cancel_on_drop: bool,
}

impl Call {
    /// Whether asking twice is the same as asking once.
    pub(super) fn is_repeatable(&self) -> bool {
        self.outgoing.safety == Safety::Read
    }
}

/// Calls a task off. One whose id is not known yet is asked for under the call's own id, which begins
/// nothing twice; the first that the peer tells of it names it.
pub(super) async fn cancel(call: &Call, task_id: Option<String>) -> Result<bool, Error> {
    let work = async {
        let task_id = match task_id {
            Some(task_id) => task_id,
            None if call.is_repeatable() => match find(call).await? {
                Some(task_id) => task_id,
                None => return Ok(false),
            },
            None => return Ok(false),
        };
        match call.client.cancel_task(&TaskIdParams { task_id }).await {
            Ok(_) => Ok(true),
            Err(error) if error.error_word() == ErrorWord::TaskFinished => Ok(false),
            Err(error) => Err(error),
        }
    };
    let late = |_| Err(Error::TimedOut { after: CANCEL });
    timeout(CANCEL, work).await.unwrap_or_else(late)
}

/// The task of a call; nothing if it is over.
async fn find(call: &Call) -> Result<Option<String>, Error> {
    let mut again = Execution::new(Call {
        waiting: Waiting::Events,
        cancel_on_drop: false,
        ..call.clone()
    });
    while again.task_id.is_none() && again.next().await.is_some() {}
    let going = again.outcome.is_none();
    Ok(again.task_id.take().filter(|_| going))
}
