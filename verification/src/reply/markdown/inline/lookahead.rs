//! Delimiter lookahead for a line of Markdown: finds the next closing delimiter. Queries come from left to right, and
//! each kind of delimiter is searched once per line and cached, so a line of unclosed delimiters takes linear time.

#[cfg(test)]
use crate::reply::complexity_probe::count_scan;
use std::collections::{BTreeMap, VecDeque};

/// Closing markers of emphasis, longest first.
pub(super) const MARKERS: [&str; 6] = ["***", "**", "__", "~~", "*", "_"];

/// Cached position of the next delimiter of a kind.
#[derive(Clone, Copy, Default)]
enum CachedPosition<T> {
    #[default]
    Unknown,
    /// The first one after the last query position.
    At(T),
    /// There are no more.
    Exhausted,
}

impl<T> CachedPosition<T> {
    fn from_search(found: Option<T>) -> Self {
        found.map_or(Self::Exhausted, Self::At)
    }
}

/// A closing marker of emphasis.
#[derive(Clone, Copy)]
struct EmphasisCloser {
    /// Start of the run of equal characters that contains it.
    run_start: usize,
    pos: usize,
}

/// A line with the cached positions of its delimiters.
pub(super) struct DelimiterIndex<'a> {
    line: &'a str,
    /// `](`
    link_text_end: CachedPosition<usize>,
    /// `>`
    angle: CachedPosition<usize>,
    /// Next character that an address cannot contain.
    non_address: CachedPosition<usize>,
    emphasis: [CachedPosition<EmphasisCloser>; MARKERS.len()],
    /// End of the last run of backticks that was measured.
    ticks_end: usize,
    /// Start positions of backtick runs, by length.
    tick_runs: Option<BTreeMap<usize, VecDeque<usize>>>,
    /// Closing bracket of each address, by its opening bracket.
    address_ends: Option<BTreeMap<usize, usize>>,
}

impl<'a> DelimiterIndex<'a> {
    pub(super) fn new(line: &'a str) -> Self {
        Self {
            line,
            link_text_end: CachedPosition::Unknown,
            angle: CachedPosition::Unknown,
            non_address: CachedPosition::Unknown,
            emphasis: [CachedPosition::Unknown; MARKERS.len()],
            ticks_end: 0,
            tick_runs: None,
            address_ends: None,
        }
    }

    /// Returns the ends of the text and of the address of a link that starts here.
    pub(super) fn link_ends(&mut self, from: usize) -> Option<(usize, usize)> {
        let line = self.line;
        let text_end = cached_find(&mut self.link_text_end, line, from, |rest| rest.find("]("))?;
        let addresses = self
            .address_ends
            .get_or_insert_with(|| find_addresses(line));
        Some((text_end, *addresses.get(&(text_end + 1))?))
    }

    /// Returns the next `>`.
    pub(super) fn next_angle(&mut self, from: usize) -> Option<usize> {
        cached_find(&mut self.angle, self.line, from, |rest| rest.find('>'))
    }

    /// Returns the next character that an address cannot contain.
    pub(super) fn next_non_address(&mut self, from: usize) -> Option<usize> {
        let find = |rest: &str| rest.find(|c: char| c.is_whitespace() || c.is_control());
        cached_find(&mut self.non_address, self.line, from, find)
    }

    /// Returns the number of backticks here, and the start of the next run of equal length.
    pub(super) fn code_span(&mut self, from: usize) -> (usize, Option<usize>) {
        if self.ticks_end <= from {
            self.ticks_end = run_end(self.line, b'`', from);
        }
        let length = self.ticks_end - from;
        let line = self.line;
        let runs = self.tick_runs.get_or_insert_with(|| find_tick_runs(line));
        let end = runs.get_mut(&length).and_then(|starts| {
            while starts
                .pop_front_if(|start| *start < from + length)
                .is_some()
            {}
            starts.front().copied()
        });
        (length, end)
    }

    /// Returns the end of emphasis whose content starts here, after one of the [`MARKERS`].
    pub(super) fn emphasis_end(&mut self, marker_index: usize, from: usize) -> Option<usize> {
        let marker = *MARKERS.get(marker_index)?;
        let cached = self.emphasis.get_mut(marker_index)?;
        // The same marker may follow directly: its first occurrence closes nothing, a later one may.
        let next_two = self.line.as_bytes().get(from..from + 2 * marker.len());
        let mut expected = marker.bytes().cycle();
        if marker.len() > 1
            && next_two.is_some_and(|bytes| bytes.iter().all(|byte| expected.next() == Some(*byte)))
            && may_close(self.line, marker, from + marker.len())
        {
            return Some(from + marker.len());
        }
        match cached {
            CachedPosition::Exhausted => return None,
            CachedPosition::At(closer) if closer.run_start > from => return Some(closer.pos),
            CachedPosition::At(_) | CachedPosition::Unknown => {}
        }
        let found = find_closer(self.line, marker, from);
        *cached = CachedPosition::from_search(found);
        found.map(|closer| closer.pos)
    }
}

/// Returns the next position, searching only if the cached one is stale.
fn cached_find(
    cached: &mut CachedPosition<usize>,
    line: &str,
    from: usize,
    find: impl Fn(&str) -> Option<usize>,
) -> Option<usize> {
    match *cached {
        CachedPosition::Exhausted => None,
        CachedPosition::At(at) if at >= from => Some(at),
        CachedPosition::At(_) | CachedPosition::Unknown => {
            let remaining = line.get(from..).unwrap_or_default();
            let found = find(remaining);
            #[cfg(test)]
            count_scan(found.unwrap_or(remaining.len()));
            let found = found.map(|offset| from + offset);
            *cached = CachedPosition::from_search(found);
            found
        }
    }
}

/// Returns the end of a run of one character.
fn run_end(line: &str, byte: u8, from: usize) -> usize {
    let remaining = line.as_bytes().get(from..).unwrap_or_default();
    let length = remaining.iter().take_while(|other| **other == byte).count();
    #[cfg(test)]
    count_scan(length);
    from + length
}

/// Returns the next run of one character.
fn next_run(line: &str, byte: u8, from: usize) -> Option<(usize, usize)> {
    let remaining = line.as_bytes().get(from..).unwrap_or_default();
    let offset = remaining.iter().position(|other| *other == byte);
    #[cfg(test)]
    count_scan(offset.unwrap_or(remaining.len()));
    let start = from + offset?;
    Some((start, run_end(line, byte, start)))
}

/// Finds all runs of backticks, by length.
fn find_tick_runs(line: &str) -> BTreeMap<usize, VecDeque<usize>> {
    let mut runs: BTreeMap<usize, VecDeque<usize>> = BTreeMap::new();
    let mut pos = 0;
    while let Some((start, end)) = next_run(line, b'`', pos) {
        runs.entry(end - start).or_default().push_back(start);
        pos = end;
    }
    runs
}

/// Finds all link addresses: positions of their opening and closing brackets.
fn find_addresses(line: &str) -> BTreeMap<usize, usize> {
    #[cfg(test)]
    count_scan(line.len());
    let mut found = BTreeMap::new();
    let mut open = Vec::new();
    let mut previous = 0;
    for (pos, byte) in line.bytes().enumerate() {
        match byte {
            b'(' => open.push((pos, previous == b']')),
            b')' => {
                if let Some((start, true)) = open.pop() {
                    found.insert(start, pos);
                }
            }
            _ => {}
        }
        previous = byte;
    }
    found
}

/// Returns the next closing marker of emphasis, ignoring a run that starts here.
fn find_closer(line: &str, marker: &str, from: usize) -> Option<EmphasisCloser> {
    let byte = *marker.as_bytes().first()?;
    let length = marker.len();
    let mut pos = run_end(line, byte, from);
    loop {
        let (run_start, end) = next_run(line, byte, pos)?;
        let before = line
            .get(..run_start)
            .and_then(|before| before.chars().next_back());
        let is_escaped_or_after_space = before.is_none_or(|c| c.is_whitespace() || c == '\\');
        // A single marker character inside a longer run does not count.
        let fits = |times: usize| match length {
            1 => times == 1 && end - run_start == 1,
            _ => end - run_start >= times * length,
        };
        if fits(1) && !is_escaped_or_after_space && may_close(line, marker, run_start) {
            return Some(EmphasisCloser {
                run_start,
                pos: run_start,
            });
        }
        if fits(2) && may_close(line, marker, run_start + length) {
            let pos = run_start + length;
            return Some(EmphasisCloser { run_start, pos });
        }
        pos = end;
    }
}

/// Returns true if emphasis may end here: an underscore inside a word does not end it.
fn may_close(line: &str, marker: &str, pos: usize) -> bool {
    let next_char = line
        .get(pos + marker.len()..)
        .and_then(|rest| rest.chars().next());
    !(marker.starts_with('_') && next_char.is_some_and(char::is_alphanumeric))
}
