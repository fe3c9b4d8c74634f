//! Conformance tests of a server, from outside.
//!
//! The checks are plain HTTP requests and do not depend on our server: they test any server with JSON-RPC over HTTP,
//! and in more detail one with ACP.

mod assertions;
mod authentication;
mod card;
mod check_result;
mod envelope;
mod events;
mod health;
mod http_client;
mod invalid_params;
mod raw_socket;
mod response;
mod streams;
mod tasks;
mod transport;

use crate::connect::{Connection, ServerCredentials};
use crate::exit::{Exit, Failure};
use crate::output::{self, OutputFormat};
use crate::printable;
use crate::scopes::{MissingScopeNames, missing_in_token, widest_token};
use check_result::{CheckFailure, CheckVerdict, Checks, ServerCheck};
use clap::ValueEnum;
use http_client::CheckClient;
use interzone_client::Secret;
use interzone_edge::tls::TrustRoots;
use interzone_protocol::Scope;
use raw_socket::RawSocket;
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

/// Protocol to test for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Protocol {
    /// ACP if the server supports it, else JSON-RPC
    #[default]
    Auto,
    /// JSON-RPC envelope only
    Jsonrpc,
    /// ACP, even if the server does not seem to support it
    Acp,
}

/// Tests a server and prints the results.
///
/// # Errors
/// The server is unreachable, or no token can be obtained.
pub(super) async fn run(
    connection: &Connection,
    protocol: Protocol,
    timeout: Duration,
    format: OutputFormat,
) -> Result<Exit, Failure> {
    let endpoint = endpoint(&connection.url)?;
    let tokens = CheckTokens::obtain(connection).await?;
    let extra: Vec<PathBuf> = connection.ca.iter().cloned().collect();
    let trust = TrustRoots::system_and_files(&extra).map_err(crate::wiring::StartError::Tls)?;
    let http = trust
        .client()
        .build()
        .map_err(crate::wiring::StartError::Http)?;
    let tls = match endpoint.scheme() {
        "https" => Some(tls_config(&extra)?),
        _ => None,
    };
    let probe = CheckClient::new(http, endpoint, tokens, timeout);
    let Some(wire) = RawSocket::new(&probe.endpoint, tls, timeout) else {
        return Err(Failure::Misuse("the URL has no host".to_owned()));
    };
    ensure_reachable(&connection.client()?, &wire).await?;
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
        OutputFormat::Json => write_json(out, &connection.url, spoken, &checks),
        OutputFormat::Text => write_text(out, &connection.url, spoken, &checks),
    })?;
    Ok(match checks.count(CheckVerdict::Fail) {
        0 => Exit::Done,
        _ => Exit::Failed,
    })
}

/// Returns the JSON-RPC endpoint: the URL itself if it has a path, else `/jsonrpc`.
fn endpoint(url: &str) -> Result<Url, Failure> {
    let mut url = Url::parse(url)
        .map_err(|_| Failure::Misuse(format!("{} is not a valid URL", printable::quoted(url))))?;
    if url.path() == "/" {
        url.set_path("/jsonrpc");
    }
    Ok(url)
}

/// Access tokens for the checks, as far as available.
#[derive(Default)]
struct CheckTokens {
    /// Token with all ACP scopes that the client may have.
    wide: Option<Secret>,
    /// Token without any task or stream scope.
    narrow: Option<Secret>,
    /// ACP scopes that the wide token is missing, if known.
    lacking: Option<MissingScopeNames>,
}

impl CheckTokens {
    async fn obtain(connection: &Connection) -> Result<Self, Failure> {
        match &connection.credentials {
            ServerCredentials::None => Ok(Self::default()),
            ServerCredentials::Token(token) => Ok(Self {
                wide: Some(token.clone()),
                narrow: None,
                lacking: missing_in_token(token),
            }),
            ServerCredentials::Client { .. } | ServerCredentials::Public { .. } => {
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

/// Fails early with the usual connection error if the server is unreachable.
async fn ensure_reachable(
    client: &interzone_client::Client,
    wire: &RawSocket,
) -> Result<(), Failure> {
    if wire.is_reachable().await {
        return Ok(());
    }
    match client.call_raw("interzone.check.nothing", &json!({})).await {
        Err(error @ interzone_client::Error::Transport(_)) => Err(error.into()),
        _ => Ok(()),
    }
}

/// Returns true if the server knows an ACP method. A server that requires a token first counts as one.
async fn speaks_acp(probe: &CheckClient) -> bool {
    let reply = probe
        .call("tasks.get", json!({"taskId": "interzone-check"}))
        .await;
    match reply {
        Ok(answer) => answer
            .refused_with(&[interzone_jsonrpc::ErrorCode::METHOD_NOT_FOUND])
            .is_err(),
        // A method that requires a scope exists.
        Err(CheckFailure::Skipped(_)) => true,
        Err(_) => false,
    }
}

/// Builds the TLS configuration for raw connections, with the same CAs as HTTP.
fn tls_config(extra: &[PathBuf]) -> Result<ClientConfig, Failure> {
    let mut roots = Vec::new();
    for path in extra {
        let found = CertificateDer::pem_file_iter(path);
        let found = found.and_then(|found| found.collect::<Result<Vec<_>, _>>());
        let unreadable = |_| {
            let path = printable::text(&path.to_string_lossy());
            Failure::Misuse(format!("{path} contains no PEM certificates"))
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
        "passed": checks.count(CheckVerdict::Pass),
        "failed": checks.count(CheckVerdict::Fail),
        "warnings": checks.count(CheckVerdict::Warn),
        "skipped": checks.count(CheckVerdict::Skip),
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
        "\n{} checks: {} passed, {} failed, {} warnings, {} skipped",
        checks.all.len(),
        counted(CheckVerdict::Pass),
        counted(CheckVerdict::Fail),
        counted(CheckVerdict::Warn),
        counted(CheckVerdict::Skip)
    )
}

fn write_check(out: &mut dyn Write, check: &ServerCheck) -> io::Result<()> {
    let ServerCheck {
        name,
        verdict,
        reason,
        reference,
        ..
    } = check;
    write!(out, "  {}  {name}", verdict.label())?;
    match (verdict, reason.is_empty()) {
        (CheckVerdict::Pass, true) => writeln!(out),
        (CheckVerdict::Pass, false) => writeln!(out, ": {reason}"),
        _ => writeln!(out, ": {reason} [{reference}]"),
    }
}
