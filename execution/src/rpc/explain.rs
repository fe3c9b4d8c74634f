//! What the hub refuses, as the caller is told it.

use super::errors::{WireError, finished_at, to_wire};
use super::{Context, dispatch, store_errors};
use interzone_hub::HubError;
use interzone_protocol::Dialect;

/// The hub's refusal in the words of the dialect, with what else helps the caller.
pub(super) async fn explained(cx: &Context<'_>, error: &HubError) -> WireError {
    if let HubError::Store(cause) = error {
        store_errors::log(cx, cause);
    }
    let dialect = cx.dialect();
    let mut wire = to_wire(error, dialect);
    match error {
        HubError::TaskFinished { id, state } if dialect == Dialect::Acp => {
            let task = cx.hub().task(cx.caller, id).await.ok();
            wire = finished_at(wire, *state, task.and_then(|task| task.finished_at));
        }
        HubError::TaskNotFound(_) if dialect == Dialect::Acp => {
            wire = wire.and("timestamp", cx.hub().now().to_string());
        }
        HubError::Invalid { field: what, .. }
        | HubError::TooLarge { what, .. }
        | HubError::TooMany { what, .. } => {
            let place = cx.method.get().map(|method| dispatch::place(*method, what));
            if let Some(Some(place)) = place {
                wire = wire.and("field", place);
            }
        }
        _ => {}
    }
    wire
}
