//! One look over the network: what answered, and what its clock says. Nothing is tried twice.

use crate::reach::{Away, root};
use http::{HeaderMap, header};
use interzone_edge::Secret;
use interzone_edge::tls::{TlsError, Trust};
use reqwest::{Client, RequestBuilder};
use serde_json::Value;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};
use url::Url;

/// How long anybody may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most that is read of an answer; all that is looked at here is small.
const MOST: usize = 256 * 1024;

/// Asks others, with the CAs of the configuration.
pub(super) struct Wire {
    http: Client,
}

/// An answer.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) status: u16,
    /// How far our clock is ahead of theirs, in seconds; behind is negative.
    pub(super) ahead: Option<i64>,
    /// What the token may, where Slack says so.
    pub(super) scopes: Option<Vec<String>>,
    /// Null if it is no JSON.
    pub(super) body: Value,
}

/// Why there was no answer.
#[derive(Debug)]
pub(super) struct Unseen {
    pub(super) away: Away,
    /// In words.
    pub(super) why: String,
}

impl Unseen {
    /// What to do about it: in `address` is where the configuration has the address.
    pub(super) fn next(&self, address: &str) -> String {
        self.away.next("tls.trust", address)
    }

    pub(super) fn new(why: impl Into<String>) -> Self {
        Self {
            away: Away::Else,
            why: why.into(),
        }
    }
}

/// Why there are no means to look.
#[derive(Debug, thiserror::Error)]
pub(super) enum WireError {
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("outgoing connections cannot be set up: {0}")]
    Http(#[from] reqwest::Error),
}

impl Wire {
    pub(super) fn new(trust: &[PathBuf]) -> Result<Self, WireError> {
        let http = Trust::system_and(trust)?
            .client()
            .timeout(PATIENCE)
            .build()?;
        Ok(Self { http })
    }

    /// Asks an address.
    ///
    /// # Errors
    /// Nobody answers; in words.
    pub(super) async fn get(&self, url: Url) -> Result<Seen, Unseen> {
        send(self.http.get(url)).await
    }

    /// Calls a method of Slack that takes no arguments.
    ///
    /// # Errors
    /// Nobody answers; in words.
    pub(super) async fn slack(
        &self,
        api: &Url,
        method: &str,
        token: &Secret,
    ) -> Result<Seen, Unseen> {
        let url = api
            .join(method)
            .map_err(|error| Unseen::new(error.to_string()))?;
        let request = self.http.post(url).bearer_auth(token.expose());
        let form = "application/x-www-form-urlencoded";
        send(request.header(header::CONTENT_TYPE, form)).await
    }
}

async fn send(request: RequestBuilder) -> Result<Seen, Unseen> {
    let mut answer = request.send().await.map_err(told)?;
    let now = SystemTime::now();
    let mut bytes = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(told)? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > MOST {
            return Err(Unseen::new("the answer is too large"));
        }
    }
    Ok(Seen {
        status: answer.status().as_u16(),
        ahead: ahead(answer.headers(), now),
        scopes: scopes(answer.headers()),
        body: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
    })
}

/// What lies at the bottom of it, without the address, which the reader knows.
fn told(error: reqwest::Error) -> Unseen {
    let error = error.without_url();
    let away = Away::by(&error);
    let why = match (away, away.said()) {
        (Away::Slow, _) => format!("no answer within {} s", PATIENCE.as_secs()),
        (_, Some(said)) => said.to_owned(),
        (_, None) => root(&error),
    };
    Unseen { away, why }
}

fn ahead(headers: &HeaderMap, now: SystemTime) -> Option<i64> {
    let theirs = headers.get(header::DATE)?.to_str().ok()?;
    let theirs = httpdate::parse_http_date(theirs).ok()?;
    let seconds = |time: Duration| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    Some(match now.duration_since(theirs) {
        Ok(ahead) => seconds(ahead),
        Err(behind) => -seconds(behind.duration()),
    })
}

fn scopes(headers: &HeaderMap) -> Option<Vec<String>> {
    let list = headers.get("x-oauth-scopes")?.to_str().ok()?;
    let names = list
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty());
    Some(names.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::{ahead, scopes};
    use http::{HeaderMap, HeaderValue};
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn headers_tell_time_and_scopes() {
        let mut headers = HeaderMap::new();
        let now = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        assert_eq!((ahead(&headers, now), scopes(&headers)), (None, None));
        let date = HeaderValue::from_static("Sun, 09 Sep 2001 01:46:10 GMT");
        headers.insert("date", date);
        headers.insert(
            "x-oauth-scopes",
            HeaderValue::from_static("chat:write, im:read"),
        );
        assert_eq!(ahead(&headers, now), Some(30));
        assert_eq!(ahead(&headers, now - Duration::from_secs(60)), Some(-30));
        assert_eq!(scopes(&headers).unwrap(), ["chat:write", "im:read"]);
    }
}
