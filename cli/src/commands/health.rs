//! `interzone health`: does the zone of a configuration answer on this machine? For containers and watchdogs,
//! which then need no other program.

use crate::config::{Config, Outline, VerifyConfig};
use crate::exit::{Exit, Failure};
use crate::output::{self, Format};
use crate::reach::{Away, causes};
use crate::wiring::StartError;
use clap::Args;
use rustls::AlertDescription;
use serde_json::json;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// How long the zone may take. Docker and systemd have limits of their own, which are longer.
const PATIENCE: Duration = Duration::from_secs(3);

/// Ask whether the zone of a configuration answers on this machine
///
/// Exit code 0 means that it does, 1 that it is not well, 3 that nobody answers. It goes to the address that
/// the zone listens on and sends nothing but the question, so it takes any certificate.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Example:
  interzone health --config /etc/interzone/interzone.toml"
)]
pub(crate) struct Health {
    /// The configuration, of either zone
    #[arg(long, value_name = "FILE", default_value = "interzone.toml")]
    config: PathBuf,

    /// Ask whether it is ready for work, and not only whether it lives
    #[arg(long)]
    ready: bool,
}

/// A zone that should be here.
struct Door {
    name: &'static str,
    url: String,
    /// Whether callers need a certificate, which we have none of.
    guarded: bool,
}

impl Health {
    pub(crate) async fn run(&self, format: Format) -> Result<Exit, Failure> {
        let http = reqwest::Client::builder()
            .no_proxy()
            // Of HTTP/2 only words are left when the other side hangs up, and no alert of TLS.
            .http1_only()
            .timeout(PATIENCE)
            .tls_danger_accept_invalid_certs(true)
            .build()
            .map_err(StartError::Http)?;
        let mut exit = Exit::Done;
        let mut told = Vec::new();
        for door in self.doors()? {
            let (worst, words) = ask(&http, &door).await;
            if worst != Exit::Done {
                exit = worst;
            }
            told.push((door, worst, words));
        }
        output::write(|out| match format {
            Format::Json => {
                let zones: Vec<_> = told
                    .iter()
                    .map(|(door, exit, words)| {
                        json!({"zone": door.name, "url": door.url, "well": *exit == Exit::Done, "found": words})
                    })
                    .collect();
                output::write_json(out, &json!({"zones": zones}))
            }
            Format::Text => told
                .iter()
                .try_for_each(|(door, _, words)| writeln!(out, "{}: {words}", door.name)),
        })?;
        Ok(exit)
    }

    fn doors(&self) -> Result<Vec<Door>, Failure> {
        let outline = Outline::of(&self.config)?;
        let word = if self.ready { "readyz" } else { "healthz" };
        let mut doors = Vec::new();
        if outline.execution {
            let config = Config::load(&self.config)?;
            doors.push(match &config.tls.server {
                Some(files) => Door {
                    name: "execution",
                    url: format!("https://{}/{word}", here(config.execution.listen)),
                    guarded: files.client_ca.is_some(),
                },
                None => Door {
                    name: "execution",
                    url: format!("http://{}/ping", here(config.agentcore.listen)),
                    guarded: false,
                },
            });
        }
        if outline.verification {
            let config = VerifyConfig::load(&self.config)?;
            let files = config.tls.server.as_ref();
            doors.push(Door {
                name: "verification",
                url: format!("https://{}/{word}", here(config.verification.listen)),
                guarded: files.is_some_and(|files| files.client_ca.is_some()),
            });
        }
        Ok(doors)
    }
}

/// An address that reaches what listens there: everywhere is also here.
fn here(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

async fn ask(http: &reqwest::Client, door: &Door) -> (Exit, String) {
    match http.get(&door.url).send().await {
        Ok(answer) if answer.status().is_success() => (Exit::Done, "well".to_owned()),
        Ok(answer) => (
            Exit::No,
            format!("not well: HTTP {}", answer.status().as_u16()),
        ),
        // That it asks for a certificate is as much as we can learn without one.
        Err(error) if door.guarded && wants_certificate(&error) => {
            (Exit::Done, "well, and asks for a certificate".to_owned())
        }
        Err(error) if error.is_timeout() => (
            Exit::Unreachable,
            format!("no answer within {} s", PATIENCE.as_secs()),
        ),
        Err(error) => (
            Exit::Unreachable,
            match Away::by(&error) {
                away if away.answered() => format!("no TLS comes about at {}", door.url),
                _ => format!("nobody answers at {}", door.url),
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
    use super::here;

    #[test]
    fn everywhere_is_also_here() {
        for (listen, reached) in [
            ("0.0.0.0:8443", "127.0.0.1:8443"),
            ("[::]:8443", "[::1]:8443"),
            ("10.0.0.7:443", "10.0.0.7:443"),
        ] {
            assert_eq!(here(listen.parse().unwrap()).to_string(), reached);
        }
    }
}
