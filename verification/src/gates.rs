//! The gates that a question passes before anything is done for it: it must be real, allowed, within its
//! rate, and something that can be answered. Each refusal is told to the one who asked; none of it is
//! ever an error to Slack.

mod people;
mod rate;

pub(crate) use people::People;

use crate::policy::{Asker, Policy};
use crate::question::Question;
use crate::signs::is_blank;
use crate::slack::api::SlackError;
use crate::slack::api::users::User;
use crate::slack::ids::{TeamId, UserId};
use crate::slack::tokens::Installation;
use crate::texts::{Language, Refusal};
use interzone_hub::Hub;
use std::sync::Arc;
use std::time::Duration;

/// Words by which Slack says that somebody or something is not there, or not for us.
const UNKNOWN: &[&str] = &[
    "user_not_found",
    "users_not_found",
    "user_not_visible",
    "channel_not_found",
    "team_not_found",
    "team_access_not_granted",
];

/// What the gates go by.
#[derive(Clone, Debug)]
pub struct GateOptions {
    /// Who may ask.
    pub policy: Policy,
    /// Questions of one user in a minute; nought is no limit.
    pub requests_per_minute: u32,
    /// The most characters of a question.
    pub input_chars: usize,
    /// The language of all users; theirs if there is none.
    pub language: Option<Language>,
}

/// Who asks, as Slack itself has it.
pub(crate) struct Known {
    pub(crate) user: Arc<User>,
    /// Where they are at home.
    pub(crate) home: TeamId,
    pub(crate) language: Language,
}

impl Known {
    /// Whether they see only what they were invited to.
    pub(crate) fn is_guest(&self, question: &Question) -> bool {
        self.user.is_restricted || self.user.is_ultra_restricted || self.home != question.team
    }
}

/// Where a question got to.
pub(crate) enum Passed {
    /// Through all gates.
    Through(Known),
    /// Not through; this is what the user is told, and the word for the audit.
    Refused {
        refusal: Refusal,
        language: Language,
        word: &'static str,
    },
    /// Our own token is no good: there is nobody who could tell the user.
    Mute { word: &'static str },
    /// It cannot be said now.
    Later {
        why: String,
        /// How long Slack wants to be left alone, if that is why.
        after: Option<Duration>,
        /// In which the user is told if it takes too long.
        language: Language,
    },
}

pub(crate) struct Gates {
    hub: Hub,
    pub(crate) people: People,
    pub(crate) options: GateOptions,
}

impl Gates {
    pub(crate) fn new(hub: Hub, people: People, options: GateOptions) -> Self {
        for list in options.policy.empty_lists() {
            let list = list.name();
            tracing::warn!(
                list,
                "policy.{list} is empty, so everybody is refused; write the ids of those who may, \
                 or \"*\" for everybody"
            );
        }
        Self {
            hub,
            people,
            options,
        }
    }

    /// Lets a question through, or says why not.
    pub(crate) async fn pass(&self, question: &Question, at: &Installation) -> Passed {
        let known = match self.exists(question, at).await {
            Ok(known) => known,
            Err(passed) => return passed,
        };
        let language = known.language;
        let refused = |refusal, word| Passed::Refused {
            refusal,
            language,
            word,
        };
        let asker = Asker {
            team: &question.team,
            user_team: &known.home,
            channel: &question.channel,
            user: &question.user,
        };
        if let Err(denied) = self.options.policy.decide(&asker) {
            return refused(Refusal::NotAllowed, denied.word());
        }
        match self.charge(question).await {
            Err(error) => {
                return Passed::Later {
                    why: error.to_string(),
                    after: None,
                    language,
                };
            }
            Ok(Some(after)) => return refused(Refusal::RateLimited { after }, "rate_limited"),
            Ok(None) => {}
        }
        // Of what is too long only the beginning is kept, and that may be blank.
        let blank = is_blank(&question.text) && question.too_long.is_none();
        if blank && question.files.is_empty() {
            return refused(Refusal::Empty, "empty");
        }
        let limit = self.options.input_chars;
        let length = question.text.chars().count();
        let length = question.too_long.unwrap_or(length);
        if length > limit || question.too_long.is_some() {
            return refused(Refusal::TooLong { length, limit }, "too_long");
        }
        Passed::Through(known)
    }

    /// Asks Slack anew at the next question of somebody, who has another language by now or has left.
    pub(crate) fn forget(&self, team: &TeamId, user: &UserId) {
        self.people.forget(team, user);
    }

    /// The language for a question of somebody of whom Slack tells nothing now: the one that they had
    /// when it did, or else the one that they write.
    pub(crate) fn language_for(&self, question: &Question) -> Language {
        let known = self.people.last_known(&question.team, &question.user);
        let locale = known.as_ref().and_then(|known| known.locale.as_deref());
        self.language(locale, &question.text)
    }

    /// The language for somebody, by what is known of them.
    pub(crate) fn language(&self, locale: Option<&str>, text: &str) -> Language {
        let configured = self.options.language;
        configured.unwrap_or_else(|| Language::of(locale, text))
    }

    /// Whether Slack knows all of them, so that a stolen signing secret alone is of no use.
    async fn exists(&self, question: &Question, at: &Installation) -> Result<Known, Passed> {
        let people = &self.people;
        let (user, channel, team) = tokio::join!(
            people.user(at, &question.team, &question.user),
            people.channel(at, &question.team, &question.channel),
            people.team(at, &question.team),
        );
        let language = match &user {
            Ok(user) => self.language(user.locale.as_deref(), &question.text),
            Err(_) => self.language_for(question),
        };
        let not_there = |error: SlackError| missing(&error, language);
        let (user, channel) = (user.map_err(not_there)?, channel.map_err(not_there)?);
        team.map_err(not_there)?;
        let gone = user.deleted || user.is_bot || user.is_stranger || channel.is_archived;
        if gone {
            return Err(Passed::Refused {
                refusal: Refusal::UnknownEntity,
                language,
                word: "not_a_person_here",
            });
        }
        let home = home(question, &user);
        Ok(Known {
            user,
            home,
            language,
        })
    }
}

/// Where a user is at home. What the event says of it is believed within an organisation only, whose
/// people are at home in many workspaces; else Slack says it.
fn home(question: &Question, user: &User) -> TeamId {
    match &user.team_id {
        None => question.team.clone(),
        Some(team) => {
            let said = question.user_team.as_ref();
            let said = said.filter(|_| question.enterprise.is_some());
            said.unwrap_or(team).clone()
        }
    }
}

/// What it means that Slack did not tell us who somebody is.
fn missing(error: &SlackError, language: Language) -> Passed {
    let word = error.word();
    let refused = |refusal, word| Passed::Refused {
        refusal,
        language,
        word,
    };
    if UNKNOWN.contains(&word) {
        return refused(Refusal::UnknownEntity, "unknown_entity");
    }
    // What nobody understands, such as the page of a proxy, says nothing about anybody.
    if error.may_pass_next_time() || error.is_puzzling() {
        return Passed::Later {
            why: error.to_string(),
            after: error.retry_after(),
            language,
        };
    }
    tracing::error!(%error, "who asks cannot be found out; this is for the operator to mend");
    match word {
        "invalid_auth" | "not_authed" | "account_inactive" | "token_revoked" => {
            Passed::Mute { word: "bad_token" }
        }
        _ => refused(Refusal::MissingPermission, "missing_permission"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slack::api::Method;

    #[test]
    fn within_an_organisation_only_what_the_event_says_of_a_home_is_believed() {
        let team = |id: &str| TeamId::new(id).unwrap();
        // Whether Slack tells of an organisation, what the event says, what Slack knows of the user.
        for (enterprise, said, known, at_home) in [
            (None, None, None, "T1"),
            (None, None, Some("T2"), "T2"),
            // Without an organisation the event may not move anybody into our workspace.
            (None, Some("T1"), Some("T2"), "T2"),
            // An event that names no workspace makes nobody one of ours.
            (Some("E1"), None, Some("T2"), "T2"),
            (Some("E1"), Some("T3"), Some("T2"), "T3"),
            (Some("E1"), None, None, "T1"),
        ] {
            let mut question = crate::reply::tests::question();
            question.enterprise = enterprise.map(team);
            question.user_team = said.map(team);
            let mut user = serde_json::json!({"id": "U1"});
            user["team_id"] = known.into();
            let user: User = serde_json::from_value(user).unwrap();
            let found = home(&question, &user);
            assert_eq!(found.as_str(), at_home, "{enterprise:?} {said:?} {known:?}");
            let lists = ["T1".to_owned()];
            let everybody = ["*".to_owned()];
            let policy = Policy::new(&lists, &everybody, &everybody);
            let decided = policy.decide(&Asker {
                team: &question.team,
                user_team: &found,
                channel: &question.channel,
                user: &question.user,
            });
            assert_eq!(decided.is_ok(), at_home == "T1");
        }
    }

    #[test]
    fn what_slack_says_is_a_refusal_a_fault_of_ours_or_a_reason_to_wait() {
        let passed = |word: &str| {
            let error = SlackError::said(Method::UsersInfo, word);
            missing(&error, Language::En)
        };
        for word in UNKNOWN {
            let refusal = passed(word);
            let unknown = matches!(
                refusal,
                Passed::Refused {
                    refusal: Refusal::UnknownEntity,
                    ..
                }
            );
            assert!(unknown, "{word}");
        }
        assert!(matches!(
            passed("missing_scope"),
            Passed::Refused {
                refusal: Refusal::MissingPermission,
                ..
            }
        ));
        assert!(matches!(passed("token_revoked"), Passed::Mute { .. }));
        assert!(matches!(passed("internal_error"), Passed::Later { .. }));
        for riddle in ["a_word_of_tomorrow", "unknown_error", "token_expired"] {
            let later = passed(riddle);
            assert!(
                matches!(later, Passed::Later { after: None, .. }),
                "{riddle}"
            );
        }
        for status in [400, 401, 403, 404, 410] {
            let what = Method::UsersInfo.name();
            let page = missing(&SlackError::Status { what, status }, Language::En);
            assert!(
                matches!(page, Passed::Later { after: None, .. }),
                "{status}"
            );
        }
        let busy = SlackError::RateLimited {
            method: Method::UsersInfo,
            after: Duration::from_secs(7),
        };
        let Passed::Later { after, .. } = missing(&busy, Language::Ja) else {
            panic!("fault 3: a busy Slack refuses nobody");
        };
        assert_eq!(after, Some(Duration::from_secs(7)));
    }
}
