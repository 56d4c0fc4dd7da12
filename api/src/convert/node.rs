use rsm_proto::v1;

use crate::model::{Node, NodeKind};

impl From<NodeKind> for v1::NodeKind {
    fn from(kind: NodeKind) -> Self {
        match kind {
            NodeKind::Ca => v1::NodeKind::Ca,
            NodeKind::Switch => v1::NodeKind::Switch,
            NodeKind::Router => v1::NodeKind::Router,
        }
    }
}

impl From<Node> for v1::Node {
    fn from(node: Node) -> Self {
        v1::Node {
            guid: node.guid.to_string(),
            system_image_guid: node.system_image_guid.to_string(),
            kind: v1::NodeKind::from(node.kind).into(),
            description: node.description,
            num_ports: node.num_ports.into(),
            ports_active: node.ports_active.into(),
            lids: node.lids.into_iter().map(|lid| lid.0.into()).collect(),
            vendor_id: node.vendor_id,
            device_id: node.device_id,
            revision: node.revision,
            distance: node.distance.into(),
            rank: node.rank.map(u32::from),
            suspected: node.suspected,
        }
    }
}
