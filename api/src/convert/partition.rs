use rsm_proto::v1;

use crate::model::{Partition, PartitionMember};

impl From<Partition> for v1::Partition {
    fn from(partition: Partition) -> Self {
        v1::Partition {
            p_key: partition.p_key.into(),
            name: partition.name,
            full_members: partition.full_members,
            limited_members: partition.limited_members,
            ipoib: partition.ipoib,
            service_level: partition.service_level.into(),
            groups: partition.groups,
        }
    }
}

impl From<PartitionMember> for v1::PartitionMember {
    fn from(member: PartitionMember) -> Self {
        v1::PartitionMember {
            port: Some(member.key.into()),
            description: member.description,
            membership: member.membership.into(),
            index: member.index.into(),
        }
    }
}
