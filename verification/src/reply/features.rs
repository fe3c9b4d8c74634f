//! What a workspace does not let us do, remembered for a while, so that not every answer begins with
//! asking in vain.

use crate::slack::api::SlackError;
use crate::slack::ids::TeamId;
use quick_cache::sync::Cache;
use std::time::Duration;
use tokio::time::Instant;

/// How long a refusal is remembered. Somebody may add a scope meanwhile.
const REMEMBER: Duration = Duration::from_secs(3600);

/// How many refusals are remembered.
const MOST: usize = 4096;

/// Something that Slack has not given everybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Feature {
    /// Messages that grow.
    Stream,
    /// The status under a thread.
    Status,
}

/// What was refused, and by whom.
pub(super) struct Features(Cache<(TeamId, Feature), Instant>);

impl Default for Features {
    fn default() -> Self {
        Self(Cache::new(MOST))
    }
}

impl Features {
    /// Whether it is worth trying.
    pub(super) fn has(&self, team: &TeamId, feature: Feature) -> bool {
        let key = (team.clone(), feature);
        self.0
            .get(&key)
            .is_none_or(|refused| refused.elapsed() >= REMEMBER)
    }

    /// Remembers a refusal, if it is one of the feature and not of this one call. Answers whether it is.
    pub(super) fn refused(&self, team: &TeamId, feature: Feature, error: &SlackError) -> bool {
        let refused = is_refusal(error);
        if refused {
            self.0.insert((team.clone(), feature), Instant::now());
        }
        refused
    }
}

/// Words that are about the method, the token or the kind of place, and will be said again.
const REFUSALS: &[&str] = &[
    "access_denied",
    "channel_type_not_supported",
    "deprecated_endpoint",
    "feature_not_enabled",
    "invalid_arguments",
    "invalid_chunks",
    "method_deprecated",
    "method_not_supported_for_channel_type",
    "missing_recipient_team_id",
    "missing_recipient_user_id",
    "missing_scope",
    "no_permission",
    "not_allowed",
    "not_allowed_token_type",
    "team_access_not_granted",
    "unknown_method",
];

fn is_refusal(error: &SlackError) -> bool {
    match error {
        SlackError::Said { word, .. } => REFUSALS.contains(&word.as_str()),
        // Whoever stands in for Slack and has no such method.
        SlackError::Status { status, .. } => matches!(status, 404 | 405 | 501),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slack::api::Method;

    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_remembered_for_an_hour_and_for_one_workspace() {
        let features = Features::default();
        let (one, other) = (TeamId::new("T1").unwrap(), TeamId::new("T2").unwrap());
        let error = SlackError::said(Method::ChatStartStream, "unknown_method");
        assert!(features.has(&one, Feature::Stream));
        assert!(features.refused(&one, Feature::Stream, &error));
        assert!(!features.has(&one, Feature::Stream));
        assert!(features.has(&one, Feature::Status));
        assert!(features.has(&other, Feature::Stream));
        tokio::time::advance(REMEMBER).await;
        assert!(features.has(&one, Feature::Stream));
    }

    #[test]
    fn what_is_wrong_with_one_call_is_not_remembered() {
        let features = Features::default();
        let team = TeamId::new("T1").unwrap();
        for word in ["channel_not_found", "internal_error", "is_archived"] {
            let error = SlackError::said(Method::ChatStartStream, word);
            assert!(!features.refused(&team, Feature::Stream, &error), "{word}");
        }
        assert!(features.has(&team, Feature::Stream));
    }
}
