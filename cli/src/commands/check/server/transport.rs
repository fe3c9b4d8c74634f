//! The transport: TLS, HTTP methods, media types and sizes.

use super::answer::Answer;
use super::probe::{As, Probe};
use super::verdict::{Checks, Finding, Flaw};
use super::wire::Wire;
use http::{StatusCode, header};
use reqwest::Method;

const ACP: &str = "ACP §1";

/// A call that every server has an answer to, if only a refusal.
const ANY_CALL: &str = r#"{"jsonrpc":"2.0","method":"interzone.check.nothing","id":1}"#;

pub(super) async fn check(probe: &Probe, wire: &Wire, acp: bool, out: &mut Checks) {
    out.group("transport");
    // JSON-RPC itself says nothing about how it is carried.
    let out = &mut Held { acp, out };
    out.note("encrypted with TLS 1.2 or newer", ACP, wire.version().await);
    out.note("TLS 1.1 is refused", ACP, wire.refuses_old_tls().await);
    out.note(
        "answers are application/json",
        ACP,
        answers_json(probe).await,
    );
    out.note("a charset parameter is accepted", ACP, charset(probe).await);
    out.note("only POST is served", ACP, other_methods(probe).await);
    out.note(
        "another media type is refused",
        ACP,
        media_type(probe).await,
    );
    out.note(
        "an oversize body is refused",
        ACP,
        wire.oversize(&probe.endpoint).await,
    );
    out.note(
        "half a request is no answer",
        ACP,
        wire.half_closed(&probe.endpoint).await,
    );
    out.note("x-correlation-id is echoed", ACP, correlation(probe).await);
}

/// Notes what was found, as far as the rules bind this server.
struct Held<'a> {
    acp: bool,
    out: &'a mut Checks,
}

impl Held<'_> {
    fn note(&mut self, name: &'static str, reference: &'static str, found: Finding) {
        let found = match found {
            Err(Flaw::Broken(why)) if !self.acp => Err(Flaw::Poor(why)),
            found => found,
        };
        self.out.note(name, reference, found);
    }
}

async fn answers_json(probe: &Probe) -> Finding {
    let answer = probe.post(ANY_CALL).await?;
    match answer.header(header::CONTENT_TYPE) {
        Some(kind) if kind.split(';').next().map(str::trim) == Some("application/json") => {
            Ok(kind_told(kind))
        }
        Some(kind) => Err(Flaw::broken(format!("it is {}", kind_told(kind)))),
        None => Err(Flaw::broken("there is no Content-Type")),
    }
}

fn kind_told(kind: &str) -> String {
    crate::printable::text(kind)
}

async fn charset(probe: &Probe) -> Finding {
    let request = probe
        .request(Method::POST, probe.endpoint.clone(), As::Caller)
        .header(header::CONTENT_TYPE, "application/json; charset=utf-8")
        .body(ANY_CALL);
    let answer = probe.send(request).await?;
    if answer.status == StatusCode::UNSUPPORTED_MEDIA_TYPE {
        return Err(Flaw::broken("HTTP 415 for application/json; charset=utf-8"));
    }
    answer.response()?;
    Ok(String::new())
}

async fn other_methods(probe: &Probe) -> Finding {
    for method in [Method::GET, Method::PUT, Method::DELETE] {
        let name = method.as_str().to_owned();
        let request = probe.request(method, probe.endpoint.clone(), As::Caller);
        let answer = probe.send(request).await?;
        refused(&answer, &name, StatusCode::METHOD_NOT_ALLOWED)?;
    }
    Ok("GET, PUT and DELETE answer HTTP 405".to_owned())
}

async fn media_type(probe: &Probe) -> Finding {
    let request = probe
        .request(Method::POST, probe.endpoint.clone(), As::Caller)
        .header(header::CONTENT_TYPE, "text/plain")
        .body(ANY_CALL);
    let answer = probe.send(request).await?;
    refused(&answer, "text/plain", StatusCode::UNSUPPORTED_MEDIA_TYPE)?;
    Ok("text/plain answers HTTP 415".to_owned())
}

/// That something answers with the status that says why; another refusal is poorer, none is wrong.
fn refused(answer: &Answer, what: &str, wanted: StatusCode) -> Result<(), Flaw> {
    let came = answer.status.as_u16();
    if answer.status == wanted {
        Ok(())
    } else if answer.status.is_client_error() {
        let wanted = wanted.as_u16();
        Err(Flaw::poor(format!(
            "{what} answers HTTP {came}; {wanted} says why"
        )))
    } else {
        Err(Flaw::broken(format!("{what} answers HTTP {came}")))
    }
}

async fn correlation(probe: &Probe) -> Finding {
    let request = probe
        .request(Method::POST, probe.endpoint.clone(), As::Caller)
        .header(header::CONTENT_TYPE, "application/json")
        .header("x-correlation-id", "interzone-check-1")
        .body(ANY_CALL);
    let answer = probe.send(request).await?;
    match answer.header("x-correlation-id") {
        Some("interzone-check-1") => Ok(String::new()),
        Some(_) => Err(Flaw::poor("another id comes back")),
        None => Err(Flaw::poor("the answer has none")),
    }
}
