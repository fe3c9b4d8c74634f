//! Control handle of a running playground: start, act as users, inspect, wait, inject faults, stop.

mod error;
mod tokens;

pub use error::PlaygroundError;

use crate::events::{self, sockets::DisconnectReason};
use crate::faults::Faults;
use crate::http;
use crate::options::{PlaygroundOptions, is_loopback};
use crate::state::{AppUrls, PlaygroundState, lock};
use crate::user_actions::NewMessage;
use crate::workspace::Workspace;
use crate::workspace::channels::PlaygroundChannel;
use crate::workspace::messages::PlaygroundMessage;
use crate::workspace::users::PlaygroundUser;
use bytes::Bytes;
use interzone_edge::limits::HttpLimits;
use interzone_edge::listener::Listener;
use interzone_edge::telemetry::Metrics;
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use url::Url;

/// Maximum request body: a file and its form overhead.
const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;
/// Request timeout; a call may wait at a break point for as long as a test needs.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3600);
/// Grace period for open requests when the playground stops.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(1);

/// Files shared by a user.
#[derive(Clone, Debug, Default)]
pub struct FileShare<'a> {
    /// User id.
    pub user: &'a str,
    /// Channel id.
    pub channel: &'a str,
    /// Thread timestamp, if any.
    pub thread: Option<&'a str>,
    /// Message text.
    pub text: &'a str,
    /// File names and contents.
    pub files: Vec<(String, Bytes)>,
    /// True to send only the file id in the event, as for Slack Connect files that need `files.info`.
    pub is_stub: bool,
}

/// A running workspace. Dropping it stops it.
pub struct Playground {
    state: Arc<PlaygroundState>,
    address: SocketAddr,
    server: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Playground {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Playground")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

fn parse_target(url: &str) -> Result<Url, PlaygroundError> {
    let parsed = Url::parse(url).map_err(|_| PlaygroundError::BadUrl(url.to_owned()))?;
    match is_loopback(&parsed) {
        true => Ok(parsed),
        false => Err(PlaygroundError::NotLoopback(url.to_owned())),
    }
}

impl Playground {
    /// Starts a workspace.
    ///
    /// # Errors
    /// An address is not loopback or is in use.
    pub async fn start(options: PlaygroundOptions) -> Result<Self, PlaygroundError> {
        if !options.listen.ip().is_loopback() {
            return Err(PlaygroundError::NotLoopback(options.listen.to_string()));
        }
        let parse_optional = |url: &Option<String>| url.as_deref().map(parse_target).transpose();
        let target = AppUrls {
            events: parse_optional(&options.events_url)?,
            interactions: parse_optional(&options.interactions_url)?,
        };
        let http = options
            .trust
            .client()
            .timeout(options.ack_timeout.max(Duration::from_millis(1)));
        let http = http.build().map_err(PlaygroundError::Client)?;
        let limits = HttpLimits {
            body_bytes: MAX_BODY_BYTES,
            request_timeout: REQUEST_TIMEOUT,
            shares: interzone_edge::budget::Shares::FULL,
            ..HttpLimits::default()
        };
        let metrics = Arc::new(Metrics::new());
        let listener = Listener::bind_plain(options.listen, limits.clone(), metrics).await;
        let listener = listener.map_err(|source| PlaygroundError::Bind {
            address: options.listen,
            source,
        })?;
        let address = listener.local_addr();
        let base = format!("http://{address}");
        let shared = Arc::new(PlaygroundState::new(&options, target, base, http, limits));
        let app = http::router(Arc::clone(&shared));
        let serving = tokio::spawn({
            let shared = Arc::clone(&shared);
            async move {
                let serve = listener.serve(app, shared.stop.clone(), SHUTDOWN_GRACE);
                tokio::join!(serve, events::run(Arc::clone(&shared)));
            }
        });
        Ok(Self {
            state: shared,
            address,
            server: Some(serving),
        })
    }

    /// Returns the listen address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL of the chat page.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Returns the base URL of the API, with a trailing slash.
    pub fn api_url(&self) -> String {
        format!("http://{}/api/", self.address)
    }

    /// Sets the app's URLs for events and interactions.
    ///
    /// # Errors
    /// One of them is not a loopback URL.
    pub fn send_to(&self, events: &str, interactions: &str) -> Result<(), PlaygroundError> {
        let target = AppUrls {
            events: Some(parse_target(events)?),
            interactions: Some(parse_target(interactions)?),
        };
        *lock(&self.state.target) = target;
        Ok(())
    }

    /// Sends a URL verification challenge, as Slack does when a URL is entered; returns true if the app answers it.
    pub async fn verify_url(&self) -> bool {
        events::verify_url(&self.state).await
    }

    /// Returns the fault injection handle.
    pub fn faults(&self) -> Faults {
        Faults(Arc::clone(&self.state))
    }

    /// Inspects the workspace. It is locked while `look` runs, so `look` should be short.
    pub fn inspect<T>(&self, look: impl FnOnce(&Workspace) -> T) -> T {
        self.state.inspect(look)
    }

    /// Waits until `find` returns something; `None` on timeout. `find` is called again at every change.
    pub async fn wait_for<T>(
        &self,
        timeout: Duration,
        mut find: impl FnMut(&Workspace) -> Option<T>,
    ) -> Option<T> {
        let mut changes = self.state.subscribe();
        let search = async {
            loop {
                changes.borrow_and_update();
                if let Some(found) = self.state.inspect(&mut find) {
                    return Some(found);
                }
                changes.changed().await.ok()?;
            }
        };
        tokio::time::timeout(timeout, search).await.ok().flatten()
    }

    /// Returns a copy of a thread, oldest first.
    pub fn thread(&self, channel: &str, ts: &str) -> Vec<PlaygroundMessage> {
        self.inspect(|workspace| workspace.thread(channel, ts).into_iter().cloned().collect())
    }

    /// Posts a message as a user; returns its ts. `@name` becomes a mention.
    ///
    /// # Errors
    /// The user or channel does not exist, or the user may not post there.
    pub fn post(&self, user: &str, channel: &str, text: &str) -> Result<String, PlaygroundError> {
        self.post_message(user, channel, None, text, false)
    }

    /// Posts a reply in a thread.
    ///
    /// # Errors
    /// The user or the thread does not exist.
    pub fn reply(
        &self,
        user: &str,
        channel: &str,
        thread: &str,
        text: &str,
    ) -> Result<String, PlaygroundError> {
        self.post_message(user, channel, Some(thread), text, false)
    }

    /// Posts a reply in a thread that is also shown in the channel.
    ///
    /// # Errors
    /// The user or the thread does not exist.
    pub fn broadcast(
        &self,
        user: &str,
        channel: &str,
        thread: &str,
        text: &str,
    ) -> Result<String, PlaygroundError> {
        self.post_message(user, channel, Some(thread), text, true)
    }

    fn post_message(
        &self,
        user: &str,
        channel: &str,
        thread: Option<&str>,
        text: &str,
        broadcast: bool,
    ) -> Result<String, PlaygroundError> {
        let message = NewMessage {
            user,
            channel,
            thread,
            text,
            broadcast,
        };
        self.state.change(|workspace| workspace.post(&message))
    }

    /// Shares files as a user; returns the ts.
    ///
    /// # Errors
    /// The user or the thread does not exist, or the files are too large.
    pub fn upload(&self, upload: &FileShare<'_>) -> Result<String, PlaygroundError> {
        let message = NewMessage {
            user: upload.user,
            channel: upload.channel,
            thread: upload.thread,
            text: upload.text,
            broadcast: false,
        };
        let (files, stub) = (&upload.files, upload.is_stub);
        self.state
            .change(|workspace| workspace.share_files(&message, files, stub))
    }

    /// Edits a message of a user.
    ///
    /// # Errors
    /// It does not exist, or is another user's.
    pub fn edit(
        &self,
        user: &str,
        channel: &str,
        ts: &str,
        text: &str,
    ) -> Result<(), PlaygroundError> {
        self.state
            .change(|workspace| workspace.edit(user, channel, ts, text))
    }

    /// Deletes a message of a user.
    ///
    /// # Errors
    /// It does not exist, or is another user's.
    pub fn delete(&self, user: &str, channel: &str, ts: &str) -> Result<(), PlaygroundError> {
        self.state
            .change(|workspace| workspace.delete(user, channel, ts))
    }

    /// Presses a button on a message, including ephemeral ones. `value` selects one of the two feedback buttons.
    ///
    /// # Errors
    /// There is no such button, or the user cannot see it.
    pub fn press(
        &self,
        user: &str,
        channel: &str,
        ts: &str,
        action: &str,
        value: Option<&str>,
    ) -> Result<(), PlaygroundError> {
        self.state
            .change(|workspace| workspace.press_button(user, channel, ts, action, value))
    }

    /// Stops a stream as the reader; the app learns of it at its next call.
    ///
    /// # Errors
    /// The stream is not open.
    pub fn stop_stream(&self, channel: &str, ts: &str) -> Result<(), PlaygroundError> {
        self.state
            .change(|workspace| workspace.stop_stream(channel, ts))
    }

    /// Sends a custom event.
    pub fn send_event(&self, event: Value) {
        self.state.change(|workspace| workspace.emit_event(event));
    }

    /// Adds or replaces a user.
    pub fn set_user(&self, user: PlaygroundUser) {
        self.state.change(|workspace| {
            workspace.users.insert(user.id.clone(), user);
        });
    }

    /// Adds or replaces a channel.
    pub fn set_channel(&self, channel: PlaygroundChannel) {
        self.state.change(|workspace| {
            workspace.channels.insert(channel.id.clone(), channel);
        });
    }

    /// Returns the number of open Socket Mode connections.
    pub fn socket_count(&self) -> usize {
        self.state.sockets.count()
    }

    /// Closes all open Socket Mode connections.
    pub fn disconnect(&self, reason: DisconnectReason) {
        self.state.sockets.disconnect_all(reason);
    }

    /// Stops the playground and waits for its tasks.
    pub async fn stop(mut self) {
        self.state.stop.cancel();
        if let Some(serving) = self.server.take() {
            let _ = serving.await;
        }
    }
}

impl Drop for Playground {
    fn drop(&mut self) {
        self.state.stop.cancel();
    }
}
