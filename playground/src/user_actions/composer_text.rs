//! Converts composed text to the form in which Slack stores it.

use crate::workspace::Workspace;

impl Workspace {
    /// Converts typed text: entities, mentions by id, links in angle brackets.
    pub(super) fn to_stored_text(&self, text: &str) -> String {
        let mut stored = String::with_capacity(text.len());
        let mut remaining = text;
        while let Some(first) = remaining.chars().next() {
            let consumed = match first {
                '<' => parse_markup(remaining),
                '@' => self.parse_mention(remaining).map(|(taken, id)| {
                    stored.push_str(&format!("<@{id}>"));
                    (taken, "")
                }),
                'h' => parse_link(remaining).map(|taken| {
                    let address = remaining.get(..taken).unwrap_or_default();
                    stored.push_str(&format!("<{}>", address.replace('&', "&amp;")));
                    (taken, "")
                }),
                _ => None,
            };
            let consumed = match (consumed, first) {
                (Some((taken, as_it_is)), _) => {
                    stored.push_str(as_it_is);
                    taken
                }
                (None, '&') => push_entity(&mut stored, "&amp;"),
                (None, '<') => push_entity(&mut stored, "&lt;"),
                (None, '>') => push_entity(&mut stored, "&gt;"),
                (None, other) => {
                    stored.push(other);
                    other.len_utf8()
                }
            };
            remaining = remaining.get(consumed..).unwrap_or_default();
        }
        stored
    }

    fn parse_mention(&self, text: &str) -> Option<(usize, &str)> {
        let after_at = text.get(1..)?;
        let end = after_at
            .find(|c: char| !c.is_ascii_alphanumeric())
            .unwrap_or(after_at.len());
        let name = after_at.get(..end)?;
        let user = self.users.values().find(|user| user.name == name)?;
        Some((end + 1, &user.id))
    }
}

fn push_entity(stored: &mut String, text: &str) -> usize {
    stored.push_str(text);
    1
}

/// Parses markup that stays as it is: `<@U…>`, `<#C…>`, `<!here>` and `<https://…>`.
fn parse_markup(text: &str) -> Option<(usize, &str)> {
    let prefixes = ["@", "#", "!", "http://", "https://", "mailto:"];
    let inside = text.strip_prefix('<')?;
    if !prefixes.iter().any(|start| inside.starts_with(start)) {
        return None;
    }
    // A `<` before the `>` means no markup, so the search stops at the next bracket.
    let end = inside.find(['<', '>'])? + 1;
    text.get(end..)?.starts_with('>').then_some(())?;
    Some((end + 1, text.get(..=end)?))
}

fn parse_link(text: &str) -> Option<usize> {
    if !text.starts_with("https://") && !text.starts_with("http://") {
        return None;
    }
    let end = text.find(|c: char| c.is_whitespace() || "<>\"'`)".contains(c));
    Some(end.unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::PlaygroundOptions;

    #[test]
    fn typed_text_is_converted_to_slack_markup() {
        let workspace = Workspace::new(&PlaygroundOptions::default(), String::new());
        for (typed, stored) in [
            ("@interzone hello", "<@U0INTERZONE> hello"),
            ("a < b & c > d", "a &lt; b &amp; c &gt; d"),
            ("<@U0HANA> <!here> <x", "<@U0HANA> <!here> &lt;x"),
            ("@noone @", "@noone @"),
            (
                "see https://a.b/?c=1&d=2 now",
                "see <https://a.b/?c=1&amp;d=2> now",
            ),
            ("こんにちは、@hana", "こんにちは、<@U0HANA>"),
            (
                "<script>alert(1)</script>",
                "&lt;script&gt;alert(1)&lt;/script&gt;",
            ),
            ("<@U0HANA", "&lt;@U0HANA"),
            ("<!x<@U0HANA>", "&lt;!x<@U0HANA>"),
            ("<https://a.b|c> <>", "<https://a.b|c> &lt;&gt;"),
        ] {
            assert_eq!(workspace.to_stored_text(typed), stored);
        }
    }
}
