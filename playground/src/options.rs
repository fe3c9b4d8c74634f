//! What a playground is started with. Nothing is read from the environment or from files here.

use interzone_edge::Secret;
use interzone_edge::clock::Clock;
use interzone_edge::tls::Trust;
use std::net::SocketAddr;
use std::time::Duration;
use url::Url;

/// How events reach the app.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// By signed requests to the app's URLs.
    #[default]
    Events,
    /// By a socket that the app opens.
    Socket,
}

/// What a playground is started with. The defaults are a workspace with every scope and no app yet:
/// [`Playground::send_to`](crate::Playground::send_to) names its URLs when they are known.
#[derive(Clone, Debug)]
pub struct PlaygroundOptions {
    /// Where it listens: loopback only. Port 0 takes any free one.
    pub listen: SocketAddr,
    /// What requests to the app are signed with.
    pub signing_secret: Secret,
    /// The bot's token.
    pub bot_token: Secret,
    /// The token that opens sockets.
    pub app_token: Secret,
    /// How events reach the app.
    pub mode: Mode,
    /// Where events go: loopback only.
    pub events_url: Option<String>,
    /// Where pressed buttons go: loopback only.
    pub interactions_url: Option<String>,
    /// Whose certificates the app's URLs may show.
    pub trust: Trust,
    /// What the bot's token may do.
    pub scopes: Vec<String>,
    /// The app's name for the OAuth2 flow.
    pub client_id: String,
    /// The app's secret for the OAuth2 flow.
    pub client_secret: Secret,
    /// Whether tokens of the OAuth2 flow run out and come with a refresh token.
    pub rotation: bool,
    /// How long such a token lasts; at Slack, twelve hours.
    pub token_life: Duration,
    /// Whether calls are limited as Slack limits them: one post a second in a channel, and the tiers.
    pub rate_limits: bool,
    /// How long the app may take to acknowledge.
    pub ack_time: Duration,
    /// After which waits an event is sent again that was not acknowledged.
    pub retry_delays: Vec<Duration>,
    /// How long a stream may last before Slack ends it by itself.
    pub stream_life: Duration,
    /// How often a socket is asked for a sign of life.
    pub ping: Duration,
    /// How long a call hangs at most when it was told to.
    pub hang: Duration,
    /// What time it is.
    pub clock: Clock,
    /// Messages that are kept, over all channels; the oldest leave first.
    pub messages: usize,
    /// Calls and deliveries that are kept in the log.
    pub log: usize,
    /// Bytes of all files together; the oldest are dropped first.
    pub file_bytes: usize,
}

/// Every scope that the API here asks for.
pub(crate) const SCOPES: &[&str] = &[
    "app_mentions:read",
    "assistant:write",
    "channels:history",
    "channels:read",
    "chat:write",
    "files:read",
    "files:write",
    "groups:history",
    "groups:read",
    "im:history",
    "im:read",
    "im:write",
    "mpim:history",
    "mpim:read",
    "reactions:read",
    "reactions:write",
    "team:read",
    "users:read",
];

impl Default for PlaygroundOptions {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            signing_secret: Secret::new("playground signing secret"),
            bot_token: Secret::new("xoxb-playground-bot"),
            app_token: Secret::new("xapp-playground-app"),
            mode: Mode::Events,
            events_url: None,
            interactions_url: None,
            trust: Trust::system(),
            scopes: SCOPES.iter().map(|scope| (*scope).to_owned()).collect(),
            client_id: "playground.client".to_owned(),
            client_secret: Secret::new("playground client secret"),
            rotation: false,
            token_life: Duration::from_secs(12 * 3600),
            rate_limits: false,
            ack_time: Duration::from_secs(3),
            retry_delays: vec![
                Duration::ZERO,
                Duration::from_secs(60),
                Duration::from_secs(300),
            ],
            stream_life: Duration::from_secs(300),
            ping: Duration::from_secs(10),
            hang: Duration::from_secs(120),
            clock: Clock::machine(),
            messages: 20_000,
            log: 20_000,
            file_bytes: 256 * 1024 * 1024,
        }
    }
}

/// Whether a URL leads to this machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}
