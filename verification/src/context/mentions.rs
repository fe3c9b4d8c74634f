//! User mentions in a text: extraction, and replacement by names.

use crate::slack::ids::UserId;

const OPEN: &str = "<@";

/// Returns the mentioned users, each once, in order.
pub(super) fn mentioned_users(text: &str) -> Vec<UserId> {
    let mut found = Vec::new();
    for (_, mention) in text
        .match_indices(OPEN)
        .filter_map(|(at, _)| text.split_at_checked(at))
    {
        if let Some((user, _)) = parse_mention(mention)
            && !found.contains(&user)
        {
            found.push(user);
        }
    }
    found
}

/// Replaces mentions of users whose name is given.
pub(crate) fn replace_mentions(text: &str, names: &[(UserId, String)]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut remaining = text;
    while let Some((before, mention)) = remaining
        .find(OPEN)
        .and_then(|at| remaining.split_at_checked(at))
    {
        out.push_str(before);
        let replacement = parse_mention(mention).and_then(|(user, after)| {
            let (_, name) = names.iter().find(|(id, _)| *id == user)?;
            Some((name, after))
        });
        remaining = match replacement {
            Some((name, after)) => {
                out.push('@');
                out.push_str(name);
                after
            }
            None => {
                out.push_str(OPEN);
                mention.strip_prefix(OPEN).unwrap_or_default()
            }
        };
    }
    out.push_str(remaining);
    out
}

/// Parses the mention at the start of a text; returns it with the remaining text.
fn parse_mention(text: &str) -> Option<(UserId, &str)> {
    let (id, after) = text.strip_prefix(OPEN)?.split_once('>')?;
    Some((UserId::new(id).ok()?, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(id: &str) -> UserId {
        UserId::new(id).unwrap()
    }

    #[test]
    fn mentioned_users_are_listed_once() {
        let text = "<@U2> and <@U3>, <@U2>: <@> <@no one> <@U4";
        assert_eq!(mentioned_users(text), [user("U2"), user("U3")]);
        assert!(mentioned_users("no one @ home").is_empty());
    }

    #[test]
    fn mentions_are_replaced_once_and_names_not_reparsed() {
        let names = [
            (user("U2"), "花子".to_owned()),
            (user("U3"), "<@U2>".to_owned()),
        ];
        for (text, expected) in [
            ("日本<@U2>語", "日本@花子語"),
            ("<@U2><@U3>", "@花子@<@U2>"),
            ("<@U9> <@U2", "<@U9> <@U2"),
            ("<@<@U2>", "<@@花子"),
            ("", ""),
        ] {
            assert_eq!(replace_mentions(text, &names), expected, "{text}");
        }
    }
}
