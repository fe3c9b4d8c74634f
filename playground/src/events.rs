//! Telling the app what happens: one loop takes what waits, lets go wrong what is to go wrong, and hands
//! each event to its delivery. How a request is signed and what a socket says is below.

pub(crate) mod links;
pub(crate) mod sign;

use crate::faults::EventFault;
use crate::options::Mode;
use crate::shared::{Shared, locked};
use crate::workspace::Outgoing;
use crate::workspace::log::Delivery;
use http::header::CONTENT_TYPE;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use url::Url;

/// Deliveries at the same time, those included that wait for their next attempt.
const AT_ONCE: usize = 4_096;

/// Why something did not arrive, in Slack's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failed {
    TimedOut,
    Refused,
    Unreachable,
    /// The app does not want it again.
    Final,
}

impl Failed {
    const fn word(self) -> &'static str {
        match self {
            Self::TimedOut => "http_timeout",
            Self::Refused | Self::Final => "http_error",
            Self::Unreachable => "connection_failed",
        }
    }
}

/// Sends what waits, until the stop.
pub(crate) async fn run(shared: Arc<Shared>) {
    let mut changes = shared.watch();
    let room = Arc::new(Semaphore::new(AT_ONCE));
    let mut held = Vec::new();
    loop {
        while let Some(next) = shared.next_outgoing() {
            let Some(batch) = ordered(&shared, next, &mut held) else {
                continue;
            };
            let permit = tokio::select! {
                () = shared.stop.cancelled() => return,
                permit = Arc::clone(&room).acquire_owned() => permit,
            };
            let shared = Arc::clone(&shared);
            tokio::spawn(async move {
                let _permit = permit;
                tokio::select! {
                    () = shared.stop.cancelled() => {}
                    () = bring(&shared, batch) => {}
                }
            });
        }
        tokio::select! {
            () = shared.stop.cancelled() => return,
            changed = changes.changed() => if changed.is_err() { return },
        }
    }
}

/// What is sent together, one after the other, and how much later.
struct Batch {
    all: Vec<Outgoing>,
    later: Duration,
}

/// What becomes of the next event by the faults that were ordered; nothing if it is held back.
fn ordered(shared: &Shared, next: Outgoing, held: &mut Vec<Outgoing>) -> Option<Batch> {
    let mut batch = Batch {
        all: vec![next],
        later: Duration::ZERO,
    };
    if batch.all.iter().any(|one| one.interactive) {
        return Some(batch);
    }
    let mut plan = locked(&shared.plan);
    let Some(fault) = plan.events.first_mut() else {
        return Some(batch);
    };
    let (EventFault::Duplicate { events, .. }
    | EventFault::Reverse { events }
    | EventFault::Delay { events, .. }) = fault;
    *events = events.saturating_sub(1);
    let over = *events == 0;
    let fault = *fault;
    if over {
        plan.events.remove(0);
    }
    drop(plan);
    match fault {
        EventFault::Duplicate { copies, .. } => {
            let copies = usize::try_from(copies.clamp(1, 100)).unwrap_or(1);
            batch.all = std::iter::repeat_n(batch.all, copies).flatten().collect();
        }
        EventFault::Reverse { .. } => {
            held.append(&mut batch.all);
            if !over {
                return None;
            }
            batch.all = held.drain(..).rev().collect();
        }
        EventFault::Delay { by, .. } => batch.later = by,
    }
    Some(batch)
}

/// Brings what is in a batch: first each once, in order, then again what did not arrive.
async fn bring(shared: &Arc<Shared>, batch: Batch) {
    if !batch.later.is_zero() {
        tokio::time::sleep(batch.later).await;
    }
    let mut missing = Vec::new();
    for one in batch.all {
        match attempt(shared, &one, 0, None).await {
            Err(why) if why != Failed::Final && !one.interactive => missing.push((one, why)),
            _ => {}
        }
    }
    for (one, mut why) in missing {
        for (at, wait) in shared.retry_delays.iter().enumerate() {
            tokio::time::sleep(*wait).await;
            match attempt(shared, &one, at + 1, Some(why)).await {
                Ok(()) | Err(Failed::Final) => break,
                Err(again) => why = again,
            }
        }
    }
}

async fn attempt(
    shared: &Shared,
    one: &Outgoing,
    attempt: usize,
    before: Option<Failed>,
) -> Result<(), Failed> {
    let began = Instant::now();
    let outcome = match shared.mode {
        Mode::Socket => {
            let reason = before.map(Failed::word);
            let sent = shared.links.deliver(one, attempt, reason, shared.ack_time);
            sent.await
        }
        Mode::Events => {
            let target = locked(&shared.target).clone();
            let url = match one.interactive {
                true => target.interactions,
                false => target.events,
            };
            match url {
                Some(url) => post(shared, url, one, attempt, before).await,
                None => Err(Failed::Unreachable),
            }
        }
    };
    shared.change(|workspace| {
        workspace.log_delivery(Delivery {
            id: one.id.clone(),
            kind: one.kind.clone(),
            attempt,
            outcome: match outcome {
                Ok(()) => "ok".to_owned(),
                Err(why) => why.word().to_owned(),
            },
            took: began.elapsed(),
        });
    });
    outcome
}

/// The bytes of a request to the app, and their type.
fn body(one: &Outgoing) -> (String, &'static str) {
    if one.interactive {
        let form = url::form_urlencoded::Serializer::new(String::new())
            .append_pair("payload", &one.payload.to_string())
            .finish();
        (form, "application/x-www-form-urlencoded")
    } else {
        (one.payload.to_string(), "application/json")
    }
}

async fn post(
    shared: &Shared,
    url: Url,
    one: &Outgoing,
    attempt: usize,
    before: Option<Failed>,
) -> Result<(), Failed> {
    let (body, kind) = body(one);
    let mut request = signed(shared, url, body, kind);
    if let Some(why) = before {
        request = request
            .header("X-Slack-Retry-Num", attempt)
            .header("X-Slack-Retry-Reason", why.word());
    }
    let answer = match tokio::time::timeout(shared.ack_time, request.send()).await {
        Err(_) => return Err(Failed::TimedOut),
        Ok(Err(_)) => return Err(Failed::Unreachable),
        Ok(Ok(answer)) => answer,
    };
    let no_retry = answer.headers().get("x-slack-no-retry");
    let no_retry = no_retry.is_some_and(|value| value.as_bytes() == b"1");
    match answer.status().is_success() {
        true => Ok(()),
        false if no_retry => Err(Failed::Final),
        false => Err(Failed::Refused),
    }
}

/// A request to the app that carries its proof.
fn signed(shared: &Shared, url: Url, body: String, kind: &str) -> reqwest::RequestBuilder {
    let now = shared.look(|workspace| workspace.clock.unix()).to_string();
    let signature = sign::signature(&shared.signing_secret, &now, body.as_bytes());
    shared
        .http
        .post(url)
        .header(CONTENT_TYPE, kind)
        .header("X-Slack-Request-Timestamp", now)
        .header("X-Slack-Signature", signature)
        .header("User-Agent", "Slackbot 1.0 (+https://api.slack.com/robots)")
        .body(body)
}

/// Asks the app to prove that it answers at its URL, as Slack does when one is entered.
pub(crate) async fn verify_url(shared: &Shared) -> bool {
    let Some(url) = locked(&shared.target).events.clone() else {
        return false;
    };
    let challenge = uuid::Uuid::new_v4().simple().to_string();
    let body = serde_json::json!({
        "token": "playground", "challenge": challenge, "type": "url_verification",
    });
    let request = signed(shared, url, body.to_string(), "application/json");
    let answer = async {
        let answer = request.send().await.ok()?;
        let good = answer.status().is_success();
        let text = answer.text().await.ok().filter(|_| good)?;
        let said = serde_json::from_str::<Value>(&text).ok();
        let said = said.and_then(|json| Some(json.get("challenge")?.as_str()?.to_owned()));
        Some(said.unwrap_or(text) == challenge)
    };
    let answer = tokio::time::timeout(shared.ack_time, answer).await;
    answer.ok().flatten().unwrap_or(false)
}
