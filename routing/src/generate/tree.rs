//! Generates fat trees: parallel-ports generalised fat trees, and k-ary fat trees as a special
//! case.
//!
//! PGFT(h; m₁…m_h; w₁…w_h; p₁…p_h), a parallel-ports generalised fat tree, has hosts at level 0 and
//! switches at levels 1 to h. A node of level `l` has `m_l` children and `p_l` cables to each of
//! them; a node of level `l-1` has `w_l` parents. A node is identified by its subtree, the digits
//! `a_h … a_(l+1)` with `a_i < m_i`, and its place among the roots of that subtree, the digits `b_l
//! … b_1` with `b_i < w_i`. Child and parent share all digits that both of them have.

use super::fabric::{Fabric, host_name, numbered};
use super::spec::{Item, Spec};
use super::{GenerateError, GenerateReason};
use crate::netlist::{LinkSpeed, MAX_PORTS};

/// The maximum number of levels: with more, even trees of 2 children per node do not fit a subnet's
/// LIDs.
const MAX_LEVELS: u64 = 16;

/// The m, w and p of one level, as in the module's documentation.
#[derive(Clone, Copy)]
struct Level {
    children: u64,
    parents: u64,
    parallel: u64,
}

/// Builds a PGFT from its shape `h;m1,..,mh;w1,..,wh;p1,..,ph`.
pub(super) fn build_pgft(spec: &Spec<'_>, speed: LinkSpeed) -> Result<Fabric, GenerateError> {
    const EXPECTED: &str = "h;m1,..,mh;w1,..,wh;p1,..,ph like `2;18,36;1,18;1,1`";
    let item = spec.positional("the tree's shape", EXPECTED, &[])?;
    let parts: Vec<Item<'_>> = item.split(';').collect();
    let &[height, children, parents, parallel] = parts.as_slice() else {
        let text = item.text.to_owned();
        return Err(spec.error(item.at, GenerateReason::Syntax { text }, EXPECTED));
    };
    let height = spec.in_range(height, "h", 1..=MAX_LEVELS)?;
    let numbers = |what: &str, list: Item<'_>| {
        let numbers = list
            .split(',')
            .map(|item| spec.in_range(item, what, 1..=u64::from(MAX_PORTS)))
            .collect::<Result<Vec<u64>, _>>()?;
        if numbers.len() as u64 == height {
            return Ok(numbers);
        }
        let what = format!("the length of `{what}`");
        let text = numbers.len().to_string();
        let reason = GenerateReason::Range { what, text };
        Err(spec.error(
            list.at,
            reason,
            format!("{height} numbers, one for each level"),
        ))
    };
    let children = numbers("m", children)?;
    let parents = numbers("w", parents)?;
    let parallel = numbers("p", parallel)?;
    let levels: Vec<Level> = children
        .into_iter()
        .zip(parents)
        .zip(parallel)
        .map(|((children, parents), parallel)| Level {
            children,
            parents,
            parallel,
        })
        .collect();
    build(spec, speed, &levels)
}

/// Builds the fat tree with `levels` levels of switches that have `k` ports each.
pub(super) fn build_fat_tree(spec: &Spec<'_>, speed: LinkSpeed) -> Result<Fabric, GenerateError> {
    spec.only(&["k", "levels"])?;
    let radix = spec.required("k", 2..=u64::from(MAX_PORTS))?;
    let height = spec.required("levels", 1..=MAX_LEVELS)?;
    if radix % 2 != 0 {
        let reason = GenerateReason::Range {
            what: "`k`".to_owned(),
            text: radix.to_string(),
        };
        return Err(spec.parameter_error(reason, "an even number of ports"));
    }
    let levels: Vec<Level> = (1..=height)
        .map(|level| Level {
            // Top switches have no parents, and twice as many children.
            children: if level == height { radix } else { radix / 2 },
            parents: if level == 1 { 1 } else { radix / 2 },
            parallel: 1,
        })
        .collect();
    build(spec, speed, &levels)
}

/// The number of nodes at a level; level 0 holds the hosts.
fn nodes_at(levels: &[Level], level: usize) -> u64 {
    let (below, above) = levels.split_at(level);
    let subtrees = above.iter().map(|level| level.children);
    let roots = below.iter().map(|level| level.parents);
    subtrees.chain(roots).fold(1, u64::saturating_mul)
}

/// The number of ports towards children, and the number of ports towards parents, of a switch at a
/// level. The ports towards children come first.
fn ports_at(levels: &[Level], level: usize) -> (u64, u64) {
    let down = levels[level - 1].children * levels[level - 1].parallel;
    let up = levels
        .get(level)
        .map_or(0, |above| above.parents * above.parallel);
    (down, up)
}

/// Builds a PGFT; `levels` holds the levels of switches, the lowest first.
fn build(spec: &Spec<'_>, speed: LinkSpeed, levels: &[Level]) -> Result<Fabric, GenerateError> {
    let height = levels.len();
    let hosts = nodes_at(levels, 0);
    let adapters = levels[0].parents * levels[0].parallel;
    let switches = (1..=height)
        .map(|level| nodes_at(levels, level))
        .fold(0, u64::saturating_add);
    let largest = (1..=height)
        .map(|level| ports_at(levels, level))
        .map(|(down, up)| down + up)
        .max()
        .unwrap_or(0);
    let host_ports = hosts.saturating_mul(adapters);
    let mut fabric = Fabric::with_room(spec, speed, switches, host_ports, largest)?;

    // A node's index at its level is subtree * roots + place.
    let mut below: Vec<usize> = Vec::new();
    let mut leaves: Vec<usize> = Vec::new();
    let mut roots_below = 1;
    for level in 1..=height {
        let shape = levels[level - 1];
        let (down, up) = ports_at(levels, level);
        let count = nodes_at(levels, level);
        let roots = roots_below * shape.parents;
        let nodes: Vec<usize> = (0..count)
            .map(|index| {
                let name = numbered(&level_name(level, height), index, count);
                fabric.switch(&name, down + up)
            })
            .collect();
        if level == 1 {
            leaves.clone_from(&nodes);
        } else {
            let (child_down, _) = ports_at(levels, level - 1);
            for (index, &parent) in (0u64..).zip(&nodes) {
                let (subtree, place) = (index / roots, index % roots);
                // A child's place has the digits of its parent's place, without the highest one.
                let (digit, child_place) = (place / roots_below, place % roots_below);
                for child in 0..shape.children {
                    let child_subtree = subtree * shape.children + child;
                    let child_index = child_subtree * roots_below + child_place;
                    let node = below[child_index as usize];
                    for cable in 0..shape.parallel {
                        let up_port = child_down + digit * shape.parallel + cable + 1;
                        let down_port = child * shape.parallel + cable + 1;
                        fabric.cable((node, up_port), (parent, down_port));
                    }
                }
            }
        }
        below = nodes;
        roots_below = roots;
    }

    let Level {
        children,
        parents,
        parallel,
    } = levels[0];
    for host in 0..hosts {
        let name = host_name(host, hosts);
        let (subtree, child) = (host / children, host % children);
        for place in 0..parents {
            let leaf = leaves[(subtree * parents + place) as usize];
            for cable in 0..parallel {
                let adapter = place * parallel + cable;
                fabric.adapter(&name, adapter, leaf, child * parallel + cable + 1);
            }
        }
    }
    Ok(fabric)
}

/// The name of the switches at `level`, from 1 to `height`.
fn level_name(level: usize, height: usize) -> String {
    match level {
        1 => "leaf".to_owned(),
        2 if height <= 3 => "spine".to_owned(),
        _ if level == height => "core".to_owned(),
        _ => format!("spine{level}"),
    }
}
