//! Joins of multicast groups, and the creation of groups that do not exist (IBA 15.2.5.17.2).

use std::collections::BTreeMap;
use std::sync::Arc;

use rsm_ids::{Guid, Lid};
use rsm_mad::ids::Gid;
use rsm_mad::wire::header::Status;
use rsm_mad::wire::sa::{ComponentMask, JoinState, McMemberRecord, SaStatus};

use super::group::KEEPS_ALIVE;
use super::limits::{MAX_GROUPS, MAX_MEMBERS};
use super::{
    GroupEvent, GroupRegistry, GroupRequester, MemberPort, MulticastGroup, MulticastMember,
    Parameters, Ports, group_mut, mgid, mlid, realize,
};

/// Components that every request to join or leave must contain.
pub(super) const REQUIRED: ComponentMask = ComponentMask(
    McMemberRecord::MGID.0 | McMemberRecord::PORT_GID.0 | McMemberRecord::JOIN_STATE.0,
);

/// Components that a request to create a group must contain in addition.
pub(super) const REQUIRED_TO_CREATE: ComponentMask = ComponentMask(
    McMemberRecord::Q_KEY.0
        | McMemberRecord::P_KEY.0
        | McMemberRecord::T_CLASS.0
        | McMemberRecord::SL.0
        | McMemberRecord::FLOW_LABEL.0,
);

/// Maximum number of MGIDs that are tried for a group whose MGID the SA assigns. At least one of
/// these is free, unless a host has requested such MGIDs on purpose.
const MAX_MGIDS_TRIED: usize = 1000;

impl GroupRegistry {
    /// Answers a Set of MCMemberRecord: a port joins a group, or adds join states. A group that
    /// does not exist is created if the request has all components and the port becomes a full
    /// member; MGID 0 requests an assigned MGID.
    ///
    /// # Errors
    /// Fails with the status for the answer; then nothing has changed.
    pub fn join(
        &mut self,
        record: &McMemberRecord,
        mask: ComponentMask,
        requester: &GroupRequester<'_>,
        ports: &impl Ports,
    ) -> Result<McMemberRecord, Status> {
        let port = self.check_request(record, mask, ports)?;
        let state = record.join_state();
        if state == JoinState(0) {
            return Err(SaStatus::REQ_INVALID);
        }
        if mask.contains(McMemberRecord::P_KEY) && !record.p_key().is_valid() {
            return Err(SaStatus::REQ_INVALID);
        }
        let proxy = port.guid != requester.port.guid;
        if proxy && !requester.acts_for_all && !port.can_talk_to(&requester.port) {
            return Err(SaStatus::REQ_INVALID);
        }
        self.end_membership_of_alias(record.mgid(), &port);
        let parameters = match self.groups.get(&record.mgid()) {
            Some(group) => {
                let mask = self.validated(mask);
                check_existing(group, record, mask, &port, requester)?;
                group.parameters
            }
            None => self.parameters(record, mask, &port)?,
        };
        if !port.is_in(parameters.p_key) {
            return Err(SaStatus::REQ_INVALID);
        }
        self.check_room(parameters.mgid, &port)?;
        if !self.groups.contains_key(&parameters.mgid) {
            let wanted_mlid = mask.contains(McMemberRecord::MLID).then(|| record.mlid());
            self.create_for(requester, parameters, wanted_mlid)?;
        }
        self.add(parameters.mgid, &port, state, proxy);
        let group = self.groups.get(&parameters.mgid);
        let member = group.and_then(|group| Some((group, group.members.get(&port.gid.guid())?)));
        let (group, member) = member.ok_or(SaStatus::NO_RESOURCES)?;
        let mut answer = group.record_of(member);
        // The answer contains the PortGID of the request.
        answer.set_port_gid(record.port_gid());
        Ok(answer)
    }

    /// Checks what both joins and leaves require: that the request has the required components, and
    /// that the port exists. Returns the port.
    ///
    /// # Errors
    /// Fails with the status for the answer.
    pub(super) fn check_request<'a>(
        &self,
        record: &McMemberRecord,
        mask: ComponentMask,
        ports: &'a impl Ports,
    ) -> Result<MemberPort<'a>, Status> {
        if !mask.contains(REQUIRED) {
            return Err(SaStatus::REQ_INSUFFICIENT_COMPONENTS);
        }
        if !realize::is_meaningful(record, mask) {
            return Err(SaStatus::REQ_INVALID);
        }
        let port = ports.by_gid(record.port_gid());
        port.ok_or(SaStatus::REQ_INVALID_GID)
    }

    /// Removes a membership that another port has under the own GUID of `port`, which was its alias
    /// GUID while `port` was absent.
    fn end_membership_of_alias(&mut self, mgid: Gid, port: &MemberPort<'_>) {
        let guid = port.gid.guid();
        let member = (self.groups.get(&mgid)).and_then(|group| group.members.get(&guid));
        if guid == port.physical && member.is_some_and(|member| member.port != guid) {
            self.remove_member(mgid, guid);
        }
    }

    /// The components of a join, given its `mask`, that must agree with an existing group.
    pub(super) fn validated(&self, mask: ComponentMask) -> ComponentMask {
        match self.config.rules.validate_joins {
            true => mask,
            false => mask & McMemberRecord::P_KEY,
        }
    }

    /// The parameters of a new group.
    ///
    /// # Errors
    /// Fails with the status for the answer if the group cannot be created.
    fn parameters(
        &mut self,
        record: &McMemberRecord,
        mask: ComponentMask,
        port: &MemberPort<'_>,
    ) -> Result<Parameters, Status> {
        if record.join_state().0 & KEEPS_ALIVE.0 == 0 {
            return Err(SaStatus::REQ_INVALID);
        }
        if !mask.contains(REQUIRED_TO_CREATE) {
            return Err(SaStatus::REQ_INSUFFICIENT_COMPONENTS);
        }
        let has_mgid = record.mgid() != Gid(0);
        if has_mgid && let Some(of_broadcast) = self.check_mgid(record, mask)? {
            let parameters = Parameters {
                mgid: record.mgid(),
                ..of_broadcast
            };
            let fits = realize::can_carry(port, &parameters);
            return fits.then_some(parameters).ok_or(SaStatus::REQ_INVALID);
        }
        let mtu = realize::mtu(record, mask, port).ok_or(SaStatus::REQ_INVALID)?;
        let rate = realize::rate(record, mask, port).ok_or(SaStatus::REQ_INVALID)?;
        let default = self.config.packet_life_time;
        let packet_life_time = realize::packet_life_time(record, mask, default);
        let scope = if has_mgid {
            mgid::scope(record.mgid())
        } else if mask.contains(McMemberRecord::SCOPE) {
            record.scope()
        } else {
            // No other subnet can have assigned the same MGID.
            mgid::LINK_LOCAL
        };
        let mgid = if has_mgid {
            record.mgid()
        } else {
            self.find_free_mgid(scope).ok_or(SaStatus::NO_RESOURCES)?
        };
        let hop_limit = if mask.contains(McMemberRecord::HOP_LIMIT) {
            record.hop_limit()
        } else {
            0
        };
        Ok(Parameters {
            mgid,
            q_key: record.q_key(),
            p_key: record.p_key(),
            mtu,
            rate,
            packet_life_time: packet_life_time.ok_or(SaStatus::REQ_INVALID)?,
            sl: record.sl(),
            t_class: record.t_class(),
            flow_label: record.flow_label(),
            hop_limit,
            scope,
        })
    }

    /// Checks that a new group can have the MGID of a request. A group of IP over InfiniBand
    /// requires the broadcast group of its partition, and has the same parameters (RFC 4391, 5),
    /// which are returned: hosts join with these, whatever the creator left out.
    ///
    /// # Errors
    /// ERR_REQ_INVALID if the group cannot have the MGID.
    fn check_mgid(
        &self,
        record: &McMemberRecord,
        mask: ComponentMask,
    ) -> Result<Option<Parameters>, Status> {
        if !mgid::is_valid(record.mgid()) {
            return Err(SaStatus::REQ_INVALID);
        }
        let of_ip = mgid::ip_partition(record.mgid()).filter(|p_key| p_key.is_valid());
        match mgid::broadcast_of(record.mgid()) {
            // A broadcast group belongs to the partition in its MGID.
            None => match of_ip {
                Some(p_key)
                    if self.config.rules.validate_ipoib
                        && p_key.base() != record.p_key().base() =>
                {
                    Err(SaStatus::REQ_INVALID)
                }
                _ => Ok(None),
            },
            Some(_) if !self.config.rules.validate_ipoib => Ok(None),
            Some(broadcast) => {
                let broadcast = self.groups.get(&broadcast).ok_or(SaStatus::REQ_INVALID)?;
                matches(record, mask.without(McMemberRecord::MLID), broadcast)
                    .then_some(Some(broadcast.parameters))
                    .ok_or(SaStatus::REQ_INVALID)
            }
        }
    }

    /// The next assigned MGID that no group has; `None` if no free MGID is found.
    fn find_free_mgid(&mut self, scope: u8) -> Option<Gid> {
        (0..MAX_MGIDS_TRIED).find_map(|_| {
            self.assigned = self.assigned.wrapping_add(1);
            let mgid = mgid::assigned(scope, self.config.subnet_prefix, self.assigned);
            (!self.groups.contains_key(&mgid)).then_some(mgid)
        })
    }

    /// Checks that the registry has room for a membership of `port` in a group.
    ///
    /// # Errors
    /// ERR_NO_RESOURCES if a limit is reached.
    fn check_room(&mut self, mgid: Gid, port: &MemberPort<'_>) -> Result<(), Status> {
        let group = self.groups.get(&mgid);
        let is_member = group.is_some_and(|group| group.members.contains_key(&port.gid.guid()));
        self.memberships.charge(port.guid, port.physical);
        let has_share = self.memberships.permits(port.physical, self.members);
        let no_room = !is_member && (self.members >= MAX_MEMBERS || !has_share);
        if no_room {
            return Err(SaStatus::NO_RESOURCES);
        }
        Ok(())
    }

    /// Creates a group for a request.
    ///
    /// # Errors
    /// ERR_NO_RESOURCES if the requester has its share of groups, there is no room for the group,
    /// or no multicast LID.
    fn create_for(
        &mut self,
        requester: &GroupRequester<'_>,
        parameters: Parameters,
        wanted_mlid: Option<Lid>,
    ) -> Result<(), Status> {
        let MemberPort { guid, physical, .. } = requester.port;
        self.created.charge(guid, physical);
        let has_share = self.created.permits(physical, self.groups.len());
        if !requester.acts_for_all && !has_share {
            return Err(SaStatus::NO_RESOURCES);
        }
        self.create(parameters, wanted_mlid, Some(guid))?;
        self.created.charge(guid, physical);
        Ok(())
    }

    /// Creates a group for a request of the port `creator`, or for the operator if `creator` is
    /// `None`. The group gets the multicast LID `wanted_mlid` if that LID is free.
    ///
    /// # Errors
    /// ERR_NO_RESOURCES if there is no room for the group, or no multicast LID.
    pub(super) fn create(
        &mut self,
        parameters: Parameters,
        wanted_mlid: Option<Lid>,
        creator: Option<Guid>,
    ) -> Result<(), Status> {
        if self.groups.len() >= MAX_GROUPS {
            return Err(SaStatus::NO_RESOURCES);
        }
        let default = mgid::broadcast(mgid::LINK_LOCAL, rsm_mad::wire::attr::PKey::DEFAULT_FULL);
        let wanted_mlid = if parameters.mgid == default {
            Some(mlid::BROADCAST)
        } else {
            wanted_mlid.filter(|&wanted| wanted != mlid::BROADCAST)
        };
        let shares = self.config.rules.consolidate_ipv6_snm && mgid::is_snm(parameters.mgid);
        let shared = shares
            .then(|| self.mlids.of_snm(parameters.p_key))
            .flatten();
        let mlid = match shared {
            Some(mlid) if self.mlids.claim(parameters.mgid, parameters.p_key, mlid) => Some(mlid),
            _ => (self.mlids).allocate(parameters.mgid, parameters.p_key, wanted_mlid),
        };
        let mlid = mlid.ok_or(SaStatus::NO_RESOURCES)?;
        let group = MulticastGroup {
            parameters,
            mlid,
            well_known: false,
            creator,
            members: BTreeMap::new(),
        };
        if let Some(creator) = creator {
            self.created.add(creator);
        }
        Arc::make_mut(&mut self.groups).insert(parameters.mgid, Arc::new(group));
        self.has_stale_levels = true;
        self.unsaved = true;
        self.push_event(GroupEvent::Created(parameters.mgid, parameters.p_key));
        Ok(())
    }

    /// Adds a membership, or join states to an existing membership.
    fn add(&mut self, mgid: Gid, port: &MemberPort<'_>, state: JoinState, proxy: bool) {
        let Some(group) = group_mut(&mut self.groups, mgid) else {
            return;
        };
        let mut is_new = false;
        let member = group.members.entry(port.gid.guid()).or_insert_with(|| {
            is_new = true;
            MulticastMember {
                gid: port.gid,
                port: port.guid,
                state: JoinState(0),
                proxy,
            }
        });
        let before = *member;
        member.state = JoinState(member.state.0 | state.0);
        // A port that joins by itself is no longer a member by proxy.
        member.proxy &= proxy;
        self.unsaved |= is_new || before != *member;
        if is_new || before.receives() != member.receives() {
            self.stale_mlids.insert(group.mlid);
        }
        if is_new {
            self.members += 1;
            self.index_membership(port.guid, mgid, port.gid.guid());
            self.memberships.charge(port.guid, port.physical);
        }
    }
}

/// Checks that `port` may join `group`, or change its membership, as the request demands.
///
/// # Errors
/// ERR_REQ_INVALID if the port may not.
fn check_existing(
    group: &MulticastGroup,
    record: &McMemberRecord,
    mask: ComponentMask,
    port: &MemberPort<'_>,
    requester: &GroupRequester<'_>,
) -> Result<(), Status> {
    let is_allowed = matches(record, mask.without(McMemberRecord::MLID), group)
        && realize::can_carry(port, &group.parameters)
        && may_change(group, port, requester);
    is_allowed.then_some(()).ok_or(SaStatus::REQ_INVALID)
}

/// Whether the requester may change the membership of `port`. A port may change its own membership.
/// Any other requester may change only a membership by proxy, and only if the requester is in the
/// group's partition (IBA 15.2.5.17, o15-0.1.2).
pub(super) fn may_change(
    group: &MulticastGroup,
    port: &MemberPort<'_>,
    requester: &GroupRequester<'_>,
) -> bool {
    match group.members.get(&port.gid.guid()) {
        _ if requester.acts_for_all => true,
        None => true,
        Some(member) if member.proxy => requester.port.is_in(group.parameters.p_key),
        Some(member) => requester.port.guid == member.port,
    }
}

/// A component of a request that differs from its group's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Mismatch {
    /// Name of the component in MCMemberRecord.
    pub(super) component: &'static str,
    /// Value in the request.
    pub(super) requested: u64,
    /// Value of the group.
    pub(super) actual: u64,
}

/// Whether a group matches the components in `mask`, regardless of its members.
pub(super) fn matches(
    record: &McMemberRecord,
    mask: ComponentMask,
    group: &MulticastGroup,
) -> bool {
    mismatch(record, mask, group).is_none()
}

/// The first component in `mask` that the group does not match; `None` if the group matches all
/// components.
pub(super) fn mismatch(
    record: &McMemberRecord,
    mask: ComponentMask,
    group: &MulticastGroup,
) -> Option<Mismatch> {
    let parameters = &group.parameters;
    let values = [
        (
            "Q_Key",
            McMemberRecord::Q_KEY,
            record.q_key(),
            parameters.q_key,
        ),
        (
            "MLID",
            McMemberRecord::MLID,
            record.mlid().0.into(),
            group.mlid.0.into(),
        ),
        (
            "TClass",
            McMemberRecord::T_CLASS,
            record.t_class().into(),
            parameters.t_class.into(),
        ),
        (
            "SL",
            McMemberRecord::SL,
            record.sl().into(),
            parameters.sl.into(),
        ),
        (
            "FlowLabel",
            McMemberRecord::FLOW_LABEL,
            record.flow_label(),
            parameters.flow_label,
        ),
        (
            "HopLimit",
            McMemberRecord::HOP_LIMIT,
            record.hop_limit().into(),
            parameters.hop_limit.into(),
        ),
    ];
    let of = |component: &'static str, requested: u32, actual: u32| Mismatch {
        component,
        requested: requested.into(),
        actual: actual.into(),
    };
    let differing = values
        .into_iter()
        .find(|&(_, component, requested, actual)| mask.contains(component) && requested != actual);
    if let Some((component, _, requested, actual)) = differing {
        return Some(of(component, requested, actual));
    }
    let (requested, actual) = (record.p_key(), parameters.p_key);
    let same_partition =
        requested.base() == actual.base() && (requested.is_full() || actual.is_full());
    if mask.contains(McMemberRecord::P_KEY) && !same_partition {
        return Some(of("P_Key", requested.0.into(), actual.0.into()));
    }
    let realized = realize::mismatch(record, mask, parameters)?;
    let (component, requested, actual) = realized;
    Some(of(component, requested.into(), actual.into()))
}
