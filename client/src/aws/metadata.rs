//! Credentials that whoever runs the program hands out over the network: a container's host, and the
//! machine itself (version 2 of its metadata).

use super::network::is_private;
use super::place::{Known, Place, Trouble, until};
use super::signer::AwsKeys;
use crate::Secret;
use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode, Uri, header};
use interzone_protocol::vocab::Timestamp;
use serde::Deserialize;
use std::time::Duration;

/// The machine itself is near, or it is not there.
const MACHINE: Duration = Duration::from_secs(2);
const CONTAINER: Duration = Duration::from_secs(7);
/// How long the machine's token shall be good, in seconds.
const TOKEN_FOR: &str = "21600";
const TOKEN: &str = "x-aws-ec2-metadata-token";
const TOKEN_TTL: &str = "x-aws-ec2-metadata-token-ttl-seconds";
const ENDPOINT: &str = "AWS_EC2_METADATA_SERVICE_ENDPOINT";
const ROLES: &str = "/latest/meta-data/iam/security-credentials/";

/// Hosts of containers, which are asked without TLS.
const CONTAINER_HOSTS: [&str; 3] = ["169.254.170.2", "169.254.170.23", "fd00:ec2::23"];

/// What both say.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Given {
    #[serde(alias = "code")]
    code: Option<String>,
    #[serde(alias = "message")]
    message: Option<String>,
    access_key_id: Option<String>,
    secret_access_key: Option<Secret>,
    token: Option<Secret>,
    expiration: Option<Timestamp>,
}

/// The credentials of the container, if the program runs in one that has any.
pub(super) async fn container(place: &Place) -> Result<Option<Known>, Trouble> {
    let Some((name, address)) = container_address(place)? else {
        return Ok(None);
    };
    let mut request = request(Method::GET, &address, name)?;
    let token = match place.var("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE") {
        Some(path) => Some(place.token(&path).await?),
        None => place.var("AWS_CONTAINER_AUTHORIZATION_TOKEN"),
    };
    if let Some(token) = token {
        let value = HeaderValue::from_str(token.trim());
        let mut value = value.map_err(|_| {
            Trouble::new("the container's authorization token does not fit into a header")
        })?;
        value.set_sensitive(true);
        request.headers_mut().insert(header::AUTHORIZATION, value);
    }
    let answer = place.ask(request, CONTAINER).await?;
    let who = "the container's host";
    known(who, answer.status, &answer.body).map(Some)
}

/// Where the container's credentials are, and the variable that says so. Without TLS only to where no
/// other machine listens.
fn container_address(place: &Place) -> Result<Option<(&'static str, String)>, Trouble> {
    let name = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI";
    if let Some(path) = place.var(name) {
        let slash = if path.starts_with('/') { "" } else { "/" };
        let address = format!("http://169.254.170.2{slash}{path}");
        return Ok(Some((name, address)));
    }
    let name = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
    let Some(address) = place.var(name) else {
        return Ok(None);
    };
    let uri: Uri = address.parse().map_err(|_| no_address(name))?;
    if is_private(&uri, &CONTAINER_HOSTS) {
        return Ok(Some((name, address)));
    }
    Err(Trouble::new(format!(
        "{name} must be https, this machine or a host of containers"
    )))
}

/// The credentials of the machine's role, if it has one and tells.
pub(super) async fn machine(place: &Place) -> Result<Option<Known>, Trouble> {
    let disabled = place.var("AWS_EC2_METADATA_DISABLED");
    if disabled.is_some_and(|word| word.trim().eq_ignore_ascii_case("true")) {
        return Ok(None);
    }
    let base = machine_address(place);
    let mut asked = request(Method::PUT, &format!("{base}/latest/api/token"), ENDPOINT)?;
    let ttl = HeaderValue::from_static(TOKEN_FOR);
    asked.headers_mut().insert(TOKEN_TTL, ttl);
    let answer = place.ask(asked, MACHINE).await?;
    let who = "the machine's metadata";
    if !answer.status.is_success() {
        return Err(refused(who, answer.status, &answer.body));
    }
    let token = HeaderValue::from_bytes(&answer.body);
    let mut token = token.map_err(|_| Trouble::new(format!("{who}: its token is none")))?;
    token.set_sensitive(true);

    let mut asked = request(Method::GET, &format!("{base}{ROLES}"), ENDPOINT)?;
    asked.headers_mut().insert(TOKEN, token.clone());
    let answer = place.ask(asked, MACHINE).await?;
    if answer.status == StatusCode::NOT_FOUND {
        return Ok(None);
    }
    if !answer.status.is_success() {
        return Err(refused(who, answer.status, &answer.body));
    }
    let roles = String::from_utf8_lossy(&answer.body);
    let Some(role) = roles
        .lines()
        .next()
        .map(str::trim)
        .filter(|role| !role.is_empty())
    else {
        return Ok(None);
    };
    let whose = "what the machine's metadata says of its role";
    let mut asked = request(Method::GET, &format!("{base}{ROLES}{role}"), whose)?;
    asked.headers_mut().insert(TOKEN, token);
    let answer = place.ask(asked, MACHINE).await?;
    known(who, answer.status, &answer.body).map(Some)
}

fn machine_address(place: &Place) -> String {
    if let Some(address) = place.var(ENDPOINT) {
        return address.trim_end_matches('/').to_owned();
    }
    let mode = place.var("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE");
    if mode.is_some_and(|mode| mode.trim().eq_ignore_ascii_case("ipv6")) {
        return "http://[fd00:ec2::254]".to_owned();
    }
    "http://169.254.169.254".to_owned()
}

/// `whose` is told of an address that is none; the address itself may hold a password.
fn request(method: Method, address: &str, whose: &str) -> Result<http::Request<Bytes>, Trouble> {
    let request = http::Request::builder().method(method).uri(address);
    let request = request.body(Bytes::new());
    request.map_err(|_| no_address(whose))
}

fn no_address(whose: &str) -> Trouble {
    Trouble::new(format!("{whose} is no address"))
}

fn known(who: &str, status: StatusCode, body: &[u8]) -> Result<Known, Trouble> {
    if !status.is_success() {
        return Err(refused(who, status, body));
    }
    // What serde says of a wrong answer may repeat parts of it.
    let given: Given = serde_json::from_slice(body)
        .map_err(|_| Trouble::new(format!("{who}: its answer is not what it should be")))?;
    if given.code.as_deref().is_some_and(|code| code != "Success") {
        return Err(refused(who, status, body));
    }
    // Those with a token are over some day, and who kept them for ever would not notice.
    if given.token.is_some() && given.expiration.is_none() {
        let words = format!("{who}: its keys are temporary, and it does not say until when");
        return Err(Trouble::new(words));
    }
    match (given.access_key_id, given.secret_access_key) {
        (Some(id), Some(secret)) => {
            let mut keys = AwsKeys::new(id, secret);
            if let Some(token) = given.token {
                keys = keys.with_session_token(token);
            }
            let until = given.expiration.map(until);
            Ok(Known { keys, until })
        }
        _ => Err(Trouble::new(format!("{who}: its answer has no keys"))),
    }
}

/// Its own words, if it has any: those are about errors and never credentials.
fn refused(who: &str, status: StatusCode, body: &[u8]) -> Trouble {
    let given: Option<Given> = serde_json::from_slice(body).ok();
    let (code, message) = given.map_or((None, None), |given| (given.code, given.message));
    let mut words = format!("{who} refused (HTTP status {status})");
    for said in [code, message].into_iter().flatten() {
        words.push_str(": ");
        words.extend(said.chars().filter(|c| !c.is_control()).take(200));
    }
    Trouble::new(words)
}

#[cfg(test)]
mod tests {
    use super::{container_address, machine_address};
    use crate::aws::place::Place;

    fn place(vars: &'static [(&'static str, &'static str)]) -> Place {
        let found = |name: &str| vars.iter().find(|(known, _)| *known == name);
        Place::new(
            move |name| found(name).map(|(_, value)| (*value).to_owned()),
            None,
        )
    }

    #[test]
    fn a_token_goes_nowhere_in_the_clear_but_near() {
        const FULL: &str = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
        for address in [
            "http://127.0.0.1:9/x",
            "http://[::1]/x",
            "http://localhost/x",
            "http://169.254.170.23/v1/credentials",
            "http://[fd00:ec2::23]/v1/credentials",
            "https://credentials.example/x",
        ] {
            let place = Place::new(move |name| (name == FULL).then(|| address.to_owned()), None);
            let found = container_address(&place).unwrap();
            assert_eq!(found, Some((FULL, address.to_owned())));
        }
        for address in [
            "http://credentials.example/x",
            "http://10.0.0.1/",
            "/x",
            "nowhere at all",
        ] {
            let place = Place::new(move |name| (name == FULL).then(|| address.to_owned()), None);
            let error = container_address(&place).unwrap_err().to_string();
            assert!(error.contains(FULL), "{error}");
        }
    }

    #[test]
    fn places_are_where_aws_says() {
        let both = place(&[
            (
                "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
                "/v2/credentials/x",
            ),
            ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1/y"),
        ]);
        let (_, address) = container_address(&both).unwrap().unwrap();
        assert_eq!(address, "http://169.254.170.2/v2/credentials/x");
        assert!(container_address(&place(&[])).unwrap().is_none());
        assert_eq!(machine_address(&place(&[])), "http://169.254.169.254");
        let six = place(&[("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE", "IPv6")]);
        assert_eq!(machine_address(&six), "http://[fd00:ec2::254]");
    }
}
