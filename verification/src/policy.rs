//! Who may ask: three lists, all of which must name the one who asks. A pure decision, and its reasons
//! in words for the operator. What the user is told of it is written elsewhere.

use crate::slack::ids::{ChannelId, TeamId, UserId};
use std::collections::BTreeSet;
use std::fmt;

/// What opens a list to everybody.
pub const EVERYBODY: &str = "*";

/// One of the three lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// Workspaces.
    Teams,
    /// Conversations.
    Channels,
    /// People.
    Users,
}

impl List {
    /// Its name in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Teams => "teams",
            Self::Channels => "channels",
            Self::Users => "users",
        }
    }
}

/// Why somebody may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// The list is empty, which refuses everybody.
    Empty(List),
    /// The list does not name them.
    NotListed(List),
}

impl Denied {
    /// A word for the audit.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Empty(List::Teams) => "teams_empty",
            Self::Empty(List::Channels) => "channels_empty",
            Self::Empty(List::Users) => "users_empty",
            Self::NotListed(List::Teams) => "team_not_listed",
            Self::NotListed(List::Channels) => "channel_not_listed",
            Self::NotListed(List::Users) => "user_not_listed",
        }
    }
}

/// Whom a list lets through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Names {
    everybody: bool,
    names: BTreeSet<String>,
}

impl Names {
    fn of(names: &[String]) -> Self {
        Self {
            everybody: names.iter().any(|name| name == EVERYBODY),
            names: names.iter().cloned().collect(),
        }
    }

    fn decide(&self, list: List, name: &str) -> Result<(), Denied> {
        if self.everybody || self.names.contains(name) {
            return Ok(());
        }
        Err(if self.names.is_empty() {
            Denied::Empty(list)
        } else {
            Denied::NotListed(list)
        })
    }
}

/// Who may ask.
///
/// A list that is absent or empty refuses everybody; `"*"` in it opens it. All three must let somebody
/// through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    teams: Names,
    channels: Names,
    users: Names,
}

/// Who asks, and where.
#[derive(Clone, Copy, Debug)]
pub struct Asker<'a> {
    /// The workspace that has the app.
    pub team: &'a TeamId,
    /// The workspace of whoever asks, which in a shared channel is another.
    pub user_team: &'a TeamId,
    /// Where.
    pub channel: &'a ChannelId,
    /// Who.
    pub user: &'a UserId,
}

impl Policy {
    /// The policy of these three lists of ids.
    pub fn new(teams: &[String], channels: &[String], users: &[String]) -> Self {
        Self {
            teams: Names::of(teams),
            channels: Names::of(channels),
            users: Names::of(users),
        }
    }

    /// Whether they may.
    ///
    /// # Errors
    /// They may not, and this is the first reason.
    pub fn decide(&self, asker: &Asker<'_>) -> Result<(), Denied> {
        self.teams.decide(List::Teams, asker.team.as_str())?;
        self.teams.decide(List::Teams, asker.user_team.as_str())?;
        self.channel(asker.channel)?;
        self.users.decide(List::Users, asker.user.as_str())
    }

    /// Whether the channel alone would be let through.
    ///
    /// # Errors
    /// It would not, and this is why.
    pub fn channel(&self, channel: &ChannelId) -> Result<(), Denied> {
        self.channels.decide(List::Channels, channel.as_str())
    }

    /// The lists that refuse everybody because nobody is in them.
    pub fn empty_lists(&self) -> Vec<List> {
        [
            (List::Teams, &self.teams),
            (List::Channels, &self.channels),
            (List::Users, &self.users),
        ]
        .into_iter()
        .filter(|(_, names)| names.names.is_empty())
        .map(|(list, _)| list)
        .collect()
    }

    /// Whether they may and why, a line for each list, for the operator.
    pub fn explain(&self, asker: &Asker<'_>) -> Explanation {
        let mut lines = Vec::new();
        let mut look = |names: &Names, list: List, name: &str| {
            let decided = names.decide(list, name);
            lines.push(Line {
                list,
                name: name.to_owned(),
                everybody: names.everybody,
                decided,
            });
        };
        look(&self.teams, List::Teams, asker.team.as_str());
        if asker.user_team != asker.team {
            look(&self.teams, List::Teams, asker.user_team.as_str());
        }
        look(&self.channels, List::Channels, asker.channel.as_str());
        look(&self.users, List::Users, asker.user.as_str());
        Explanation { lines }
    }
}

/// Why somebody may or may not, list by list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// A line for each list that was looked at.
    pub lines: Vec<Line>,
}

impl Explanation {
    /// Whether they may.
    pub fn allowed(&self) -> bool {
        self.lines.iter().all(|line| line.decided.is_ok())
    }
}

/// What one list says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Which list.
    pub list: List,
    /// The id that was looked for.
    pub name: String,
    /// Whether the list is open to everybody.
    pub everybody: bool,
    /// What it says.
    pub decided: Result<(), Denied>,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (list, name) = (self.list.name(), &self.name);
        match self.decided {
            Ok(()) if self.everybody => {
                write!(f, "{list}: {name} may, because the list has \"*\"")
            }
            Ok(()) => write!(f, "{list}: {name} may, because it is in the list"),
            Err(Denied::Empty(_)) => write!(
                f,
                "{list}: {name} may not, because the list is empty, which refuses everybody; add \
                 the id, or \"*\" for everybody, to policy.{list}"
            ),
            Err(Denied::NotListed(_)) => write!(
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

    fn decide(policy: &Policy, team: &str, channel: &str, user: &str) -> Result<(), Denied> {
        decide_from(policy, team, team, channel, user)
    }

    fn decide_from(
        policy: &Policy,
        team: &str,
        user_team: &str,
        channel: &str,
        user: &str,
    ) -> Result<(), Denied> {
        let (team, user_team) = (TeamId::new(team).unwrap(), TeamId::new(user_team).unwrap());
        let (channel, user) = (ChannelId::new(channel).unwrap(), UserId::new(user).unwrap());
        let asker = Asker {
            team: &team,
            user_team: &user_team,
            channel: &channel,
            user: &user,
        };
        let decided = policy.decide(&asker);
        assert_eq!(policy.explain(&asker).allowed(), decided.is_ok());
        decided
    }

    #[test]
    fn fault_2_nothing_configured_refuses_everybody() {
        let policy = Policy::default();
        assert_eq!(
            decide(&policy, "T1", "C1", "U1"),
            Err(Denied::Empty(List::Teams))
        );
        assert_eq!(
            policy.empty_lists(),
            [List::Teams, List::Channels, List::Users]
        );
        for (teams, channels, users, list) in [
            (&["*"][..], &[][..], &["*"][..], List::Channels),
            (&["*"], &["*"], &[], List::Users),
            (&[], &["*"], &["*"], List::Teams),
        ] {
            let policy = Policy::new(
                &self::list(teams),
                &self::list(channels),
                &self::list(users),
            );
            assert_eq!(decide(&policy, "T1", "C1", "U1"), Err(Denied::Empty(list)));
            assert_eq!(policy.empty_lists(), [list]);
        }
    }

    #[test]
    fn all_three_lists_must_name_them() {
        let policy = Policy::new(&list(&["T1"]), &list(&["C1", "D1"]), &list(&["*"]));
        assert_eq!(decide(&policy, "T1", "C1", "U1"), Ok(()));
        assert_eq!(decide(&policy, "T1", "D1", "U9"), Ok(()));
        assert_eq!(
            decide(&policy, "T2", "C1", "U1"),
            Err(Denied::NotListed(List::Teams))
        );
        assert_eq!(
            decide(&policy, "T1", "C2", "U1"),
            Err(Denied::NotListed(List::Channels))
        );
        let narrow = Policy::new(&list(&["*"]), &list(&["*"]), &list(&["U1"]));
        assert_eq!(
            decide(&narrow, "T1", "C2", "U2"),
            Err(Denied::NotListed(List::Users))
        );
        assert_eq!(decide(&narrow, "T7", "C2", "U1"), Ok(()));
    }

    #[test]
    fn a_stranger_in_a_shared_channel_needs_their_own_workspace_in_the_list() {
        let policy = Policy::new(&list(&["T1"]), &list(&["*"]), &list(&["*"]));
        assert_eq!(
            decide_from(&policy, "T1", "T2", "C1", "U1"),
            Err(Denied::NotListed(List::Teams))
        );
        let both = Policy::new(&list(&["T1", "T2"]), &list(&["*"]), &list(&["*"]));
        assert_eq!(decide_from(&both, "T1", "T2", "C1", "U1"), Ok(()));
    }

    #[test]
    fn the_operator_is_told_what_each_list_says_and_what_to_do() {
        let policy = Policy::new(&list(&["*"]), &list(&["C1"]), &[]);
        let (team, channel, user) = (
            TeamId::new("T1").unwrap(),
            ChannelId::new("C2").unwrap(),
            UserId::new("U1").unwrap(),
        );
        let explanation = policy.explain(&Asker {
            team: &team,
            user_team: &team,
            channel: &channel,
            user: &user,
        });
        assert!(!explanation.allowed());
        let lines: Vec<_> = explanation.lines.iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "teams: T1 may, because the list has \"*\"",
                "channels: C2 may not, because it is not in the list; add it to policy.channels",
                "users: U1 may not, because the list is empty, which refuses everybody; add the id, \
                 or \"*\" for everybody, to policy.users",
            ]
        );
    }
}
