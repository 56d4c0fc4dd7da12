//! The partition overlay: partitions and members that operators and tenants make while rsm runs,
//! beside those of `partitions.conf`.
//!
//! [`Overlay`] is a value without I/O. A [`Change`] is checked and carried out by
//! [`Overlay::apply`], all of it or none; [`Overlay::over`] lays the overlay over the partitions of
//! the file, and the result is part of the policy of every plan.
//!
//! The file comes first: a P_Key that it defines cannot be changed here, and where it begins to
//! define one that the overlay has, the file's definition counts alone. The default partition is
//! always there: the overlay can add members to it, and make all ports limited members.
//!
//! Planning, the SA and the incremental steps know nothing of the overlay: they see its result as
//! partitions of the policy.

mod change;
mod over;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use rsm_ids::Guid;
use rsm_mad::wire::attr::{Mtu, PKey};
use rsm_mad::wire::sa::Rate;

pub use self::change::{Action, Change, ChangeError, Existing, WhenCutOff, WhenEmpty};
pub use self::over::Laid;
use crate::Membership;

/// Most memberships of all partitions together: every host of the largest fabrics in 23 of them. In
/// memory each takes some 40 bytes, and as much again in the policy of a plan.
pub(crate) const MAX_MEMBERSHIPS: usize = 1 << 20;

/// Longest name of a partition, and of the identity that made it, in bytes.
pub const MAX_NAME_BYTES: usize = 128;

/// The partitions that were made while rsm ran.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Overlay {
    /// By P_Key without the membership bit. Shared with the overlays before: a change copies one.
    partitions: BTreeMap<u16, Arc<OverlayPartition>>,
    /// Whether ports that are members of the default partition by a rule for all ports of a kind
    /// are limited members.
    limits_default: bool,
    /// Number of members of all partitions.
    memberships: usize,
}

/// A partition of the overlay; of the default partition, the members that it adds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OverlayPartition {
    /// Its settings.
    pub settings: PartitionSettings,
    /// The identity that made it.
    pub by: String,
    /// When, in milliseconds since the Unix epoch.
    pub since_unix_ms: u64,
    /// By port GUID. A port need not be there.
    pub members: BTreeMap<Guid, Member>,
}

/// The settings of a partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartitionSettings {
    /// 1 to [`MAX_NAME_BYTES`] bytes without control characters, and no other partition's.
    pub name: String,
    /// Whether the broadcast group of IP over InfiniBand exists even without members.
    pub ipoib: bool,
    /// Service level of its packets, 0 to 15.
    pub sl: u8,
    /// MTU of that group.
    pub mtu: Mtu,
    /// Rate of that group.
    pub rate: Rate,
}

impl PartitionSettings {
    /// The settings of a partition for which the caller gives none: those of a line in
    /// `partitions.conf` without flags.
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
    /// Its rights.
    pub membership: Membership,
    /// Whether the key is to be at index 0 of its table; in one partition at most.
    pub index0: bool,
}

impl Overlay {
    /// An overlay as the store has it. Where two partitions claim index 0 of one port, the one with
    /// the lower P_Key keeps it.
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

    /// Whether it changes nothing of the file.
    pub fn is_empty(&self) -> bool {
        self.partitions.is_empty() && !self.limits_default
    }

    /// The partitions by ascending P_Key; the default partition is the last one, if ports were added
    /// to it.
    pub fn partitions(&self) -> impl Iterator<Item = (u16, &Arc<OverlayPartition>)> {
        self.partitions.iter().map(|(&p_key, one)| (p_key, one))
    }

    /// The partition with this P_Key, whichever its membership bit.
    pub fn find(&self, p_key: u16) -> Option<&Arc<OverlayPartition>> {
        self.partitions.get(&PKey(p_key).base())
    }

    /// Whether all ports of a kind are limited members of the default partition.
    pub fn limits_default(&self) -> bool {
        self.limits_default
    }

    /// Number of members of all partitions.
    pub fn memberships(&self) -> usize {
        self.memberships
    }
}
