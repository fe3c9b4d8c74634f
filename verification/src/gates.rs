//! Admission checks of a question: identity, policy, rate limit and content. A refusal is reported to the asker and is
//! never an error response to Slack.

mod directory_cache;
mod rate;

pub(crate) use directory_cache::DirectoryCache;

use crate::policy::{Policy, PolicySubject};
use crate::question::Question;
use crate::slack::api::SlackError;
use crate::slack::api::users::SlackUser;
use crate::slack::ids::{TeamId, UserId};
use crate::slack::tokens::Installation;
use crate::texts::{Language, Refusal};
use crate::unicode_hygiene::is_invisible;
use interzone_hub::Hub;
use std::sync::Arc;
use std::time::Duration;

/// Slack error codes for an unknown or inaccessible user, channel or workspace.
const NOT_FOUND_CODES: &[&str] = &[
    "user_not_found",
    "users_not_found",
    "user_not_visible",
    "channel_not_found",
    "team_not_found",
    "team_access_not_granted",
];

/// Options of the admission checks.
#[derive(Clone, Debug)]
pub struct GateOptions {
    /// Policy of who may ask.
    pub policy: Policy,
    /// Maximum questions per user and minute; 0 disables the limit.
    pub requests_per_minute: u32,
    /// Maximum characters of a question.
    pub input_chars: usize,
    /// Language for all users; if `None`, the language of each user.
    pub language: Option<Language>,
}

/// The asker's identity according to Slack.
pub(crate) struct SlackIdentity {
    pub(crate) user: Arc<SlackUser>,
    /// Home workspace of the user.
    pub(crate) home_team: TeamId,
    pub(crate) language: Language,
}

impl SlackIdentity {
    /// Returns true for guests and for users of another workspace.
    pub(crate) fn is_guest(&self, question: &Question) -> bool {
        self.user.is_restricted || self.user.is_ultra_restricted || self.home_team != question.team
    }
}

/// Result of the admission checks.
pub(crate) enum GateDecision {
    /// Allowed.
    Allowed(SlackIdentity),
    /// Refused, with the notice for the user and the audit outcome.
    Refused {
        refusal: Refusal,
        language: Language,
        outcome: &'static str,
    },
    /// Refused without a notice, because the bot token does not work.
    Silent { outcome: &'static str },
    /// Not decidable now.
    Retry {
        reason: String,
        /// Retry delay requested by Slack.
        retry_after: Option<Duration>,
        /// Language of the notice if the delay is too long.
        language: Language,
    },
}

pub(crate) struct Gates {
    hub: Hub,
    pub(crate) directory: DirectoryCache,
    pub(crate) options: GateOptions,
}

impl Gates {
    pub(crate) fn new(hub: Hub, directory: DirectoryCache, options: GateOptions) -> Self {
        for list in options.policy.empty_lists() {
            let list = list.name();
            tracing::warn!(list, "policy list is empty, refusing all questions");
        }
        Self {
            hub,
            directory,
            options,
        }
    }

    /// Runs all admission checks.
    pub(crate) async fn check(
        &self,
        question: &Question,
        installation: &Installation,
    ) -> GateDecision {
        let identity = match self.identify(question, installation).await {
            Ok(known) => known,
            Err(decision) => return decision,
        };
        let language = identity.language;
        let refused = |refusal, outcome| GateDecision::Refused {
            refusal,
            language,
            outcome,
        };
        let subject = PolicySubject {
            team: &question.team,
            user_team: &identity.home_team,
            channel: &question.channel,
            user: &question.user,
        };
        if let Err(denied) = self.options.policy.decide(&subject) {
            return refused(Refusal::NotAllowed, denied.code());
        }
        match self.charge(question).await {
            Err(error) => {
                return GateDecision::Retry {
                    reason: error.to_string(),
                    retry_after: None,
                    language,
                };
            }
            Ok(Some(after)) => return refused(Refusal::RateLimited { after }, "rate_limited"),
            Ok(None) => {}
        }
        // Of a question that is too long only the start is stored, and that may be invisible.
        let is_blank = is_invisible(&question.text) && question.original_chars.is_none();
        if is_blank && question.files.is_empty() {
            return refused(Refusal::Empty, "empty");
        }
        let limit = self.options.input_chars;
        let length = question.text.chars().count();
        let length = question.original_chars.unwrap_or(length);
        if length > limit || question.original_chars.is_some() {
            return refused(Refusal::TooLong { length, limit }, "too_long");
        }
        GateDecision::Allowed(identity)
    }

    /// Drops the cached user, who has changed their language or left.
    pub(crate) fn invalidate_user(&self, team: &TeamId, user: &UserId) {
        self.directory.invalidate_user(team, user);
    }

    /// Returns the language for a question if the user cannot be looked up: from the stale cache entry, else from the
    /// text.
    pub(crate) fn language_for(&self, question: &Question) -> Language {
        let user = self.directory.stale_user(&question.team, &question.user);
        let locale = user.as_ref().and_then(|known| known.locale.as_deref());
        self.resolve_language(locale, &question.text)
    }

    /// Returns the configured language, else the user's.
    pub(crate) fn resolve_language(&self, locale: Option<&str>, text: &str) -> Language {
        let configured = self.options.language;
        configured.unwrap_or_else(|| Language::detect(locale, text))
    }

    /// Looks the asker, channel and workspace up in Slack, so that a stolen signing secret alone is not enough.
    async fn identify(
        &self,
        question: &Question,
        installation: &Installation,
    ) -> Result<SlackIdentity, GateDecision> {
        let directory = &self.directory;
        let (user, channel, team) = tokio::join!(
            directory.user(installation, &question.team, &question.user),
            directory.channel(installation, &question.team, &question.channel),
            directory.team(installation, &question.team),
        );
        let language = match &user {
            Ok(user) => self.resolve_language(user.locale.as_deref(), &question.text),
            Err(_) => self.language_for(question),
        };
        let refuse = |error: SlackError| classify_lookup_error(&error, language);
        let (user, channel) = (user.map_err(refuse)?, channel.map_err(refuse)?);
        team.map_err(refuse)?;
        let is_excluded = user.deleted || user.is_bot || user.is_stranger || channel.is_archived;
        if is_excluded {
            return Err(GateDecision::Refused {
                refusal: Refusal::UnknownEntity,
                language,
                outcome: "not_a_person_here",
            });
        }
        let home_team = resolve_home_team(question, &user);
        Ok(SlackIdentity {
            user,
            home_team,
            language,
        })
    }
}

/// Returns the home workspace of a user. The event's claim is trusted only within an enterprise organisation, whose
/// users belong to many workspaces; otherwise Slack's user record decides.
fn resolve_home_team(question: &Question, user: &SlackUser) -> TeamId {
    match &user.team_id {
        None => question.team.clone(),
        Some(team) => {
            let claimed = question.user_team.as_ref();
            let claimed = claimed.filter(|_| question.enterprise.is_some());
            claimed.unwrap_or(team).clone()
        }
    }
}

/// Classifies an error of a Slack lookup.
fn classify_lookup_error(error: &SlackError, language: Language) -> GateDecision {
    let code = error.code();
    let refused = |refusal, word| GateDecision::Refused {
        refusal,
        language,
        outcome: word,
    };
    if NOT_FOUND_CODES.contains(&code) {
        return refused(Refusal::UnknownEntity, "unknown_entity");
    }
    // An unknown code or an unreadable response (such as a proxy's page) says nothing about the user.
    if error.is_retryable_after_refresh() || error.is_unknown_code() {
        return GateDecision::Retry {
            reason: error.to_string(),
            retry_after: error.retry_after(),
            language,
        };
    }
    tracing::error!(%error, "looking up the asker in slack failed");
    match code {
        "invalid_auth" | "not_authed" | "account_inactive" | "token_revoked" => {
            GateDecision::Silent {
                outcome: "bad_token",
            }
        }
        _ => refused(Refusal::MissingPermission, "missing_permission"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slack::api::SlackMethod;

    #[test]
    fn home_team_of_event_is_trusted_only_within_organisation() {
        let team = |id: &str| TeamId::new(id).unwrap();
        // Enterprise of the event, user team of the event, team of the user record, expected home team.
        for (enterprise, claimed, recorded, expected) in [
            (None, None, None, "T1"),
            (None, None, Some("T2"), "T2"),
            // Without an organisation the event must not move a user into the installed workspace.
            (None, Some("T1"), Some("T2"), "T2"),
            // An event without a user team does not make the user a member of the installed workspace.
            (Some("E1"), None, Some("T2"), "T2"),
            (Some("E1"), Some("T3"), Some("T2"), "T3"),
            (Some("E1"), None, None, "T1"),
        ] {
            let mut question = crate::reply::tests::question();
            question.enterprise = enterprise.map(team);
            question.user_team = claimed.map(team);
            let mut user = serde_json::json!({"id": "U1"});
            user["team_id"] = recorded.into();
            let user: SlackUser = serde_json::from_value(user).unwrap();
            let found = resolve_home_team(&question, &user);
            assert_eq!(
                found.as_str(),
                expected,
                "{enterprise:?} {claimed:?} {recorded:?}"
            );
            let lists = ["T1".to_owned()];
            let allow_all = ["*".to_owned()];
            let policy = Policy::new(&lists, &allow_all, &allow_all);
            let decision = policy.decide(&PolicySubject {
                team: &question.team,
                user_team: &found,
                channel: &question.channel,
                user: &question.user,
            });
            assert_eq!(decision.is_ok(), expected == "T1");
        }
    }

    #[test]
    fn slack_lookup_errors_are_refused_reported_or_retried() {
        let classify = |code: &str| {
            let error = SlackError::rejection(SlackMethod::UsersInfo, code);
            classify_lookup_error(&error, Language::En)
        };
        for code in NOT_FOUND_CODES {
            let refusal = classify(code);
            let unknown = matches!(
                refusal,
                GateDecision::Refused {
                    refusal: Refusal::UnknownEntity,
                    ..
                }
            );
            assert!(unknown, "{code}");
        }
        assert!(matches!(
            classify("missing_scope"),
            GateDecision::Refused {
                refusal: Refusal::MissingPermission,
                ..
            }
        ));
        assert!(matches!(
            classify("token_revoked"),
            GateDecision::Silent { .. }
        ));
        assert!(matches!(
            classify("internal_error"),
            GateDecision::Retry { .. }
        ));
        for unknown_code in ["a_code_of_tomorrow", "unknown_error", "token_expired"] {
            let later = classify(unknown_code);
            assert!(
                matches!(
                    later,
                    GateDecision::Retry {
                        retry_after: None,
                        ..
                    }
                ),
                "{unknown_code}"
            );
        }
        for status in [400, 401, 403, 404, 410] {
            let operation = SlackMethod::UsersInfo.name();
            let decision =
                classify_lookup_error(&SlackError::HttpStatus { operation, status }, Language::En);
            assert!(
                matches!(
                    decision,
                    GateDecision::Retry {
                        retry_after: None,
                        ..
                    }
                ),
                "{status}"
            );
        }
        let busy = SlackError::RateLimited {
            method: SlackMethod::UsersInfo,
            after: Duration::from_secs(7),
        };
        let GateDecision::Retry {
            retry_after: after, ..
        } = classify_lookup_error(&busy, Language::Ja)
        else {
            panic!("fault 3: rate limiting by Slack must lead to a retry");
        };
        assert_eq!(after, Some(Duration::from_secs(7)));
    }
}
