//! Generates tori, and rings, which are tori of one dimension.

use super::fabric::{Fabric, host_name};
use super::spec::{Item, Spec};
use super::{GenerateError, GenerateReason};
use crate::netlist::{LinkSpeed, MAX_NODES, MAX_PORTS};

/// The maximum number of dimensions: beyond it even the smallest torus of a useful size has too
/// many LIDs.
const MAX_DIMENSIONS: usize = 6;

pub(super) fn build_torus(spec: &Spec<'_>, speed: LinkSpeed) -> Result<Fabric, GenerateError> {
    const EXPECTED: &str = "sizes like `4x4x4`";
    let item = spec.positional("the torus' size", EXPECTED, &["hosts"])?;
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
    build(spec, speed, &sizes, "torus")
}

pub(super) fn build_ring(spec: &Spec<'_>, speed: LinkSpeed) -> Result<Fabric, GenerateError> {
    let item: Item<'_> = spec.positional("the ring's size", "a number of switches", &["hosts"])?;
    let size = spec.in_range(item, "size", 3..=MAX_NODES as u64)?;
    build(spec, speed, &[size], "ring")
}

/// Builds rows of `sizes` switches. Port `2d+1` leads to the next switch in dimension `d`, port
/// `2d+2` to the previous one; host ports follow. In a dimension of two, next and previous are one
/// neighbour with one cable.
fn build(
    spec: &Spec<'_>,
    speed: LinkSpeed,
    sizes: &[u64],
    name: &str,
) -> Result<Fabric, GenerateError> {
    let hosts = spec.number("hosts", 0..=u64::from(MAX_PORTS))?.unwrap_or(1);
    let count = sizes.iter().copied().fold(1, u64::saturating_mul);
    let first_host_port = 2 * sizes.len() as u64 + 1;
    let radix = first_host_port - 1 + hosts;
    let all_hosts = count.saturating_mul(hosts);
    let mut fabric = Fabric::with_room(spec, speed, count, all_hosts, radix)?;

    let switches: Vec<usize> = (0..count)
        .map(|index| {
            let mut name = name.to_owned();
            let mut rest = index;
            for size in sizes {
                name += &format!("-{}", rest % size);
                rest /= size;
            }
            fabric.switch(&name, radix)
        })
        .collect();
    for index in 0..count {
        let mut stride = 1;
        for (&size, port) in sizes.iter().zip((1u64..).step_by(2)) {
            let place = index / stride % size;
            let next = index - place * stride + (place + 1) % size * stride;
            if size > 2 || (size == 2 && place == 0) {
                let (here, there) = (switches[index as usize], switches[next as usize]);
                fabric.cable((here, port), (there, port + 1));
            }
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
