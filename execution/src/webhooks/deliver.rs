//! One entry of the outbox, carried to its receiver.

use super::sign::{put, sign};
use super::{CHANNEL, Target};
use crate::events::{Notice, notices};
use axum::http::header::{CONTENT_TYPE, USER_AGENT};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use bytes::Bytes;
use interzone_edge::Secret;
use interzone_edge::egress::{Egress, EgressLimits};
use interzone_hub::{Caller, Event, EventBody, Hub, HubError, OutboxEntry, RetryPolicy, Subject};
use interzone_protocol::vocab::{SubscriptionId, TaskId, Timestamp};
use serde::Deserialize;
use std::time::Duration;

const SUBSCRIPTION: HeaderName = HeaderName::from_static("x-webhook-id");
const EVENT: HeaderName = HeaderName::from_static("x-event-id");
const DELIVERY: HeaderName = HeaderName::from_static("x-delivery-id");

/// For how long it is remembered that one of several notifications has arrived: longer than any entry
/// is tried.
const REMEMBER: Duration = Duration::from_secs(7 * 24 * 3_600);

/// How webhooks are sent.
#[derive(Clone, Debug, Default)]
pub struct WebhookOptions {
    /// What they are signed with; without it they are not.
    pub secret: Option<Secret>,
    /// Whether only the params are sent, without the envelope around them.
    pub bare: bool,
    /// When they are tried again.
    pub retry: RetryPolicy,
}

/// What the hub wrote into the entry.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Payload {
    push: Target,
    push_id: SubscriptionId,
    task_id: TaskId,
    seq: u64,
    at: Timestamp,
    event: EventBody,
}

/// What became of a notification.
enum Sent {
    Arrived,
    Failed {
        why: String,
        wait: Option<Duration>,
        may_help: bool,
        gone: bool,
    },
}

/// Carries one entry of [`CHANNEL`], and tells the hub what became of it. Answers whether all of it
/// arrived.
///
/// A receiver that answers 410 wants nothing more: its subscription is ended. An address that may not
/// be reached is given up at once. Everything else is tried again, after the wait that the receiver
/// asks for if it is longer than ours.
///
/// # Errors
/// The store did not do it; the entry is due again when its hold is over.
pub async fn deliver(
    hub: &Hub,
    egress: &Egress,
    entry: &OutboxEntry,
    options: &WebhookOptions,
) -> Result<bool, HubError> {
    let Ok(payload) = entry.payload.decode::<Payload>() else {
        let why = "the entry cannot be read";
        hub.did_not_arrive(entry, &options.retry, why, None, false)
            .await?;
        return Ok(false);
    };
    let owner = Caller::new(entry.owner.clone());
    if !is_wanted(hub, &payload).await? {
        // The subscription was ended while this waited.
        hub.arrived(entry).await?;
        return Ok(true);
    }
    let event = Event {
        subject: Subject::Task(payload.task_id.clone()),
        seq: payload.seq,
        at: payload.at,
        body: payload.event.clone(),
    };
    let mut wanted = notices(hub, &event).await?;
    wanted.retain(|notice| {
        notice
            .event
            .is_some_and(|event| payload.push.events.contains(&event))
    });
    let count = wanted.len();
    for (index, notice) in wanted.into_iter().enumerate() {
        let last = index + 1 == count;
        let mark = format!("{CHANNEL}/{}/{index}", entry.id);
        if !last && entry.attempt > 1 && arrived_before(hub, &mark).await? {
            continue;
        }
        match send(hub, egress, entry, &payload, index, &notice, options).await {
            Sent::Arrived if last => {}
            Sent::Arrived => {
                hub.receive(&[mark], REMEMBER, Vec::new()).await?;
            }
            Sent::Failed {
                why,
                wait,
                may_help,
                gone,
            } => {
                if gone {
                    hub.remove_push(&owner, &payload.task_id, &payload.push_id)
                        .await?;
                }
                hub.did_not_arrive(entry, &options.retry, &why, wait, may_help)
                    .await?;
                return Ok(false);
            }
        }
    }
    hub.arrived(entry).await?;
    Ok(true)
}

/// Whether the subscription is still there.
async fn is_wanted(hub: &Hub, payload: &Payload) -> Result<bool, HubError> {
    let pushes = hub.store().pushes(&payload.task_id).await?;
    Ok(pushes.iter().any(|push| push.id == payload.push_id))
}

async fn arrived_before(hub: &Hub, mark: &str) -> Result<bool, HubError> {
    let key = format!("inbox/{mark}");
    Ok(hub.store().claimed(&key, hub.now()).await?.is_some())
}

async fn send(
    hub: &Hub,
    egress: &Egress,
    entry: &OutboxEntry,
    payload: &Payload,
    index: usize,
    notice: &Notice,
    options: &WebhookOptions,
) -> Sent {
    let body: Bytes = if options.bare {
        notice.params.clone()
    } else {
        notice.json.clone()
    };
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(USER_AGENT, HeaderValue::from_static("interzone"));
    put(&mut headers, SUBSCRIPTION, payload.push_id.as_str());
    let event = format!("{}.{}.{index}", payload.task_id, payload.seq);
    put(&mut headers, EVENT, &event);
    put(&mut headers, DELIVERY, &format!("{}.{index}", entry.id));
    let seconds = hub.now().as_millis().div_euclid(1_000);
    sign(&mut headers, options.secret.as_ref(), seconds, &body);
    let limits = EgressLimits::default();
    match egress.post(&payload.push.url, headers, body, limits).await {
        Ok(reply) if reply.status.is_success() => Sent::Arrived,
        Ok(reply) => {
            let gone = reply.status == StatusCode::GONE;
            Sent::Failed {
                why: format!("the receiver answered {}", reply.status.as_u16()),
                wait: reply.retry_after,
                may_help: !gone,
                gone,
            }
        }
        Err(error) => Sent::Failed {
            why: error.to_string(),
            wait: None,
            may_help: error.may_pass(),
            gone: false,
        },
    }
}
