//! Delivery of outbox entries to webhook receivers.

use super::sign::{insert_header, sign};
use super::{WEBHOOK_CHANNEL, WebhookTarget};
use crate::notifications::{Format, RenderedNotification};
use async_trait::async_trait;
use axum::http::header::{CONTENT_TYPE, USER_AGENT};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use bytes::Bytes;
use interzone_delivery::{DeliveryHandler, DeliveryOutcome};
use interzone_edge::Secret;
use interzone_edge::egress::{Egress, EgressLimits};
use interzone_hub::{Caller, Event, EventBody, Hub, HubError, OutboxEntry, Subject};
use interzone_protocol::vocab::{SubscriptionId, TaskId, Timestamp};
use serde::Deserialize;
use std::time::Duration;

const SUBSCRIPTION_ID: HeaderName = HeaderName::from_static("x-webhook-id");
const EVENT_ID: HeaderName = HeaderName::from_static("x-event-id");
const DELIVERY_ID: HeaderName = HeaderName::from_static("x-delivery-id");

/// Lifetime of the marker for a delivered notification: longer than any entry is retried.
const DELIVERED_MARK_TTL: Duration = Duration::from_secs(7 * 24 * 3_600);

/// Delivers webhooks.
///
/// A receiver that answers 410 is unsubscribed. A blocked URL is dead-lettered at once. All other failures are
/// retried, after the receiver's `Retry-After` if that is longer than the backoff.
#[derive(Clone)]
pub struct WebhookDelivery {
    /// The hub with the subscriptions.
    pub hub: Hub,
    /// Guarded HTTP client.
    pub egress: Egress,
    /// Signing key; without it webhooks are not signed.
    pub secret: Option<Secret>,
    /// True if only the params are sent, without the JSON-RPC envelope.
    pub params_only: bool,
}

/// Payload of the outbox entry, written by the hub.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WebhookPayload {
    push: WebhookTarget,
    /// Name of the subscription's format.
    format: String,
    push_id: SubscriptionId,
    task_id: TaskId,
    seq: u64,
    at: Timestamp,
    event: EventBody,
}

#[async_trait]
impl DeliveryHandler for WebhookDelivery {
    async fn deliver(&self, entry: &OutboxEntry) -> Result<DeliveryOutcome, HubError> {
        let hub = &self.hub;
        let Ok(payload) = entry.payload.decode::<WebhookPayload>() else {
            return Ok(DeliveryOutcome::failed(
                "the outbox entry cannot be decoded",
            ));
        };
        if !is_subscription_active(hub, &payload).await? {
            // The subscription ended while the entry waited.
            return Ok(DeliveryOutcome::Delivered);
        }
        let Some(format) = Format::from_name(&payload.format) else {
            return Ok(DeliveryOutcome::failed(
                "this version cannot deliver in the format of the subscription",
            ));
        };
        let notifications = subscribed_notifications(hub, &payload, format).await?;
        let count = notifications.len();
        for (index, (kind, notification)) in notifications.iter().enumerate() {
            let is_last = index + 1 == count;
            let key = format!("{WEBHOOK_CHANNEL}/{}/{kind}", entry.id);
            if !is_last && entry.attempt > 1 && is_delivered(hub, &key).await? {
                continue;
            }
            if let Err(failure) = self.send(hub, entry, &payload, kind, notification).await {
                return finish_failed(hub, entry, &payload, failure).await;
            }
            if !is_last {
                hub.accept_once(&[key], DELIVERED_MARK_TTL, Vec::new())
                    .await?;
            }
        }
        Ok(DeliveryOutcome::Delivered)
    }
}

/// A failed delivery.
struct WebhookFailure {
    reason: String,
    retry_after: Option<Duration>,
    is_retryable: bool,
    is_gone: bool,
}

async fn finish_failed(
    hub: &Hub,
    entry: &OutboxEntry,
    payload: &WebhookPayload,
    failure: WebhookFailure,
) -> Result<DeliveryOutcome, HubError> {
    if failure.is_gone {
        let owner = Caller::new(entry.owner.clone());
        hub.remove_push_subscription(&owner, &payload.task_id, &payload.push_id)
            .await?;
    }
    let WebhookFailure {
        reason,
        retry_after,
        ..
    } = failure;
    Ok(match failure.is_retryable {
        true => DeliveryOutcome::Retry {
            reason,
            retry_after,
        },
        false => DeliveryOutcome::Failed { reason },
    })
}

/// Renders the notifications of the event that the subscription asks for, each with its event name.
async fn subscribed_notifications(
    hub: &Hub,
    payload: &WebhookPayload,
    format: Format,
) -> Result<Vec<(&'static str, RenderedNotification)>, HubError> {
    let event = Event {
        subject: Subject::Task(payload.task_id.clone()),
        seq: payload.seq,
        generation: None,
        at: payload.at,
        body: payload.event.clone(),
    };
    let subscribed = |notification: RenderedNotification| {
        let kind = notification.event?;
        let mut events = payload.push.events.iter();
        let is_subscribed = events.any(|event| event.name() == kind);
        is_subscribed.then_some((kind, notification))
    };
    let notifications = format.renderer().render_event(hub, &event, None).await?;
    Ok(notifications.into_iter().filter_map(subscribed).collect())
}

/// True if the subscription still exists.
async fn is_subscription_active(hub: &Hub, payload: &WebhookPayload) -> Result<bool, HubError> {
    let pushes = hub.store().push_subscriptions(&payload.task_id).await?;
    Ok(pushes.iter().any(|push| push.id == payload.push_id))
}

async fn is_delivered(hub: &Hub, key: &str) -> Result<bool, HubError> {
    let key = format!("inbox/{key}");
    Ok(hub.store().claimed_value(&key, hub.now()).await?.is_some())
}

impl WebhookDelivery {
    async fn send(
        &self,
        hub: &Hub,
        entry: &OutboxEntry,
        payload: &WebhookPayload,
        kind: &str,
        notification: &RenderedNotification,
    ) -> Result<(), WebhookFailure> {
        let body: Bytes = if self.params_only {
            notification.params.clone()
        } else {
            notification.json.clone()
        };
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(USER_AGENT, HeaderValue::from_static("interzone"));
        insert_header(&mut headers, SUBSCRIPTION_ID, payload.push_id.as_str());
        let event_id = format!("{}.{}.{kind}", payload.task_id, payload.seq);
        insert_header(&mut headers, EVENT_ID, &event_id);
        insert_header(&mut headers, DELIVERY_ID, &format!("{}.{kind}", entry.id));
        let seconds = hub.now().as_millis().div_euclid(1_000);
        sign(&mut headers, self.secret.as_ref(), seconds, &body);
        let limits = EgressLimits::default();
        let sent = self.egress.post(&payload.push.url, headers, body, limits);
        match sent.await {
            Ok(reply) if reply.status.is_success() => Ok(()),
            Ok(reply) => {
                let is_gone = reply.status == StatusCode::GONE;
                Err(WebhookFailure {
                    reason: format!("the receiver answered {}", reply.status.as_u16()),
                    retry_after: reply.retry_after,
                    is_retryable: !is_gone,
                    is_gone,
                })
            }
            Err(error) => Err(WebhookFailure {
                reason: error.to_string(),
                retry_after: None,
                is_retryable: error.is_retryable(),
                is_gone: false,
            }),
        }
    }
}
