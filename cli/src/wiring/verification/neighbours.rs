//! Whether those whom the zone needs can be reached, for `/readyz`. The zone does its work all the same:
//! questions wait in the store until they can.

use crate::config::VerifyConfig;
use interzone_edge::tls::Trust;
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
    /// The word for who is away, if anybody is.
    pub(super) fn execution(&self) -> Option<&'static str> {
        let away = self.execution_away.load(Ordering::Relaxed);
        away.then_some("execution_zone")
    }

    /// The same for Slack.
    pub(super) fn slack(&self) -> Option<&'static str> {
        self.slack_away.load(Ordering::Relaxed).then_some("slack")
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
            let seen = async { tokio::join!(looks.at(&looks.execution), looks.at(&looks.slack)) };
            let (execution, slack) = tokio::select! {
                () = stop.cancelled() => return,
                seen = seen => seen,
            };
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
