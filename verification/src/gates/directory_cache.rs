//! Bounded cache of Slack users, channels and workspaces, with a TTL of a few minutes. Negative results are not cached,
//! because the entity may be created.

use crate::slack::api::conversations::Conversation;
use crate::slack::api::users::SlackUser;
use crate::slack::api::{Slack, SlackError};
use crate::slack::ids::{ChannelId, TeamId, UserId};
use crate::slack::tokens::Installation;
use quick_cache::sync::Cache;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Lifetime of a cached entry.
const CACHE_TTL: Duration = Duration::from_secs(300);
/// Maximum entries per cache.
const CACHE_CAPACITY: usize = 20_000;

type TimedCache<K, V> = Cache<K, (Instant, V)>;

/// Cache of `users.info`, `conversations.info` and `team.info`.
pub(crate) struct DirectoryCache {
    slack: Slack,
    users: TimedCache<(TeamId, UserId), Arc<SlackUser>>,
    channels: TimedCache<(TeamId, ChannelId), Arc<Conversation>>,
    teams: TimedCache<TeamId, ()>,
}

impl DirectoryCache {
    pub(crate) fn new(slack: Slack) -> Self {
        Self {
            slack,
            users: Cache::new(CACHE_CAPACITY),
            channels: Cache::new(CACHE_CAPACITY),
            teams: Cache::new(CACHE_CAPACITY),
        }
    }

    /// Returns a user as seen by the workspace.
    pub(crate) async fn user(
        &self,
        installation: &Installation,
        team: &TeamId,
        user: &UserId,
    ) -> Result<Arc<SlackUser>, SlackError> {
        let key = (team.clone(), user.clone());
        if let Some(cached) = get_fresh(&self.users, &key) {
            return Ok(cached);
        }
        let found = Arc::new(self.slack.users_info(installation, user).await?);
        self.users.insert(key, (Instant::now(), found.clone()));
        Ok(found)
    }

    /// Returns the last cached user even if expired, for their language. Must not be used for access decisions.
    pub(crate) fn stale_user(&self, team: &TeamId, user: &UserId) -> Option<Arc<SlackUser>> {
        let (_, user) = self.users.get(&(team.clone(), user.clone()))?;
        Some(user)
    }

    /// Removes a user from the cache.
    pub(crate) fn invalidate_user(&self, team: &TeamId, user: &UserId) {
        self.users.remove(&(team.clone(), user.clone()));
    }

    /// Returns a channel.
    pub(crate) async fn channel(
        &self,
        installation: &Installation,
        team: &TeamId,
        channel: &ChannelId,
    ) -> Result<Arc<Conversation>, SlackError> {
        let key = (team.clone(), channel.clone());
        if let Some(cached) = get_fresh(&self.channels, &key) {
            return Ok(cached);
        }
        let found = Arc::new(self.slack.conversations_info(installation, channel).await?);
        self.channels.insert(key, (Instant::now(), found.clone()));
        Ok(found)
    }

    /// Checks that a workspace exists.
    pub(crate) async fn team(
        &self,
        installation: &Installation,
        team: &TeamId,
    ) -> Result<(), SlackError> {
        if get_fresh(&self.teams, team).is_some() {
            return Ok(());
        }
        self.slack.team_info(installation, team).await?;
        self.teams.insert(team.clone(), (Instant::now(), ()));
        Ok(())
    }
}

fn get_fresh<K: Eq + Hash, V: Clone>(cache: &TimedCache<K, V>, key: &K) -> Option<V> {
    let (since, value) = cache.get(key)?;
    (since.elapsed() < CACHE_TTL).then_some(value)
}
