// Inline markup scanner. It reads a text once in linear time: the position of each closing marker is searched once and
// cached, so that unclosed markers cannot block the page.
//
// A rule has `start`, the characters at which it may match; `match(lookahead, index)`, which returns the matched text
// and its captures, or null; and `render(match, context)`, which returns nodes.

const FENCE = /```/g;
const ANGLE_END = />/g;
const LABEL_END = /[\]\n]/g;
const URL_END = /[\s)>]/g;
const LINK_END = />?(?:\s+"[^"\n]*")?\)/y;

/** Cached lookahead in a text. Positions only move forward. */
class Lookahead {
  constructor(text) {
    this.text = text;
    /** End of the last match. */
    this.matchEnd = 0;
    this.positions = new Map();
    this.ends = new Map();
    this.runEnd = 0;
    this.backtickRuns = null;
  }

  /** Returns the position of a pattern at `index` or later; `Infinity` if there is none. */
  find(pattern, index) {
    let position = this.positions.get(pattern) ?? -1;
    if (position < index) {
      pattern.lastIndex = index;
      position = pattern.exec(this.text)?.index ?? Infinity;
      this.positions.set(pattern, position);
    }
    return position;
  }

  /** Returns the end of a sticky pattern that starts at `index`; null if it does not match. */
  endOf(pattern, index) {
    let last = this.ends.get(pattern);
    if (last?.index !== index) {
      pattern.lastIndex = index;
      last = { index, end: pattern.test(this.text) ? pattern.lastIndex : null };
      this.ends.set(pattern, last);
    }
    return last.end;
  }

  /** Returns the character before `index`, if it is not part of a match. */
  before(index) {
    return index > this.matchEnd ? this.text[index - 1] : "";
  }

  /** Returns the end of the backticks that start at `index`, and the position of the closing run, if any. */
  backticks(index) {
    if (index >= this.runEnd) {
      this.runEnd = index;
      while (this.text[this.runEnd] === "`") this.runEnd += 1;
    }
    if (!this.backtickRuns) {
      this.backtickRuns = new Map();
      for (const { 0: { length }, index: position } of this.text.matchAll(/`+/g)) {
        if (!this.backtickRuns.has(length)) this.backtickRuns.set(length, { positions: [], next: 0 });
        this.backtickRuns.get(length).positions.push(position);
      }
    }
    const runs = this.backtickRuns.get(this.runEnd - index);
    while (runs?.positions[runs.next] < this.runEnd) runs.next += 1;
    return [this.runEnd, runs?.positions[runs.next]];
  }
}

/** Matches a pattern, which must not look beyond the next marker of its kind; not after certain characters. */
export function matchPattern(pattern, notAfter) {
  const sticky = new RegExp(pattern.source, "y");
  return (lookahead, index) => {
    if (notAfter?.test(lookahead.before(index))) return null;
    sticky.lastIndex = index;
    return sticky.exec(lookahead.text);
  };
}

/** Matches text between two equal markers; `close` finds the second one; not after certain characters. */
export function matchPair(marker, close, notAfter) {
  const { length } = marker;
  return (lookahead, index) => {
    const { text } = lookahead;
    if (!text.startsWith(marker, index) || !/\S/.test(text[index + length] ?? "")) return null;
    if (notAfter?.test(lookahead.before(index))) return null;
    const end = lookahead.find(close, index + length + 1);
    return end === Infinity ? null : [text.slice(index, end + length), text.slice(index + length, end)];
  };
}

/** Matches text between triple backticks. */
export function matchFence(lookahead, index) {
  const { text } = lookahead;
  if (!text.startsWith("```", index)) return null;
  const end = lookahead.find(FENCE, index + 4);
  return end === Infinity ? null : [text.slice(index, end + 3), text.slice(index + 3, end)];
}

/** Matches text between equal runs of backticks. */
export function matchCodeSpan(lookahead, index) {
  const [start, end] = lookahead.backticks(index);
  return end === undefined ? null : [lookahead.text.slice(index, end + start - index), lookahead.text.slice(start, end)];
}

/** Matches `[label](url "title")`, also with a leading exclamation mark. */
export function matchLink(lookahead, index) {
  const { text } = lookahead;
  const label = text[index] === "!" ? index + 2 : index + 1;
  const labelEnd = lookahead.find(LABEL_END, label);
  if (labelEnd - label > 999 || !text.startsWith("](", labelEnd)) return null;
  let url = labelEnd + 2;
  const urlEnd = lookahead.find(URL_END, url);
  if (text[url] === "<" && urlEnd > url + 1) url += 1;
  if (urlEnd === url || urlEnd - url > 2000) return null;
  const end = lookahead.endOf(LINK_END, urlEnd);
  return end && [text.slice(index, end), text.slice(label, labelEnd), text.slice(url, urlEnd)];
}

/** Matches a pattern in angle brackets; the first match of `until` must not be whitespace. */
export function matchAngle(pattern, until) {
  const match = matchPattern(pattern);
  return (lookahead, index) => {
    const position = lookahead.find(until, index);
    if (position === Infinity || /\s/.test(lookahead.text[position])) return null;
    return lookahead.find(ANGLE_END, index) === Infinity ? null : match(lookahead, index);
  };
}

/**
 * Converts a text to nodes. `starts` finds where one of the `rules` may start; the first that matches applies.
 * Text between matches is converted by `renderText`, and `context` is passed to each rule.
 */
export function scan(text, starts, rules, renderText, context) {
  const nodes = [];
  const lookahead = new Lookahead(text);
  let index = 0;
  for (;;) {
    starts.lastIndex = index;
    const start = starts.exec(text);
    if (!start) break;
    index = start.index;
    let match = null;
    const rule = rules.find((one) => one.start.includes(text[index]) && (match = one.match(lookahead, index)));
    if (!rule) {
      index += 1;
      continue;
    }
    if (index > lookahead.matchEnd) nodes.push(renderText(text.slice(lookahead.matchEnd, index)));
    nodes.push(...rule.render(match, context));
    index += match[0].length;
    lookahead.matchEnd = index;
  }
  if (lookahead.matchEnd < text.length) nodes.push(renderText(text.slice(lookahead.matchEnd)));
  return nodes;
}
