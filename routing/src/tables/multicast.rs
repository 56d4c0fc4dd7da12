//! Multicast forwarding tables (IBA 14.2.5.12, 18.2.4.3.4) as desired state.

use std::collections::BTreeMap;
use std::fmt;

use rsm_ids::{Lid, PortNum};

/// The number of multicast LIDs that one MulticastForwardingTable attribute carries (IBA
/// 14.2.5.12).
pub const BLOCK_MLIDS: usize = 32;

/// The number of ports that one MulticastForwardingTable attribute carries: one of 16 positions.
pub const POSITION_PORTS: usize = 16;

const WORD_BITS: usize = u64::BITS as usize;

/// A set of ports of one switch, 0 to 255.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct PortMask([u64; 4]);

impl PortMask {
    /// The empty set.
    pub const EMPTY: PortMask = PortMask([0; 4]);

    /// Adds a port.
    pub fn insert(&mut self, port: PortNum) {
        self.0[port.index() / WORD_BITS] |= 1 << (port.index() % WORD_BITS);
    }

    /// Whether a port is in the set.
    pub fn contains(&self, port: PortNum) -> bool {
        self.0[port.index() / WORD_BITS] >> (port.index() % WORD_BITS) & 1 != 0
    }

    /// Whether the two sets have a port in common.
    pub fn intersects(&self, other: &PortMask) -> bool {
        let mut words = self.0.iter().zip(&other.0);
        words.any(|(here, there)| here & there != 0)
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; 4]
    }

    /// The ports of either set.
    pub fn union(self, other: PortMask) -> PortMask {
        PortMask(std::array::from_fn(|word| self.0[word] | other.0[word]))
    }

    /// The ports of both sets.
    pub fn intersection(self, other: PortMask) -> PortMask {
        PortMask(std::array::from_fn(|word| self.0[word] & other.0[word]))
    }

    /// The set without a port.
    pub fn without(mut self, port: PortNum) -> PortMask {
        self.0[port.index() / WORD_BITS] &= !(1 << (port.index() % WORD_BITS));
        self
    }

    /// The number of ports in the set.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The set as bits, port 0 in bit 0 of the first word.
    pub(crate) fn words(&self) -> &[u64; 4] {
        &self.0
    }

    /// The ports, lowest first.
    pub fn ports(self) -> impl Iterator<Item = PortNum> {
        self.0.into_iter().enumerate().flat_map(|(word, bits)| {
            std::iter::successors((bits != 0).then_some(bits), |bits| {
                let rest = bits & (bits - 1);
                (rest != 0).then_some(rest)
            })
            // The value is below 256, because there are four words of 64 bits.
            .map(move |bits| PortNum((word * WORD_BITS) as u8 + bits.trailing_zeros() as u8))
        })
    }

    /// Ports `16 * position` to `16 * position + 15`, the lowest in bit 0; no ports past position
    /// 15.
    pub fn position(&self, position: usize) -> u16 {
        let bit = position * POSITION_PORTS;
        match self.0.get(bit / WORD_BITS) {
            // The bits cut off belong to the next positions.
            Some(word) => (word >> (bit % WORD_BITS)) as u16,
            None => 0,
        }
    }

    /// Replaces ports `16 * position` to `16 * position + 15`; does nothing past position 15.
    pub fn set_position(&mut self, position: usize, ports: u16) {
        let bit = position * POSITION_PORTS;
        if let Some(word) = self.0.get_mut(bit / WORD_BITS) {
            let shift = bit % WORD_BITS;
            *word = *word & !(u64::from(u16::MAX) << shift) | u64::from(ports) << shift;
        }
    }
}

impl FromIterator<PortNum> for PortMask {
    fn from_iter<I: IntoIterator<Item = PortNum>>(ports: I) -> PortMask {
        let mut mask = PortMask::EMPTY;
        for port in ports {
            mask.insert(port);
        }
        mask
    }
}

impl fmt::Debug for PortMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.ports().map(|port| port.0))
            .finish()
    }
}

/// The multicast forwarding table of one switch: the output ports of each multicast LID.
///
/// Packets to a multicast LID that the table does not list are discarded.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Mft {
    masks: BTreeMap<Lid, PortMask>,
}

impl Mft {
    /// The output ports of a multicast LID; empty if the table does not list it.
    pub fn mask(&self, mlid: Lid) -> PortMask {
        self.masks.get(&mlid).copied().unwrap_or_default()
    }

    /// Sets the output ports of a multicast LID. An empty mask removes the LID from the table. Does
    /// nothing for other LIDs.
    pub fn set(&mut self, mlid: Lid, mask: PortMask) {
        if mask.is_empty() || !mlid.is_multicast() {
            self.masks.remove(&mlid);
        } else {
            self.masks.insert(mlid, mask);
        }
    }

    /// The highest multicast LID with output ports; `None` if there is none.
    pub fn top(&self) -> Option<Lid> {
        self.masks.last_key_value().map(|(&mlid, _)| mlid)
    }

    /// All multicast LIDs with output ports, lowest first, each with its ports.
    pub fn entries(&self) -> impl Iterator<Item = (Lid, PortMask)> {
        self.masks.iter().map(|(&mlid, &mask)| (mlid, mask))
    }

    /// The multicast LIDs whose output ports differ between the two tables, lowest first.
    pub fn differing(&self, other: &Mft) -> impl Iterator<Item = Lid> + use<> {
        let removed = other
            .entries()
            .filter(|(mlid, _)| !self.masks.contains_key(mlid));
        let changed = self
            .entries()
            .filter(|&(mlid, mask)| other.mask(mlid) != mask);
        let mut differing: Vec<Lid> = changed.chain(removed).map(|(mlid, _)| mlid).collect();
        differing.sort_unstable();
        differing.into_iter()
    }

    /// The masks of the 32 multicast LIDs from `0xC000 + 32 * index` on, for ports `16 * position`
    /// to `16 * position + 15`, as the MulticastForwardingTable attribute carries them.
    pub fn block(&self, index: usize, position: usize) -> [u16; BLOCK_MLIDS] {
        let mut block = [0; BLOCK_MLIDS];
        let first = Lid::MULTICAST_FIRST.index() + index * BLOCK_MLIDS;
        let (Ok(from), Ok(to)) = (u16::try_from(first), u16::try_from(first + BLOCK_MLIDS - 1))
        else {
            return block;
        };
        for (mlid, mask) in self.masks.range(Lid(from)..=Lid(to)) {
            block[usize::from(mlid.0 - from)] = mask.position(position);
        }
        block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_mask_keeps_ports_and_positions() {
        let ports = [0, 1, 15, 16, 63, 64, 127, 200, 255].map(PortNum);
        let mask: PortMask = ports.into_iter().collect();
        assert_eq!(mask.ports().collect::<Vec<_>>(), ports);
        assert!(ports.iter().all(|&port| mask.contains(port)));
        assert!(!mask.contains(PortNum(2)));
        assert_eq!(PortMask::EMPTY.ports().count(), 0);
        let mut other = PortMask::EMPTY;
        for position in 0..17 {
            other.set_position(position, mask.position(position));
        }
        assert_eq!(other, mask);
        assert_eq!(mask.position(0), 0x8003);
        assert_eq!(mask.position(15), 0x8000);
    }

    #[test]
    fn blocks_and_differences_match_the_masks_that_were_set() {
        let mut mft = Mft::default();
        let mask: PortMask = [PortNum(3), PortNum(17)].into_iter().collect();
        mft.set(Lid(0xC021), mask);
        mft.set(Lid(0xFFFE), mask);
        mft.set(Lid(0x1234), mask);
        mft.set(Lid(0xFFFF), mask);
        assert_eq!(mft.top(), Some(Lid(0xFFFE)));
        assert_eq!(mft.entries().count(), 2);
        assert_eq!(mft.block(0, 0), [0; BLOCK_MLIDS]);
        let mut expected = [0; BLOCK_MLIDS];
        expected[1] = 1 << 3;
        assert_eq!(mft.block(1, 0), expected);
        expected[1] = 1 << 1;
        assert_eq!(mft.block(1, 1), expected);
        assert_eq!(mft.block(511, 0)[30], 1 << 3);
        assert_eq!(mft.block(512, 0), [0; BLOCK_MLIDS]);
        let before = mft.clone();
        mft.set(Lid(0xFFFE), PortMask::EMPTY);
        assert_eq!(mft.top(), Some(Lid(0xC021)));
        mft.set(Lid(0xC005), mask);
        let differing = [Lid(0xC005), Lid(0xFFFE)];
        assert!(mft.differing(&before).eq(differing) && before.differing(&mft).eq(differing));
        assert_eq!(mft.differing(&mft).count(), 0);
    }
}
