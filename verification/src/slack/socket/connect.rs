//! Getting a socket: an address from Slack, and the handshake of RFC 6455 over the HTTP client that we
//! have anyway. What is said over it is not known here.

use crate::slack::api::{Slack, SlackError, SlackSetupError};
use crate::slack::tokens::BotToken;
use async_trait::async_trait;
use http::StatusCode;
use http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use interzone_edge::tls::Trust;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use url::Url;

/// The most bytes of a message, as for one that comes by HTTP.
const LARGEST: usize = 1 << 20;
/// How long the handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Bytes both ways.
pub(super) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

pub(super) type Socket = WebSocketStream<Box<dyn Io>>;

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectError {
    /// Slack gave no address.
    #[error(transparent)]
    Slack(#[from] SlackError),
    /// The address is not Slack's, or would be spoken to in the clear.
    #[error("slack named an address for the socket that is not safe")]
    Address,
    /// There is nobody there.
    #[error("the socket's address cannot be reached")]
    Unreachable(#[source] Arc<reqwest::Error>),
    /// There is somebody who does not speak WebSocket.
    #[error("the socket's address does not speak websocket")]
    NoWebSocket,
}

#[async_trait]
pub(super) trait Connect: Send + Sync {
    async fn connect(&self) -> Result<Socket, ConnectError>;
}

/// Sockets as Slack gives them.
pub(super) struct OverHttp {
    slack: Slack,
    app_token: BotToken,
    http: reqwest::Client,
}

impl OverHttp {
    pub(super) fn new(
        slack: Slack,
        app_token: BotToken,
        trust: &Trust,
    ) -> Result<Self, SlackSetupError> {
        // WebSockets grow out of HTTP/1.1, and each has a connection to itself.
        let http = trust.client().http1_only().pool_max_idle_per_host(0);
        Ok(Self {
            slack,
            app_token,
            http: http.build().map_err(SlackSetupError::Client)?,
        })
    }
}

#[async_trait]
impl Connect for OverHttp {
    async fn connect(&self) -> Result<Socket, ConnectError> {
        let slack = self.slack.hasty();
        let url = slack.apps_connections_open(&self.app_token).await?;
        let url = over_http(&url).ok_or(ConnectError::Address)?;
        if !self.slack.is_ours(&url) {
            return Err(ConnectError::Address);
        }
        let key = generate_key();
        let request = self
            .http
            .get(url)
            .timeout(HANDSHAKE)
            .header(CONNECTION, "Upgrade")
            .header(UPGRADE, "websocket")
            .header(SEC_WEBSOCKET_VERSION, "13")
            .header(SEC_WEBSOCKET_KEY, &key);
        // The address holds a ticket, which is not for logs.
        let failed =
            |error: reqwest::Error| ConnectError::Unreachable(Arc::new(error.without_url()));
        let response = request.send().await.map_err(failed)?;
        let accept = response.headers().get(SEC_WEBSOCKET_ACCEPT);
        let accepted =
            accept.is_some_and(|said| said == derive_accept_key(key.as_bytes()).as_str());
        if response.status() != StatusCode::SWITCHING_PROTOCOLS || !accepted {
            return Err(ConnectError::NoWebSocket);
        }
        let upgraded = tokio::time::timeout(HANDSHAKE, response.upgrade()).await;
        let upgraded = upgraded.map_err(|_| ConnectError::NoWebSocket)?;
        Ok(over(Box::new(upgraded.map_err(failed)?), Role::Client).await)
    }
}

/// A WebSocket over bytes, for the time after the handshake.
pub(super) async fn over(io: Box<dyn Io>, role: Role) -> Socket {
    let config = WebSocketConfig::default()
        .max_message_size(Some(LARGEST))
        .max_frame_size(Some(LARGEST));
    WebSocketStream::from_raw_socket(io, role, Some(config)).await
}

/// The address as an HTTP client takes it.
fn over_http(text: &str) -> Option<Url> {
    let mut url = Url::parse(text).ok()?;
    let scheme = match url.scheme() {
        "wss" => "https",
        "ws" => "http",
        _ => return None,
    };
    url.set_scheme(scheme).ok()?;
    Some(url)
}
