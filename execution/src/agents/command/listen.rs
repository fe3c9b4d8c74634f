//! Hearing what a program says, and giving each run what is meant for it.

use super::lines::{LineError, Lines, TooLong};
use super::live::{Live, Said};
use super::notes::{Notes, harmless};
use super::wire::{self, Of};
use interzone_jsonrpc::{Error, ErrorCode, Message, Parsed, Response, parse};
use interzone_protocol::vocab::AgentId;
use std::sync::Arc;
use tokio::io::AsyncRead;

/// The longest line of a program's complaints that is kept.
const COMPLAINT: usize = 4 * 1024;

/// Hears a program out, until it says nothing more.
pub(super) async fn hear<R: AsyncRead + Unpin>(
    from: R,
    most: usize,
    agent: AgentId,
    live: Arc<Live>,
) -> Result<(), LineError> {
    let mut lines = Lines::new(from, most, TooLong::Refuse);
    let ear = Ear {
        agent,
        live,
        notes: Notes::new(),
    };
    while let Some(line) = lines.next().await? {
        if !line.trim_ascii().is_empty() {
            ear.take(line).await;
        }
    }
    Ok(())
}

/// Reads a program's complaints: they are for whoever looks closely.
pub(super) async fn overhear<R: AsyncRead + Unpin>(from: R, agent: AgentId) {
    let mut lines = Lines::new(from, COMPLAINT, TooLong::Cut);
    while let Ok(Some(line)) = lines.next().await {
        let line: String = String::from_utf8_lossy(line.trim_ascii_end())
            .escape_debug()
            .collect();
        tracing::debug!(%agent, line, "the program's standard error");
    }
}

struct Ear {
    agent: AgentId,
    live: Arc<Live>,
    notes: Notes,
}

impl Ear {
    async fn take(&self, line: &[u8]) {
        match parse(line, &wire::POLICY) {
            Parsed::One(Ok(Message::Response(response))) => self.answered(&response, line).await,
            Parsed::One(Ok(Message::Notification(notification))) => {
                match wire::read(&notification) {
                    Some(Ok((task, said))) => self.live.say(&Of::Task(task), said).await,
                    Some(Err(why)) => self.wrong(line, &why).await,
                    None => self.note(line, "a notification that is not known"),
                }
            }
            Parsed::One(Ok(Message::Request(request))) => {
                self.note(line, "a request, and it may make none");
                let error = Error::standard(ErrorCode::METHOD_NOT_FOUND);
                self.live.try_tell(wire::line(request.fail(error).to_vec()));
            }
            Parsed::One(Err(rejection)) => {
                self.wrong(line, &rejection.problem().to_string()).await;
            }
            Parsed::Batch(_) => self.note(line, "a batch"),
        }
    }

    async fn answered(&self, response: &Response<'_>, line: &[u8]) {
        let Some(id) = response.id().and_then(|id| id.as_i64()) else {
            return self.note(line, "an answer to nothing that was asked");
        };
        let outcome = Box::new(wire::outcome(response));
        self.live.say(&Of::Request(id), Said::Done(outcome)).await;
    }

    /// A line that is not as agreed ends the run that it belongs to, if that can be told.
    async fn wrong(&self, line: &[u8], why: &str) {
        self.note(line, why);
        if let Some(of) = wire::whose(line) {
            let broke = Box::new(Err(wire::misfit(why)));
            self.live.say(&of, Said::Done(broke)).await;
        }
    }

    fn note(&self, line: &[u8], why: &str) {
        if let Some(left_out) = self.notes.may_write() {
            let (agent, line) = (&self.agent, harmless(line));
            tracing::warn!(%agent, why, line, left_out, "the program printed what it should not");
        }
    }
}
