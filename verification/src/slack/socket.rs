//! Socket Mode: events by a WebSocket that we open, for those who have no address that Slack could call.
//! A socket that Slack takes away, that falls silent or that breaks is replaced, the new one before the
//! old one is gone wherever Slack warns us. What is in an envelope is for the handler to know.

mod connect;
mod drive;
mod standing;
#[cfg(test)]
mod tests;

use super::api::{Slack, SlackError, SlackSetupError};
use super::tokens::BotToken;
use async_trait::async_trait;
use bytes::Bytes;
use connect::{Connect, ConnectError, OverHttp};
use drive::{End, Line, News, Said};
use interzone_edge::tls::Trust;
use interzone_hub::{IdSource, RandomIds};
use standing::Standing;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// A socket that lived so long was a good one: its successor is opened at once.
const GOOD: Duration = Duration::from_secs(30);
/// The wait after the first failure, and the most there is.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// The least wait where it is not the network that is wrong: Slack has too many sockets of ours, or does
/// not want the token.
const LONG_WAIT: Duration = Duration::from_secs(30);
/// How long sockets may take to end when we are asked to stop.
const FAREWELL: Duration = Duration::from_secs(10);
const DISABLED: &str = "Socket Mode is turned off for this app: turn it on at the app's page";

/// What became of an envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ack {
    /// It is kept or needs no keeping: Slack is told so.
    Done,
    /// It could not be kept: Slack is told nothing, and sends it again.
    Later,
}

/// Takes envelopes.
#[async_trait]
pub trait Envelopes: Send + Sync {
    /// Takes one: its kind (`events_api`, `interactive`, …) and its payload in JSON, as it came.
    ///
    /// Slack waits three seconds for the answer, and an envelope may come more than once.
    async fn envelope(&self, kind: &str, payload: Bytes) -> Ack;
}

/// How it stands with the socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SocketState {
    /// There is none yet, or no more.
    Connecting,
    /// Events come.
    Connected,
    /// Slack does not give us one, and why: nothing will change by itself.
    Refused(String),
}

/// Why there will be no more sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// We were asked to stop.
    Asked,
    /// Somebody turned Socket Mode off for the app.
    LinkDisabled,
}

/// The client of Socket Mode.
pub struct SocketMode {
    connect: Arc<dyn Connect>,
    handler: Arc<dyn Envelopes>,
    standing: Arc<Standing>,
}

impl SocketMode {
    /// Sets it up with the app's own token (`xapp-…`). It connects to nobody yet.
    ///
    /// # Errors
    /// No HTTP client can be made.
    pub fn new(
        slack: Slack,
        app_token: BotToken,
        trust: &Trust,
        handler: Arc<dyn Envelopes>,
    ) -> Result<Self, SlackSetupError> {
        let connect = OverHttp::new(slack, app_token, trust)?;
        Ok(Self::over(Arc::new(connect), handler))
    }

    fn over(connect: Arc<dyn Connect>, handler: Arc<dyn Envelopes>) -> Self {
        Self {
            connect,
            handler,
            standing: Standing::new(),
        }
    }

    /// How it stands, now and whenever it changes.
    pub fn state(&self) -> watch::Receiver<SocketState> {
        self.standing.watch()
    }

    /// Keeps a socket open until it is told to stop, or Socket Mode is turned off.
    pub async fn run(&self, stop: CancellationToken) -> Stopped {
        let stop = stop.child_token();
        let (tell, mut news) = mpsc::channel(16);
        let mut lines = JoinSet::new();
        let mut failures = 0;
        let mut wait = Duration::ZERO;
        let mut id = 0;
        let stopped = loop {
            let opened = async {
                tokio::time::sleep(wait).await;
                self.connect.connect().await
            };
            let opened = tokio::select! {
                () = stop.cancelled() => break Stopped::Asked,
                opened = opened => opened,
            };
            let socket = match opened {
                Ok(socket) => socket,
                Err(error) => {
                    failures += 1;
                    wait = self.failed(&error, failures);
                    continue;
                }
            };
            id += 1;
            let line = Line {
                id,
                handler: Arc::clone(&self.handler),
                news: tell.clone(),
                standing: Arc::clone(&self.standing),
                stop: stop.clone(),
            };
            let task = lines.spawn(line.drive(socket)).id();
            match until_another_is_needed(id, task, &mut news, &mut lines, &stop).await {
                Said::Leaving { lived } => wait = replaced(&mut failures, lived),
                Said::Ended(End::Gone { why, lived }) => {
                    tracing::info!(why, "the socket to slack ended");
                    wait = replaced(&mut failures, lived);
                }
                Said::Ended(End::TooMany) => {
                    tracing::warn!("slack has too many sockets of this app: stop other nodes");
                    failures += 1;
                    wait = backoff(failures).max(jittered(LONG_WAIT));
                }
                Said::Ended(End::LinkDisabled) => break Stopped::LinkDisabled,
            }
        };
        // Those that are still there finish what they began.
        stop.cancel();
        let ended = async { while lines.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(FAREWELL, ended).await;
        lines.shutdown().await;
        self.standing.ended(match stopped {
            Stopped::Asked => SocketState::Connecting,
            Stopped::LinkDisabled => {
                tracing::error!("{DISABLED}");
                SocketState::Refused(DISABLED.to_owned())
            }
        });
        stopped
    }

    /// How long to wait after no socket could be had.
    fn failed(&self, error: &ConnectError, failures: u32) -> Duration {
        let mut wait = backoff(failures);
        let mut state = SocketState::Connecting;
        if let ConnectError::Slack(error) = error {
            if let Some(after) = error.retry_after() {
                wait = wait.max(after);
            } else if !error.may_pass() {
                wait = wait.max(jittered(LONG_WAIT));
                state = SocketState::Refused(refusal(error));
            }
        }
        tracing::warn!(%error, failures, "no socket to slack");
        self.standing.failed(state);
        wait
    }
}

/// Waits until the socket with this number will be or is no more.
async fn until_another_is_needed(
    id: u64,
    task: tokio::task::Id,
    news: &mut mpsc::Receiver<News>,
    lines: &mut JoinSet<()>,
    stop: &CancellationToken,
) -> Said {
    let gone = |why| Said::Ended(End::Gone { why, lived: None });
    loop {
        tokio::select! {
            // What a socket said counts more than that it is over.
            biased;
            () = stop.cancelled() => return gone("we stop"),
            heard = news.recv() => match heard {
                Some(news) if news.id == id => return news.said,
                // Of an old one, which has a successor.
                Some(_) => {}
                None => return gone("nobody is there"),
            },
            Some(over) = lines.join_next_with_id() => {
                let over = over.map_or_else(|error| error.id(), |(task, ())| task);
                if over == task {
                    return gone("it ended without a word");
                }
            }
        }
    }
}

impl fmt::Debug for SocketMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SocketMode")
            .field("state", &self.standing.now())
            .finish_non_exhaustive()
    }
}

fn refusal(error: &SlackError) -> String {
    let word = error.word();
    format!("slack gives no socket (`{word}`): check `app_token_file` and that Socket Mode is on")
}

/// How long to wait for the successor of a socket that said hello so long ago, or never.
fn replaced(failures: &mut u32, lived: Option<Duration>) -> Duration {
    if lived.is_some_and(|lived| lived >= GOOD) {
        *failures = 0;
        return Duration::ZERO;
    }
    *failures += 1;
    backoff(*failures)
}

/// Twice as long after each failure, so that nobody hammers at a door that is shut.
fn backoff(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(10);
    jittered((FIRST_WAIT * (1 << doublings)).min(LONGEST_WAIT))
}

/// Between half and all of it, so that many nodes do not come at once.
fn jittered(wait: Duration) -> Duration {
    let half = wait / 2;
    let part = u32::try_from(RandomIds.random() % 1024).unwrap_or(0);
    half + half * part / 1024
}
