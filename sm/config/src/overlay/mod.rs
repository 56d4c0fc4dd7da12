//! The partition overlay: partitions and members that operators and tenants create at run time, in
//! addition to the partitions of `partitions.conf`.
//!
//! [`Overlay`] is a value without I/O. [`Overlay::apply`] checks a [`Change`] and applies all of it
//! or nothing; [`Overlay::over`] combines the overlay with the partitions of the file. The result
//! is part of the policy of every plan.
//!
//! The file has precedence: a P_Key that it defines cannot be changed here, and if the file later
//! defines a P_Key of the overlay, only the file's definition counts. The default partition always
//! exists: the overlay can add members to it, and limit the membership of all adapters and routers.
//!
//! Planning, the SA and the incremental steps do not know the overlay; they read the combined
//! partitions in the policy.

mod change;
mod over;
mod protect;
mod tenants;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use rsm_ids::Guid;
use rsm_mad::wire::attr::{Mtu, PKey};
use rsm_mad::wire::sa::Rate;

pub use self::change::{Action, Change, ChangeError, Existing, WhenCutOff, WhenEmpty};
pub use self::over::CombinedPartitions;
pub use self::tenants::MAX_TENANT_MEMBERSHIPS;
use crate::{Membership, Protection};

/// Maximum number of memberships in all partitions together, enough for every host of the largest
/// fabrics in 23 partitions. A membership takes some 40 bytes, and as much again in the policy of a
/// plan.
pub(crate) const MAX_MEMBERSHIPS: usize = 1 << 20;

/// Maximum number of MGID and GUID prefixes that one partition owns: each prefix costs every search
/// for an owner a few steps.
pub(crate) const MAX_OWNED: usize = 64;

/// Maximum length of a partition's name, and of the identity that created it, in bytes.
pub const MAX_NAME_BYTES: usize = 128;

/// The partitions that were created at run time.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Overlay {
    /// Partitions by P_Key without the membership bit. Successive overlays share them; a change
    /// copies one partition.
    partitions: BTreeMap<u16, Arc<OverlayPartition>>,
    /// Whether rules for all ports of a kind make adapters and routers only limited members of the
    /// default partition. Switches, and ports that a rule names by GUID, keep their membership.
    limits_default: bool,
    /// Number of memberships in all partitions.
    memberships: usize,
}

/// A partition of the overlay; for the default partition, only the added members.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OverlayPartition {
    /// Settings of the partition.
    pub settings: PartitionSettings,
    /// Identity that created the partition.
    pub by: String,
    /// Time of creation, in milliseconds since the Unix epoch.
    pub since_unix_ms: u64,
    /// Names that belong to the partition, and the treatment of requests against its members.
    pub protection: Protection,
    /// Members by port GUID. The ports need not exist.
    pub members: BTreeMap<Guid, Member>,
}

/// The settings of a partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartitionSettings {
    /// Name of 1 to [`MAX_NAME_BYTES`] bytes without control characters, unique among all
    /// partitions.
    pub name: String,
    /// Whether the broadcast group of IP over InfiniBand exists even without members.
    pub ipoib: bool,
    /// Service level of the partition's packets, 0 to 15.
    pub sl: u8,
    /// MTU of the broadcast group.
    pub mtu: Mtu,
    /// Rate of the broadcast group.
    pub rate: Rate,
}

impl PartitionSettings {
    /// Default settings of a partition, as of a line in `partitions.conf` without flags.
    pub fn plain(p_key: u16) -> PartitionSettings {
        PartitionSettings {
            name: PKey(p_key).to_string(),
            ipoib: false,
            sl: 0,
            mtu: Mtu::Bytes2048,
            rate: Rate::GBPS_10,
        }
    }
}

/// The membership of one port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member {
    /// Membership of the port.
    pub membership: Membership,
    /// Whether the key must be at index 0 of the port's table; true in at most one partition.
    pub index0: bool,
}

impl Overlay {
    /// Creates the overlay from the stored partitions. If two partitions claim index 0 of one
    /// port, the partition with the lower P_Key keeps it.
    pub fn restore(partitions: BTreeMap<u16, OverlayPartition>, limits_default: bool) -> Overlay {
        let memberships = partitions.values().map(|one| one.members.len()).sum();
        let mut claimed = std::collections::BTreeSet::new();
        let partitions = partitions.into_iter().map(|(p_key, mut partition)| {
            for (&guid, member) in &mut partition.members {
                member.index0 = member.index0 && claimed.insert(guid);
            }
            (p_key, Arc::new(partition))
        });
        Overlay {
            partitions: partitions.collect(),
            limits_default,
            memberships,
        }
    }

    /// Whether the overlay leaves the partitions of the file unchanged.
    pub fn is_empty(&self) -> bool {
        self.partitions.is_empty() && !self.limits_default
    }

    /// The partitions by ascending P_Key. The default partition is the last partition, if ports
    /// were added to it.
    pub fn partitions(&self) -> impl Iterator<Item = (u16, &Arc<OverlayPartition>)> {
        self.partitions.iter().map(|(&p_key, one)| (p_key, one))
    }

    /// The partition with this P_Key; ignores the membership bit.
    pub fn find(&self, p_key: u16) -> Option<&Arc<OverlayPartition>> {
        self.partitions.get(&PKey(p_key).base())
    }

    /// Whether adapters and routers are limited members of the default partition unless a rule
    /// names them. Switches keep their membership.
    pub fn limits_default(&self) -> bool {
        self.limits_default
    }

    /// Number of memberships in all partitions.
    pub fn memberships(&self) -> usize {
        self.memberships
    }
}
