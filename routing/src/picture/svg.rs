//! Writes the small part of SVG that pictures need, with numbers as short as possible.

use std::fmt::{self, Write as _};

/// An SVG document under construction.
pub(super) struct Svg {
    /// The elements so far.
    text: String,
    /// The height of the content so far, in pixels.
    height: f64,
}

/// The alignment of a text to its position.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A line from one point to another, in pixels: straight, or a quadratic curve with the control
/// point `bend`.
#[derive(Clone, Copy)]
pub(super) struct Line {
    pub(super) from: (f64, f64),
    pub(super) to: (f64, f64),
    pub(super) bend: Option<(f64, f64)>,
}

/// The style of lines. Colours are as in SVG.
pub(super) struct Stroke<'a> {
    pub(super) colour: &'a str,
    /// The width in pixels.
    pub(super) width: f64,
    /// The opacity, 0 to 1.
    pub(super) opacity: f64,
    /// The lengths of dashes and gaps; empty for a solid line.
    pub(super) dash: &'a str,
}

/// A length or coordinate in pixels, written to a tenth of a pixel.
struct Px(f64);

impl fmt::Display for Px {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = (self.0 * 10.0).round() / 10.0;
        // Adding 0.0 turns -0 into 0.
        write!(f, "{}", tenths + 0.0)
    }
}

/// Text in XML: markup is escaped, and characters that XML 1.0 does not allow are replaced.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\t' | '\n' | '\r' => f.write_char(' ')?,
                '\u{0}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => f.write_char('\u{fffd}')?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}

impl Svg {
    pub(super) fn new() -> Svg {
        Svg {
            text: String::new(),
            height: 0.0,
        }
    }

    /// Draws a filled rectangle, with a tool tip unless `tip` is empty.
    pub(super) fn rect(&mut self, [x, y, width, height]: [f64; 4], fill: &str, tip: &str) {
        self.reach(y + height);
        let [x, y, width, height] = [x, y, width, height].map(Px);
        let start = format_args!(
            r#"<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{fill}""#
        );
        // Writing to a String cannot fail.
        let _ = match tip {
            "" => writeln!(self.text, "{start}/>"),
            tip => writeln!(self.text, "{start}><title>{}</title></rect>", Escaped(tip)),
        };
    }

    /// Draws a filled rectangle with round corners.
    pub(super) fn round(&mut self, [x, y, width, height]: [f64; 4], radius: f64, fill: &str) {
        self.reach(y + height);
        let [x, y, width, height] = [x, y, width, height].map(Px);
        let radius = Px(radius);
        let _ = writeln!(
            self.text,
            r#"<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="{radius}" fill="{fill}"/>"#
        );
    }

    /// Draws a filled polygon through the points.
    pub(super) fn polygon(&mut self, points: &[(f64, f64)], fill: &str, opacity: f64) {
        let _ = write!(self.text, r#"<polygon points=""#);
        for (index, &(x, y)) in points.iter().enumerate() {
            self.reach(y);
            let space = if index == 0 { "" } else { " " };
            let _ = write!(self.text, "{space}{},{}", Px(x), Px(y));
        }
        let _ = writeln!(self.text, r#"" fill="{fill}" fill-opacity="{opacity}"/>"#);
    }

    /// Draws lines as one element; nothing if there are none.
    pub(super) fn lines(&mut self, lines: &[Line], stroke: &Stroke<'_>) {
        if lines.is_empty() {
            return;
        }
        let Stroke {
            colour,
            width,
            opacity,
            dash,
        } = stroke;
        let _ = write!(
            self.text,
            r#"<path fill="none" stroke="{colour}" stroke-width="{width}" stroke-opacity="{opacity}""#
        );
        if !dash.is_empty() {
            let _ = write!(self.text, r#" stroke-dasharray="{dash}""#);
        }
        self.text.push_str(r#" d=""#);
        for line in lines {
            let (from, to) = (line.from, line.to);
            self.reach(from.1.max(to.1));
            let _ = write!(self.text, "M{} {}", Px(from.0), Px(from.1));
            let _ = match line.bend {
                Some(bend) => write!(self.text, "Q{} {} ", Px(bend.0), Px(bend.1)),
                None => write!(self.text, "L"),
            };
            let _ = write!(self.text, "{} {}", Px(to.0), Px(to.1));
        }
        self.text.push_str("\"/>\n");
    }

    /// Begins a link to a view of the document, with a tool tip; [`Svg::end_link`] ends it.
    pub(super) fn begin_link(&mut self, view: &str, tip: &str) {
        let _ = writeln!(
            self.text,
            r##"<a href="#{view}"><title>{}</title>"##,
            Escaped(tip)
        );
    }

    /// Ends the link that [`Svg::begin_link`] began.
    pub(super) fn end_link(&mut self) {
        self.text.push_str("</a>\n");
    }

    /// Defines a view: a part of the drawing that a link shows in the whole window.
    pub(super) fn view(&mut self, name: &str, [x, y, width, height]: [f64; 4]) {
        let [x, y, width, height] = [x, y, width, height].map(Px);
        let _ = writeln!(
            self.text,
            r#"<view id="{name}" viewBox="{x} {y} {width} {height}"/>"#
        );
    }

    /// Draws a line.
    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), stroke: &str) {
        self.reach(from.1.max(to.1));
        let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(Px);
        let _ = writeln!(
            self.text,
            r#"<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{stroke}"/>"#
        );
    }

    /// Draws a line of text of `size` pixels.
    pub(super) fn text(&mut self, at: (f64, f64), size: f64, anchor: Anchor, text: &str) {
        self.text_in(at, size, anchor, "", text);
    }

    /// Draws a line of text in `colour`, or in the document's colour if `colour` is empty.
    pub(super) fn text_in(
        &mut self,
        (x, y): (f64, f64),
        size: f64,
        anchor: Anchor,
        colour: &str,
        text: &str,
    ) {
        self.reach(y);
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => r#" text-anchor="middle""#,
            Anchor::End => r#" text-anchor="end""#,
        };
        let (x, y, text) = (Px(x), Px(y), Escaped(text));
        // The reader zooms to small text in the picture of a large fabric, so that sizes need
        // hundredths.
        let size = (size * 100.0).round() / 100.0;
        let _ = write!(
            self.text,
            r#"<text x="{x}" y="{y}" font-size="{size}"{anchor}"#
        );
        if !colour.is_empty() {
            let _ = write!(self.text, r#" fill="{colour}""#);
        }
        let _ = writeln!(self.text, ">{text}</text>");
    }

    /// Returns the document, `width` pixels wide and `margin` pixels higher than its content.
    pub(super) fn finish(self, width: f64, margin: f64) -> String {
        let (width, height) = (Px(width), Px(self.height + margin));
        format!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" font-family="system-ui, 'DejaVu Sans', sans-serif" fill="#17202c">
<style>a:hover rect{{stroke:#2563eb;stroke-width:1.5}}a text{{text-decoration:none}}</style>
<view id="all" viewBox="0 0 {width} {height}"/>
<a href="#all"><rect width="{width}" height="{height}" fill="#fbfcfd"/></a>
{}</svg>
"##,
            self.text
        )
    }

    /// Extends the content down to the height `y`.
    fn reach(&mut self, y: f64) {
        self.height = self.height.max(y);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_names_cannot_break_the_document() {
        let name = "<a>&\"b\"\u{1}\u{ffff}\n'é";
        let escaped = Escaped(name).to_string();
        assert_eq!(escaped, "&lt;a&gt;&amp;&quot;b&quot;\u{fffd}\u{fffd} 'é");
    }

    #[test]
    fn numbers_are_written_with_one_decimal() {
        let shown = [1.0, 0.04, -0.04, 33.333, 1e6].map(|number| Px(number).to_string());
        assert_eq!(shown, ["1", "0", "0", "33.3", "1000000"]);
    }
}
