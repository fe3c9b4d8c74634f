//! A tree of patterns, searched once for each signal however many subscriptions there are.

use interzone_protocol::vocab::{Topic, TopicPattern};
use std::collections::{BTreeSet, HashMap};

/// Patterns and whose they are.
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
    nodes: Vec<Node<T>>,
}

#[derive(Debug)]
struct Node<T> {
    named: HashMap<Box<str>, usize>,
    /// After `*`.
    one: Option<usize>,
    /// After `**`. Such a node also swallows any further segment and stays where it is.
    many: Option<usize>,
    /// Whether this node is one that stands after `**`.
    swallows: bool,
    /// Whose patterns end here.
    ends: Vec<T>,
}

impl<T> Node<T> {
    fn new(swallows: bool) -> Self {
        Self {
            named: HashMap::new(),
            one: None,
            many: None,
            swallows,
            ends: Vec::new(),
        }
    }
}

impl<T> Default for TopicTrie<T> {
    fn default() -> Self {
        Self {
            nodes: vec![Node::new(false)],
        }
    }
}

impl<T: Clone + Ord> TopicTrie<T> {
    /// Adds a pattern for `whose`.
    pub fn insert(&mut self, pattern: &TopicPattern, whose: T) {
        let mut at = 0;
        for segment in pattern.segments() {
            at = self.step_or_grow(at, segment);
        }
        if let Some(node) = self.nodes.get_mut(at)
            && !node.ends.contains(&whose)
        {
            node.ends.push(whose);
        }
    }

    /// Everyone with a pattern that selects the topic, each once, in order.
    ///
    /// All ways through the tree are walked side by side, so the cost is bounded by the length of
    /// the topic times the number of nodes that can match, whatever the wildcards.
    pub fn matches(&self, topic: &Topic) -> Vec<T> {
        let mut here = BTreeSet::from([0_usize]);
        for segment in topic.segments() {
            let mut next = BTreeSet::new();
            for &at in &here {
                let Some(node) = self.nodes.get(at) else {
                    continue;
                };
                next.extend(node.named.get(segment));
                next.extend(node.one);
                next.extend(node.many);
                if node.swallows {
                    next.insert(at);
                }
            }
            if next.is_empty() {
                return Vec::new();
            }
            here = next;
        }
        let ends = here
            .iter()
            .filter_map(|&at| self.nodes.get(at))
            .flat_map(|node| &node.ends);
        ends.cloned().collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn step_or_grow(&mut self, at: usize, segment: &str) -> usize {
        if let Some(next) = self.nodes.get(at).and_then(|node| node.child(segment)) {
            return next;
        }
        let grown = self.nodes.len();
        self.nodes.push(Node::new(segment == "**"));
        if let Some(node) = self.nodes.get_mut(at) {
            match segment {
                "*" => node.one = Some(grown),
                "**" => node.many = Some(grown),
                _ => {
                    node.named.insert(segment.into(), grown);
                }
            }
        }
        grown
    }
}

impl<T> Node<T> {
    fn child(&self, segment: &str) -> Option<usize> {
        match segment {
            "*" => self.one,
            "**" => self.many,
            _ => self.named.get(segment).copied(),
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
        fn the_tree_agrees_with_each_pattern(
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
