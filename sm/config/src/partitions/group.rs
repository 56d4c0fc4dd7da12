//! Multicast groups of a partitions file.

use rsm_mad::ids::Gid;
use rsm_mad::wire::attr::{Mtu, PKey};
use rsm_mad::wire::sa::Rate;

use super::flags::{Flags, GroupFlags};
use super::model::{Partition, PartitionGroup, PartitionOrigin};
use super::protection::is_ip;

/// Q_Key of IP groups, unless the file gives one (RFC 4391, 5).
pub(super) const IPOIB_Q_KEY: u32 = 0x0b1b;

/// The IPoIB broadcast group, without P_Key.
pub(super) const BROADCAST: Gid = Gid(0xff12_401b_0000_0000_0000_0000_ffff_ffff);

/// Bit offset of the P_Key in the MGID of an IP group (RFC 4391, 4).
pub(super) const P_KEY_SHIFT: u32 = 80;

/// Bit offset of the scope in an MGID (IBA 4.1.1).
const SCOPE_SHIFT: u32 = 112;

/// MGID by which a partition in the file names its own broadcast group.
pub(super) const ANY_BROADCAST: Gid = Gid(BROADCAST.0 | 0xffff << P_KEY_SHIFT);

/// The P_Key with the bit of full membership.
pub(super) fn full(p_key: PKey) -> PKey {
    PKey(p_key.0 | 0x8000)
}

/// The group in each scope of `flags`; link-local if `flags` names no scope, even if `gid` has
/// another scope.
pub(super) fn in_scopes(
    gid: Gid,
    p_key: PKey,
    flags: &GroupFlags,
) -> impl Iterator<Item = PartitionGroup> {
    let flags = *flags;
    let scopes = match flags.scopes {
        0 => 1 << PartitionGroup::LINK_LOCAL,
        some => some,
    };
    let p_key = full(p_key);
    let gid = match is_ip(gid) {
        true => gid.0 & !(0xffff << P_KEY_SHIFT) | u128::from(p_key.0) << P_KEY_SHIFT,
        false => gid.0,
    };
    (1..16u8)
        .filter(move |scope| scopes >> scope & 1 != 0)
        .map(move |scope| PartitionGroup {
            mgid: Gid(gid & !(0xf << SCOPE_SHIFT) | u128::from(scope) << SCOPE_SHIFT),
            p_key,
            mtu: flags.mtu,
            rate: flags.rate,
            sl: flags.sl,
            scope,
            q_key: flags.q_key,
            t_class: flags.t_class,
            flow_label: flags.flow_label,
        })
}

impl Partition {
    /// Creates a partition of the overlay, with its broadcast group if `ipoib` is true. `(sl, mtu,
    /// rate)` apply to the group; `sl` also applies to the partition.
    pub fn made(
        p_key: PKey,
        name: String,
        ipoib: bool,
        (sl, mtu, rate): (u8, Mtu, Rate),
    ) -> Partition {
        let flags = GroupFlags {
            mtu,
            rate: rate.0,
            sl,
            q_key: IPOIB_Q_KEY,
            ..Flags::default().group
        };
        let groups = match ipoib {
            true => in_scopes(BROADCAST, p_key, &flags).collect(),
            false => Vec::new(),
        };
        Partition {
            p_key,
            name,
            sl,
            ipoib,
            groups,
            origin: PartitionOrigin::Api,
        }
    }
}
