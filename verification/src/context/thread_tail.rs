//! The newest messages of a thread. Slack returns a thread from its beginning, page by page; a long one is read from
//! its end by a binary search for a start time from which the remaining messages fit on one page.

use super::{ContextGatherer, PAGE_SIZE, has_content};
use crate::slack::api::SlackError;
use crate::slack::api::conversations::{RepliesPage, RepliesQuery, SlackMessage};
use crate::slack::ids::{ChannelId, Ts};
use crate::slack::tokens::Installation;
use std::collections::VecDeque;

/// Maximum pages read from the beginning: most threads end there.
const MAX_PAGES: usize = 3;
/// Maximum steps of the binary search after that: for a thread of a year, the last step is about two seconds from both
/// bounds.
const MAX_SEARCH_STEPS: usize = 24;

/// The part of a thread to read.
struct ThreadQuery<'a> {
    installation: &'a Installation,
    channel: &'a ChannelId,
    thread: &'a Ts,
    /// Exclusive end.
    before: &'a Ts,
}

impl ContextGatherer<'_> {
    /// Returns the newest messages of a thread before a timestamp, oldest first. Stops at the first read error.
    pub(super) async fn newest_messages(
        &self,
        installation: &Installation,
        channel: &ChannelId,
        thread: &Ts,
        before: &Ts,
    ) -> VecDeque<SlackMessage> {
        let query = ThreadQuery {
            installation,
            channel,
            thread,
            before,
        };
        let mut newest = VecDeque::new();
        let mut cursor: Option<String> = None;
        let mut read_until = thread.micros();
        for _ in 0..MAX_PAGES {
            let page = match self.fetch_page(&query, None, cursor.as_deref()).await {
                Ok(page) => page,
                Err(error) => return on_read_error(&error, newest),
            };
            let last = page.messages.last().map(|message| message.ts.micros());
            read_until = read_until.max(last.unwrap_or(0));
            self.append_newest(&mut newest, page.messages, &query, 0);
            match page.next_cursor {
                Some(next) => cursor = Some(next),
                None => return newest,
            }
        }
        self.read_tail(&query, read_until, newest).await
    }

    /// Reads the end of a thread whose messages up to `read_until` have been read; `newest` are the last of them.
    async fn read_tail(
        &self,
        query: &ThreadQuery<'_>,
        read_until: u64,
        mut newest: VecDeque<SlackMessage>,
    ) -> VecDeque<SlackMessage> {
        // One page is not guaranteed to hold more.
        let enough = self.max_messages.min(usize::from(PAGE_SIZE) / 2);
        // From `early` on there is more than a page, or all before it has been read; from `late` on, too little.
        let (mut early, mut late) = (read_until, query.before.micros());
        let mut start = read_until.saturating_add(1);
        for _ in 0..MAX_SEARCH_STEPS {
            let Some(oldest) = Ts::from_micros(start).filter(|_| start > early && start < late)
            else {
                break;
            };
            let page = match self.fetch_page(query, Some(&oldest), None).await {
                Ok(page) => page,
                Err(error) => return on_read_error(&error, newest),
            };
            let is_last_page = page.next_cursor.is_none();
            let mut newer = VecDeque::new();
            if is_last_page && early == read_until {
                // Continues what was read from the beginning.
                newer = std::mem::take(&mut newest);
            }
            self.append_newest(&mut newer, page.messages, query, start);
            if is_last_page {
                late = start;
                if early == read_until || newer.len() >= enough {
                    return newer;
                }
            } else {
                early = start;
            }
            // The messages nearest to the end so far, until there are enough.
            newest = newer;
            start = early + late.saturating_sub(early) / 2;
        }
        newest
    }

    async fn fetch_page(
        &self,
        query: &ThreadQuery<'_>,
        oldest: Option<&Ts>,
        cursor: Option<&str>,
    ) -> Result<RepliesPage, SlackError> {
        let thread = RepliesQuery {
            channel: query.channel,
            ts: query.thread,
            oldest,
            latest: Some(query.before),
            limit: PAGE_SIZE,
            cursor,
        };
        self.slack
            .conversations_replies(query.installation, thread)
            .await
    }

    /// Appends messages from `start` on and keeps the last ones: Slack always returns the thread's first message.
    fn append_newest(
        &self,
        newest: &mut VecDeque<SlackMessage>,
        messages: Vec<SlackMessage>,
        query: &ThreadQuery<'_>,
        start: u64,
    ) {
        let is_wanted = |message: &SlackMessage| {
            message.ts < *query.before && message.ts.micros() >= start && has_content(message)
        };
        for message in messages.into_iter().filter(is_wanted) {
            newest.push_back(message);
            if newest.len() > self.max_messages {
                newest.pop_front();
            }
        }
    }
}

fn on_read_error(error: &SlackError, newest: VecDeque<SlackMessage>) -> VecDeque<SlackMessage> {
    tracing::info!(code = error.code(), "thread not read completely");
    newest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gates::DirectoryCache;
    use crate::policy::Policy;
    use crate::slack::api::Slack;
    use crate::slack::fake::{FakeReply, FakeSlack, RecordedRequest};
    use crate::slack::tokens::BotToken;
    use interzone_edge::tls::TrustRoots;
    use serde_json::json;
    use std::collections::BTreeMap;

    /// Simulates `conversations.replies`: always the first message, then the range, oldest first, in pages.
    fn replies(request: &RecordedRequest, micros: &[u64]) -> FakeReply {
        let form: BTreeMap<String, String> = request.form();
        let bound = |name: &str| form.get(name).map(|ts| Ts::new(ts).unwrap().micros());
        let (oldest, latest) = (bound("oldest").unwrap_or(0), bound("latest").unwrap());
        let (first, replies) = micros.split_first().unwrap();
        let in_range = replies.iter().filter(|at| (oldest..=latest).contains(*at));
        let all: Vec<u64> = [first].into_iter().chain(in_range).copied().collect();
        let limit: usize = form["limit"].parse().unwrap();
        let from: usize = form
            .get("cursor")
            .map_or(0, |cursor| cursor.parse().unwrap());
        let until = (from + limit).min(all.len());
        let messages = all[from..until].iter().map(|at| {
            let ts = Ts::from_micros(*at).unwrap();
            json!({"ts": ts.as_str(), "user": "U1", "text": format!("said at {at}")})
        });
        let next = if until < all.len() {
            until.to_string()
        } else {
            String::new()
        };
        FakeReply::Json(json!({
            "ok": true, "messages": messages.collect::<Vec<_>>(),
            "response_metadata": {"next_cursor": next},
        }))
    }

    async fn read_newest(micros: Vec<u64>) -> (Vec<u64>, usize) {
        let thread = Ts::from_micros(micros[0]).unwrap();
        let before = Ts::from_micros(micros.last().unwrap() + 5_000_000).unwrap();
        let fake = FakeSlack::start(move |request| replies(request, &micros)).await;
        let slack = Slack::new(&fake.api(), &TrustRoots::system()).unwrap();
        let directory = DirectoryCache::new(slack.clone());
        let gatherer = ContextGatherer {
            slack: &slack,
            directory: &directory,
            policy: &Policy::default(),
            max_messages: 20,
        };
        let installation = Installation::from_token(BotToken::new("xoxb-1").unwrap());
        let channel = ChannelId::new("C1").unwrap();
        let found = gatherer
            .newest_messages(&installation, &channel, &thread, &before)
            .await;
        let found = found.iter().map(|message| message.ts.micros()).collect();
        (found, fake.requests().len())
    }

    const SECOND: u64 = 1_000_000;
    const START: u64 = 1_700_000_000 * SECOND;

    #[tokio::test]
    async fn newest_messages_are_found_in_threads_of_any_length() {
        let even = |count: u64| (0..count).map(|n| START + n * 60 * SECOND).collect();
        // Thousands within hours a year ago, and a few since.
        let mut old: Vec<u64> = (0..9_000).map(|n| START + n * SECOND).collect();
        old.extend((1..=7).map(|n| START + n * 50 * 86_400 * SECOND));
        // Quiet for a year, and thousands within the last minutes.
        let mut late: Vec<u64> = (0..10).map(|n| START + n * 86_400 * SECOND).collect();
        late.extend((0..8_000).map(|n| START + 365 * 86_400 * SECOND + n * SECOND / 10));
        for (name, micros) in [
            ("one", even(1)),
            ("a page", even(199)),
            ("some pages", even(599)),
            ("a little more than MAX_PAGES", even(605)),
            ("more than a page more", even(950)),
            ("more than three thousand", even(3_500)),
            ("ten thousand", even(10_000)),
            ("most of it long ago", old),
            ("most of it of late", late),
        ] {
            let newest = micros[micros.len().saturating_sub(20)..].to_vec();
            let (found, calls) = read_newest(micros).await;
            assert_eq!(found, newest, "{name}");
            assert!(
                calls <= MAX_PAGES + MAX_SEARCH_STEPS,
                "{name}: {calls} calls"
            );
        }
    }

    #[tokio::test]
    async fn short_thread_takes_one_call_and_long_one_a_few() {
        let even = |count: u64| (0..count).map(|n| START + n * 60 * SECOND).collect();
        assert_eq!(read_newest(even(30)).await.1, 1);
        let (_, calls) = read_newest(even(3_500)).await;
        assert!(calls <= 12, "{calls}");
    }
}
