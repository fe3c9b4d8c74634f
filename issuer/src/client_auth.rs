//! Client authentication at the token endpoints (RFC 6749, 2.3).

use super::IssuerState;
use super::clients::OAuthClient;
use super::form::OAuthParameters;
use super::oauth_error::OAuthError;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use url::form_urlencoded;

impl IssuerState {
    /// Authenticates the client. A public client sends its id only.
    pub(super) async fn authenticate_client(
        &self,
        headers: &HeaderMap,
        form: &OAuthParameters,
    ) -> Result<OAuthClient, OAuthError> {
        let mut all = headers.get_all(AUTHORIZATION).iter();
        let header = match (all.next(), all.next()) {
            (header, None) => header,
            _ => {
                return Err(OAuthError::invalid_request(
                    "more than one authorization header",
                ));
            }
        };
        let (id, secret) = match header {
            Some(header) => {
                if form.get("client_secret").is_some() {
                    return Err(OAuthError::invalid_request(
                        "use only one client authentication method",
                    ));
                }
                let (id, secret) =
                    parse_basic(header.as_bytes()).ok_or(OAuthError::invalid_client())?;
                if form.get("client_id").is_some_and(|other| other != id) {
                    return Err(OAuthError::invalid_request(
                        "client_id differs from the authorization header",
                    ));
                }
                (id, Some(secret))
            }
            None => {
                let id = form.get("client_id").ok_or(OAuthError::invalid_client())?;
                let secret = form.get("client_secret").map(str::to_owned);
                (id.to_owned(), secret)
            }
        };
        let client = match secret {
            Some(secret) => self.clients.authenticate(&id, &secret).await?,
            None => {
                let client = self.clients.find(&id).await?;
                client.filter(|client| client.public)
            }
        };
        client.ok_or(OAuthError::invalid_client())
    }

    /// Authenticates a confidential client; public clients are rejected.
    pub(super) async fn authenticate_confidential(
        &self,
        headers: &HeaderMap,
        form: &OAuthParameters,
    ) -> Result<OAuthClient, OAuthError> {
        let client = self.authenticate_client(headers, form).await?;
        match client.public {
            true => Err(OAuthError::invalid_client()),
            false => Ok(client),
        }
    }
}

/// Parses HTTP Basic credentials. Both parts are form-encoded before they are joined.
fn parse_basic(value: &[u8]) -> Option<(String, String)> {
    let (scheme, encoded) = value.split_at_checked("Basic ".len())?;
    if !scheme.eq_ignore_ascii_case(b"Basic ") {
        return None;
    }
    let pair = String::from_utf8(STANDARD.decode(encoded.trim_ascii()).ok()?).ok()?;
    let (id, secret) = pair.split_once(':')?;
    let decode = |text: &str| {
        // Parsed as the key of a form; `=` and `&` are escaped because they are text here.
        let text = text.replace('&', "%26").replace('=', "%3D");
        let mut pairs = form_urlencoded::parse(text.as_bytes());
        pairs
            .next()
            .map_or_else(String::new, |(text, _)| text.into_owned())
    };
    Some((decode(id), decode(secret)))
}
