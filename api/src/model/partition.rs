use super::{Membership, PortKey};

/// A partition: ports that may talk to each other. Its key is [`Partition::p_key`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// The P_Key without the bit of full membership, 1 to 0x7fff.
    pub p_key: u16,
    /// The name that its definition gives it; the P_Key in hexadecimal where it gives none.
    pub name: String,
    /// Ports that are there and hold the key of full members; those that hold both keys are among them.
    pub full_members: u64,
    /// Ports that are there and hold the key of limited members only.
    pub limited_members: u64,
    /// Whether IP over InfiniBand is set up in it.
    pub ipoib: bool,
    /// The service level of its packets, 0 to 15.
    pub service_level: u8,
    /// How many multicast groups its definition brings along.
    pub groups: u32,
}

/// A port that holds a key of a partition. Its key is [`PartitionMember::key`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionMember {
    /// The port.
    pub key: PortKey,
    /// The description of the port's node.
    pub description: String,
    /// What the port is there.
    pub membership: Membership,
    /// Where in the port's P_KeyTable the key is, that of full members where it holds both.
    pub index: u16,
}
