//! The playground as a program holds it: start, act as people, look, wait, break, stop.

mod error;
mod tokens;

pub use error::PlaygroundError;

use crate::acts::Said;
use crate::doors;
use crate::events::{self, links::Farewell};
use crate::faults::Faults;
use crate::options::{PlaygroundOptions, is_loopback};
use crate::shared::{Shared, Target, locked};
use crate::workspace::Workspace;
use crate::workspace::channels::Channel;
use crate::workspace::messages::Message;
use crate::workspace::people::User;
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

/// What a body may have: a file, and what a form adds to it.
const BODY: usize = 64 * 1024 * 1024;
/// A call may be held at a gate for as long as a test needs.
const HELD: Duration = Duration::from_secs(3600);
/// What may still run when the playground stops.
const GRACE: Duration = Duration::from_secs(1);

/// Files that somebody shares.
#[derive(Clone, Debug, Default)]
pub struct Upload<'a> {
    /// Who.
    pub user: &'a str,
    /// Where.
    pub channel: &'a str,
    /// In which thread.
    pub thread: Option<&'a str>,
    /// With which words.
    pub text: &'a str,
    /// Names and contents.
    pub files: Vec<(String, Bytes)>,
    /// Told as Slack Connect tells of files: by id only, to be asked about with `files.info`.
    pub stub: bool,
}

/// A workspace that runs. Dropping it stops it.
pub struct Playground {
    shared: Arc<Shared>,
    address: SocketAddr,
    serving: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Playground {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Playground")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

fn target(url: &str) -> Result<Url, PlaygroundError> {
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
    /// An address is not on this machine or is taken.
    pub async fn start(options: PlaygroundOptions) -> Result<Self, PlaygroundError> {
        if !options.listen.ip().is_loopback() {
            return Err(PlaygroundError::NotLoopback(options.listen.to_string()));
        }
        let named = |url: &Option<String>| url.as_deref().map(target).transpose();
        let to = Target {
            events: named(&options.events_url)?,
            interactions: named(&options.interactions_url)?,
        };
        let http = options
            .trust
            .client()
            .timeout(options.ack_time.max(Duration::from_millis(1)));
        let http = http.build().map_err(PlaygroundError::Client)?;
        let limits = HttpLimits {
            body: BODY,
            request_time: HELD,
            shares: interzone_edge::budget::Shares::WHOLE,
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
        let shared = Arc::new(Shared::new(&options, to, base, http, limits));
        let app = doors::router(Arc::clone(&shared));
        let serving = tokio::spawn({
            let shared = Arc::clone(&shared);
            async move {
                let serve = listener.serve(app, shared.stop.clone(), GRACE);
                tokio::join!(serve, events::run(Arc::clone(&shared)));
            }
        });
        Ok(Self {
            shared,
            address,
            serving: Some(serving),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where the chat page is.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Where the API is, with the slash at its end.
    pub fn api_url(&self) -> String {
        format!("http://{}/api/", self.address)
    }

    /// Names the app's URLs, for events and for pressed buttons.
    ///
    /// # Errors
    /// One is no URL on this machine.
    pub fn send_to(&self, events: &str, interactions: &str) -> Result<(), PlaygroundError> {
        let to = Target {
            events: Some(target(events)?),
            interactions: Some(target(interactions)?),
        };
        *locked(&self.shared.target) = to;
        Ok(())
    }

    /// Whether the app answers the challenge that Slack sends when a URL is entered.
    pub async fn verify_url(&self) -> bool {
        events::verify_url(&self.shared).await
    }

    /// What goes wrong on request.
    pub fn faults(&self) -> Faults {
        Faults(Arc::clone(&self.shared))
    }

    /// Looks at the workspace. Nothing happens in it meanwhile, so the look should be short.
    pub fn look<T>(&self, look: impl FnOnce(&Workspace) -> T) -> T {
        self.shared.look(look)
    }

    /// Waits until `find` finds something; `None` if it did not in time. It looks again at every change.
    pub async fn wait<T>(
        &self,
        patience: Duration,
        mut find: impl FnMut(&Workspace) -> Option<T>,
    ) -> Option<T> {
        let mut changes = self.shared.watch();
        let search = async {
            loop {
                changes.borrow_and_update();
                if let Some(found) = self.shared.look(&mut find) {
                    return Some(found);
                }
                changes.changed().await.ok()?;
            }
        };
        tokio::time::timeout(patience, search).await.ok().flatten()
    }

    /// A copy of a thread, oldest first.
    pub fn thread(&self, channel: &str, ts: &str) -> Vec<Message> {
        self.look(|workspace| workspace.thread(channel, ts).into_iter().cloned().collect())
    }

    /// Says something as a person. `@name` becomes a mention. Gives the ts.
    ///
    /// # Errors
    /// The person is not there, or may not.
    pub fn post(&self, user: &str, channel: &str, text: &str) -> Result<String, PlaygroundError> {
        self.say(user, channel, None, text, false)
    }

    /// The same, in a thread.
    ///
    /// # Errors
    /// The person or the thread is not there.
    pub fn reply(
        &self,
        user: &str,
        channel: &str,
        thread: &str,
        text: &str,
    ) -> Result<String, PlaygroundError> {
        self.say(user, channel, Some(thread), text, false)
    }

    /// The same, in a thread and shown in the channel as well.
    ///
    /// # Errors
    /// The person or the thread is not there.
    pub fn broadcast(
        &self,
        user: &str,
        channel: &str,
        thread: &str,
        text: &str,
    ) -> Result<String, PlaygroundError> {
        self.say(user, channel, Some(thread), text, true)
    }

    fn say(
        &self,
        user: &str,
        channel: &str,
        thread: Option<&str>,
        text: &str,
        broadcast: bool,
    ) -> Result<String, PlaygroundError> {
        let said = Said {
            user,
            channel,
            thread,
            text,
            broadcast,
        };
        self.shared.change(|workspace| workspace.say(&said))
    }

    /// Shares files as a person. Gives the ts.
    ///
    /// # Errors
    /// The person or the thread is not there, or there is no room.
    pub fn upload(&self, upload: &Upload<'_>) -> Result<String, PlaygroundError> {
        let said = Said {
            user: upload.user,
            channel: upload.channel,
            thread: upload.thread,
            text: upload.text,
            broadcast: false,
        };
        let (files, stub) = (&upload.files, upload.stub);
        self.shared
            .change(|workspace| workspace.bring(&said, files, stub))
    }

    /// Changes what somebody said.
    ///
    /// # Errors
    /// It is not there, or somebody else's.
    pub fn edit(
        &self,
        user: &str,
        channel: &str,
        ts: &str,
        text: &str,
    ) -> Result<(), PlaygroundError> {
        self.shared
            .change(|workspace| workspace.edit(user, channel, ts, text))
    }

    /// Deletes what somebody said.
    ///
    /// # Errors
    /// It is not there, or somebody else's.
    pub fn delete(&self, user: &str, channel: &str, ts: &str) -> Result<(), PlaygroundError> {
        self.shared
            .change(|workspace| workspace.unsay(user, channel, ts))
    }

    /// Presses a button on a message, ephemeral ones included. Of the two of feedback, `value` says which.
    ///
    /// # Errors
    /// There is no such button, or the person does not see it.
    pub fn press(
        &self,
        user: &str,
        channel: &str,
        ts: &str,
        action: &str,
        value: Option<&str>,
    ) -> Result<(), PlaygroundError> {
        self.shared
            .change(|workspace| workspace.press(user, channel, ts, action, value))
    }

    /// Ends a stream as the person who reads it; the app learns of it at its next call.
    ///
    /// # Errors
    /// There is no open stream.
    pub fn stop_stream(&self, channel: &str, ts: &str) -> Result<(), PlaygroundError> {
        self.shared
            .change(|workspace| workspace.stop_stream(channel, ts))
    }

    /// Sends an event of the caller's making.
    pub fn send_event(&self, event: Value) {
        self.shared.change(|workspace| workspace.event(event));
    }

    /// Brings somebody, or changes them.
    pub fn set_user(&self, user: User) {
        self.shared.change(|workspace| {
            workspace.users.insert(user.id.clone(), user);
        });
    }

    /// Makes a channel, or changes it.
    pub fn set_channel(&self, channel: Channel) {
        self.shared.change(|workspace| {
            workspace.channels.insert(channel.id.clone(), channel);
        });
    }

    /// How many sockets the app has open.
    pub fn sockets(&self) -> usize {
        self.shared.links.count()
    }

    /// Closes the sockets that are open now.
    pub fn disconnect(&self, why: Farewell) {
        self.shared.links.dismiss(why);
    }

    /// Stops it, and waits until it has.
    pub async fn stop(mut self) {
        self.shared.stop.cancel();
        if let Some(serving) = self.serving.take() {
            let _ = serving.await;
        }
    }
}

impl Drop for Playground {
    fn drop(&mut self) {
        self.shared.stop.cancel();
    }
}
