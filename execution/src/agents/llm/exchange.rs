//! One question to the model and its answer: sent, sent again if that may help, and read as it comes.
//!
//! Nothing is sent again once a word of the answer was passed on, for then the caller would read it
//! twice.

use super::attachments::{self, Fence, Reading};
use super::chat::{Chat, Heard, Stop};
use super::errors::{Complaint, Failure, Misread, Why, classify, classify_in_stream};
use super::reply::{Reply, Usage};
use super::retry;
use super::tools::Call;
use super::wire::Wire;
use super::{LlmOptions, Quota};
use bytes::Bytes;
use http::{HeaderMap, header};
use interzone_hub::{Clock, SystemClock};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// How much of an error's body is read, in bytes.
const COMPLAINT: usize = 64 * 1024;

/// How many calls of tools one answer may have.
const CALLS: usize = 16;

/// How long a provider may ask us to wait: beyond that, the user had better ask again.
const LONGEST_HINT: Duration = Duration::from_secs(60);

/// What the model said in one go.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) text: String,
    pub(super) refusal: String,
    pub(super) calls: Vec<Call>,
    pub(super) stop: Option<Stop>,
}

/// Whoever asks.
pub(super) struct Exchange<'a> {
    pub(super) wire: &'a dyn Wire,
    pub(super) client: &'a reqwest::Client,
    pub(super) options: &'a LlmOptions,
    pub(super) reading: Reading<'a>,
    pub(super) fence: &'a Fence,
    /// When all must be over.
    pub(super) until: Instant,
}

impl Exchange<'_> {
    /// Asks, and passes on what is said. The conversation changes only if the provider does not read the
    /// documents in it: then they are text from now on.
    pub(super) async fn ask(
        &self,
        chat: &mut Chat<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<Answer, Failure> {
        let before = reply.length();
        let mut body = self.body(chat)?;
        let mut tries = 0;
        loop {
            let failure = match self.once(body.clone(), reply).await {
                Ok(answer) => return Ok(answer),
                Err(failure) if reply.length() > before => return Err(failure),
                Err(failure) => failure,
            };
            match failure {
                Failure::Model {
                    why: Why::Adapted, ..
                } => body = self.body(chat)?,
                Failure::Model {
                    why: Why::Invalid, ..
                } if chat.has_documents() => {
                    attachments::as_text(chat, self.reading, self.fence).await;
                    body = self.body(chat)?;
                }
                Failure::Model {
                    again: true, hint, ..
                } if tries < self.options.retries => {
                    let wait = hint.unwrap_or_else(|| retry::wait(tries));
                    if wait > LONGEST_HINT || Instant::now() + wait >= self.until {
                        return Err(failure);
                    }
                    tokio::time::sleep(wait).await;
                    tries += 1;
                }
                other => return Err(other),
            }
        }
    }

    fn body(&self, chat: &Chat<'_>) -> Result<Bytes, Failure> {
        let body = self.wire.body(chat);
        body.map_err(|_| Why::Broken("the request cannot be written").into())
    }

    async fn once(&self, body: Bytes, reply: &mut Reply<'_>) -> Result<Answer, Failure> {
        let first_by = Instant::now() + self.options.first_token_timeout;
        let request = self.wire.request(body).await?;
        let request = reqwest::Request::try_from(request.map(reqwest::Body::from))
            .map_err(|_| Why::Broken("the request cannot be sent"))?;
        let sent = timeout_at(first_by, self.client.execute(request)).await;
        let response = sent
            .map_err(|_| Why::Slow)?
            .map_err(|error| self.unreachable(&error.without_url()))?;
        if response.status() != http::StatusCode::OK {
            return Err(self.complaint(response, first_by).await);
        }
        if !is(response.headers(), self.wire.stream_type()) {
            self.warn("its answer is of another type than a stream");
            return Err(Why::Broken("its answer is no stream").into());
        }
        self.listen(response, first_by, reply).await
    }

    async fn listen(
        &self,
        mut response: reqwest::Response,
        first_by: Instant,
        reply: &mut Reply<'_>,
    ) -> Result<Answer, Failure> {
        let quota = Quota::of(self.options);
        let mut reader = self.wire.reader(quota);
        let mut draft = Draft::new(quota);
        let mut heard = Vec::new();
        while !reader.is_over() {
            let by = if draft.begun {
                Instant::now() + self.options.idle_timeout
            } else {
                first_by
            };
            let bytes = match timeout_at(by, response.chunk()).await {
                Ok(Ok(Some(bytes))) => bytes,
                // Whatever ends a stream that is whole, ends it.
                _ if reader.is_whole() => break,
                Ok(Ok(None)) => return Err(self.half(draft.begun)),
                Ok(Err(error)) => {
                    tracing::warn!(
                        agent = %self.options.id,
                        error = %error.without_url(),
                        "a model's stream broke off"
                    );
                    return Err(Failure::passing(Why::Broken("its stream broke off")));
                }
                Err(_) => return Err(Why::Slow.into()),
            };
            let read = reader.push(&bytes, &mut heard);
            // What came before an error was said all the same.
            for one in heard.drain(..) {
                draft.hear(one, reply).await?;
            }
            read.map_err(|misread| self.misread(misread))?;
        }
        let (answer, usage) = draft.finish();
        reply.spend(usage);
        Ok(answer)
    }

    /// Notes why a stream could not be read on, and what that means.
    fn misread(&self, misread: Misread) -> Failure {
        match misread {
            Misread::Said(complaint) => {
                tracing::warn!(
                    agent = %self.options.id,
                    said = complaint.logged(self.wire.key()),
                    "a model's stream ends with an error"
                );
                classify_in_stream(&complaint)
            }
            Misread::Broken(what) => {
                self.warn(what);
                Why::Broken(what).into()
            }
        }
    }

    fn half(&self, begun: bool) -> Failure {
        self.warn("its stream ends before the answer does");
        let why = Why::Broken("its stream ends before the answer does");
        if begun {
            why.into()
        } else {
            Failure::passing(why)
        }
    }

    fn unreachable(&self, error: &reqwest::Error) -> Failure {
        tracing::warn!(agent = %self.options.id, %error, "a model cannot be reached");
        if error.is_timeout() {
            Why::Slow.into()
        } else if error.is_connect() {
            Failure::passing(Why::Unreachable)
        } else {
            Failure::passing(Why::Broken("its connection broke"))
        }
    }

    /// Reads why there is no answer, and what to do about it.
    async fn complaint(&self, mut response: reqwest::Response, by: Instant) -> Failure {
        let status = response.status();
        let mut body = Vec::new();
        while let Ok(Ok(Some(bytes))) = timeout_at(by, response.chunk()).await {
            let room = COMPLAINT.saturating_sub(body.len());
            body.extend(bytes.iter().take(room));
            if body.len() >= COMPLAINT {
                break;
            }
        }
        let mut complaint = Complaint::read(&body);
        // AWS names the error in a header, and what it means behind a colon.
        let named = response.headers().get("x-amzn-errortype");
        if let Some(word) = named.and_then(|word| word.to_str().ok()) {
            complaint.word = word.split(':').next().unwrap_or_default().to_owned();
        }
        tracing::warn!(
            agent = %self.options.id,
            status = status.as_u16(),
            said = complaint.logged(self.wire.key()),
            "a model refused a request"
        );
        if self.wire.adapt(status, &complaint) {
            return Why::Adapted.into();
        }
        match classify(status, &complaint) {
            Failure::Model {
                why, again: true, ..
            } => Failure::Model {
                why,
                again: true,
                hint: retry::hint(response.headers(), SystemClock.now()),
            },
            other => other,
        }
    }

    fn warn(&self, what: &str) {
        tracing::warn!(agent = %self.options.id, what, "what a model sent cannot be used");
    }
}

fn is(headers: &HeaderMap, wanted: &str) -> bool {
    let found = headers.get(header::CONTENT_TYPE);
    let found = found
        .and_then(|found| found.to_str().ok())
        .unwrap_or_default();
    let plain = found.split(';').next().unwrap_or_default().trim();
    plain.eq_ignore_ascii_case(wanted)
}

/// An answer as it is put together.
struct Draft {
    quota: Quota,
    /// The model has begun: it speaks, or shows that it is at work.
    begun: bool,
    text: String,
    refusal: String,
    calls: BTreeMap<u64, Call>,
    arguments: usize,
    usage: Usage,
}

impl Draft {
    fn new(quota: Quota) -> Self {
        Self {
            quota,
            begun: false,
            text: String::new(),
            refusal: String::new(),
            calls: BTreeMap::new(),
            arguments: 0,
            usage: Usage::default(),
        }
    }

    async fn hear(&mut self, heard: Heard, reply: &mut Reply<'_>) -> Result<(), Failure> {
        self.begun |= !matches!(heard, Heard::Usage { .. });
        match heard {
            Heard::Alive => {}
            Heard::Text(delta) => {
                reply.text(&delta).await?;
                self.text.push_str(&delta);
            }
            Heard::Refusal(words) => {
                if self.refusal.len().saturating_add(words.len()) > self.quota.text_bytes {
                    return Err(Why::Endless.into());
                }
                self.refusal.push_str(&words);
            }
            Heard::Call { index, id, name } => {
                if self.calls.len() >= CALLS {
                    return Err(Why::Endless.into());
                }
                let id = id.filter(|id| !id.is_empty());
                let call = Call {
                    id: id.unwrap_or_else(|| format!("call_{index}")),
                    name,
                    arguments: String::new(),
                };
                self.calls.insert(index, call);
            }
            Heard::Arguments { index, piece } => {
                self.arguments = self.arguments.saturating_add(piece.len());
                if self.arguments > self.quota.argument_bytes {
                    return Err(Why::Endless.into());
                }
                let call = self.calls.get_mut(&index);
                let call = call.ok_or(Why::Broken("arguments come without a call"))?;
                call.arguments.push_str(&piece);
            }
            Heard::Stop(stop) => self.usage.stop = Some(stop),
            Heard::Usage { input, output } => {
                self.usage.input = input.unwrap_or(self.usage.input);
                self.usage.output = output.unwrap_or(self.usage.output);
            }
        }
        Ok(())
    }

    fn finish(self) -> (Answer, Usage) {
        let answer = Answer {
            text: self.text,
            refusal: self.refusal,
            calls: self.calls.into_values().collect(),
            stop: self.usage.stop,
        };
        (answer, self.usage)
    }
}
