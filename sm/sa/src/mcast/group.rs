//! A multicast group and its members.

use std::collections::BTreeMap;

use rsm_ids::{Guid, Lid};
use rsm_mad::ids::Gid;
use rsm_mad::wire::attr::{Mtu, PKey};
use rsm_mad::wire::sa::{JoinState, McMemberRecord, Rate, Selector};

/// Parameters of a group's packets. While the group exists, only MTU and rate can change, and only
/// in a well-known group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parameters {
    /// MGID of the group.
    pub mgid: Gid,
    /// Q_Key of the group.
    pub q_key: u32,
    /// P_Key of the group's partition.
    pub p_key: PKey,
    /// Exact MTU.
    pub mtu: Mtu,
    /// Exact rate.
    pub rate: Rate,
    /// PacketLifeTime: 4.096 µs × 2^n.
    pub packet_life_time: u8,
    /// Service level, 0 to 15.
    pub sl: u8,
    /// TClass of the global route header.
    pub t_class: u8,
    /// FlowLabel of the global route header, 20 bits.
    pub flow_label: u32,
    /// HopLimit of the global route header.
    pub hop_limit: u8,
    /// Scope of the group, 0 to 15.
    pub scope: u8,
}

/// A multicast group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MulticastGroup {
    /// Parameters of the group's packets.
    pub parameters: Parameters,
    /// Multicast LID, which other groups of the same partition may share.
    pub mlid: Lid,
    /// Whether the group exists even without members.
    pub well_known: bool,
    /// GUID of the port whose request created the group; `None` for a group of the operator.
    pub creator: Option<Guid>,
    /// The group's members, by the GUID in their PortGID, which may be an alias GUID.
    pub members: BTreeMap<Guid, MulticastMember>,
}

/// A member of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MulticastMember {
    /// GID with which the port is a member.
    pub gid: Gid,
    /// GUID of the port itself.
    pub port: Guid,
    /// Join states; never empty.
    pub state: JoinState,
    /// Whether another port requested the membership.
    pub proxy: bool,
}

/// The join states that keep a group alive.
pub(super) const KEEPS_ALIVE: JoinState =
    JoinState(JoinState::FULL_MEMBER.0 | JoinState::SEND_ONLY_FULL_MEMBER.0);

/// The join states in which a port receives the packets of a group.
const RECEIVES: JoinState = JoinState(JoinState::FULL_MEMBER.0 | JoinState::NON_MEMBER.0);

impl MulticastMember {
    /// Whether the member keeps the group alive.
    pub fn keeps_alive(&self) -> bool {
        self.state.0 & KEEPS_ALIVE.0 != 0
    }

    /// Whether the member receives the packets of the group, rather than only sending.
    pub fn receives(&self) -> bool {
        self.state.0 & RECEIVES.0 != 0
    }
}

impl MulticastGroup {
    /// Whether the group has a full member or a send-only full member.
    pub(crate) fn is_kept_alive(&self) -> bool {
        self.members.values().any(MulticastMember::keeps_alive)
    }

    /// Adopts MTU and rate of `wanted`, if the group has no members, or if the group was well known
    /// before and neither value is higher than the present value. Returns whether a value has
    /// changed.
    pub(super) fn adopt_mtu_and_rate(&mut self, wanted: &Parameters, was_well_known: bool) -> bool {
        let current = &mut self.parameters;
        if (current.mtu, current.rate) == (wanted.mtu, wanted.rate) {
            return false;
        }
        let is_lower = wanted.mtu.code() <= current.mtu.code()
            && wanted.rate.tenth_gbps() <= current.rate.tenth_gbps();
        let may_change = self.members.is_empty() || was_well_known && is_lower;
        if may_change {
            (current.mtu, current.rate) = (wanted.mtu, wanted.rate);
        }
        may_change
    }

    /// The MCMemberRecord of the group, without a member.
    pub fn record(&self) -> McMemberRecord {
        let parameters = &self.parameters;
        let mut record = McMemberRecord::default();
        record
            .set_mgid(parameters.mgid)
            .set_q_key(parameters.q_key)
            .set_mlid(self.mlid)
            .set_mtu_selector(Selector::Exactly)
            .set_mtu(parameters.mtu)
            .set_t_class(parameters.t_class)
            .set_p_key(parameters.p_key)
            .set_rate_selector(Selector::Exactly)
            .set_rate(parameters.rate)
            .set_packet_life_time_selector(Selector::Exactly)
            .set_packet_life_time(parameters.packet_life_time)
            .set_sl(parameters.sl)
            .set_flow_label(parameters.flow_label)
            .set_hop_limit(parameters.hop_limit)
            .set_scope(parameters.scope);
        record
    }

    /// The MCMemberRecord of a member of the group.
    pub(crate) fn record_of(&self, member: &MulticastMember) -> McMemberRecord {
        let mut record = self.record();
        record
            .set_port_gid(member.gid)
            .set_join_state(member.state)
            .set_proxy_join(member.proxy);
        record
    }
}
