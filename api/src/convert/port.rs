use rsm_proto::v1;

use crate::model::{LinkSpeed, LinkWidth, Peer, PhysicalState, Port, PortKey, PortState};

impl From<PortState> for v1::PortState {
    fn from(state: PortState) -> Self {
        match state {
            PortState::Down => v1::PortState::Down,
            PortState::Init => v1::PortState::Init,
            PortState::Armed => v1::PortState::Armed,
            PortState::Active => v1::PortState::Active,
        }
    }
}

impl From<PhysicalState> for v1::PhysicalState {
    fn from(state: PhysicalState) -> Self {
        match state {
            PhysicalState::Sleep => v1::PhysicalState::Sleep,
            PhysicalState::Polling => v1::PhysicalState::Polling,
            PhysicalState::Disabled => v1::PhysicalState::Disabled,
            PhysicalState::Training => v1::PhysicalState::Training,
            PhysicalState::LinkUp => v1::PhysicalState::LinkUp,
            PhysicalState::Recovery => v1::PhysicalState::Recovery,
            PhysicalState::PhyTest => v1::PhysicalState::PhyTest,
        }
    }
}

impl From<LinkWidth> for v1::LinkWidth {
    fn from(width: LinkWidth) -> Self {
        match width {
            LinkWidth::X1 => v1::LinkWidth::LinkWidth1x,
            LinkWidth::X2 => v1::LinkWidth::LinkWidth2x,
            LinkWidth::X4 => v1::LinkWidth::LinkWidth4x,
            LinkWidth::X8 => v1::LinkWidth::LinkWidth8x,
            LinkWidth::X12 => v1::LinkWidth::LinkWidth12x,
        }
    }
}

impl From<LinkSpeed> for v1::LinkSpeed {
    fn from(speed: LinkSpeed) -> Self {
        match speed {
            LinkSpeed::Sdr => v1::LinkSpeed::Sdr,
            LinkSpeed::Ddr => v1::LinkSpeed::Ddr,
            LinkSpeed::Qdr => v1::LinkSpeed::Qdr,
            LinkSpeed::Fdr10 => v1::LinkSpeed::Fdr10,
            LinkSpeed::Fdr => v1::LinkSpeed::Fdr,
            LinkSpeed::Edr => v1::LinkSpeed::Edr,
            LinkSpeed::Hdr => v1::LinkSpeed::Hdr,
            LinkSpeed::Ndr => v1::LinkSpeed::Ndr,
            LinkSpeed::Xdr => v1::LinkSpeed::Xdr,
        }
    }
}

/// The width as a message holds it.
pub(super) fn width(width: Option<LinkWidth>) -> i32 {
    width
        .map_or(v1::LinkWidth::Unspecified, v1::LinkWidth::from)
        .into()
}

/// The speed as a message holds it.
pub(super) fn speed(speed: Option<LinkSpeed>) -> i32 {
    speed
        .map_or(v1::LinkSpeed::Unspecified, v1::LinkSpeed::from)
        .into()
}

impl From<PortKey> for v1::PortKey {
    fn from(key: PortKey) -> Self {
        v1::PortKey {
            node_guid: key.node.to_string(),
            number: key.number.0.into(),
        }
    }
}

impl From<Peer> for v1::Peer {
    fn from(peer: Peer) -> Self {
        v1::Peer {
            port: Some(peer.key.into()),
            description: peer.description,
        }
    }
}

impl From<Port> for v1::Port {
    fn from(port: Port) -> Self {
        v1::Port {
            key: Some(port.key.into()),
            guid: port.guid.to_string(),
            node_description: port.node_description,
            node_kind: v1::NodeKind::from(port.node_kind).into(),
            lid: port.lid.0.into(),
            lmc: port.lmc.get().into(),
            state: v1::PortState::from(port.state).into(),
            physical_state: v1::PhysicalState::from(port.physical_state).into(),
            width: width(port.width),
            speed: speed(port.speed),
            mtu_bytes: port.mtu_bytes.into(),
            operational_vls: port.operational_vls.into(),
            peer: port.peer.map(v1::Peer::from),
        }
    }
}
