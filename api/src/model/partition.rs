use rsm_ids::Guid;
use rsm_proto::v1;

use super::{Membership, Selector};
use crate::role::Grant;

/// A change of one partition that is made through the API.
#[derive(Debug, Clone, PartialEq)]
pub struct PartitionChange {
    /// Its P_Key without the membership bit, 0x0001 to 0x7fff.
    pub p_key: u16,
    /// The change.
    pub action: PartitionAction,
    /// The identity that asks for it.
    pub by: String,
    /// The rights of that identity: a claim to index 0 ends claims of other partitions that it may
    /// change, and no others.
    pub grant: Grant,
    /// Whether ports may be cut off by it.
    pub cut_off: WhenCutOff,
}

/// The treatment of a request that cuts ports off from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenCutOff {
    /// It is refused with [`ControlError::CutOff`](crate::ControlError::CutOff), and changes
    /// nothing.
    Refuse,
    /// It is carried out.
    Accept,
}

impl WhenCutOff {
    /// The treatment by the field `accept_cut_off` of a request.
    pub fn accepted(accepted: bool) -> WhenCutOff {
        match accepted {
            true => WhenCutOff::Accept,
            false => WhenCutOff::Refuse,
        }
    }
}

/// A change of a partition that is in force.
#[derive(Debug, Clone, PartialEq)]
pub struct PartitionChanged {
    /// How many memberships differ from before.
    pub memberships: u64,
    /// The ports that it cuts off from others; `None` if there are none.
    pub cut_off: Option<v1::PartitionCutOff>,
    /// The convergence that put it into force.
    pub convergence: v1::Convergence,
}

impl PartitionChanged {
    /// The ports that the change cut off in a few words, for logs; empty if there are none.
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

/// The kinds of changes.
#[derive(Debug, Clone, PartialEq)]
pub enum PartitionAction {
    /// Make a partition, with members.
    Create {
        /// Its settings.
        settings: PartitionSettings,
        /// Its members.
        members: Vec<WantedMember>,
        /// The treatment of a partition that is there already.
        existing: ExistingPartition,
    },
    /// Add members, or change their membership.
    Add(Vec<WantedMember>),
    /// Have these members and no others.
    Replace(Vec<WantedMember>, EmptyPartition),
    /// Remove members; those that are none are left out.
    Remove(Vec<MemberName>, EmptyPartition),
    /// Give it other settings.
    Configure(PartitionSettings),
    /// Remove it with all members.
    Delete,
    /// Make the ports of hosts limited members of the default partition, or leave them as the file
    /// says. The P_Key does not matter.
    LimitDefault(bool),
}

/// The treatment of a request for a partition that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExistingPartition {
    /// It is refused.
    Refuse,
    /// It adds members if the settings are the same, else it is refused.
    Same,
    /// It adds members; the settings stay.
    Extend,
}

/// The treatment of a partition whose last member leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmptyPartition {
    /// It stays.
    Keep,
    /// It goes with its last member.
    Delete,
}

/// The settings of a partition.
#[derive(Debug, Clone, PartialEq)]
pub struct PartitionSettings {
    /// Its name; empty for its P_Key in hexadecimal.
    pub name: String,
    /// Whether the broadcast group of IP over InfiniBand exists even without members.
    pub ipoib: bool,
    /// Service level of its packets, 0 to 15.
    pub service_level: u8,
    /// MTU of that group in bytes.
    pub mtu_bytes: u16,
    /// Rate of that group in tenths of Gb/s.
    pub rate_tenth_gbps: u16,
}

/// The settings of a line in `partitions.conf` without flags.
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

/// A membership to be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedMember {
    /// The port, or the ports of a node.
    pub port: MemberName,
    /// Full, limited or both.
    pub membership: Membership,
    /// Whether the key is to be at index 0.
    pub index0: bool,
}

/// The name of a port that is or is to be a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemberName {
    /// A port GUID; the port need not be there.
    Guid(Guid),
    /// A present node, for all its end ports, or a present port.
    Present(Selector),
    /// All end ports of the hosts with this name, whole or up to the first blank of their
    /// description.
    Host(String),
}
