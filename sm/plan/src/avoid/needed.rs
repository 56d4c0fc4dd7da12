//! Selects the links that routes should avoid but need.

use std::collections::BTreeSet;

use rsm_ids::PortKey;
use rsm_model::fabric::Fabric;

use super::graph::{Components, Graph};

/// Selects the links among `candidates` that routes need, because no cable outside `out` connects
/// the same switches of `fabric`.
///
/// Links are given by either end, and all candidates are in `out`. Earlier candidates have
/// precedence over later ones. The selection connects the same switches as all candidates together,
/// and no smaller selection does.
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
    let mut joined = Components::of(&graph, is_in);
    let joins = |port: &PortKey| {
        let cable = graph.cable(*port);
        cable.is_some_and(|cable| joined.join(graph.cables[cable].ends))
    };
    candidates.filter(joins).collect()
}
