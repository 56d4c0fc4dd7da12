//! Random graphs. No operator builds them, but a broken fabric may look like one.

use super::GenerateError;
use super::fabric::{Fabric, host_name, numbered};
use super::rng::Rng;
use super::spec::Spec;
use crate::netlist::{LinkSpeed, MAX_NODES, MAX_PORTS};

/// Builds a random tree first, so that all switches are connected, and then connects pairs of the
/// remaining ports at random. Two switches may get several cables. A pair at one switch gets no
/// cable, so that a few ports stay empty.
pub(super) fn build(spec: &Spec<'_>, speed: LinkSpeed) -> Result<Fabric, GenerateError> {
    spec.only(&["switches", "degree", "hosts", "seed"])?;
    let count = spec.required("switches", 1..=MAX_NODES as u64)?;
    // A tree of more than two switches needs some switches with two cables.
    let least = count.saturating_sub(1).min(2);
    let degree = spec.required("degree", least..=u64::from(MAX_PORTS))?;
    let hosts = spec.number("hosts", 0..=u64::from(MAX_PORTS))?.unwrap_or(1);
    let seed = spec.number("seed", 0..=u64::MAX)?.unwrap_or(0);
    let all_hosts = count * hosts;
    let mut fabric = Fabric::with_room(spec, speed, count, all_hosts, degree + hosts)?;
    let mut rng = Rng::new(seed);

    let switches: Vec<usize> = (0..count)
        .map(|index| fabric.switch(&numbered("switch", index, count), degree + hosts))
        .collect();
    let mut next_port = vec![1u64; switches.len()];
    let mut connect = |fabric: &mut Fabric, a: usize, b: usize| {
        let [a, b] = [a, b].map(|index| {
            let port = next_port[index];
            next_port[index] += 1;
            (switches[index], port)
        });
        fabric.cable(a, b);
    };
    // The switches in the tree, each listed as often as it has free ports.
    let mut free = vec![0; degree as usize];
    for new in 1..switches.len() {
        let index = rng.below(free.len());
        let parent = free.swap_remove(index);
        connect(&mut fabric, parent, new);
        free.resize(free.len() + degree as usize - 1, new);
    }
    for last in (1..free.len()).rev() {
        let other = rng.below(last + 1);
        free.swap(last, other);
    }
    for pair in free.chunks_exact(2) {
        if pair[0] != pair[1] {
            connect(&mut fabric, pair[0], pair[1]);
        }
    }
    for host in 0..all_hosts {
        let switch = switches[(host / hosts) as usize];
        let port = degree + host % hosts + 1;
        fabric.adapter(&host_name(host, all_hosts), 0, switch, port);
    }
    Ok(fabric)
}
