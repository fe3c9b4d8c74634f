//! Checks of the store, the clock, and the zones: reachability, tokens and scopes.

use super::http_probe::{HttpProbe, ProbeFailure, ProbeResponse};
use super::report::DoctorReport;
use crate::config::{AgentKind, Config, StoreConfig, StoreUrl, VerificationZoneConfig};
use crate::connect_error::ConnectFailure;
use crate::error_report::ErrorReport;
use crate::wiring::{self, HAS_AWS_SUPPORT, check_aws_support, required_scopes, zone_client};
use interzone_client::RetryPolicy;
use interzone_hub::{Clock, SystemClock};
use url::Url;

/// Tolerated clock difference in seconds; Slack's requests are refused from five minutes on.
const MAX_CLOCK_OFFSET_SECS: i64 = 5;
/// Clock difference in seconds at which tokens start to be rejected as expired or not yet valid.
const BROKEN_CLOCK_OFFSET_SECS: i64 = 60;

/// Checks that the store opens and responds.
pub(super) async fn store(config: &StoreConfig, report: &mut DoctorReport) {
    if let StoreUrl::Sqlite(path) = &config.url
        && !path.exists()
    {
        let folder = path.parent().filter(|folder| folder.is_dir());
        match folder {
            Some(_) => report.pass(
                "store",
                format!("{} will be created at the first start", path.display()),
            ),
            None => report.fail(
                "store",
                format!("the folder of {} does not exist", path.display()),
                "create it, or fix store.url",
            ),
        }
        return;
    }
    let answer = async {
        // Opening an older store would migrate it, perhaps while a node of that version is running.
        let current = wiring::store_is_current(config).await;
        if !current.map_err(|error| error.to_string())? {
            return Ok(
                "responds; the next start creates or migrates its tables, so make a backup first",
            );
        }
        let store = wiring::record_store(config).await;
        let store = store.map_err(|error| error.to_string())?;
        // An unused kind: only the response matters.
        let listed = store.records("doctor", SystemClock.now()).await;
        listed.map_err(|error| error.to_string())?;
        Ok::<_, String>("opens and responds")
    };
    match answer.await {
        Ok(found) => report.pass("store", found),
        Err(error) => report.fail("store", error, "fix [store], or start the database"),
    }
}

/// Compares our clock with that of a response.
pub(super) fn clock(peer: &str, response: &ProbeResponse, report: &mut DoctorReport) {
    let name = format!("clock against {peer}");
    let Some(ahead) = response.clock_offset else {
        report.skip(
            name,
            "the response has no Date header",
            "check this machine's clock yourself",
        );
        return;
    };
    let way = if ahead < 0 { "behind" } else { "ahead" };
    let found = format!("{} s {way}", ahead.abs());
    match ahead.abs() {
        apart if apart <= MAX_CLOCK_OFFSET_SECS => report.pass(name, found),
        apart if apart < BROKEN_CLOCK_OFFSET_SECS => {
            report.warn(name, found, "synchronize this machine's clock (NTP)");
        }
        _ => report.fail(
            name,
            found,
            "synchronize this machine's clock (NTP): signatures and tokens depend on it",
        ),
    }
}

/// Checks that this zone is running at its public URL.
pub(super) async fn this_zone(
    public: &Url,
    zone: &str,
    wire: &HttpProbe,
    report: &mut DoctorReport,
) {
    let name = "this zone";
    let address = match zone {
        "verification" => "verification.public_url",
        _ => "execution.public_url",
    };
    let shown = public.as_str().trim_end_matches('/');
    match wire.get(append_path(public, "readyz")).await {
        Ok(response) if response.status == 200 => {
            report.pass(name, format!("running at {shown} and ready"))
        }
        Ok(response) if response.status == 503 => report.warn(
            name,
            format!("running at {shown} but not ready: {}", response.body),
            "check its log",
        ),
        Ok(response) => report.warn(
            name,
            format!("{shown} responds with HTTP {}", response.status),
            "another server seems to be running there",
        ),
        Err(ProbeFailure {
            failure: away,
            reason: why,
        }) if away.has_response() => report.warn(
            name,
            format!("a server is running at {shown}, but {why}"),
            match away {
                ConnectFailure::Untrusted => {
                    "add its CA to tls.trust; all its clients must trust it too".to_owned()
                }
                _ => away.hint("tls.trust", address),
            },
        ),
        Err(ProbeFailure {
            failure: away,
            reason: why,
        }) => report.skip(
            name,
            match away {
                ConnectFailure::ConnectionRefused => format!("not running at {shown}"),
                _ => format!("cannot check {shown}: {why}"),
            },
            match away {
                ConnectFailure::ConnectionRefused => {
                    format!(
                        "start it with `interzone serve {zone}`, unless it is stopped on purpose"
                    )
                }
                _ => away.hint("tls.trust", address),
            },
        ),
    }
}

/// Checks that the Execution Zone is reachable and accepts our credentials.
pub(super) async fn execution(
    config: &VerificationZoneConfig,
    wire: &HttpProbe,
    report: &mut DoctorReport,
) {
    let url = &config.verification.execution_url;
    let shown = url.as_str().trim_end_matches('/').to_owned();
    match wire.get(append_path(url, "healthz")).await {
        Ok(response) => {
            match response.status {
                200 => report.pass("execution zone", format!("responds at {shown}")),
                status => report.fail(
                    "execution zone",
                    format!("{shown} responds with HTTP {status}"),
                    "fix verification.execution_url",
                ),
            }
            clock("the Execution Zone", &response, report);
        }
        Err(failure) => {
            report.fail(
                "execution zone",
                format!("cannot connect to {shown}: {}", failure.reason),
                failure.advice("verification.execution_url"),
            );
            report.skip(
                "token",
                "not checked: the Execution Zone is unreachable",
                "fix the connection to the Execution Zone first",
            );
            return;
        }
    }
    let client = match zone_client(config, RetryPolicy::never()) {
        Ok(client) => client,
        Err(error) => {
            report.fail(
                "token",
                error.to_string(),
                "fix [verification.oauth] and [tls] trust",
            );
            return;
        }
    };
    let scopes = required_scopes();
    match client.token(&scopes).await {
        Ok(_) => report.pass("token", format!("granted {}", scopes.join(", "))),
        Err(error) => {
            let error_report = ErrorReport::from_client_error(&error);
            let make = format!(
                "create the client at the Execution Zone's issuer; with the built-in issuer: \
                 interzone client add {0} --id {0} --secret-file FILE",
                config.verification.oauth.client_id
            );
            report.fail("token", error_report.message(), make);
            return;
        }
    }
    match client.get_agent_card().await {
        Ok(card) => report.pass(
            "agent card",
            format!(
                "{} {}, {} skills",
                card.name,
                card.version,
                card.skills.map_or(0, |all| all.len())
            ),
        ),
        Err(error) => {
            let error_report = ErrorReport::from_client_error(&error);
            report.fail(
                "agent card",
                error_report.message(),
                "run `interzone check URL` for details",
            );
        }
    }
}

/// Checks that the issuer of an Execution Zone responds.
pub(super) async fn issuer(config: &Config, wire: &HttpProbe, report: &mut DoctorReport) {
    let Some(issuer) = &config.oauth.issuer else {
        report.pass("issuer", "built-in");
        return;
    };
    let (asked, address) = match &config.oauth.jwks_url {
        Some(keys) => (Url::parse(keys).ok(), "oauth.jwks_url"),
        None => {
            let metadata = |url| append_path(&url, ".well-known/openid-configuration");
            (Url::parse(issuer).ok().map(metadata), "oauth.issuer")
        }
    };
    let Some(asked) = asked else {
        report.fail("issuer", "its URL is not valid", "fix [oauth]");
        return;
    };
    match wire.get(asked).await {
        Ok(response) => {
            match (response.status, response.body.is_object()) {
                (200, true) => report.pass("issuer", format!("{issuer} responds")),
                (status, _) => report.warn(
                    "issuer",
                    format!("responds with HTTP {status} instead of its keys or metadata"),
                    "set oauth.jwks_url to the URL of its keys",
                ),
            }
            clock("the issuer", &response, report);
        }
        Err(failure) => report.fail(
            "issuer",
            format!(
                "cannot connect to {issuer}: {}; tokens cannot be verified until this is fixed",
                failure.reason
            ),
            failure.advice(address),
        ),
    }
}

/// Checks that agents have the secrets they need, and that this binary can run them.
pub(super) fn agents(config: &Config, report: &mut DoctorReport) {
    for agent in &config.agents {
        let secret = match &agent.kind {
            AgentKind::Demo | AgentKind::Command(_) => None,
            AgentKind::Llm(model) => model.key.as_ref(),
            AgentKind::Remote(peer) => peer.secret(),
        };
        let name = format!("agent {}", agent.id.as_str());
        if let Err(error) = check_aws_support(agent, HAS_AWS_SUPPORT) {
            report.fail(name, error.to_string(), "replace this binary");
            continue;
        }
        match secret {
            Some(stored) if stored.secret().is_none() => report.fail(
                name,
                format!("needs a secret, but {} has none", stored.location),
                "add it there",
            ),
            Some(stored) => report.pass(name, format!("secret found in {}", stored.location)),
            None => report.pass(name, "no secret needed"),
        }
    }
}

/// Appends a path to a URL.
fn append_path(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    let full_path = format!("{}/{path}", url.path().trim_end_matches('/'));
    url.set_path(&full_path);
    url
}

#[cfg(test)]
mod tests {
    use super::super::http_probe::ProbeResponse;
    use super::super::report::{DoctorReport, DoctorVerdict};
    use super::{append_path, clock};
    use serde_json::Value;
    use url::Url;

    #[test]
    fn clock_offset_decides_verdict() {
        let look = |ahead| {
            let mut report = DoctorReport::default();
            let response = ProbeResponse {
                status: 200,
                clock_offset: ahead,
                scopes: None,
                body: Value::Null,
            };
            clock("Slack", &response, &mut report);
            (report.checks[0].verdict, report.checks[0].found.clone())
        };
        assert_eq!(
            look(Some(-2)),
            (DoctorVerdict::Pass, "2 s behind".to_owned())
        );
        assert_eq!(look(Some(20)).0, DoctorVerdict::Warn);
        assert_eq!(look(Some(-3600)).0, DoctorVerdict::Fail);
        assert_eq!(look(None).0, DoctorVerdict::Skip);
    }

    #[test]
    fn append_path_keeps_base_path() {
        let url = |text: &str| Url::parse(text).unwrap();
        assert_eq!(
            append_path(&url("https://a"), "healthz").as_str(),
            "https://a/healthz"
        );
        assert_eq!(
            append_path(&url("https://a/b/"), "c/d").as_str(),
            "https://a/b/c/d"
        );
    }
}
