//! Health of the services that the zone depends on, for `/readyz`. The zone keeps working without them:
//! questions wait in the store.

use crate::config::VerificationZoneConfig;
use interzone_edge::tls::TrustRoots;
use interzone_verification::DependencyCheck;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use url::Url;

/// Interval of the health probes.
const PROBE_INTERVAL: Duration = Duration::from_secs(15);
/// Timeout of a health probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Results of the last probes. Before the first probe, all services count as available.
#[derive(Debug, Default)]
pub(super) struct DependencyHealth {
    execution_unavailable: AtomicBool,
    slack_unavailable: AtomicBool,
}

impl DependencyHealth {
    /// Returns the readiness checks, which name the unavailable services.
    pub(super) fn checks(self: &Arc<Self>) -> Vec<DependencyCheck> {
        let (execution, slack) = (self.clone(), self.clone());
        let if_unavailable =
            |flag: &AtomicBool, reason| flag.load(Ordering::Relaxed).then_some(reason);
        vec![
            Arc::new(move || if_unavailable(&execution.execution_unavailable, "execution_zone")),
            Arc::new(move || if_unavailable(&slack.slack_unavailable, "slack")),
        ]
    }

    /// Probes the services periodically, until stopped.
    pub(super) async fn run(self: Arc<Self>, probes: HealthProbes, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(PROBE_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = ticks.tick() => {}
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.probe(&probes) => {}
            }
        }
    }

    async fn probe(&self, probes: &HealthProbes) {
        let (execution, slack) =
            tokio::join!(probes.is_up(&probes.execution), probes.is_up(&probes.slack));
        for (unavailable, is_up, dependency) in [
            (&self.execution_unavailable, execution, "execution_zone"),
            (&self.slack_unavailable, slack, "slack"),
        ] {
            let was_unavailable = unavailable.swap(!is_up, Ordering::Relaxed);
            match (was_unavailable, is_up) {
                (false, false) => tracing::warn!(dependency, "dependency unreachable"),
                (true, true) => tracing::info!(dependency, "dependency reachable again"),
                _ => {}
            }
        }
    }
}

/// URLs to probe, and the HTTP client.
pub(super) struct HealthProbes {
    http: reqwest::Client,
    execution: Url,
    slack: Url,
}

impl HealthProbes {
    pub(super) fn new(
        config: &VerificationZoneConfig,
        trust: &TrustRoots,
    ) -> reqwest::Result<Self> {
        let mut execution = config.verification.execution_url.clone();
        let path = format!("{}/healthz", execution.path().trim_end_matches('/'));
        execution.set_path(&path);
        let api = &config.slack.api_url;
        Ok(Self {
            http: trust.client().timeout(PROBE_TIMEOUT).build()?,
            execution,
            // Needs no token.
            slack: api.join("api.test").unwrap_or_else(|_| api.clone()),
        })
    }

    /// Returns true if the service responds with anything but a server error.
    async fn is_up(&self, url: &Url) -> bool {
        let answer = self.http.get(url.clone()).send().await;
        answer.is_ok_and(|answer| !answer.status().is_server_error())
    }
}

#[cfg(test)]
mod tests {
    use super::{DependencyHealth, HealthProbes};
    use std::sync::Arc;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use url::Url;

    /// Starts a server that answers one request with this status, and returns its URL.
    async fn server_with_status(status: &'static str) -> Url {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            let _ = socket.read(&mut [0; 1024]).await.unwrap();
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
            socket.write_all(answer.as_bytes()).await.unwrap();
        });
        Url::parse(&url).unwrap()
    }

    #[tokio::test]
    async fn unavailable_dependencies_are_reported_until_back() {
        interzone_edge::tls::install_provider();
        let dependencies = Arc::new(DependencyHealth::default());
        let unavailable = || -> Vec<&str> {
            let checks = dependencies.checks();
            checks.iter().filter_map(|check| check()).collect()
        };
        assert!(unavailable().is_empty(), "not probed yet");
        for (execution, slack, expected) in [
            ("200 OK", "401 Unauthorized", &[][..]),
            ("503 Service Unavailable", "200 OK", &["execution_zone"]),
            ("200 OK", "500 Internal Server Error", &["slack"]),
            ("200 OK", "200 OK", &[]),
        ] {
            let probes = HealthProbes {
                http: reqwest::Client::new(),
                execution: server_with_status(execution).await,
                slack: server_with_status(slack).await,
            };
            dependencies.probe(&probes).await;
            assert_eq!(unavailable(), expected, "{execution}, {slack}");
        }
        let closed_port = Url::parse("http://127.0.0.1:1/").unwrap();
        let probes = HealthProbes {
            http: reqwest::Client::new(),
            execution: closed_port.clone(),
            slack: closed_port,
        };
        dependencies.probe(&probes).await;
        assert_eq!(unavailable(), ["execution_zone", "slack"]);
    }
}
