//! Trie of topic patterns, searched once per signal regardless of the number of subscriptions.

use interzone_protocol::vocab::{Topic, TopicPattern};
use std::collections::{BTreeSet, HashMap};

/// Maps topic patterns to values.
///
/// ```
/// use interzone_hub::TopicTrie;
/// use interzone_protocol::vocab::{InvalidTopic, Topic, TopicPattern};
///
/// let mut trie = TopicTrie::default();
/// trie.insert(&TopicPattern::new("signal.*")?, 1);
/// trie.insert(&TopicPattern::new("**.email")?, 1);
/// trie.insert(&TopicPattern::new("signal.**")?, 2);
/// assert_eq!(trie.matches(&Topic::new("signal.email")?), [1, 2]);
/// # Ok::<(), InvalidTopic>(())
/// ```
#[derive(Debug)]
pub struct TopicTrie<T> {
    nodes: Vec<TrieNode<T>>,
}

#[derive(Debug)]
struct TrieNode<T> {
    by_name: HashMap<Box<str>, usize>,
    /// Child for `*`.
    single_wildcard: Option<usize>,
    /// Child for `**`. Such a node also matches any number of further segments.
    multi_wildcard: Option<usize>,
    /// True if this node is a `**` node.
    is_multi_wildcard: bool,
    /// Values of the patterns that end here.
    values: Vec<T>,
}

impl<T> TrieNode<T> {
    fn new(is_multi_wildcard: bool) -> Self {
        Self {
            by_name: HashMap::new(),
            single_wildcard: None,
            multi_wildcard: None,
            is_multi_wildcard,
            values: Vec::new(),
        }
    }
}

impl<T> Default for TopicTrie<T> {
    fn default() -> Self {
        Self {
            nodes: vec![TrieNode::new(false)],
        }
    }
}

impl<T: Clone + Ord> TopicTrie<T> {
    /// Adds a pattern with a value.
    pub fn insert(&mut self, pattern: &TopicPattern, value: T) {
        let mut node_index = 0;
        for segment in pattern.segments() {
            node_index = self.get_or_insert_child(node_index, segment);
        }
        if let Some(node) = self.nodes.get_mut(node_index)
            && !node.values.contains(&value)
        {
            node.values.push(value);
        }
    }

    /// Values of all patterns that match the topic, deduplicated and sorted.
    ///
    /// All paths through the trie are followed in parallel (as in an NFA), so the cost is bounded by the length of the
    /// topic times the number of nodes that can match, for any wildcards.
    pub fn matches(&self, topic: &Topic) -> Vec<T> {
        let mut current = BTreeSet::from([0_usize]);
        for segment in topic.segments() {
            let mut next = BTreeSet::new();
            for &node_index in &current {
                let Some(node) = self.nodes.get(node_index) else {
                    continue;
                };
                next.extend(node.by_name.get(segment));
                next.extend(node.single_wildcard);
                next.extend(node.multi_wildcard);
                if node.is_multi_wildcard {
                    next.insert(node_index);
                }
            }
            if next.is_empty() {
                return Vec::new();
            }
            current = next;
        }
        let values = current
            .iter()
            .filter_map(|&at| self.nodes.get(at))
            .flat_map(|node| &node.values);
        values
            .cloned()
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect()
    }

    fn get_or_insert_child(&mut self, parent: usize, segment: &str) -> usize {
        if let Some(next) = self.nodes.get(parent).and_then(|node| node.child(segment)) {
            return next;
        }
        let child = self.nodes.len();
        self.nodes.push(TrieNode::new(segment == "**"));
        if let Some(node) = self.nodes.get_mut(parent) {
            match segment {
                "*" => node.single_wildcard = Some(child),
                "**" => node.multi_wildcard = Some(child),
                _ => {
                    node.by_name.insert(segment.into(), child);
                }
            }
        }
        child
    }
}

impl<T> TrieNode<T> {
    fn child(&self, segment: &str) -> Option<usize> {
        match segment {
            "*" => self.single_wildcard,
            "**" => self.multi_wildcard,
            _ => self.by_name.get(segment).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pattern() -> impl Strategy<Value = TopicPattern> {
        prop::collection::vec(prop::sample::select(vec!["a", "b", "*", "**"]), 1..6)
            .prop_map(|segments| TopicPattern::new(segments.join(".")).unwrap())
    }

    proptest! {
        #[test]
        fn trie_matches_like_the_individual_patterns(
            patterns in prop::collection::vec(pattern(), 0..12),
            topic in prop::collection::vec(prop::sample::select(vec!["a", "b", "c"]), 1..7),
        ) {
            let topic = Topic::new(topic.join(".")).unwrap();
            let mut trie = TopicTrie::default();
            for (index, pattern) in patterns.iter().enumerate() {
                trie.insert(pattern, index);
            }
            let expected: Vec<usize> = patterns.iter().enumerate()
                .filter(|(_, pattern)| pattern.matches(&topic))
                .map(|(index, _)| index).collect();
            prop_assert_eq!(trie.matches(&topic), expected);
        }
    }
}
