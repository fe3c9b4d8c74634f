//! Which method is served by which handler: one visible match. What comes before it, in this order:
//! is the method known, has the token its scopes, do its params fit.

use super::acp::handlers;
use super::errors::{self, Fault};
use super::{Context, Reply, pairs, params};
use interzone_jsonrpc::RawJson;
use interzone_protocol::acp::Method;

/// Serves one call.
pub(super) async fn call(
    cx: &Context<'_>,
    name: &str,
    raw: Option<&RawJson<'_>>,
) -> Result<Reply, Fault> {
    let Some(method) = Method::from_name(name) else {
        return Err(errors::unknown_method(name).into());
    };
    cx.is(method);
    cx.needs(&method.scopes())?;
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

/// Whether calls of a method may overtake each other within a batch. Those that change what another
/// may have made keep the order in which they were sent.
pub(super) fn may_overtake(name: &str) -> bool {
    match Method::from_name(name) {
        Some(
            Method::TasksCreate
            | Method::TasksGet
            | Method::TasksList
            | Method::PairsFind
            | Method::StreamStart
            | Method::TaskNotification,
        )
        | None => true,
        Some(
            Method::TasksSend
            | Method::TasksCancel
            | Method::TasksSubscribe
            | Method::TasksUnsubscribe
            | Method::StreamMessage
            | Method::StreamEnd
            | Method::StreamChunk,
        ) => false,
    }
}

/// Where in a method's params stands what the hub found too large, too many or unusable.
pub(super) fn place(method: Method, what: &str) -> Option<String> {
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
