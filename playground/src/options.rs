//! Options of a playground.

use interzone_edge::Secret;
use interzone_edge::clock::Clock;
use interzone_edge::tls::TrustRoots;
use std::net::SocketAddr;
use std::time::Duration;
use url::Url;

/// Delivery mode of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeliveryMode {
    /// Signed HTTP requests to the app's URLs.
    #[default]
    Events,
    /// Socket Mode: a WebSocket that the app opens.
    Socket,
}

/// Options of a playground. By default a workspace with all scopes and without an app:
/// [`Playground::send_to`](crate::Playground::send_to) sets its URLs when they are known.
#[derive(Clone, Debug)]
pub struct PlaygroundOptions {
    /// Listen address: loopback only. Port 0 selects a free one.
    pub listen: SocketAddr,
    /// Secret for signing requests to the app.
    pub signing_secret: Secret,
    /// Bot token.
    pub bot_token: Secret,
    /// App-level token, which opens sockets.
    pub app_token: Secret,
    /// Delivery mode of events.
    pub mode: DeliveryMode,
    /// URL for events: loopback only.
    pub events_url: Option<String>,
    /// URL for interactions: loopback only.
    pub interactions_url: Option<String>,
    /// Trusted certificates of the app's URLs.
    pub trust: TrustRoots,
    /// Scopes of the bot token.
    pub scopes: Vec<String>,
    /// Client id of the app for OAuth2.
    pub client_id: String,
    /// Client secret of the app for OAuth2.
    pub client_secret: Secret,
    /// True if OAuth2 tokens expire and come with a refresh token.
    pub rotate_tokens: bool,
    /// Lifetime of such a token; twelve hours at Slack.
    pub token_lifetime: Duration,
    /// True to apply Slack's rate limits: one post a second per channel, and the tiers.
    pub rate_limits: bool,
    /// Timeout of acknowledgements.
    pub ack_timeout: Duration,
    /// Delays before each retry of an unacknowledged event.
    pub retry_delays: Vec<Duration>,
    /// Maximum duration of a stream before Slack ends it.
    pub max_stream_duration: Duration,
    /// Ping interval of sockets.
    pub ping_interval: Duration,
    /// Duration of an injected hang.
    pub hang_duration: Duration,
    /// Clock.
    pub clock: Clock,
    /// Maximum stored messages, over all channels; the oldest are removed first.
    pub max_messages: usize,
    /// Maximum logged calls and deliveries.
    pub max_log_entries: usize,
    /// Maximum bytes of all files; the oldest are dropped first.
    pub max_file_bytes: usize,
}

/// All scopes that the API checks.
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
            mode: DeliveryMode::Events,
            events_url: None,
            interactions_url: None,
            trust: TrustRoots::system(),
            scopes: SCOPES.iter().map(|scope| (*scope).to_owned()).collect(),
            client_id: "playground.client".to_owned(),
            client_secret: Secret::new("playground client secret"),
            rotate_tokens: false,
            token_lifetime: Duration::from_secs(12 * 3600),
            rate_limits: false,
            ack_timeout: Duration::from_secs(3),
            retry_delays: vec![
                Duration::ZERO,
                Duration::from_secs(60),
                Duration::from_secs(300),
            ],
            max_stream_duration: Duration::from_secs(300),
            ping_interval: Duration::from_secs(10),
            hang_duration: Duration::from_secs(120),
            clock: Clock::system(),
            max_messages: 20_000,
            max_log_entries: 20_000,
            max_file_bytes: 256 * 1024 * 1024,
        }
    }
}

/// Returns true for URLs of this machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}
