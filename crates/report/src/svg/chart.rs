//! A drawing under way: its frame, its axes, and what is put into it.

use std::fmt::Write;

use super::labels::Label;
use super::scale::Scale;
use super::{escape, spread};

/// How large a drawing is. Every figure is drawn twice, for wide and for narrow pages: scaling one
/// down would make its words unreadable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Size {
    /// Class on the `svg` element.
    pub(crate) class: &'static str,
    pub(crate) width: f64,
    pub(crate) height: f64,
    /// Room for labels at the right.
    pub(crate) gutter: f64,
    /// Of text.
    pub(crate) font: f64,
}

impl Size {
    /// For columns of 700 px and more.
    pub(crate) const WIDE: Size =
        Size { class: "wide", width: 820.0, height: 420.0, gutter: 218.0, font: 13.0 };
    /// For telephones.
    pub(crate) const NARROW: Size =
        Size { class: "narrow", width: 340.0, height: 360.0, gutter: 116.0, font: 11.0 };

    /// Characters that a width holds. Measured: DejaVu Sans, the widest of the usual system fonts,
    /// has 0.60 em on average in these labels.
    pub(crate) fn characters(&self, width: f64) -> usize {
        (width / (self.font * 0.6)) as usize
    }

    /// The height of a line of text.
    pub(crate) fn line(&self) -> f64 {
        self.font * 1.25
    }
}

/// A drawing under way.
pub(crate) struct Chart {
    pub(crate) size: Size,
    /// Left, top, right, bottom of the plot within the drawing.
    pub(crate) plot: (f64, f64, f64, f64),
    body: String,
}

impl Chart {
    pub(crate) fn new(size: Size, plot: (f64, f64, f64, f64)) -> Self {
        Self { size, plot, body: String::new() }
    }

    /// Grid, ticks and names of both axes.
    pub(crate) fn axes(&mut self, x: (&Scale, &str, Tick), y: (&Scale, &str, Tick)) {
        let (left, top, right, bottom) = self.plot;
        let font = self.size.font;
        let (scale, name, says) = y;
        let most = (bottom - top) / (font * 2.2);
        for tick in scale.ticks(most as usize) {
            let at = scale.at(tick);
            self.path("grid", &[(left, at), (right, at)], "");
            self.text("tick end", left - 6.0, at + font * 0.35, &says(tick));
        }
        self.text("name", (left - font * 3.0).max(0.0), top - font * 0.9, name);
        self.across(x.0, x.1, x.2);
    }

    /// The horizontal axis alone.
    pub(crate) fn across(&mut self, scale: &Scale, name: &str, says: Tick) {
        let (left, top, right, bottom) = self.plot;
        let font = self.size.font;
        // A tick's words need three or four ems.
        let most = ((right - left) / (font * 3.4)) as usize;
        for tick in scale.ticks(most.max(2)) {
            let at = scale.at(tick);
            self.path("grid", &[(at, top), (at, bottom)], "");
            self.text("tick middle", at, bottom + font * 1.7, &says(tick));
        }
        self.path("axis", &[(left, bottom), (right, bottom)], "");
        self.text("name end", right, bottom + font * 3.1, name);
    }

    /// A line through points.
    pub(crate) fn path(&mut self, class: &str, points: &[(f64, f64)], more: &str) {
        let mut d = String::new();
        for (index, (x, y)) in points.iter().enumerate() {
            let _ = write!(d, "{}{x:.1} {y:.1}", if index == 0 { "M" } else { "L" });
        }
        let _ = write!(self.body, r#"<path class="{class}" d="{d}"{more}/>"#);
    }

    /// A rectangle.
    pub(crate) fn area(&mut self, class: &str, at: (f64, f64), to: (f64, f64), more: &str) {
        let (x, y) = (at.0.min(to.0), at.1.min(to.1));
        let (width, height) = ((to.0 - at.0).abs(), (to.1 - at.1).abs());
        let _ = write!(
            self.body,
            r#"<rect class="{class}" x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}"{more}/>"#
        );
    }

    /// A line of text, its baseline at `y`.
    pub(crate) fn text(&mut self, class: &str, x: f64, y: f64, says: &str) {
        let _ = write!(
            self.body,
            r#"<text class="{class}" x="{x:.1}" y="{y:.1}">{}</text>"#,
            escape(says)
        );
    }

    /// A mark of one of six shapes, so that series are told apart without colour.
    pub(crate) fn mark(&mut self, class: &str, shape: usize, at: (f64, f64), says: &str) {
        let (x, y) = at;
        // As it is written: arcs whose ends are rounded apart from their radius are no circle.
        let r = (self.size.font * 4.2).round() / 10.0;
        let d = match shape % 6 {
            0 => format!(
                "M{:.1} {y:.1}a{r:.1} {r:.1} 0 1 0 {:.1} 0a{r:.1} {r:.1} 0 1 0 {:.1} 0z",
                x - r,
                2.0 * r,
                -2.0 * r
            ),
            1 => polygon(x, y, r * 1.25, 4, 45.0),
            2 => polygon(x, y, r * 1.35, 3, -90.0),
            3 => polygon(x, y, r * 1.3, 4, 0.0),
            4 => polygon(x, y, r * 1.35, 3, 90.0),
            _ => polygon(x, y, r * 1.2, 6, 0.0),
        };
        let _ =
            write!(self.body, r#"<path class="mark {class}" d="{d}"{}/>"#, says_attribute(says));
    }

    /// Labels right of the plot, one under the other, each with a leader to where it wants to be.
    pub(crate) fn gutter(&mut self, labels: &[Label]) {
        let (_, top, right, bottom) = self.plot;
        let line = self.size.line();
        let heights: Vec<f64> = labels.iter().map(|label| label.lines() as f64 * line).collect();
        let wants: Vec<f64> = labels.iter().map(|label| label.wants).collect();
        let middles = spread(&wants, &heights, line * 0.4, top - line, bottom + line);
        for ((label, height), middle) in labels.iter().zip(&heights).zip(middles) {
            let class = &label.class;
            let lead = self.size.font * 1.1;
            self.path(
                &format!("leader {class}"),
                &[(right + 2.0, label.wants), (right + lead, middle)],
                "",
            );
            let _ = write!(self.body, r#"<g class="label {class}">"#);
            for (index, says) in label.title.iter().chain(&label.rest).enumerate() {
                let class = if index < label.title.len() { "first" } else { "rest" };
                let y = middle - height / 2.0 + line * (index as f64 + 0.78);
                self.text(class, right + lead + 4.0, y, says);
            }
            self.body += "</g>";
        }
    }

    /// Room that labels need, one under the other.
    pub(crate) fn room(size: &Size, labels: &[Label]) -> f64 {
        let line = size.line();
        labels.iter().map(|label| (label.lines() as f64 + 0.4) * line).sum()
    }

    /// The whole drawing. `id` makes its title and description findable by readers of screens.
    pub(crate) fn finish(self, id: &str, title: &str, says: &str) -> String {
        let Size { class, width, height, font, .. } = self.size;
        let (title, says) = (escape(title), escape(says));
        format!(
            r#"<svg class="{class}" viewBox="0 0 {width} {height}" font-size="{font}" role="img" aria-labelledby="{id}-{class}-t {id}-{class}-d"><title id="{id}-{class}-t">{title}</title><desc id="{id}-{class}-d">{says}</desc>{}</svg>"#,
            self.body
        )
    }
}

/// How an axis writes its ticks.
pub(crate) type Tick = fn(f64) -> String;

/// What the page's script shows beside the pointer.
pub(crate) fn says_attribute(says: &str) -> String {
    if says.is_empty() { String::new() } else { format!(r#" data-says="{}""#, escape(says)) }
}

fn polygon(x: f64, y: f64, r: f64, corners: usize, turn: f64) -> String {
    let mut d = String::new();
    for corner in 0..corners {
        let angle = (turn + 360.0 * corner as f64 / corners as f64).to_radians();
        let _ = write!(
            d,
            "{}{:.1} {:.1}",
            if corner == 0 { "M" } else { "L" },
            x + r * angle.cos(),
            y + r * angle.sin()
        );
    }
    d + "z"
}
