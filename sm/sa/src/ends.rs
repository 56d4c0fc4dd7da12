//! Ends: the ports and virtual ports to which packets can be addressed.

use std::collections::{BTreeSet, HashMap};

use rsm_ids::{Guid, Lid, Lmc, PortNum};
use rsm_mad::wire::attr::{NodeType, PortState};
use rsm_model::fabric::{Fabric, Node, Port, PortRef};
use rsm_model::vports::{VPort, VPortKey};
use rsm_plan::Plan;

use super::changed_nodes::ChangedNodes;

/// Index of an end in its [`Directory`](super::Directory), in the order of nodes and ports. Virtual
/// ports follow all physical ports.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EndIx(pub u32);

impl EndIx {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A physical or virtual port to which packets can be addressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EndPort {
    /// Physical port in the fabric: the end itself, or the port that has the virtual port.
    pub at: PortRef,
    /// GUID of the port or virtual port.
    pub guid: Guid,
    /// Base LID: the lowest LID of the end.
    pub lid: Lid,
    /// LID mask control: the port has 2^LMC LIDs.
    pub lmc: Lmc,
    /// Index of the virtual port; `None` for a physical port.
    pub vport: Option<u16>,
}

impl EndPort {
    /// LIDs of the port, starting with the lowest.
    pub fn lids(&self) -> impl ExactSizeIterator<Item = Lid> + Clone + use<> {
        let base = self.lid.0;
        // A base LID is recorded only if its whole range is unicast.
        (0..self.lmc.lids()).map(move |offset| Lid(base + offset))
    }
}

/// Entry of [`Ends::by_lid`] for a LID that no end has.
const NO_END: u32 = u32::MAX;

/// All ends of a snapshot, indexed by LID and by GUID.
#[derive(PartialEq, Debug)]
pub(super) struct Ends {
    /// Ends with a LID: ports in the order of nodes and ports, then virtual ports.
    all: Vec<EndPort>,
    /// Number of ends that are physical ports.
    ports: u32,
    /// Index of the end with each LID, by LID; [`NO_END`] if no end has the LID.
    by_lid: Vec<u32>,
    /// The first end with each GUID.
    by_guid: HashMap<Guid, EndIx>,
    /// Whether no two physical ports have the same GUID.
    guids_are_unique: bool,
    /// Virtual ports with records, each with the GUID of its virtual node, in ascending order.
    by_vnode: Vec<(Guid, EndIx)>,
    /// GUIDs of the ports in service, ascending.
    in_service: Vec<Guid>,
    /// The first port of a router; `None` if there is none.
    first_router: Option<EndIx>,
}

impl Ends {
    /// Collects the ports of `fabric` that have LIDs, and the virtual ports that `plan` serves.
    pub(super) fn of(fabric: &Fabric, plan: &Plan) -> Ends {
        let mut ends = Ends {
            all: Vec::new(),
            ports: 0,
            by_lid: Vec::new(),
            by_guid: HashMap::new(),
            guids_are_unique: true,
            by_vnode: Vec::new(),
            in_service: Vec::new(),
            first_router: None,
        };
        for (at, port) in fabric.end_ports() {
            let (lid, lmc) = (port.lid(), port.lmc());
            let end = u32::from(lid.0) + u32::from(lmc.lids());
            if lid.is_unicast() && end <= u32::from(Lid::UNICAST_LAST.0) + 1 {
                ends.add(EndPort {
                    at,
                    guid: port.guid,
                    lid,
                    lmc,
                    vport: None,
                });
            }
        }
        ends.ports = ends.all.len() as u32;
        ends.guids_are_unique = ends.by_guid.len() == ends.all.len();
        let is_router = |end: &EndPort| fabric.node(end.at.node).kind() == NodeType::Router;
        let first_router = ends.all.iter().position(is_router);
        ends.first_router = first_router.map(|position| EndIx(position as u32));
        ends.add_vports(fabric, plan);
        ends.by_vnode = ends.vnodes(fabric);
        let served = ends.all.iter().filter(|end| is_in_service(fabric, end));
        ends.in_service = served.map(|end| end.guid).collect();
        ends.in_service.sort_unstable();
        ends.in_service.dedup();
        ends
    }

    /// Whether the ends before a change are still valid after the change. Also false if one of the
    /// plans serves virtual ports, which are not compared.
    pub(super) fn stay_valid(changed: &ChangedNodes<'_>, plans: [&Plan; 2]) -> bool {
        let no_vports = plans.iter().all(|plan| plan.lids.vports.is_empty());
        no_vports
            && changed
                .iter()
                .all(|(_, before, now)| has_same_ends(before, now))
    }

    /// GUIDs of the ends that only one of `self` and `before` has, or for which `is_same` returns
    /// false for the indices in `self` and in `before`; may include other ends as well. `None` if
    /// two ends have the same GUID.
    pub(super) fn differing(
        &self,
        before: &Ends,
        is_same: impl Fn(EndIx, EndIx) -> bool,
    ) -> Option<BTreeSet<Guid>> {
        let are_unique = |ends: &Ends| ends.by_guid.len() == ends.all.len();
        if !are_unique(self) || !are_unique(before) {
            return None;
        }
        let mut differing = BTreeSet::new();
        let (mut index, mut index_before) = (0, 0);
        loop {
            match (self.all.get(index), before.all.get(index_before)) {
                (None, None) => return Some(differing),
                (Some(end), Some(end_before)) if end.guid == end_before.guid => {
                    if !is_same(EndIx(index as u32), EndIx(index_before as u32)) {
                        differing.insert(end.guid);
                    }
                    (index, index_before) = (index + 1, index_before + 1);
                }
                (Some(end), end_before)
                    if end_before.is_none() || before.by_guid(end.guid).is_none() =>
                {
                    differing.insert(end.guid);
                    index += 1;
                }
                // The port vanished, or has another index than before.
                (end, end_before) => {
                    differing.extend([end, end_before].into_iter().flatten().map(|end| end.guid));
                    index_before += 1;
                }
            }
        }
    }

    /// Adds an end with the next index.
    fn add(&mut self, end: EndPort) {
        let ix = EndIx(self.all.len() as u32);
        self.all.push(end);
        self.by_guid.entry(end.guid).or_insert(ix);
        let first = end.lid.index();
        let past_last = first + usize::from(end.lmc.lids());
        if self.by_lid.len() < past_last {
            self.by_lid.resize(past_last, NO_END);
        }
        // A LID that two ports have counts for the first port, until the next plan gives one of the
        // two ports another LID.
        for slot in &mut self.by_lid[first..past_last] {
            if *slot == NO_END {
                *slot = ix.0;
            }
        }
    }

    /// Adds the virtual ports that the plan serves, with their planned LIDs, so that a virtual port
    /// that becomes Active is known before its host can send a request.
    fn add_vports(&mut self, fabric: &Fabric, plan: &Plan) {
        if plan.lids.vports.is_empty() {
            return;
        }
        for (at, port) in fabric.end_ports() {
            let Some(vports) = port.vports.as_deref() else {
                continue;
            };
            let key = fabric.key(at);
            for (&index, vport) in &vports.vports {
                let lid = plan.lids.of_vport(vports, VPortKey::new(key, index));
                // The physical function is the port itself.
                let Some(lid) = lid.filter(|_| vport.guid() != port.guid) else {
                    continue;
                };
                self.add(EndPort {
                    at,
                    guid: vport.guid(),
                    lid,
                    lmc: Lmc::ZERO,
                    vport: Some(index),
                });
            }
        }
    }

    /// The value of [`Ends::by_vnode`].
    fn vnodes(&self, fabric: &Fabric) -> Vec<(Guid, EndIx)> {
        let vports = (self.ports..self.all.len() as u32).map(EndIx);
        let vports = vports.filter(|&ix| self.has_records(ix));
        let node = |ix: EndIx| Some(vport_of(fabric, self.get(ix))?.node.guid);
        let mut all: Vec<(Guid, EndIx)> = vports.filter_map(|ix| Some((node(ix)?, ix))).collect();
        all.sort_unstable();
        all
    }

    pub(super) fn all(&self) -> &[EndPort] {
        &self.all
    }

    /// The ends that are physical ports, in the order of nodes and ports.
    pub(super) fn ports(&self) -> &[EndPort] {
        &self.all[..self.ports as usize]
    }

    /// The end with this index.
    ///
    /// # Panics
    /// Panics if the index belongs to another directory and is out of range.
    pub(super) fn get(&self, ix: EndIx) -> &EndPort {
        &self.all[ix.index()]
    }

    /// The end that has `lid` in its LID range.
    pub(super) fn by_lid(&self, lid: Lid) -> Option<EndIx> {
        match self.by_lid.get(lid.index()) {
            None | Some(&NO_END) => None,
            Some(&ix) => Some(EndIx(ix)),
        }
    }

    /// The end with this GUID.
    pub(super) fn by_guid(&self, guid: Guid) -> Option<EndIx> {
        self.by_guid.get(&guid).copied()
    }

    /// The end of the physical port `at`; `None` if the port has no LID.
    pub(super) fn by_port(&self, at: PortRef) -> Option<EndIx> {
        let index = self.ports().binary_search_by_key(&at, |end| end.at).ok()?;
        Some(EndIx(index as u32))
    }

    /// Whether no two physical ports have the same GUID, so that [`Ends::by_guid`] finds each port.
    pub(super) fn guids_are_unique(&self) -> bool {
        self.guids_are_unique
    }

    /// Whether the end has its own records. A physical port has records. A virtual port has records
    /// only if no other end has its LID or GUID: a second record with the same LID would contradict
    /// the first.
    pub(super) fn has_records(&self, ix: EndIx) -> bool {
        let end = self.get(ix);
        let is_owner = || self.by_lid(end.lid) == Some(ix) && self.by_guid(end.guid) == Some(ix);
        end.vport.is_none() || is_owner()
    }

    /// The virtual ports with records at the virtual node with this GUID.
    pub(super) fn at_vnode(&self, guid: Guid) -> impl Iterator<Item = EndIx> + '_ {
        let first = self.by_vnode.partition_point(|&(node, _)| node < guid);
        let vports = self.by_vnode[first..].iter();
        let vports = vports.take_while(move |&&(node, _)| node == guid);
        vports.map(|&(_, ix)| ix)
    }

    /// GUIDs of the ends in service, ascending: switches, and Active ports of other nodes.
    pub(super) fn in_service(&self) -> &[Guid] {
        &self.in_service
    }

    /// The first port of a router; `None` if there is none.
    pub(super) fn first_router(&self) -> Option<EndIx> {
        self.first_router
    }
}

/// The virtual port of an end; `None` if the end is a physical port.
pub(super) fn vport_of<'a>(fabric: &'a Fabric, end: &EndPort) -> Option<&'a VPort> {
    fabric.port(end.at).vports.as_deref()?.get(end.vport?)
}

/// Whether the end is a switch, or an Active port or virtual port.
fn is_in_service(fabric: &Fabric, end: &EndPort) -> bool {
    if fabric.node(end.at.node).is_switch() {
        return true;
    }
    fabric.port(end.at).state() == PortState::Active
        && (end.vport.is_none() || vport_of(fabric, end).is_some_and(VPort::is_active))
}

/// Whether a node has the same end ports as before, with the same LIDs and the same ports Active.
fn has_same_ends(before: &Node, now: &Node) -> bool {
    let end = |(number, port): (PortNum, &Port)| {
        let is_active = port.state() == PortState::Active;
        (number, port.guid, port.lid(), port.lmc(), is_active)
    };
    let [before_ends, now_ends] = [before, now].map(|node| node.end_ports().map(end));
    before.kind() == now.kind() && before_ends.eq(now_ends)
}
