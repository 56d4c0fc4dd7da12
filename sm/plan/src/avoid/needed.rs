//! Selects the links that routes should avoid but need.

use std::collections::BTreeSet;

use rsm_ids::PortKey;
use rsm_model::fabric::Fabric;

use super::graph::{Graph, Joined};

/// The links among `candidates` that join switches of `fabric` which no cable outside `out` joins.
///
/// Links are given by either end, and all candidates are in `out`. Earlier candidates are chosen
/// before later ones, and only as many candidates as are required to join the same switches as all
/// candidates together.
pub fn needed(
    fabric: &Fabric,
    out: &BTreeSet<PortKey>,
    candidates: impl Iterator<Item = PortKey>,
) -> Vec<PortKey> {
    let mut candidates = candidates.peekable();
    if candidates.peek().is_none() {
        return Vec::new();
    }
    let graph = Graph::of(fabric, &BTreeSet::new());
    let is_in = |number: usize| {
        let ports = graph.cables[number].ports;
        !ports.iter().any(|port| out.contains(port))
    };
    let mut joined = Joined::by(&graph, is_in);
    let joins = |port: &PortKey| {
        let cable = graph.cable(*port);
        cable.is_some_and(|cable| joined.join(graph.cables[cable].ends))
    };
    candidates.filter(joins).collect()
}
