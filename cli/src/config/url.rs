//! URLs of other services: https, or http on this machine.

use super::error::ConfigError;
use super::section::ConfigValue;
use std::net::IpAddr;
use url::{Host, Url};

/// Parses a URL with https://, or with http:// for a loopback host. `service` is the noun for the error
/// message, with an article.
///
/// # Errors
/// The value is not such a URL.
pub(super) fn secure_url(found: &ConfigValue<String>, service: &str) -> Result<Url, ConfigError> {
    let Ok(url) = Url::parse(&found.value) else {
        return Err(found.refuse("write a URL, as in \"https://login.example.com/\""));
    };
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_loopback(&url) => Ok(url),
        "http" => Err(found.refuse(format!(
            "http:// is only allowed for {service} on this machine (127.0.0.1, [::1] or localhost); use https://"
        ))),
        _ => Err(found.refuse("write a URL that begins with https://")),
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => IpAddr::from(address).is_loopback(),
        Some(Host::Ipv6(address)) => IpAddr::from(address).is_loopback(),
        None => false,
    }
}
