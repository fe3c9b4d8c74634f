//! Whether a server keeps the rules, seen from outside.
//!
//! The checks are plain requests and what comes back. Nothing of our own server is known here: any
//! server that speaks JSON-RPC over HTTP can be looked at, and one that speaks ACP more closely.

mod answer;
mod authentication;
mod card;
mod envelope;
mod events;
mod health;
mod members;
mod mistakes;
mod probe;
mod streams;
mod tasks;
mod transport;
mod verdict;
mod wire;

use crate::connect::{Connection, Proof};
use crate::exit::{Exit, Failure};
use crate::output::{self, Format};
use crate::printable;
use crate::scopes::{Lacking, lacking_in, widest_token};
use clap::ValueEnum;
use interzone_client::Secret;
use interzone_edge::tls::Trust;
use interzone_protocol::acp::Scope;
use probe::Probe;
use rustls::ClientConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls_platform_verifier::Verifier;
use serde_json::json;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use url::Url;
use verdict::{Check, Checks, Flaw, Verdict};
use wire::Wire;

/// Which rules a server is held to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Protocol {
    /// ACP if the server has its methods
    #[default]
    Auto,
    /// Only the envelope
    Jsonrpc,
    /// ACP, whatever the server has
    Acp,
}

/// Looks at a server and tells what was found.
///
/// # Errors
/// The server cannot be reached, or there is no token to be had.
pub(super) async fn examine(
    connection: &Connection,
    protocol: Protocol,
    patience: Duration,
    format: Format,
) -> Result<Exit, Failure> {
    let endpoint = endpoint(&connection.url)?;
    let tokens = Tokens::of(connection).await?;
    let extra: Vec<PathBuf> = connection.ca.iter().cloned().collect();
    let trust = Trust::system_and(&extra).map_err(crate::wiring::StartError::Tls)?;
    let http = trust
        .client()
        .build()
        .map_err(crate::wiring::StartError::Http)?;
    let tls = match endpoint.scheme() {
        "https" => Some(tls_config(&extra)?),
        _ => None,
    };
    let probe = Probe::new(http, endpoint, tokens, patience);
    let Some(wire) = Wire::new(&probe.endpoint, tls, patience) else {
        return Err(Failure::Misuse("the address names no host".to_owned()));
    };
    reach(&connection.client()?, &wire).await?;
    let acp = match protocol {
        Protocol::Jsonrpc => false,
        Protocol::Acp => true,
        Protocol::Auto => speaks_acp(&probe).await,
    };
    let mut checks = Checks::default();
    transport::check(&probe, &wire, acp, &mut checks).await;
    envelope::check(&probe, acp, &mut checks).await;
    if acp {
        authentication::check(&probe, &mut checks).await;
        tasks::check(&probe, &mut checks).await;
        streams::check(&probe, &mut checks).await;
        card::check(&probe, &mut checks).await;
        health::check(&probe, &mut checks).await;
    }
    let spoken = if acp { "ACP" } else { "JSON-RPC 2.0" };
    output::write(|out| match format {
        Format::Json => write_json(out, &connection.url, spoken, &checks),
        Format::Text => write_text(out, &connection.url, spoken, &checks),
    })?;
    Ok(match checks.count(Verdict::Fail) {
        0 => Exit::Done,
        _ => Exit::No,
    })
}

/// Where JSON-RPC is spoken: the address itself if it has a path, else `/jsonrpc` there.
fn endpoint(url: &str) -> Result<Url, Failure> {
    let mut url = Url::parse(url)
        .map_err(|_| Failure::Misuse(format!("{} is no URL", printable::quoted(url))))?;
    if url.path() == "/" {
        url.set_path("/jsonrpc");
    }
    Ok(url)
}

/// What the checks are made with, as far as it is to be had.
#[derive(Default)]
struct Tokens {
    /// With every scope of ACP that it can have.
    wide: Option<Secret>,
    /// One that may do nothing.
    narrow: Option<Secret>,
    /// What the wide one lacks, where that is known.
    lacking: Option<Lacking>,
}

impl Tokens {
    async fn of(connection: &Connection) -> Result<Self, Failure> {
        match &connection.proof {
            Proof::None => Ok(Self::default()),
            Proof::Token(token) => Ok(Self {
                wide: Some(token.clone()),
                narrow: None,
                lacking: lacking_in(token),
            }),
            Proof::Client { .. } | Proof::Public { .. } => {
                let client = connection.client()?;
                let (wide, lacking) = widest_token(&client).await?;
                let narrow = client.token(&[Scope::AgentIdentify.name()]).await;
                Ok(Self {
                    wide: Some(wide),
                    narrow: narrow.ok(),
                    lacking,
                })
            }
        }
    }
}

/// Ends early, with the usual words, where nobody answers at all.
async fn reach(client: &interzone_client::Client, wire: &Wire) -> Result<(), Failure> {
    if wire.is_there().await {
        return Ok(());
    }
    match client.call_raw("interzone.check.nothing", &json!({})).await {
        Err(error @ interzone_client::Error::Transport(_)) => Err(error.into()),
        _ => Ok(()),
    }
}

/// Whether the server knows a method of ACP. One that wants a token first is taken for one.
async fn speaks_acp(probe: &Probe) -> bool {
    let asked = probe
        .call("tasks.get", json!({"taskId": "interzone-check"}))
        .await;
    match asked {
        Ok(answer) => answer
            .refused_with(&[interzone_jsonrpc::ErrorCode::METHOD_NOT_FOUND])
            .is_err(),
        // A method that takes a scope is there.
        Err(Flaw::Unseen(_)) => true,
        Err(_) => false,
    }
}

/// What handshakes below HTTP are made with: the same CAs.
fn tls_config(extra: &[PathBuf]) -> Result<ClientConfig, Failure> {
    let mut roots = Vec::new();
    for path in extra {
        let found = CertificateDer::pem_file_iter(path);
        let found = found.and_then(|found| found.collect::<Result<Vec<_>, _>>());
        let unreadable = |_| {
            let path = printable::text(&path.to_string_lossy());
            Failure::Misuse(format!("{path} holds no certificates in PEM"))
        };
        roots.extend(found.map_err(unreadable)?);
    }
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config = Verifier::new_with_extra_roots(roots, provider.clone()).and_then(|verifier| {
        let builder = ClientConfig::builder_with_provider(provider);
        Ok(builder
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth())
    });
    config.map_err(|error| Failure::Misuse(format!("TLS cannot be set up: {error}")))
}

fn write_json(out: &mut dyn Write, url: &str, spoken: &str, checks: &Checks) -> io::Result<()> {
    let report = json!({
        "url": url,
        "protocol": spoken,
        "passed": checks.count(Verdict::Pass),
        "failed": checks.count(Verdict::Fail),
        "warnings": checks.count(Verdict::Warn),
        "skipped": checks.count(Verdict::Skip),
        "checks": checks.all,
    });
    output::write_json(out, &report)
}

fn write_text(out: &mut dyn Write, url: &str, spoken: &str, checks: &Checks) -> io::Result<()> {
    writeln!(out, "{} ({spoken})", printable::text(url))?;
    let mut group = "";
    for check in &checks.all {
        if check.group != group {
            group = check.group;
            writeln!(out, "\n{group}")?;
        }
        write_check(out, check)?;
    }
    let counted = |verdict| checks.count(verdict);
    writeln!(
        out,
        "\n{} checks: {} passed, {} failed, {} could be better, {} left out",
        checks.all.len(),
        counted(Verdict::Pass),
        counted(Verdict::Fail),
        counted(Verdict::Warn),
        counted(Verdict::Skip)
    )
}

fn write_check(out: &mut dyn Write, check: &Check) -> io::Result<()> {
    let Check {
        name,
        verdict,
        reason,
        reference,
        ..
    } = check;
    write!(out, "  {}  {name}", verdict.word())?;
    match (verdict, reason.is_empty()) {
        (Verdict::Pass, true) => writeln!(out),
        (Verdict::Pass, false) => writeln!(out, ": {reason}"),
        _ => writeln!(out, ": {reason} [{reference}]"),
    }
}
