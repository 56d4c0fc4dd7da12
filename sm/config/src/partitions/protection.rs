//! Names that belong to partitions, and the treatment of requests against their members.
//!
//! A partition owns the multicast GIDs and alias GUIDs that begin with certain bits: only members
//! may create such groups and take such alias GUIDs. The MGIDs of IP over InfiniBand contain the
//! P_Key of their partition (RFC 4391, 4), and belong to it without a definition.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use rsm_ids::Guid;
use rsm_mad::ids::Gid;
use rsm_mad::wire::attr::PKey;

use super::value;
use crate::TrustMode;

/// Minimum length of an MGID prefix in bits. These bits are the flags, the scope and the signature,
/// which determines the meaning of all other bits.
const MGID_BITS_MIN: u8 = 32;

/// Signature of MGIDs that the SA assigns.
const ASSIGNED: u16 = 0xA01B;

/// The kind of name that a partition owns.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum OwnedKind {
    /// GIDs of multicast groups.
    Mgids,
    /// Alias GUIDs of ports.
    Guids,
}

/// Names that begin with the same bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Owned {
    /// Kind of the names.
    pub kind: OwnedKind,
    /// The first name; a GUID in the upper half.
    first: u128,
    /// Bits that all names have: 32 to 128 of an MGID, 1 to 64 of a GUID.
    bits: u8,
}

impl Owned {
    /// Parses `MGID/BITS`, as `ff12:a01d:10::/48`; without `/BITS` all bits count.
    ///
    /// # Errors
    /// The expected form.
    pub fn mgids(text: &str) -> Result<Owned, String> {
        let expected = || {
            format!(
                "expected an MGID with {MGID_BITS_MIN} to 128 bits that count, such as ff12:a01d:10::/48"
            )
        };
        let (mgid, bits) = split(text, 128).ok_or_else(expected)?;
        let gid = value::mgid(mgid).ok_or_else(expected)?;
        if !(MGID_BITS_MIN..=128).contains(&bits) {
            return Err(expected());
        }
        if is_ip(gid) {
            let text = "MGIDs of IP over InfiniBand (401b, 601b) belong to the partition whose P_Key they have: leave this out";
            return Err(text.to_owned());
        }
        if (gid.0 >> 96) as u16 == ASSIGNED {
            let text =
                "the SA assigns MGIDs with a01b to any partition: expected another signature";
            return Err(text.to_owned());
        }
        Owned::aligned(OwnedKind::Mgids, gid.0, bits)
    }

    /// Parses `GUID/BITS`, as `0x0252000000100000/44`; without `/BITS` all bits count.
    ///
    /// # Errors
    /// The expected form.
    pub fn guids(text: &str) -> Result<Owned, String> {
        let parsed = split(text, 64).and_then(|(guid, bits)| {
            let guid = value::within(guid, 1, u64::MAX)?;
            (1..=64).contains(&bits).then_some((guid, bits))
        });
        let (guid, bits) = parsed.ok_or_else(|| {
            "expected a GUID with 1 to 64 bits that count, such as 0x0252000000100000/44".to_owned()
        })?;
        Owned::aligned(OwnedKind::Guids, u128::from(guid) << 64, bits)
    }

    /// The names that begin with the first `bits` of `name`, in which no later bit may be set.
    fn aligned(kind: OwnedKind, name: u128, bits: u8) -> Result<Owned, String> {
        let owned = Owned {
            kind,
            first: name & !bits_after(bits),
            bits,
        };
        match owned.first == name {
            true => Ok(owned),
            false => Err(format!(
                "bits beyond the first {bits} are set: expected {owned}"
            )),
        }
    }

    /// The last name.
    fn last(&self) -> u128 {
        self.first | bits_after(self.bits)
    }
}

/// Whether the group is an IPv4 or IPv6 group, by its signature (RFC 4391, 4).
pub(super) fn is_ip(gid: Gid) -> bool {
    matches!((gid.0 >> 96) as u16, 0x401b | 0x601b)
}

/// The bits after the first `bits` of 128.
fn bits_after(bits: u8) -> u128 {
    u128::MAX.checked_shr(bits.into()).unwrap_or(0)
}

/// The name and the number of bits in `NAME/BITS`; `all` bits if the text has no number.
fn split(text: &str, all: u8) -> Option<(&str, u8)> {
    match text.split_once('/') {
        None => Some((text, all)),
        Some((name, bits)) if bits.bytes().all(|digit| digit.is_ascii_digit()) => {
            Some((name, bits.parse().ok()?))
        }
        Some(_) => None,
    }
}

impl fmt::Display for Owned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            OwnedKind::Mgids => write!(f, "{}/{}", Gid(self.first), self.bits),
            OwnedKind::Guids => write!(f, "{}/{}", Guid((self.first >> 64) as u64), self.bits),
        }
    }
}

/// The names that a partition owns, and its trust mode.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Protection {
    /// The treatment of requests about the partition's members and names; `None` if the partition
    /// has no mode of its own.
    pub trust: Option<TrustMode>,
    /// Names that the partition owns.
    pub owned: BTreeSet<Owned>,
}

impl Protection {
    /// Whether the partition owns no names and has no mode of its own.
    pub fn is_empty(&self) -> bool {
        self.trust.is_none() && self.owned.is_empty()
    }
}

/// The names that partitions own, each with one owner, and the treatment of requests.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Protections {
    /// The prefixes with their partitions, by kind and first name. No two of them overlap.
    owners: BTreeMap<(OwnedKind, u128), (Owned, u16)>,
    /// The treatment of requests, by P_Key without the membership bit.
    trust: BTreeMap<u16, TrustMode>,
}

impl Protections {
    /// Adds protected names to a partition; existing names stay.
    ///
    /// # Errors
    /// The prefix that overlaps, and the partition that owns it, which may be `p_key`.
    pub fn own(&mut self, owned: Owned, p_key: PKey) -> Result<(), (Owned, PKey)> {
        let key = (owned.kind, owned.first);
        let before = self.owners.range(..=key).next_back();
        let before = before
            .filter(|((kind, _), (other, _))| *kind == owned.kind && other.last() >= owned.first);
        let after = self.owners.range(key..=(owned.kind, owned.last())).next();
        if let Some((_, &(other, of))) = before.or(after) {
            return Err((other, PKey(of)));
        }
        self.owners.insert(key, (owned, p_key.base()));
        Ok(())
    }

    /// Sets the treatment of requests about a partition.
    pub fn set_trust(&mut self, p_key: PKey, mode: TrustMode) {
        self.trust.insert(p_key.base(), mode);
    }

    /// P_Key of the partition that owns the MGID, without the membership bit; `None` if the MGID
    /// is free.
    pub fn owner_of_group(&self, mgid: Gid) -> Option<PKey> {
        self.owner(OwnedKind::Mgids, mgid.0)
    }

    /// P_Key of the partition that owns the alias GUID, without the membership bit; `None` if the
    /// alias GUID is free.
    pub fn owner_of_guid(&self, guid: Guid) -> Option<PKey> {
        self.owner(OwnedKind::Guids, u128::from(guid.0) << 64)
    }

    /// The partition that owns the name; `None` if the name is free.
    fn owner(&self, kind: OwnedKind, name: u128) -> Option<PKey> {
        let (_, (owned, p_key)) = self.owners.range(..=(kind, name)).next_back()?;
        (owned.kind == kind && name <= owned.last()).then_some(PKey(*p_key))
    }

    /// The treatment of requests about a partition; `None` if the partition has no mode of its own.
    pub fn trust(&self, p_key: PKey) -> Option<TrustMode> {
        self.trust.get(&p_key.base()).copied()
    }

    /// Names and modes of the partitions that have any, by P_Key without the membership bit.
    pub fn by_partition(&self) -> BTreeMap<u16, Protection> {
        let mut all: BTreeMap<u16, Protection> = BTreeMap::new();
        for (&p_key, &mode) in &self.trust {
            all.entry(p_key).or_default().trust = Some(mode);
        }
        for &(owned, p_key) in self.owners.values() {
            all.entry(p_key).or_default().owned.insert(owned);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mgids(text: &str) -> Owned {
        Owned::mgids(text).unwrap()
    }

    fn gid(text: &str) -> Gid {
        value::mgid(text).unwrap()
    }

    #[test]
    fn prefixes_are_formatted_with_their_number_of_bits() {
        for text in ["ff12:a01d:10::/48", "ff12:a01d::1/128", "ff0e::/32"] {
            assert_eq!(mgids(text).to_string(), text);
        }
        assert_eq!(mgids("ff12:a01d::1").to_string(), "ff12:a01d::1/128");
        for text in [
            "0x0252000000100000/44",
            "0x8000000000000000/1",
            "0x0000000000000001/64",
        ] {
            assert_eq!(Owned::guids(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn invalid_prefixes_are_refused() {
        for text in [
            "",
            "/48",
            "ff12::/31",
            "ff12::/129",
            "ff12::/x",
            "ff12::/+40",
            "fe80::/64",
            "ff12:a01d:10::1/48",
            "ff12:401b:8010::/48",
            "ff12:601b::/32",
            "ff12:a01b::/64",
        ] {
            assert!(Owned::mgids(text).is_err(), "{text}");
        }
        for text in [
            "",
            "0/8",
            "0x1/0",
            "0x1/65",
            "0x1/63",
            "0x1/",
            "host-01",
            "0x0252000000100001/44",
        ] {
            assert!(Owned::guids(text).is_err(), "{text}");
        }
        let refusal = Owned::mgids("ff12:a01d:10::1/48").unwrap_err();
        assert!(refusal.ends_with("expected ff12:a01d:10::/48"), "{refusal}");
    }

    #[test]
    fn names_belong_to_the_partition_whose_prefix_they_have() {
        let mut all = Protections::default();
        all.own(mgids("ff12:a01d:10::/48"), PKey(0x8010)).unwrap();
        all.own(mgids("ff12:a01d:12::/48"), PKey(0x12)).unwrap();
        all.own(Owned::guids("0x0252000000100000/44").unwrap(), PKey(0x10))
            .unwrap();
        let owner = |text: &str| all.owner_of_group(gid(text)).map(|p_key| p_key.0);
        assert_eq!(owner("ff12:a01d:10::"), Some(0x10));
        assert_eq!(owner("ff12:a01d:10:ffff:ffff:ffff:ffff:ffff"), Some(0x10));
        assert_eq!(owner("ff12:a01d:11::"), None);
        assert_eq!(owner("ff12:a01d:12::5"), Some(0x12));
        assert_eq!(owner("ff12:a01d:f::"), None);
        let of_guid = |guid| all.owner_of_guid(Guid(guid)).map(|p_key| p_key.0);
        assert_eq!(of_guid(0x0252_0000_0010_0000), Some(0x10));
        assert_eq!(of_guid(0x0252_0000_001F_FFFF), Some(0x10));
        assert_eq!(of_guid(0x0252_0000_0020_0000), None);
        assert_eq!(of_guid(0x0252_0000_000F_FFFF), None);
        assert_eq!(all.by_partition()[&0x10].owned.len(), 2);
    }

    #[test]
    fn overlapping_prefixes_are_refused() {
        let mut all = Protections::default();
        let held = mgids("ff12:a01d:10::/48");
        all.own(held, PKey(0x10)).unwrap();
        for text in [
            "ff12:a01d:10::/48",
            "ff12:a01d::/32",
            "ff12:a01d:10::7/128",
            "ff12:a01d:10:8000::/49",
        ] {
            assert_eq!(
                all.own(mgids(text), PKey(0x11)),
                Err((held, PKey(0x10))),
                "{text}"
            );
        }
        all.own(mgids("ff12:a01d:11::/48"), PKey(0x11)).unwrap();
        // A GUID prefix never overlaps an MGID prefix.
        all.own(Owned::guids("0xff12a01d00100000/48").unwrap(), PKey(0x11))
            .unwrap();
    }
}
