//! Plots of the last hour as inline SVG without scripts, with their values as text.

use super::format::format_count;
use super::metrics_history::{MAX_SAMPLES, MetricsInterval, SAMPLE_INTERVAL};
use interzone_edge::html::{Html, html};

/// Size of the SVG's coordinate system; the image is scaled to its container.
const WIDTH: f64 = 360.0;
const HEIGHT: f64 = 96.0;

/// Minimum scale of a rate plot, per second: a single call or error stays a small mark.
const MIN_RATE_SCALE: f64 = 1.0;
/// Minimum scale of a latency plot, in milliseconds.
const MIN_LATENCY_SCALE: f64 = 10.0;

/// One line of a plot.
struct PlotLine<'l> {
    name: &'static str,
    class: &'static str,
    values: Vec<Option<f64>>,
    format: &'l dyn Fn(f64) -> String,
    /// Singular and plural of the counted thing, if the total is shown.
    unit: Option<(&'static str, &'static str)>,
}

impl PlotLine<'_> {
    /// Total count in the shown period.
    fn total(&self) -> Option<String> {
        let (one, several) = self.unit?;
        let rates: f64 = self.values.iter().flatten().sum();
        let count = format_count(rates * SAMPLE_INTERVAL.as_secs_f64());
        let unit = if count == "1" { one } else { several };
        Some(format!("{count} {unit}"))
    }
}

/// Time span of a plot: little more than the recorded history, one hour at most.
#[derive(Clone, Copy)]
struct PlotSpan {
    samples: usize,
    label: &'static str,
}

impl PlotSpan {
    fn for_history(recorded: usize) -> Self {
        let (samples, label) = match recorded {
            _ if recorded <= MAX_SAMPLES / 6 => (MAX_SAMPLES / 6, "10 min"),
            _ if recorded <= MAX_SAMPLES / 2 => (MAX_SAMPLES / 2, "30 min"),
            _ => (MAX_SAMPLES, "1 h"),
        };
        Self { samples, label }
    }
}

/// Renders throughput, latency and error plots.
pub(super) fn render(samples: &[MetricsInterval]) -> Html {
    let mut out = Html::new();
    let span = PlotSpan::for_history(samples.len());
    let values =
        |value: fn(&MetricsInterval) -> Option<f64>| samples.iter().map(value).collect::<Vec<_>>();
    html!(out, "<div class=\"plots\" id=\"plots\">");
    out.put(&plot(
        span,
        "Requests",
        MIN_RATE_SCALE,
        &[PlotLine {
            name: "calls",
            class: "a",
            values: values(|sample| Some(sample.calls)),
            format: &format_rate,
            unit: Some(("call", "calls")),
        }],
    ));
    out.put(&plot(
        span,
        "Latency",
        MIN_LATENCY_SCALE,
        &[
            PlotLine {
                name: "p95",
                class: "b",
                values: values(|sample| sample.p95),
                format: &format_millis,
                unit: None,
            },
            PlotLine {
                name: "median",
                class: "a",
                values: values(|sample| sample.median),
                format: &format_millis,
                unit: None,
            },
        ],
    ));
    out.put(&plot(
        span,
        "Errors",
        MIN_RATE_SCALE,
        &[
            PlotLine {
                name: "errors",
                class: "c",
                values: values(|sample| Some(sample.errors)),
                format: &format_rate,
                unit: Some(("error", "errors")),
            },
            PlotLine {
                name: "refused",
                class: "b",
                values: values(|sample| Some(sample.rejected)),
                format: &format_rate,
                unit: Some(("refused", "refused")),
            },
        ],
    ));
    html!(out, "</div>");
    out
}

fn format_rate(value: f64) -> String {
    if value.fract() == 0.0 || value >= 10.0 {
        format!("{value:.0}/s")
    } else {
        format!("{value:.1}/s")
    }
}

fn format_millis(value: f64) -> String {
    if value < 10.0 {
        format!("{value:.1} ms")
    } else if value < 1_000.0 {
        format!("{value:.0} ms")
    } else {
        format!("{:.1} s", value / 1_000.0)
    }
}

fn plot(span: PlotSpan, title: &'static str, min_scale: f64, lines: &[PlotLine<'_>]) -> Html {
    let mut out = Html::new();
    let values = lines.iter().flat_map(|line| line.values.iter().flatten());
    let max = values.copied().fold(0.0, f64::max);
    let top = (max * 1.1).max(min_scale);
    let format = lines.first().map(|line| line.format);
    let scale = format.map_or_else(String::new, |tell| tell(top));
    html!(out, "<figure class=\"plot\"><figcaption><span class=\"title\">" (title)
        " <span class=\"soft\">max " (scale) "</span></span>");
    let mut current = String::new();
    for line in lines {
        let now = line.values.last().copied().flatten();
        let now = now.map_or_else(|| "–".to_owned(), line.format);
        html!(out, "<span class=\"key " (line.class) "\">" (line.name) " <b>" (now) "</b></span>");
        current.push_str(&format!(" {} now {now};", line.name));
    }
    let has_values = lines
        .iter()
        .any(|line| line.values.iter().any(Option::is_some));
    let peak = format
        .filter(|_| has_values)
        .map_or_else(|| "–".to_owned(), |tell| tell(max));
    let totals = lines.iter().filter_map(|line| line.total());
    let summary: Vec<_> = totals.chain([format!("peak {peak}")]).collect();
    let summary = summary.join(", ");
    html!(out, "</figcaption><svg viewBox=\"0 0 360 96\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\""
        (title) " over the last " (span.label) ":" (current) " " (summary) "\">"
        "<path class=\"grid\" d=\"M0 95.5H360M0 48H360M0 .5H360\"/>");
    for line in lines {
        html!(out, "<path class=\"line " (line.class) "\" d=\"" (path(&line.values, top, span.samples)) "\"/>");
    }
    html!(out, "</svg><div class=\"axis\"><span>" (span.label) " ago</span><span>" (summary)
        "</span><span>now</span></div></figure>");
    out
}

/// SVG path of the values, the newest at the right edge, with gaps where a value is missing.
fn path(values: &[Option<f64>], top: f64, samples: usize) -> String {
    let step = WIDTH / (samples.saturating_sub(1).max(1)) as f64;
    let first = samples.saturating_sub(values.len());
    let mut path = String::with_capacity(values.len() * 12);
    let mut in_segment = false;
    for (index, value) in values.iter().enumerate() {
        let Some(value) = value else {
            in_segment = false;
            continue;
        };
        let x = (first + index) as f64 * step;
        let y = HEIGHT - 1.0 - (value / top) * (HEIGHT - 2.0);
        let command = if in_segment { 'L' } else { 'M' };
        path.push_str(&format!("{command}{x:.1} {y:.1}"));
        if !in_segment {
            // A single value is a dot: a zero-length line with round caps.
            path.push_str("h.1");
        }
        in_segment = true;
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plot_path_ends_at_right_edge_and_has_gaps() {
        let drawn = path(&[Some(0.0), None, Some(1.0), Some(0.5)], 1.0, MAX_SAMPLES);
        assert_eq!(drawn.matches('M').count(), 2, "{drawn}");
        assert!(drawn.ends_with("L360.0 48.0"), "{drawn}");
        assert_eq!(path(&[], 1.0, MAX_SAMPLES), "");
    }

    #[test]
    fn plot_span_grows_with_recorded_history() {
        let labels = [0, 60, 61, 180, 181, MAX_SAMPLES]
            .map(|recorded| PlotSpan::for_history(recorded).label);
        assert_eq!(
            labels,
            ["10 min", "10 min", "30 min", "30 min", "1 h", "1 h"]
        );
    }

    #[test]
    fn single_error_is_a_small_mark_and_counted() {
        let mut samples = vec![MetricsInterval::default(); MAX_SAMPLES];
        samples[9].errors = 1.0 / SAMPLE_INTERVAL.as_secs_f64();
        let page = render(&samples).into_string();
        assert!(page.contains(">1 error, 0 refused"), "{page}");
        assert!(
            page.contains("Errors <span class=\"soft\">max 1/s<"),
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
    fn plot_values_are_available_as_text() {
        let sample = MetricsInterval {
            calls: 12.0,
            errors: 0.5,
            rejected: 0.0,
            median: Some(1.5),
            p95: None,
        };
        let page = render(&[sample]).into_string();
        for text in [
            "12/s",
            "0.5/s",
            "1.5 ms",
            "–",
            "120 calls, peak 12/s",
            "5 errors, 0 refused",
        ] {
            assert!(page.contains(text), "{text}: {page}");
        }
        assert!(!page.contains("NaN") && !page.contains("inf "), "{page}");
    }
}
