//! Types of values that several sections have: URLs, paths, addresses.

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use url::{Host, Url};

/// A path; the deserializer joins it to the folder of the configuration file.
#[derive(Deserialize)]
struct FilePath(PathBuf);

/// Deserializes a path.
pub(super) fn path<'de, D: Deserializer<'de>, T: From<PathBuf>>(
    deserializer: D,
) -> Result<T, D::Error> {
    FilePath::deserialize(deserializer).map(|path| path.0.into())
}

/// Deserializes a list of paths.
pub(super) fn paths<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PathBuf>, D::Error> {
    let paths = Vec::<FilePath>::deserialize(deserializer)?;
    Ok(paths.into_iter().map(|path| path.0).collect())
}

/// Deserializes an address and a port.
pub(super) fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse()
        .map_err(|_| D::Error::custom("write an address and a port, as in \"127.0.0.1:8443\""))
}

/// Deserializes the public URL of a zone.
pub(super) fn public_url<'de, D: Deserializer<'de>, T: From<Url>>(
    deserializer: D,
) -> Result<T, D::Error> {
    let url = Url::parse(&String::deserialize(deserializer)?).map_err(|_| {
        D::Error::custom("write the URL that clients use, as in \"https://agents.example.com\"")
    })?;
    if url.scheme() != "https" {
        return Err(D::Error::custom(
            "it must begin with https://, as all connections use TLS",
        ));
    }
    without_extras(url).map(T::from)
}

/// Deserializes the URL of another service: https, or http on this machine.
pub(super) fn secure_url<'de, D: Deserializer<'de>, T: From<Url>>(
    deserializer: D,
) -> Result<T, D::Error> {
    parse_secure_url(&String::deserialize(deserializer)?).map(T::from)
}

/// Deserializes the URL of another service and leaves it unchanged: it is compared with tokens byte by byte.
pub(super) fn secure_url_text<'de, D: Deserializer<'de>, T: From<String>>(
    deserializer: D,
) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_secure_url::<D::Error>(&text)?;
    Ok(text.into())
}

/// Deserializes the URL of another service that paths are appended to: it has no user, query and fragment.
pub(super) fn base_url<'de, D: Deserializer<'de>, T: From<Url>>(
    deserializer: D,
) -> Result<T, D::Error> {
    let url = parse_secure_url(&String::deserialize(deserializer)?)?;
    without_extras(url).map(T::from)
}

fn parse_secure_url<E: Error>(text: &str) -> Result<Url, E> {
    let Ok(url) = Url::parse(text) else {
        return Err(E::custom(
            "write a URL, as in \"https://login.example.com/\"",
        ));
    };
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_loopback(&url) => Ok(url),
        "http" => Err(E::custom(
            "http:// is only allowed for a service on this machine (127.0.0.1, [::1] or localhost); use https://",
        )),
        _ => Err(E::custom("write a URL that begins with https://")),
    }
}

fn without_extras<E: Error>(url: Url) -> Result<Url, E> {
    let has_user = !url.username().is_empty() || url.password().is_some();
    if has_user || url.query().is_some() || url.fragment().is_some() {
        return Err(E::custom("leave out user, query and fragment"));
    }
    Ok(url)
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => IpAddr::from(address).is_loopback(),
        Some(Host::Ipv6(address)) => IpAddr::from(address).is_loopback(),
        None => false,
    }
}

/// Replaces port 0 (any free port) of a URL.
pub(super) fn resolve_port(url: &mut Url, port: u16) {
    if url.port() == Some(0) {
        // Fails only for URLs without a host, and public URLs have a host.
        let _ = url.set_port(Some(port));
    }
}

/// Deserializes the number of server threads; 0 means one per processor.
pub(super) fn threads<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<usize>, D::Error> {
    let threads = usize::deserialize(deserializer)?;
    Ok(Some(threads).filter(|threads| *threads > 0))
}

/// Deserializes entries of host and port.
pub(super) fn hosts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let is_host = |entry: &String| matches!(entry.rsplit_once(':'), Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok());
    let entries = Vec::<String>::deserialize(deserializer)?;
    match entries.iter().all(is_host) {
        true => Ok(entries),
        false => Err(D::Error::custom(
            "write a host and a port, as in \"127.0.0.1:9955\"",
        )),
    }
}

/// Deserializes a text of 1 to `MAX` characters.
pub(super) fn bounded_text<'de, const MAX: usize, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    match text.chars().count() {
        length if (1..=MAX).contains(&length) => Ok(text),
        _ => Err(D::Error::custom(format!("write 1 to {MAX} characters"))),
    }
}

/// Deserializes an optional count of at least 1.
pub(super) fn optional_positive<'de, D: Deserializer<'de>, T: TryFrom<u32>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    interzone_options::positive(deserializer).map(Some)
}

/// Parses a URL in this program.
#[expect(
    clippy::expect_used,
    reason = "the URL is a constant, and tests read all of them"
)]
pub(super) fn constant_url(text: &'static str) -> Url {
    Url::parse(text).expect("valid URL")
}
