//! Roles: AWS's token service gives credentials of a role to whoever has others, or a token of an
//! identity provider.

use super::network::is_private;
use super::place::{Known, Place, Trouble, until};
use super::signer::AwsKeys;
use super::v4;
use bytes::Bytes;
use http::{HeaderValue, StatusCode, Uri, header};
use interzone_protocol::vocab::Timestamp;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use url::form_urlencoded;

/// Three tries must fit into the time of a whole look.
const WITHIN: Duration = Duration::from_secs(8);
const FORM: HeaderValue = HeaderValue::from_static("application/x-www-form-urlencoded");

/// A role to take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Role {
    pub(super) arn: String,
    /// What the session is called in AWS's records.
    pub(super) session: Option<String>,
    pub(super) external: Option<String>,
}

/// How it is proven that the role may be taken.
pub(super) enum Proof<'a> {
    Keys(&'a AwsKeys),
    Token(&'a str),
}

/// Credentials of a role.
pub(super) async fn assume(
    place: &Place,
    (region, now): (&str, SystemTime),
    role: &Role,
    proof: Proof<'_>,
) -> Result<Known, Trouble> {
    let said = |words: &str| Trouble::new(format!("the role {}: {words}", role.arn));
    let address = address(place, region).map_err(|words| said(&words))?;
    let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let session = role.session.clone();
    let session = session.unwrap_or_else(|| format!("interzone-{seconds}"));
    let form = form(role, &session, &proof);
    let request = http::Request::post(address).header(header::CONTENT_TYPE, FORM);
    let request = request.body(Bytes::from(form));
    let mut request = request.map_err(|_| said("its service has no address"))?;
    if let Proof::Keys(keys) = proof {
        let service = "sts";
        let scope = v4::Scope {
            service,
            region,
            at: now,
        };
        v4::sign(&mut request, keys, scope).map_err(|error| said(&error.to_string()))?;
    }
    let answer = place.ask(request, WITHIN).await;
    let answer = answer.map_err(|error| said(&error.to_string()))?;
    let text = String::from_utf8_lossy(&answer.body);
    if !answer.status.is_success() {
        return Err(said(&refusal(answer.status, &text)));
    }
    credentials(&text).ok_or_else(|| said("the answer has no credentials"))
}

/// What the service is asked.
fn form(role: &Role, session: &str, proof: &Proof<'_>) -> String {
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.append_pair("Version", "2011-06-15")
        .append_pair("RoleArn", &role.arn)
        .append_pair("RoleSessionName", session);
    match proof {
        Proof::Keys(_) => {
            form.append_pair("Action", "AssumeRole");
            if let Some(external) = &role.external {
                form.append_pair("ExternalId", external);
            }
        }
        Proof::Token(token) => {
            form.append_pair("Action", "AssumeRoleWithWebIdentity");
            form.append_pair("WebIdentityToken", token);
        }
    }
    form.finish()
}

/// The service of the region, or wherever the environment says that it is. Tokens go there, so nobody
/// else may listen.
fn address(place: &Place, region: &str) -> Result<String, String> {
    for name in ["AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL"] {
        let Some(address) = place.var(name) else {
            continue;
        };
        let address = format!("{}/", address.trim_end_matches('/'));
        let uri = address.parse::<Uri>();
        return match uri.is_ok_and(|uri| is_private(&uri, &[])) {
            true => Ok(address),
            false => Err(format!("{name} must be https or this machine")),
        };
    }
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if region.is_empty() || !region.chars().all(plain) {
        return Err("there is no such region".to_owned());
    }
    let suffixes = [
        ("cn-", "amazonaws.com.cn"),
        ("eusc-", "amazonaws.eu"),
        ("us-iso-", "c2s.ic.gov"),
        ("us-isob-", "sc2s.sgov.gov"),
        ("us-isof-", "csp.hci.ic.gov"),
        ("eu-isoe-", "cloud.adc-e.uk"),
    ];
    let own = suffixes.iter().find(|(start, _)| region.starts_with(start));
    let suffix = own.map_or("amazonaws.com", |(_, suffix)| suffix);
    Ok(format!("https://sts.{region}.{suffix}/"))
}

/// What the service says of itself, which is short and no credential.
fn refusal(status: StatusCode, text: &str) -> String {
    let mut words = format!("refused (HTTP status {status})");
    for name in ["Code", "Message"] {
        if let Some(said) = element(text, name) {
            words.push_str(": ");
            words.extend(said.chars().filter(|c| !c.is_control()).take(200));
        }
    }
    words
}

fn credentials(text: &str) -> Option<Known> {
    let all = element(text, "Credentials")?;
    // None of these needs a sign that XML spells otherwise.
    let plain =
        |name| element(all, name).filter(|text| !text.is_empty() && !text.contains(['<', '&']));
    let keys = AwsKeys::new(plain("AccessKeyId")?, plain("SecretAccessKey")?);
    let end: Timestamp = plain("Expiration")?.parse().ok()?;
    Some(Known {
        keys: keys.with_session_token(plain("SessionToken")?),
        until: Some(until(end)),
    })
}

/// What stands in the first element of this name.
fn element<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    let (inside, _) = rest.split_once(&format!("</{name}>"))?;
    Some(inside.trim())
}

#[cfg(test)]
mod tests {
    use super::address;
    use crate::aws::place::Place;

    #[test]
    fn every_part_of_the_cloud_has_its_own_service() {
        let nowhere = Place::new(|_| None, None);
        for (region, host) in [
            ("eu-west-1", "sts.eu-west-1.amazonaws.com"),
            ("us-gov-west-1", "sts.us-gov-west-1.amazonaws.com"),
            ("cn-north-1", "sts.cn-north-1.amazonaws.com.cn"),
            ("us-iso-east-1", "sts.us-iso-east-1.c2s.ic.gov"),
            ("us-isob-east-1", "sts.us-isob-east-1.sc2s.sgov.gov"),
        ] {
            let expected = format!("https://{host}/");
            assert_eq!(address(&nowhere, region), Ok(expected));
        }
        for region in ["", "evil.example/", "EU", "a b"] {
            assert!(address(&nowhere, region).is_err(), "{region}");
        }
    }

    #[test]
    fn tokens_go_nowhere_in_the_clear() {
        for name in ["AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL"] {
            for (said, expected) in [
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
                ("pa55 is no address", None),
            ] {
                let place = Place::new(move |var| (var == name).then(|| said.to_owned()), None);
                let found = address(&place, "eu-west-1");
                assert_eq!(found.as_deref().ok(), expected, "{said}");
                if let Err(words) = found {
                    assert!(words.contains(&format!("{name} must")), "{words}");
                    assert!(!words.contains("pa55"), "{words}");
                }
            }
        }
    }
}
