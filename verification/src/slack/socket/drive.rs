//! One socket, from its first byte to its last: envelopes to the handler, answers back, signs of life
//! both ways. Whether there is another socket is not known here.

use super::connect::Socket;
use super::standing::{Live, Standing};
use super::{Ack, Envelopes};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, SinkExt, StreamExt};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_util::sync::CancellationToken;

/// How many envelopes are looked at together. While there are as many, no more is read.
const AT_ONCE: usize = 64;
/// How long a handler may take; what takes longer was not done.
const PATIENCE: Duration = Duration::from_secs(30);
/// A socket that is alive says hello at once.
const HELLO: Duration = Duration::from_secs(10);
/// We ask for a sign of life so often, and believe in none after so long.
const PING: Duration = Duration::from_secs(30);
const SILENCE: Duration = Duration::from_secs(75);
/// A socket that Slack takes away may go on for so long beside its successor.
const DRAIN: Duration = Duration::from_secs(30);
/// When we are asked to stop, what was begun may go on for so long.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// How long a message may take to be written.
const WRITE: Duration = Duration::from_secs(10);

/// Something about a socket.
pub(super) struct News {
    pub(super) id: u64,
    pub(super) said: Said,
}

pub(super) enum Said {
    /// Slack will close it; `lived` is since its hello.
    Leaving {
        lived: Option<Duration>,
    },
    Ended(End),
}

/// How a socket ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    Gone {
        why: &'static str,
        lived: Option<Duration>,
    },
    TooMany,
    LinkDisabled,
}

/// What a socket needs to know of the rest.
pub(super) struct Line {
    pub(super) id: u64,
    pub(super) handler: Arc<dyn Envelopes>,
    pub(super) news: mpsc::Sender<News>,
    pub(super) standing: Arc<Standing>,
    pub(super) stop: CancellationToken,
}

#[derive(Deserialize)]
struct Frame<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    reason: Option<Cow<'a, str>>,
    #[serde(borrow)]
    envelope_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
}

type Handled = BoxFuture<'static, Option<String>>;

/// What a socket is at.
struct State {
    busy: FuturesUnordered<Handled>,
    heard: Instant,
    opened: Instant,
    hello: Option<(Instant, Live)>,
    /// Until when it may still be used, once its end is known.
    until: Option<Instant>,
}

impl State {
    fn lived(&self) -> Option<Duration> {
        self.hello.as_ref().map(|(at, _)| at.elapsed())
    }

    /// When something must have happened, and what it means if it has not.
    fn deadline(&self) -> (Instant, &'static str) {
        let mut all = vec![(self.heard + SILENCE, "it fell silent")];
        if self.hello.is_none() {
            all.push((self.opened + HELLO, "it said no hello"));
        }
        all.extend(self.until.map(|until| (until, "it was replaced")));
        let first = all.into_iter().min_by_key(|(moment, _)| *moment);
        first.unwrap_or((self.heard + SILENCE, "it fell silent"))
    }
}

impl Line {
    /// Uses a socket until it ends, and tells how it did.
    pub(super) async fn drive(self, mut socket: Socket) {
        let now = Instant::now();
        let mut state = State {
            busy: FuturesUnordered::new(),
            heard: now,
            opened: now,
            hello: None,
            until: None,
        };
        let end = self.converse(&mut socket, &mut state).await;
        state.hello = None;
        self.tell(Said::Ended(end)).await;
        // What was begun is finished, while a successor may be there already.
        let finish = async {
            while let Some(done) = state.busy.next().await {
                if let Some(id) = done {
                    acknowledge(&mut socket, &id).await?;
                }
            }
            socket.close(None).await.map_err(|_| "it broke")
        };
        let _ = tokio::time::timeout(LAST_WORDS, finish).await;
    }

    async fn converse(&self, socket: &mut Socket, state: &mut State) -> End {
        let mut pings = tokio::time::interval_at(state.opened + PING, PING);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let (deadline, meaning) = state.deadline();
            let full = state.busy.len() >= AT_ONCE;
            let step = tokio::select! {
                () = self.stop.cancelled() => Err("we stop"),
                Some(done) = state.busy.next(), if !state.busy.is_empty() => {
                    if full {
                        // While nothing was read, nothing could be heard.
                        state.heard = Instant::now();
                    }
                    match done {
                        Some(id) => acknowledge(socket, &id).await,
                        None => Ok(()),
                    }
                }
                message = socket.next(), if !full => {
                    state.heard = Instant::now();
                    match self.hear(message, state).await {
                        Ok(()) => Ok(()),
                        Err(end) => return end,
                    }
                }
                _ = pings.tick() => send(socket, Message::Ping(Bytes::new())).await,
                () = tokio::time::sleep_until(deadline), if !full => Err(meaning),
            };
            if let Err(why) = step {
                let lived = state.lived();
                return End::Gone { why, lived };
            }
        }
    }

    async fn hear(
        &self,
        message: Option<Result<Message, Error>>,
        state: &mut State,
    ) -> Result<(), End> {
        let gone = |why, state: &State| End::Gone {
            why,
            lived: state.lived(),
        };
        let text = match message {
            Some(Ok(Message::Text(text))) => text,
            Some(Ok(Message::Close(_))) | None => return Err(gone("slack closed it", state)),
            Some(Ok(_)) => return Ok(()),
            Some(Err(Error::Capacity(_))) => return Err(gone("a message was too large", state)),
            Some(Err(_)) => return Err(gone("it broke", state)),
        };
        let Ok(frame) = serde_json::from_str::<Frame<'_>>(&text) else {
            tracing::warn!("a message by the socket is no json of slack's");
            return Ok(());
        };
        match (&*frame.kind, frame.reason.as_deref()) {
            ("hello", _) => {
                if state.hello.is_none() {
                    state.hello = Some((Instant::now(), self.standing.hello()));
                }
            }
            ("disconnect", Some("link_disabled")) => return Err(End::LinkDisabled),
            ("disconnect", Some("too_many_websockets")) => return Err(End::TooMany),
            ("disconnect", _) => {
                if state.until.is_none() {
                    state.until = Some(Instant::now() + DRAIN);
                    let lived = state.lived();
                    self.tell(Said::Leaving { lived }).await;
                }
            }
            (kind, _) => {
                if let (Some(id), Some(payload)) = (&frame.envelope_id, frame.payload) {
                    let payload = Bytes::copy_from_slice(payload.get().as_bytes());
                    state.busy.push(self.handle(kind, id, payload));
                }
            }
        }
        Ok(())
    }

    /// Has an envelope handled; gives its id if Slack is to be told that it was.
    fn handle(&self, kind: &str, id: &str, payload: Bytes) -> Handled {
        let (kind, id) = (kind.to_owned(), id.to_owned());
        let handler = Arc::clone(&self.handler);
        async move {
            let handled = handler.envelope(&kind, payload);
            let handled = tokio::time::timeout(PATIENCE, handled).await;
            (handled == Ok(Ack::Done)).then_some(id)
        }
        .boxed()
    }

    async fn tell(&self, said: Said) {
        // Nobody listens any more if we are stopped.
        let _ = self.news.send(News { id: self.id, said }).await;
    }
}

async fn acknowledge(socket: &mut Socket, id: &str) -> Result<(), &'static str> {
    let text = serde_json::json!({ "envelope_id": id }).to_string();
    send(socket, Message::text(text)).await
}

async fn send(socket: &mut Socket, message: Message) -> Result<(), &'static str> {
    match tokio::time::timeout(WRITE, socket.send(message)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err("it broke"),
        Err(_) => Err("it takes nothing"),
    }
}
