//! A large call without the bytes that it came in. Whoever sends files waits long for the answer, and
//! meanwhile what is needed of the request is small beside them: so the params are read early, and the
//! body need not be kept.

use super::called::Called;
use super::errors::Fault;
use super::zone;
use interzone_jsonrpc::{Message, MethodName, Parsed, Request};
use interzone_protocol::zone::{ExecuteTaskParams, Method};

/// A body that is longer than this, in bytes, is worth it.
const LARGE: usize = 256 * 1024;

/// Params that were read before it was their turn: what is wrong with them is told when it is.
pub(super) type Given = Box<Result<ExecuteTaskParams, Fault>>;

/// The same call without its params, and its params; nothing if the body must be kept.
pub(super) fn lift(parsed: &Parsed<'_>, bytes: usize) -> Option<(Parsed<'static>, Given)> {
    let Parsed::One(Ok(Message::Request(request))) = parsed else {
        return None;
    };
    let called = Called::from_name(request.method()).filter(|_| bytes > LARGE)?;
    let (Called::Zone(Method::ExecuteTask), Some(id)) = (called, request.id()) else {
        return None;
    };
    let method = MethodName::new(Method::ExecuteTask.name()).ok()?;
    let bare = Request::new(id.clone().into_owned(), method);
    let given = Box::new(zone::params::execute(request.params()));
    Some((Parsed::One(Ok(Message::Request(bare))), given))
}
