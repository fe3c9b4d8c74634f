//! Whether those whom the zone needs can be reached, for `/readyz`. The zone does its work all the same:
//! questions wait in the store until they can.

use crate::config::VerifyConfig;
use interzone_edge::tls::Trust;
use interzone_verification::Check;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use url::Url;

/// How often they are looked at.
const EVERY: Duration = Duration::from_secs(15);
/// How long they may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// What was seen last. Until there was a look, all is well.
#[derive(Debug, Default)]
pub(super) struct Neighbours {
    execution_away: AtomicBool,
    slack_away: AtomicBool,
}

impl Neighbours {
    /// What tells who is away, if anybody is.
    pub(super) fn checks(self: &Arc<Self>) -> Vec<Check> {
        let (execution, slack) = (self.clone(), self.clone());
        let away = |flag: &AtomicBool, word| flag.load(Ordering::Relaxed).then_some(word);
        vec![
            Arc::new(move || away(&execution.execution_away, "execution_zone")),
            Arc::new(move || away(&slack.slack_away, "slack")),
        ]
    }

    /// Looks at them from time to time, until told to stop.
    pub(super) async fn watch(self: Arc<Self>, looks: Looks, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = ticks.tick() => {}
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.look(&looks) => {}
            }
        }
    }

    async fn look(&self, looks: &Looks) {
        let (execution, slack) = tokio::join!(looks.at(&looks.execution), looks.at(&looks.slack));
        for (away, there, name) in [
            (&self.execution_away, execution, "the Execution Zone"),
            (&self.slack_away, slack, "Slack"),
        ] {
            let was_away = away.swap(!there, Ordering::Relaxed);
            match (was_away, there) {
                (false, false) => tracing::warn!("{name} cannot be reached"),
                (true, true) => tracing::info!("{name} can be reached again"),
                _ => {}
            }
        }
    }
}

/// Where to look.
pub(super) struct Looks {
    http: reqwest::Client,
    execution: Url,
    slack: Url,
}

impl Looks {
    pub(super) fn new(config: &VerifyConfig, trust: &Trust) -> reqwest::Result<Self> {
        let mut execution = config.verification.execution_url.clone();
        let path = format!("{}/healthz", execution.path().trim_end_matches('/'));
        execution.set_path(&path);
        let api = &config.slack.api_url;
        Ok(Self {
            http: trust.client().timeout(PATIENCE).build()?,
            execution,
            // It needs no token, and answers whoever asks.
            slack: api.join("api.test").unwrap_or_else(|_| api.clone()),
        })
    }

    /// Whether anybody answers there. What they say does not matter, unless it is that they cannot.
    async fn at(&self, url: &Url) -> bool {
        let answer = self.http.get(url.clone()).send().await;
        answer.is_ok_and(|answer| !answer.status().is_server_error())
    }
}

#[cfg(test)]
mod tests {
    use super::{Looks, Neighbours};
    use std::sync::Arc;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use url::Url;

    /// Answers one request with this status.
    async fn answering(status: &'static str) -> Url {
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
    async fn whoever_is_away_is_named_until_they_are_back() {
        interzone_edge::tls::install_provider();
        let neighbours = Arc::new(Neighbours::default());
        let away = || -> Vec<&str> {
            let checks = neighbours.checks();
            checks.iter().filter_map(|check| check()).collect()
        };
        assert!(away().is_empty(), "nobody has looked yet");
        for (execution, slack, expected) in [
            ("200 OK", "401 Unauthorized", &[][..]),
            ("503 Service Unavailable", "200 OK", &["execution_zone"]),
            ("200 OK", "500 Internal Server Error", &["slack"]),
            ("200 OK", "200 OK", &[]),
        ] {
            let looks = Looks {
                http: reqwest::Client::new(),
                execution: answering(execution).await,
                slack: answering(slack).await,
            };
            neighbours.look(&looks).await;
            assert_eq!(away(), expected, "{execution}, {slack}");
        }
        let nobody = Url::parse("http://127.0.0.1:1/").unwrap();
        let looks = Looks {
            http: reqwest::Client::new(),
            execution: nobody.clone(),
            slack: nobody,
        };
        neighbours.look(&looks).await;
        assert_eq!(away(), ["execution_zone", "slack"]);
    }
}
