//! What a person types, as Slack stores it. Who may say it, and where, is not known here.

use crate::workspace::Workspace;

impl Workspace {
    /// Typed text as Slack stores it: entities, mentions by id, links in angle brackets.
    pub(super) fn typed(&self, text: &str) -> String {
        let mut stored = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let taken = match first {
                '<' => markup(rest),
                '@' => self.mention(rest).map(|(taken, id)| {
                    stored.push_str(&format!("<@{id}>"));
                    (taken, "")
                }),
                'h' => link(rest).map(|taken| {
                    let address = rest.get(..taken).unwrap_or_default();
                    stored.push_str(&format!("<{}>", address.replace('&', "&amp;")));
                    (taken, "")
                }),
                _ => None,
            };
            let taken = match (taken, first) {
                (Some((taken, as_it_is)), _) => {
                    stored.push_str(as_it_is);
                    taken
                }
                (None, '&') => entity(&mut stored, "&amp;"),
                (None, '<') => entity(&mut stored, "&lt;"),
                (None, '>') => entity(&mut stored, "&gt;"),
                (None, other) => {
                    stored.push(other);
                    other.len_utf8()
                }
            };
            rest = rest.get(taken..).unwrap_or_default();
        }
        stored
    }

    fn mention(&self, rest: &str) -> Option<(usize, &str)> {
        let word = rest.get(1..)?;
        let end = word
            .find(|c: char| !c.is_ascii_alphanumeric())
            .unwrap_or(word.len());
        let name = word.get(..end)?;
        let user = self.users.values().find(|user| user.name == name)?;
        Some((end + 1, &user.id))
    }
}

fn entity(stored: &mut String, text: &str) -> usize {
    stored.push_str(text);
    1
}

/// `<@U…>`, `<#C…>`, `<!here>` and `<https://…>` are Slack's own and stay.
fn markup(rest: &str) -> Option<(usize, &str)> {
    let known = ["@", "#", "!", "http://", "https://", "mailto:"];
    let inside = rest.strip_prefix('<')?;
    if !known.iter().any(|start| inside.starts_with(start)) {
        return None;
    }
    // One that opens before it closes is none, and so none is looked for further than the next.
    let end = inside.find(['<', '>'])? + 1;
    rest.get(end..)?.starts_with('>').then_some(())?;
    Some((end + 1, rest.get(..=end)?))
}

fn link(rest: &str) -> Option<usize> {
    if !rest.starts_with("https://") && !rest.starts_with("http://") {
        return None;
    }
    let end = rest.find(|c: char| c.is_whitespace() || "<>\"'`)".contains(c));
    Some(end.unwrap_or(rest.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::PlaygroundOptions;

    #[test]
    fn typed_text_is_stored_as_slack_stores_it() {
        let workspace = Workspace::new(&PlaygroundOptions::default(), String::new());
        for (typed, stored) in [
            ("@interzone hello", "<@U0INTERZONE> hello"),
            ("a < b & c > d", "a &lt; b &amp; c &gt; d"),
            ("<@U0HANA> <!here> <x", "<@U0HANA> <!here> &lt;x"),
            ("@nobody @", "@nobody @"),
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
            assert_eq!(workspace.typed(typed), stored);
        }
    }
}
