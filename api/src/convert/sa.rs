use rsm_proto::v1;

use super::{gbps, messages};
use crate::model::{Path, Paths};

impl From<Path> for v1::Path {
    fn from(path: Path) -> Self {
        v1::Path {
            source_gid: path.source_gid.to_string(),
            destination_gid: path.destination_gid.to_string(),
            source_lid: path.source_lid.0.into(),
            destination_lid: path.destination_lid.0.into(),
            p_key: path.p_key.into(),
            service_level: path.service_level.into(),
            mtu_bytes: path.mtu_bytes.into(),
            rate_gbps: gbps(path.rate_tenth_gbps),
            packet_life_time: path.packet_life_time.into(),
            reversible: path.reversible,
            preference: path.preference.into(),
            hops: messages(path.hops),
        }
    }
}

impl From<Paths> for v1::Paths {
    fn from(paths: Paths) -> Self {
        let (found, reason) = match paths.paths {
            Ok(found) => (found, String::new()),
            Err(reason) => (Vec::new(), reason),
        };
        v1::Paths {
            source: Some(paths.source.into()),
            destination: Some(paths.destination.into()),
            paths: messages(found),
            reason,
        }
    }
}
