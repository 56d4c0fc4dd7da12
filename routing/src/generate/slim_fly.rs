//! Slim Fly: any two switches are at most two hops apart, and for their number of ports there are
//! nearly as many switches as that permits.
//!
//! These are the graphs of McKay, Miller and Siran (Besta and Hoefler, "Slim Fly: a cost effective
//! low-diameter network topology", SC'14), for a prime number `q` with `q mod 4 = 1`. Switches are
//! (0, x, y) and (1, m, c), where x, y, m and c are numbers modulo `q`. Links connect:
//!
//! - (0, x, y) and (0, x, y') where `y - y'` is a square;
//! - (1, m, c) and (1, m, c') where `c - c'` is not a square;
//! - (0, x, y) and (1, m, c) where `y = m x + c`.

use super::fabric::{Fabric, host_name, numbered};
use super::spec::Spec;
use super::{GenerateError, GenerateReason};
use crate::netlist::LinkSpeed;

/// Builds the graph for the number `q` in the specification. Ports to hosts come last.
pub(super) fn build(spec: &Spec<'_>, speed: LinkSpeed) -> Result<Fabric, GenerateError> {
    let item = spec.positional("`q`", "a prime number like `5`", &["hosts"])?;
    let q = spec.in_range(item, "q", 5..=157)?;
    let is_prime = (2..q).all(|divisor| q % divisor != 0);
    if !is_prime || q % 4 != 1 {
        let (what, text) = ("`q`".to_owned(), q.to_string());
        let expected = "a prime number that leaves 1 when divided by 4";
        return Err(spec.error(item.at, GenerateReason::Range { what, text }, expected));
    }
    // A switch has q links to the other half, and links to half of the q - 1 others in its row.
    let degree = q + (q - 1) / 2;
    let hosts = spec.number("hosts", 0..=254)?.unwrap_or(1);
    let count = 2 * q * q;
    let mut fabric = Fabric::with_room(spec, speed, count, count * hosts, degree + hosts)?;
    let switches: Vec<usize> = (0..count)
        .map(|index| fabric.switch(&numbered("switch", index, count), degree + hosts))
        .collect();
    let mut next_port = vec![1; switches.len()];
    let mut connect = |a: u64, b: u64| {
        let ends = [a, b].map(|index| {
            let port = next_port[index as usize];
            next_port[index as usize] += 1;
            (switches[index as usize], port)
        });
        fabric.cable(ends[0], ends[1]);
    };
    let is_square = |number: u64| (1..q).any(|root| root * root % q == number);
    let at = |half: u64, row: u64, place: u64| (half * q + row) * q + place;
    for row in 0..q {
        for place in 0..q {
            for other in place + 1..q {
                let half = u64::from(!is_square(other - place));
                connect(at(half, row, place), at(half, row, other));
            }
            for slope in 0..q {
                let offset = (place + q * q - slope * row) % q;
                connect(at(0, row, place), at(1, slope, offset));
            }
        }
    }
    for host in 0..count * hosts {
        let switch = switches[(host / hosts) as usize];
        let port = degree + host % hosts + 1;
        fabric.adapter(&host_name(host, count * hosts), 0, switch, port);
    }
    Ok(fabric)
}
