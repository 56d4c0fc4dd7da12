//! Parser of OpenSM's `torus-2QoS.conf`: the dimensions of a torus or mesh, switches at known
//! places (seeds), and the places of the datelines.
//!
//! | line | meaning |
//! |---|---|
//! | `torus X Y Z`, `mesh X Y Z` | sizes; `m` or `t` after a size makes the row open or a ring |
//! | `xp_link`, `xm_link`, … `zm_link`, two GUIDs | a cable in the positive or negative direction |
//! | `x_dateline`, `y_dateline`, `z_dateline`, number | moves the dateline from the seed |
//! | `next_seed` | the following lines describe another seed |
//! | `portgroup_max_ports`, `port_order`, `max_changes` | ignored |
//!
//! Words after those that a line requires are ignored, as in OpenSM.

use std::path::Path;

use rsm_ids::Guid;
use rsm_routing::engine::{LayoutDimension, LayoutSeed, SeedLink, TorusLayout};

use super::RoutingConfig;
use super::c_number::number;
use super::finding::{ConfigFinding, ConfigSeverity, any_error};
use super::line_file::{Comments, LineFile, Mistake, Word};
use super::switch_rules::guid;
use super::text_file::{ConfigError, load};

/// Letters of the dimensions.
const AXES: [char; 3] = ['x', 'y', 'z'];

/// Maximum size of a dimension: the number of LIDs in a subnet.
const MAX_SIZE: u64 = 49_151;

const SHAPE: &str = "expected `torus` or `mesh` with three sizes before anything else";
const SIZE: &str = "expected a size, 1 to 49151, with m or t behind it for an open row or a ring";
const ONCE: &str = "an earlier line has the sizes";
const KEYWORD: &str = "expected torus, mesh, xp_link and the like, x_dateline and the like, next_seed, \
                       portgroup_max_ports, port_order or max_changes";
const LINK: &str = "expected the GUIDs of two switches";
const ONE_SWITCH: &str =
    "all cables of a seed begin at one switch, and next_seed begins another one";
const SAME: &str = "expected a second switch that differs from the first";
const FLAT: &str = "this dimension has the size 1, so that no cable points along it";
const DATELINE: &str = "expected by how many switches the dateline moves, at most 49151 either way";
const UNUSED: &str = "not needed here: rsm takes any number of parallel cables, and spreads destinations over \
                      them by their load";
const NO_SEED: &str = "expected a seed, such as `xp_link GUID GUID`: without one rsm chooses directions and datelines";

/// The layout parsed so far.
#[derive(Default)]
struct Reader {
    layout: TorusLayout,
    /// The seed that the current lines describe.
    seed: Option<LayoutSeed>,
}

/// Parses the file. The layout is usable only if no finding is an error.
pub fn parse_torus_layout(file: &Path, text: &str) -> (TorusLayout, Vec<ConfigFinding>) {
    let mut lines = LineFile::new(file, text, Comments::Anywhere);
    let mut reader = Reader::default();
    let mut is_empty = true;
    lines.each(|line| {
        let words = &line.words()[..];
        is_empty = false;
        reader.parse_line(words)
    });
    reader.end_seed();
    let layout = reader.layout;
    let is_seeded = layout.seeds.iter().any(|seed| !seed.links.is_empty());
    if is_empty {
        lines.about_all(ConfigSeverity::Warning, "no line", SHAPE);
    }
    let mut findings = lines.finish();
    if !is_empty && !is_seeded && !any_error(&findings) {
        findings.push(ConfigFinding {
            file: file.to_owned(),
            line: 1,
            column: 1,
            severity: ConfigSeverity::Warning,
            found: "no seed".to_owned(),
            expected: NO_SEED.to_owned(),
        });
    }
    (layout, findings)
}

impl Reader {
    /// Parses a line.
    fn parse_line<'a>(&mut self, words: &[Word<'a>]) -> Result<(), Mistake<'a>> {
        let keyword = words[0];
        if matches!(keyword.text, "torus" | "mesh") {
            return self.shape(words);
        }
        if self.layout.dimensions.is_empty() {
            return Err(keyword.error(SHAPE));
        }
        if let Some((axis, rest)) = axis(keyword.text) {
            match rest {
                "p_link" => return self.link(words, axis, true),
                "m_link" => return self.link(words, axis, false),
                "_dateline" => return self.dateline(words, axis),
                _ => {}
            }
        }
        match keyword.text {
            "next_seed" => self.end_seed(),
            "portgroup_max_ports" | "port_order" | "max_changes" => {
                return Err(keyword.mistake(ConfigSeverity::Note, UNUSED));
            }
            _ => return Err(keyword.error(KEYWORD)),
        }
        Ok(())
    }

    /// Parses the sizes after `torus` or `mesh`.
    fn shape<'a>(&mut self, words: &[Word<'a>]) -> Result<(), Mistake<'a>> {
        if !self.layout.dimensions.is_empty() {
            return Err(words[0].error(ONCE));
        }
        let wraps = words[0].text == "torus";
        let mut dimensions = Vec::new();
        for number in 1..=AXES.len() {
            let word = *words.get(number).ok_or(words[0].error(SIZE))?;
            dimensions.push(dimension(word.text, wraps).ok_or(word.error(SIZE))?);
        }
        self.layout.dimensions = dimensions;
        Ok(())
    }

    /// Parses a cable of the open seed along the dimension `axis`.
    fn link<'a>(
        &mut self,
        words: &[Word<'a>],
        axis: usize,
        is_up: bool,
    ) -> Result<(), Mistake<'a>> {
        let [_, from, to, ..] = words else {
            return Err(words[0].error(LINK));
        };
        let (switch, other) = (guid(*from)?, guid(*to)?);
        if other == switch {
            return Err(to.error(SAME));
        }
        if self.layout.dimensions[axis].size == 1 {
            return Err(words[0].error(FLAT));
        }
        let seed = self.open_seed();
        if seed.switch.is_zero() {
            seed.switch = switch;
        }
        if seed.switch != switch {
            return Err(from.error(ONE_SWITCH));
        }
        seed.links.push(SeedLink {
            dimension: axis,
            is_up,
            to: other,
        });
        Ok(())
    }

    /// Parses the number of switches by which the dateline of the dimension `axis` moves.
    fn dateline<'a>(&mut self, words: &[Word<'a>], axis: usize) -> Result<(), Mistake<'a>> {
        let word = *words.get(1).ok_or(words[0].error(DATELINE))?;
        let (sign, digits) = match word.text.strip_prefix('-') {
            Some(digits) => (-1, digits),
            None => (1, word.text),
        };
        let moved = number(digits).filter(|moved| *moved <= MAX_SIZE);
        // The number is at most 49151.
        let moved = moved.ok_or(word.error(DATELINE))? as i32;
        self.open_seed().datelines[axis] = sign * moved;
        Ok(())
    }

    /// The seed that the current lines describe. Begins one if there is none.
    fn open_seed(&mut self) -> &mut LayoutSeed {
        let dimensions = self.layout.dimensions.len();
        self.seed.get_or_insert_with(|| LayoutSeed {
            switch: Guid(0),
            links: Vec::new(),
            datelines: vec![0; dimensions],
        })
    }

    /// Ends a seed. A seed without a cable names no switch, and is dropped.
    fn end_seed(&mut self) {
        let seed = self.seed.take();
        self.layout
            .seeds
            .extend(seed.filter(|seed| !seed.links.is_empty()));
    }
}

/// The dimension that a keyword names, and the rest of the keyword.
fn axis(keyword: &str) -> Option<(usize, &str)> {
    let mut letters = keyword.chars();
    let letter = letters.next()?;
    let axis = AXES.iter().position(|&axis| axis == letter)?;
    Some((axis, letters.as_str()))
}

/// Parses a size such as `4`, `4t` or `4M`.
fn dimension(text: &str, wraps: bool) -> Option<LayoutDimension> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let wraps = match &text[digits.len()..] {
        "" => wraps,
        "t" | "T" => true,
        "m" | "M" => false,
        _ => return None,
    };
    let size = digits
        .parse::<u64>()
        .ok()
        .filter(|size| (1..=MAX_SIZE).contains(size))?;
    let size = u16::try_from(size).ok()?;
    Some(LayoutDimension { size, wraps })
}

/// Reads the layout from the file that `routing.torus_file` names; `None` if it names none.
///
/// # Errors
///
/// Fails if the file cannot be read, or has any error.
pub fn load_torus_layout(config: &RoutingConfig) -> Result<Option<TorusLayout>, ConfigError> {
    let file = config.torus_file.as_deref();
    file.map(|file| load(file, parse_torus_layout)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example in torus-2QoS.conf(5).
    const EXAMPLE: &str = "\
# Look for a 2D (since x radix is one) 4x5 torus.
torus 1 4 5

# y is radix-4 torus dimension, need both
# ym_link and yp_link configuration.
yp_link 0x200000 0x200005  # sw @ y=0,z=0 -> sw @ y=1,z=0
ym_link 0x200000 0x20000f  # sw @ y=0,z=0 -> sw @ y=3,z=0

# z is not radix-4 torus dimension, only need one of
# zm_link or zp_link configuration.
zp_link 0x200000 0x200001  # sw @ y=0,z=0 -> sw @ y=0,z=1

next_seed

yp_link 0x20000b 0x200010  # sw @ y=2,z=1 -> sw @ y=3,z=1
ym_link 0x20000b 0x200006  # sw @ y=2,z=1 -> sw @ y=1,z=1
zp_link 0x20000b 0x20000c  # sw @ y=2,z=1 -> sw @ y=2,z=2

y_dateline -2  # Move the dateline for this seed
z_dateline -1  # back to its original position.

port_order 7 10 8 11 9 12 25 28 26 29 27 30
";

    fn read(text: &str) -> (TorusLayout, Vec<(usize, usize, ConfigSeverity)>) {
        let (layout, findings) = parse_torus_layout(Path::new("torus-2QoS.conf"), text);
        let place = |f: &ConfigFinding| (f.line, f.column, f.severity);
        (layout, findings.iter().map(place).collect())
    }

    #[test]
    fn example_of_the_manual_page_is_parsed() {
        let (layout, findings) = read(EXAMPLE);
        assert_eq!(findings, [(22, 1, ConfigSeverity::Note)]);
        let ring = |size| LayoutDimension { size, wraps: true };
        assert_eq!(layout.dimensions, [ring(1), ring(4), ring(5)]);
        let link = |dimension, is_up, to| SeedLink {
            dimension,
            is_up,
            to: Guid(to),
        };
        let seeds = [
            LayoutSeed {
                switch: Guid(0x20_0000),
                links: vec![
                    link(1, true, 0x20_0005),
                    link(1, false, 0x20_000f),
                    link(2, true, 0x20_0001),
                ],
                datelines: vec![0, 0, 0],
            },
            LayoutSeed {
                switch: Guid(0x20_000b),
                links: vec![
                    link(1, true, 0x20_0010),
                    link(1, false, 0x20_0006),
                    link(2, true, 0x20_000c),
                ],
                datelines: vec![0, -2, -1],
            },
        ];
        assert_eq!(layout.seeds, seeds);
    }

    #[test]
    fn letters_after_sizes_make_dimensions_rings_or_open() {
        let seed = "xp_link 0x1 0x2\n";
        for text in ["mesh 3T 4 5\n", "torus 3 4M 5m\n", "mesh 3t 4m 5\n"] {
            let (layout, findings) = read(&format!("{text}{seed}"));
            assert_eq!(findings, [], "{text}");
            let wraps: Vec<bool> = layout.dimensions.iter().map(|d| d.wraps).collect();
            assert_eq!(wraps, [true, false, false], "{text}");
        }
    }

    #[test]
    fn every_mistake_is_reported_with_its_line_and_word() {
        let (error, warning) = (ConfigSeverity::Error, ConfigSeverity::Warning);
        for (text, expected) in [
            ("", vec![(1, 1, warning)]),
            ("# nothing\n", vec![(1, 1, warning)]),
            ("torus 4 4 4\n", vec![(1, 1, warning)]),
            ("xp_link 0x1 0x2\n", vec![(1, 1, error)]),
            ("torus 4 4\n", vec![(1, 1, error)]),
            ("torus 4 0 4\n", vec![(1, 9, error)]),
            ("torus 4 4x 4\n", vec![(1, 9, error)]),
            ("torus 4 4 99999\n", vec![(1, 11, error)]),
            ("torus 4 4 4\nmesh 4 4 4\n", vec![(2, 1, error)]),
            ("torus 4 4 4\nxp_link 0x1\n", vec![(2, 1, error)]),
            ("torus 4 4 4\nxp_link leaf 0x2\n", vec![(2, 9, error)]),
            ("torus 4 4 4\nxp_link 0x1 0x1\n", vec![(2, 13, error)]),
            ("torus 1 4 4\nxp_link 0x1 0x2\n", vec![(2, 1, error)]),
            (
                "torus 4 4 4\nxp_link 0x1 0x2\nyp_link 0x3 0x4\n",
                vec![(3, 9, error)],
            ),
            (
                "torus 4 4 4\nxp_link 0x1 0x2\nx_dateline far\n",
                vec![(3, 12, error)],
            ),
            ("torus 4 4 4\nxp_links 0x1 0x2\n", vec![(2, 1, error)]),
            ("torus 4 4 4\nwp_link 0x1 0x2\n", vec![(2, 1, error)]),
        ] {
            assert_eq!(read(text).1, expected, "{text:?}");
        }
    }

    #[test]
    fn seed_with_only_a_dateline_is_dropped() {
        let text = "torus 5 5 1\nx_dateline 1\nnext_seed\nxp_link 0x1 0x2\n";
        let (layout, findings) = read(text);
        assert_eq!(findings, []);
        assert_eq!(layout.seeds.len(), 1);
    }
}
