use rsm_proto::v1;

use crate::model::{LinkSpeed, LinkWidth, Peer, Port, PortKey};

/// The width as a message holds it.
pub(super) fn width(width: Option<LinkWidth>) -> i32 {
    let width = match width {
        None => v1::LinkWidth::Unspecified,
        Some(LinkWidth::X1) => v1::LinkWidth::LinkWidth1x,
        Some(LinkWidth::X2) => v1::LinkWidth::LinkWidth2x,
        Some(LinkWidth::X4) => v1::LinkWidth::LinkWidth4x,
        Some(LinkWidth::X8) => v1::LinkWidth::LinkWidth8x,
        Some(LinkWidth::X12) => v1::LinkWidth::LinkWidth12x,
    };
    width.into()
}

/// The speed as a message holds it.
pub(super) fn speed(speed: Option<LinkSpeed>) -> i32 {
    let speed = match speed {
        None => v1::LinkSpeed::Unspecified,
        Some(LinkSpeed::Sdr) => v1::LinkSpeed::Sdr,
        Some(LinkSpeed::Ddr) => v1::LinkSpeed::Ddr,
        Some(LinkSpeed::Qdr) => v1::LinkSpeed::Qdr,
        Some(LinkSpeed::Fdr10) => v1::LinkSpeed::Fdr10,
        Some(LinkSpeed::Fdr) => v1::LinkSpeed::Fdr,
        Some(LinkSpeed::Edr) => v1::LinkSpeed::Edr,
        Some(LinkSpeed::Hdr) => v1::LinkSpeed::Hdr,
        Some(LinkSpeed::Ndr) => v1::LinkSpeed::Ndr,
        Some(LinkSpeed::Xdr) => v1::LinkSpeed::Xdr,
    };
    speed.into()
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
            node_kind: port.node_kind.into(),
            lid: port.lid.0.into(),
            lmc: port.lmc.get().into(),
            state: port.state.into(),
            physical_state: port.physical_state.into(),
            width: width(port.width),
            speed: speed(port.speed),
            mtu_bytes: port.mtu_bytes.into(),
            operational_vls: port.operational_vls.into(),
            peer: port.peer.map(v1::Peer::from),
        }
    }
}
