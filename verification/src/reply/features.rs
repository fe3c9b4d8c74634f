//! Negative cache of Slack features that a workspace does not support, so that not every reply retries them.

use crate::slack::api::SlackError;
use crate::slack::ids::TeamId;
use quick_cache::sync::Cache;
use std::time::Duration;
use tokio::time::Instant;

/// Lifetime of a cached refusal. The app may be granted the scope in the meantime.
const REFUSAL_TTL: Duration = Duration::from_secs(3600);

/// Maximum number of cached refusals.
const MAX_REFUSALS: usize = 4096;

/// A Slack feature that not every workspace has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum SlackFeature {
    /// Streaming messages.
    Stream,
    /// Assistant status of a thread.
    Status,
}

/// Time of the last refusal per workspace and feature.
pub(super) struct FeatureCache(Cache<(TeamId, SlackFeature), Instant>);

impl Default for FeatureCache {
    fn default() -> Self {
        Self(Cache::new(MAX_REFUSALS))
    }
}

impl FeatureCache {
    /// Returns true unless the feature was refused recently.
    pub(super) fn is_available(&self, team: &TeamId, feature: SlackFeature) -> bool {
        let key = (team.clone(), feature);
        self.0
            .get(&key)
            .is_none_or(|refused| refused.elapsed() >= REFUSAL_TTL)
    }

    /// Caches the error if it rejects the feature and not just this call. Returns true if it was cached.
    pub(super) fn record_refusal(
        &self,
        team: &TeamId,
        feature: SlackFeature,
        error: &SlackError,
    ) -> bool {
        let refused = is_refusal(error);
        if refused {
            self.0.insert((team.clone(), feature), Instant::now());
        }
        refused
    }
}

/// Error codes about the method, the token or the channel type, which will repeat.
const REFUSAL_CODES: &[&str] = &[
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
        SlackError::Rejected { code: word, .. } => REFUSAL_CODES.contains(&word.as_str()),
        // A Slack-compatible server without this method.
        SlackError::HttpStatus { status, .. } => matches!(status, 404 | 405 | 501),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slack::api::SlackMethod;

    #[tokio::test(start_paused = true)]
    async fn feature_refusal_is_cached_per_workspace_for_an_hour() {
        let features = FeatureCache::default();
        let (one, other) = (TeamId::new("T1").unwrap(), TeamId::new("T2").unwrap());
        let error = SlackError::rejection(SlackMethod::ChatStartStream, "unknown_method");
        assert!(features.is_available(&one, SlackFeature::Stream));
        assert!(features.record_refusal(&one, SlackFeature::Stream, &error));
        assert!(!features.is_available(&one, SlackFeature::Stream));
        assert!(features.is_available(&one, SlackFeature::Status));
        assert!(features.is_available(&other, SlackFeature::Stream));
        tokio::time::advance(REFUSAL_TTL).await;
        assert!(features.is_available(&one, SlackFeature::Stream));
    }

    #[test]
    fn call_specific_error_is_not_cached() {
        let features = FeatureCache::default();
        let team = TeamId::new("T1").unwrap();
        for code in ["channel_not_found", "internal_error", "is_archived"] {
            let error = SlackError::rejection(SlackMethod::ChatStartStream, code);
            assert!(
                !features.record_refusal(&team, SlackFeature::Stream, &error),
                "{error}"
            );
        }
        assert!(features.is_available(&team, SlackFeature::Stream));
    }
}
