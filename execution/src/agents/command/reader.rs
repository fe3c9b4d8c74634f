//! Reads a program's output and dispatches each message to its run.

use super::lines::{LineError, LineReader, TooLong};
use super::log_throttle::{LogThrottle, escape_for_log};
use super::process_handle::{AgentMessage, ProcessHandle};
use super::protocol::{self, RunRef};
use interzone_jsonrpc::{ErrorCode, ErrorObject, Message, Parsed, Response, parse};
use interzone_protocol::vocab::AgentId;
use std::sync::Arc;
use tokio::io::AsyncRead;

/// Maximum length of a logged stderr line.
const MAX_STDERR_LINE_BYTES: usize = 4 * 1024;

/// Reads JSON-RPC messages from the program's stdout until it is closed.
pub(super) async fn read_stdout<R: AsyncRead + Unpin>(
    reader: R,
    max_line_bytes: usize,
    agent: AgentId,
    process: Arc<ProcessHandle>,
) -> Result<(), LineError> {
    let mut lines = LineReader::new(reader, max_line_bytes, TooLong::Reject);
    let dispatcher = LineDispatcher {
        agent,
        process,
        throttle: LogThrottle::new(),
    };
    while let Some(line) = lines.next().await? {
        if !line.trim_ascii().is_empty() {
            dispatcher.dispatch(line).await;
        }
    }
    Ok(())
}

/// Logs the program's stderr at debug level.
pub(super) async fn log_stderr<R: AsyncRead + Unpin>(reader: R, agent: AgentId) {
    let mut lines = LineReader::new(reader, MAX_STDERR_LINE_BYTES, TooLong::Truncate);
    while let Ok(Some(line)) = lines.next().await {
        let line: String = String::from_utf8_lossy(line.trim_ascii_end())
            .escape_debug()
            .collect();
        tracing::debug!(%agent, line, "agent stderr");
    }
}

struct LineDispatcher {
    agent: AgentId,
    process: Arc<ProcessHandle>,
    throttle: LogThrottle,
}

impl LineDispatcher {
    async fn dispatch(&self, line: &[u8]) {
        match parse(line, &protocol::POLICY) {
            Parsed::One(Ok(Message::Response(response))) => {
                self.dispatch_response(&response, line).await
            }
            Parsed::One(Ok(Message::Notification(notification))) => {
                match protocol::decode_notification(&notification) {
                    Some(Ok((task, message))) => {
                        self.process.deliver(&RunRef::Task(task), message).await
                    }
                    Some(Err(reason)) => self.reject_line(line, &reason).await,
                    None => self.log_invalid(line, "unknown notification"),
                }
            }
            Parsed::One(Ok(Message::Request(request))) => {
                self.log_invalid(line, "programs cannot send requests");
                let error = ErrorObject::standard(ErrorCode::METHOD_NOT_FOUND);
                self.process
                    .try_send(protocol::to_line(request.fail(error).to_vec()));
            }
            Parsed::One(Err(rejection)) => {
                self.reject_line(line, &rejection.kind().to_string()).await;
            }
            Parsed::Batch(_) => self.log_invalid(line, "batches are not supported"),
        }
    }

    async fn dispatch_response(&self, response: &Response<'_>, line: &[u8]) {
        let Some(id) = response.id().and_then(|id| id.as_i64()) else {
            return self.log_invalid(line, "response without the id of a request");
        };
        let outcome = Box::new(protocol::decode_outcome(response));
        self.process
            .deliver(&RunRef::Request(id), AgentMessage::Done(outcome))
            .await;
    }

    /// Logs an invalid line and fails the run that it belongs to, if that can be determined.
    async fn reject_line(&self, line: &[u8], reason: &str) {
        self.log_invalid(line, reason);
        if let Some(run_ref) = protocol::find_run(line) {
            let failure = Box::new(Err(protocol::protocol_error(reason)));
            self.process
                .deliver(&run_ref, AgentMessage::Done(failure))
                .await;
        }
    }

    fn log_invalid(&self, line: &[u8], reason: &str) {
        if let Some(suppressed) = self.throttle.allow() {
            let (agent, line) = (&self.agent, escape_for_log(line));
            tracing::warn!(%agent, reason, line, suppressed, "agent sent an invalid message");
        }
    }
}
