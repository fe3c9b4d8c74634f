//! Event delivery: one loop takes queued events, applies injected faults, and starts their delivery with retries.

pub(crate) mod signature;
pub(crate) mod sockets;

use crate::faults::EventFault;
use crate::options::DeliveryMode;
use crate::state::{PlaygroundState, lock};
use crate::workspace::OutgoingEvent;
use crate::workspace::log::EventDelivery;
use http::header::CONTENT_TYPE;
use interzone_edge::limited_body;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use url::Url;

/// Maximum concurrent deliveries, including those that wait for a retry.
const MAX_DELIVERIES: usize = 4_096;
/// Maximum size of the answer to a challenge.
const MAX_ANSWER_BYTES: usize = 64 << 10;

/// Delivery failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeliveryFailure {
    TimedOut,
    Refused,
    Unreachable,
    /// The app declined retries.
    Final,
}

impl DeliveryFailure {
    const fn reason(self) -> &'static str {
        match self {
            Self::TimedOut => "http_timeout",
            Self::Refused | Self::Final => "http_error",
            Self::Unreachable => "connection_failed",
        }
    }
}

/// Delivers queued events until stopped.
pub(crate) async fn run(shared: Arc<PlaygroundState>) {
    let mut changes = shared.subscribe();
    let permits = Arc::new(Semaphore::new(MAX_DELIVERIES));
    let mut held_back = Vec::new();
    loop {
        while let Some(next) = shared.next_event() {
            let Some(batch) = apply_event_faults(&shared, next, &mut held_back) else {
                continue;
            };
            let permit = tokio::select! {
                () = shared.stop.cancelled() => return,
                permit = Arc::clone(&permits).acquire_owned() => permit,
            };
            let shared = Arc::clone(&shared);
            tokio::spawn(async move {
                let _permit = permit;
                tokio::select! {
                    () = shared.stop.cancelled() => {}
                    () = deliver_batch(&shared, batch) => {}
                }
            });
        }
        tokio::select! {
            () = shared.stop.cancelled() => return,
            changed = changes.changed() => if changed.is_err() { return },
        }
    }
}

/// Events sent one after the other, after a delay.
struct EventBatch {
    events: Vec<OutgoingEvent>,
    delay: Duration,
}

/// Applies the injected event faults; returns `None` if the event is held back.
fn apply_event_faults(
    shared: &PlaygroundState,
    next: OutgoingEvent,
    held_back: &mut Vec<OutgoingEvent>,
) -> Option<EventBatch> {
    let mut batch = EventBatch {
        events: vec![next],
        delay: Duration::ZERO,
    };
    if batch.events.iter().any(|one| one.is_interaction) {
        return Some(batch);
    }
    let mut faults = lock(&shared.faults);
    let Some(fault) = faults.events.first_mut() else {
        return Some(batch);
    };
    let (EventFault::Duplicate { events, .. }
    | EventFault::Reverse { events }
    | EventFault::Delay { events, .. }) = fault;
    *events = events.saturating_sub(1);
    let is_done = *events == 0;
    let fault = *fault;
    if is_done {
        faults.events.remove(0);
    }
    drop(faults);
    match fault {
        EventFault::Duplicate { copies, .. } => {
            let copies = usize::try_from(copies.clamp(1, 100)).unwrap_or(1);
            batch.events = std::iter::repeat_n(batch.events, copies)
                .flatten()
                .collect();
        }
        EventFault::Reverse { .. } => {
            held_back.append(&mut batch.events);
            if !is_done {
                return None;
            }
            batch.events = held_back.drain(..).rev().collect();
        }
        EventFault::Delay { delay: by, .. } => batch.delay = by,
    }
    Some(batch)
}

/// Delivers a batch: each event once, in order, then retries of the failed ones.
async fn deliver_batch(shared: &Arc<PlaygroundState>, batch: EventBatch) {
    if !batch.delay.is_zero() {
        tokio::time::sleep(batch.delay).await;
    }
    let mut failed = Vec::new();
    for event in batch.events {
        match deliver_once(shared, &event, 0, None).await {
            Err(failure) if failure != DeliveryFailure::Final && !event.is_interaction => {
                failed.push((event, failure))
            }
            _ => {}
        }
    }
    for (event, mut failure) in failed {
        for (index, wait) in shared.retry_delays.iter().enumerate() {
            tokio::time::sleep(*wait).await;
            match deliver_once(shared, &event, index + 1, Some(failure)).await {
                Ok(()) | Err(DeliveryFailure::Final) => break,
                Err(again) => failure = again,
            }
        }
    }
}

async fn deliver_once(
    shared: &PlaygroundState,
    event: &OutgoingEvent,
    attempt: usize,
    previous_failure: Option<DeliveryFailure>,
) -> Result<(), DeliveryFailure> {
    let started_at = Instant::now();
    let outcome = match shared.mode {
        DeliveryMode::Socket => {
            let reason = previous_failure.map(DeliveryFailure::reason);
            let sent = shared
                .sockets
                .deliver(event, attempt, reason, shared.ack_timeout);
            sent.await
        }
        DeliveryMode::Events => {
            let target = lock(&shared.target).clone();
            let url = match event.is_interaction {
                true => target.interactions,
                false => target.events,
            };
            match url {
                Some(url) => post_event(shared, url, event, attempt, previous_failure).await,
                None => Err(DeliveryFailure::Unreachable),
            }
        }
    };
    shared.change(|workspace| {
        workspace.log_delivery(EventDelivery {
            id: event.id.clone(),
            kind: event.kind.clone(),
            attempt,
            outcome: match outcome {
                Ok(()) => "ok".to_owned(),
                Err(why) => why.reason().to_owned(),
            },
            duration: started_at.elapsed(),
        });
    });
    outcome
}

/// Returns the body of a request to the app, and its content type.
fn request_body(event: &OutgoingEvent) -> (String, &'static str) {
    if event.is_interaction {
        let form = url::form_urlencoded::Serializer::new(String::new())
            .append_pair("payload", &event.payload.to_string())
            .finish();
        (form, "application/x-www-form-urlencoded")
    } else {
        (event.payload.to_string(), "application/json")
    }
}

async fn post_event(
    shared: &PlaygroundState,
    url: Url,
    event: &OutgoingEvent,
    attempt: usize,
    previous_failure: Option<DeliveryFailure>,
) -> Result<(), DeliveryFailure> {
    let (body, content_type) = request_body(event);
    let mut request = signed_request(shared, url, body, content_type);
    if let Some(why) = previous_failure {
        request = request
            .header("X-Slack-Retry-Num", attempt)
            .header("X-Slack-Retry-Reason", why.reason());
    }
    let response = match tokio::time::timeout(shared.ack_timeout, request.send()).await {
        Err(_) => return Err(DeliveryFailure::TimedOut),
        Ok(Err(_)) => return Err(DeliveryFailure::Unreachable),
        Ok(Ok(answer)) => answer,
    };
    let no_retry = response.headers().get("x-slack-no-retry");
    let no_retry = no_retry.is_some_and(|value| value.as_bytes() == b"1");
    match response.status().is_success() {
        true => Ok(()),
        false if no_retry => Err(DeliveryFailure::Final),
        false => Err(DeliveryFailure::Refused),
    }
}

/// Builds a signed request to the app.
fn signed_request(
    shared: &PlaygroundState,
    url: Url,
    body: String,
    content_type: &str,
) -> reqwest::RequestBuilder {
    let now = shared
        .inspect(|workspace| workspace.clock.unix())
        .to_string();
    let signature = signature::signature(&shared.signing_secret, &now, body.as_bytes());
    shared
        .http
        .post(url)
        .header(CONTENT_TYPE, content_type)
        .header("X-Slack-Request-Timestamp", now)
        .header("X-Slack-Signature", signature)
        .header("User-Agent", "Slackbot 1.0 (+https://api.slack.com/robots)")
        .body(body)
}

/// Sends a URL verification challenge to the app, as Slack does when a URL is entered.
pub(crate) async fn verify_url(shared: &PlaygroundState) -> bool {
    let Some(url) = lock(&shared.target).events.clone() else {
        return false;
    };
    let challenge = uuid::Uuid::new_v4().simple().to_string();
    let body = serde_json::json!({
        "token": "playground", "challenge": challenge, "type": "url_verification",
    });
    let request = signed_request(shared, url, body.to_string(), "application/json");
    let verification = async {
        let answer = request.send().await.ok()?;
        let is_success = answer.status().is_success();
        let body = limited_body::read_all(answer, MAX_ANSWER_BYTES).await;
        let text = body.ok().filter(|_| is_success)?;
        let challenge_field = serde_json::from_slice::<Value>(&text).ok();
        let challenge_field =
            challenge_field.and_then(|json| Some(json.get("challenge")?.as_str()?.to_owned()));
        Some(match challenge_field {
            Some(field) => field == challenge,
            None => text == challenge,
        })
    };
    let answer = tokio::time::timeout(shared.ack_timeout, verification).await;
    answer.ok().flatten().unwrap_or(false)
}
