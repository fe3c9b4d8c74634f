//! Who and what Slack knows, remembered for a few minutes in a bounded room. What is not there is not
//! remembered: it may come.

use crate::slack::api::conversations::Conversation;
use crate::slack::api::users::User;
use crate::slack::api::{Slack, SlackError};
use crate::slack::ids::{ChannelId, TeamId, UserId};
use crate::slack::tokens::Installation;
use quick_cache::sync::Cache;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long something is remembered.
const KEPT: Duration = Duration::from_secs(300);
/// How many of each.
const ROOM: usize = 20_000;

type Memory<K, V> = Cache<K, (Instant, V)>;

/// What Slack told us of late.
pub(crate) struct People {
    slack: Slack,
    users: Memory<(TeamId, UserId), Arc<User>>,
    channels: Memory<(TeamId, ChannelId), Arc<Conversation>>,
    teams: Memory<TeamId, ()>,
}

impl People {
    pub(crate) fn new(slack: Slack) -> Self {
        Self {
            slack,
            users: Cache::new(ROOM),
            channels: Cache::new(ROOM),
            teams: Cache::new(ROOM),
        }
    }

    /// Who somebody is, in the eyes of a workspace.
    pub(crate) async fn user(
        &self,
        at: &Installation,
        team: &TeamId,
        user: &UserId,
    ) -> Result<Arc<User>, SlackError> {
        let key = (team.clone(), user.clone());
        if let Some(known) = fresh(&self.users, &key) {
            return Ok(known);
        }
        let found = Arc::new(self.slack.users_info(at, user).await?);
        self.users.insert(key, (Instant::now(), found.clone()));
        Ok(found)
    }

    /// Who somebody was when Slack told of them last, if that is not forgotten: their language is likely
    /// to be the same still. Whether they may ask is not decided by it.
    pub(crate) fn last_known(&self, team: &TeamId, user: &UserId) -> Option<Arc<User>> {
        let (_, known) = self.users.get(&(team.clone(), user.clone()))?;
        Some(known)
    }

    /// Forgets somebody.
    pub(crate) fn forget(&self, team: &TeamId, user: &UserId) {
        self.users.remove(&(team.clone(), user.clone()));
    }

    /// What a place is.
    pub(crate) async fn channel(
        &self,
        at: &Installation,
        team: &TeamId,
        channel: &ChannelId,
    ) -> Result<Arc<Conversation>, SlackError> {
        let key = (team.clone(), channel.clone());
        if let Some(known) = fresh(&self.channels, &key) {
            return Ok(known);
        }
        let found = Arc::new(self.slack.conversations_info(at, channel).await?);
        self.channels.insert(key, (Instant::now(), found.clone()));
        Ok(found)
    }

    /// Whether a workspace is there.
    pub(crate) async fn team(&self, at: &Installation, team: &TeamId) -> Result<(), SlackError> {
        if fresh(&self.teams, team).is_some() {
            return Ok(());
        }
        self.slack.team_info(at, team).await?;
        self.teams.insert(team.clone(), (Instant::now(), ()));
        Ok(())
    }
}

fn fresh<K: Eq + Hash, V: Clone>(memory: &Memory<K, V>, key: &K) -> Option<V> {
    let (since, known) = memory.get(key)?;
    (since.elapsed() < KEPT).then_some(known)
}
