// Inline markup scanner. It reads a text once in linear time: the position of each closing sign is searched once and
// cached, so that unclosed signs cannot block the page.

const THREE = /```/g;
const ANGLE = />/g;
const WORDS_END = /[\]\n]/g;
const ADDRESS_END = /[\s)>]/g;
const LINK_END = />?(?:\s+"[^"\n]*")?\)/y;

/** Lookahead in a text. Positions only move forward. */
class Ahead {
  constructor(text) {
    this.text = text;
    /** End of the last match. */
    this.from = 0;
    this.places = new Map();
    this.ends = new Map();
    this.run = 0;
    this.runs = null;
  }

  /** Returns the position of a pattern at `at` or later; `Infinity` if there is none. */
  next(pattern, at) {
    let place = this.places.get(pattern) ?? -1;
    if (place < at) {
      pattern.lastIndex = at;
      place = pattern.exec(this.text)?.index ?? Infinity;
      this.places.set(pattern, place);
    }
    return place;
  }

  /** Returns the end of a sticky pattern that starts at `at`; nothing if it does not match. */
  end(pattern, at) {
    let last = this.ends.get(pattern);
    if (last?.at !== at) {
      pattern.lastIndex = at;
      last = { at, end: pattern.test(this.text) ? pattern.lastIndex : null };
      this.ends.set(pattern, last);
    }
    return last.end;
  }

  /** Returns the character before `at`, if any. */
  before(at) {
    return at > this.from ? this.text[at - 1] : "";
  }

  /** Returns the end of the backticks that start at `at`, and the position of the closing run, if any. */
  ticks(at) {
    if (at >= this.run) {
      this.run = at;
      while (this.text[this.run] === "`") this.run += 1;
    }
    if (!this.runs) {
      this.runs = new Map();
      for (const { 0: { length }, index } of this.text.matchAll(/`+/g)) {
        if (!this.runs.has(length)) this.runs.set(length, { places: [], passed: 0 });
        this.runs.get(length).places.push(index);
      }
    }
    const same = this.runs.get(this.run - at);
    while (same?.places[same.passed] < this.run) same.passed += 1;
    return [this.run, same?.places[same.passed]];
  }
}

/** A pattern rule, which must not look beyond the next sign of its kind; not after certain characters. */
export function pattern(is, notAfter) {
  const sticky = new RegExp(is.source, "y");
  return (ahead, at) => {
    if (notAfter?.test(ahead.before(at))) return null;
    sticky.lastIndex = at;
    return sticky.exec(ahead.text);
  };
}

/** A rule for the same mark on both sides; `close` matches the closing mark; not after certain characters. */
export function pair(mark, close, notAfter) {
  const begin = mark.length;
  return (ahead, at) => {
    const { text } = ahead;
    if (!text.startsWith(mark, at) || !/\S/.test(text[at + begin] ?? "")) return null;
    if (notAfter?.test(ahead.before(at))) return null;
    const end = ahead.next(close, at + begin + 1);
    return end === Infinity ? null : [text.slice(at, end + begin), text.slice(at + begin, end)];
  };
}

/** A rule for text between triple backticks. */
export function fenced(ahead, at) {
  if (!ahead.text.startsWith("```", at)) return null;
  const end = ahead.next(THREE, at + 4);
  return end === Infinity ? null : [ahead.text.slice(at, end + 3), ahead.text.slice(at + 3, end)];
}

/** A rule for text between equal runs of backticks. */
export function ticked(ahead, at) {
  const [from, to] = ahead.ticks(at);
  return to === undefined ? null : [ahead.text.slice(at, to + from - at), ahead.text.slice(from, to)];
}

/** A rule for `[text](address "title")`, also with a leading exclamation mark. */
export function linked(ahead, at) {
  const { text } = ahead;
  const words = text[at] === "!" ? at + 2 : at + 1;
  const close = ahead.next(WORDS_END, words);
  if (close - words > 999 || !text.startsWith("](", close)) return null;
  let address = close + 2;
  const stop = ahead.next(ADDRESS_END, address);
  if (text[address] === "<" && stop > address + 1) address += 1;
  if (stop === address || stop - address > 2000) return null;
  const end = ahead.end(LINK_END, stop);
  return end && [text.slice(at, end), text.slice(words, close), text.slice(address, stop)];
}

/** A rule for a pattern in angle brackets without whitespace before `until`. */
export function angled(is, until) {
  const whole = pattern(is);
  return (ahead, at) => {
    const met = ahead.next(until, at);
    if (met === Infinity || /\s/.test(ahead.text[met]) || ahead.next(ANGLE, at) === Infinity) return null;
    return whole(ahead, at);
  };
}

/**
 * Converts a text to nodes. `signs` finds where one of the `rules` may start; the first that matches applies.
 * Text between matches is converted by `word`, and `within` is passed to each rule.
 */
export function scan(text, signs, rules, word, within) {
  const nodes = [];
  const ahead = new Ahead(text);
  let at = 0;
  for (;;) {
    signs.lastIndex = at;
    const sign = signs.exec(text);
    if (!sign) break;
    at = sign.index;
    let found = null;
    const rule = rules.find(({ on, is }) => on.includes(text[at]) && (found = is(ahead, at)));
    if (!rule) {
      at += 1;
      continue;
    }
    if (at > ahead.from) nodes.push(word(text.slice(ahead.from, at)));
    nodes.push(...rule.as(found, within));
    at += found[0].length;
    ahead.from = at;
  }
  if (ahead.from < text.length) nodes.push(word(text.slice(ahead.from)));
  return nodes;
}
