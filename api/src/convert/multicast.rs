use rsm_proto::v1;

use crate::model::{MulticastGroup, MulticastMember, MulticastSwitch};
use crate::v1_fields::gbps;

impl From<MulticastGroup> for v1::MulticastGroup {
    fn from(group: MulticastGroup) -> Self {
        v1::MulticastGroup {
            mgid: group.mgid.to_string(),
            mlid: group.mlid.0.into(),
            p_key: group.p_key.into(),
            q_key: group.q_key,
            mtu_bytes: group.mtu_bytes.into(),
            rate_gbps: gbps(group.rate_tenth_gbps),
            service_level: group.service_level.into(),
            packet_life_time: group.packet_life_time.into(),
            traffic_class: group.traffic_class.into(),
            flow_label: group.flow_label,
            hop_limit: group.hop_limit.into(),
            scope: group.scope.into(),
            well_known: group.well_known,
            members: group.members,
            full_members: group.full_members,
            switches: group.switches,
        }
    }
}

impl From<MulticastMember> for v1::MulticastMember {
    fn from(member: MulticastMember) -> Self {
        let states = member.join_states.into_iter();
        v1::MulticastMember {
            gid: member.gid.to_string(),
            port_guid: member.port_guid.to_string(),
            port: member.port.map(v1::PortKey::from),
            description: member.description,
            join_states: states.map(i32::from).collect(),
            proxy: member.proxy,
            served: member.served,
        }
    }
}

impl From<MulticastSwitch> for v1::MulticastSwitch {
    fn from(switch: MulticastSwitch) -> Self {
        v1::MulticastSwitch {
            guid: switch.guid.to_string(),
            description: switch.description,
            ports: switch.ports.into_iter().map(|port| port.0.into()).collect(),
        }
    }
}
