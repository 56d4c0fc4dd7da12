//! Groups and entries of adaptive routing, as one switch holds them.

use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

use rsm_ids::{Lid, PortNum};
use rsm_mad::wire::attr::{ArEntry, ArGroupTable, ArLidState, ArLinearForwardingTable, Attribute};
use rsm_routing::adaptive::{AdaptiveTable, GROUPS_PER_BLOCK, NO_GROUP};
use rsm_routing::mcast::PortMask;
use rsm_routing::tables::{Lft, NO_PATH};

/// Digest of a block of entries whose content is unknown.
const UNKNOWN: u64 = 0;

/// Groups and entries of one switch, block by block, and the set in force, if any.
///
/// Entries are kept as a digest of 64 bits for each block: the contents of a large fabric would
/// take hundreds of megabytes, and the image only has to tell whether they are as planned.
#[derive(Clone, Default, Debug)]
pub struct AdaptiveImage {
    /// The groups of known blocks.
    groups: AdaptiveTable,
    /// Whether each block of the group table is known.
    known_groups: Vec<bool>,
    /// Digest of each block of entries, [`UNKNOWN`] where the content is not known.
    entries: Vec<u64>,
    /// Static ports of entries that a takeover read back; `None` once they were compared with the
    /// forwarding table.
    read_ports: Option<Lft>,
    /// The groups and entries in force, if this manager put them in force.
    in_force: Option<Arc<AdaptiveTable>>,
    /// Whether this manager turned adaptive routing on, or took it over.
    is_own: bool,
    /// Whether ARInfo must be read: it was never read, or a Set of it was not answered.
    pub info_unverified: bool,
}

/// Digest of a block of entries; never `UNKNOWN`.
pub fn digest(block: &ArLinearForwardingTable) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(block.as_data());
    hasher.finish().max(UNKNOWN + 1)
}

/// The egress ports of the two groups in a block of the group table.
pub fn masks(block: &ArGroupTable) -> [PortMask; 2] {
    [0, 1].map(|index| block.ports(index).collect())
}

impl AdaptiveImage {
    /// Image of a switch whose groups and entries are unknown.
    pub fn unread() -> AdaptiveImage {
        AdaptiveImage {
            info_unverified: true,
            ..AdaptiveImage::default()
        }
    }

    /// Forgets everything: the switch was reset, or another manager may have written.
    pub fn forget(&mut self) {
        *self = AdaptiveImage::unread();
    }

    /// Whether a block of the group table is known to hold these groups.
    pub fn holds_groups(&self, block: u16, groups: &[PortMask; 2]) -> bool {
        self.knows_groups(block) && groups_of_block(&self.groups, block) == *groups
    }

    /// Whether a block of the group table is known.
    pub fn knows_groups(&self, block: u16) -> bool {
        self.known_groups.get(usize::from(block)) == Some(&true)
    }

    /// The two groups of a block; groups that are not known are empty.
    pub fn groups(&self, block: u16) -> [PortMask; 2] {
        groups_of_block(&self.groups, block)
    }

    /// Whether a block of entries is known to hold this content.
    pub fn holds_entries(&self, block: u16, content: &ArLinearForwardingTable) -> bool {
        self.entries.get(usize::from(block)) == Some(&digest(content))
    }

    /// Whether a block of entries is known.
    pub fn knows_entries(&self, block: u16) -> bool {
        let known = self.entries.get(usize::from(block));
        known.is_some_and(|&digest| digest != UNKNOWN)
    }

    /// Records that the switch holds `content` in a block of the group table; `None` if the content
    /// is no longer known.
    pub fn store_groups(&mut self, block: u16, content: Option<&ArGroupTable>) {
        let index = usize::from(block);
        if self.known_groups.len() <= index {
            self.known_groups.resize(index + 1, false);
        }
        self.known_groups[index] = content.is_some();
        let Some(content) = content else { return };
        for (group, ports) in (block.saturating_mul(2)..).zip(masks(content)) {
            self.groups.set_group(group, ports);
        }
    }

    /// Records that the switch holds `content` in a block of entries; `None` if the content is no
    /// longer known.
    pub fn store_entries(&mut self, block: u16, content: Option<&ArLinearForwardingTable>) {
        let index = usize::from(block);
        if self.entries.len() <= index {
            self.entries.resize(index + 1, UNKNOWN);
        }
        self.entries[index] = content.map_or(UNKNOWN, digest);
    }

    /// Records a block of entries that was read back at a takeover, with its static ports.
    pub fn store_read_entries(&mut self, block: u16, content: &ArLinearForwardingTable) {
        self.store_entries(block, Some(content));
        let ports = self.read_ports.get_or_insert_with(Lft::default);
        let first = usize::from(block) * ArLinearForwardingTable::ENTRIES;
        for index in 0..ArLinearForwardingTable::ENTRIES {
            let port = content
                .entry(index)
                .map_or(PortNum(NO_PATH), |entry| entry.port);
            if let Ok(lid) = u16::try_from(first + index) {
                ports.set_entry(Lid(lid), port.0);
            }
        }
    }

    /// Whether a takeover read back all groups up to `group_top` and all entries up to `top`, and
    /// the static ports of these entries equal `lft`. Packets that may take only one port then
    /// follow the forwarding table. Forgets the static ports.
    pub fn agrees_with(&mut self, lft: &Lft, group_top: u16, top: Lid) -> bool {
        let Some(ports) = self.read_ports.take() else {
            return false;
        };
        let all_known = (0..=group_top / 2).all(|block| self.knows_groups(block))
            && (0..=entry_block(top)).all(|block| self.knows_entries(block));
        all_known
            && (0..=top.0)
                .map(Lid)
                .all(|lid| ports.entry(lid) == lft.entry(lid))
    }

    /// Whether this manager turned adaptive routing on, or took it over with its planned tables.
    pub fn is_own(&self) -> bool {
        self.is_own
    }

    /// Records that this manager turned adaptive routing on, or took it over with its planned
    /// tables.
    pub fn mark_own(&mut self) {
        self.is_own = true;
    }

    /// The groups and entries in force; `None` if only some of them are known.
    pub fn in_force(&self) -> Option<&Arc<AdaptiveTable>> {
        self.in_force.as_ref()
    }

    /// Records the groups and entries in force.
    pub fn put_in_force(&mut self, table: Option<Arc<AdaptiveTable>>) {
        self.in_force = table;
    }
}

/// The two groups that `table` plans in a block of the group table.
pub fn groups_of_block(table: &AdaptiveTable, block: u16) -> [PortMask; 2] {
    let first = u32::from(block) * GROUPS_PER_BLOCK as u32;
    let group = |index: u32| match u16::try_from(first + index) {
        Ok(group) => table.group(group),
        Err(_) => PortMask::EMPTY,
    };
    [group(0), group(1)]
}

/// The block of entries with the groups of `table` and the static ports of `lft`.
pub fn entries_of_block(table: &AdaptiveTable, lft: &Lft, block: u16) -> ArLinearForwardingTable {
    let mut content = ArLinearForwardingTable::default();
    let first = u32::from(block) * ArLinearForwardingTable::ENTRIES as u32;
    for index in 0..ArLinearForwardingTable::ENTRIES {
        let lid = u16::try_from(first + index as u32).ok().map(Lid);
        let group = lid.map_or(NO_GROUP, |lid| table.group_of(lid));
        let port = lid.map_or(NO_PATH, |lid| lft.entry(lid));
        let entry = ArEntry {
            state: match group {
                NO_GROUP => ArLidState::Static,
                _ => ArLidState::Free,
            },
            table: 0,
            port: PortNum(port),
            group,
        };
        content.set_entry(index, entry);
    }
    content
}

/// Number of the block with the entry of a LID.
pub fn entry_block(lid: Lid) -> u16 {
    ArLinearForwardingTable::block_and_index_of(lid).0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(port: u8, group: u16) -> ArLinearForwardingTable {
        let mut table = AdaptiveTable::default();
        let mut lft = Lft::new(16);
        for lid in 0..16 {
            table.set_entry(Lid(lid), group);
            lft.set_entry(Lid(lid), port);
        }
        entries_of_block(&table, &lft, 0)
    }

    #[test]
    fn stored_block_is_held_until_its_content_is_unknown() {
        let mut image = AdaptiveImage::default();
        let (one, other) = (entries(3, 1), entries(3, 2));
        assert!(!image.holds_entries(0, &one) && !image.knows_entries(0));
        image.store_entries(0, Some(&one));
        assert!(image.holds_entries(0, &one) && !image.holds_entries(0, &other));
        image.store_entries(0, None);
        assert!(!image.holds_entries(0, &one) && !image.knows_entries(0));

        let mut groups = ArGroupTable::default();
        groups.set_ports(1, [PortNum(7), PortNum(200)]);
        image.store_groups(3, Some(&groups));
        assert!(image.holds_groups(3, &masks(&groups)));
        assert!(!image.holds_groups(2, &[PortMask::EMPTY; 2]), "not known");
        image.store_groups(3, None);
        assert!(!image.holds_groups(3, &masks(&groups)));
    }

    #[test]
    fn agrees_only_if_all_blocks_were_read_and_static_ports_equal_the_table() {
        let mut lft = Lft::new(16);
        (0..16).for_each(|lid| lft.set_entry(Lid(lid), 3));
        let read = |port| {
            let mut image = AdaptiveImage::default();
            image.store_groups(0, Some(&ArGroupTable::default()));
            image.store_read_entries(0, &entries(port, 1));
            image
        };
        assert!(read(3).agrees_with(&lft, 1, Lid(15)));
        assert!(!read(4).agrees_with(&lft, 1, Lid(15)), "another port");
        assert!(
            !read(3).agrees_with(&lft, 1, Lid(16)),
            "a block was not read"
        );
        assert!(
            !read(3).agrees_with(&lft, 2, Lid(15)),
            "groups were not read"
        );
    }
}
