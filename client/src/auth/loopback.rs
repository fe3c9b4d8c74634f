//! The address on this machine to which a browser comes back after a login. It serves one purpose
//! for a few minutes: every request is bounded in size and time, and only the one that carries the
//! right state ends the wait.

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

/// A request line and headers of a browser are far smaller.
const REQUEST: usize = 16 * 1024;
/// How long one browser connection may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many of them are served at once.
const CONNECTIONS: usize = 16;
/// How long to wait when none can be taken.
const PAUSE: Duration = Duration::from_millis(100);
const PATH: &str = "/callback";
/// What RFC 6749, 4.1.2.1 calls a scope that cannot be had.
const INVALID_SCOPE: &str = "invalid_scope";

pub(super) struct Loopback {
    listener: TcpListener,
    port: u16,
}

/// What the browser brought back.
pub(super) struct Returned {
    pub(super) code: Secret,
    pub(super) issuer: Option<String>,
}

impl Loopback {
    pub(super) async fn bind() -> Result<Self, TokenError> {
        let failed = |_| TokenError::Login("no port on 127.0.0.1 can be opened");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        Ok(Self { listener, port })
    }

    /// The address for the browser.
    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}{PATH}", self.port)
    }

    /// Waits until a browser comes with the right state. Browsers also ask for icons, open
    /// connections that they do not use, and may be sent here by anybody: none of that ends it.
    pub(super) async fn returned(&self, state: &str) -> Result<Returned, TokenError> {
        let mut served = FuturesUnordered::new();
        loop {
            tokio::select! {
                Some(outcome) = served.next() => {
                    if let Ok(Some(outcome)) = outcome {
                        return outcome;
                    }
                }
                accepted = self.listener.accept(), if served.len() < CONNECTIONS => {
                    match accepted {
                        Ok((connection, _)) => {
                            served.push(timeout(PATIENCE, serve(connection, state)));
                        }
                        // No descriptors left, most likely: that may pass.
                        Err(_) => sleep(PAUSE).await,
                    }
                }
            }
        }
    }
}

async fn serve(mut connection: TcpStream, state: &str) -> Option<Result<Returned, TokenError>> {
    let request = head(&mut connection).await?;
    let outcome = read(&request, state);
    let (status, words) = match &outcome {
        None => ("404 Not Found", "There is nothing here."),
        Some(Ok(_)) => ("200 OK", "You are logged in. You may close this window."),
        Some(Err(_)) => (
            "400 Bad Request",
            "The login did not succeed. You may close this window.",
        ),
    };
    let page = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Interzone</title><p>{words}</p></html>"
    );
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {}\r\n\
         cache-control: no-store\r\nreferrer-policy: no-referrer\r\nconnection: close\r\n\r\n{page}",
        page.len()
    );
    // Whether the page arrives does not matter for the login.
    let _ = connection.write_all(answer.as_bytes()).await;
    let _ = connection.shutdown().await;
    outcome
}

/// The head of a request, if it is whole and small enough.
async fn head(connection: &mut TcpStream) -> Option<String> {
    let mut request = Vec::new();
    let mut piece = [0_u8; 1024];
    loop {
        let size = connection.read(&mut piece).await.ok()?;
        request.extend_from_slice(piece.get(..size)?);
        if request.windows(4).any(|end| end == b"\r\n\r\n") {
            return String::from_utf8(request).ok();
        }
        if size == 0 || request.len() > REQUEST {
            return None;
        }
    }
}

/// What a request brings, or nothing if it is not the one that is waited for.
fn read(request: &str, state: &str) -> Option<Result<Returned, TokenError>> {
    let line = request.lines().next()?;
    let target = line.strip_prefix("GET ")?.split(' ').next()?;
    let query = target.strip_prefix(PATH)?.strip_prefix('?')?;
    let (mut code, mut given, mut issuer, mut error) = (None, None, None, None);
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        match &*name {
            "code" => code = Some(Secret::new(value)),
            "state" => given = Some(value.into_owned()),
            "iss" => issuer = Some(value.into_owned()),
            "error" => error = Some(value.into_owned()),
            _ => {}
        }
    }
    if given.as_deref() != Some(state) {
        return None;
    }
    match error.as_deref() {
        None => {}
        // Nobody declined anything: whoever asks for less gets further.
        Some(INVALID_SCOPE) => {
            return Some(Err(TokenError::Refused {
                error: INVALID_SCOPE.to_owned(),
                description: None,
                status: StatusCode::FOUND,
            }));
        }
        Some(_) => return Some(Err(TokenError::Login("it was declined"))),
    }
    let missing = TokenError::Login("the authorization server sent no code");
    Some(code.ok_or(missing).map(|code| Returned { code, issuer }))
}
