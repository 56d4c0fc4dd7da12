//! The three-level trees that benches run on.

use rsm_routing::topology::Topology;

use crate::common;

/// The trees whose names, their numbers of hosts, contain `wanted`, or all of them.
pub(crate) fn named(wanted: Option<&str>) -> impl Iterator<Item = (&'static str, Topology)> {
    let trees: [(&str, [&[usize]; 3]); 3] = [
        ("3456", [&[12, 12, 24], &[1, 12, 12], &[1, 1, 1]]),
        ("10240", [&[32, 32, 10], &[1, 32, 32], &[1, 1, 1]]),
        ("45056", [&[32, 32, 44], &[1, 32, 16], &[1, 1, 2]]),
    ];
    let named = trees
        .into_iter()
        .filter(move |(name, _)| wanted.is_none_or(|wanted| name.contains(wanted)));
    named.map(|(name, [m, w, p])| (name, common::pgft(m, w, p, 0)))
}
