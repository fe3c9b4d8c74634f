//! Slack's way of writing turned into what people wrote: mentions, links and escaped characters.

use crate::signs::is_blank;

/// The question without the mentions of us; nothing if nobody could read it.
pub(super) fn asked(text: &str, own: Option<&str>) -> String {
    let text = written(text, own);
    if is_blank(&text) {
        return String::new();
    }
    text.trim().to_owned()
}

/// A message as people read it.
pub(crate) fn readable(text: &str) -> String {
    written(text, None)
}

fn written(text: &str, own: Option<&str>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('<') {
        out.push_str(&unescaped(before));
        // A `<` of the writer's own comes as `&lt;`, so an open one is Slack's; one without an end is kept.
        let Some((inner, after)) = behind.split_once('>') else {
            // Nor has any behind it an end: to look again for each would take for ever.
            out.push('<');
            out.push_str(&unescaped(behind));
            return out;
        };
        rest = if is_us(inner, own) {
            // The space that stood between the mention and the next word.
            after.strip_prefix(' ').unwrap_or(after)
        } else {
            out.push_str(&unescaped(&reference(inner)));
            after
        };
    }
    out.push_str(&unescaped(rest));
    out
}

fn is_us(inner: &str, own: Option<&str>) -> bool {
    let named = inner.strip_prefix('@').map(|name| name.split('|').next());
    own.is_some() && named == Some(own)
}

/// What stands between `<` and `>`.
fn reference(inner: &str) -> String {
    let (target, label) = match inner.split_once('|') {
        Some((target, label)) => (target, Some(label).filter(|label| !label.is_empty())),
        None => (inner, None),
    };
    let label_or = |own: &str| match label {
        Some(label) => label.to_owned(),
        None => own.to_owned(),
    };
    if target.starts_with('@') {
        // Who it is takes a question to Slack, so the id stays until there is time for that.
        return label.map_or_else(|| format!("<{target}>"), |label| format!("@{label}"));
    }
    if let Some(channel) = target.strip_prefix('#') {
        return format!("#{}", label_or(channel));
    }
    if let Some(special) = target.strip_prefix('!') {
        let word = special.split('^').next().unwrap_or_default();
        return label.map_or_else(|| format!("@{word}"), str::to_owned);
    }
    let address = target.strip_prefix("mailto:").unwrap_or(target);
    match label {
        Some(label) if !address.ends_with(label) && !label.is_empty() => {
            format!("{label} ({address})")
        }
        _ => address.to_owned(),
    }
}

fn unescaped(text: &str) -> String {
    if !text.contains('&') {
        return text.to_owned();
    }
    // The ampersand last, or `&amp;lt;` would be undone twice.
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mention_of_us_goes_and_others_stay() {
        for (text, read) in [
            ("<@B1> hello", "hello"),
            ("hello <@B1|bot>, you", "hello , you"),
            ("<@B1>", ""),
            ("<@B1>   \n", ""),
            ("<@B1> \u{200b}\u{2060}", ""),
            ("\u{feff}\u{ad}", ""),
            ("\u{200b}why?\u{200b}", "\u{200b}why?\u{200b}"),
            ("ask <@U2> and <@U3|ann>", "ask <@U2> and @ann"),
            ("<@B12> hi", "<@B12> hi"),
        ] {
            assert_eq!(asked(text, Some("B1")), read, "{text}");
        }
        assert_eq!(asked("<@B1> hi", None), "<@B1> hi");
    }

    #[test]
    fn brackets_without_an_end_are_kept_and_looked_at_once() {
        // Looked for again from each of them, the end would be sought for minutes.
        let open = "<".repeat(400_000);
        assert_eq!(asked(&open, Some("B1")), open);
        assert_eq!(readable("a <b> &lt; <c &amp; <d"), "a b < <c & <d");
    }

    #[test]
    fn markup_becomes_what_was_written() {
        for (text, read) in [
            ("a &lt;b&gt; &amp;amp; c", "a <b> &amp; c"),
            ("&amp;lt;", "&lt;"),
            (
                "see <https://x.test/a?b=1&amp;c=2>",
                "see https://x.test/a?b=1&c=2",
            ),
            ("<https://x.test|x.test>", "https://x.test"),
            ("<https://x.test|the page>", "the page (https://x.test)"),
            ("<mailto:a@x.test|a@x.test>", "a@x.test"),
            ("<#C1|general> <#C2>", "#general #C2"),
            (
                "<!here> <!subteam^S1|@ops> <!date^1^{date}|today>",
                "@here @ops today",
            ),
            ("1 < 2", "1 < 2"),
            ("<", "<"),
            ("日本<@U2>語", "日本<@U2>語"),
        ] {
            assert_eq!(readable(text), read, "{text}");
        }
    }
}
