//! Parses the params of large `execute_task` requests early so that the request body can be freed while the call
//! waits.

use super::errors::CallError;
use super::method::AnyMethod;
use super::zone;
use interzone_jsonrpc::{Message, MethodName, Parsed, Request};
use interzone_protocol::zone::{ExecuteTaskParams, Method};

/// Body size in bytes above which params are parsed early.
const MIN_BODY_BYTES: usize = 256 * 1024;

/// Params parsed early. Their error is reported in the normal order of checks.
pub(super) type EarlyParams = Box<Result<ExecuteTaskParams, CallError>>;

/// Returns the call without params, and its params; `None` if the body must be kept.
pub(super) fn parse_early(
    parsed: &Parsed<'_>,
    bytes: usize,
) -> Option<(Parsed<'static>, EarlyParams)> {
    let Parsed::One(Ok(Message::Request(request))) = parsed else {
        return None;
    };
    let method = AnyMethod::from_name(request.method()).filter(|_| bytes > MIN_BODY_BYTES)?;
    let (AnyMethod::Zone(Method::ExecuteTask), Some(id)) = (method, request.id()) else {
        return None;
    };
    let method = MethodName::new(Method::ExecuteTask.name()).ok()?;
    let without_params = Request::new(id.clone().into_owned(), method);
    let params = Box::new(zone::params::execute_task(request.params()));
    Some((Parsed::One(Ok(Message::Request(without_params))), params))
}

#[cfg(test)]
mod tests {
    use super::*;
    use interzone_jsonrpc::parse;
    use interzone_protocol::SharedEndpointPolicy;

    fn request(method: &str, text: &str) -> String {
        format!(
            r#"{{"jsonrpc":"2.0","id":"a","method":"{method}","params":{{"channel":"c","bot_token":"b","text":"{text}"}}}}"#
        )
    }

    fn parse_early_text(body: &str) -> Option<(Parsed<'static>, EarlyParams)> {
        parse_early(&parse(body.as_bytes(), &SharedEndpointPolicy), body.len())
    }

    #[test]
    fn large_call_keeps_method_and_id_without_body() {
        let text = "x".repeat(MIN_BODY_BYTES);
        let (without_params, early) = parse_early_text(&request("execute_task", &text)).unwrap();
        let Parsed::One(Ok(Message::Request(request))) = without_params else {
            unreachable!("a single request");
        };
        assert_eq!(request.method(), "execute_task");
        assert_eq!(request.id().and_then(|id| id.as_str()), Some("a"));
        assert!(request.params().is_none());
        let Ok(params) = *early else {
            unreachable!("valid params");
        };
        assert_eq!(params.text, text);
    }

    #[test]
    fn invalid_early_params_are_reported_later() {
        let (_, early) =
            parse_early_text(&request("execute_task", &" ".repeat(MIN_BODY_BYTES))).unwrap();
        assert!(early.is_err());
    }

    #[test]
    fn other_calls_keep_their_body() {
        let large = "x".repeat(MIN_BODY_BYTES);
        assert!(parse_early_text(&request("execute_task", "small")).is_none());
        assert!(parse_early_text(&request("tasks.create", &large)).is_none());
        assert!(parse_early_text(&format!("[{}]", request("execute_task", &large))).is_none());
        assert!(parse_early_text(&large).is_none());
    }
}
