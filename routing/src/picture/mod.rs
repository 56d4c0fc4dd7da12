//! A fabric and the load of its links as a picture (SVG 1.1), readable at tens of thousands of
//! hosts.
//!
//! Above, the fabric by ranks: a row of cells for each rank of switches, coloured by the fullest
//! link that leaves them upwards and downwards, with the links that join two ranks between them. No
//! row has more than [`CELLS`] cells; where a rank has more switches, a cell stands for several.
//! Below, a histogram of the links by load, up, down and within a rank apart.

mod histogram;
pub mod layout;
mod ranks;
mod svg;

use rsm_ids::Guid;

use crate::quality::LinkUse;
use crate::topology::Topology;

use svg::{Anchor, Svg};

/// Cells in a row: still some pixels each on a page.
pub const CELLS: usize = 150;

const WIDTH: f64 = 1000.0;
/// Characters that a line of a note has room for.
const LINE: usize = 155;
const MARGIN: f64 = 24.0;
/// Colours of the load of a link relative to the mean: from far below it to far above.
const HEAT: [&str; 6] = [
    "#d9d9d9", "#c6dbef", "#6baed6", "#fee391", "#fe9929", "#cb181d",
];
/// Where each colour but the first begins, in parts of the mean.
const HEAT_FROM: [f64; 5] = [0.01, 0.75, 1.25, 1.75, 2.5];

/// The input of a picture.
pub struct Scene<'a> {
    /// The fabric.
    pub topology: &'a Topology,
    /// Its links and their use: [`link_uses`](crate::quality::link_uses).
    pub links: &'a [LinkUse],
    /// The level of each switch, 0 at the top.
    pub levels: &'a [u8],
    /// The heading.
    pub title: &'a str,
    /// Further lines of text above the picture.
    pub notes: &'a [String],
    /// The name of a switch.
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
            Direction::Up => "#2171b5",
            Direction::Down => "#ec7014",
            Direction::Level => "#807dba",
        }
    }
}

/// A link as it is drawn.
#[derive(Clone, Copy)]
struct Drawn {
    /// Levels of the switch that sends and of the one that receives.
    from: u8,
    to: u8,
    direction: Direction,
    /// The time it takes for its paths, in parts of that of all links together.
    load: f64,
    paths: u64,
}

/// Draws a fabric.
pub fn draw(scene: &Scene<'_>) -> String {
    let links = drawn(scene);
    let mut svg = Svg::new();
    let mut y = MARGIN + 12.0;
    svg.text((MARGIN, y), 18.0, Anchor::Start, scene.title);
    for line in scene.notes.iter().flat_map(|note| lines(note)) {
        y += 17.0;
        svg.text((MARGIN, y), 12.0, Anchor::Start, &line);
    }
    y = legend(&mut svg, y + 14.0);
    y = ranks::draw(&mut svg, scene, &links, y + 20.0);
    histogram::draw(&mut svg, &links, y + 40.0);
    svg.finish(WIDTH, MARGIN)
}

/// A text in lines that fit, broken between words.
fn lines(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is always one");
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

/// The links in the order of the scene's.
fn drawn(scene: &Scene<'_>) -> Vec<Drawn> {
    let level = |guid: Guid| {
        let switch = scene.topology.switch_by_guid(guid);
        let level = switch.and_then(|switch| scene.levels.get(switch.index()));
        level.copied().unwrap_or(0)
    };
    let paths: u64 = scene.links.iter().map(|link| link.paths).sum();
    let rates: u64 = scene.links.iter().map(|link| u64::from(link.rate)).sum();
    let mean = paths as f64 / rates.max(1) as f64;
    let draw = |link: &LinkUse| {
        let (from, to) = (level(link.switch), level(link.peer));
        Drawn {
            from,
            to,
            direction: match from.cmp(&to) {
                std::cmp::Ordering::Greater => Direction::Up,
                std::cmp::Ordering::Less => Direction::Down,
                std::cmp::Ordering::Equal => Direction::Level,
            },
            load: if link.paths == 0 {
                0.0
            } else {
                link.paths as f64 / f64::from(link.rate) / mean
            },
            paths: link.paths,
        }
    };
    scene.links.iter().map(draw).collect()
}

/// The colour of a load relative to the mean.
fn heat(load: f64) -> &'static str {
    HEAT[HEAT_FROM.iter().filter(|&&from| load >= from).count()]
}

fn legend(svg: &mut Svg, y: f64) -> f64 {
    let mut x = MARGIN;
    svg.text(
        (x, y + 10.0),
        11.0,
        Anchor::Start,
        "load of the fullest link, by the mean:",
    );
    x += 215.0;
    for (index, colour) in HEAT.iter().enumerate() {
        let text = match index {
            0 => "idle".to_owned(),
            index => format!("from {}", HEAT_FROM[index - 1]),
        };
        svg.rect([x, y, 12.0, 12.0], colour, "");
        svg.text((x + 16.0, y + 10.0), 11.0, Anchor::Start, &text);
        x += 80.0;
    }
    y + 12.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_note_is_broken_between_words() {
        let words = ["word"; 60].join(" ");
        let broken = lines(&words);
        assert_eq!(broken.len(), 2);
        assert!(broken.iter().all(|line| line.len() <= LINE));
        assert_eq!(broken.join(" "), words);
        assert_eq!(lines(""), [""]);
        assert_eq!(lines(&"x".repeat(400)).len(), 1);
    }
}
