//! Links to Slack messages in a text. Only ids are extracted; the URL is never fetched.

use crate::slack::ids::{ChannelId, Ts};
use url::Url;

/// A linked thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ThreadLink {
    pub(super) channel: ChannelId,
    pub(super) thread: Ts,
}

/// Returns all linked threads, each once.
pub(super) fn find_links(text: &str) -> Vec<ThreadLink> {
    let mut links: Vec<ThreadLink> = Vec::new();
    let is_delimiter =
        |c: char| c.is_whitespace() || matches!(c, '<' | '>' | '(' | ')' | '|' | '"');
    for token in text
        .split(is_delimiter)
        .filter(|word| word.contains("/archives/"))
    {
        if let Some(link) = parse_link(token)
            && !links.contains(&link)
        {
            links.push(link);
        }
    }
    links
}

fn parse_link(token: &str) -> Option<ThreadLink> {
    let start = token.find("http")?;
    let url = Url::parse(token.get(start..)?).ok()?;
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
    let (seconds, micros) = digits.split_at_checked(digits.len().checked_sub(6)?)?;
    let message_ts = Ts::new(format!("{seconds}.{micros}"))
        .ok()
        .filter(|_| seconds.len() >= 10);
    Some(ThreadLink {
        channel,
        thread: thread.or(message_ts)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(text: &str) -> Vec<(String, String)> {
        let link = |link: &ThreadLink| (link.channel.to_string(), link.thread.to_string());
        find_links(text).iter().map(link).collect()
    }

    #[test]
    fn message_links_are_found_in_any_position() {
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
            assert_eq!(find(text), one, "{text}");
        }
        let reply =
            "https://x.slack.com/archives/C1/p1700000000000200?thread_ts=1700000000.000100&cid=C1";
        assert_eq!(find(reply), one);
    }

    #[test]
    fn other_urls_are_not_message_links() {
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
            assert!(find(text).is_empty(), "{text}");
        }
    }
}
