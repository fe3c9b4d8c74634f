//! The store, the clock, and the zones themselves: whether they answer, and whether we are let in.

use super::report::Report;
use super::wire::{Seen, Unseen, Wire};
use crate::config::{AgentKind, Config, ProofConfig, StoreConfig, StoreUrl, VerifyConfig};
use crate::reach::Away;
use crate::refusal::Told;
use crate::wiring::{self, zone_client, zone_scopes};
use interzone_client::RetryPolicy;
use url::Url;

/// Nobody should be further apart; Slack's requests are refused from five minutes on.
const CLOCKS_APART: i64 = 5;
/// From here on things break: tokens are not yet or no longer valid.
const CLOCKS_BROKEN: i64 = 60;

/// Whether the store opens and answers.
pub(super) async fn store(config: &StoreConfig, report: &mut Report) {
    if let StoreUrl::Sqlite(path) = &config.url
        && !path.exists()
    {
        let folder = path.parent().filter(|folder| folder.is_dir());
        match folder {
            Some(_) => report.pass(
                "store",
                format!("{} is made at the first start", path.display()),
            ),
            None => report.fail(
                "store",
                format!("the folder of {} is not there", path.display()),
                "make it, or correct store.url",
            ),
        }
        return;
    }
    let answer = async {
        // To open an older one would change it, perhaps under a node of that version.
        let current = wiring::store_is_current(config).await;
        if !current.map_err(|error| error.to_string())? {
            return Ok(
                "answers; its tables are made or renewed at the next start, so keep a copy of what is there",
            );
        }
        let keep = wiring::records(config).await;
        let keep = keep.map_err(|error| error.to_string())?;
        // A kind that nobody has: it is only asked whether there is an answer.
        let asked = keep.list("doctor").await;
        asked.map_err(|error| error.to_string())?;
        Ok::<_, String>("opens and answers")
    };
    match answer.await {
        Ok(found) => report.pass("store", found),
        Err(error) => report.fail("store", error, "correct [store], or bring it up"),
    }
}

/// What somebody's clock says of ours.
pub(super) fn clock(whose: &str, seen: &Seen, report: &mut Report) {
    let name = format!("clock against {whose}");
    let Some(ahead) = seen.ahead else {
        report.skip(
            name,
            "the answer has no date",
            "compare this machine's clock by other means",
        );
        return;
    };
    let way = if ahead < 0 { "behind" } else { "ahead" };
    let found = format!("{} s {way}", ahead.abs());
    match ahead.abs() {
        apart if apart <= CLOCKS_APART => report.pass(name, found),
        apart if apart < CLOCKS_BROKEN => {
            report.warn(name, found, "let NTP set this machine's clock");
        }
        _ => report.fail(
            name,
            found,
            "let NTP set this machine's clock: signatures and tokens are judged by it",
        ),
    }
}

/// Whether a zone of ours serves at its own address.
pub(super) async fn own(public: &Url, command: &str, wire: &Wire, report: &mut Report) {
    let name = "this zone";
    let address = match command {
        "verify" => "verification.public_url",
        _ => "execution.public_url",
    };
    let shown = public.as_str().trim_end_matches('/');
    match wire.get(below(public, "readyz")).await {
        Ok(seen) if seen.status == 200 => {
            report.pass(name, format!("serves at {shown} and is ready"))
        }
        Ok(seen) if seen.status == 503 => report.warn(
            name,
            format!("serves at {shown} and is not ready: {}", seen.body),
            "look at its log",
        ),
        Ok(seen) => report.warn(
            name,
            format!("{shown} answers HTTP {}", seen.status),
            "somebody else seems to serve there",
        ),
        Err(Unseen { away, why }) if away.answered() => report.warn(
            name,
            format!("somebody serves at {shown}, but {why}"),
            match away {
                Away::Untrusted => {
                    "name its CA in tls.trust, as all who call it must know it".to_owned()
                }
                _ => away.next("tls.trust", address),
            },
        ),
        Err(Unseen { away, why }) => report.skip(
            name,
            match away {
                Away::Refused => format!("nobody serves at {shown}"),
                _ => format!("{shown} cannot be looked at: {why}"),
            },
            match away {
                Away::Refused => {
                    format!("start it with `interzone {command}`, if it is not meant to be down")
                }
                _ => away.next("tls.trust", address),
            },
        ),
    }
}

/// Whether the Execution Zone is there and lets us in.
pub(super) async fn execution(config: &VerifyConfig, wire: &Wire, report: &mut Report) {
    let url = &config.verification.execution_url;
    let shown = url.as_str().trim_end_matches('/').to_owned();
    match wire.get(below(url, "healthz")).await {
        Ok(seen) => {
            match seen.status {
                200 => report.pass("execution zone", format!("answers at {shown}")),
                status => report.fail(
                    "execution zone",
                    format!("{shown} answers HTTP {status}"),
                    "correct verification.execution_url",
                ),
            }
            clock("the Execution Zone", &seen, report);
        }
        Err(unseen) => {
            report.fail(
                "execution zone",
                format!("{shown} cannot be spoken to: {}", unseen.why),
                unseen.next("verification.execution_url"),
            );
            report.skip(
                "token",
                "there is nobody to show it to",
                "begin with the Execution Zone",
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
                "correct [verification.oauth] and [tls] trust",
            );
            return;
        }
    };
    let scopes = zone_scopes();
    match client.token(&scopes).await {
        Ok(_) => report.pass("token", format!("may have {}", scopes.join(", "))),
        Err(error) => {
            let told = Told::of(&error);
            let make = format!(
                "make the client where the Execution Zone's tokens come from; with the built-in issuer: \
                 interzone client add {0} --id {0} --secret-file FILE",
                config.verification.oauth.client_id
            );
            report.fail("token", told.message(), make);
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
            let told = Told::of(&error);
            report.fail(
                "agent card",
                told.message(),
                "`interzone check URL` tells more",
            );
        }
    }
}

/// Whether the issuer of an Execution Zone is there.
pub(super) async fn issuer(config: &Config, wire: &Wire, report: &mut Report) {
    let Some(issuer) = &config.oauth.issuer else {
        report.pass("issuer", "the built-in one");
        return;
    };
    let (asked, address) = match &config.oauth.jwks_url {
        Some(keys) => (Url::parse(keys).ok(), "oauth.jwks_url"),
        None => {
            let metadata = |url| below(&url, ".well-known/openid-configuration");
            (Url::parse(issuer).ok().map(metadata), "oauth.issuer")
        }
    };
    let Some(asked) = asked else {
        report.fail("issuer", "its address is none", "correct [oauth]");
        return;
    };
    match wire.get(asked).await {
        Ok(seen) => {
            match (seen.status, seen.body.is_object()) {
                (200, true) => report.pass("issuer", format!("{issuer} answers")),
                (status, _) => report.warn(
                    "issuer",
                    format!("it answers HTTP {status} where its keys or metadata should be"),
                    "say with oauth.jwks_url where its keys are",
                ),
            }
            clock("the issuer", &seen, report);
        }
        Err(unseen) => report.fail(
            "issuer",
            format!(
                "{issuer} cannot be spoken to: {}; no token can be proved until it can",
                unseen.why
            ),
            unseen.next(address),
        ),
    }
}

/// Whether agents have the secrets that they need.
pub(super) fn agents(config: &Config, report: &mut Report) {
    for agent in &config.agents {
        let kept = match &agent.kind {
            AgentKind::Demo | AgentKind::Command(_) => None,
            AgentKind::Llm(model) => model.key.as_ref(),
            AgentKind::Remote(peer) => match &peer.proof {
                ProofConfig::Token(kept) | ProofConfig::Client { secret: kept, .. } => Some(kept),
                ProofConfig::None => None,
            },
        };
        let name = format!("agent {}", agent.id.as_str());
        match kept {
            Some(kept) if kept.secret.is_none() => report.fail(
                name,
                format!("it needs a secret, and {} has none", kept.place),
                "put it there",
            ),
            Some(kept) => report.pass(name, format!("its secret is in {}", kept.place)),
            None => report.pass(name, "needs no secret"),
        }
    }
}

/// An address below another.
fn below(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    let whole = format!("{}/{path}", url.path().trim_end_matches('/'));
    url.set_path(&whole);
    url
}

#[cfg(test)]
mod tests {
    use super::super::report::{Report, Verdict};
    use super::super::wire::Seen;
    use super::{below, clock};
    use serde_json::Value;
    use url::Url;

    #[test]
    fn clocks_are_compared() {
        let look = |ahead| {
            let mut report = Report::default();
            let seen = Seen {
                status: 200,
                ahead,
                scopes: None,
                body: Value::Null,
            };
            clock("Slack", &seen, &mut report);
            (report.checks[0].verdict, report.checks[0].found.clone())
        };
        assert_eq!(look(Some(-2)), (Verdict::Pass, "2 s behind".to_owned()));
        assert_eq!(look(Some(20)).0, Verdict::Warn);
        assert_eq!(look(Some(-3600)).0, Verdict::Fail);
        assert_eq!(look(None).0, Verdict::Skip);
    }

    #[test]
    fn an_address_keeps_its_path() {
        let url = |text: &str| Url::parse(text).unwrap();
        assert_eq!(
            below(&url("https://a"), "healthz").as_str(),
            "https://a/healthz"
        );
        assert_eq!(
            below(&url("https://a/b/"), "c/d").as_str(),
            "https://a/b/c/d"
        );
    }
}
