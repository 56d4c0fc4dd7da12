//! Multicast GIDs: MGIDs that a request may use, and MGIDs that the SA assigns (IBA 4.1.1,
//! 15.2.5.17; RFC 4391).

use rsm_mad::ids::Gid;
use rsm_mad::wire::attr::PKey;

/// Bit offset of the flags.
const FLAGS_SHIFT: u32 = 116;

/// Bit offset of the scope.
const SCOPE_SHIFT: u32 = 112;

/// Bit offset of the 16 bits that identify the kind of address.
const SIGNATURE_SHIFT: u32 = 96;

/// Bit offset of the P_Key in IP groups.
const P_KEY_SHIFT: u32 = 80;

/// Signature of IPv4 over InfiniBand.
const IPV4: u16 = 0x401B;

/// Signature of IPv6 over InfiniBand.
const IPV6: u16 = 0x601B;

/// Signature of MGIDs assigned by the SA.
const ASSIGNED: u16 = 0xA01B;

/// Scope of groups that are confined to the subnet.
pub(super) const LINK_LOCAL: u8 = 2;

fn signature(mgid: Gid) -> u16 {
    (mgid.0 >> SIGNATURE_SHIFT) as u16
}

/// The scope in a group's MGID.
pub(super) fn scope(mgid: Gid) -> u8 {
    (mgid.0 >> SCOPE_SHIFT) as u8 & 0xF
}

/// Whether a request may create a group with this MGID.
///
/// All flags except the lowest are reserved; the lowest flag distinguishes transient groups from
/// permanent groups. Only the SA itself creates link-local groups with its signature. Groups of IP
/// over InfiniBand follow RFC 4391 and may have any flags.
pub(super) fn is_valid(mgid: Gid) -> bool {
    if !mgid.is_multicast() {
        return false;
    }
    let flags = (mgid.0 >> FLAGS_SHIFT) as u8 & 0xF;
    match signature(mgid) {
        IPV4 | IPV6 => true,
        ASSIGNED if scope(mgid) == LINK_LOCAL => false,
        _ => flags <= 1,
    }
}

/// The P_Key in the MGID of a group of IP over InfiniBand; `None` for other groups.
pub(crate) fn ip_partition(mgid: Gid) -> Option<PKey> {
    let is_ip = matches!(signature(mgid), IPV4 | IPV6);
    is_ip.then_some(PKey((mgid.0 >> P_KEY_SHIFT) as u16))
}

/// The broadcast group of the same scope and partition, which a group of IP over InfiniBand
/// requires. `None` for other groups, and for the broadcast group itself.
pub(super) fn broadcast_of(mgid: Gid) -> Option<Gid> {
    let broadcast = broadcast(scope(mgid), ip_partition(mgid)?);
    (broadcast != mgid).then_some(broadcast)
}

/// The broadcast group of IPv4 over InfiniBand in a partition: ff12:401b:ffff::ffff:ffff for the
/// default partition.
pub(super) fn broadcast(scope: u8, p_key: PKey) -> Gid {
    let head = 0xFF10_u128 | u128::from(scope & 0xF);
    Gid(head << SCOPE_SHIFT
        | u128::from(IPV4) << SIGNATURE_SHIFT
        | u128::from(p_key.0) << P_KEY_SHIFT
        | 0xFFFF_FFFF)
}

/// Whether the group belongs to an IPv6 solicited-node address, ff02::1:ffxx:xxxx (RFC 4291,
/// 2.7.1), over InfiniBand: ff1s:601b:P_Key::1:ffxx:xxxx.
pub(super) fn is_snm(mgid: Gid) -> bool {
    /// Lower 80 bits of such an MGID, without the 24 bits of the address.
    const PREFIX: u128 = 0x1_FF00_0000 >> 24;
    let low = mgid.0 & ((1 << P_KEY_SHIFT) - 1);
    signature(mgid) == IPV6 && low >> 24 == PREFIX
}

/// The MGID that the SA assigns with this number, scope and subnet prefix.
pub(super) fn assigned(scope: u8, subnet_prefix: u64, number: u32) -> Gid {
    let head = 0xFF10_u128 | u128::from(scope & 0xF);
    Gid(head << SCOPE_SHIFT
        | u128::from(ASSIGNED) << SIGNATURE_SHIFT
        | u128::from(subnet_prefix) << 32
        | u128::from(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gid(text: &str) -> Gid {
        Gid(text.parse::<std::net::Ipv6Addr>().unwrap().to_bits())
    }

    #[test]
    fn requests_may_create_only_groups_with_valid_mgids() {
        for good in [
            "ff12:a01c:fe80::1",
            "ff02::1",
            "ff1f:a01b::1",
            "ff12:401b:ffff::ffff:ffff",
            "ff12:601b:ffff::1",
        ] {
            assert!(is_valid(gid(good)), "{good}");
        }
        for bad in [
            "fa12:a01c::1",
            "ef12::1",
            "ff22::1",
            "ff82::1",
            "ff12:a01b::1",
            "::",
        ] {
            assert!(!is_valid(gid(bad)), "{bad}");
        }
    }

    #[test]
    fn ip_groups_belong_to_the_broadcast_group_of_their_partition() {
        let broadcast_gid = gid("ff12:401b:8005::ffff:ffff");
        assert_eq!(broadcast(2, PKey(0x8005)), broadcast_gid);
        assert_eq!(broadcast_of(gid("ff12:601b:8005::16")), Some(broadcast_gid));
        assert_eq!(broadcast_of(gid("ff12:401b:8005::16")), Some(broadcast_gid));
        assert_eq!(broadcast_of(broadcast_gid), None);
        assert_eq!(broadcast_of(gid("ff12:a01c::1")), None);
    }

    #[test]
    fn assigned_mgids_have_the_signature_of_the_sa() {
        let given = assigned(2, 0xFE80_0000_0000_0000, 7);
        assert_eq!(given, gid("ff12:a01b:fe80::7"));
        assert_eq!(scope(given), 2);
    }
}
