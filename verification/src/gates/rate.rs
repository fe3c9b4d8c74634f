//! How often somebody may ask, and how often they are told that they may not. What was decided for a
//! question stands, however often it is tried: a second try must not find a way past the first.

use super::Gates;
use crate::question::Question;
use interzone_hub::{Charge, HubError, Rate};
use interzone_protocol::vocab::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What was decided, by the question.
const DECIDED: &str = "slack.rate";
/// How long that, and who was told, is remembered: longer than a question is tried.
const REMEMBERED: Duration = Duration::from_secs(24 * 3_600);
const MINUTE: Duration = Duration::from_secs(60);

/// How many refusals a minute are told to one user.
const TOLD: u32 = 5;

/// What was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Decided {
    /// When they may ask again, if this was too much.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refused_until: Option<Timestamp>,
}

impl Gates {
    /// Charges a question once, however often it is tried. Answers how long to wait if it is too much.
    ///
    /// # Errors
    /// The store did not do it.
    pub(super) async fn charge(&self, question: &Question) -> Result<Option<Duration>, HubError> {
        let limit = self.options.requests_per_minute;
        if limit == 0 {
            return Ok(None);
        }
        let decided = match self.decided(question).await? {
            Some(decided) => decided,
            None => self.decide(question, limit).await?,
        };
        let now = self.hub.now();
        Ok(decided.refused_until.map(|until| until.since(now)))
    }

    async fn decided(&self, question: &Question) -> Result<Option<Decided>, HubError> {
        let (store, now) = (self.hub.store(), self.hub.now());
        let record = store.record(DECIDED, &question.id, now).await?;
        Ok(record.and_then(|record| serde_json::from_str(&record.value).ok()))
    }

    /// Nothing is let through or refused before it is written which. Where that cannot be written, nobody
    /// has heard of it, and it is decided anew: at worst the question is charged twice, and it is never let
    /// through for nothing.
    async fn decide(&self, question: &Question, limit: u32) -> Result<Decided, HubError> {
        let key = format!("slack/{}/{}", question.team, question.user);
        let rate = Rate {
            limit,
            window: MINUTE,
        };
        let charge = self.hub.charge(&key, rate, 1).await?;
        let now = self.hub.now();
        let decided = Decided {
            refused_until: match charge {
                Charge::Allowed { .. } => None,
                Charge::Refused { retry_after } => Some(now.after(retry_after)),
            },
        };
        let value = serde_json::to_string(&decided).map_err(|_| HubError::Invalid {
            field: "note",
            reason: "it has no JSON form",
        })?;
        let until = Some(now.after(REMEMBERED));
        let store = self.hub.store();
        let kept = store.put_record(DECIDED, &question.id, &value, Some(0), until, now);
        if kept.await? {
            return Ok(decided);
        }
        // Another attempt was faster.
        Ok(self.decided(question).await?.unwrap_or(decided))
    }

    /// Whether somebody who is refused is told so once more: often enough to be read, and not without end.
    /// It is charged once for a question. What is asked again was not told the first time, so it is told
    /// then: a few words too many are better than a refusal that nobody hears of.
    ///
    /// # Errors
    /// The store did not do it.
    pub(crate) async fn may_tell(&self, question: &Question) -> Result<bool, HubError> {
        let once = [format!("slack/told/{}", question.id)];
        if !self.hub.receive(&once, REMEMBERED, Vec::new()).await? {
            return Ok(true);
        }
        let key = format!("slack/told/{}/{}", question.team, question.user);
        let rate = Rate {
            limit: TOLD,
            window: MINUTE,
        };
        let charge = self.hub.charge(&key, rate, 1).await?;
        Ok(matches!(charge, Charge::Allowed { .. }))
    }
}
