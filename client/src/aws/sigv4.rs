//! AWS Signature Version 4. The tests compare it with AWS's own crate.

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

/// Credential scope of a signature.
#[derive(Clone, Copy)]
pub(super) struct SigningScope<'a> {
    pub(super) service: &'a str,
    pub(super) region: &'a str,
    pub(super) at: SystemTime,
}

/// Adds the signature headers.
pub(super) fn sign(
    request: &mut http::Request<Bytes>,
    keys: &AwsKeys,
    scope: SigningScope<'_>,
) -> Result<(), SignError> {
    let timestamp = format_timestamp(scope.at);
    let Some(date) = timestamp.get(..8) else {
        return Err(request_error("the signing time is invalid"));
    };
    let mut added = vec![(DATE, header_value(&timestamp)?)];
    if let Some(token) = keys.session() {
        added.push((TOKEN, sensitive_value(token)?));
    }
    for (name, value) in added {
        request.headers_mut().insert(name, value);
    }
    let (names, canonical) = canonical_request(request)?;
    let credential_scope = format!("{date}/{}/{}/aws4_request", scope.region, scope.service);
    let text = format!(
        "{ALGORITHM}\n{timestamp}\n{credential_scope}\n{}",
        hex_digest(canonical.as_bytes())
    );
    let mut key = hmac_sha256(format!("AWS4{}", keys.secret()).as_bytes(), date)?;
    for part in [scope.region, scope.service, "aws4_request"] {
        key = hmac_sha256(&key, part)?;
    }
    let signature = hex(&hmac_sha256(&key, &text)?);
    let id = keys.id();
    let authorization = format!(
        "{ALGORITHM} Credential={id}/{credential_scope}, SignedHeaders={names}, Signature={signature}"
    );
    request
        .headers_mut()
        .insert(header::AUTHORIZATION, sensitive_value(&authorization)?);
    Ok(())
}

/// Returns the names of the signed headers and the canonical request.
fn canonical_request(request: &http::Request<Bytes>) -> Result<(String, String), SignError> {
    let uri = request.uri();
    let mut headers: BTreeMap<&str, String> = BTreeMap::new();
    for (name, value) in request.headers() {
        let name = name.as_str();
        if !is_signed(name) {
            continue;
        }
        // An unsigned header could be changed by an intermediary.
        let value = value.to_str();
        let value =
            value.map_err(|_| request_error("a header that must be signed is not ASCII"))?;
        let value = collapse_spaces(value);
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
        // Encoded twice, as every service except S3 requires.
        percent_encode(&normalize_path(uri.path()), b"/"),
        canonical_query(uri.query().unwrap_or_default()),
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
    text.push_str(&hex_digest(request.body()));
    Ok((names, text))
}

/// Returns true for headers that are signed: those with a meaning to AWS. Intermediaries may change others.
fn is_signed(name: &str) -> bool {
    name == header::CONTENT_TYPE.as_str()
        || name.starts_with("x-amz-")
        || (name.starts_with("x-amzn-") && name != "x-amzn-trace-id")
}

/// Returns the Host header value, without the default port.
fn host(uri: &Uri) -> Result<String, SignError> {
    let host = uri.host().filter(|host| !host.is_empty());
    let host = host.ok_or_else(|| request_error("the request names no host"))?;
    let default_port = match uri.scheme() {
        Some(scheme) if *scheme == Scheme::HTTP => Some(80),
        Some(scheme) if *scheme == Scheme::HTTPS => Some(443),
        _ => None,
    };
    Ok(match uri.port_u16() {
        Some(port) if Some(port) != default_port => format!("{host}:{port}"),
        _ => host.to_owned(),
    })
}

/// Removes empty and dot segments.
fn normalize_path(path: &str) -> Cow<'_, str> {
    if path.starts_with('/') && !path.contains("//") && !path.contains("/.") {
        return Cow::Borrowed(path);
    }
    let mut segments = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            segment => segments.push(segment),
        }
    }
    let last = path.rsplit('/').next().unwrap_or_default();
    let is_folder = matches!(last, "" | "." | "..") && !segments.is_empty();
    let end = if is_folder { "/" } else { "" };
    Cow::Owned(format!("/{}{end}", segments.join("/")))
}

/// Returns the canonical query: encoded again and sorted by the encoded form.
fn canonical_query(query: &str) -> String {
    let pairs = form_urlencoded::parse(query.as_bytes());
    let mut pairs: Vec<(String, String)> = pairs
        .map(|(name, value)| (percent_encode(&name, b""), percent_encode(&value, b"")))
        .collect();
    pairs.sort();
    let pairs: Vec<String> = pairs
        .into_iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    pairs.join("&")
}

/// Percent-encodes everything except unreserved characters and those in `allowed`.
pub(super) fn percent_encode(text: &str, allowed: &[u8]) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || allowed.contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// Collapses spaces, but not tabs, as AWS does.
fn collapse_spaces(value: &str) -> String {
    let words: Vec<&str> = value.split(' ').filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

/// Formats a time such as `20260102T030405Z`.
fn format_timestamp(at: SystemTime) -> String {
    let since_epoch = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let millis = i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX);
    let text = Timestamp::from_millis(millis).to_string();
    let seconds = text.split('.').next().unwrap_or_default();
    let mut plain: String = seconds
        .chars()
        .filter(|c| !matches!(c, '-' | ':'))
        .collect();
    plain.push('Z');
    plain
}

fn hmac_sha256(key: &[u8], text: &str) -> Result<[u8; 32], SignError> {
    let mac = Hmac::<Sha256>::new_from_slice(key);
    let mut mac = mac.map_err(|_| request_error("the key length is invalid"))?;
    mac.update(text.as_bytes());
    Ok(mac.finalize().into_bytes().into())
}

fn hex_digest(bytes: &[u8]) -> String {
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

fn header_value(text: &str) -> Result<HeaderValue, SignError> {
    HeaderValue::from_str(text)
        .map_err(|_| request_error("the credentials do not fit into a header"))
}

fn sensitive_value(text: &str) -> Result<HeaderValue, SignError> {
    let mut value = header_value(text)?;
    value.set_sensitive(true);
    Ok(value)
}

fn request_error(text: &'static str) -> SignError {
    SignError::Request(Arc::new(std::io::Error::other(text)))
}
