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

#[cfg(test)]
mod tests {
    use super::*;
    use interzone_jsonrpc::parse;
    use interzone_protocol::JsonRpcDoor;

    fn call(method: &str, text: &str) -> String {
        format!(
            r#"{{"jsonrpc":"2.0","id":"a","method":"{method}","params":{{"channel":"c","bot_token":"b","text":"{text}"}}}}"#
        )
    }

    fn lifted(body: &str) -> Option<(Parsed<'static>, Given)> {
        lift(&parse(body.as_bytes(), &JsonRpcDoor), body.len())
    }

    #[test]
    fn a_large_call_is_the_same_without_its_body() {
        let text = "x".repeat(LARGE);
        let (bare, given) = lifted(&call("execute_task", &text)).unwrap();
        let Parsed::One(Ok(Message::Request(request))) = bare else {
            unreachable!("it is one request");
        };
        assert_eq!(request.method(), "execute_task");
        assert_eq!(request.id().and_then(|id| id.as_str()), Some("a"));
        assert!(request.params().is_none());
        let Ok(params) = *given else {
            unreachable!("its params are good");
        };
        assert_eq!(params.text, text);
    }

    #[test]
    fn what_is_wrong_with_params_is_told_later() {
        let (_, given) = lifted(&call("execute_task", &" ".repeat(LARGE))).unwrap();
        assert!(given.is_err());
    }

    #[test]
    fn all_else_keeps_its_body() {
        let large = "x".repeat(LARGE);
        assert!(lifted(&call("execute_task", "small")).is_none());
        assert!(lifted(&call("tasks.create", &large)).is_none());
        assert!(lifted(&format!("[{}]", call("execute_task", &large))).is_none());
        assert!(lifted(&large).is_none());
    }
}
