//! Line plots as SVG. Colours come from the page, by class, so that they follow its light or dark.

use std::fmt::Write as _;

/// Colours that there are.
pub(crate) const COLOURS: usize = 8;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 68.0;
const RIGHT: f64 = 30.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 46.0;

/// How values become places.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Scale {
    Linear,
    Logarithmic,
}

/// A line with its name.
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
    /// Of the page's colours.
    pub(crate) colour: usize,
    /// Drawn with gaps: what is beside the matter.
    pub(crate) dashed: bool,
    /// Each point is marked: they are few, and each was measured by itself.
    pub(crate) marked: bool,
}

/// A plot.
pub(crate) struct Plot {
    pub(crate) title: String,
    /// The text under the title.
    pub(crate) note: String,
    pub(crate) x: String,
    pub(crate) y: String,
    pub(crate) scale: Scale,
    /// Marks of the horizontal axis, where they are not numbers at equal distances.
    pub(crate) marks: Vec<(f64, String)>,
    /// How a value of the vertical axis is written.
    pub(crate) shown: fn(f64) -> String,
    pub(crate) lines: Vec<Line>,
}

impl Plot {
    /// The plot as a figure of a page; nothing when there is nothing to see.
    pub(crate) fn figure(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        if points().count() < 2 {
            return String::new();
        }
        let xs = || points().map(|(x, _)| *x);
        let (from, to) = (
            xs().fold(f64::INFINITY, f64::min),
            xs().fold(f64::MIN, f64::max),
        );
        // An axis of numbers begins at nothing, where that is not far away.
        let near = self.marks.is_empty() && from > 0.0 && from < 0.5 * to;
        let from = if near { 0.0 } else { from };
        let highest = points().map(|(_, y)| *y).fold(0.0, f64::max);
        let lowest = points()
            .map(|(_, y)| *y)
            .filter(|y| *y > 0.0)
            .fold(f64::INFINITY, f64::min);
        let axis = Axis::over(self.scale, lowest, highest);
        let places = Places { from, to, axis };
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
            escaped(&self.title)
        );
        self.draw_axes(&places, &mut svg);
        for line in &self.lines {
            self.draw_line(line, &places, &mut svg);
        }
        svg += "</svg>";
        let mut legend = String::new();
        for line in &self.lines {
            let dashed = if line.dashed { " dashed" } else { "" };
            let _ = write!(
                legend,
                "<li><svg viewBox=\"0 0 22 8\"><path class=\"line c{}{dashed}\" \
                 d=\"M1 4L21 4\"/></svg>{}</li>",
                line.colour % COLOURS,
                escaped(&line.name)
            );
        }
        format!(
            "<figure><figcaption><h3>{}</h3><p>{}</p></figcaption><ul class=\"legend\">{legend}\
             </ul>{svg}</figure>\n",
            escaped(&self.title),
            escaped(&self.note)
        )
    }

    fn draw_axes(&self, places: &Places, svg: &mut String) {
        for mark in places.axis.marks() {
            let y = places.y(mark);
            let shown = (self.shown)(mark);
            let (end, label) = (WIDTH - RIGHT, LEFT - 8.0);
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{end}\" y2=\"{y:.1}\"/>\
                 <text class=\"mark\" x=\"{label}\" y=\"{:.1}\" text-anchor=\"end\">{shown}</text>",
                y + 4.0
            );
        }
        let marks = match self.marks.as_slice() {
            [] => steps(places.from, places.to, 6)
                .into_iter()
                .map(|x| (x, number(x)))
                .collect(),
            marks => marks.to_vec(),
        };
        for (x, shown) in marks {
            let (at, bottom) = (places.x(x), HEIGHT - BOTTOM);
            let _ = write!(
                svg,
                "<line class=\"tick\" x1=\"{at:.1}\" y1=\"{bottom}\" x2=\"{at:.1}\" y2=\"{}\"/>\
                 <text class=\"mark\" x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{shown}</text>",
                bottom + 4.0,
                bottom + 18.0
            );
        }
        let (middle, foot) = (LEFT + (WIDTH - LEFT - RIGHT) / 2.0, HEIGHT - 8.0);
        let _ = write!(
            svg,
            "<text class=\"axis\" x=\"{middle}\" y=\"{foot}\" text-anchor=\"middle\">{}</text>\
             <text class=\"axis\" transform=\"translate(14 {}) rotate(-90)\" \
             text-anchor=\"middle\">{}</text>",
            escaped(&self.x),
            TOP + (HEIGHT - TOP - BOTTOM) / 2.0,
            escaped(&self.y)
        );
    }

    fn draw_line(&self, line: &Line, places: &Places, svg: &mut String) {
        let mut path = String::new();
        for (index, (x, y)) in line.points.iter().enumerate() {
            let letter = if index == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{letter}{:.1} {:.1}", places.x(*x), places.y(*y));
        }
        let dashed = if line.dashed { " dashed" } else { "" };
        let colour = line.colour % COLOURS;
        let _ = write!(svg, "<path class=\"line c{colour}{dashed}\" d=\"{path}\"/>");
        if line.marked {
            for (x, y) in &line.points {
                let shown = (self.shown)(*y);
                let _ = write!(
                    svg,
                    "<circle class=\"dot c{colour}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.2\">\
                     <title>{}: {shown} at {}</title></circle>",
                    places.x(*x),
                    places.y(*y),
                    escaped(&line.name),
                    number(*x)
                );
            }
        }
    }
}

/// The places of numbers on the plot.
struct Places {
    from: f64,
    to: f64,
    axis: Axis,
}

impl Places {
    fn x(&self, x: f64) -> f64 {
        let share = if self.to > self.from {
            (x - self.from) / (self.to - self.from)
        } else {
            0.5
        };
        LEFT + share * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, y: f64) -> f64 {
        HEIGHT - BOTTOM - self.axis.share(y) * (HEIGHT - TOP - BOTTOM)
    }
}

/// The vertical axis.
struct Axis {
    scale: Scale,
    from: f64,
    to: f64,
}

impl Axis {
    fn over(scale: Scale, lowest: f64, highest: f64) -> Self {
        match scale {
            Scale::Linear => {
                let last = steps(0.0, highest * 1.05, 5).last().copied().unwrap_or(1.0);
                let to = last.max(highest * 1.05).max(f64::MIN_POSITIVE);
                Self {
                    scale,
                    from: 0.0,
                    to,
                }
            }
            Scale::Logarithmic => {
                let lowest = if lowest.is_finite() { lowest } else { 1.0 };
                let from = lowest.log10().floor();
                let to = highest.max(lowest).log10().ceil().max(from + 1.0);
                Self { scale, from, to }
            }
        }
    }

    /// Where a value is, from 0 at the bottom to 1 at the top.
    fn share(&self, value: f64) -> f64 {
        let value = match self.scale {
            Scale::Linear => value,
            Scale::Logarithmic => value.max(f64::MIN_POSITIVE).log10(),
        };
        ((value - self.from) / (self.to - self.from)).clamp(0.0, 1.0)
    }

    fn marks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Linear => steps(self.from, self.to, 5),
            Scale::Logarithmic => {
                let decades = (self.to - self.from) as i32;
                let decades =
                    (0..=decades).map(|decade| 10_f64.powf(self.from + f64::from(decade)));
                decades.collect()
            }
        }
    }
}

/// About so many round numbers between these.
fn steps(from: f64, to: f64, about: u32) -> Vec<f64> {
    let rough = (to - from) / f64::from(about);
    if !rough.is_finite() || rough <= 0.0 {
        return vec![from];
    }
    let magnitude = 10_f64.powf(rough.log10().floor());
    let factors = [1.0, 2.0, 2.5, 5.0, 10.0];
    // Rather a few more than too few.
    let factor = factors
        .iter()
        .find(|factor| **factor * magnitude >= 0.75 * rough);
    let step = factor.unwrap_or(&10.0) * magnitude;
    let first = (from / step).ceil() as i64;
    let last = (to / step + 1e-9).floor() as i64;
    (first..=last).map(|mark| mark as f64 * step).collect()
}

/// A number with as many digits as it needs, thousands apart.
pub(crate) fn number(value: f64) -> String {
    let rounded = (value * 1_000.0).round() / 1_000.0;
    if rounded.abs() < 1_000.0 {
        let text = format!("{rounded}");
        return text;
    }
    let whole = format!("{:.0}", rounded.abs());
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    if rounded < 0.0 {
        format!("-{grouped}")
    } else {
        grouped
    }
}

/// Microseconds, in the unit that suits them.
pub(crate) fn time(micros: f64) -> String {
    match micros {
        seconds if seconds >= 1e6 => format!("{} s", number(seconds / 1e6)),
        millis if millis >= 1e3 => format!("{} ms", number((millis / 10.0).round() / 100.0)),
        micros => format!("{} µs", number(micros)),
    }
}

/// Bytes, in mebibytes.
pub(crate) fn mebibytes(bytes: f64) -> String {
    format!("{} MiB", number((bytes / f64::from(1 << 20)).round()))
}

/// Text as it is written in a page.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('"', "&quot;")
}
