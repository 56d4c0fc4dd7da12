//! Multicast groups and their members (IBA 15.2.5.17).
//!
//! A [`GroupRegistry`] is a state machine without I/O. It handles requests with MCMemberRecord
//! ([`GroupRegistry::join`] and [`GroupRegistry::leave`]), shows groups to queries in a
//! [`GroupsView`], follows changes of ports, and returns the ports to reach by each multicast LID
//! (`GroupRegistry::group_set`), for which the core plans trees.
//!
//! Each request looks up its ports in [`Ports`], so that the registry has no state that a sweep
//! could invalidate. An absent port keeps its memberships for [`GroupRegistryConfig::keep`], so
//! that a flapping link does not end its groups.

mod group;
mod join;
mod leave;
pub mod limits;
mod mgid;
mod mlid;
mod presence;
mod realize;
mod refusal;
mod saved;
#[cfg(test)]
mod tests;
mod view;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

use rsm_ids::{Guid, Lid};
use rsm_mad::ids::Gid;
use rsm_mad::wire::attr::{Mtu, PKey};
use rsm_mad::wire::sa::Rate;
use rsm_plan::groups::{GroupMembers, GroupSet};

pub use self::group::{MulticastGroup, MulticastMember, Parameters};
pub(crate) use self::mgid::ip_partition;
use self::mlid::Mlids;
use self::presence::AbsentPorts;
pub(crate) use self::presence::Unexamined;
pub(crate) use self::realize::is_meaningful;
pub use self::refusal::{JoinRefusal, described, is_broadcast};
pub use self::saved::{SavedGroup, SavedMember};
pub use self::view::{Cursor, GroupsView, McMemberAccess};
use super::partitions::can_talk;
use super::shares::Shares;
use super::trust::Offence;

/// The properties of a port that the registry uses.
#[derive(Clone, Copy, Debug)]
pub struct MemberPort<'a> {
    /// GID in the request, with the prefix of the subnet.
    pub gid: Gid,
    /// GUID of the port itself, even if `gid` is an alias.
    pub guid: Guid,
    /// GUID of the physical port, which is charged with what a virtual port holds.
    pub physical: Guid,
    /// P_Keys of the port.
    pub p_keys: &'a [PKey],
    /// MTU of the port's link.
    pub mtu: Mtu,
    /// Rate of the port's link.
    pub rate: Rate,
}

impl MemberPort<'_> {
    /// Whether the port is a full or limited member of the partition of `p_key`.
    pub fn is_in(&self, p_key: PKey) -> bool {
        let keys = self.p_keys.iter();
        p_key.is_valid() && keys.into_iter().any(|key| key.base() == p_key.base())
    }

    /// Whether the two ports can communicate: both are in one partition, and at least one is a full
    /// member (IBA 10.9.1.1).
    pub(crate) fn can_talk_to(&self, other: &MemberPort<'_>) -> bool {
        can_talk(self.p_keys, other.p_keys)
    }
}

/// The ports of the subnet.
pub trait Ports {
    /// The port with this GID, which consists of the prefix of the subnet or the link-local prefix,
    /// and a port GUID or alias GUID.
    fn by_gid(&self, gid: Gid) -> Option<MemberPort<'_>>;

    /// The port with this GUID, which must not be an alias GUID.
    fn by_guid(&self, guid: Guid) -> Option<MemberPort<'_>>;
}

/// The requester of a change.
#[derive(Clone, Copy, Debug)]
pub struct GroupRequester<'a> {
    /// Port of the requester.
    pub port: MemberPort<'a>,
    /// Whether the requester may change memberships of any port.
    pub acts_for_all: bool,
}

/// Configuration of the registry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupRegistryConfig {
    /// Time for which an absent port keeps its memberships.
    pub keep: Duration,
    /// PacketLifeTime of a group whose request has none: 4.096 µs × 2^n.
    pub packet_life_time: u8,
    /// Subnet prefix, for multicast GIDs that the SA assigns.
    pub subnet_prefix: u64,
    /// Rules of the operator.
    pub rules: GroupRules,
}

/// The operator's rules for multicast groups.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupRules {
    /// Whether a join must agree with the parameters of its group (IBA 15.2.5.17.2). The P_Key must
    /// agree in any case, and the port must be able to carry the group's packets.
    pub validate_joins: bool,
    /// Whether a new group of IP over InfiniBand must agree with the broadcast group of its
    /// partition (RFC 4391, 5).
    pub validate_ipoib: bool,
    /// Whether the solicited-node groups of IPv6 in a partition share one multicast LID.
    pub consolidate_ipv6_snm: bool,
}

impl Default for GroupRules {
    fn default() -> GroupRules {
        GroupRules {
            validate_joins: true,
            validate_ipoib: true,
            consolidate_ipv6_snm: false,
        }
    }
}

impl Default for GroupRegistryConfig {
    fn default() -> GroupRegistryConfig {
        GroupRegistryConfig {
            // A cable retrains in less time, and a host boots in more.
            keep: Duration::from_secs(10),
            packet_life_time: 18,
            subnet_prefix: 0xFE80_0000_0000_0000,
            rules: GroupRules::default(),
        }
    }
}

/// A group was created or deleted (traps 66 and 67, IBA 14.2.5.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum GroupEvent {
    /// Trap 66: the group with this MGID, in this partition, was created.
    Created(Gid, PKey),
    /// Trap 67: the group with this MGID, in this partition, was deleted.
    Deleted(Gid, PKey),
}

/// All groups with their members.
#[derive(Debug)]
pub struct GroupRegistry {
    config: GroupRegistryConfig,
    /// Groups, shared with views; a change copies the map while a view holds it.
    groups: Arc<BTreeMap<Gid, Arc<MulticastGroup>>>,
    /// Versions of `groups` that views may still hold.
    view_versions: Vec<Weak<BTreeMap<Gid, Arc<MulticastGroup>>>>,
    mlids: Mlids,
    /// Groups of each port, by port GUID, with the GUIDs of the port that are members.
    by_port: BTreeMap<Guid, BTreeMap<Gid, BTreeSet<Guid>>>,
    /// Existing groups, by the port whose request created them.
    created: Shares,
    /// Memberships of ports.
    memberships: Shares,
    /// Number of memberships in all groups.
    members: usize,
    /// Absent ports with memberships, each with the time at which it loses its memberships.
    absent_ports: AbsentPorts,
    /// Number of multicast GIDs assigned so far.
    assigned: u32,
    /// Whether the memberships from before the start of the daemon are unknown.
    partial: bool,
    /// The last returned group set.
    group_set: Arc<GroupSet>,
    /// Multicast LIDs whose members have changed since `group_set`.
    stale_mlids: BTreeSet<Lid>,
    /// Whether groups were created or deleted since `group_set`.
    has_stale_levels: bool,
    /// Whether anything has changed since the last [`GroupRegistry::take_unsaved`].
    unsaved: bool,
    /// Events that were not polled yet, oldest first.
    events: VecDeque<GroupEvent>,
    events_lost: u64,
}

impl GroupRegistry {
    /// A registry without groups.
    pub fn new(config: GroupRegistryConfig) -> GroupRegistry {
        GroupRegistry {
            config,
            groups: Arc::default(),
            view_versions: Vec::new(),
            mlids: Mlids::default(),
            by_port: BTreeMap::new(),
            created: Shares::new(limits::MAX_GROUPS, limits::MAX_CREATED_PER_PORT),
            memberships: Shares::new(limits::MAX_MEMBERS, limits::MAX_MEMBERSHIPS_PER_PORT),
            members: 0,
            absent_ports: AbsentPorts::default(),
            assigned: 0,
            partial: false,
            group_set: Arc::default(),
            stale_mlids: BTreeSet::new(),
            has_stale_levels: false,
            unsaved: false,
            events: VecDeque::new(),
            events_lost: 0,
        }
    }

    /// Changes the configuration.
    pub fn configure(&mut self, config: GroupRegistryConfig) {
        self.config = config;
    }

    /// Sets the number of multicast LIDs, from 0xC000 on, for which switches have entries (the
    /// smallest MulticastFDBCap of switches that can multicast), and the number of partitions that
    /// share these LIDs. Groups that already have a higher multicast LID keep it.
    pub(crate) fn set_capacity(&mut self, mlids: u16, partitions: usize) {
        self.mlids.set_capacity(mlids, partitions);
    }

    /// Sets the number of physical ports that share groups and memberships.
    pub(crate) fn set_ports(&mut self, ports: u32) {
        self.created.set_ports(ports);
        self.memberships.set_ports(ports);
    }

    /// The port to name, and the table that lacks room, after a join that `requester` sent for
    /// `port` was refused for lack of resources; see [`Shares::cause`]. `None` if neither
    /// memberships nor groups are the cause.
    pub(crate) fn cause_of_refusal(
        &self,
        requester: &MemberPort<'_>,
        port: &MemberPort<'_>,
    ) -> Option<(Guid, Offence)> {
        let of_memberships = self
            .memberships
            .cause(requester.guid, port.physical, self.members);
        if let Some(guid) = of_memberships {
            return Some((guid, Offence::Memberships));
        }
        let groups = self.groups.len();
        let of_groups = self
            .created
            .cause(requester.guid, requester.physical, groups);
        of_groups.map(|guid| (guid, Offence::Groups))
    }

    /// Makes the groups of `wanted`, and no others, well-known groups, which exist even without
    /// members:
    /// * A group that does not exist is created.
    /// * An existing group keeps its parameters. Without members, it gets MTU and rate of `wanted`.
    ///   A group that was well known before gets lower values even with members, so that slower
    ///   hosts can join.
    /// * A group that is no longer well known ends with its last full member.
    ///
    /// If there is no room for all groups, only the first groups are created. Returns the number of
    /// groups that were not created.
    pub(crate) fn set_well_known(&mut self, wanted: &[Parameters]) -> usize {
        let mgids: BTreeSet<Gid> = wanted.iter().map(|group| group.mgid).collect();
        let former = self.groups.values().filter(|group| group.well_known);
        let former: Vec<Gid> = former.map(|group| group.parameters.mgid).collect();
        for &mgid in &former {
            if let Some(group) = group_mut(&mut self.groups, mgid) {
                group.well_known = mgids.contains(&mgid);
            }
        }
        let mut not_created = 0;
        for parameters in wanted {
            let exists = self.groups.contains_key(&parameters.mgid);
            if !exists && self.create(*parameters, None, None).is_err() {
                not_created += 1;
            }
            if let Some(group) = group_mut(&mut self.groups, parameters.mgid) {
                group.well_known = true;
                let was_well_known = former.contains(&parameters.mgid);
                self.unsaved |= group.adopt_mtu_and_rate(parameters, was_well_known);
            }
        }
        let all: Vec<Gid> = self.groups.keys().copied().collect();
        for mgid in all {
            self.delete_if_unused(mgid);
        }
        not_created
    }

    /// Records that the memberships from before the start of the daemon are unknown. Ports then
    /// stay members according to the tables of switches, until they have had time to join again.
    pub(crate) fn mark_memberships_unknown(&mut self) {
        self.partial = true;
    }

    /// The group with this MGID.
    pub fn group(&self, mgid: Gid) -> Option<&MulticastGroup> {
        self.groups.get(&mgid).map(Arc::as_ref)
    }

    /// All groups, by MGID.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = &MulticastGroup> {
        self.groups.values().map(Arc::as_ref)
    }

    /// All groups at this moment.
    pub fn view(&self) -> GroupsView {
        GroupsView::of(self.groups.clone())
    }

    /// Whether `port` is a member of any group with a GID that contains `guid`, which is the port's
    /// GUID or an alias GUID.
    pub(crate) fn is_member_as(&self, port: Guid, guid: Guid) -> bool {
        let mut groups = self.by_port.get(&port).into_iter().flatten();
        groups.any(|(_, guids)| guids.contains(&guid))
    }

    /// A [`GroupRegistry::view`] that an answer in progress may keep for a while; `None` if
    /// [`limits::MAX_VERSIONS`] different versions are already kept.
    pub(crate) fn lasting_view(&mut self) -> Option<GroupsView> {
        let now = Arc::downgrade(&self.groups);
        self.view_versions
            .retain(|version| version.strong_count() > 0);
        if !self
            .view_versions
            .iter()
            .any(|version| version.ptr_eq(&now))
        {
            if self.view_versions.len() >= limits::MAX_VERSIONS {
                return None;
            }
            self.view_versions.push(now);
        }
        Some(self.view())
    }

    /// Number of memberships in all groups.
    pub fn members(&self) -> usize {
        self.members
    }

    /// Whether members have changed since the last `GroupRegistry::group_set`.
    pub fn is_stale(&self) -> bool {
        !self.stale_mlids.is_empty()
    }

    /// Number of memberships that the next [`GroupRegistry::group_set`] would examine.
    pub(crate) fn stale_members(&self) -> u32 {
        let groups = self
            .stale_mlids
            .iter()
            .flat_map(|&mlid| self.mlids.groups(mlid));
        let members = groups.filter_map(|mgid| Some(self.groups.get(mgid)?.members.len()));
        u32::try_from(members.sum::<usize>()).unwrap_or(u32::MAX)
    }

    /// The ports to reach by each multicast LID. Only LIDs whose members have changed since the
    /// last call are computed, so that one call after several requests saves work.
    pub(crate) fn group_set(&mut self) -> Arc<GroupSet> {
        if self.stale_mlids.is_empty() && !self.has_stale_levels {
            return self.group_set.clone();
        }
        let mut set = GroupSet::clone(&self.group_set);
        set.partial = self.partial;
        if std::mem::take(&mut self.has_stale_levels) {
            set.levels = Arc::new(self.levels());
        }
        for mlid in std::mem::take(&mut self.stale_mlids) {
            let mut members = GroupMembers::default();
            for member in self
                .mlids
                .groups(mlid)
                .filter_map(|mgid| self.groups.get(mgid))
                .flat_map(|group| group.members.values())
            {
                *members.ports.entry(member.port).or_default() |= member.receives();
            }
            if members.ports.is_empty() {
                set.by_mlid.remove(&mlid);
            } else {
                set.by_mlid.insert(mlid, Arc::new(members));
            }
        }
        self.group_set = Arc::new(set);
        self.group_set.clone()
    }

    /// Mask of the service levels (bit n for SL n) of the groups of each multicast LID.
    fn levels(&self) -> BTreeMap<Lid, u16> {
        let mut levels = BTreeMap::new();
        for group in self.groups.values() {
            // A service level has four bits.
            *levels.entry(group.mlid).or_default() |= 1 << (group.parameters.sl & 15);
        }
        levels
    }

    /// The oldest event that was not yet polled; `None` if no event waits.
    pub(crate) fn poll_event(&mut self) -> Option<GroupEvent> {
        self.events.pop_front()
    }

    /// Number of events lost because they were not polled in time.
    pub fn events_lost(&self) -> u64 {
        self.events_lost
    }

    /// Queues an event; drops the oldest event if the queue is full.
    fn push_event(&mut self, event: GroupEvent) {
        if self.events.len() == limits::MAX_EVENTS {
            self.events.pop_front();
            self.events_lost += 1;
        }
        self.events.push_back(event);
    }

    /// Removes a member from a group, and deletes the group if no member keeps it alive.
    fn remove_member(&mut self, mgid: Gid, alias: Guid) {
        let Some(group) = group_mut(&mut self.groups, mgid) else {
            return;
        };
        let Some(member) = group.members.remove(&alias) else {
            return;
        };
        self.stale_mlids.insert(group.mlid);
        self.members -= 1;
        self.unsaved = true;
        self.unindex_membership(member.port, mgid, alias);
        self.delete_if_unused(mgid);
    }

    /// Deletes a group that is neither well known nor kept alive by a member, with all its
    /// memberships (IBA 15.2.5.17.4).
    fn delete_if_unused(&mut self, mgid: Gid) {
        let is_over = |group: &Arc<MulticastGroup>| !group.well_known && !group.is_kept_alive();
        if !self.groups.get(&mgid).is_some_and(is_over) {
            return;
        }
        if let Some(group) = Arc::make_mut(&mut self.groups).remove(&mgid) {
            self.has_stale_levels = true;
            self.members -= group.members.len();
            for (&alias, member) in &group.members {
                self.unindex_membership(member.port, mgid, alias);
            }
            self.stale_mlids.insert(group.mlid);
            self.mlids.release(group.mlid, mgid);
            if let Some(creator) = group.creator {
                self.created.remove(creator);
            }
            self.unsaved = true;
            self.push_event(GroupEvent::Deleted(mgid, group.parameters.p_key));
        }
    }

    fn index_membership(&mut self, port: Guid, mgid: Gid, alias: Guid) {
        let groups = self.by_port.entry(port).or_default();
        if groups.entry(mgid).or_default().insert(alias) {
            self.memberships.add(port);
        }
    }

    fn unindex_membership(&mut self, port: Guid, mgid: Gid, alias: Guid) {
        let Some(groups) = self.by_port.get_mut(&port) else {
            return;
        };
        if let Some(aliases) = groups.get_mut(&mgid) {
            if aliases.remove(&alias) {
                self.memberships.remove(port);
            }
            if aliases.is_empty() {
                groups.remove(&mgid);
            }
        }
        if groups.is_empty() {
            self.by_port.remove(&port);
            self.absent_ports.remove(port);
        }
    }
}

/// The group with this MGID, for a change; copied first if a view shares the group.
fn group_mut(
    groups: &mut Arc<BTreeMap<Gid, Arc<MulticastGroup>>>,
    mgid: Gid,
) -> Option<&mut MulticastGroup> {
    Arc::make_mut(groups).get_mut(&mgid).map(Arc::make_mut)
}
