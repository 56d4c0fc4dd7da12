//! Draws a fabric and the load of its links as a picture (SVG 1.1), readable at tens of thousands
//! of hosts.
//!
//! The drawing equals that of the web page: [`layout`] positions the switches of both. Switches are
//! arranged by tiers and pods, and hosts are folded below their leaf. Links with more paths than
//! their [share](crate::quality::Share) are amber or red at any size of the fabric, and so are
//! missing cables; if there are too many links for lines, links between groups are bands. A click
//! on a group shows only that group, so that the names of its switches are readable; a click on the
//! background shows everything again. The fullest links, the pods, and a histogram of the links by
//! load follow below.

mod details;
mod fabric;
mod histogram;
pub mod layout;
mod svg;

use rsm_ids::Guid;

pub use self::fabric::{MOST_LINES, MOST_MARKED};
use crate::quality::{LinkUse, shares};
use crate::topology::Topology;

use fabric::{Drawing, Sample};
use svg::{Anchor, Line, Stroke, Svg};

const WIDTH: f64 = 1400.0;
const MARGIN: f64 = 24.0;
/// The left edge of the drawing, to the right of the names of tiers.
const LEFT: f64 = 160.0;
/// The width of the drawing.
const DRAWING: f64 = WIDTH - MARGIN - LEFT;
/// The maximum number of characters in a line of a note.
const LINE: usize = 215;
/// The load, as a multiple of its share, from which a link is red.
const FULL: f64 = 2.0;

/// The colours of the web page in its light theme.
struct Colours;

impl Colours {
    const SWITCH: &str = "#64748b";
    const LEAF: &str = "#4f7cc4";
    const LINK: &str = "#94a3b8";
    const GROUP: &str = "#eef1f5";
    const HOST: &str = "#a9b8cc";
    const MUTED: &str = "#5b6776";
    const ACCENT: &str = "#2563eb";
    const WARN: &str = "#d97706";
    const BAD: &str = "#c81e1e";
}

/// The input of a picture.
pub struct Scene<'a> {
    /// The fabric to draw.
    pub topology: &'a Topology,
    /// The links of the fabric and their use: [`link_uses`](crate::quality::link_uses).
    pub links: &'a [LinkUse],
    /// The level of each switch, 0 at the top.
    pub levels: &'a [u8],
    /// The switches at both ends of missing cables.
    pub missing: &'a [(Guid, Guid)],
    /// The heading of the picture.
    pub title: &'a str,
    /// Further lines of text above the picture.
    pub notes: &'a [String],
    /// Returns the name of a switch.
    pub name: &'a dyn Fn(Guid) -> String,
}

/// The direction of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Direction {
    Up,
    Down,
    Level,
}

impl Direction {
    const ALL: [Direction; 3] = [Direction::Up, Direction::Down, Direction::Level];

    fn name(self) -> &'static str {
        match self {
            Direction::Up => "up",
            Direction::Down => "down",
            Direction::Level => "within a rank",
        }
    }

    fn colour(self) -> &'static str {
        match self {
            Direction::Up => "#4f7cc4",
            Direction::Down => "#d97706",
            Direction::Level => "#7c3aed",
        }
    }
}

/// A link in the histogram.
#[derive(Clone, Copy)]
struct PlottedLink {
    direction: Direction,
    /// The paths of the link divided by its rate, relative to the quotient of all paths and all
    /// rates.
    load: f64,
}

/// Draws a fabric.
pub fn draw(scene: &Scene<'_>) -> String {
    let mut svg = Svg::new();
    let mut y = MARGIN + 12.0;
    svg.text((MARGIN, y), 18.0, Anchor::Start, scene.title);
    for line in scene.notes.iter().flat_map(|note| lines(note)) {
        y += 17.0;
        svg.text_in((MARGIN, y), 12.0, Anchor::Start, Colours::MUTED, &line);
    }
    let shares = shares(scene.topology, scene.links, Some(scene.levels));
    let drawing = Drawing::new(scene, &shares, y + 86.0);
    legend(&mut svg, &drawing.legend(), y + 26.0);
    drawing.draw(&mut svg);
    y = details::draw(&mut svg, scene, &drawing, &shares, drawing.bottom() + 20.0);
    histogram::draw(&mut svg, &drawn(scene), y + 40.0);
    svg.finish(WIDTH, MARGIN)
}

/// Breaks a text into lines that fit, between words.
fn lines(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("the list starts with one line");
        let length = line.chars().count() + 1 + word.chars().count();
        if line.is_empty() {
            line.push_str(word);
        } else if length <= LINE {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// The links for the histogram, in the order of the scene.
fn drawn(scene: &Scene<'_>) -> Vec<PlottedLink> {
    let level = |guid: Guid| {
        let switch = scene.topology.switch_by_guid(guid);
        let level = switch.and_then(|switch| scene.levels.get(switch.index()));
        level.copied().unwrap_or(0)
    };
    let paths: u64 = scene.links.iter().map(|link| link.paths).sum();
    let rates: u64 = scene.links.iter().map(|link| u64::from(link.rate)).sum();
    let mean = paths as f64 / rates.max(1) as f64;
    let draw = |link: &LinkUse| PlottedLink {
        direction: match level(link.switch).cmp(&level(link.peer)) {
            std::cmp::Ordering::Greater => Direction::Up,
            std::cmp::Ordering::Less => Direction::Down,
            std::cmp::Ordering::Equal => Direction::Level,
        },
        load: if link.paths == 0 {
            0.0
        } else {
            link.paths as f64 / f64::from(link.rate) / mean
        },
    };
    scene.links.iter().map(draw).collect()
}

/// Draws the legend, in as many rows as the width requires.
fn legend(svg: &mut Svg, entries: &[(Sample, String)], mut y: f64) {
    let mut x = MARGIN;
    for (sample, text) in entries {
        let wide = 40.0 + text.chars().count() as f64 * 6.2;
        if x + wide > WIDTH - MARGIN && x > MARGIN {
            (x, y) = (MARGIN, y + 18.0);
        }
        match *sample {
            Sample::Line(colour, dash) => {
                let line = Line {
                    from: (x, y - 4.0),
                    to: (x + 22.0, y - 4.0),
                    bend: None,
                };
                let stroke = Stroke {
                    colour,
                    width: 2.5,
                    opacity: 1.0,
                    dash,
                };
                svg.lines(&[line], &stroke);
            }
            Sample::Box(colour) => svg.rect([x + 6.0, y - 10.0, 12.0, 12.0], colour, ""),
            Sample::None => {}
        }
        svg.text((x + 28.0, y), 11.0, Anchor::Start, text);
        x += wide;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_note_is_broken_between_words() {
        let words = ["word"; 80].join(" ");
        let broken = lines(&words);
        assert_eq!(broken.len(), 2);
        assert!(broken.iter().all(|line| line.len() <= LINE));
        assert_eq!(broken.join(" "), words);
        assert_eq!(lines(""), [""]);
        assert_eq!(lines(&"x".repeat(400)).len(), 1);
    }

    #[test]
    fn the_name_of_a_switch_is_within_its_description() {
        assert_eq!(fabric::short("MF0;leaf-03:MQM8700/U1"), "leaf-03");
        assert_eq!(fabric::short("leaf-03"), "leaf-03");
        assert_eq!(fabric::short("a;b"), "a;b");
    }
}
