use rsm_proto::v1;

use crate::model::{Membership, Partition, PartitionMember};

impl From<Membership> for v1::Membership {
    fn from(membership: Membership) -> Self {
        match membership {
            Membership::Full => v1::Membership::Full,
            Membership::Limited => v1::Membership::Limited,
            Membership::Both => v1::Membership::Both,
        }
    }
}

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
            membership: v1::Membership::from(member.membership).into(),
            index: member.index.into(),
        }
    }
}
