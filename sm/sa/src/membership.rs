//! The ports of a directory as members of multicast groups.

use rsm_config::PartitionGroup;
use rsm_ids::Guid;
use rsm_mad::ids::Gid;
use rsm_mad::wire::sa::Rate;

use super::directory::Directory;
use super::ends::EndIx;
use super::mcast::{MemberPort, Parameters, Ports};
use super::minima::limits::Limits;

impl Ports for Directory {
    fn by_gid(&self, gid: Gid) -> Option<MemberPort<'_>> {
        let port = self.member(Directory::by_gid(self, gid)?)?;
        Some(MemberPort {
            gid: Gid::new(self.prefix(), gid.guid()),
            ..port
        })
    }

    fn by_guid(&self, guid: Guid) -> Option<MemberPort<'_>> {
        self.member(Directory::by_guid(self, guid)?)
    }
}

impl Directory {
    /// The properties of an end as a member of multicast groups; `None` if its PortInfo is unknown.
    pub(super) fn member(&self, ix: EndIx) -> Option<MemberPort<'_>> {
        let (node, port) = self.port(ix);
        let info = port.info.as_ref()?;
        let limits = if node.is_switch() {
            Limits::of_port0(info)
        } else {
            Limits::of_link(info)
        };
        let rate = if node.is_switch() && info.link_rate().is_none() {
            // Port 0 of a switch has no link, and therefore no limit.
            Rate::GBPS_1200
        } else {
            limits.rate()
        };
        Some(MemberPort {
            gid: self.gid(ix),
            guid: self.end(ix).guid,
            physical: self.physical_guid(ix),
            p_keys: self.p_keys(ix),
            mtu: limits.mtu(),
            rate,
        })
    }

    /// Number of multicast LIDs, from 0xC000 on, for which every switch that can multicast has
    /// entries.
    pub(super) fn multicast_capacity(&self) -> u16 {
        let switches = self.fabric.switches();
        let capacities = switches.filter_map(|(_, node)| node.switch.as_ref());
        let capacities = capacities.map(|info| info.multicast_fdb_cap());
        // Even without a switch that can multicast, ports at one switch or at the ends of one cable
        // can form a group.
        capacities.filter(|&cap| cap > 0).min().unwrap_or(u16::MAX)
    }

    /// The groups of the operator's partitions, which exist even without members.
    pub(super) fn well_known_groups(&self) -> Vec<Parameters> {
        let policy = &self.plan.policy;
        let life_time = policy.ports.links.packet_life_time;
        let groups = policy.partitions.groups();
        groups.map(|group| parameters(group, life_time)).collect()
    }
}

/// The parameters of a group in the operator's configuration.
fn parameters(group: &PartitionGroup, packet_life_time: u8) -> Parameters {
    Parameters {
        mgid: group.mgid,
        q_key: group.q_key,
        p_key: group.p_key,
        mtu: group.mtu,
        rate: Rate(group.rate),
        packet_life_time,
        sl: group.sl,
        t_class: group.t_class,
        flow_label: group.flow_label,
        hop_limit: group.hop_limit(),
        scope: group.scope,
    }
}
