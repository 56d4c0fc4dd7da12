//! Dragonfly+: groups that are two-level trees, with cables between the spines of any two groups.
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

pub(super) fn build(spec: &Spec<'_>, speed: LinkSpeed) -> Result<Fabric, GenerateError> {
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
    // The number of cables to other groups that each group has so far.
    let mut dealt = vec![0u64; groups as usize];
    for one in 0..groups {
        for other in one + 1..groups {
            for _ in 0..links {
                let [a, b] = [one, other].map(|group| {
                    let turn = dealt[group as usize];
                    dealt[group as usize] += 1;
                    (spine_of(group, turn % spines), down + turn / spines + 1)
                });
                fabric.cable(a, b);
            }
        }
    }
    for host in 0..all_hosts {
        let leaf = leaf_nodes[(host / hosts) as usize];
        fabric.adapter(&host_name(host, all_hosts), 0, leaf, host % hosts + 1);
    }
    Ok(fabric)
}
