//! Xpander: a random lift of the complete graph, in which switches are few hops apart.
//!
//! The switches form `degree + 1` groups of equal size. Between any two groups, a random matching
//! connects each switch of one with one switch of the other; no cable connects two switches of one
//! group (Valadarsky, Shahaf, Dinitz and Schapira, "Xpander: towards optimal-performance
//! datacenters", CoNEXT'16).

use super::GenerateError;
use super::fabric::{Fabric, host_name, numbered};
use super::rng::Rng;
use super::spec::Spec;
use crate::netlist::{LinkSpeed, MAX_NODES, MAX_PORTS};

/// Builds the fabric. Ports 1 to `degree` of a switch lead to the other groups, in the order of the
/// groups; ports to hosts follow.
pub(super) fn build(spec: &Spec<'_>, speed: LinkSpeed) -> Result<Fabric, GenerateError> {
    spec.only(&["degree", "size", "hosts", "seed"])?;
    let degree = spec.required("degree", 2..=u64::from(MAX_PORTS))?;
    let size = spec.required("size", 1..=MAX_NODES as u64)?;
    let hosts = spec.number("hosts", 0..=u64::from(MAX_PORTS))?.unwrap_or(1);
    let seed = spec.number("seed", 0..=u64::MAX)?.unwrap_or(0);
    let count = (degree + 1).saturating_mul(size);
    let all_hosts = count.saturating_mul(hosts);
    let mut fabric = Fabric::with_room(spec, speed, count, all_hosts, degree + hosts)?;
    let switches: Vec<usize> = (0..count)
        .map(|index| {
            let group = numbered("group", index / size, degree + 1);
            let name = format!("{group}-{}", numbered("switch", index % size, size));
            fabric.switch(&name, degree + hosts)
        })
        .collect();
    let mut rng = Rng::new(seed);
    for first in 0..=degree {
        for other in first + 1..=degree {
            let mut partners: Vec<u64> = (0..size).collect();
            rng.shuffle(&mut partners);
            for (place, partner) in (0..size).zip(partners) {
                let a = switches[(first * size + place) as usize];
                let b = switches[(other * size + partner) as usize];
                // A switch has no port for its own group: the ports for higher groups are one
                // lower.
                fabric.cable((a, other), (b, first + 1));
            }
        }
    }
    for host in 0..all_hosts {
        let switch = switches[(host / hosts) as usize];
        let port = degree + host % hosts + 1;
        fabric.adapter(&host_name(host, all_hosts), 0, switch, port);
    }
    Ok(fabric)
}
