//! The transport: TLS, HTTP methods, media types and sizes.

use super::check_result::{CheckFailure, CheckOutcome, Checks};
use super::http_client::{CheckClient, RequestIdentity};
use super::raw_socket::RawSocket;
use super::response::ServerResponse;
use http::{StatusCode, header};
use reqwest::Method;

const ACP: &str = "ACP §1";

/// A call that every server responds to, if only with an error.
const ANY_CALL: &str = r#"{"jsonrpc":"2.0","method":"interzone.check.nothing","id":1}"#;

pub(super) async fn check(probe: &CheckClient, wire: &RawSocket, acp: bool, out: &mut Checks) {
    out.group("transport");
    // JSON-RPC itself does not specify a transport.
    let out = &mut TransportRecorder { acp, out };
    out.record(
        "encrypted with TLS 1.2 or newer",
        ACP,
        wire.tls_version().await,
    );
    out.record("TLS 1.1 is refused", ACP, wire.refuses_old_tls().await);
    out.record(
        "responses are application/json",
        ACP,
        answers_json(probe).await,
    );
    out.record("a charset parameter is accepted", ACP, charset(probe).await);
    out.record("only POST is allowed", ACP, other_methods(probe).await);
    out.record(
        "another media type is refused",
        ACP,
        media_type(probe).await,
    );
    out.record(
        "an oversize body is refused",
        ACP,
        wire.refuses_oversize_body(&probe.endpoint).await,
    );
    out.record(
        "an incomplete request gets no result",
        ACP,
        wire.refuses_incomplete_body(&probe.endpoint).await,
    );
    out.record("x-correlation-id is echoed", ACP, correlation(probe).await);
}

/// Records outcomes; violations are only warnings for a server without ACP.
struct TransportRecorder<'a> {
    acp: bool,
    out: &'a mut Checks,
}

impl TransportRecorder<'_> {
    fn record(&mut self, name: &'static str, reference: &'static str, found: CheckOutcome) {
        let found = match found {
            Err(CheckFailure::Violation(why)) if !self.acp => Err(CheckFailure::Warning(why)),
            found => found,
        };
        self.out.record(name, reference, found);
    }
}

async fn answers_json(probe: &CheckClient) -> CheckOutcome {
    let answer = probe.post(ANY_CALL).await?;
    match answer.header(header::CONTENT_TYPE) {
        Some(kind) if kind.split(';').next().map(str::trim) == Some("application/json") => {
            Ok(printable_type(kind))
        }
        Some(kind) => Err(CheckFailure::violation(format!(
            "Content-Type is {}",
            printable_type(kind)
        ))),
        None => Err(CheckFailure::violation("no Content-Type header")),
    }
}

fn printable_type(kind: &str) -> String {
    crate::printable::text(kind)
}

async fn charset(probe: &CheckClient) -> CheckOutcome {
    let request = probe
        .request(
            Method::POST,
            probe.endpoint.clone(),
            RequestIdentity::Caller,
        )
        .header(header::CONTENT_TYPE, "application/json; charset=utf-8")
        .body(ANY_CALL);
    let answer = probe.send(request).await?;
    if answer.status == StatusCode::UNSUPPORTED_MEDIA_TYPE {
        return Err(CheckFailure::violation(
            "HTTP 415 for application/json; charset=utf-8",
        ));
    }
    answer.response()?;
    Ok(String::new())
}

async fn other_methods(probe: &CheckClient) -> CheckOutcome {
    for method in [Method::GET, Method::PUT, Method::DELETE] {
        let name = method.as_str().to_owned();
        let request = probe.request(method, probe.endpoint.clone(), RequestIdentity::Caller);
        let answer = probe.send(request).await?;
        refused(&answer, &name, StatusCode::METHOD_NOT_ALLOWED)?;
    }
    Ok("GET, PUT and DELETE return HTTP 405".to_owned())
}

async fn media_type(probe: &CheckClient) -> CheckOutcome {
    let request = probe
        .request(
            Method::POST,
            probe.endpoint.clone(),
            RequestIdentity::Caller,
        )
        .header(header::CONTENT_TYPE, "text/plain")
        .body(ANY_CALL);
    let answer = probe.send(request).await?;
    refused(&answer, "text/plain", StatusCode::UNSUPPORTED_MEDIA_TYPE)?;
    Ok("text/plain returns HTTP 415".to_owned())
}

/// Checks the status code of a refusal; another 4xx status is a warning, any other status a violation.
fn refused(answer: &ServerResponse, what: &str, wanted: StatusCode) -> Result<(), CheckFailure> {
    let status = answer.status.as_u16();
    if answer.status == wanted {
        Ok(())
    } else if answer.status.is_client_error() {
        let wanted = wanted.as_u16();
        Err(CheckFailure::warning(format!(
            "{what} returns HTTP {status}; should be {wanted}"
        )))
    } else {
        Err(CheckFailure::violation(format!(
            "{what} returns HTTP {status}"
        )))
    }
}

async fn correlation(probe: &CheckClient) -> CheckOutcome {
    let request = probe
        .request(
            Method::POST,
            probe.endpoint.clone(),
            RequestIdentity::Caller,
        )
        .header(header::CONTENT_TYPE, "application/json")
        .header("x-correlation-id", "interzone-check-1")
        .body(ANY_CALL);
    let answer = probe.send(request).await?;
    match answer.header("x-correlation-id") {
        Some("interzone-check-1") => Ok(String::new()),
        Some(_) => Err(CheckFailure::warning("a different id is returned")),
        None => Err(CheckFailure::warning("the response has none")),
    }
}
