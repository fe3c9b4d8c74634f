//! Opens a socket: requests a URL from Slack and performs the WebSocket handshake (RFC 6455) over the HTTP client.

use crate::slack::api::{Slack, SlackError, SlackSetupError};
use crate::slack::tokens::BotToken;
use async_trait::async_trait;
use http::StatusCode;
use http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use interzone_edge::tls::TrustRoots;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use url::Url;

/// Maximum message size, as for HTTP requests.
const MAX_MESSAGE_BYTES: usize = 1 << 20;
/// Handshake timeout.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Bidirectional byte stream.
pub(super) trait SocketStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> SocketStream for T {}

pub(super) type SlackSocket = WebSocketStream<Box<dyn SocketStream>>;

/// Connection error.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectError {
    /// Slack returned no URL.
    #[error(transparent)]
    Slack(#[from] SlackError),
    /// The URL is not on a Slack host, or not encrypted.
    #[error("slack returned an unsafe socket url")]
    UnsafeUrl,
    /// The connection failed.
    #[error("the socket url cannot be reached")]
    Unreachable(#[source] Arc<reqwest::Error>),
    /// The server did not upgrade to WebSocket.
    #[error("the socket url does not speak websocket")]
    NoWebSocket,
}

#[async_trait]
pub(super) trait SocketConnector: Send + Sync {
    async fn connect(&self) -> Result<SlackSocket, ConnectError>;
}

/// Connector for Slack's sockets.
pub(super) struct HttpSocketConnector {
    slack: Slack,
    app_token: BotToken,
    http: reqwest::Client,
}

impl HttpSocketConnector {
    pub(super) fn new(
        slack: Slack,
        app_token: BotToken,
        trust: &TrustRoots,
    ) -> Result<Self, SlackSetupError> {
        // WebSocket needs HTTP/1.1, and each socket has its own connection.
        let http = trust.client().http1_only().pool_max_idle_per_host(0);
        Ok(Self {
            slack,
            app_token,
            http: http.build().map_err(SlackSetupError::Client)?,
        })
    }
}

#[async_trait]
impl SocketConnector for HttpSocketConnector {
    async fn connect(&self) -> Result<SlackSocket, ConnectError> {
        let slack = self.slack.fail_fast();
        let url = slack.apps_connections_open(&self.app_token).await?;
        let url = to_http_url(&url).ok_or(ConnectError::UnsafeUrl)?;
        if !self.slack.is_trusted_url(&url) {
            return Err(ConnectError::UnsafeUrl);
        }
        let key = generate_key();
        let request = self
            .http
            .get(url)
            .timeout(HANDSHAKE_TIMEOUT)
            .header(CONNECTION, "Upgrade")
            .header(UPGRADE, "websocket")
            .header(SEC_WEBSOCKET_VERSION, "13")
            .header(SEC_WEBSOCKET_KEY, &key);
        // The URL contains a ticket, which must not be logged.
        let unreachable =
            |error: reqwest::Error| ConnectError::Unreachable(Arc::new(error.without_url()));
        let response = request.send().await.map_err(unreachable)?;
        let accept = response.headers().get(SEC_WEBSOCKET_ACCEPT);
        let is_accepted =
            accept.is_some_and(|value| value == derive_accept_key(key.as_bytes()).as_str());
        if response.status() != StatusCode::SWITCHING_PROTOCOLS || !is_accepted {
            return Err(ConnectError::NoWebSocket);
        }
        let upgraded = tokio::time::timeout(HANDSHAKE_TIMEOUT, response.upgrade()).await;
        let upgraded = upgraded.map_err(|_| ConnectError::NoWebSocket)?;
        Ok(websocket(Box::new(upgraded.map_err(unreachable)?), Role::Client).await)
    }
}

/// Wraps a byte stream after the handshake.
pub(super) async fn websocket(io: Box<dyn SocketStream>, role: Role) -> SlackSocket {
    let config = WebSocketConfig::default()
        .max_message_size(Some(MAX_MESSAGE_BYTES))
        .max_frame_size(Some(MAX_MESSAGE_BYTES));
    WebSocketStream::from_raw_socket(io, role, Some(config)).await
}

/// Converts a `ws(s)` URL to `http(s)`.
fn to_http_url(text: &str) -> Option<Url> {
    let mut url = Url::parse(text).ok()?;
    let scheme = match url.scheme() {
        "wss" => "https",
        "ws" => "http",
        _ => return None,
    };
    url.set_scheme(scheme).ok()?;
    Some(url)
}
