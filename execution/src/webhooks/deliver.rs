//! One entry of the outbox, carried to its receiver.

use super::sign::{put, sign};
use super::{CHANNEL, Target};
use crate::events::{Notice, notices};
use crate::workers::{Carried, Carrier};
use async_trait::async_trait;
use axum::http::header::{CONTENT_TYPE, USER_AGENT};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use bytes::Bytes;
use interzone_edge::Secret;
use interzone_edge::egress::{Egress, EgressLimits};
use interzone_hub::{Caller, Event, EventBody, Hub, HubError, OutboxEntry, Subject};
use interzone_protocol::vocab::{SubscriptionId, TaskId, Timestamp};
use serde::Deserialize;
use std::time::Duration;

const SUBSCRIPTION: HeaderName = HeaderName::from_static("x-webhook-id");
const EVENT: HeaderName = HeaderName::from_static("x-event-id");
const DELIVERY: HeaderName = HeaderName::from_static("x-delivery-id");

/// For how long it is remembered that one of several notifications has arrived: longer than any entry
/// is tried.
const REMEMBER: Duration = Duration::from_secs(7 * 24 * 3_600);

/// Carries webhooks to their receivers.
///
/// A receiver that answers 410 wants nothing more: its subscription is ended. An address that may not
/// be reached is given up at once. Everything else is tried again, after the wait that the receiver
/// asks for if it is longer than ours.
#[derive(Clone, Debug)]
pub struct WebhookCarrier {
    /// The guarded way out.
    pub egress: Egress,
    /// What they are signed with; without it they are not.
    pub secret: Option<Secret>,
    /// Whether only the params are sent, without the envelope around them.
    pub bare: bool,
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

#[async_trait]
impl Carrier for WebhookCarrier {
    async fn carry(&self, hub: &Hub, entry: &OutboxEntry) -> Result<Carried, HubError> {
        let Ok(payload) = entry.payload.decode::<Payload>() else {
            return Ok(Carried::Failed {
                why: "the entry cannot be read".to_owned(),
                wait: None,
                may_help: false,
            });
        };
        if !is_wanted(hub, &payload).await? {
            // The subscription was ended while this waited.
            return Ok(Carried::Arrived);
        }
        let wanted = wanted(hub, &payload).await?;
        let count = wanted.len();
        for (index, (kind, notice)) in wanted.iter().enumerate() {
            let last = index + 1 == count;
            let mark = format!("{CHANNEL}/{}/{kind}", entry.id);
            if !last && entry.attempt > 1 && arrived_before(hub, &mark).await? {
                continue;
            }
            if let Err(failed) = self.send(hub, entry, &payload, kind, notice).await {
                return end_if_gone(hub, entry, &payload, failed).await;
            }
            if !last {
                hub.receive(&[mark], REMEMBER, Vec::new()).await?;
            }
        }
        Ok(Carried::Arrived)
    }
}

/// A notification that did not arrive.
struct Failed {
    why: String,
    wait: Option<Duration>,
    may_help: bool,
    gone: bool,
}

async fn end_if_gone(
    hub: &Hub,
    entry: &OutboxEntry,
    payload: &Payload,
    failed: Failed,
) -> Result<Carried, HubError> {
    if failed.gone {
        let owner = Caller::new(entry.owner.clone());
        hub.remove_push(&owner, &payload.task_id, &payload.push_id)
            .await?;
    }
    Ok(Carried::Failed {
        why: failed.why,
        wait: failed.wait,
        may_help: failed.may_help,
    })
}

/// The notifications that the event is and the subscription wants, each under the name of what it tells.
async fn wanted(hub: &Hub, payload: &Payload) -> Result<Vec<(&'static str, Notice)>, HubError> {
    let event = Event {
        subject: Subject::Task(payload.task_id.clone()),
        seq: payload.seq,
        at: payload.at,
        body: payload.event.clone(),
    };
    let wanted = |notice: Notice| {
        let kind = notice.event?;
        let wanted = payload.push.events.contains(&kind);
        wanted.then_some((kind.name(), notice))
    };
    let notices = notices(hub, &event, None).await?;
    Ok(notices.into_iter().filter_map(wanted).collect())
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

impl WebhookCarrier {
    async fn send(
        &self,
        hub: &Hub,
        entry: &OutboxEntry,
        payload: &Payload,
        kind: &str,
        notice: &Notice,
    ) -> Result<(), Failed> {
        let body: Bytes = if self.bare {
            notice.params.clone()
        } else {
            notice.json.clone()
        };
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(USER_AGENT, HeaderValue::from_static("interzone"));
        put(&mut headers, SUBSCRIPTION, payload.push_id.as_str());
        let event = format!("{}.{}.{kind}", payload.task_id, payload.seq);
        put(&mut headers, EVENT, &event);
        put(&mut headers, DELIVERY, &format!("{}.{kind}", entry.id));
        let seconds = hub.now().as_millis().div_euclid(1_000);
        sign(&mut headers, self.secret.as_ref(), seconds, &body);
        let limits = EgressLimits::default();
        let sent = self.egress.post(&payload.push.url, headers, body, limits);
        match sent.await {
            Ok(reply) if reply.status.is_success() => Ok(()),
            Ok(reply) => {
                let gone = reply.status == StatusCode::GONE;
                Err(Failed {
                    why: format!("the receiver answered {}", reply.status.as_u16()),
                    wait: reply.retry_after,
                    may_help: !gone,
                    gone,
                })
            }
            Err(error) => Err(Failed {
                why: error.to_string(),
                wait: None,
                may_help: error.may_pass(),
                gone: false,
            }),
        }
    }
}
