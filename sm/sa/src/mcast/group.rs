//! A group and its members.

use std::collections::BTreeMap;

use rsm_ids::{Guid, Lid};
use rsm_mad::ids::Gid;
use rsm_mad::wire::attr::{Mtu, PKey};
use rsm_mad::wire::sa::{JoinState, McMemberRecord, Rate, Selector};

/// Parameters of a group's packets. They never change while the group exists, but for MTU and rate
/// of a group that exists even without members.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parameters {
    /// The group.
    pub mgid: Gid,
    /// Its Q_Key.
    pub q_key: u32,
    /// Its partition.
    pub p_key: PKey,
    /// The largest payload, exactly.
    pub mtu: Mtu,
    /// The rate, exactly.
    pub rate: Rate,
    /// How long a packet may be on its way: 4.096 µs × 2^n.
    pub packet_life_time: u8,
    /// The service level, 0 to 15.
    pub sl: u8,
    /// TClass of the global route header.
    pub t_class: u8,
    /// FlowLabel of the global route header, 20 bits.
    pub flow_label: u32,
    /// HopLimit of the global route header.
    pub hop_limit: u8,
    /// How far the group reaches, 0 to 15.
    pub scope: u8,
}

/// A group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MulticastGroup {
    /// The parameters of its packets.
    pub parameters: Parameters,
    /// The group's multicast LID; other groups of the same partition may have the same.
    pub mlid: Lid,
    /// The group exists even without members.
    pub well_known: bool,
    /// The GUID of the port whose request made it; `None` for one that the operator wants.
    pub creator: Option<Guid>,
    /// The group's members, by the GUID in the PortGID, which may be an alias.
    pub members: BTreeMap<Guid, MulticastMember>,
}

/// A port that takes part in a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MulticastMember {
    /// The GID that it takes part by.
    pub gid: Gid,
    /// The GUID of the port itself.
    pub port: Guid,
    /// How it takes part; never empty.
    pub state: JoinState,
    /// Another port joined it.
    pub proxy: bool,
}

/// The states that keep a group alive.
pub(super) const KEEPS_ALIVE: JoinState =
    JoinState(JoinState::FULL_MEMBER.0 | JoinState::SEND_ONLY_FULL_MEMBER.0);

/// The states in which a port gets the packets of a group.
const RECEIVES: JoinState = JoinState(JoinState::FULL_MEMBER.0 | JoinState::NON_MEMBER.0);

impl MulticastMember {
    /// Whether it keeps the group alive.
    pub fn keeps_alive(&self) -> bool {
        self.state.0 & KEEPS_ALIVE.0 != 0
    }

    /// Whether it gets the packets of the group, rather than only sending some.
    pub fn receives(&self) -> bool {
        self.state.0 & RECEIVES.0 != 0
    }
}

impl MulticastGroup {
    /// Whether it has a full member.
    pub(crate) fn is_kept_alive(&self) -> bool {
        self.members.values().any(MulticastMember::keeps_alive)
    }

    /// Takes MTU and rate of `wanted`, if there are no members, or, of a group that `was_wanted`
    /// before, if its members can carry these as well. Returns whether they differ from before.
    pub(super) fn take_limits(&mut self, wanted: &Parameters, was_wanted: bool) -> bool {
        let has = &mut self.parameters;
        if (has.mtu, has.rate) == (wanted.mtu, wanted.rate) {
            return false;
        }
        let is_lower = wanted.mtu.code() <= has.mtu.code()
            && wanted.rate.tenth_gbps() <= has.rate.tenth_gbps();
        let may = self.members.is_empty() || was_wanted && is_lower;
        if may {
            (has.mtu, has.rate) = (wanted.mtu, wanted.rate);
        }
        may
    }

    /// The group's record, without a member.
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

    /// The record of one of its members.
    pub(crate) fn record_of(&self, member: &MulticastMember) -> McMemberRecord {
        let mut record = self.record();
        record
            .set_port_gid(member.gid)
            .set_join_state(member.state)
            .set_proxy_join(member.proxy);
        record
    }
}
