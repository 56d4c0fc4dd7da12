//! Who was asked what.

use std::collections::{BTreeMap, BTreeSet};

use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::ids::DirectedPath;
use rsm_mad::transport::Datagram;
use rsm_mad::wire::header::{AttrId, Method};
use rsm_mad::wire::smp::Smp;
use rsm_sim::{AttachId, Sim};

/// Requests of subnet managers, by the node that they are for, as the cables lie when they are
/// sent. Retries count.
#[derive(Clone, Default, Debug)]
pub struct Ledger {
    counts: BTreeMap<(Guid, Method, AttrId), u64>,
}

impl Ledger {
    pub(super) fn enter(&mut self, sim: &Sim, from: AttachId, datagram: &Datagram) {
        let smp = Smp::from_bytes(&datagram.mad);
        let method = smp.header().method();
        if method != Method::GET && method != Method::SET {
            return;
        }
        let Some(local) = sim.local_port(from) else {
            return;
        };
        let node = if smp.is_directed() {
            end_of(sim, local.node_guid, &smp.path())
        } else {
            holder(sim, datagram.remote.lid).unwrap_or(local.node_guid)
        };
        *self
            .counts
            .entry((node, method, smp.header().attribute()))
            .or_default() += 1;
    }

    /// How often `method` was sent.
    #[must_use]
    pub fn count(&self, method: Method) -> u64 {
        self.counts
            .iter()
            .filter(|((_, sent, _), _)| *sent == method)
            .map(|(_, count)| count)
            .sum()
    }

    /// How often `attribute` of `node` was sent `method`.
    #[must_use]
    pub fn of(&self, node: Guid, method: Method, attribute: AttrId) -> u64 {
        self.counts
            .get(&(node, method, attribute))
            .copied()
            .unwrap_or(0)
    }

    /// The nodes that were sent `method` for `attribute`.
    #[must_use]
    pub fn nodes(&self, method: Method, attribute: AttrId) -> BTreeSet<Guid> {
        self.counts
            .keys()
            .filter(|(_, sent, about)| *sent == method && *about == attribute)
            .map(|&(node, ..)| node)
            .collect()
    }

    /// The attributes that were sent `method`, to whomever.
    #[must_use]
    pub fn attributes(&self, method: Method) -> BTreeSet<AttrId> {
        self.counts
            .keys()
            .filter(|(_, sent, _)| *sent == method)
            .map(|&(.., attribute)| attribute)
            .collect()
    }
}

/// Where a path ends. A way that leads nowhere counts for the last node on it.
fn end_of(sim: &Sim, from: Guid, path: &DirectedPath) -> Guid {
    let mut node = from;
    for &exit in path.hops() {
        match sim.peer(node, exit) {
            Ok(Some((next, _))) => node = next,
            _ => break,
        }
    }
    node
}

/// The node that has the LID.
fn holder(sim: &Sim, lid: Lid) -> Option<Guid> {
    let has = |&(node, port): &(Guid, PortNum)| {
        sim.port_info(node, port)
            .is_ok_and(|info| info.lid() == lid)
    };
    sim.end_ports().find(has).map(|(node, _)| node)
}
