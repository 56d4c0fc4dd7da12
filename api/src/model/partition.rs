use rsm_ids::Guid;
use rsm_proto::v1;

use super::{Membership, Selector, TrustMode};
use crate::role::Grant;

/// A change to one partition through the API.
#[derive(Debug, Clone, PartialEq)]
pub struct PartitionChange {
    /// The P_Key of the partition without the membership bit, 0x0001 to 0x7fff.
    pub p_key: u16,
    /// The change.
    pub action: PartitionAction,
    /// The identity that requests the change.
    pub by: String,
    /// The rights of the identity. A claim to index 0 ends the claims of other partitions, but only
    /// of partitions that the identity may change.
    pub grant: Grant,
    /// Whether the change may cut off ports.
    pub cut_off: WhenCutOff,
}

/// The treatment of a request that cuts off ports from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenCutOff {
    /// The request is refused with [`ControlError::CutOff`](crate::ControlError::CutOff), and
    /// changes nothing.
    Refuse,
    /// The request is carried out.
    Accept,
}

impl WhenCutOff {
    /// The treatment that the field `accept_cut_off` of a request selects.
    pub fn accepted(accepted: bool) -> WhenCutOff {
        match accepted {
            true => WhenCutOff::Accept,
            false => WhenCutOff::Refuse,
        }
    }
}

/// The result of a partition change that is in force.
#[derive(Debug, Clone, PartialEq)]
pub struct PartitionChanged {
    /// The number of memberships that have changed.
    pub memberships: u64,
    /// The ports that the change cuts off from others; `None` if there are none.
    pub cut_off: Option<v1::PartitionCutOff>,
    /// The convergence that put the change into force.
    pub convergence: v1::Convergence,
}

impl PartitionChanged {
    /// The ports that the change cut off, in a few words for logs; empty if there are none.
    pub fn cut_off_in_words(&self) -> String {
        let Some(cut_off) = &self.cut_off else {
            return String::new();
        };
        let v1::PartitionCutOff {
            ports,
            isolated_ports,
            ..
        } = cut_off;
        format!("ports cut off: {ports}, of these from every host: {isolated_ports}")
    }
}

/// The kinds of partition changes.
#[derive(Debug, Clone, PartialEq)]
pub enum PartitionAction {
    /// Creates a partition with members.
    Create {
        /// The settings of the partition.
        settings: PartitionSettings,
        /// The members of the partition.
        members: Vec<WantedMember>,
        /// The treatment of a partition that exists already.
        existing: ExistingPartition,
    },
    /// Adds members, or changes their membership.
    Add(Vec<WantedMember>),
    /// Replaces all members by these.
    Replace(Vec<WantedMember>, EmptyPartition),
    /// Removes members; ports that are not members are ignored.
    Remove(Vec<MemberName>, EmptyPartition),
    /// Replaces the settings of the partition.
    Configure(PartitionSettings),
    /// Replaces the names that belong to the partition, and the treatment of requests about it.
    Protect(PartitionProtection),
    /// Deletes the partition with all members.
    Delete,
    /// Makes the ports of hosts limited members of the default partition, or restores the
    /// membership in the partition file. The P_Key is ignored.
    LimitDefault(bool),
}

/// The treatment of a request to create a partition that exists already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExistingPartition {
    /// The request is refused.
    Refuse,
    /// The request adds members if the settings are equal, and is refused otherwise.
    Same,
    /// The request adds members; the settings stay.
    Extend,
}

/// The treatment of a partition whose last member leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmptyPartition {
    /// The partition stays.
    Keep,
    /// The partition is deleted with its last member.
    Delete,
}

/// The settings of a partition.
#[derive(Debug, Clone, PartialEq)]
pub struct PartitionSettings {
    /// The name of the partition; if empty, the P_Key in hexadecimal is used.
    pub name: String,
    /// Whether the IPoIB broadcast group exists even without members.
    pub ipoib: bool,
    /// The service level of packets in the partition, 0 to 15.
    pub service_level: u8,
    /// The MTU of the broadcast group in bytes.
    pub mtu_bytes: u16,
    /// The rate of the broadcast group in tenths of Gb/s.
    pub rate_tenth_gbps: u16,
}

/// The settings that a line of `partitions.conf` without flags gives.
impl Default for PartitionSettings {
    fn default() -> Self {
        PartitionSettings {
            name: String::new(),
            ipoib: false,
            service_level: 0,
            mtu_bytes: 2048,
            rate_tenth_gbps: 100,
        }
    }
}

/// Names that belong to a partition, and the treatment of requests about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionProtection {
    /// The treatment; `Unspecified` for the one in the configuration.
    pub trust: TrustMode,
    /// The prefixes of MGIDs, such as `ff12:a01d:10::/48`.
    pub mgids: Vec<String>,
    /// The prefixes of alias GUIDs, such as `0x0252000000100000/44`.
    pub guids: Vec<String>,
}

/// A requested membership.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedMember {
    /// The name of the port, or of a node for all its ports.
    pub port: MemberName,
    /// The membership: full, limited or both.
    pub membership: Membership,
    /// Whether the P_Key should be at index 0.
    pub index0: bool,
}

/// The name of a port that is a member or is to become one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemberName {
    /// A port GUID; the port need not be present.
    Guid(Guid),
    /// A present node, for all its end ports, or a present port.
    Present(Selector),
    /// All end ports of the hosts with this name: the whole description, or the part before its
    /// first blank.
    Host(String),
}
