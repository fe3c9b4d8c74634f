//! Signatures by version 4 of AWS: what of a request is signed, in which spelling, and with which key.
//! AWS's own crate is compared with this in the tests.

use super::signer::{AwsKeys, SignError};
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use http::uri::Scheme;
use http::{HeaderName, HeaderValue, Uri, header};
use interzone_protocol::vocab::Timestamp;
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use url::form_urlencoded;

#[cfg(test)]
mod tests;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const DATE: HeaderName = HeaderName::from_static("x-amz-date");
const TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");

/// For what a signature is good.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    pub(super) service: &'a str,
    pub(super) region: &'a str,
    pub(super) at: SystemTime,
}

/// Adds the headers that prove who sends the request.
pub(super) fn sign(
    request: &mut http::Request<Bytes>,
    keys: &AwsKeys,
    scope: Scope<'_>,
) -> Result<(), SignError> {
    let moment = moment(scope.at);
    let Some(date) = moment.get(..8) else {
        return Err(refuse("there is no such time"));
    };
    let mut added = vec![(DATE, value(&moment)?)];
    if let Some(token) = keys.session() {
        added.push((TOKEN, hidden(token)?));
    }
    for (name, value) in added {
        request.headers_mut().insert(name, value);
    }
    let (names, canonical) = canonical(request)?;
    let place = format!("{date}/{}/{}/aws4_request", scope.region, scope.service);
    let text = format!(
        "{ALGORITHM}\n{moment}\n{place}\n{}",
        digest(canonical.as_bytes())
    );
    let mut key = mac(format!("AWS4{}", keys.secret()).as_bytes(), date)?;
    for part in [scope.region, scope.service, "aws4_request"] {
        key = mac(&key, part)?;
    }
    let signature = hex(&mac(&key, &text)?);
    let id = keys.id();
    let proof = format!(
        "{ALGORITHM} Credential={id}/{place}, SignedHeaders={names}, Signature={signature}"
    );
    request
        .headers_mut()
        .insert(header::AUTHORIZATION, hidden(&proof)?);
    Ok(())
}

/// The names of the headers that are signed, and the request as it is signed.
fn canonical(request: &http::Request<Bytes>) -> Result<(String, String), SignError> {
    let uri = request.uri();
    let mut headers: BTreeMap<&str, String> = BTreeMap::new();
    for (name, value) in request.headers() {
        let name = name.as_str();
        if !is_signed(name) {
            continue;
        }
        // Unsigned, whoever passes it on could change it.
        let value = value.to_str();
        let value = value.map_err(|_| refuse("a header that must be signed is not ASCII"))?;
        let value = single_spaced(value);
        headers
            .entry(name)
            .and_modify(|all| {
                all.push(',');
                all.push_str(&value);
            })
            .or_insert(value);
    }
    headers.insert("host", host(uri)?);
    let names: Vec<&str> = headers.keys().copied().collect();
    let names = names.join(";");
    let mut text = format!(
        "{}\n{}\n{}\n",
        request.method(),
        // Encoded as it is sent and once again, as every service but S3 wants it.
        encoded(&without_dots(uri.path()), b"/"),
        query(uri.query().unwrap_or_default()),
    );
    for (name, value) in &headers {
        text.push_str(name);
        text.push(':');
        text.push_str(value);
        text.push('\n');
    }
    text.push('\n');
    text.push_str(&names);
    text.push('\n');
    text.push_str(&digest(request.body()));
    Ok((names, text))
}

/// Whether a header is part of what is signed: those that mean something to AWS. Others may be changed
/// by whoever passes the request on.
fn is_signed(name: &str) -> bool {
    name == header::CONTENT_TYPE.as_str()
        || name.starts_with("x-amz-")
        || (name.starts_with("x-amzn-") && name != "x-amzn-trace-id")
}

/// As the sender writes it: without the port that goes without saying.
fn host(uri: &Uri) -> Result<String, SignError> {
    let host = uri.host().filter(|host| !host.is_empty());
    let host = host.ok_or_else(|| refuse("the request names no host"))?;
    let usual = match uri.scheme() {
        Some(scheme) if *scheme == Scheme::HTTP => Some(80),
        Some(scheme) if *scheme == Scheme::HTTPS => Some(443),
        _ => None,
    };
    Ok(match uri.port_u16() {
        Some(port) if Some(port) != usual => format!("{host}:{port}"),
        _ => host.to_owned(),
    })
}

/// Without empty segments and those that stand for the same or the upper folder.
fn without_dots(path: &str) -> Cow<'_, str> {
    if path.starts_with('/') && !path.contains("//") && !path.contains("/.") {
        return Cow::Borrowed(path);
    }
    let mut kept = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                kept.pop();
            }
            segment => kept.push(segment),
        }
    }
    let last = path.rsplit('/').next().unwrap_or_default();
    let is_folder = matches!(last, "" | "." | "..") && !kept.is_empty();
    let end = if is_folder { "/" } else { "" };
    Cow::Owned(format!("/{}{end}", kept.join("/")))
}

/// Every pair encoded anew, and in the order of how they are then spelt.
fn query(query: &str) -> String {
    let pairs = form_urlencoded::parse(query.as_bytes());
    let mut pairs: Vec<(String, String)> = pairs
        .map(|(name, value)| (encoded(&name, b""), encoded(&value, b"")))
        .collect();
    pairs.sort();
    let pairs: Vec<String> = pairs
        .into_iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    pairs.join("&")
}

/// Everything encoded but what needs it nowhere, and what is let through.
pub(super) fn encoded(text: &str, through: &[u8]) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || through.contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// Spaces alone, as AWS has it: tabs stay.
fn single_spaced(value: &str) -> String {
    let words: Vec<&str> = value.split(' ').filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

/// Such as `20260102T030405Z`.
fn moment(at: SystemTime) -> String {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let millis = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
    let text = Timestamp::from_millis(millis).to_string();
    let seconds = text.split('.').next().unwrap_or_default();
    let mut plain: String = seconds
        .chars()
        .filter(|c| !matches!(c, '-' | ':'))
        .collect();
    plain.push('Z');
    plain
}

fn mac(key: &[u8], text: &str) -> Result<[u8; 32], SignError> {
    let mac = Hmac::<Sha256>::new_from_slice(key);
    let mut mac = mac.map_err(|_| refuse("the key has a length that no key has"))?;
    mac.update(text.as_bytes());
    Ok(mac.finalize().into_bytes().into())
}

fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(out, "{byte:02x}");
    }
    out
}

fn value(text: &str) -> Result<HeaderValue, SignError> {
    HeaderValue::from_str(text).map_err(|_| refuse("the credentials do not fit into a header"))
}

fn hidden(text: &str) -> Result<HeaderValue, SignError> {
    let mut value = value(text)?;
    value.set_sensitive(true);
    Ok(value)
}

fn refuse(words: &'static str) -> SignError {
    SignError::Request(Arc::new(std::io::Error::other(words)))
}
