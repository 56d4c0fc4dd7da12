use rsm_ids::PortNum;
use rsm_proto::v1;

use crate::model::{Missing, MissingKind};

impl From<MissingKind> for v1::MissingKind {
    fn from(kind: MissingKind) -> Self {
        match kind {
            MissingKind::Switch => v1::MissingKind::Switch,
            MissingKind::Cable => v1::MissingKind::Cable,
            MissingKind::Host => v1::MissingKind::Host,
            MissingKind::HostCable => v1::MissingKind::HostCable,
        }
    }
}

impl From<Missing> for v1::Missing {
    fn from(missing: Missing) -> Self {
        let port = Some(missing.key.number).filter(|&port| port != PortNum::ZERO);
        v1::Missing {
            node_guid: missing.key.node.to_string(),
            port: port.map(|port| port.0.into()),
            kind: v1::MissingKind::from(missing.kind).into(),
            name: missing.name,
            place: missing.place,
            lost_unix_ms: missing.lost_unix_ms,
            last_state: v1::PortState::from(missing.last_state).into(),
            cables: missing.cables,
            hosts_behind: missing.hosts_behind,
            moved_routes: missing.moved_routes,
            left: missing.left,
        }
    }
}
