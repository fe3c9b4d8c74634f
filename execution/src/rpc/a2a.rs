//! The A2A dialect, in its versions 1.0 and 0.3: its methods, handlers, errors, and conversion between its objects and
//! the hub's.

pub(crate) mod card;
mod convert;
mod errors;
mod handlers;
mod send;
mod stream;
mod updates;
mod version;

use super::context::{CallContext, CallParams, RequestMeta};
use super::dialect::{Dialect, DialectMethod, MethodInfo};
use super::errors::{AuthUrls, CallError, WireError};
use super::reply::{CallReply, SseFraming};
use async_trait::async_trait;
use axum::http::HeaderName;
use axum::http::header::USER_AGENT;
use interzone_jsonrpc::{ErrorCode, ErrorObject, Policy};
use interzone_protocol::a2a::{A2aMethod, RequestedVersion, WireFormat};
use interzone_protocol::{Dialect as DialectName, Scope};
use std::sync::LazyLock;

/// Header that names the version that the caller speaks.
const A2A_VERSION: HeaderName = HeaderName::from_static("a2a-version");
/// Header with the key by which a repeated send is recognized.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Start of the `User-Agent` of clients that read a stream's error only as an event.
const EVENT_ONLY_CLIENT: &[u8] = b"Go-http-client/";

/// The A2A dialect.
pub(crate) struct A2aDialect;

/// A method under its name in one version. The name selects the wire format.
#[derive(Clone, Copy, Debug)]
pub(crate) struct A2aCall {
    method: A2aMethod,
    format: WireFormat,
}

/// All methods under all of their names.
static CALLS: LazyLock<Vec<A2aCall>> = LazyLock::new(|| {
    let formats = [WireFormat::V1, WireFormat::V03];
    let calls = A2aMethod::ALL
        .into_iter()
        .flat_map(|method| formats.map(|format| A2aCall { method, format }));
    calls.filter(|call| call.name().is_some()).collect()
});

impl A2aCall {
    fn name(self) -> Option<&'static str> {
        match self.format {
            WireFormat::V1 => Some(self.method.name()),
            WireFormat::V03 | WireFormat::RestV03 => self.method.name_v03(),
        }
    }
}

impl Dialect for A2aDialect {
    fn methods(&self) -> Vec<&'static dyn DialectMethod> {
        let calls = CALLS.iter();
        calls.map(|call| call as &dyn DialectMethod).collect()
    }

    fn headers(&self) -> &'static [HeaderName] {
        static HEADERS: [HeaderName; 3] = [A2A_VERSION, IDEMPOTENCY_KEY, USER_AGENT];
        &HEADERS
    }

    fn query_parameters(&self) -> &'static [&'static str] {
        &[RequestedVersion::NAME]
    }

    fn error(&self, error: &CallError, urls: AuthUrls<'_>) -> WireError {
        errors::map_error(None, error, urls)
    }

    fn envelope_policy(&self) -> Policy {
        DialectName::A2a.policy()
    }

    fn invalid_message(&self, code: ErrorCode) -> Option<ErrorObject<'static>> {
        Some(errors::invalid_message(code))
    }
}

#[async_trait]
impl DialectMethod for A2aCall {
    fn info(&self) -> MethodInfo {
        MethodInfo {
            name: self.name().unwrap_or_default(),
            scopes: match self.method {
                A2aMethod::SendMessage | A2aMethod::SendStreamingMessage => {
                    &[Scope::AgentIdentify, Scope::TasksWrite]
                }
                A2aMethod::CancelTask => &[Scope::AgentIdentify, Scope::TasksCancel],
                A2aMethod::GetTask
                | A2aMethod::ListTasks
                | A2aMethod::SubscribeToTask
                | A2aMethod::CreateTaskPushNotificationConfig
                | A2aMethod::GetTaskPushNotificationConfig
                | A2aMethod::ListTaskPushNotificationConfigs
                | A2aMethod::DeleteTaskPushNotificationConfig => {
                    &[Scope::AgentIdentify, Scope::TasksRead]
                }
                A2aMethod::GetExtendedAgentCard => &[Scope::AgentIdentify],
            },
            is_blocking: self.method == A2aMethod::SendMessage,
            is_unordered: self.method != A2aMethod::CancelTask,
            always_streams: self.method.is_streaming(),
            log_message: None,
        }
    }

    async fn call(
        &self,
        cx: &CallContext<'_>,
        params: CallParams<'_>,
    ) -> Result<CallReply, CallError> {
        version::check(&cx.meta.declared, self.format)?;
        let raw = params.raw;
        match self.method {
            A2aMethod::SendMessage => Box::pin(send::send_message(cx, self.format, raw)).await,
            A2aMethod::GetTask => Box::pin(handlers::get_task(cx, self.format, raw)).await,
            A2aMethod::ListTasks => Box::pin(handlers::list_tasks(cx, self.format, raw)).await,
            A2aMethod::CancelTask => Box::pin(handlers::cancel_task(cx, self.format, raw)).await,
            A2aMethod::SendStreamingMessage => {
                Box::pin(stream::send_streaming_message(cx, self.format, raw)).await
            }
            A2aMethod::SubscribeToTask => {
                Box::pin(stream::subscribe_to_task(cx, self.format, raw)).await
            }
            // Neither webhooks nor an extended card are declared.
            A2aMethod::CreateTaskPushNotificationConfig
            | A2aMethod::GetTaskPushNotificationConfig
            | A2aMethod::ListTaskPushNotificationConfigs
            | A2aMethod::DeleteTaskPushNotificationConfig => {
                Err(errors::no_push_notifications(self.format))
            }
            A2aMethod::GetExtendedAgentCard => Err(errors::no_extended_card(self.format)),
        }
    }

    fn error(&self, error: &CallError, urls: AuthUrls<'_>) -> WireError {
        errors::map_error(Some(*self), error, urls)
    }

    fn error_framing(&self, meta: &RequestMeta) -> Option<SseFraming> {
        if !self.method.is_streaming() {
            return None;
        }
        let has_header = |name| meta.declared.header(name).next();
        let expects_event = match self.format {
            WireFormat::V1 => has_header(&USER_AGENT)
                .is_some_and(|agent| agent.as_bytes().starts_with(EVENT_ONLY_CLIENT)),
            // Clients of the first generation send no version, and accept nothing but events.
            WireFormat::V03 | WireFormat::RestV03 => has_header(&A2A_VERSION).is_none(),
        };
        expects_event.then_some(SseFraming { event: None })
    }
}
