//! The directory of the subnet's ports by LID and GUID, and of the paths between them: a snapshot,
//! indexed for queries of hosts.

use std::collections::BTreeSet;
use std::sync::Arc;

use rsm_config::RouterPort;
use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::ids::Gid;
use rsm_mad::transport::RemoteAddress;
use rsm_mad::wire::attr::PKey;
use rsm_model::fabric::{Fabric, Node, NodeIx, Port, PortRef};
use rsm_model::vports::VPort;
use rsm_plan::Plan;
use rsm_state::{Identity, Snapshot};

use super::alias_index::AliasIndex;
use super::changed_nodes::ChangedNodes;
use super::ends::{EndIx, EndPort, Ends, vport_of};
use super::minima::Minima;
use super::partitions::Memberships;
use super::path_qos::PathQos;

/// Entry of [`Directory::rails`] for a port on no rail.
const NO_RAIL: u16 = u16::MAX;

/// A snapshot of the subnet, indexed by LID, GUID and path. Immutable; an answer in progress keeps
/// the directory that it started with. Clones share all large parts.
#[derive(Clone, Debug)]
pub struct Directory {
    /// The subnet.
    pub fabric: Arc<Fabric>,
    /// The plan in force.
    pub plan: Arc<Plan>,
    /// The identity of this subnet manager towards other managers.
    pub identity: Identity,
    /// GUID of the port that this subnet manager uses.
    pub own_guid: Guid,
    ends: Arc<Ends>,
    /// Rail of each end port by [`EndIx`], [`NO_RAIL`] for a port on none; empty if no port is on a
    /// rail.
    rails: Arc<Vec<u16>>,
    pub(super) memberships: Arc<Memberships>,
    pub(super) minima: Arc<Minima>,
    /// Rules about the service levels of paths; `None` if no rules apply, and a path may have any
    /// service level.
    pub(super) qos: Option<Arc<PathQos>>,
    /// Alias GUIDs of the ports.
    alias_index: AliasIndex,
}

impl Directory {
    /// The directory of `snapshot`: `previous` itself if fabric, plan and identity are the same;
    /// `None` if there is no plan.
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

    /// Builds the directory of a snapshot. Shares with `previous` everything that has not changed.
    fn build(snapshot: &Snapshot, plan: Arc<Plan>, previous: Option<&Directory>) -> Directory {
        let fabric = snapshot.fabric.clone();
        let unchanged =
            previous.and_then(|previous| UnchangedPorts::between(previous, &fabric, &plan));
        let unchanged = unchanged.as_ref();
        let ends = unchanged.map(|unchanged| &unchanged.previous.ends);
        let ends = reuse_or_make(ends, || Ends::of(&fabric, &plan));
        let minima = Minima::new(
            (&fabric, &plan),
            &ends,
            // If a later plan was refused, the proof of this plan is about another fabric.
            snapshot.refused_plan.is_none(),
            previous.map(|previous| &*previous.minima),
            unchanged.map(|unchanged| &unchanged.changed),
        );
        let memberships = unchanged
            .filter(|unchanged| unchanged.keeps_memberships(&fabric, &plan))
            .map(|unchanged| &unchanged.previous.memberships);
        let memberships =
            reuse_or_make(memberships, || Memberships::of(&fabric, &plan, ends.all()));
        let rails = unchanged
            .filter(|unchanged| unchanged.keeps_rails(&plan))
            .map(|unchanged| &unchanged.previous.rails);
        let rails = reuse_or_make(rails, || rails_of(&plan, &ends));
        let qos = PathQos::of(&fabric, &plan, ends.all(), &memberships);
        Directory {
            fabric,
            plan,
            identity: snapshot.identity,
            own_guid: snapshot.own_guid,
            memberships,
            ends,
            rails,
            minima: Arc::new(minima),
            qos: qos.map(Arc::new),
            alias_index: AliasIndex::default(),
        }
    }

    /// GUIDs of the ports that only one of the directories `self` and `before` contains, or whose
    /// partitions differ; may include other ports as well. `None` if any port may differ, for
    /// example because two ports have the same GUID.
    pub(super) fn differing_members(&self, before: &Directory) -> Option<BTreeSet<Guid>> {
        if !Arc::ptr_eq(&self.plan.policy, &before.plan.policy) {
            return None;
        }
        let shares_ends = Arc::ptr_eq(&self.ends, &before.ends);
        if shares_ends && Arc::ptr_eq(&self.memberships, &before.memberships) {
            return Some(BTreeSet::new());
        }
        self.ends.differing(&before.ends, |now, then| {
            self.memberships.table(now) == before.memberships.table(then)
        })
    }

    /// This directory with the alias GUIDs in `alias_index`.
    pub(super) fn with_alias_index(&self, alias_index: &AliasIndex) -> Directory {
        Directory {
            alias_index: alias_index.clone(),
            ..self.clone()
        }
    }

    /// Alias GUIDs of the ports.
    pub(super) fn alias_index(&self) -> &AliasIndex {
        &self.alias_index
    }

    /// Number of ends that are physical ports. Physical ports have the lowest indices; virtual
    /// ports follow.
    pub(super) fn ports(&self) -> u32 {
        self.ends.ports().len() as u32
    }

    /// The virtual port of the end `ix`; `None` for a physical port.
    pub(super) fn vport(&self, ix: EndIx) -> Option<&VPort> {
        vport_of(&self.fabric, self.end(ix))
    }

    /// Whether the end has its own records; see [`Ends::has_records`].
    pub(super) fn has_records(&self, ix: EndIx) -> bool {
        self.ends.has_records(ix)
    }

    /// The ends with records at the node or virtual node with this GUID.
    pub(super) fn at_node(&self, guid: Guid) -> Vec<EndIx> {
        let ports = self.ends.ports();
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
        all.extend(self.ends.at_vnode(guid));
        all
    }

    /// Whether no two ports have the same GUID, so that [`Directory::by_guid`] finds every port.
    pub(super) fn guids_are_unique(&self) -> bool {
        self.ends.guids_are_unique()
    }

    /// Whether packets to the end need a global route header, because it is a virtual port that
    /// shares its LID and is distinguished only by its GID.
    pub(super) fn needs_grh(&self, ix: EndIx) -> bool {
        let end = self.end(ix);
        end.vport.is_some() && self.by_lid(end.lid) != Some(ix)
    }

    /// The end that sent a request from `address`. If several ends share the LID, the global route
    /// header selects the virtual port. `None` if no end has the LID.
    pub(super) fn requester(&self, address: &RemoteAddress) -> Option<EndIx> {
        let by_lid = self.by_lid(address.lid)?;
        let by_gid = address.grh.and_then(|grh| self.by_gid(grh.gid));
        let shares_lid = |ix: &EndIx| {
            let end = self.end(*ix);
            end.vport.is_some() && end.lid == address.lid
        };
        Some(by_gid.filter(shares_lid).unwrap_or(by_lid))
    }

    /// Number of ends, including virtual ports.
    pub fn len(&self) -> usize {
        self.ends.all().len()
    }

    /// Whether there are no ends.
    pub fn is_empty(&self) -> bool {
        self.ends.all().is_empty()
    }

    /// The end with this index.
    ///
    /// # Panics
    /// Panics if the index belongs to another directory and is out of range.
    pub fn end(&self, ix: EndIx) -> &EndPort {
        self.ends.get(ix)
    }

    /// Index of the end that has `lid` in its LID range.
    pub fn by_lid(&self, lid: Lid) -> Option<EndIx> {
        self.ends.by_lid(lid)
    }

    /// The end with this GUID.
    pub fn by_guid(&self, guid: Guid) -> Option<EndIx> {
        self.ends.by_guid(guid)
    }

    /// The end with this port GUID or alias GUID.
    pub fn by_guid_or_alias(&self, guid: Guid) -> Option<EndIx> {
        let alias = || self.by_guid(self.alias_index.owner(guid)?);
        self.by_guid(guid).or_else(alias)
    }

    /// The end with this GID, which consists of the prefix of the subnet or the link-local prefix,
    /// and a port GUID or alias GUID.
    pub fn by_gid(&self, gid: Gid) -> Option<EndIx> {
        let here = gid.prefix() == self.prefix() || gid.prefix() == Gid::LINK_LOCAL;
        here.then(|| self.by_guid_or_alias(gid.guid())).flatten()
    }

    /// The router's port that leads to a GID of another subnet according to the operator's prefix
    /// routes. `None` for a GID of this subnet, or if no route leads to a port in the directory.
    pub(super) fn router_to(&self, gid: Gid) -> Option<EndIx> {
        let prefix = gid.prefix();
        if prefix == self.prefix() || prefix == Gid::LINK_LOCAL || gid.is_multicast() {
            return None;
        }
        match self.plan.policy.prefix_routes.router(prefix)? {
            RouterPort::Port(guid) => self.by_guid(guid),
            RouterPort::Any => self.ends.first_router(),
        }
    }

    /// Index of the LID, among the `lids` LIDs of port `to`, that port `from` uses first: the
    /// distance of their rails modulo `lids`, or 0 if either port is on no rail.
    ///
    /// Most traffic stays within a rail and uses base LIDs, whose routes are spread without
    /// contention. Traffic between rails uses other LIDs, and therefore other routes.
    pub(super) fn first_lid_index(&self, from: EndIx, to: EndIx, lids: usize) -> usize {
        let rail = |end: EndIx| self.rails.get(end.index()).copied();
        match (rail(from), rail(to)) {
            (Some(from), Some(to)) if from != NO_RAIL && to != NO_RAIL && lids > 0 => {
                (i32::from(from) - i32::from(to)).rem_euclid(lids as i32) as usize
            }
            _ => 0,
        }
    }

    /// GUIDs of the ports in service; see [`Ends::in_service`].
    pub(super) fn in_service(&self) -> &[Guid] {
        self.ends.in_service()
    }

    /// Subnet prefix: the upper half of every GID in the subnet.
    pub fn prefix(&self) -> u64 {
        self.plan.policy.ports.subnet_prefix
    }

    /// The GID of an end port.
    pub fn gid(&self, ix: EndIx) -> Gid {
        Gid::new(self.prefix(), self.end(ix).guid)
    }

    /// Node and port of an end in the fabric.
    pub fn port(&self, ix: EndIx) -> (&Node, &Port) {
        let at = self.end(ix).at;
        (self.fabric.node(at.node), self.fabric.port(at))
    }

    /// GUID of the physical port of an end, to which the shares of its virtual ports are charged.
    pub(super) fn physical_guid(&self, ix: EndIx) -> Guid {
        let end = self.end(ix);
        match end.vport {
            Some(_) => self.port(ix).1.guid,
            None => end.guid,
        }
    }

    /// The LID in records about a port: the LID of port 0 for a switch port, otherwise the LID of
    /// the port itself. `None` if that LID is not unicast.
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

    /// The P_Key at an index of the table of this manager's port; `None` if the entry is invalid or
    /// beyond the table.
    pub(crate) fn own_p_key(&self, index: u16) -> Option<PKey> {
        let key = self.own_p_keys().get(usize::from(index)).copied();
        key.filter(|key| key.is_valid())
    }

    /// Index of the partition of `p_key` in the table of this manager's port. If the port is not in
    /// the partition, the index of the default partition, or 0 if the table lacks the default
    /// partition as well.
    pub(crate) fn own_p_key_index(&self, p_key: PKey) -> u16 {
        let index = |wanted: PKey| {
            let mut keys = self.own_p_keys().iter();
            let index = keys.position(|key| key.is_valid() && key.base() == wanted.base())?;
            u16::try_from(index).ok()
        };
        let index = index(p_key).or_else(|| index(PKey::DEFAULT_FULL));
        index.unwrap_or(0)
    }

    fn own_p_keys(&self) -> &[PKey] {
        let own = self.by_guid(self.own_guid);
        own.map_or(&[], |own| self.p_keys(own))
    }

    /// The P_KeyTable of an external port of a switch; `None` if none is planned.
    pub(crate) fn switch_p_keys(&self, at: PortRef) -> Option<&[PKey]> {
        let table = self.plan.partitions.table(self.fabric.key(at));
        table.map(|table| &table[..])
    }

    /// The service level of a partition; 0 if the partition is not configured.
    pub fn service_level(&self, p_key: PKey) -> u8 {
        let partition = self.plan.policy.partitions.find(p_key);
        partition.map_or(0, |partition| partition.sl)
    }

    /// The partitions in which `a` and `b` can communicate, in the order of `a`'s table.
    pub(crate) fn common_p_keys(&self, a: EndIx, b: EndIx) -> impl Iterator<Item = PKey> + '_ {
        self.memberships.common(a, b)
    }

    /// Whether `a` may know about `b`, because they can communicate in some partition.
    pub(crate) fn may_see(&self, a: EndIx, b: EndIx) -> bool {
        self.memberships.may_see(a, b)
    }
}

/// The previous directory of a subnet in which no end port has changed since, and the nodes that
/// have changed.
struct UnchangedPorts<'a> {
    previous: &'a Directory,
    changed: ChangedNodes<'a>,
}

impl<'a> UnchangedPorts<'a> {
    /// Compares two directories. `None` if an end port has appeared, vanished or changed.
    fn between(
        previous: &'a Directory,
        fabric: &'a Fabric,
        plan: &Plan,
    ) -> Option<UnchangedPorts<'a>> {
        let changed = ChangedNodes::between(&previous.fabric, fabric)?;
        Ends::stay_valid(&changed, [&previous.plan, plan])
            .then_some(UnchangedPorts { previous, changed })
    }

    /// Whether each port has the same P_Keys as before.
    fn keeps_memberships(&self, fabric: &Fabric, plan: &Plan) -> bool {
        let has_room = |fabric: &Fabric, at: PortRef| fabric.p_key_capacity(at) > 0;
        let keeps_room = |(ix, _, now): (NodeIx, &Node, &Node)| {
            now.end_ports().all(|(port, _)| {
                let at = PortRef { node: ix, port };
                has_room(&self.previous.fabric, at) == has_room(fabric, at)
            })
        };
        Arc::ptr_eq(&self.previous.plan.partitions, &plan.partitions)
            && self.changed.iter().all(keeps_room)
    }

    fn keeps_rails(&self, plan: &Plan) -> bool {
        Arc::ptr_eq(&self.previous.plan.order.rails, &plan.order.rails)
    }
}

/// Shares the part `before` of the previous directory, which is still valid. Without such a part,
/// calls `make`.
fn reuse_or_make<T: PartialEq>(before: Option<&Arc<T>>, make: impl Fn() -> T) -> Arc<T> {
    match before {
        Some(before) => {
            debug_assert!(**before == make());
            before.clone()
        }
        None => Arc::new(make()),
    }
}

/// The rail of each end port by [`EndIx`]; empty if no port is on a rail.
fn rails_of(plan: &Plan, ends: &Ends) -> Vec<u16> {
    let rails = &plan.order.rails;
    if rails.is_empty() {
        return Vec::new();
    }
    let rail = |end: &EndPort| rails.get(&end.guid).copied().unwrap_or(NO_RAIL);
    ends.all().iter().map(rail).collect()
}

#[cfg(test)]
impl Directory {
    /// Whether both directories give the same answers, because ports, partitions, links and their
    /// proofs are equal.
    pub(super) fn answers_as(&self, other: &Directory) -> bool {
        self.ends == other.ends
            && self.memberships == other.memberships
            && self.rails == other.rails
            && self.minima.answers_as(&other.minima)
    }

    /// Whether the two directories share everything that is indexed by end port.
    pub(super) fn shares_ends_with(&self, other: &Directory) -> bool {
        Arc::ptr_eq(&self.ends, &other.ends)
            && Arc::ptr_eq(&self.memberships, &other.memberships)
            && Arc::ptr_eq(&self.rails, &other.rails)
    }
}
