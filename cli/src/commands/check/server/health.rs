//! Health: what operators and load balancers look at.

use super::probe::{As, Probe};
use super::verdict::{Checks, Finding, Flaw};
use http::StatusCode;

const HEALTH: &str = "ACP §1";

pub(super) async fn check(probe: &Probe, out: &mut Checks) {
    out.group("health");
    out.note(
        "says that it is alive",
        HEALTH,
        any(probe, &["/health", "/healthz"]).await,
    );
    out.note(
        "says that it is ready",
        HEALTH,
        any(probe, &["/ready", "/readyz"]).await,
    );
}

/// That one of these pages answers, without a token.
async fn any(probe: &Probe, paths: &[&str]) -> Finding {
    for path in paths {
        match probe.get(path, As::Nobody).await?.status {
            StatusCode::OK => return Ok((*path).to_owned()),
            StatusCode::SERVICE_UNAVAILABLE => {
                return Err(Flaw::broken(format!("{path} answers HTTP 503")));
            }
            _ => {}
        }
    }
    Err(Flaw::poor(format!(
        "neither {} answers",
        paths.join(" nor ")
    )))
}
