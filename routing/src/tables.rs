//! Linear forwarding tables (IBA 14.2.5.10, 18.2.4.3.3) as desired state: one byte for each LID.

use std::sync::Arc;

use rsm_ids::{Lid, PortNum};

use crate::topology::SwitchIdx;

/// The entry of a LID that a switch has no path to: packets are discarded.
pub const NO_PATH: u8 = 255;

/// How many LIDs one LinearForwardingTable attribute carries (IBA 14.2.5.10).
pub const BLOCK_LIDS: usize = 64;

/// The linear forwarding table of one switch: the output port of each LID.
///
/// Entries past its end are [`NO_PATH`]. Two tables that forward alike are equal, whatever their
/// length. A clone shares the entries until one of the two changes.
#[derive(Clone, Debug, Default)]
pub struct Lft {
    ports: Arc<Vec<u8>>,
}

impl Lft {
    /// A table without a path, with room for the LIDs `0..lids`.
    pub fn new(lids: usize) -> Lft {
        Lft {
            ports: Arc::new(vec![NO_PATH; lids]),
        }
    }

    /// The table with these entries, by LID from LID 0 on.
    pub fn from_entries(ports: impl Into<Arc<Vec<u8>>>) -> Lft {
        let ports: Arc<Vec<u8>> = ports.into();
        Lft { ports }
    }

    /// The output port of `lid`, 0 for the switch's own LIDs, or `None` when packets to it are discarded.
    pub fn port(&self, lid: Lid) -> Option<PortNum> {
        match self.entry(lid) {
            NO_PATH => None,
            port => Some(PortNum(port)),
        }
    }

    /// The table's byte for `lid`; [`NO_PATH`] past the end.
    pub fn entry(&self, lid: Lid) -> u8 {
        self.ports.get(lid.index()).copied().unwrap_or(NO_PATH)
    }

    /// Sets the table's byte for `lid`, growing the table where needed.
    pub fn set_entry(&mut self, lid: Lid, port: u8) {
        let ports = Arc::make_mut(&mut self.ports);
        if lid.index() >= ports.len() {
            ports.resize(lid.index() + 1, NO_PATH);
        }
        ports[lid.index()] = port;
    }

    /// The highest LID that has a path, or `None` for a table without one: what SwitchInfo's
    /// LinearFDBTop is set to (IBA 14.2.5.4).
    pub fn top(&self) -> Option<Lid> {
        let last = self.ports.iter().rposition(|&port| port != NO_PATH)?;
        // Tables are indexed by LID, so every index below the length is a LID.
        u16::try_from(last).ok().map(Lid)
    }

    /// How many blocks hold every entry: the indices that [`Lft::block`] is worth asking for.
    pub fn blocks(&self) -> usize {
        self.ports.len().div_ceil(BLOCK_LIDS)
    }

    /// The 64 entries from LID `64 * index` on, as the LinearForwardingTable attribute carries them.
    pub fn block(&self, index: usize) -> [u8; BLOCK_LIDS] {
        let mut block = [NO_PATH; BLOCK_LIDS];
        let held = self.held(index);
        block[..held.len()].copy_from_slice(held);
        block
    }

    /// Replaces the 64 entries from LID `64 * index` on.
    ///
    /// Blocks past the LID space (`index` above 1,023) hold no LID and are ignored.
    pub fn set_block(&mut self, index: usize, block: &[u8; BLOCK_LIDS]) {
        const LIDS: usize = u16::MAX as usize + 1;
        if index >= LIDS / BLOCK_LIDS {
            return;
        }
        let start = index * BLOCK_LIDS;
        let ports = Arc::make_mut(&mut self.ports);
        if ports.len() < start + BLOCK_LIDS {
            ports.resize(start + BLOCK_LIDS, NO_PATH);
        }
        ports[start..start + BLOCK_LIDS].copy_from_slice(block);
    }

    /// Whether block `index` forwards as `other`'s does.
    pub fn block_eq(&self, other: &Lft, index: usize) -> bool {
        if self.is_shared_with(other) {
            return true;
        }
        let (mine, theirs) = (self.held(index), other.held(index));
        let shared = mine.len().min(theirs.len());
        mine[..shared] == theirs[..shared]
            && mine[shared..].iter().all(|&port| port == NO_PATH)
            && theirs[shared..].iter().all(|&port| port == NO_PATH)
    }

    /// Whether the two are one table in memory, and so alike without a look at the entries.
    pub fn is_shared_with(&self, other: &Lft) -> bool {
        Arc::ptr_eq(&self.ports, &other.ports)
    }

    /// The entries by LID, from LID 0 on.
    pub fn as_slice(&self) -> &[u8] {
        &self.ports
    }

    /// The entries by LID, from LID 0 on, for an engine to fill in.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        let ports: &mut Vec<u8> = Arc::make_mut(&mut self.ports);
        ports
    }

    fn held(&self, index: usize) -> &[u8] {
        let start = index.saturating_mul(BLOCK_LIDS).min(self.ports.len());
        let end = start.saturating_add(BLOCK_LIDS).min(self.ports.len());
        &self.ports[start..end]
    }
}

impl PartialEq for Lft {
    fn eq(&self, other: &Self) -> bool {
        if self.is_shared_with(other) {
            return true;
        }
        let shared = self.ports.len().min(other.ports.len());
        self.ports[..shared] == other.ports[..shared]
            && self.ports[shared..].iter().all(|&port| port == NO_PATH)
            && other.ports[shared..].iter().all(|&port| port == NO_PATH)
    }
}

impl Eq for Lft {}

/// The forwarding tables of a whole fabric, by [`SwitchIdx`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tables {
    /// One table for each switch of the topology, in its order.
    pub lfts: Vec<Lft>,
}

impl Tables {
    /// The table of a switch.
    ///
    /// # Panics
    /// When the tables are of a topology that has no such switch.
    pub fn lft(&self, switch: SwitchIdx) -> &Lft {
        &self.lfts[switch.index()]
    }

    /// How many 64-LID blocks differ from `other`'s: the Sets that a change from one to the other
    /// costs. Switches that only one of them has count with every block that has a path.
    pub fn blocks_changed(&self, other: &Tables) -> usize {
        let none = Lft::default();
        (0..self.lfts.len().max(other.lfts.len()))
            .map(|switch| {
                let mine = self.lfts.get(switch).unwrap_or(&none);
                let theirs = other.lfts.get(switch).unwrap_or(&none);
                (0..mine.blocks().max(theirs.blocks()))
                    .filter(|&block| !mine.block_eq(theirs, block))
                    .count()
            })
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_past_the_end_has_no_path() {
        let mut lft = Lft::new(3);
        assert_eq!(lft.top(), None);
        assert_eq!(lft.port(Lid(7)), None);
        lft.set_entry(Lid(70), 4);
        assert_eq!(lft.top(), Some(Lid(70)));
        assert_eq!(lft.port(Lid(70)), Some(PortNum(4)));
        assert_eq!(lft.blocks(), 2);
        assert_eq!(lft.block(1)[6], 4);
        assert_eq!(lft.block(1)[7], NO_PATH);
        assert_eq!(lft.block(9), [NO_PATH; BLOCK_LIDS]);
        assert_eq!(lft.block(usize::MAX), [NO_PATH; BLOCK_LIDS]);
    }

    #[test]
    fn equality_is_about_forwarding_not_about_length() {
        let mut short = Lft::new(1);
        short.set_entry(Lid(5), 2);
        let mut long = Lft::new(500);
        long.set_entry(Lid(5), 2);
        assert_eq!(short, long);
        assert!((0..9).all(|block| short.block_eq(&long, block)));
        long.set_entry(Lid(400), 1);
        assert_ne!(short, long);
        assert!(!short.block_eq(&long, 400 / BLOCK_LIDS));
        let (short, long) = (Tables { lfts: vec![short] }, Tables { lfts: vec![long] });
        assert_eq!(short.blocks_changed(&long), 1);
        assert_eq!(short.blocks_changed(&Tables::default()), 1);
    }

    #[test]
    fn a_block_set_is_the_block_read() {
        let mut block = [NO_PATH; BLOCK_LIDS];
        block[63] = 9;
        let mut lft = Lft::default();
        lft.set_block(1023, &block);
        lft.set_block(1024, &[0; BLOCK_LIDS]);
        assert_eq!(lft.block(1023), block);
        assert_eq!(lft.entry(Lid(u16::MAX)), 9);
        assert_eq!(lft.blocks(), 1024);
    }
}
