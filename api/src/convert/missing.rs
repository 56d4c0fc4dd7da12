use rsm_ids::PortNum;
use rsm_proto::v1;

use crate::model::Missing;

impl From<Missing> for v1::Missing {
    fn from(missing: Missing) -> Self {
        let port = Some(missing.key.number).filter(|&port| port != PortNum::ZERO);
        v1::Missing {
            node_guid: missing.key.node.to_string(),
            port: port.map(|port| port.0.into()),
            kind: missing.kind.into(),
            name: missing.name,
            place: missing.place,
            lost_unix_ms: missing.lost_unix_ms,
            last_state: missing.last_state.into(),
            cables: missing.cables,
            hosts_behind: missing.hosts_behind,
            moved_routes: missing.moved_routes,
            left: missing.left,
        }
    }
}
