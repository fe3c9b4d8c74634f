//! "Did you mean" suggestions for unknown keys.

/// Returns the known key closest to `key`, if it is close enough (edit distance of about a third).
pub(super) fn suggest(key: &str, known_keys: &[&'static str]) -> Option<&'static str> {
    known_keys
        .iter()
        .map(|candidate| (distance(key, candidate), *candidate))
        .filter(|(distance, candidate)| *distance <= (candidate.len() / 3).max(1))
        .min()
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, cb) in row.iter_mut().skip(1).zip(&b) {
            let change = diagonal + usize::from(ca != *cb);
            diagonal = *cell;
            left = change.min(left + 1).min(diagonal + 1);
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{distance, suggest};

    #[test]
    fn edit_distance_is_computed() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("listen", "listen"), 0);
        assert_eq!(distance("lisen", "listen"), 1);
        assert_eq!(distance("kitten", "sitting"), 3);
    }

    #[test]
    fn typos_are_suggested_and_other_keys_are_not() {
        let known_keys = ["listen", "public_url", "always_200"];
        assert_eq!(suggest("lisetn", &known_keys), Some("listen"));
        assert_eq!(suggest("public-url", &known_keys), Some("public_url"));
        assert_eq!(suggest("port", &known_keys), None);
    }
}
