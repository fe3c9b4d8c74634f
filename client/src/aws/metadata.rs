//! Credentials from the ECS container endpoint and from EC2 instance metadata (IMDSv2).

use super::credential_http::is_private;
use super::environment::{CredentialsEnv, CredentialsError, ExpiringKeys, to_system_time};
use super::signer::AwsKeys;
use crate::Secret;
use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode, Uri, header};
use interzone_protocol::vocab::Timestamp;
use serde::Deserialize;
use std::time::Duration;

/// Time limit of instance metadata, which is near or absent.
const IMDS_TIMEOUT: Duration = Duration::from_secs(2);
const CONTAINER_TIMEOUT: Duration = Duration::from_secs(7);
/// Requested lifetime of the IMDS token, in seconds.
const TOKEN_TTL_SECONDS: &str = "21600";
const TOKEN: &str = "x-aws-ec2-metadata-token";
const TOKEN_TTL: &str = "x-aws-ec2-metadata-token-ttl-seconds";
const ENDPOINT: &str = "AWS_EC2_METADATA_SERVICE_ENDPOINT";
const ROLES: &str = "/latest/meta-data/iam/security-credentials/";

/// Container credential hosts that may be called without TLS.
const CONTAINER_HOSTS: [&str; 3] = ["169.254.170.2", "169.254.170.23", "fd00:ec2::23"];

/// Credentials document of both endpoints.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct CredentialsDocument {
    #[serde(alias = "code")]
    code: Option<String>,
    #[serde(alias = "message")]
    message: Option<String>,
    access_key_id: Option<String>,
    secret_access_key: Option<Secret>,
    token: Option<Secret>,
    expiration: Option<Timestamp>,
}

/// Returns the container's credentials, if it has any.
pub(super) async fn ecs_credentials(
    env: &CredentialsEnv,
) -> Result<Option<ExpiringKeys>, CredentialsError> {
    let Some((name, address)) = container_address(env)? else {
        return Ok(None);
    };
    let mut request = request(Method::GET, &address, name)?;
    let token = match env.var("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE") {
        Some(path) => Some(env.read_token(&path).await?),
        None => env.var("AWS_CONTAINER_AUTHORIZATION_TOKEN"),
    };
    if let Some(token) = token {
        let value = HeaderValue::from_str(token.trim());
        let mut value = value.map_err(|_| {
            CredentialsError::new("the container's authorization token does not fit into a header")
        })?;
        value.set_sensitive(true);
        request.headers_mut().insert(header::AUTHORIZATION, value);
    }
    let response = env.request(request, CONTAINER_TIMEOUT).await?;
    let endpoint = "the container credentials endpoint";
    parse_credentials(endpoint, response.status, &response.body).map(Some)
}

/// Returns the container's credentials URL and the variable that set it. Plain http is allowed only to local hosts.
fn container_address(
    env: &CredentialsEnv,
) -> Result<Option<(&'static str, String)>, CredentialsError> {
    let name = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI";
    if let Some(path) = env.var(name) {
        let slash = if path.starts_with('/') { "" } else { "/" };
        let address = format!("http://169.254.170.2{slash}{path}");
        return Ok(Some((name, address)));
    }
    let name = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
    let Some(address) = env.var(name) else {
        return Ok(None);
    };
    let uri: Uri = address.parse().map_err(|_| invalid_url(name))?;
    if is_private(&uri, &CONTAINER_HOSTS) {
        return Ok(Some((name, address)));
    }
    Err(CredentialsError::new(format!(
        "{name} must be an https URL, loopback or a container credentials host"
    )))
}

/// Returns the credentials of the instance role, if there is one.
pub(super) async fn imds_credentials(
    env: &CredentialsEnv,
) -> Result<Option<ExpiringKeys>, CredentialsError> {
    let disabled = env.var("AWS_EC2_METADATA_DISABLED");
    if disabled.is_some_and(|value| value.trim().eq_ignore_ascii_case("true")) {
        return Ok(None);
    }
    let base = imds_url(env);
    let mut token_request = request(Method::PUT, &format!("{base}/latest/api/token"), ENDPOINT)?;
    let ttl = HeaderValue::from_static(TOKEN_TTL_SECONDS);
    token_request.headers_mut().insert(TOKEN_TTL, ttl);
    let response = env.request(token_request, IMDS_TIMEOUT).await?;
    let endpoint = "the instance metadata";
    if !response.status.is_success() {
        return Err(endpoint_error(endpoint, response.status, &response.body));
    }
    let token = HeaderValue::from_bytes(&response.body);
    let mut token =
        token.map_err(|_| CredentialsError::new(format!("{endpoint}: invalid token")))?;
    token.set_sensitive(true);

    let mut roles_request = request(Method::GET, &format!("{base}{ROLES}"), ENDPOINT)?;
    roles_request.headers_mut().insert(TOKEN, token.clone());
    let response = env.request(roles_request, IMDS_TIMEOUT).await?;
    if response.status == StatusCode::NOT_FOUND {
        return Ok(None);
    }
    if !response.status.is_success() {
        return Err(endpoint_error(endpoint, response.status, &response.body));
    }
    let roles = String::from_utf8_lossy(&response.body);
    let Some(role) = roles
        .lines()
        .next()
        .map(str::trim)
        .filter(|role| !role.is_empty())
    else {
        return Ok(None);
    };
    let source = "the role name in the instance metadata";
    let mut role_request = request(Method::GET, &format!("{base}{ROLES}{role}"), source)?;
    role_request.headers_mut().insert(TOKEN, token);
    let response = env.request(role_request, IMDS_TIMEOUT).await?;
    parse_credentials(endpoint, response.status, &response.body).map(Some)
}

fn imds_url(env: &CredentialsEnv) -> String {
    if let Some(address) = env.var(ENDPOINT) {
        return address.trim_end_matches('/').to_owned();
    }
    let mode = env.var("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE");
    if mode.is_some_and(|mode| mode.trim().eq_ignore_ascii_case("ipv6")) {
        return "http://[fd00:ec2::254]".to_owned();
    }
    "http://169.254.169.254".to_owned()
}

/// Builds a request. Errors name `source` instead of the URL, which may contain a password.
fn request(
    method: Method,
    address: &str,
    source: &str,
) -> Result<http::Request<Bytes>, CredentialsError> {
    let request = http::Request::builder().method(method).uri(address);
    let request = request.body(Bytes::new());
    request.map_err(|_| invalid_url(source))
}

fn invalid_url(source: &str) -> CredentialsError {
    CredentialsError::new(format!("{source} is not a valid URL"))
}

fn parse_credentials(
    endpoint: &str,
    status: StatusCode,
    body: &[u8],
) -> Result<ExpiringKeys, CredentialsError> {
    if !status.is_success() {
        return Err(endpoint_error(endpoint, status, body));
    }
    // serde's error may quote the response, so it is dropped.
    let document: CredentialsDocument = serde_json::from_slice(body)
        .map_err(|_| CredentialsError::new(format!("{endpoint}: the response is invalid")))?;
    if document
        .code
        .as_deref()
        .is_some_and(|code| code != "Success")
    {
        return Err(endpoint_error(endpoint, status, body));
    }
    // Keys with a session token expire, so they must not be cached without an expiry time.
    if document.token.is_some() && document.expiration.is_none() {
        let text = format!("{endpoint}: temporary keys without an expiration");
        return Err(CredentialsError::new(text));
    }
    match (document.access_key_id, document.secret_access_key) {
        (Some(id), Some(secret)) => {
            let mut keys = AwsKeys::new(id, secret);
            if let Some(token) = document.token {
                keys = keys.with_session_token(token);
            }
            let expires_at = document.expiration.map(to_system_time);
            Ok(ExpiringKeys { keys, expires_at })
        }
        _ => Err(CredentialsError::new(format!(
            "{endpoint}: the response has no keys"
        ))),
    }
}

/// Error with the endpoint's code and message, which never contain credentials.
fn endpoint_error(endpoint: &str, status: StatusCode, body: &[u8]) -> CredentialsError {
    let document: Option<CredentialsDocument> = serde_json::from_slice(body).ok();
    let (code, message) =
        document.map_or((None, None), |document| (document.code, document.message));
    let mut text = format!("{endpoint} rejected the request (HTTP status {status})");
    for detail in [code, message].into_iter().flatten() {
        text.push_str(": ");
        text.extend(detail.chars().filter(|c| !c.is_control()).take(200));
    }
    CredentialsError::new(text)
}

#[cfg(test)]
mod tests {
    use super::{container_address, imds_url};
    use crate::aws::environment::CredentialsEnv;

    fn env_with(vars: &'static [(&'static str, &'static str)]) -> CredentialsEnv {
        let find = |name: &str| vars.iter().find(|(key, _)| *key == name);
        CredentialsEnv::new(
            move |name| find(name).map(|(_, value)| (*value).to_owned()),
            None,
        )
    }

    #[test]
    fn container_url_must_be_https_or_local() {
        const FULL: &str = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
        for address in [
            "http://127.0.0.1:9/x",
            "http://[::1]/x",
            "http://localhost/x",
            "http://169.254.170.23/v1/credentials",
            "http://[fd00:ec2::23]/v1/credentials",
            "https://credentials.example/x",
        ] {
            let env =
                CredentialsEnv::new(move |name| (name == FULL).then(|| address.to_owned()), None);
            let found = container_address(&env).unwrap();
            assert_eq!(found, Some((FULL, address.to_owned())));
        }
        for address in [
            "http://credentials.example/x",
            "http://10.0.0.1/",
            "/x",
            "not a url",
        ] {
            let env =
                CredentialsEnv::new(move |name| (name == FULL).then(|| address.to_owned()), None);
            let error = container_address(&env).unwrap_err().to_string();
            assert!(error.contains(FULL), "{error}");
        }
    }

    #[test]
    fn endpoint_urls_follow_the_environment() {
        let both = env_with(&[
            (
                "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
                "/v2/credentials/x",
            ),
            ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1/y"),
        ]);
        let (_, address) = container_address(&both).unwrap().unwrap();
        assert_eq!(address, "http://169.254.170.2/v2/credentials/x");
        assert!(container_address(&env_with(&[])).unwrap().is_none());
        assert_eq!(imds_url(&env_with(&[])), "http://169.254.169.254");
        let ipv6 = env_with(&[("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE", "IPv6")]);
        assert_eq!(imds_url(&ipv6), "http://[fd00:ec2::254]");
    }
}
