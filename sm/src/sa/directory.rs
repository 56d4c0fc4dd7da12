//! Directory of the subnet's ports by LID, GUID and path: a snapshot arranged for queries of hosts.

use std::collections::HashMap;
use std::sync::Arc;

use rsm_ids::{Guid, Lid, Lmc, PortNum};
use rsm_mad::ids::Gid;
use rsm_mad::transport::RemoteAddress;
use rsm_mad::wire::attr::{NodeType, PKey, PortState};

use super::ends::{EndIx, EndPort};
use super::guids::AliasIndex;
use super::minima::Minima;
use super::partitions::Memberships;
use super::path_qos::PathQos;
use crate::config::RouterPort;
use crate::core::role::Identity;
use crate::core::snapshot::Snapshot;
use crate::fabric::{Fabric, Node, NodeIx, Port, PortRef};
use crate::plan::Plan;
use crate::vports::{VPort, VPortKey};

/// Entry of `by_lid` for a LID that no port holds.
const NOBODY: u32 = u32::MAX;

/// Entry of `rails` for a port on no rail.
const NO_RAIL: u16 = u16::MAX;

/// A snapshot of the subnet, by LID, by GUID and by path. Immutable; an answer in progress keeps
/// the directory that it began with. A clone shares all large parts.
#[derive(Clone, Debug)]
pub struct Directory {
    /// The subnet.
    pub fabric: Arc<Fabric>,
    /// The plan in force.
    pub plan: Arc<Plan>,
    /// The identity that other subnet managers know this one by.
    pub identity: Identity,
    /// GUID of the port that this subnet manager uses.
    pub own_guid: Guid,
    /// End ports that have a LID, in the order of nodes and ports, then virtual ports.
    ends: Arc<[EndPort]>,
    /// How many of `ends` are no virtual ports.
    ports: u32,
    by_lid: Arc<[u32]>,
    by_guid: Arc<HashMap<Guid, EndIx>>,
    /// Whether no two ports have the same GUID.
    guids_are_unique: bool,
    /// The virtual ports with records, by the GUIDs of their nodes, ascending.
    by_vnode: Arc<[(Guid, EndIx)]>,
    /// GUIDs of the ports in service, ascending.
    in_service: Arc<[Guid]>,
    /// The rail of each end port, [`NO_RAIL`] for a port on none; empty if no port is on a rail.
    rails: Arc<[u16]>,
    pub(super) memberships: Arc<Memberships>,
    pub(super) minima: Arc<Minima>,
    /// `None`: any service level will do, and no rules are about paths.
    pub(super) qos: Option<Arc<PathQos>>,
    /// The first port of a router, in the order of `ends`.
    first_router: Option<EndIx>,
    /// Alias GUIDs of the ports.
    names: AliasIndex,
}

impl Directory {
    /// The directory of `snapshot`: `previous` if fabric, plan and identity are the same, `None` if
    /// there is no plan.
    pub(super) fn of(
        snapshot: &Snapshot,
        previous: Option<&Arc<Directory>>,
    ) -> Option<Arc<Directory>> {
        let plan = snapshot.plan.as_ref()?;
        if let Some(same) = previous.filter(|previous| {
            Arc::ptr_eq(&previous.fabric, &snapshot.fabric)
                && Arc::ptr_eq(&previous.plan, plan)
                && previous.identity == snapshot.identity
        }) {
            return Some(same.clone());
        }
        let previous = previous.map(Arc::as_ref);
        Some(Arc::new(Directory::build(snapshot, plan.clone(), previous)))
    }

    fn build(snapshot: &Snapshot, plan: Arc<Plan>, previous: Option<&Directory>) -> Directory {
        let fabric = snapshot.fabric.clone();
        let mut ends = Vec::new();
        let mut by_lid = Vec::new();
        let mut by_guid = HashMap::new();
        for (at, port) in fabric.end_ports() {
            let (lid, lmc) = (port.lid(), port.lmc());
            let end = u32::from(lid.0) + u32::from(lmc.lids());
            if !lid.is_unicast() || end > u32::from(Lid::UNICAST_LAST.0) + 1 {
                continue;
            }
            let ix = EndIx(ends.len() as u32);
            ends.push(EndPort {
                at,
                guid: port.guid,
                lid,
                lmc,
                vport: None,
            });
            by_guid.entry(port.guid).or_insert(ix);
            let end = end as usize;
            if by_lid.len() < end {
                by_lid.resize(end, NOBODY);
            }
            // Where two ports claim a LID, the first has it until the next plan has parted them.
            for slot in &mut by_lid[lid.index()..end] {
                if *slot == NOBODY {
                    *slot = ix.0;
                }
            }
        }
        let ports = ends.len() as u32;
        let guids_are_unique = by_guid.len() == ends.len();
        add_vports(&fabric, &plan, &mut ends, &mut by_lid, &mut by_guid);
        let minima = Minima::new(
            &fabric,
            &plan,
            &ends,
            // Where a later plan was refused, the proof of this one is of another fabric.
            snapshot.refused_plan.is_none(),
            previous.map(|previous| &*previous.minima),
        );
        let is_router = |end: &EndPort| {
            end.vport.is_none() && fabric.node(end.at.node).kind() == NodeType::Router
        };
        let first_router = ends.iter().position(is_router);
        let memberships = Memberships::of(&fabric, &plan, &ends);
        let qos = PathQos::of(&fabric, &plan, &ends, &memberships);
        let mut in_service: Vec<Guid> = ends
            .iter()
            .filter(|end| is_in_service(&fabric, end))
            .map(|end| end.guid)
            .collect();
        in_service.sort_unstable();
        in_service.dedup();
        let rails = &plan.order.rails;
        let rail = |end: &EndPort| rails.get(&end.guid).copied().unwrap_or(NO_RAIL);
        let rails: Vec<u16> = match rails.is_empty() {
            true => Vec::new(),
            false => ends.iter().map(rail).collect(),
        };
        let mut directory = Directory {
            fabric,
            plan,
            identity: snapshot.identity,
            own_guid: snapshot.own_guid,
            memberships: Arc::new(memberships),
            ports,
            ends: ends.into(),
            by_lid: by_lid.into(),
            by_guid: Arc::new(by_guid),
            guids_are_unique,
            by_vnode: Arc::new([]),
            in_service: in_service.into(),
            rails: rails.into(),
            minima: Arc::new(minima),
            qos: qos.map(Arc::new),
            first_router: first_router.map(|position| EndIx(position as u32)),
            names: AliasIndex::default(),
        };
        directory.by_vnode = directory.vnodes().into();
        directory
    }

    /// The same directory with these alias GUIDs.
    pub(super) fn with_names(&self, names: &AliasIndex) -> Directory {
        Directory {
            names: names.clone(),
            ..self.clone()
        }
    }

    /// Alias GUIDs of the ports.
    pub(super) fn names(&self) -> &AliasIndex {
        &self.names
    }

    /// How many end ports there are that are no virtual ports; they come first.
    pub(super) fn ports(&self) -> u32 {
        self.ports
    }

    /// The virtual port of an end; `None` for the ends of ports.
    pub(super) fn vport(&self, ix: EndIx) -> Option<&VPort> {
        let end = self.end(ix);
        self.fabric.port(end.at).vports.as_deref()?.get(end.vport?)
    }

    /// Whether the end has records of its own: a port has, and a virtual port with a LID and a GUID
    /// that are no other end's. A second record of a LID would contradict the first.
    pub(super) fn has_records(&self, ix: EndIx) -> bool {
        let end = self.end(ix);
        let is_owner = || self.by_lid(end.lid) == Some(ix) && self.by_guid(end.guid) == Some(ix);
        end.vport.is_none() || is_owner()
    }

    /// All virtual ports with records, by the GUIDs of their nodes, ascending.
    fn vnodes(&self) -> Vec<(Guid, EndIx)> {
        let vports = (self.ports..self.ends.len() as u32).map(EndIx);
        let vports = vports.filter(|&ix| self.has_records(ix));
        let by_node = vports.filter_map(|ix| Some((self.vport(ix)?.node.guid, ix)));
        let mut all: Vec<(Guid, EndIx)> = by_node.collect();
        all.sort_unstable();
        all
    }

    /// The ends with records at the node with this GUID, virtual nodes included.
    pub(super) fn at_node(&self, guid: Guid) -> Vec<EndIx> {
        let ports = &self.ends[..self.ports as usize];
        let of_node = |node: NodeIx| {
            let first = ports.partition_point(|end| end.at.node < node);
            let count = ports[first..].partition_point(|end| end.at.node == node);
            (first..first + count).map(|position| EndIx(position as u32))
        };
        let mut all: Vec<EndIx> = self
            .fabric
            .find(guid)
            .into_iter()
            .flat_map(of_node)
            .collect();
        let first = self.by_vnode.partition_point(|&(node, _)| node < guid);
        let vports = self.by_vnode[first..].iter();
        let vports = vports.take_while(|&&(node, _)| node == guid);
        all.extend(vports.map(|&(_, ix)| ix));
        all
    }

    /// Whether no two ports have the same GUID: [`Directory::by_guid`] then finds all with one.
    pub(super) fn guids_are_unique(&self) -> bool {
        self.guids_are_unique
    }

    /// Whether packets to the port must have a global route header: a virtual port that shares its
    /// LID is told apart by its GID alone.
    pub(super) fn needs_grh(&self, ix: EndIx) -> bool {
        let end = self.end(ix);
        end.vport.is_some() && self.by_lid(end.lid) != Some(ix)
    }

    /// The end that sent a request from `lid`, by its global route header if that is of a virtual
    /// port with this LID.
    pub(super) fn requester(&self, address: &RemoteAddress) -> Option<EndIx> {
        let by_lid = self.by_lid(address.lid)?;
        let by_gid = address.grh.and_then(|grh| self.by_gid(grh.gid));
        let is_there = |ix: &EndIx| {
            let end = self.end(*ix);
            end.vport.is_some() && end.lid == address.lid
        };
        Some(by_gid.filter(is_there).unwrap_or(by_lid))
    }

    /// How many end ports there are, virtual ports included.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no end port.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// An end port.
    ///
    /// # Panics
    /// When the number is of another directory and out of range.
    pub fn end(&self, ix: EndIx) -> &EndPort {
        &self.ends[ix.index()]
    }

    /// The port that holds `lid`, its base LID or another.
    pub fn by_lid(&self, lid: Lid) -> Option<EndIx> {
        match self.by_lid.get(lid.index()) {
            None | Some(&NOBODY) => None,
            Some(&ix) => Some(EndIx(ix)),
        }
    }

    /// The port with this GUID.
    pub fn by_guid(&self, guid: Guid) -> Option<EndIx> {
        self.by_guid.get(&guid).copied()
    }

    /// The port with this GUID, its own or an alias GUID.
    pub fn by_name(&self, guid: Guid) -> Option<EndIx> {
        let alias = || self.by_guid(self.names.owner(guid)?);
        self.by_guid(guid).or_else(alias)
    }

    /// The port with this GID, of its own or an alias GUID, with the prefix of the subnet or the
    /// link-local one.
    pub fn by_gid(&self, gid: Gid) -> Option<EndIx> {
        let here = gid.prefix() == self.prefix() || gid.prefix() == Gid::LINK_LOCAL;
        here.then(|| self.by_name(gid.guid())).flatten()
    }

    /// The port of the router that leads to a GID of another subnet, by the operator's routes.
    /// `None` for a GID of this subnet, and where no route leads to a port that is here.
    pub(super) fn router_to(&self, gid: Gid) -> Option<EndIx> {
        let prefix = gid.prefix();
        if prefix == self.prefix() || prefix == Gid::LINK_LOCAL || gid.is_multicast() {
            return None;
        }
        match self.plan.policy.prefix_routes.router(prefix)? {
            RouterPort::Port(guid) => self.by_guid(guid),
            RouterPort::Any => self.first_router,
        }
    }

    /// Index of the LID, among `lids`, by which the first port best reaches the second: the
    /// distance of their rails modulo `lids`, 0 if either is on no rail.
    ///
    /// Most traffic stays within a rail and uses base LIDs, whose routes are spread without
    /// contention. Traffic from other rails has LIDs, and so routes, of its own.
    pub(super) fn rails_apart(&self, from: EndIx, to: EndIx, lids: usize) -> usize {
        let rail = |end: EndIx| self.rails.get(end.index()).copied();
        match (rail(from), rail(to)) {
            (Some(from), Some(to)) if from != NO_RAIL && to != NO_RAIL && lids > 0 => {
                (i32::from(from) - i32::from(to)).rem_euclid(lids as i32) as usize
            }
            _ => 0,
        }
    }

    /// The GUIDs, ascending, of the ports in service: Active ports of channel adapters, and
    /// switches.
    pub(super) fn in_service(&self) -> &[Guid] {
        &self.in_service
    }

    /// The upper half of every GID in the subnet.
    pub fn prefix(&self) -> u64 {
        self.plan.policy.ports.subnet_prefix
    }

    /// The GID of an end port.
    pub fn gid(&self, ix: EndIx) -> Gid {
        Gid::new(self.prefix(), self.end(ix).guid)
    }

    /// The node and the port as the fabric knows them.
    pub fn port(&self, ix: EndIx) -> (&Node, &Port) {
        let at = self.end(ix).at;
        (self.fabric.node(at.node), self.fabric.port(at))
    }

    /// The LID that records give for a port: for a switch port that of port 0, for others their
    /// own. `None` if there is none.
    pub fn lid_of(&self, at: PortRef) -> Option<Lid> {
        let node = self.fabric.node(at.node);
        let number = if node.is_switch() {
            PortNum::ZERO
        } else {
            at.port
        };
        let lid = node.ports.get(number.index())?.lid();
        lid.is_unicast().then_some(lid)
    }

    /// The partitions of an end port, in the order of its table.
    pub fn p_keys(&self, ix: EndIx) -> &[PKey] {
        self.memberships.table(ix)
    }

    /// The P_Key table of an external port of a switch; `None` where none is planned.
    pub fn switch_p_keys(&self, at: PortRef) -> Option<&[PKey]> {
        let table = self.plan.partitions.table(self.fabric.key(at));
        table.map(|table| &table[..])
    }

    /// The service level of a partition.
    pub fn service_level(&self, p_key: PKey) -> u8 {
        let partition = self.plan.policy.partitions.find(p_key);
        partition.map_or(0, |partition| partition.sl)
    }

    /// The partitions in which `a` and `b` can talk, as the table of `a` has them.
    pub fn common_p_keys(&self, a: EndIx, b: EndIx) -> impl Iterator<Item = PKey> + '_ {
        self.memberships.common(a, b)
    }

    /// Whether `a` may know of `b`: they share a partition.
    pub fn may_see(&self, a: EndIx, b: EndIx) -> bool {
        self.memberships.may_see(a, b)
    }
}

fn is_in_service(fabric: &Fabric, end: &EndPort) -> bool {
    let port = fabric.port(end.at);
    if fabric.node(end.at.node).is_switch() {
        return true;
    }
    let vports = || port.vports.as_deref()?.get(end.vport?);
    port.state() == PortState::Active
        && (end.vport.is_none() || vports().is_some_and(VPort::is_active))
}

/// Adds the virtual ports that the plan serves, with the LIDs of the plan: one that becomes Active
/// is known before its host can ask.
fn add_vports(
    fabric: &Fabric,
    plan: &Plan,
    ends: &mut Vec<EndPort>,
    by_lid: &mut Vec<u32>,
    by_guid: &mut HashMap<Guid, EndIx>,
) {
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
            let ix = EndIx(ends.len() as u32);
            ends.push(EndPort {
                at,
                guid: vport.guid(),
                lid,
                lmc: Lmc::ZERO,
                vport: Some(index),
            });
            by_guid.entry(vport.guid()).or_insert(ix);
            if by_lid.len() <= lid.index() {
                by_lid.resize(lid.index() + 1, NOBODY);
            }
            if by_lid[lid.index()] == NOBODY {
                by_lid[lid.index()] = ix.0;
            }
        }
    }
}
