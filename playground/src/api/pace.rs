//! How often a method may be called, as Slack counts: by method, and for posts by channel.

use super::args::Args;
use crate::workspace::Workspace;
use std::time::Duration;

/// Calls in a row, and the time after which one more is allowed.
struct Pace {
    burst: u32,
    each: Duration,
}

const fn per_minute(calls: u32) -> Pace {
    Pace {
        burst: calls,
        each: Duration::from_millis(60_000 / calls as u64),
    }
}

/// One post a second in a channel; Slack bears a short burst.
const POSTS: Pace = Pace {
    burst: 3,
    each: Duration::from_secs(1),
};

fn pace(method: &str) -> Option<Pace> {
    Some(match method {
        "chat.postMessage" | "chat.postEphemeral" => POSTS,
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
    /// How many seconds a call has to wait, if it comes too soon.
    pub(crate) fn too_soon(&mut self, method: &str, args: &Args) -> Option<u64> {
        let paces = self.paces.as_mut()?;
        let pace = pace(method)?;
        let channel = match method.starts_with("chat.post") {
            true => args.text("channel").unwrap_or_default(),
            false => "",
        };
        let now = self.clock.steady();
        // The moment at which everything that was called would have been allowed one by one.
        let free = paces.entry(format!("{method} {channel}")).or_default();
        let next = (*free).max(now) + pace.each;
        let ahead = next.saturating_sub(now);
        let most = pace.each * pace.burst;
        if ahead > most {
            let wait = ahead - most;
            return Some(wait.as_millis().div_ceil(1000).try_into().unwrap_or(1));
        }
        *free = next;
        if paces.len() > 10_000 {
            paces.retain(|_, free| *free > now);
        }
        None
    }
}
