//! Access policy: three allow lists (workspaces, channels, users), all of which must contain the asker.

use crate::slack::ids::{ChannelId, TeamId, UserId};
use std::collections::BTreeSet;
use std::fmt;

/// List entry that allows all.
pub const ALLOW_ALL: &str = "*";

/// One of the three lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyList {
    /// Workspaces.
    Teams,
    /// Conversations.
    Channels,
    /// Users.
    Users,
}

impl PolicyList {
    /// Returns the name in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Teams => "teams",
            Self::Channels => "channels",
            Self::Users => "users",
        }
    }
}

/// Reason of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyDenial {
    /// The list is empty, which refuses all.
    Empty(PolicyList),
    /// The list does not contain the id.
    NotListed(PolicyList),
}

impl PolicyDenial {
    /// Returns the code for the audit log.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Empty(PolicyList::Teams) => "teams_empty",
            Self::Empty(PolicyList::Channels) => "channels_empty",
            Self::Empty(PolicyList::Users) => "users_empty",
            Self::NotListed(PolicyList::Teams) => "team_not_listed",
            Self::NotListed(PolicyList::Channels) => "channel_not_listed",
            Self::NotListed(PolicyList::Users) => "user_not_listed",
        }
    }
}

/// Entries of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct AllowList {
    allows_all: bool,
    ids: BTreeSet<String>,
}

impl AllowList {
    fn new(ids: &[String]) -> Self {
        Self {
            allows_all: ids.iter().any(|name| name == ALLOW_ALL),
            ids: ids.iter().cloned().collect(),
        }
    }

    fn decide(&self, list: PolicyList, id: &str) -> Result<(), PolicyDenial> {
        if self.allows_all || self.ids.contains(id) {
            return Ok(());
        }
        Err(if self.ids.is_empty() {
            PolicyDenial::Empty(list)
        } else {
            PolicyDenial::NotListed(list)
        })
    }
}

/// Access policy.
///
/// An absent or empty list refuses all; `"*"` in it allows all. All three must allow the asker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    teams: AllowList,
    channels: AllowList,
    users: AllowList,
}

/// Subject of a policy decision.
#[derive(Clone, Copy, Debug)]
pub struct PolicySubject<'a> {
    /// Workspace in which the app is installed.
    pub team: &'a TeamId,
    /// The asker's workspace; differs from `team` in a shared channel.
    pub user_team: &'a TeamId,
    /// Channel.
    pub channel: &'a ChannelId,
    /// User.
    pub user: &'a UserId,
}

impl Policy {
    /// Creates a policy from three lists of ids.
    pub fn new(teams: &[String], channels: &[String], users: &[String]) -> Self {
        Self {
            teams: AllowList::new(teams),
            channels: AllowList::new(channels),
            users: AllowList::new(users),
        }
    }

    /// Decides whether the subject may ask.
    ///
    /// # Errors
    /// The first reason of a refusal.
    pub fn decide(&self, subject: &PolicySubject<'_>) -> Result<(), PolicyDenial> {
        self.teams
            .decide(PolicyList::Teams, subject.team.as_str())?;
        self.teams
            .decide(PolicyList::Teams, subject.user_team.as_str())?;
        self.decide_channel(subject.channel)?;
        self.users.decide(PolicyList::Users, subject.user.as_str())
    }

    /// Decides for the channel alone.
    ///
    /// # Errors
    /// The reason of a refusal.
    pub fn decide_channel(&self, channel: &ChannelId) -> Result<(), PolicyDenial> {
        self.channels.decide(PolicyList::Channels, channel.as_str())
    }

    /// Returns the lists that refuse all because they are empty.
    pub fn empty_lists(&self) -> Vec<PolicyList> {
        [
            (PolicyList::Teams, &self.teams),
            (PolicyList::Channels, &self.channels),
            (PolicyList::Users, &self.users),
        ]
        .into_iter()
        .filter(|(_, names)| names.ids.is_empty())
        .map(|(list, _)| list)
        .collect()
    }

    /// Explains the decision, one verdict per list, for the operator.
    pub fn explain(&self, subject: &PolicySubject<'_>) -> PolicyExplanation {
        let mut verdicts = Vec::new();
        let mut check = |names: &AllowList, list: PolicyList, name: &str| {
            let decision = names.decide(list, name);
            verdicts.push(ListVerdict {
                list,
                id: name.to_owned(),
                allows_all: names.allows_all,
                decision,
            });
        };
        check(&self.teams, PolicyList::Teams, subject.team.as_str());
        if subject.user_team != subject.team {
            check(&self.teams, PolicyList::Teams, subject.user_team.as_str());
        }
        check(
            &self.channels,
            PolicyList::Channels,
            subject.channel.as_str(),
        );
        check(&self.users, PolicyList::Users, subject.user.as_str());
        PolicyExplanation { verdicts }
    }
}

/// Explanation of a policy decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyExplanation {
    /// One verdict per checked list.
    pub verdicts: Vec<ListVerdict>,
}

impl PolicyExplanation {
    /// Returns true if all lists allow the subject.
    pub fn is_allowed(&self) -> bool {
        self.verdicts.iter().all(|line| line.decision.is_ok())
    }
}

/// Verdict of one list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListVerdict {
    /// Checked list.
    pub list: PolicyList,
    /// Checked id.
    pub id: String,
    /// True if the list contains `"*"`.
    pub allows_all: bool,
    /// Decision.
    pub decision: Result<(), PolicyDenial>,
}

impl fmt::Display for ListVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (list, name) = (self.list.name(), &self.id);
        match self.decision {
            Ok(()) if self.allows_all => {
                write!(f, "{list}: {name} may, because the list has \"*\"")
            }
            Ok(()) => write!(f, "{list}: {name} may, because it is in the list"),
            Err(PolicyDenial::Empty(_)) => write!(
                f,
                "{list}: {name} may not, because the list is empty, which refuses all; add \
                 the id, or \"*\" to allow all, to policy.{list}"
            ),
            Err(PolicyDenial::NotListed(_)) => write!(
                f,
                "{list}: {name} may not, because it is not in the list; add it to policy.{list}"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn decide(policy: &Policy, team: &str, channel: &str, user: &str) -> Result<(), PolicyDenial> {
        decide_from(policy, team, team, channel, user)
    }

    fn decide_from(
        policy: &Policy,
        team: &str,
        user_team: &str,
        channel: &str,
        user: &str,
    ) -> Result<(), PolicyDenial> {
        let (team, user_team) = (TeamId::new(team).unwrap(), TeamId::new(user_team).unwrap());
        let (channel, user) = (ChannelId::new(channel).unwrap(), UserId::new(user).unwrap());
        let asker = PolicySubject {
            team: &team,
            user_team: &user_team,
            channel: &channel,
            user: &user,
        };
        let decision = policy.decide(&asker);
        assert_eq!(policy.explain(&asker).is_allowed(), decision.is_ok());
        decision
    }

    #[test]
    fn fault_2_empty_policy_refuses_all() {
        let policy = Policy::default();
        assert_eq!(
            decide(&policy, "T1", "C1", "U1"),
            Err(PolicyDenial::Empty(PolicyList::Teams))
        );
        assert_eq!(
            policy.empty_lists(),
            [PolicyList::Teams, PolicyList::Channels, PolicyList::Users]
        );
        for (teams, channels, users, list) in [
            (&["*"][..], &[][..], &["*"][..], PolicyList::Channels),
            (&["*"], &["*"], &[], PolicyList::Users),
            (&[], &["*"], &["*"], PolicyList::Teams),
        ] {
            let policy = Policy::new(
                &self::list(teams),
                &self::list(channels),
                &self::list(users),
            );
            assert_eq!(
                decide(&policy, "T1", "C1", "U1"),
                Err(PolicyDenial::Empty(list))
            );
            assert_eq!(policy.empty_lists(), [list]);
        }
    }

    #[test]
    fn all_three_lists_must_contain_the_ids() {
        let policy = Policy::new(&list(&["T1"]), &list(&["C1", "D1"]), &list(&["*"]));
        assert_eq!(decide(&policy, "T1", "C1", "U1"), Ok(()));
        assert_eq!(decide(&policy, "T1", "D1", "U9"), Ok(()));
        assert_eq!(
            decide(&policy, "T2", "C1", "U1"),
            Err(PolicyDenial::NotListed(PolicyList::Teams))
        );
        assert_eq!(
            decide(&policy, "T1", "C2", "U1"),
            Err(PolicyDenial::NotListed(PolicyList::Channels))
        );
        let narrow = Policy::new(&list(&["*"]), &list(&["*"]), &list(&["U1"]));
        assert_eq!(
            decide(&narrow, "T1", "C2", "U2"),
            Err(PolicyDenial::NotListed(PolicyList::Users))
        );
        assert_eq!(decide(&narrow, "T7", "C2", "U1"), Ok(()));
    }

    #[test]
    fn shared_channel_user_needs_own_workspace_listed() {
        let policy = Policy::new(&list(&["T1"]), &list(&["*"]), &list(&["*"]));
        assert_eq!(
            decide_from(&policy, "T1", "T2", "C1", "U1"),
            Err(PolicyDenial::NotListed(PolicyList::Teams))
        );
        let both = Policy::new(&list(&["T1", "T2"]), &list(&["*"]), &list(&["*"]));
        assert_eq!(decide_from(&both, "T1", "T2", "C1", "U1"), Ok(()));
    }

    #[test]
    fn explanation_states_verdict_and_remedy_per_list() {
        let policy = Policy::new(&list(&["*"]), &list(&["C1"]), &[]);
        let (team, channel, user) = (
            TeamId::new("T1").unwrap(),
            ChannelId::new("C2").unwrap(),
            UserId::new("U1").unwrap(),
        );
        let explanation = policy.explain(&PolicySubject {
            team: &team,
            user_team: &team,
            channel: &channel,
            user: &user,
        });
        assert!(!explanation.is_allowed());
        let lines: Vec<_> = explanation
            .verdicts
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            lines,
            [
                "teams: T1 may, because the list has \"*\"",
                "channels: C2 may not, because it is not in the list; add it to policy.channels",
                "users: U1 may not, because the list is empty, which refuses all; add the id, \
                 or \"*\" to allow all, to policy.users",
            ]
        );
    }
}
