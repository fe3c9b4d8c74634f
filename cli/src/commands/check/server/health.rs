//! Health endpoints for operators and load balancers.

use super::check_result::{CheckFailure, CheckOutcome, Checks};
use super::http_client::{CheckClient, RequestIdentity};
use http::StatusCode;

const HEALTH: &str = "ACP §1";

pub(super) async fn check(probe: &CheckClient, out: &mut Checks) {
    out.group("health");
    out.record(
        "liveness endpoint",
        HEALTH,
        any_responds(probe, &["/health", "/healthz"]).await,
    );
    out.record(
        "readiness endpoint",
        HEALTH,
        any_responds(probe, &["/ready", "/readyz"]).await,
    );
}

/// Checks that one of these paths responds without a token.
async fn any_responds(probe: &CheckClient, paths: &[&str]) -> CheckOutcome {
    for path in paths {
        match probe.get(path, RequestIdentity::Anonymous).await?.status {
            StatusCode::OK => return Ok((*path).to_owned()),
            StatusCode::SERVICE_UNAVAILABLE => {
                return Err(CheckFailure::violation(format!(
                    "{path} responds with HTTP 503"
                )));
            }
            _ => {}
        }
    }
    Err(CheckFailure::warning(format!(
        "neither {} responds",
        paths.join(" nor ")
    )))
}
