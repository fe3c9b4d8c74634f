//! SSRF check of a URL by its text.
//!
//! DNS results are checked at connect time, because they may change between this check and the connection.

use super::EgressError;
use super::address::is_public;
use std::collections::HashSet;
use url::{Host, Url};

/// Maximum length of a URL in bytes. Browsers and proxies agree on about this much.
pub(super) const MAX_URL_BYTES: usize = 2048;

/// Names that never denote a host on the internet (RFC 6761, 6762, 8375 and common use).
const INTERNAL_SUFFIXES: [&str; 8] = [
    "localhost",
    "local",
    "internal",
    "intranet",
    "lan",
    "home",
    "corp",
    "home.arpa",
];

/// Allow-list of `host:port` pairs, as a URL would spell them.
#[derive(Clone, Debug, Default)]
pub(super) struct AllowList(HashSet<(String, u16)>);

impl AllowList {
    /// Parses `host:port` entries; returns the invalid one.
    pub(super) fn parse(entries: &[String]) -> Result<Self, String> {
        let parse_entry = |entry: &String| {
            // By the URL parser, so that an entry and an equivalent URL are spelled the same. Of the two schemes, one
            // has the port as its default and drops it.
            let url = Url::parse(&format!("http://{entry}/")).map_err(|_| entry.clone())?;
            let tls = Url::parse(&format!("https://{entry}/")).map_err(|_| entry.clone())?;
            let is_bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
            let is_bare = is_bare && url.username().is_empty() && url.password().is_none();
            match (url.host_str(), url.port().or(tls.port())) {
                (Some(host), Some(port)) if is_bare => Ok((host.to_owned(), port)),
                _ => Err(entry.clone()),
            }
        };
        entries
            .iter()
            .map(parse_entry)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Returns true if exactly this host and port is allow-listed.
    pub(super) fn contains(&self, url: &Url) -> bool {
        let host_and_port = url.host_str().zip(url.port_or_known_default());
        host_and_port.is_some_and(|(host, port)| self.0.contains(&(host.to_owned(), port)))
    }
}

/// A URL that may be called, and whether by the allow-list.
#[derive(Debug)]
pub(super) struct AllowedUrl {
    pub(super) url: Url,
    pub(super) is_allow_listed: bool,
}

/// Checks a URL by its text.
pub(super) fn check_url(text: &str, allow: &AllowList) -> Result<AllowedUrl, EgressError> {
    if text.len() > MAX_URL_BYTES {
        return Err(EgressError::TooLong);
    }
    // The URL parser would drop these silently, and others would not.
    if text.chars().any(|c| c.is_ascii_control() || c == '\\') || text.trim() != text {
        return Err(EgressError::Malformed);
    }
    // The parser also accepts `https:host` and `https:///host`, which others read differently.
    let after_scheme = text.split_once(':').map_or("", |(_, rest)| rest);
    if !after_scheme.starts_with("//") || after_scheme.starts_with("///") {
        return Err(EgressError::Malformed);
    }
    let mut url = Url::parse(text).map_err(EgressError::Invalid)?;
    url.set_fragment(None);
    if !matches!(url.scheme(), "http" | "https") {
        return Err(EgressError::Scheme);
    }
    if !url.username().is_empty() || url.password().is_some() || authority(text).contains('@') {
        return Err(EgressError::Credentials);
    }
    if url.port() == Some(0) {
        return Err(EgressError::Malformed);
    }
    if allow.contains(&url) {
        return Ok(AllowedUrl {
            url,
            is_allow_listed: true,
        });
    }
    if url.scheme() != "https" {
        return Err(EgressError::Scheme);
    }
    // The parser has converted every numeric spelling (decimal, octal, hexadecimal, short, full-width) to the
    // address, so the host is checked as parsed, never as written.
    let is_public_host = match url.host().ok_or(EgressError::Malformed)? {
        Host::Ipv4(address) => is_public(address.into()),
        Host::Ipv6(address) => is_public(address.into()),
        Host::Domain(name) => is_public_name(name),
    };
    if !is_public_host {
        return Err(EgressError::Private);
    }
    // A parser that reads the same text differently would call another host.
    if let Some(Host::Ipv4(address)) = url.host()
        && !authority(text).starts_with(&address.to_string())
    {
        return Err(EgressError::NumericHost);
    }
    Ok(AllowedUrl {
        url,
        is_allow_listed: false,
    })
}

/// Returns host and port as written, with anything before them. An empty userinfo (`https://@host`) leaves no trace in
/// the parsed URL.
fn authority(text: &str) -> &str {
    let after_scheme = text.split_once("://").map_or("", |(_, rest)| rest);
    let end = after_scheme.find(['/', '?', '#']);
    after_scheme
        .get(..end.unwrap_or(after_scheme.len()))
        .unwrap_or("")
}

fn is_public_name(name: &str) -> bool {
    // A trailing dot means the root; some resolvers and allow-lists see another name.
    if name.ends_with('.') || !name.contains('.') {
        return false;
    }
    let name = name.to_ascii_lowercase();
    let has_suffix = |suffix: &str| {
        name.strip_suffix(suffix)
            .is_some_and(|prefix| prefix.is_empty() || prefix.ends_with('.'))
    };
    // A name whose last label is digits is not an internet name, even if a resolver accepts it.
    let last = name.rsplit('.').next().unwrap_or_default();
    !INTERNAL_SUFFIXES.iter().any(|suffix| has_suffix(suffix))
        && !last.bytes().all(|byte| byte.is_ascii_digit())
}
