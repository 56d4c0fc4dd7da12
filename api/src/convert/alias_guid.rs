use rsm_proto::v1;

use crate::model::AliasGuid;

impl From<AliasGuid> for v1::AliasGuid {
    fn from(alias: AliasGuid) -> Self {
        v1::AliasGuid {
            port_guid: alias.key.port.to_string(),
            index: alias.key.index.into(),
            alias_guid: alias.gid.guid().to_string(),
            gid: alias.gid.to_string(),
            port: alias.port.map(v1::PortKey::from),
            description: alias.description,
        }
    }
}
