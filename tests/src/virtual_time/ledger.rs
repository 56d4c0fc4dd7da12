//! Counts the requests of subnet managers by target node, method and attribute.

use std::collections::{BTreeMap, BTreeSet};

use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::ids::DirectedPath;
use rsm_mad::transport::Datagram;
use rsm_mad::wire::header::{AttrId, Method};
use rsm_mad::wire::smp::Smp;
use rsm_sim::{AttachId, Sim};

/// The numbers of Gets and Sets that subnet managers have sent, including retries. The target node
/// of a request is the node to which its directed path or LID led when the request was sent.
#[derive(Clone, Default, Debug)]
pub struct Ledger {
    /// The number of requests by target node, method and attribute.
    counts: BTreeMap<(Guid, Method, AttrId), u64>,
}

impl Ledger {
    /// Counts a datagram if it is a Get or a Set. A request to a LID that no port holds counts for
    /// the sender's node.
    pub(super) fn record(&mut self, sim: &Sim, from: AttachId, datagram: &Datagram) {
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

    /// The number of requests with `method`.
    #[must_use]
    pub fn count(&self, method: Method) -> u64 {
        self.counts
            .iter()
            .filter(|((_, counted, _), _)| *counted == method)
            .map(|(_, count)| count)
            .sum()
    }

    /// The number of requests with `method` for `attribute` of `node`.
    #[must_use]
    pub fn of(&self, node: Guid, method: Method, attribute: AttrId) -> u64 {
        self.counts
            .get(&(node, method, attribute))
            .copied()
            .unwrap_or(0)
    }

    /// The number of requests with `method`, by node and attribute.
    #[must_use]
    pub fn counts(&self, method: Method) -> BTreeMap<(Guid, AttrId), u64> {
        let counts = self.counts.iter();
        let counted = counts.filter(|((_, counted, _), _)| *counted == method);
        counted
            .map(|(&(node, _, attribute), &count)| ((node, attribute), count))
            .collect()
    }

    /// The target nodes of requests with `method` for `attribute`.
    #[must_use]
    pub fn nodes(&self, method: Method, attribute: AttrId) -> BTreeSet<Guid> {
        self.counts
            .keys()
            .filter(|(_, counted, requested)| *counted == method && *requested == attribute)
            .map(|&(node, ..)| node)
            .collect()
    }

    /// The attributes of requests with `method`, to any node.
    #[must_use]
    pub fn attributes(&self, method: Method) -> BTreeSet<AttrId> {
        self.counts
            .keys()
            .filter(|(_, counted, _)| *counted == method)
            .map(|&(.., attribute)| attribute)
            .collect()
    }
}

/// The node at the end of a directed path from `from`. A path that leads out of a port without a
/// cable ends at the node of that port.
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

/// The node that holds `lid`; `None` if no end port holds it.
fn holder(sim: &Sim, lid: Lid) -> Option<Guid> {
    let has = |&(node, port): &(Guid, PortNum)| {
        sim.port_info(node, port)
            .is_ok_and(|info| info.lid() == lid)
    };
    sim.end_ports().find(has).map(|(node, _)| node)
}
