//! Mentions of people in what somebody wrote: who is meant, and their names in place of their ids. Who has
//! which name is asked elsewhere.

use crate::slack::ids::UserId;

const OPEN: &str = "<@";

/// Those who are mentioned, each once, in the order in which they come.
pub(super) fn of(text: &str) -> Vec<UserId> {
    let mut found = Vec::new();
    for (_, rest) in text
        .match_indices(OPEN)
        .filter_map(|(at, _)| text.split_at_checked(at))
    {
        if let Some((user, _)) = first(rest)
            && !found.contains(&user)
        {
            found.push(user);
        }
    }
    found
}

/// The text with names for those whose name is known.
pub(crate) fn named(text: &str, names: &[(UserId, String)]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, mention)) = rest.find(OPEN).and_then(|at| rest.split_at_checked(at)) {
        out.push_str(before);
        let known = first(mention).and_then(|(user, after)| {
            let (_, name) = names.iter().find(|(known, _)| *known == user)?;
            Some((name, after))
        });
        rest = match known {
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
    out.push_str(rest);
    out
}

/// The mention that a text begins with, and what follows it.
fn first(text: &str) -> Option<(UserId, &str)> {
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
    fn who_is_mentioned_is_found_once_each() {
        let text = "<@U2> and <@U3>, <@U2>: <@> <@no one> <@U4";
        assert_eq!(of(text), [user("U2"), user("U3")]);
        assert!(of("nobody @ home").is_empty());
    }

    #[test]
    fn names_take_the_place_of_ids_and_a_name_is_not_read_again() {
        let names = [
            (user("U2"), "花子".to_owned()),
            (user("U3"), "<@U2>".to_owned()),
        ];
        for (text, read) in [
            ("日本<@U2>語", "日本@花子語"),
            ("<@U2><@U3>", "@花子@<@U2>"),
            ("<@U9> <@U2", "<@U9> <@U2"),
            ("<@<@U2>", "<@@花子"),
            ("", ""),
        ] {
            assert_eq!(named(text, &names), read, "{text}");
        }
    }
}
