//! Rate limits as in Slack: per method, and for posts per channel.

use super::args::Args;
use crate::workspace::Workspace;
use std::time::Duration;

/// Burst size, and the refill interval of one call.
struct RateLimit {
    burst: u32,
    interval: Duration,
}

const fn per_minute(calls: u32) -> RateLimit {
    RateLimit {
        burst: calls,
        interval: Duration::from_millis(60_000 / calls as u64),
    }
}

/// One post a second per channel, with a short burst.
const POST_LIMIT: RateLimit = RateLimit {
    burst: 3,
    interval: Duration::from_secs(1),
};

fn limit_for(method: &str) -> Option<RateLimit> {
    Some(match method {
        "chat.postMessage" | "chat.postEphemeral" => POST_LIMIT,
        "chat.startStream" | "chat.stopStream" | "reactions.remove" | "conversations.list"
        | "users.list" => per_minute(20),
        "chat.update"
        | "chat.delete"
        | "conversations.history"
        | "conversations.info"
        | "conversations.open"
        | "conversations.replies"
        | "reactions.add"
        | "reactions.get"
        | "team.info" => per_minute(50),
        "chat.appendStream"
        | "conversations.members"
        | "files.completeUploadExternal"
        | "files.getUploadURLExternal"
        | "files.info"
        | "users.info"
        | "assistant.threads.setStatus" => per_minute(100),
        _ => return None,
    })
}

impl Workspace {
    /// Returns the seconds to wait if the call exceeds its rate limit (GCRA).
    pub(crate) fn retry_after(&mut self, method: &str, args: &Args) -> Option<u64> {
        let limits = self.rate_limits.as_mut()?;
        let limit = limit_for(method)?;
        let channel = match method.starts_with("chat.post") {
            true => args.text("channel").unwrap_or_default(),
            false => "",
        };
        let now = self.clock.monotonic();
        // Theoretical arrival time of the next call.
        let arrival = limits.entry(format!("{method} {channel}")).or_default();
        let next_arrival = (*arrival).max(now) + limit.interval;
        let ahead = next_arrival.saturating_sub(now);
        let max_ahead = limit.interval * limit.burst;
        if ahead > max_ahead {
            let wait = ahead - max_ahead;
            return Some(wait.as_millis().div_ceil(1000).try_into().unwrap_or(1));
        }
        *arrival = next_arrival;
        if limits.len() > 10_000 {
            limits.retain(|_, free| *free > now);
        }
        None
    }
}
