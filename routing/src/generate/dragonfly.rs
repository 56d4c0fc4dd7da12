//! Dragonflies: groups of switches, with cables between any two groups.
//!
//! In a dragonfly (Kim, Dally, Scott and Abts, ISCA'08), all switches of a group are neighbours and
//! have hosts. The groups of a dragonfly+ are two-level trees, with cables between the spines of
//! different groups:
//!
//! | parameter | meaning | Leonardo | JUPITER |
//! |---|---|---|---|
//! | `groups` | groups, or cells | 23 | 27 |
//! | `leaves`, `spines` | switches of a group | 18, 18 | 15, 16 |
//! | `hosts` | hosts at each leaf | | 64 |
//! | `local` | cables between a leaf and each spine of its group (1) | 1 | 2 |
//! | `links` | cables between any two groups (1), dealt out to the spines in turn | 18 | 20 |

use super::GenerateError;
use super::fabric::{Fabric, host_name, numbered};
use super::spec::Spec;
use crate::netlist::{LinkSpeed, MAX_NODES, MAX_PORTS};

/// Builds a dragonfly. Ports to hosts come first, then ports within the group, then ports to other
/// groups.
pub(super) fn build(spec: &Spec<'_>, speed: LinkSpeed) -> Result<Fabric, GenerateError> {
    spec.only(&["groups", "switches", "hosts", "links"])?;
    let ports = u64::from(MAX_PORTS);
    let groups = spec.required("groups", 1..=MAX_NODES as u64)?;
    let size = spec.required("switches", 1..=ports)?;
    let hosts = spec.required("hosts", 0..=ports)?;
    let links = spec.number("links", 1..=MAX_NODES as u64)?.unwrap_or(1);

    let inner = size - 1 + hosts;
    let radix = inner + ((groups - 1) * links).div_ceil(size);
    let count = groups * size;
    let mut fabric = Fabric::with_room(spec, speed, count, count * hosts, radix)?;
    let switches: Vec<usize> = (0..count)
        .map(|index| {
            let group = numbered("group", index / size, groups);
            let name = format!("{group}-{}", numbered("switch", index % size, size));
            fabric.switch(&name, radix)
        })
        .collect();
    for group in switches.chunks(size as usize) {
        for (one, &a) in (0..).zip(group) {
            for (other, &b) in (0..).zip(group).skip(one as usize + 1) {
                // A switch has no port for its own place: the ports for higher places are one
                // lower.
                fabric.cable((a, hosts + other), (b, hosts + one + 1));
            }
        }
    }
    connect_groups(&mut fabric, &switches, (groups, links), inner);
    for host in 0..count * hosts {
        let switch = switches[(host / hosts) as usize];
        fabric.adapter(&host_name(host, count * hosts), 0, switch, host % hosts + 1);
    }
    Ok(fabric)
}

/// Connects any two groups by `links` cables, which are distributed round-robin over the switches
/// of each group, from the port after `inner` on. `switches` holds the switches of all groups,
/// group by group.
fn connect_groups(
    fabric: &mut Fabric,
    switches: &[usize],
    (groups, links): (u64, u64),
    inner: u64,
) {
    let size = switches.len() as u64 / groups;
    // The number of cables to other groups that each group has so far.
    let mut used = vec![0u64; groups as usize];
    for one in 0..groups {
        for other in one + 1..groups {
            for _ in 0..links {
                let [a, b] = [one, other].map(|group| {
                    let turn = used[group as usize];
                    used[group as usize] += 1;
                    let switch = switches[(group * size + turn % size) as usize];
                    (switch, inner + turn / size + 1)
                });
                fabric.cable(a, b);
            }
        }
    }
}

/// Builds a dragonfly+. Ports of leaves to hosts and of spines to leaves come first.
pub(super) fn build_plus(spec: &Spec<'_>, speed: LinkSpeed) -> Result<Fabric, GenerateError> {
    spec.only(&["groups", "leaves", "spines", "hosts", "local", "links"])?;
    let ports = u64::from(MAX_PORTS);
    let groups = spec.required("groups", 1..=MAX_NODES as u64)?;
    let leaves = spec.required("leaves", 1..=ports)?;
    let spines = spec.required("spines", 1..=ports)?;
    let hosts = spec.required("hosts", 0..=ports)?;
    let local = spec.number("local", 1..=ports)?.unwrap_or(1);
    let links = spec.number("links", 1..=MAX_NODES as u64)?.unwrap_or(1);

    let leaf_radix = hosts + spines * local;
    let down = leaves * local;
    let spine_radix = down + ((groups - 1) * links).div_ceil(spines);
    let switches = groups * (leaves + spines);
    let all_hosts = groups * leaves * hosts;
    let largest = leaf_radix.max(spine_radix);
    let mut fabric = Fabric::with_room(spec, speed, switches, all_hosts, largest)?;

    let mut leaf_nodes = Vec::new();
    let mut spine_nodes = Vec::new();
    for group in 0..groups {
        let group = numbered("group", group, groups);
        for leaf in 0..leaves {
            let name = format!("{group}-{}", numbered("leaf", leaf, leaves));
            leaf_nodes.push(fabric.switch(&name, leaf_radix));
        }
        for spine in 0..spines {
            let name = format!("{group}-{}", numbered("spine", spine, spines));
            spine_nodes.push(fabric.switch(&name, spine_radix));
        }
    }
    let spine_of = |group: u64, spine: u64| spine_nodes[(group * spines + spine) as usize];
    for (index, &leaf) in (0u64..).zip(&leaf_nodes) {
        let (group, place) = (index / leaves, index % leaves);
        for spine in 0..spines {
            for cable in 0..local {
                let up = hosts + spine * local + cable + 1;
                let port = place * local + cable + 1;
                fabric.cable((leaf, up), (spine_of(group, spine), port));
            }
        }
    }
    connect_groups(&mut fabric, &spine_nodes, (groups, links), down);
    for host in 0..all_hosts {
        let leaf = leaf_nodes[(host / hosts) as usize];
        fabric.adapter(&host_name(host, all_hosts), 0, leaf, host % hosts + 1);
    }
    Ok(fabric)
}
