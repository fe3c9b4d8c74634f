//! The last hour as pictures: lines of SVG that need no script, with their figures as words. What the
//! figures are is decided elsewhere.

use super::html::{Html, html};
use super::samples::{EVERY, KEPT, Sample};
use super::words::figure;

/// The picture's own units; it is stretched to its place.
const WIDTH: f64 = 360.0;
const HEIGHT: f64 = 96.0;

/// No picture of a rate ends lower, a second: a single call or error between two looks is a small mark.
const LEAST_RATE: f64 = 1.0;
/// And none of a time, in milliseconds.
const LEAST_TIME: f64 = 10.0;

/// One line of a picture.
struct Line<'l> {
    name: &'static str,
    class: &'static str,
    values: Vec<Option<f64>>,
    tell: &'l dyn Fn(f64) -> String,
    /// What there were so many of in all, one and several, if that is told.
    counted: Option<(&'static str, &'static str)>,
}

impl Line<'_> {
    /// How many there were in all.
    fn in_all(&self) -> Option<String> {
        let (one, several) = self.counted?;
        let rates: f64 = self.values.iter().flatten().sum();
        let count = figure(rates * EVERY.as_secs_f64());
        let word = if count == "1" { one } else { several };
        Some(format!("{count} {word}"))
    }
}

/// How far back a picture goes: not much further than the node has counted, an hour at most.
#[derive(Clone, Copy)]
struct Span {
    looks: usize,
    words: &'static str,
}

impl Span {
    fn of(known: usize) -> Self {
        let (looks, words) = match known {
            _ if known <= KEPT / 6 => (KEPT / 6, "10 min"),
            _ if known <= KEPT / 2 => (KEPT / 2, "30 min"),
            _ => (KEPT, "1 h"),
        };
        Self { looks, words }
    }
}

/// Throughput, latency and errors.
pub(super) fn all(samples: &[Sample]) -> Html {
    let mut out = Html::new();
    let span = Span::of(samples.len());
    let take = |value: fn(&Sample) -> Option<f64>| samples.iter().map(value).collect::<Vec<_>>();
    html!(out, "<div class=\"plots\" id=\"plots\">");
    out.put(&picture(
        span,
        "Requests",
        LEAST_RATE,
        &[Line {
            name: "calls",
            class: "a",
            values: take(|sample| Some(sample.calls)),
            tell: &rate,
            counted: Some(("call", "calls")),
        }],
    ));
    out.put(&picture(
        span,
        "Latency",
        LEAST_TIME,
        &[
            Line {
                name: "95 %",
                class: "b",
                values: take(|sample| sample.slow),
                tell: &millis,
                counted: None,
            },
            Line {
                name: "median",
                class: "a",
                values: take(|sample| sample.median),
                tell: &millis,
                counted: None,
            },
        ],
    ));
    out.put(&picture(
        span,
        "Errors",
        LEAST_RATE,
        &[
            Line {
                name: "errors",
                class: "c",
                values: take(|sample| Some(sample.errors)),
                tell: &rate,
                counted: Some(("error", "errors")),
            },
            Line {
                name: "refused",
                class: "b",
                values: take(|sample| Some(sample.refused)),
                tell: &rate,
                counted: Some(("refused", "refused")),
            },
        ],
    ));
    html!(out, "</div>");
    out
}

fn rate(value: f64) -> String {
    if value.fract() == 0.0 || value >= 10.0 {
        format!("{value:.0}/s")
    } else {
        format!("{value:.1}/s")
    }
}

fn millis(value: f64) -> String {
    if value < 10.0 {
        format!("{value:.1} ms")
    } else if value < 1_000.0 {
        format!("{value:.0} ms")
    } else {
        format!("{:.1} s", value / 1_000.0)
    }
}

fn picture(span: Span, title: &'static str, least: f64, lines: &[Line<'_>]) -> Html {
    let mut out = Html::new();
    let values = lines.iter().flat_map(|line| line.values.iter().flatten());
    let highest = values.copied().fold(0.0, f64::max);
    let top = (highest * 1.1).max(least);
    let tell = lines.first().map(|line| line.tell);
    let scale = tell.map_or_else(String::new, |tell| tell(top));
    html!(out, "<figure class=\"plot\"><figcaption><span class=\"title\">" (title)
        " <span class=\"soft\">up to " (scale) "</span></span>");
    let mut words = String::new();
    for line in lines {
        let now = line.values.last().copied().flatten();
        let now = now.map_or_else(|| "–".to_owned(), line.tell);
        html!(out, "<span class=\"key " (line.class) "\">" (line.name) " <b>" (now) "</b></span>");
        words.push_str(&format!(" {} now {now};", line.name));
    }
    let any = lines
        .iter()
        .any(|line| line.values.iter().any(Option::is_some));
    let peak = tell
        .filter(|_| any)
        .map_or_else(|| "–".to_owned(), |tell| tell(highest));
    let counted = lines.iter().filter_map(|line| line.in_all());
    let told: Vec<_> = counted.chain([format!("highest {peak}")]).collect();
    let told = told.join(", ");
    html!(out, "</figcaption><svg viewBox=\"0 0 360 96\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\""
        (title) " over the last " (span.words) ":" (words) " " (told) "\">"
        "<path class=\"grid\" d=\"M0 95.5H360M0 48H360M0 .5H360\"/>");
    for line in lines {
        html!(out, "<path class=\"line " (line.class) "\" d=\"" (path(&line.values, top, span.looks)) "\"/>");
    }
    html!(out, "</svg><div class=\"axis\"><span>" (span.words) " ago</span><span>" (told)
        "</span><span>now</span></div></figure>");
    out
}

/// The values as a path, the newest at the right edge. Where there is none, the line is broken.
fn path(values: &[Option<f64>], top: f64, looks: usize) -> String {
    let step = WIDTH / (looks.saturating_sub(1).max(1)) as f64;
    let first = looks.saturating_sub(values.len());
    let mut path = String::with_capacity(values.len() * 12);
    let mut drawing = false;
    for (place, value) in values.iter().enumerate() {
        let Some(value) = value else {
            drawing = false;
            continue;
        };
        let x = (first + place) as f64 * step;
        let y = HEIGHT - 1.0 - (value / top) * (HEIGHT - 2.0);
        let command = if drawing { 'L' } else { 'M' };
        path.push_str(&format!("{command}{x:.1} {y:.1}"));
        if !drawing {
            // A single value is a dot, which a line of no length with round ends is.
            path.push_str("h.1");
        }
        drawing = true;
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_ends_at_the_right_and_breaks_where_nothing_is_known() {
        let drawn = path(&[Some(0.0), None, Some(1.0), Some(0.5)], 1.0, KEPT);
        assert_eq!(drawn.matches('M').count(), 2, "{drawn}");
        assert!(drawn.ends_with("L360.0 48.0"), "{drawn}");
        assert_eq!(path(&[], 1.0, KEPT), "");
    }

    #[test]
    fn a_node_that_began_just_now_has_a_short_past() {
        let words = [0, 60, 61, 180, 181, KEPT].map(|known| Span::of(known).words);
        assert_eq!(
            words,
            ["10 min", "10 min", "30 min", "30 min", "1 h", "1 h"]
        );
    }

    #[test]
    fn a_single_error_is_a_small_mark_and_counted() {
        let mut samples = vec![Sample::default(); KEPT];
        samples[9].errors = 1.0 / EVERY.as_secs_f64();
        let page = all(&samples).into_string();
        assert!(page.contains(">1 error, 0 refused"), "{page}");
        assert!(
            page.contains("Errors <span class=\"soft\">up to 1/s<"),
            "{page}"
        );
        let drawn = page.split("class=\"line c\" d=\"").nth(1).unwrap();
        let heights = drawn.split('"').next().unwrap().split(['M', 'L']);
        let heights = heights.filter_map(|point| {
            let height = point.split(' ').nth(1)?.trim_end_matches("h.1");
            height.parse::<f64>().ok()
        });
        let highest = heights.fold(HEIGHT, f64::min);
        assert!((80.0..90.0).contains(&highest), "{highest}");
    }

    #[test]
    fn the_figures_are_there_in_words() {
        let sample = Sample {
            calls: 12.0,
            errors: 0.5,
            refused: 0.0,
            median: Some(1.5),
            slow: None,
        };
        let page = all(&[sample]).into_string();
        for word in [
            "12/s",
            "0.5/s",
            "1.5 ms",
            "–",
            "120 calls, highest 12/s",
            "5 errors, 0 refused",
        ] {
            assert!(page.contains(word), "{word}: {page}");
        }
        assert!(!page.contains("NaN") && !page.contains("inf "), "{page}");
    }
}
