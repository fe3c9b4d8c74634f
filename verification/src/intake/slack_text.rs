//! Converts Slack message markup (mentions, links, escapes) to plain text.

use crate::unicode_hygiene::is_invisible;

/// Returns the question text without mentions of the bot; empty if nothing in it is visible.
pub(super) fn question_text(text: &str, bot_user: Option<&str>) -> String {
    let text = convert(text, bot_user);
    if is_invisible(&text) {
        return String::new();
    }
    text.trim().to_owned()
}

/// Converts a message to plain text.
pub(crate) fn to_plain_text(text: &str) -> String {
    convert(text, None)
}

fn convert(text: &str, bot_user: Option<&str>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut remaining = text;
    while let Some((before, behind)) = remaining.split_once('<') {
        out.push_str(&unescape(before));
        // Slack escapes a user's `<` as `&lt;`, so a raw one starts markup; one without an end is copied.
        let Some((inner, after)) = behind.split_once('>') else {
            // Later ones have no end either: searching again for each would take quadratic time.
            out.push('<');
            out.push_str(&unescape(behind));
            return out;
        };
        remaining = if is_bot_mention(inner, bot_user) {
            // Removes the space between the mention and the next word.
            after.strip_prefix(' ').unwrap_or(after)
        } else {
            out.push_str(&unescape(&convert_reference(inner)));
            after
        };
    }
    out.push_str(&unescape(remaining));
    out
}

fn is_bot_mention(inner: &str, bot_user: Option<&str>) -> bool {
    let mentioned = inner.strip_prefix('@').map(|name| name.split('|').next());
    bot_user.is_some() && mentioned == Some(bot_user)
}

/// Converts the text between `<` and `>`.
fn convert_reference(inner: &str) -> String {
    let (target, label) = match inner.split_once('|') {
        Some((target, label)) => (target, Some(label).filter(|label| !label.is_empty())),
        None => (inner, None),
    };
    let label_or = |fallback: &str| match label {
        Some(label) => label.to_owned(),
        None => fallback.to_owned(),
    };
    if target.starts_with('@') {
        // Resolving the name takes a Slack call, so the id stays until then.
        return label.map_or_else(|| format!("<{target}>"), |label| format!("@{label}"));
    }
    if let Some(channel) = target.strip_prefix('#') {
        return format!("#{}", label_or(channel));
    }
    if let Some(special) = target.strip_prefix('!') {
        let name = special.split('^').next().unwrap_or_default();
        return label.map_or_else(|| format!("@{name}"), str::to_owned);
    }
    let address = target.strip_prefix("mailto:").unwrap_or(target);
    match label {
        Some(label) if !address.ends_with(label) && !label.is_empty() => {
            format!("{label} ({address})")
        }
        _ => address.to_owned(),
    }
}

fn unescape(text: &str) -> String {
    if !text.contains('&') {
        return text.to_owned();
    }
    // The ampersand last, or `&amp;lt;` would be unescaped twice.
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bot_mention_is_removed_and_others_stay() {
        for (text, expected) in [
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
            assert_eq!(question_text(text, Some("B1")), expected, "{text}");
        }
        assert_eq!(question_text("<@B1> hi", None), "<@B1> hi");
    }

    #[test]
    fn unclosed_brackets_are_kept_in_linear_time() {
        // A search for the end from each of them would take minutes.
        let open = "<".repeat(400_000);
        assert_eq!(question_text(&open, Some("B1")), open);
        assert_eq!(to_plain_text("a <b> &lt; <c &amp; <d"), "a b < <c & <d");
    }

    #[test]
    fn markup_is_converted_to_plain_text() {
        for (text, expected) in [
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
            assert_eq!(to_plain_text(text), expected, "{text}");
        }
    }
}
