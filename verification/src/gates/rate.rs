//! Rate limits of questions and of refusal notices, per user. The decision for a question is stored, so a retry cannot
//! change it.

use super::Gates;
use crate::question::Question;
use interzone_hub::{Charge, HubError, Rate};
use interzone_protocol::vocab::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Record kind of rate decisions, keyed by question id.
const RATE_DECISION_KIND: &str = "slack.rate";
/// Retention of decisions and refusal notices: longer than a question is retried.
const DECISION_TTL: Duration = Duration::from_secs(24 * 3_600);
const MINUTE: Duration = Duration::from_secs(60);

/// Maximum refusal notices per user and minute.
const MAX_REFUSAL_NOTICES: u32 = 5;

/// Stored rate decision of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct RateDecision {
    /// Time from which the user may ask again, if rate limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refused_until: Option<Timestamp>,
}

impl Gates {
    /// Charges a question once, even if it is retried. Returns the time to wait if it is rate limited.
    ///
    /// # Errors
    /// The store failed.
    pub(super) async fn charge(&self, question: &Question) -> Result<Option<Duration>, HubError> {
        let limit = self.options.requests_per_minute;
        if limit == 0 {
            return Ok(None);
        }
        let decision = match self.load_decision(question).await? {
            Some(decided) => decided,
            None => self.charge_and_store(question, limit).await?,
        };
        let now = self.hub.now();
        Ok(decision
            .refused_until
            .map(|until| until.duration_since(now)))
    }

    async fn load_decision(&self, question: &Question) -> Result<Option<RateDecision>, HubError> {
        let (store, now) = (self.hub.store(), self.hub.now());
        let record = store.record(RATE_DECISION_KIND, &question.id, now).await?;
        Ok(record.and_then(|record| serde_json::from_str(&record.value).ok()))
    }

    /// Decides and stores the decision before it is used. If it cannot be stored, the next attempt decides again: the
    /// question may be charged twice, but is never allowed for free.
    async fn charge_and_store(
        &self,
        question: &Question,
        limit: u32,
    ) -> Result<RateDecision, HubError> {
        let key = format!("slack/{}/{}", question.team, question.user);
        let rate = Rate {
            limit,
            window: MINUTE,
        };
        let charge = self.hub.charge(&key, rate, 1).await?;
        let now = self.hub.now();
        let decision = RateDecision {
            refused_until: match charge {
                Charge::Allowed { .. } => None,
                Charge::Refused { retry_after } => Some(now.plus(retry_after)),
            },
        };
        let value = serde_json::to_string(&decision).map_err(|_| HubError::Invalid {
            field: "note",
            reason: "cannot be serialized as JSON",
        })?;
        let expires_at = Some(now.plus(DECISION_TTL));
        let store = self.hub.store();
        let stored = store.put_record(
            RATE_DECISION_KIND,
            &question.id,
            &value,
            Some(0),
            expires_at,
            now,
        );
        if stored.await? {
            return Ok(decision);
        }
        // Another attempt has stored its decision first.
        Ok(self.load_decision(question).await?.unwrap_or(decision))
    }

    /// Returns true if a refusal notice may be sent to the user. Charged once per question. A retried question may not
    /// have sent its notice yet, so it may send again: a duplicate notice is better than none.
    ///
    /// # Errors
    /// The store failed.
    pub(crate) async fn may_send_refusal(&self, question: &Question) -> Result<bool, HubError> {
        let dedup_key = [format!("slack/told/{}", question.id)];
        if !self
            .hub
            .accept_once(&dedup_key, DECISION_TTL, Vec::new())
            .await?
        {
            return Ok(true);
        }
        let key = format!("slack/told/{}/{}", question.team, question.user);
        let rate = Rate {
            limit: MAX_REFUSAL_NOTICES,
            window: MINUTE,
        };
        let charge = self.hub.charge(&key, rate, 1).await?;
        Ok(matches!(charge, Charge::Allowed { .. }))
    }
}
