//! Which client calls, and how it proves it (RFC 6749, 2.3).

use super::Inner;
use super::answer::Failure;
use super::clients::Client;
use super::form::Parameters;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use url::form_urlencoded;

impl Inner {
    /// The client that sent this. A public one says only its name, and may do accordingly little.
    pub(super) async fn caller(
        &self,
        headers: &HeaderMap,
        form: &Parameters,
    ) -> Result<Client, Failure> {
        let mut all = headers.get_all(AUTHORIZATION).iter();
        let header = match (all.next(), all.next()) {
            (header, None) => header,
            _ => return Err(Failure::request("more than one authorization header")),
        };
        let (id, secret) = match header {
            Some(header) => {
                if form.get("client_secret").is_some() {
                    return Err(Failure::request(
                        "the client proves itself in two ways at once",
                    ));
                }
                let (id, secret) = basic(header.as_bytes()).ok_or(Failure::client())?;
                if form.get("client_id").is_some_and(|other| other != id) {
                    return Err(Failure::request("two different clients are named"));
                }
                (id, Some(secret))
            }
            None => {
                let id = form.get("client_id").ok_or(Failure::client())?;
                let secret = form.get("client_secret").map(str::to_owned);
                (id.to_owned(), secret)
            }
        };
        let client = match secret {
            Some(secret) => self.clients.prove(&id, &secret).await?,
            None => {
                let client = self.clients.find(&id).await?;
                client.filter(|client| client.public)
            }
        };
        client.ok_or(Failure::client())
    }

    /// The same for doors where a name alone is not enough.
    pub(super) async fn proven_caller(
        &self,
        headers: &HeaderMap,
        form: &Parameters,
    ) -> Result<Client, Failure> {
        let client = self.caller(headers, form).await?;
        match client.public {
            true => Err(Failure::client()),
            false => Ok(client),
        }
    }
}

/// User and password of HTTP Basic. Both halves are form-encoded before they are joined.
fn basic(value: &[u8]) -> Option<(String, String)> {
    let (scheme, rest) = value.split_at_checked("Basic ".len())?;
    if !scheme.eq_ignore_ascii_case(b"Basic ") {
        return None;
    }
    let pair = String::from_utf8(STANDARD.decode(rest.trim_ascii()).ok()?).ok()?;
    let (id, secret) = pair.split_once(':')?;
    let decode = |text: &str| {
        // Only the first `key` of a form without `=` and `&`: escape them, for here they are text.
        let text = text.replace('&', "%26").replace('=', "%3D");
        let mut pairs = form_urlencoded::parse(text.as_bytes());
        pairs
            .next()
            .map_or_else(String::new, |(text, _)| text.into_owned())
    };
    Some((decode(id), decode(secret)))
}
