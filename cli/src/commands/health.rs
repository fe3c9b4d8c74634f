//! `interzone health`: checks that the local zone is up. For containers and watchdogs, which then need no other
//! program.

use crate::config::{Config, ConfigSummary, VerificationZoneConfig};
use crate::connect_error::{ConnectFailure, causes};
use crate::exit::{Exit, Failure};
use crate::output::{self, OutputFormat};
use crate::wiring::StartError;
use clap::Args;
use rustls::AlertDescription;
use serde_json::json;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Timeout of the request. Docker and systemd have longer timeouts of their own.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);

/// Check that the local zone is up
///
/// Exit code 0 means healthy, 1 unhealthy, 3 unreachable. It connects to the address that the zone listens
/// on, sends no credentials, and so accepts any certificate.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Example:
  interzone health --config /etc/interzone/interzone.toml"
)]
pub(crate) struct Health {
    /// Configuration file of either zone
    #[arg(long, value_name = "FILE", default_value = "interzone.toml")]
    config: PathBuf,

    /// Check readiness (/readyz) instead of liveness (/healthz)
    #[arg(long)]
    ready: bool,
}

/// Health endpoint of a local zone.
struct ZoneEndpoint {
    name: &'static str,
    url: String,
    /// True if the server requires a client certificate, which this command does not have.
    requires_client_cert: bool,
}

impl Health {
    pub(crate) async fn run(&self, format: OutputFormat) -> Result<Exit, Failure> {
        let http = reqwest::Client::builder()
            .no_proxy()
            // With HTTP/2, a closed connection hides the TLS alert.
            .http1_only()
            .timeout(REQUEST_TIMEOUT)
            .tls_danger_accept_invalid_certs(true)
            .build()
            .map_err(StartError::Http)?;
        let mut exit = Exit::Done;
        let mut results = Vec::new();
        for endpoint in self.endpoints()? {
            let (status, message) = probe(&http, &endpoint).await;
            if status != Exit::Done {
                exit = status;
            }
            results.push((endpoint, status, message));
        }
        output::write(|out| match format {
            OutputFormat::Json => {
                let zones: Vec<_> = results
                    .iter()
                    .map(|(zone, exit, message)| {
                        json!({"zone": zone.name, "url": zone.url, "healthy": *exit == Exit::Done, "found": message})
                    })
                    .collect();
                output::write_json(out, &json!({"zones": zones}))
            }
            OutputFormat::Text => results.iter().try_for_each(|(endpoint, _, message)| {
                writeln!(out, "{}: {message}", endpoint.name)
            }),
        })?;
        Ok(exit)
    }

    fn endpoints(&self) -> Result<Vec<ZoneEndpoint>, Failure> {
        let outline = ConfigSummary::load(&self.config)?;
        let path = if self.ready { "readyz" } else { "healthz" };
        let mut endpoints = Vec::new();
        if outline.execution {
            let config = Config::load(&self.config)?;
            endpoints.push(match config.tls.server() {
                Some(files) => ZoneEndpoint {
                    name: "execution",
                    url: format!("https://{}/{path}", local_address(config.execution.listen)),
                    requires_client_cert: files.client_ca.is_some(),
                },
                None => ZoneEndpoint {
                    name: "execution",
                    url: format!("http://{}/ping", local_address(config.agentcore.listen)),
                    requires_client_cert: false,
                },
            });
        }
        if outline.verification {
            let config = VerificationZoneConfig::load(&self.config)?;
            let files = config.tls.server();
            endpoints.push(ZoneEndpoint {
                name: "verification",
                url: format!(
                    "https://{}/{path}",
                    local_address(config.verification.listen)
                ),
                requires_client_cert: files.is_some_and(|files| files.client_ca.is_some()),
            });
        }
        Ok(endpoints)
    }
}

/// Returns an address that reaches a listener: loopback for the unspecified address.
fn local_address(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

async fn probe(http: &reqwest::Client, endpoint: &ZoneEndpoint) -> (Exit, String) {
    match http.get(&endpoint.url).send().await {
        Ok(answer) if answer.status().is_success() => (Exit::Done, "healthy".to_owned()),
        Ok(answer) => (
            Exit::Failed,
            format!("unhealthy: HTTP {}", answer.status().as_u16()),
        ),
        // A request for a client certificate shows that the zone is up.
        Err(error) if endpoint.requires_client_cert && wants_certificate(&error) => (
            Exit::Done,
            "healthy, requires a client certificate".to_owned(),
        ),
        Err(error) if error.is_timeout() => (
            Exit::Unreachable,
            format!("no response within {}s", REQUEST_TIMEOUT.as_secs()),
        ),
        Err(error) => (
            Exit::Unreachable,
            match ConnectFailure::from_error(&error) {
                away if away.has_response() => format!("TLS handshake failed at {}", endpoint.url),
                _ => format!("no response from {}", endpoint.url),
            },
        ),
    }
}

fn wants_certificate(error: &reqwest::Error) -> bool {
    causes(error).any(|cause| {
        matches!(
            cause.downcast_ref::<rustls::Error>(),
            Some(rustls::Error::AlertReceived(
                AlertDescription::CertificateRequired
            ))
        )
    })
}

#[cfg(test)]
mod tests {
    use super::local_address;

    #[test]
    fn unspecified_address_maps_to_loopback() {
        for (listen, reached) in [
            ("0.0.0.0:8443", "127.0.0.1:8443"),
            ("[::]:8443", "[::1]:8443"),
            ("10.0.0.7:443", "10.0.0.7:443"),
        ] {
            assert_eq!(local_address(listen.parse().unwrap()).to_string(), reached);
        }
    }
}
