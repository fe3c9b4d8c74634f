//! What lies ahead in a line of Markdown: where the next sign is that closes something. Questions come from
//! left to right, and each kind of sign is looked for once over the line, however many wait for it; so a line
//! of nothing but signs that open takes no longer than any other. What becomes of a sign is not decided here.

use crate::reply::looked::looked;
use std::collections::{BTreeMap, VecDeque};

/// What closes emphasis, the longest signs first.
pub(super) const MARKERS: [&str; 6] = ["***", "**", "__", "~~", "*", "_"];

/// The next place of a kind, as far as it is known.
#[derive(Clone, Copy, Default)]
enum Next<T> {
    #[default]
    Unknown,
    /// The first one behind wherever was asked last.
    At(T),
    /// There is none any more.
    Never,
}

impl<T> Next<T> {
    fn known(found: Option<T>) -> Self {
        found.map_or(Self::Never, Self::At)
    }
}

/// Signs that close emphasis.
#[derive(Clone, Copy)]
struct Closer {
    /// Where the run of such signs begins that it is in.
    run: usize,
    at: usize,
}

/// A line, and what is known of the signs ahead.
pub(super) struct Ahead<'a> {
    line: &'a str,
    /// `](`
    words_end: Next<usize>,
    /// `>`
    angle: Next<usize>,
    /// What no address has.
    gap: Next<usize>,
    emphasis: [Next<Closer>; MARKERS.len()],
    /// Where the run of backticks ends that was looked at last.
    ticks_end: usize,
    /// Where runs of backticks begin, by their length.
    ticks: Option<BTreeMap<usize, VecDeque<usize>>>,
    /// Where the address ends that begins with this bracket.
    addresses: Option<BTreeMap<usize, usize>>,
}

impl<'a> Ahead<'a> {
    pub(super) fn new(line: &'a str) -> Self {
        Self {
            line,
            words_end: Next::Unknown,
            angle: Next::Unknown,
            gap: Next::Unknown,
            emphasis: [Next::Unknown; MARKERS.len()],
            ticks_end: 0,
            ticks: None,
            addresses: None,
        }
    }

    /// Where the words of a link end that begin here, and where its address does.
    pub(super) fn link(&mut self, from: usize) -> Option<(usize, usize)> {
        let line = self.line;
        let words = next(&mut self.words_end, line, from, |rest| rest.find("]("))?;
        let addresses = self.addresses.get_or_insert_with(|| addresses(line));
        Some((words, *addresses.get(&(words + 1))?))
    }

    /// The next `>`.
    pub(super) fn angle(&mut self, from: usize) -> Option<usize> {
        next(&mut self.angle, self.line, from, |rest| rest.find('>'))
    }

    /// The next sign that no address has.
    pub(super) fn gap(&mut self, from: usize) -> Option<usize> {
        let find = |rest: &str| rest.find(|sign: char| sign.is_whitespace() || sign.is_control());
        next(&mut self.gap, self.line, from, find)
    }

    /// How many backticks stand here, and where as many do again.
    pub(super) fn code(&mut self, from: usize) -> (usize, Option<usize>) {
        if self.ticks_end <= from {
            self.ticks_end = run_end(self.line, b'`', from);
        }
        let length = self.ticks_end - from;
        let line = self.line;
        let runs = self.ticks.get_or_insert_with(|| ticks(line));
        let end = runs.get_mut(&length).and_then(|starts| {
            while starts
                .pop_front_if(|start| *start < from + length)
                .is_some()
            {}
            starts.front().copied()
        });
        (length, end)
    }

    /// Where emphasis ends whose words begin here, behind one of the [`MARKERS`].
    pub(super) fn emphasis(&mut self, kind: usize, from: usize) -> Option<usize> {
        let marker = *MARKERS.get(kind)?;
        let known = self.emphasis.get_mut(kind)?;
        // More of the same signs may stand here: the first of them would close nothing, those behind may.
        let twice = self.line.as_bytes().get(from..from + 2 * marker.len());
        let mut signs = marker.bytes().cycle();
        if marker.len() > 1
            && twice
                .is_some_and(|signs_here| signs_here.iter().all(|sign| signs.next() == Some(*sign)))
            && may_end(self.line, marker, from + marker.len())
        {
            return Some(from + marker.len());
        }
        match known {
            Next::Never => return None,
            Next::At(closer) if closer.run > from => return Some(closer.at),
            Next::At(_) | Next::Unknown => {}
        }
        let found = closer(self.line, marker, from);
        *known = Next::known(found);
        found.map(|closer| closer.at)
    }
}

/// The next place, looked for only if it is not known.
fn next(
    known: &mut Next<usize>,
    line: &str,
    from: usize,
    find: impl Fn(&str) -> Option<usize>,
) -> Option<usize> {
    match *known {
        Next::Never => None,
        Next::At(at) if at >= from => Some(at),
        Next::At(_) | Next::Unknown => {
            let rest = line.get(from..).unwrap_or_default();
            let found = find(rest);
            looked(found.unwrap_or(rest.len()));
            let found = found.map(|at| from + at);
            *known = Next::known(found);
            found
        }
    }
}

/// The end of a run of one sign.
fn run_end(line: &str, sign: u8, from: usize) -> usize {
    let rest = line.as_bytes().get(from..).unwrap_or_default();
    let length = rest.iter().take_while(|other| **other == sign).count();
    looked(length);
    from + length
}

/// The next run of one sign.
fn next_run(line: &str, sign: u8, from: usize) -> Option<(usize, usize)> {
    let rest = line.as_bytes().get(from..).unwrap_or_default();
    let until = rest.iter().position(|other| *other == sign);
    looked(until.unwrap_or(rest.len()));
    let start = from + until?;
    Some((start, run_end(line, sign, start)))
}

/// All runs of backticks, by their length.
fn ticks(line: &str) -> BTreeMap<usize, VecDeque<usize>> {
    let mut runs: BTreeMap<usize, VecDeque<usize>> = BTreeMap::new();
    let mut at = 0;
    while let Some((start, end)) = next_run(line, b'`', at) {
        runs.entry(end - start).or_default().push_back(start);
        at = end;
    }
    runs
}

/// All addresses of links: where their brackets open, and where they close.
fn addresses(line: &str) -> BTreeMap<usize, usize> {
    looked(line.len());
    let mut found = BTreeMap::new();
    let mut open = Vec::new();
    let mut before = 0;
    for (at, sign) in line.bytes().enumerate() {
        match sign {
            b'(' => open.push((at, before == b']')),
            b')' => {
                if let Some((start, true)) = open.pop() {
                    found.insert(start, at);
                }
            }
            _ => {}
        }
        before = sign;
    }
    found
}

/// The next signs that close emphasis, not counting those that stand right here.
fn closer(line: &str, marker: &str, from: usize) -> Option<Closer> {
    let sign = *marker.as_bytes().first()?;
    let length = marker.len();
    let mut at = run_end(line, sign, from);
    loop {
        let (run, end) = next_run(line, sign, at)?;
        let before = line
            .get(..run)
            .and_then(|before| before.chars().next_back());
        let torn = before.is_none_or(|sign| sign.is_whitespace() || sign == '\\');
        // One sign among two or three of them is none of its own.
        let fits = |times: usize| match length {
            1 => times == 1 && end - run == 1,
            _ => end - run >= times * length,
        };
        if fits(1) && !torn && may_end(line, marker, run) {
            return Some(Closer { run, at: run });
        }
        if fits(2) && may_end(line, marker, run + length) {
            let at = run + length;
            return Some(Closer { run, at });
        }
        at = end;
    }
}

/// Whether the signs here may end a word: an underscore within one does not.
fn may_end(line: &str, marker: &str, at: usize) -> bool {
    let behind = line
        .get(at + marker.len()..)
        .and_then(|rest| rest.chars().next());
    !(marker.starts_with('_') && behind.is_some_and(char::is_alphanumeric))
}
