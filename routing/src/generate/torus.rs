//! Grids of switches: tori, meshes, rings (tori of one dimension), and HyperX, in which all
//! switches of a row are neighbours.

use super::fabric::{Fabric, host_name};
use super::spec::{Item, Spec};
use super::{GenerateError, GenerateReason};
use crate::netlist::{LinkSpeed, MAX_NODES, MAX_PORTS};

/// The cables of a row of switches.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RowKind {
    /// Cables from each switch to the next one, and from the last to the first.
    Ring,
    /// Cables from each switch to the next one.
    Line,
    /// Cables between any two switches.
    Full,
}

/// The maximum number of dimensions: with more, even the smallest torus of a useful size has too
/// many LIDs.
const MAX_DIMENSIONS: usize = 6;

/// Builds a torus: the rows of the grid are rings.
pub(super) fn build_torus(spec: &Spec<'_>, speed: LinkSpeed) -> Result<Fabric, GenerateError> {
    build_rows(spec, speed, "torus", RowKind::Ring)
}

/// Builds a mesh: the rows of the grid are lines.
pub(super) fn build_mesh(spec: &Spec<'_>, speed: LinkSpeed) -> Result<Fabric, GenerateError> {
    build_rows(spec, speed, "mesh", RowKind::Line)
}

/// Builds a HyperX: any two switches of a row of the grid are neighbours.
pub(super) fn build_hyperx(spec: &Spec<'_>, speed: LinkSpeed) -> Result<Fabric, GenerateError> {
    build_rows(spec, speed, "hyperx", RowKind::Full)
}

/// Builds a grid of the sizes in the specification, such as `4x4x4`.
fn build_rows(
    spec: &Spec<'_>,
    speed: LinkSpeed,
    name: &str,
    row: RowKind,
) -> Result<Fabric, GenerateError> {
    let item = spec.positional("the size", "sizes like `4x4x4`", &["hosts"])?;
    let sizes = item
        .split('x')
        .map(|size| spec.in_range(size, "size", 1..=MAX_NODES as u64))
        .collect::<Result<Vec<u64>, _>>()?;
    if sizes.len() > MAX_DIMENSIONS {
        let what = "the number of dimensions".to_owned();
        let text = sizes.len().to_string();
        let reason = GenerateReason::Range { what, text };
        return Err(spec.error(item.at, reason, format!("1 to {MAX_DIMENSIONS}")));
    }
    build(spec, speed, &sizes, name, row)
}

/// Builds a single ring.
pub(super) fn build_ring(spec: &Spec<'_>, speed: LinkSpeed) -> Result<Fabric, GenerateError> {
    let item: Item<'_> = spec.positional("the ring's size", "a number of switches", &["hosts"])?;
    let size = spec.in_range(item, "size", 3..=MAX_NODES as u64)?;
    build(spec, speed, &[size], "ring", RowKind::Ring)
}

/// Builds a grid with rows of `sizes`. In a ring or line, port `2d+1` leads to the next switch in
/// dimension `d`, and `2d+2` to the previous one; in full rows, a dimension has a port for each
/// other place. Ports to hosts follow. In a ring of two, the next and the previous switch are one
/// neighbour, with one cable.
fn build(
    spec: &Spec<'_>,
    speed: LinkSpeed,
    sizes: &[u64],
    name: &str,
    row: RowKind,
) -> Result<Fabric, GenerateError> {
    let hosts = spec.number("hosts", 0..=u64::from(MAX_PORTS))?.unwrap_or(1);
    let count = sizes.iter().copied().fold(1, u64::saturating_mul);
    let ports_of = |size: u64| if row == RowKind::Full { size - 1 } else { 2 };
    let first_host_port = sizes.iter().map(|&size| ports_of(size)).sum::<u64>() + 1;
    let radix = first_host_port - 1 + hosts;
    let all_hosts = count.saturating_mul(hosts);
    let mut fabric = Fabric::with_room(spec, speed, count, all_hosts, radix)?;

    let switches: Vec<usize> = (0..count)
        .map(|index| {
            let mut name = name.to_owned();
            let mut remainder = index;
            for size in sizes {
                name += &format!("-{}", remainder % size);
                remainder /= size;
            }
            fabric.switch(&name, radix)
        })
        .collect();
    for index in 0..count {
        let mut stride = 1;
        let mut port = 1;
        for &size in sizes {
            let place = index / stride % size;
            let first = index - place * stride;
            let at = |place: u64| switches[(first + place * stride) as usize];
            if row == RowKind::Full {
                // A switch has no port for its own place: the ports for higher places are one
                // lower.
                for other in place + 1..size {
                    fabric.cable((at(place), port + other - 1), (at(other), port + place));
                }
            } else {
                let is_last = place + 1 == size;
                let closes = row == RowKind::Ring && size > 2;
                if !is_last || closes {
                    fabric.cable((at(place), port), (at((place + 1) % size), port + 1));
                }
            }
            port += ports_of(size);
            stride *= size;
        }
    }
    for host in 0..all_hosts {
        let switch = switches[(host / hosts) as usize];
        let port = first_host_port + host % hosts;
        fabric.adapter(&host_name(host, all_hosts), 0, switch, port);
    }
    Ok(fabric)
}
