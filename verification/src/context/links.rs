//! Links to messages in what somebody wrote. Only ids are taken from them; the address itself is never
//! opened.

use crate::slack::ids::{ChannelId, Ts};
use url::Url;

/// A thread that somebody links to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) channel: ChannelId,
    pub(super) thread: Ts,
}

/// All links to messages, each thread once.
pub(super) fn in_text(text: &str) -> Vec<Link> {
    let mut links: Vec<Link> = Vec::new();
    let ends = |c: char| c.is_whitespace() || matches!(c, '<' | '>' | '(' | ')' | '|' | '"');
    for word in text.split(ends).filter(|word| word.contains("/archives/")) {
        if let Some(link) = read(word)
            && !links.contains(&link)
        {
            links.push(link);
        }
    }
    links
}

fn read(word: &str) -> Option<Link> {
    let start = word.find("http")?;
    let url = Url::parse(word.get(start..)?).ok()?;
    let mut path = url.path_segments()?;
    if path.next() != Some("archives") {
        return None;
    }
    let channel = ChannelId::new(path.next()?).ok()?;
    let message = path.next()?.strip_prefix('p')?;
    let digits: String = message.chars().take_while(char::is_ascii_digit).collect();
    let thread = url
        .query_pairs()
        .find(|(name, _)| name == "thread_ts")
        .and_then(|(_, ts)| Ts::new(ts).ok());
    let (seconds, rest) = digits.split_at_checked(digits.len().checked_sub(6)?)?;
    let own = Ts::new(format!("{seconds}.{rest}"))
        .ok()
        .filter(|_| seconds.len() >= 10);
    Some(Link {
        channel,
        thread: thread.or(own)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(String, String)> {
        let link = |link: &Link| (link.channel.to_string(), link.thread.to_string());
        in_text(text).iter().map(link).collect()
    }

    #[test]
    fn links_are_found_wherever_they_stand() {
        let one = [("C1".to_owned(), "1700000000.000100".to_owned())];
        for text in [
            "https://x.slack.com/archives/C1/p1700000000000100",
            "see https://x.slack.com/archives/C1/p1700000000000100, please",
            "<https://x.slack.com/archives/C1/p1700000000000100|this>",
            "これ https://x.slack.com/archives/C1/p1700000000000100 を要約して",
            "これhttps://x.slack.com/archives/C1/p1700000000000100",
            "a https://x.slack.com/archives/C1/p1700000000000100 \
             https://x.slack.com/archives/C1/p1700000000000100",
        ] {
            assert_eq!(read(text), one, "{text}");
        }
        let reply =
            "https://x.slack.com/archives/C1/p1700000000000200?thread_ts=1700000000.000100&cid=C1";
        assert_eq!(read(reply), one);
    }

    #[test]
    fn what_is_no_link_to_a_message_is_none() {
        for text in [
            "",
            "/archives/C1/p1700000000000100",
            "https://x.slack.com/archives/C1",
            "https://x.slack.com/archives/c1/p1700000000000100",
            "https://x.slack.com/archives/C1/p12345",
            "https://x.slack.com/archives/C1/p1234567",
            "https://x.slack.com/archives/C1/1700000000000100",
            "https://x.slack.com/files/archives/C1/p1700000000000100",
            "https://",
        ] {
            assert!(read(text).is_empty(), "{text}");
        }
    }
}
