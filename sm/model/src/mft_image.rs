//! The multicast forwarding table as a switch holds it.

use std::collections::BTreeMap;
use std::sync::Arc;

use rsm_ids::{Guid, Lid};
use rsm_mad::wire::attr::{MulticastForwardingTable, SwitchInfo};
use rsm_routing::mcast::{BLOCK_MLIDS, Mft};

use super::image::{BlockTable, Image};

/// One block of a multicast forwarding table (IBA 14.2.5.12): 32 multicast LIDs by 16 ports.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct MftBlock {
    /// Number of the block: it covers 32 multicast LIDs from `0xC000 + 32 * block` on.
    pub block: u16,
    /// Position of the block: it covers 16 ports from `16 * position` on.
    pub position: u8,
}

impl MftBlock {
    /// The attribute modifier.
    pub fn modifier(self) -> u32 {
        MulticastForwardingTable::modifier(self.block, self.position)
    }
}

/// Number of positions in the table of a switch with this many external ports. Port 0 has a bit as
/// well.
pub fn positions(num_ports: u8) -> u8 {
    num_ports / MulticastForwardingTable::PORTS_PER_POSITION + 1
}

/// The part of its table by which a switch forwards multicast packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// No entries.
    Nothing,
    /// The entries up to and including this multicast LID.
    UpTo(Lid),
    /// All entries of the table.
    Everything,
}

/// The extent that MulticastFDBTop in SwitchInfo states (IBA 14.2.5.4). Switches that do not know
/// the field show 0, and forward by the whole table.
pub fn extent(info: &SwitchInfo) -> Extent {
    let top = info.multicast_fdb_top();
    if info.multicast_fdb_cap() == 0 || top == NOTHING {
        Extent::Nothing
    } else if top.is_multicast() {
        Extent::UpTo(top)
    } else {
        Extent::Everything
    }
}

/// MulticastFDBTop of a switch that forwards no multicast packets: one below the first multicast
/// LID.
pub const NOTHING: Lid = Lid(Lid::MULTICAST_FIRST.0 - 1);

/// The table as the switch holds it. Port masks are shared copy-on-write, as in
/// [`super::lft_image::LftImage`].
pub type MftImage = Image<Arc<Mft>>;

impl BlockTable for Arc<Mft> {
    type Place = MftBlock;
    type Block = [u16; BLOCK_MLIDS];

    fn has_block(&self, at: MftBlock, masks: &[u16; BLOCK_MLIDS]) -> bool {
        self.block(usize::from(at.block), usize::from(at.position)) == *masks
    }

    fn set_block(&mut self, at: MftBlock, masks: &[u16; BLOCK_MLIDS]) {
        let first = Lid::MULTICAST_FIRST.0 + at.block * BLOCK_MLIDS as u16;
        let table = Arc::make_mut(self);
        for (offset, &ports) in (0..).zip(masks) {
            let mlid = Lid(first + offset);
            let mut mask = table.mask(mlid);
            mask.set_position(usize::from(at.position), ports);
            table.set(mlid, mask);
        }
    }
}

impl MftImage {
    /// The port masks of a block as last known; empty if the block was never read.
    pub fn block(&self, at: MftBlock) -> [u16; BLOCK_MLIDS] {
        let masks = self.content();
        masks.block(usize::from(at.block), usize::from(at.position))
    }
}

/// The known multicast tables of switches. Immutable; successive values share unchanged tables.
#[derive(Clone, Default, Debug)]
pub struct HeldMasks {
    /// Tables by switch GUID.
    pub by_switch: BTreeMap<Guid, Arc<Mft>>,
}

/// The blocks of a table with this many positions, from the first one to the block of `top`. There
/// are none if `top` is no multicast LID.
pub fn blocks_up_to(top: Lid, positions: u8) -> impl Iterator<Item = MftBlock> {
    let last = MulticastForwardingTable::block_and_index_of(top).map(|(block, _)| block);
    let blocks = 0..last.map_or(0, |last| last + 1);
    blocks.flat_map(move |block| (0..positions).map(move |position| MftBlock { block, position }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_block_is_held_until_it_is_marked_dirty() {
        let mut image = MftImage::default();
        let (at, other) = (
            MftBlock {
                block: 1,
                position: 2,
            },
            MftBlock {
                block: 1,
                position: 1,
            },
        );
        let mut masks = [0; BLOCK_MLIDS];
        masks[3] = 0x8001;
        assert!(!image.holds(at, &[0; BLOCK_MLIDS]));
        image.store(at, &masks);
        assert!(image.holds(at, &masks));
        assert!(!image.is_known(other));
        let mask = image.content().mask(Lid(0xC023));
        let ports: Vec<u8> = mask.ports().map(|port| port.0).collect();
        assert_eq!(ports, [32, 47]);
        image.mark_dirty(at);
        assert!(!image.holds(at, &masks));
        assert_eq!(image.block(at), masks);
        image.forget();
        assert_eq!(image.touched().count(), 0);
    }

    #[test]
    fn multicast_top_limits_the_extent() {
        let mut info = SwitchInfo::default();
        assert_eq!(extent(&info), Extent::Nothing);
        info.set_multicast_fdb_cap(64);
        assert_eq!(extent(&info), Extent::Everything);
        info.set_multicast_fdb_top(NOTHING);
        assert_eq!(extent(&info), Extent::Nothing);
        info.set_multicast_fdb_top(Lid(0xC02A));
        assert_eq!(extent(&info), Extent::UpTo(Lid(0xC02A)));
        let blocks: Vec<u32> = blocks_up_to(Lid(0xC02A), 2)
            .map(MftBlock::modifier)
            .collect();
        assert_eq!(blocks, [0, 0x1000_0000, 1, 0x1000_0001]);
        assert_eq!(blocks_up_to(NOTHING, 2).count(), 0);
        assert_eq!((positions(15), positions(16), positions(254)), (1, 2, 16));
    }
}
