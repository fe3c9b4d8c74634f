//! AWS STS: temporary credentials of a role, obtained with other credentials or a web identity token.

use super::credential_http::is_private;
use super::environment::{CredentialsEnv, CredentialsError, ExpiringKeys, to_system_time};
use super::signer::AwsKeys;
use super::sigv4;
use bytes::Bytes;
use http::{HeaderValue, StatusCode, Uri, header};
use interzone_protocol::vocab::Timestamp;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use url::form_urlencoded;

/// Time limit per attempt; three attempts fit into the time limit of a refresh.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(8);
const FORM: HeaderValue = HeaderValue::from_static("application/x-www-form-urlencoded");

/// A role to assume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AssumedRole {
    pub(super) arn: String,
    /// Session name in AWS's audit logs.
    pub(super) session: Option<String>,
    pub(super) external: Option<String>,
}

/// Proof of the right to assume a role.
pub(super) enum RoleProof<'a> {
    Keys(&'a AwsKeys),
    Token(&'a str),
}

/// Returns credentials of a role.
pub(super) async fn assume_role(
    env: &CredentialsEnv,
    (region, now): (&str, SystemTime),
    role: &AssumedRole,
    proof: RoleProof<'_>,
) -> Result<ExpiringKeys, CredentialsError> {
    let role_error = |text: &str| CredentialsError::new(format!("the role {}: {text}", role.arn));
    let address = sts_url(env, region).map_err(|text| role_error(&text))?;
    let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let session = role.session.clone();
    let session = session.unwrap_or_else(|| format!("interzone-{seconds}"));
    let form = request_form(role, &session, &proof);
    let request = http::Request::post(address).header(header::CONTENT_TYPE, FORM);
    let request = request.body(Bytes::from(form));
    let mut request = request.map_err(|_| role_error("the STS URL is invalid"))?;
    if let RoleProof::Keys(keys) = proof {
        let service = "sts";
        let scope = sigv4::SigningScope {
            service,
            region,
            at: now,
        };
        sigv4::sign(&mut request, keys, scope).map_err(|error| role_error(&error.to_string()))?;
    }
    let response = env.request(request, ATTEMPT_TIMEOUT).await;
    let response = response.map_err(|error| role_error(&error.to_string()))?;
    let text = String::from_utf8_lossy(&response.body);
    if !response.status.is_success() {
        return Err(role_error(&error_text(response.status, &text)));
    }
    parse_credentials(&text).ok_or_else(|| role_error("the response has no credentials"))
}

/// Builds the form of the STS request.
fn request_form(role: &AssumedRole, session: &str, proof: &RoleProof<'_>) -> String {
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.append_pair("Version", "2011-06-15")
        .append_pair("RoleArn", &role.arn)
        .append_pair("RoleSessionName", session);
    match proof {
        RoleProof::Keys(_) => {
            form.append_pair("Action", "AssumeRole");
            if let Some(external) = &role.external {
                form.append_pair("ExternalId", external);
            }
        }
        RoleProof::Token(token) => {
            form.append_pair("Action", "AssumeRoleWithWebIdentity");
            form.append_pair("WebIdentityToken", token);
        }
    }
    form.finish()
}

/// Returns the STS URL of the region, or the one in the environment. It must be https or loopback, because tokens
/// are sent there.
fn sts_url(env: &CredentialsEnv, region: &str) -> Result<String, String> {
    for name in ["AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL"] {
        let Some(address) = env.var(name) else {
            continue;
        };
        let address = format!("{}/", address.trim_end_matches('/'));
        let uri = address.parse::<Uri>();
        return match uri.is_ok_and(|uri| is_private(&uri, &[])) {
            true => Ok(address),
            false => Err(format!("{name} must be an https URL or loopback")),
        };
    }
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if region.is_empty() || !region.chars().all(plain) {
        return Err("the region is invalid".to_owned());
    }
    let suffixes = [
        ("cn-", "amazonaws.com.cn"),
        ("eusc-", "amazonaws.eu"),
        ("us-iso-", "c2s.ic.gov"),
        ("us-isob-", "sc2s.sgov.gov"),
        ("us-isof-", "csp.hci.ic.gov"),
        ("eu-isoe-", "cloud.adc-e.uk"),
    ];
    let special = suffixes.iter().find(|(start, _)| region.starts_with(start));
    let suffix = special.map_or("amazonaws.com", |(_, suffix)| suffix);
    Ok(format!("https://sts.{region}.{suffix}/"))
}

/// Error text with the service's code and message, which contain no credentials.
fn error_text(status: StatusCode, body: &str) -> String {
    let mut text = format!("the request was rejected (HTTP status {status})");
    for name in ["Code", "Message"] {
        if let Some(detail) = element(body, name) {
            text.push_str(": ");
            text.extend(detail.chars().filter(|c| !c.is_control()).take(200));
        }
    }
    text
}

fn parse_credentials(text: &str) -> Option<ExpiringKeys> {
    let all = element(text, "Credentials")?;
    // None of these values needs XML escapes.
    let plain =
        |name| element(all, name).filter(|text| !text.is_empty() && !text.contains(['<', '&']));
    let keys = AwsKeys::new(plain("AccessKeyId")?, plain("SecretAccessKey")?);
    let end: Timestamp = plain("Expiration")?.parse().ok()?;
    Some(ExpiringKeys {
        keys: keys.with_session_token(plain("SessionToken")?),
        expires_at: Some(to_system_time(end)),
    })
}

/// Returns the content of the first element with this name.
fn element<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, tail) = text.split_once(&format!("<{name}>"))?;
    let (inside, _) = tail.split_once(&format!("</{name}>"))?;
    Some(inside.trim())
}

#[cfg(test)]
mod tests {
    use super::sts_url;
    use crate::aws::environment::CredentialsEnv;

    #[test]
    fn sts_url_depends_on_the_partition() {
        let empty = CredentialsEnv::new(|_| None, None);
        for (region, host) in [
            ("eu-west-1", "sts.eu-west-1.amazonaws.com"),
            ("us-gov-west-1", "sts.us-gov-west-1.amazonaws.com"),
            ("cn-north-1", "sts.cn-north-1.amazonaws.com.cn"),
            ("us-iso-east-1", "sts.us-iso-east-1.c2s.ic.gov"),
            ("us-isob-east-1", "sts.us-isob-east-1.sc2s.sgov.gov"),
        ] {
            let expected = format!("https://{host}/");
            assert_eq!(sts_url(&empty, region), Ok(expected));
        }
        for region in ["", "evil.example/", "EU", "a b"] {
            assert!(sts_url(&empty, region).is_err(), "{region}");
        }
    }

    #[test]
    fn sts_url_must_be_https_or_loopback() {
        for name in ["AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL"] {
            for (configured, expected) in [
                ("https://sts.example", Some("https://sts.example/")),
                ("http://127.0.0.1:4566/", Some("http://127.0.0.1:4566/")),
                ("http://[::1]:1", Some("http://[::1]:1/")),
                ("http://localhost", Some("http://localhost/")),
                ("http://me:pa55@sts.example", None),
                ("http://169.254.170.2", None),
                ("http://localhost.example", None),
                ("http://127.0.0.1@sts.example", None),
                ("ftp://localhost", None),
                ("localhost:1", None),
                ("pa55 is not a url", None),
            ] {
                let env = CredentialsEnv::new(
                    move |var| (var == name).then(|| configured.to_owned()),
                    None,
                );
                let found = sts_url(&env, "eu-west-1");
                assert_eq!(found.as_deref().ok(), expected, "{configured}");
                if let Err(text) = found {
                    assert!(text.contains(&format!("{name} must")), "{text}");
                    assert!(!text.contains("pa55"), "{text}");
                }
            }
        }
    }
}
