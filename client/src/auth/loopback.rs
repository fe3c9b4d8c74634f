//! Loopback HTTP server for the redirect after a browser login. Every request is bounded in size and time, and
//! only the one with the right `state` ends the wait.

use crate::Secret;
use crate::error::TokenError;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use http::StatusCode;
use std::net::Ipv4Addr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use url::form_urlencoded;

/// Maximum size of a request head; browsers send far less.
const MAX_REQUEST: usize = 16 * 1024;
/// Time limit per connection.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of concurrent connections.
const MAX_CONNECTIONS: usize = 16;
/// Delay after a failed accept.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);
const PATH: &str = "/callback";
/// Error code of RFC 6749, 4.1.2.1 for a scope that is not granted.
const INVALID_SCOPE: &str = "invalid_scope";

pub(super) struct LoopbackServer {
    listener: TcpListener,
    port: u16,
}

/// Parameters of the redirect.
pub(super) struct RedirectResult {
    pub(super) code: Secret,
    pub(super) issuer: Option<String>,
}

impl LoopbackServer {
    pub(super) async fn bind() -> Result<Self, TokenError> {
        let failed = |_| TokenError::Login("no port on 127.0.0.1 can be opened");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        Ok(Self { listener, port })
    }

    /// Returns the redirect URI.
    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}{PATH}", self.port)
    }

    /// Waits for a redirect with the right state. Browsers also request icons and open unused connections, and
    /// any site may send requests here: none of that ends the wait.
    pub(super) async fn wait_for_redirect(
        &self,
        state: &str,
    ) -> Result<RedirectResult, TokenError> {
        let mut connections = FuturesUnordered::new();
        loop {
            tokio::select! {
                Some(outcome) = connections.next() => {
                    if let Ok(Some(outcome)) = outcome {
                        return outcome;
                    }
                }
                accepted = self.listener.accept(), if connections.len() < MAX_CONNECTIONS => {
                    match accepted {
                        Ok((connection, _)) => {
                            connections.push(timeout(CONNECTION_TIMEOUT, serve(connection, state)));
                        }
                        // Most likely out of file descriptors, which may be temporary.
                        Err(_) => sleep(ACCEPT_RETRY_DELAY).await,
                    }
                }
            }
        }
    }
}

async fn serve(
    mut connection: TcpStream,
    state: &str,
) -> Option<Result<RedirectResult, TokenError>> {
    let request = read_head(&mut connection).await?;
    let outcome = parse_redirect(&request, state);
    let (status, text) = match &outcome {
        None => ("404 Not Found", "Not found."),
        Some(Ok(_)) => ("200 OK", "You are logged in. You may close this window."),
        Some(Err(_)) => (
            "400 Bad Request",
            "The login failed. You may close this window.",
        ),
    };
    let page = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Interzone</title><p>{text}</p></html>"
    );
    let response = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {}\r\n\
         cache-control: no-store\r\nreferrer-policy: no-referrer\r\nconnection: close\r\n\r\n{page}",
        page.len()
    );
    // The login does not depend on the page being delivered.
    let _ = connection.write_all(response.as_bytes()).await;
    let _ = connection.shutdown().await;
    outcome
}

/// Reads the head of a request; `None` if it is incomplete or too large.
async fn read_head(connection: &mut TcpStream) -> Option<String> {
    let mut request = Vec::new();
    let mut chunk = [0_u8; 1024];
    loop {
        let size = connection.read(&mut chunk).await.ok()?;
        request.extend_from_slice(chunk.get(..size)?);
        if request.windows(4).any(|end| end == b"\r\n\r\n") {
            return String::from_utf8(request).ok();
        }
        if size == 0 || request.len() > MAX_REQUEST {
            return None;
        }
    }
}

/// Parses the redirect; `None` if it is another request.
fn parse_redirect(request: &str, state: &str) -> Option<Result<RedirectResult, TokenError>> {
    let line = request.lines().next()?;
    let target = line.strip_prefix("GET ")?.split(' ').next()?;
    let query = target.strip_prefix(PATH)?.strip_prefix('?')?;
    let (mut code, mut received_state, mut issuer, mut error) = (None, None, None, None);
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        match &*name {
            "code" => code = Some(Secret::new(value)),
            "state" => received_state = Some(value.into_owned()),
            "iss" => issuer = Some(value.into_owned()),
            "error" => error = Some(value.into_owned()),
            _ => {}
        }
    }
    if received_state.as_deref() != Some(state) {
        return None;
    }
    match error.as_deref() {
        None => {}
        // Not a refusal by the user: a login with fewer scopes may succeed.
        Some(INVALID_SCOPE) => {
            return Some(Err(TokenError::Refused {
                error: INVALID_SCOPE.to_owned(),
                description: None,
                status: StatusCode::FOUND,
            }));
        }
        Some(_) => return Some(Err(TokenError::Login("the user declined"))),
    }
    let missing = TokenError::Login("the authorization server sent no code");
    Some(
        code.ok_or(missing)
            .map(|code| RedirectResult { code, issuer }),
    )
}
