//! Events of the hub's log as notifications in the format of a dialect, for SSE and WebSocket watchers and for
//! webhooks.

mod render_cache;
mod sse;

pub(crate) use render_cache::{EventRenderCache, RenderError, RenderedEvent};

use crate::rpc::acp::AcpRenderer;
use async_trait::async_trait;
use bytes::Bytes;
use interzone_hub::{Event, Hub, HubError, ReadMemory};
use interzone_jsonrpc::{MethodName, Notification, RawJson};
use interzone_protocol::vocab::TaskId;
use serde::Serialize;

/// Format of what a watcher or a webhook receives: a dialect, in one of its versions. It is the key of both render
/// caches, and is stored with a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Acp,
    /// Second format for the tests of the caches.
    #[cfg(test)]
    Toy,
}

impl Format {
    /// Stable name, as stored.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Acp => "acp",
            #[cfg(test)]
            Self::Toy => "toy",
        }
    }

    /// Returns the format with this stored name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        let mut formats = [
            Self::Acp,
            #[cfg(test)]
            Self::Toy,
        ]
        .into_iter();
        formats.find(|format| format.name() == name)
    }

    /// Returns what renders events in this format.
    pub(crate) const fn renderer(self) -> &'static dyn EventRenderer {
        match self {
            Self::Acp => &AcpRenderer,
            #[cfg(test)]
            Self::Toy => &tests::ToyRenderer,
        }
    }
}

/// Renders events in one format.
#[async_trait]
pub(crate) trait EventRenderer: Sync {
    /// Renders the notifications of an event. Memory for large content is reserved before it is read. Events of a
    /// deleted task or stream yield none.
    async fn render_event(
        &self,
        hub: &Hub,
        event: &Event,
        memory: Option<&dyn ReadMemory>,
    ) -> Result<Vec<RenderedNotification>, HubError>;

    /// Renders a text delta that is not in the log yet. `None` if the format has only what is in the log.
    fn render_text_delta(
        &self,
        id: &TaskId,
        run: u64,
        offset: u64,
        delta: &str,
    ) -> Option<RenderedNotification>;
}

/// A rendered notification.
#[derive(Clone, Debug)]
pub(crate) struct RenderedNotification {
    /// Method name.
    pub(crate) method: &'static str,
    /// Name of the subscription event it belongs to, if subscriptions can ask for it.
    pub(crate) event: Option<&'static str>,
    /// The notification as JSON.
    pub(crate) json: Bytes,
    /// Its params as JSON.
    pub(crate) params: Bytes,
}

impl RenderedNotification {
    /// Creates a JSON-RPC notification; `None` if the params cannot be serialized.
    pub(crate) fn new<T: Serialize>(
        method: &'static str,
        event: Option<&'static str>,
        params: &T,
    ) -> Option<Self> {
        let params = RawJson::from_value(params).ok()?;
        let mut json = Vec::new();
        Notification::new(MethodName::new(method).ok()?)
            .with_params(params.borrowed())
            .write_to(&mut json);
        Some(Self {
            method,
            event,
            json: json.into(),
            params: Bytes::from(params.as_str().to_owned()),
        })
    }
}

#[cfg(test)]
mod tests;
