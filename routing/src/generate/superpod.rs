//! DGX SuperPOD, as in its published reference architectures.
//!
//! A scalable unit (SU) has 32 hosts with eight adapters each, and eight leaves, one for each
//! rail: adapter `r` of host `n` goes to leaf `r` of its unit, port `n mod 32`. All switches have
//! 64 ports.
//!
//! | units | leaf | spine | core | |
//! |---|---|---|---|---|
//! | 1, 2, 3, 4, 8 | 8, 16, 24, 32, 64 | 4, 8, 16, 16, 32 | | every leaf to every spine |
//! | 16, 32, 64 | 128, 256, 512 | 128, 256, 512 | 64, 128, 256 | rail groups, then cores |
//!
//! With three levels, leaves of one rail in several units (four; eight beyond 32 units) form a rail
//! group with equally many spines, and spine `j` of every group belongs to plane `j` of the cores.
//! Other numbers of units follow the same rules; cables that do not divide evenly are distributed
//! round-robin.

use super::GenerateError;
use super::fabric::{Fabric, host_name, numbered};
use super::spec::Spec;
use crate::netlist::LinkSpeed;

const DEFAULT_UNITS: u64 = 4;
const MAX_UNITS: u64 = 64;
const HOSTS: u64 = 32;
const RAILS: u64 = 8;
const RADIX: u64 = 64;
/// The number of a leaf's cables to spines, and of a spine's cables to cores: half of the ports,
/// for full bisection.
const UP: u64 = RADIX / 2;
/// The maximum number of units with two levels: a spine has a port for each of their leaves.
const MAX_TWO_LEVEL_UNITS: u64 = RADIX / RAILS;
/// The maximum number of units with rail groups of four: their spines reach every core of the
/// plane.
const MAX_SMALL_GROUP_UNITS: u64 = 32;

pub(super) fn build(spec: &Spec<'_>, speed: LinkSpeed) -> Result<Fabric, GenerateError> {
    spec.only(&["su"])?;
    let units = spec.number("su", 1..=MAX_UNITS)?.unwrap_or(DEFAULT_UNITS);
    let shape = Shape::new(units);
    let switches = shape.leaves + shape.spines + shape.cores;
    let host_ports = units * HOSTS * RAILS;
    let mut fabric = Fabric::with_room(spec, speed, switches, host_ports, RADIX)?;

    let mut leaves = Vec::new();
    for unit in 0..units {
        for rail in 0..RAILS {
            let name = format!("{}-leaf-{:02}", numbered("su", unit, units), rail + 1);
            leaves.push(fabric.switch(&name, RADIX));
        }
    }
    let switches = |fabric: &mut Fabric, name, count| -> Vec<usize> {
        (0..count)
            .map(|index| fabric.switch(&numbered(name, index, count), RADIX))
            .collect()
    };
    let spines = switches(&mut fabric, "spine", shape.spines);
    let cores = switches(&mut fabric, "core", shape.cores);

    for unit in 0..units {
        for rail in 0..RAILS {
            let leaf = leaves[(unit * RAILS + rail) as usize];
            // The first spine of this leaf's group, and the leaf's index in the group.
            let (first, place) = if shape.cores == 0 {
                (0, unit * RAILS + rail)
            } else {
                let group = unit / shape.group * RAILS + rail;
                (group * shape.group, unit % shape.group)
            };
            let parallel = UP / shape.group;
            for spine in 0..shape.group {
                for cable in 0..parallel {
                    let up = HOSTS + spine * parallel + cable + 1;
                    let down = place * parallel + cable + 1;
                    fabric.cable((leaf, up), (spines[(first + spine) as usize], down));
                }
            }
        }
    }
    if shape.cores > 0 {
        let in_plane = shape.cores / shape.group;
        for (index, &spine) in (0u64..).zip(&spines) {
            let (group, plane) = (index / shape.group, index % shape.group);
            for cable in 0..UP {
                let turn = group * UP + cable;
                let core = cores[(plane * in_plane + turn % in_plane) as usize];
                fabric.cable((spine, UP + cable + 1), (core, turn / in_plane + 1));
            }
        }
    }
    for host in 0..units * HOSTS {
        let name = host_name(host, units * HOSTS);
        for rail in 0..RAILS {
            let leaf = leaves[(host / HOSTS * RAILS + rail) as usize];
            fabric.adapter(&name, rail, leaf, host % HOSTS + 1);
        }
    }
    Ok(fabric)
}

/// The numbers of switches, for a number of units.
struct Shape {
    leaves: u64,
    spines: u64,
    /// The number of core switches; 0 with two levels.
    cores: u64,
    /// The number of spines to which a leaf is connected.
    group: u64,
}

impl Shape {
    fn new(units: u64) -> Shape {
        let leaves = units * RAILS;
        if units <= MAX_TWO_LEVEL_UNITS {
            // The uplinks need this many spines, rounded so that a leaf's 32 uplinks divide among
            // them.
            let spines = (leaves * UP).div_ceil(RADIX).next_power_of_two();
            return Shape {
                leaves,
                spines,
                cores: 0,
                group: spines,
            };
        }
        let group = if units <= MAX_SMALL_GROUP_UNITS { 4 } else { 8 };
        let spines = units.div_ceil(group) * RAILS * group;
        Shape {
            leaves,
            spines,
            cores: spines * UP / RADIX,
            group,
        }
    }
}
