//! Reads OpenSM's torus-2QoS.conf: the sizes of a mesh or torus, and how its axes lie.
//!
//! | line | meaning |
//! |---|---|
//! | `torus X Y Z`, `mesh X Y Z` | sizes, 1 for no such axis; with `t` behind it a row closes |
//! | `xp_link A B`, … `zm_link A B` | switch B is the next (`p`) or last (`m`) one of A along x |
//! | `x_dateline N`, … | rows of x begin N switches behind A |
//! | `next_seed` | further links are for when a switch of those before is not there |
//! | `portgroup_max_ports`, `port_order`, `max_changes` | read, and without effect |

use std::path::Path;

use rsm_ids::Guid;
use rsm_routing::engine::{AXES, Axis, GridSeed, Origin};

use super::finding::{ConfigFinding, ConfigSeverity, Findings, any_error};
use super::load::{ConfigError, read_text};

/// The largest size of an axis: a subnet has fewer switches in a row.
const MOST: u16 = 4096;

const GUIDS: &str =
    "expected the GUIDs of two switches, the first one the same for all links of a seed";

/// The description in a file, and the findings about it. Of use only if no finding is an error.
pub fn parse_torus(file: &Path, text: &str) -> (GridSeed, Vec<ConfigFinding>) {
    let mut findings = Findings::new(file, text);
    let mut seed = GridSeed {
        origins: vec![Origin::default()],
        ..GridSeed::default()
    };
    let mut has_sizes = false;
    for line in text.lines() {
        let content = line.split('#').next().unwrap_or("");
        let words: Vec<&str> = content.split_whitespace().collect();
        let Some((&keyword, values)) = words.split_first() else {
            continue;
        };
        let at = keyword.as_ptr() as usize - text.as_ptr() as usize;
        let read = match keyword {
            "torus" | "mesh" if has_sizes => Err("expected one line with the sizes"),
            "torus" | "mesh" => {
                has_sizes = true;
                sizes(keyword == "torus", values).map(|axes| seed.axes = axes)
            }
            "next_seed" => {
                seed.origins.push(Origin::default());
                Ok(())
            }
            "portgroup_max_ports" | "port_order" | "max_changes" => Ok(()),
            // There is always one.
            _ => match seed.origins.last_mut() {
                Some(origin) => direction(keyword, values, origin),
                None => Ok(()),
            },
        };
        if let Err(expected) = read {
            let shown: String = content.trim().chars().take(60).collect();
            let found = format!("`{}`", shown.escape_debug());
            findings.at(text, at, ConfigSeverity::Error, found, expected);
        }
    }
    if !has_sizes {
        let expected = "expected a line such as `torus 4 4 4`";
        findings.at(text, 0, ConfigSeverity::Error, "no sizes", expected);
    }
    (seed, findings.finish())
}

fn sizes(closes: bool, values: &[&str]) -> Result<[Axis; AXES], &'static str> {
    const EXPECTED: &str =
        "expected three sizes from 1 to 4096, each with `m` or `t` behind it or nothing";
    let mut axes = [Axis::default(); AXES];
    if values.len() != AXES {
        return Err(EXPECTED);
    }
    for (axis, value) in axes.iter_mut().zip(values) {
        let (digits, wraps) = match value.strip_suffix(['m', 'M']) {
            Some(digits) => (digits, false),
            None => match value.strip_suffix(['t', 'T']) {
                Some(digits) => (digits, true),
                None => (*value, closes),
            },
        };
        let size = digits.parse().ok().filter(|size| (1..=MOST).contains(size));
        *axis = Axis {
            size: size.ok_or(EXPECTED)?,
            wraps,
        };
    }
    Ok(axes)
}

/// A line about an axis.
fn direction(keyword: &str, values: &[&str], origin: &mut Origin) -> Result<(), &'static str> {
    const UNKNOWN: &str =
        "expected a keyword of torus-2QoS.conf, such as torus, xp_link, x_dateline or next_seed";
    const PLACE: &str = "expected the number of switches to the dateline, from -4096 to 4096";
    let axis = ["x", "y", "z"]
        .iter()
        .position(|axis| keyword.starts_with(axis));
    let axis = axis.ok_or(UNKNOWN)?;
    match &keyword[1..] {
        "p_link" | "m_link" => {
            let guids: Vec<Guid> = values.iter().filter_map(|word| word.parse().ok()).collect();
            let [from, to] = guids[..] else {
                return Err(GUIDS);
            };
            if values.len() != 2 || from == to || from.is_zero() || to.is_zero() {
                return Err(GUIDS);
            }
            if !origin.switch.is_zero() && origin.switch != from {
                return Err(GUIDS);
            }
            origin.switch = from;
            origin.neighbours[axis] = Some((to, keyword.ends_with("p_link")));
            Ok(())
        }
        "_dateline" => {
            let [value] = values else {
                return Err(PLACE);
            };
            let place: i32 = value.parse().map_err(|_| PLACE)?;
            if place.unsigned_abs() > u32::from(MOST) {
                return Err(PLACE);
            }
            origin.datelines[axis] = place;
            Ok(())
        }
        _ => Err(UNKNOWN),
    }
}

/// Reads the file that `routing.torus_file` names.
///
/// # Errors
///
/// If the file cannot be read, or has any error.
pub fn load_torus(file: &Path) -> Result<GridSeed, ConfigError> {
    let (seed, findings) = parse_torus(file, &read_text(file)?);
    if any_error(&findings) {
        return Err(ConfigError::Invalid { findings });
    }
    Ok(seed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_directions_datelines_and_further_seeds_are_read() {
        let text = "# a torus\ntorus 5 6M 1\nxp_link 0x20 0x21\nym_link 0x20 0x25\n\
                    x_dateline -1\nportgroup_max_ports 12\nnext_seed\nxm_link 0x30 0x31 # far\n";
        let (seed, findings) = parse_torus(Path::new("t"), text);
        assert_eq!(findings, []);
        let axis = |size, wraps| Axis { size, wraps };
        assert_eq!(seed.axes, [axis(5, true), axis(6, false), axis(1, true)]);
        let first = Origin {
            switch: Guid(0x20),
            neighbours: [Some((Guid(0x21), true)), Some((Guid(0x25), false)), None],
            datelines: [-1, 0, 0],
        };
        assert_eq!(seed.origins[0], first);
        assert_eq!(seed.origins[1].neighbours[0], Some((Guid(0x31), false)));
        let (mesh, findings) = parse_torus(Path::new("t"), "mesh 2 3t 4\n");
        assert_eq!(findings, []);
        assert_eq!(mesh.axes, [axis(2, false), axis(3, true), axis(4, false)]);
    }

    #[test]
    fn every_mistake_is_reported_with_its_line() {
        let text = "torus 4 4\ntorus 4 4 4\nxp_link 0x20\n  yp_link 0x20 0x20\nzp_link 0x20 0x21\n\
                    xm_link 0x22 0x23\nx_dateline far\nz_dateline 9999\nwp_link 0x1 0x2\nxq 1\n\
                    xp_link 0x0 0x1\nxp_link a b\n";
        let (_, findings) = parse_torus(Path::new("t"), text);
        let lines: Vec<usize> = findings.iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12]);
        for text in [
            "",
            "torus 0 1 1\n",
            "torus 4 4 4x\n",
            "torus 5000 1 1\n",
            "torus 4 4 -4\n",
        ] {
            let (_, findings) = parse_torus(Path::new("t"), text);
            assert!(any_error(&findings), "{text}");
        }
    }
}
