//! Whether a URL may be called at all, as far as its letters tell.
//!
//! What a name resolves to is looked at later, in the moment of the connection: a check now would
//! say nothing about then. No socket is opened here.

use super::EgressError;
use super::address::is_public;
use std::collections::HashSet;
use url::{Host, Url};

/// The longest URL that is accepted, in bytes. Browsers and proxies agree on about this much.
pub(super) const LONGEST: usize = 2048;

/// Names that never mean a machine on the internet (RFC 6761, 6762, 8375 and common use).
const INNER: [&str; 8] = [
    "localhost",
    "local",
    "internal",
    "intranet",
    "lan",
    "home",
    "corp",
    "home.arpa",
];

/// The exceptions: `host:port` pairs as a URL would spell them.
#[derive(Clone, Debug, Default)]
pub(super) struct AllowList(HashSet<(String, u16)>);

impl AllowList {
    /// Reads `host:port` entries; gives back the one that cannot be read.
    pub(super) fn parse(entries: &[String]) -> Result<Self, String> {
        let read = |entry: &String| {
            // Through the URL parser, so that an entry and a URL that mean the same are spelled the
            // same. Of the two schemes one has the port for its default and drops it.
            let url = Url::parse(&format!("http://{entry}/")).map_err(|_| entry.clone())?;
            let tls = Url::parse(&format!("https://{entry}/")).map_err(|_| entry.clone())?;
            let bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
            let bare = bare && url.username().is_empty() && url.password().is_none();
            match (url.host_str(), url.port().or(tls.port())) {
                (Some(host), Some(port)) if bare => Ok((host.to_owned(), port)),
                _ => Err(entry.clone()),
            }
        };
        entries.iter().map(read).collect::<Result<_, _>>().map(Self)
    }

    /// True if exactly this host and port was excepted.
    pub(super) fn has(&self, url: &Url) -> bool {
        let place = url.host_str().zip(url.port_or_known_default());
        place.is_some_and(|(host, port)| self.0.contains(&(host.to_owned(), port)))
    }
}

/// A URL that may be called, and whether that is by exception.
#[derive(Debug)]
pub(super) struct Vetted {
    pub(super) url: Url,
    pub(super) excepted: bool,
}

/// Judges a URL by its letters.
pub(super) fn vet(text: &str, allow: &AllowList) -> Result<Vetted, EgressError> {
    if text.len() > LONGEST {
        return Err(EgressError::TooLong);
    }
    // The URL parser would drop these silently, and others would not.
    if text.chars().any(|c| c.is_ascii_control() || c == '\\') || text.trim() != text {
        return Err(EgressError::Malformed);
    }
    // It would also read `https:host` and `https:///host`, which others take for something else.
    let rest = text.split_once(':').map_or("", |(_, rest)| rest);
    if !rest.starts_with("//") || rest.starts_with("///") {
        return Err(EgressError::Malformed);
    }
    let mut url = Url::parse(text).map_err(EgressError::Unreadable)?;
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
    if allow.has(&url) {
        return Ok(Vetted {
            url,
            excepted: true,
        });
    }
    if url.scheme() != "https" {
        return Err(EgressError::Scheme);
    }
    // The parser has turned every numeric spelling (decimal, octal, hexadecimal, short, full-width)
    // into the address that it means, so the host is judged as parsed, never as written.
    let public = match url.host().ok_or(EgressError::Malformed)? {
        Host::Ipv4(address) => is_public(address.into()),
        Host::Ipv6(address) => is_public(address.into()),
        Host::Domain(name) => is_public_name(name),
    };
    if !public {
        return Err(EgressError::Private);
    }
    // Somebody who reads the same letters another way would call another machine.
    if let Some(Host::Ipv4(address)) = url.host()
        && !authority(text).starts_with(&address.to_string())
    {
        return Err(EgressError::Spelling);
    }
    Ok(Vetted {
        url,
        excepted: false,
    })
}

/// Host and port as they were written, with whatever stands before them. An empty userinfo
/// (`https://@host`) leaves no trace in the parsed URL.
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
    let inner = |suffix: &str| {
        name.strip_suffix(suffix)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    // A last label of digits is not a name of the internet, whatever a resolver makes of it.
    let last = name.rsplit('.').next().unwrap_or_default();
    !INNER.iter().any(|suffix| inner(suffix)) && !last.bytes().all(|byte| byte.is_ascii_digit())
}
