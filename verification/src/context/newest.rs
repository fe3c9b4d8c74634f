//! The newest messages of a thread. Slack gives a thread from its beginning, page by page; one that is long
//! is looked at from its end, in a stretch of time that is made shorter until all of it is on one page.

use super::{PAGE, Reader, is_said};
use crate::slack::api::SlackError;
use crate::slack::api::conversations::{Message, Replies, Thread};
use crate::slack::ids::{ChannelId, Ts};
use crate::slack::tokens::Installation;
use std::collections::VecDeque;

/// So many pages are read from the beginning: most threads end there.
const PAGES: usize = 3;
/// So many stretches of time are tried after that, each in the middle of two of which the one is too long
/// and the other too short: of a year, the last is about two seconds away from both.
const STRETCHES: usize = 24;

/// A thread, as far as it is of interest.
struct Wanted<'a> {
    at: &'a Installation,
    channel: &'a ChannelId,
    thread: &'a Ts,
    /// Nothing from here on.
    before: &'a Ts,
}

impl Reader<'_> {
    /// The newest messages of a thread before a moment, oldest first. What cannot be read is left out.
    pub(super) async fn newest(
        &self,
        at: &Installation,
        channel: &ChannelId,
        thread: &Ts,
        before: &Ts,
    ) -> VecDeque<Message> {
        let wanted = Wanted {
            at,
            channel,
            thread,
            before,
        };
        let mut kept = VecDeque::new();
        let mut cursor: Option<String> = None;
        let mut seen = thread.micros();
        for _ in 0..PAGES {
            let page = match self.page(&wanted, None, cursor.as_deref()).await {
                Ok(page) => page,
                Err(error) => return unread(&error, kept),
            };
            let last = page.messages.last().map(|message| message.ts.micros());
            seen = seen.max(last.unwrap_or(0));
            self.keep(&mut kept, page.messages, &wanted, 0);
            match page.next {
                Some(next) => cursor = Some(next),
                None => return kept,
            }
        }
        self.ending(&wanted, seen, kept).await
    }

    /// What stands at the end of a thread of which everything up to `seen` has been read, and `kept` of it.
    async fn ending(
        &self,
        wanted: &Wanted<'_>,
        seen: u64,
        mut kept: VecDeque<Message>,
    ) -> VecDeque<Message> {
        // A page does not hold more for certain.
        let enough = self.messages.min(usize::from(PAGE) / 2);
        // Since the one there is more than a page, or all is known before it; since the other, too little.
        let (mut early, mut late) = (seen, wanted.before.micros());
        let mut start = seen.saturating_add(1);
        for _ in 0..STRETCHES {
            let Some(oldest) = Ts::of_micros(start).filter(|_| start > early && start < late)
            else {
                break;
            };
            let page = match self.page(wanted, Some(&oldest), None).await {
                Ok(page) => page,
                Err(error) => return unread(&error, kept),
            };
            let rest_is_here = page.next.is_none();
            let mut newer = VecDeque::new();
            if rest_is_here && early == seen {
                // It goes on from what was read.
                newer = std::mem::take(&mut kept);
            }
            self.keep(&mut newer, page.messages, wanted, start);
            if rest_is_here {
                late = start;
                if early == seen || newer.len() >= enough {
                    return newer;
                }
            } else {
                early = start;
            }
            // What is nearest to the end so far, until there is enough of it.
            kept = newer;
            start = early + late.saturating_sub(early) / 2;
        }
        kept
    }

    async fn page(
        &self,
        wanted: &Wanted<'_>,
        oldest: Option<&Ts>,
        cursor: Option<&str>,
    ) -> Result<Replies, SlackError> {
        let thread = Thread {
            channel: wanted.channel,
            ts: wanted.thread,
            oldest,
            latest: Some(wanted.before),
            limit: PAGE,
            cursor,
        };
        self.slack.conversations_replies(wanted.at, thread).await
    }

    /// Keeps the last of some messages, beginning at `start`: Slack gives the thread's first one always.
    fn keep(
        &self,
        kept: &mut VecDeque<Message>,
        messages: Vec<Message>,
        wanted: &Wanted<'_>,
        start: u64,
    ) {
        let fits = |message: &Message| {
            message.ts < *wanted.before && message.ts.micros() >= start && is_said(message)
        };
        for message in messages.into_iter().filter(fits) {
            kept.push_back(message);
            if kept.len() > self.messages {
                kept.pop_front();
            }
        }
    }
}

fn unread(error: &SlackError, kept: VecDeque<Message>) -> VecDeque<Message> {
    tracing::info!(word = error.word(), "a thread was not read to its end");
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gates::People;
    use crate::policy::Policy;
    use crate::slack::api::Slack;
    use crate::slack::fake::{FakeSlack, Reply, Seen};
    use crate::slack::tokens::BotToken;
    use interzone_edge::tls::Trust;
    use serde_json::json;
    use std::collections::BTreeMap;

    /// A thread as Slack gives it: the first message always, then what fits, oldest first, by the page.
    fn replies(seen: &Seen, micros: &[u64]) -> Reply {
        let form: BTreeMap<String, String> = seen.form();
        let bound = |name: &str| form.get(name).map(|ts| Ts::new(ts).unwrap().micros());
        let (oldest, latest) = (bound("oldest").unwrap_or(0), bound("latest").unwrap());
        let (first, rest) = micros.split_first().unwrap();
        let inside = rest.iter().filter(|at| (oldest..=latest).contains(*at));
        let all: Vec<u64> = [first].into_iter().chain(inside).copied().collect();
        let limit: usize = form["limit"].parse().unwrap();
        let from: usize = form
            .get("cursor")
            .map_or(0, |cursor| cursor.parse().unwrap());
        let until = (from + limit).min(all.len());
        let messages = all[from..until].iter().map(|at| {
            let ts = Ts::of_micros(*at).unwrap();
            json!({"ts": ts.as_str(), "user": "U1", "text": format!("said at {at}")})
        });
        let next = if until < all.len() {
            until.to_string()
        } else {
            String::new()
        };
        Reply::Json(json!({
            "ok": true, "messages": messages.collect::<Vec<_>>(),
            "response_metadata": {"next_cursor": next},
        }))
    }

    async fn newest_of(micros: Vec<u64>) -> (Vec<u64>, usize) {
        let thread = Ts::of_micros(micros[0]).unwrap();
        let before = Ts::of_micros(micros.last().unwrap() + 5_000_000).unwrap();
        let fake = FakeSlack::start(move |seen| replies(seen, &micros)).await;
        let slack = Slack::new(&fake.api(), &Trust::system()).unwrap();
        let people = People::new(slack.clone());
        let reader = Reader {
            slack: &slack,
            people: &people,
            policy: &Policy::default(),
            messages: 20,
        };
        let at = Installation::unknown(BotToken::new("xoxb-1").unwrap());
        let channel = ChannelId::new("C1").unwrap();
        let found = reader.newest(&at, &channel, &thread, &before).await;
        let found = found.iter().map(|message| message.ts.micros()).collect();
        (found, fake.seen().len())
    }

    const SECOND: u64 = 1_000_000;
    const BEGAN: u64 = 1_700_000_000 * SECOND;

    #[tokio::test]
    async fn the_newest_are_the_newest_however_long_the_thread_is() {
        let even = |count: u64| (0..count).map(|n| BEGAN + n * 60 * SECOND).collect();
        // Thousands at once a year ago, and a few words since.
        let mut old: Vec<u64> = (0..9_000).map(|n| BEGAN + n * SECOND).collect();
        old.extend((1..=7).map(|n| BEGAN + n * 50 * 86_400 * SECOND));
        // Quiet for a year, and thousands within the last minutes.
        let mut late: Vec<u64> = (0..10).map(|n| BEGAN + n * 86_400 * SECOND).collect();
        late.extend((0..8_000).map(|n| BEGAN + 365 * 86_400 * SECOND + n * SECOND / 10));
        for (name, micros) in [
            ("one", even(1)),
            ("a page", even(199)),
            ("some pages", even(599)),
            ("a little more than is read from the beginning", even(605)),
            ("more than a page more", even(950)),
            ("more than three thousand", even(3_500)),
            ("ten thousand", even(10_000)),
            ("most of it long ago", old),
            ("most of it of late", late),
        ] {
            let newest = micros[micros.len().saturating_sub(20)..].to_vec();
            let (found, calls) = newest_of(micros).await;
            assert_eq!(found, newest, "{name}");
            assert!(calls <= PAGES + STRETCHES, "{name}: {calls} calls");
        }
    }

    #[tokio::test]
    async fn a_short_thread_costs_one_call_and_a_long_one_a_few() {
        let even = |count: u64| (0..count).map(|n| BEGAN + n * 60 * SECOND).collect();
        assert_eq!(newest_of(even(30)).await.1, 1);
        let (_, calls) = newest_of(even(3_500)).await;
        assert!(calls <= 12, "{calls}");
    }
}
