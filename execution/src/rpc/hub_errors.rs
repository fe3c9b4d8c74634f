//! Maps a hub error to the error response of a call.

use super::errors::{WireError, to_wire, with_finished_at};
use super::{CallContext, dispatch, store_errors};
use interzone_hub::HubError;
use interzone_protocol::Dialect;

/// Maps a hub error to the dialect's error and adds details for the caller.
pub(super) async fn to_wire_error(cx: &CallContext<'_>, error: &HubError) -> WireError {
    if let HubError::Store(cause) = error {
        store_errors::log(cx, cause);
    }
    let dialect = cx.dialect();
    let mut wire = to_wire(error, dialect);
    match error {
        HubError::TaskFinished { id, state } if dialect == Dialect::Acp => {
            let task = cx.hub().task(cx.caller, id).await.ok();
            wire = with_finished_at(wire, *state, task.and_then(|task| task.finished_at));
        }
        HubError::TaskNotFound(_) if dialect == Dialect::Acp => {
            wire = wire.with_field("timestamp", cx.hub().now().to_string());
        }
        HubError::Invalid { field: what, .. }
        | HubError::TooLarge { what, .. }
        | HubError::TooMany { what, .. } => {
            let path = cx
                .method
                .get()
                .map(|method| dispatch::field_path(*method, what));
            if let Some(Some(path)) = path {
                wire = wire.with_field("field", path);
            }
        }
        _ => {}
    }
    wire
}
