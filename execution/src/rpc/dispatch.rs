//! Which method is served by which handler: one visible match. What comes before it, in this order:
//! is the method known, has the token its scopes, do its params fit.

use super::acp::handlers;
use super::called::Called;
use super::errors::{self, Fault};
use super::{Context, Reply, pairs, params, zone};
use interzone_jsonrpc::RawJson;
use interzone_protocol::acp::Method;
use interzone_protocol::zone::Method as Zone;

/// Serves one call.
pub(super) async fn call(
    cx: &Context<'_>,
    name: &str,
    raw: Option<&RawJson<'_>>,
) -> Result<Reply, Fault> {
    let Some(called) = Called::from_name(name) else {
        return Err(errors::unknown_method(name).into());
    };
    cx.is(called);
    match called {
        Called::Acp(method) => cx.needs(&method.scopes())?,
        Called::Zone(method) => cx.needs(method.scopes())?,
    }
    let method = match called {
        Called::Acp(method) => method,
        Called::Zone(method) => return Box::pin(call_zone(cx, method, raw)).await,
    };
    // All but the fastest are in boxes, so that it does not take the room of the largest.
    match method {
        Method::TasksCreate => Box::pin(handlers::create(cx, params::read(raw)?)).await,
        Method::TasksSend => Box::pin(handlers::send(cx, params::read(raw)?)).await,
        Method::TasksGet => handlers::get(cx, params::read(raw)?).await,
        Method::TasksCancel => Box::pin(handlers::cancel(cx, params::read(raw)?)).await,
        Method::TasksSubscribe => Box::pin(handlers::subscribe(cx, params::read(raw)?)).await,
        Method::StreamStart => Box::pin(handlers::start(cx, params::read(raw)?)).await,
        Method::StreamMessage => Box::pin(handlers::say(cx, params::read(raw)?)).await,
        Method::StreamEnd => Box::pin(handlers::end(cx, params::read(raw)?)).await,
        Method::TaskNotification => handlers::notified(cx, &params::read(raw)?),
        Method::StreamChunk => Box::pin(handlers::chunk(cx, params::read(raw)?)).await,
        Method::TasksList => Box::pin(handlers::list(cx, params::read(raw)?)).await,
        Method::TasksUnsubscribe => Box::pin(handlers::unsubscribe(cx, params::read(raw)?)).await,
        Method::PairsFind => Box::pin(pairs::find(cx, params::read(raw)?)).await,
    }
}

/// Serves one call between the zones.
async fn call_zone(
    cx: &Context<'_>,
    method: Zone,
    raw: Option<&RawJson<'_>>,
) -> Result<Reply, Fault> {
    match method {
        Zone::ExecuteTask => {
            let given = cx.given().map(|given| *given);
            let params = given.unwrap_or_else(|| zone::params::execute(raw))?;
            zone::handlers::execute(cx, params).await
        }
        Zone::GetTaskResult => zone::handlers::result(cx, zone::params::task_id(raw)?).await,
        Zone::CancelTask => zone::handlers::cancel(cx, zone::params::task_id(raw)?).await,
        Zone::GetAgentCard => zone::handlers::card(cx),
        Zone::Feedback => zone::handlers::feedback(cx, zone::params::feedback(raw)?).await,
    }
}

/// Whether a call may wait for something to happen. Within a batch, such calls wait together.
pub(super) fn waits(name: &str) -> bool {
    matches!(Zone::from_name(name), Some(Zone::ExecuteTask))
}

/// Whether calls of a method may overtake each other within a batch. Those that change what another
/// may have made keep the order in which they were sent.
pub(super) fn may_overtake(name: &str) -> bool {
    let method = match Called::from_name(name) {
        None => return true,
        Some(Called::Acp(method)) => method,
        Some(Called::Zone(method)) => {
            return match method {
                Zone::ExecuteTask | Zone::GetTaskResult | Zone::GetAgentCard => true,
                Zone::CancelTask | Zone::Feedback => false,
            };
        }
    };
    match method {
        Method::TasksCreate
        | Method::TasksGet
        | Method::TasksList
        | Method::PairsFind
        | Method::StreamStart
        | Method::TaskNotification => true,
        Method::TasksSend
        | Method::TasksCancel
        | Method::TasksSubscribe
        | Method::TasksUnsubscribe
        | Method::StreamMessage
        | Method::StreamEnd
        | Method::StreamChunk => false,
    }
}

/// Where in a method's params stands what the hub found too large, too many or unusable.
pub(super) fn place(called: Called, what: &str) -> Option<String> {
    let method = match called {
        Called::Acp(method) => method,
        Called::Zone(_) => return zone_place(what).map(str::to_owned),
    };
    let message = || message_member(method);
    match what {
        "the message" | "what else is in the message" => Some(format!("params.{}", message()?)),
        "parts" | "role" => Some(format!("params.{}.{what}", message()?)),
        "metadata" | "participants" => Some(format!("params.{what}")),
        "the name of a participant" => Some("params.participants".to_owned()),
        // Without them it can be read, however large they are.
        "the task as a whole" => Some("params.includeMessages".to_owned()),
        "the reason" => Some("params.reason".to_owned()),
        _ => None,
    }
}

/// The same between the zones, where a message is made of several params.
fn zone_place(what: &str) -> Option<&'static str> {
    match what {
        "the message" | "parts" => Some("params.attachments"),
        "messages of a task" => Some("params.context"),
        "metadata" => Some("params"),
        "the user" => Some("params.user_id"),
        "the comment" => Some("params.comment"),
        "feedback of a task" => Some("params.task_id"),
        _ => None,
    }
}

/// The member of a method's params that holds a message, if it takes one.
fn message_member(method: Method) -> Option<&'static str> {
    match method {
        Method::TasksCreate => Some("initialMessage"),
        Method::TasksSend | Method::StreamMessage => Some("message"),
        Method::StreamChunk => Some("chunk"),
        Method::TasksGet
        | Method::TasksCancel
        | Method::TasksSubscribe
        | Method::StreamStart
        | Method::StreamEnd
        | Method::TaskNotification
        | Method::TasksList
        | Method::TasksUnsubscribe
        | Method::PairsFind => None,
    }
}
