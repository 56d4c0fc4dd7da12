//! LinearForwardingTableRecord: the planned forwarding tables of switches. If the requester may not
//! see the port of a LID, the entry of the LID says that packets are dropped, as for an unused LID.

use std::sync::{Arc, OnceLock};

use rsm_ids::Lid;
use rsm_mad::wire::attr::LinearForwardingTable;
use rsm_mad::wire::sa::LinearForwardingTableRecord;

use super::{Query, of_each_end};
use crate::ends::EndIx;

/// The records of all blocks; `None` for a block that does not match.
pub(super) fn candidates(
    query: Query<LinearForwardingTableRecord>,
) -> impl Iterator<Item = Option<LinearForwardingTableRecord>> + Send + 'static {
    let ends = query.ends(LinearForwardingTableRecord::LID, query.record.lid());
    let visible = Arc::new(VisibleLids::new(query.directory.plan.blocks()));
    of_each_end(query, ends, move |query, ix| {
        let (query, visible) = (Arc::clone(query), Arc::clone(&visible));
        (0..query.blocks(ix)).map(move |block| query.block(ix, block, &visible))
    })
}

/// The LIDs whose ports the requester may see: for each block of 64 LIDs, a mask in which bit n
/// stands for LID n of the block. A mask is computed when the block is first read, and serves the
/// tables of all switches.
struct VisibleLids(Vec<OnceLock<u64>>);

impl VisibleLids {
    fn new(blocks: usize) -> VisibleLids {
        VisibleLids((0..blocks).map(|_| OnceLock::new()).collect())
    }

    /// The mask of a block; 0 for a block beyond the plan's last block.
    fn of(&self, block: u16, query: &Query<LinearForwardingTableRecord>) -> u64 {
        let Some(visible) = self.0.get(usize::from(block)) else {
            return 0;
        };
        *visible.get_or_init(|| {
            let first = block * LinearForwardingTable::ENTRIES as u16;
            let is_visible = |&offset: &u16| {
                let holder = query.directory.by_lid(Lid(first + offset));
                holder.is_some_and(|ix| query.may_see(ix))
            };
            let offsets = (0..LinearForwardingTable::ENTRIES as u16).filter(is_visible);
            offsets.fold(0, |bits, offset| bits | 1 << offset)
        })
    }
}

impl Query<LinearForwardingTableRecord> {
    /// Number of blocks in the planned table of the node; 0 if the node is not a switch or has no
    /// planned table.
    fn blocks(&self, ix: EndIx) -> u16 {
        let (node, _) = self.directory.port(ix);
        let plan = &self.directory.plan;
        let planned = node.is_switch() && plan.table(node.guid).is_some();
        // LIDs have 16 bits, so there are at most 1,024 blocks.
        if planned { plan.blocks() as u16 } else { 0 }
    }

    /// The record of a block of a switch's table; `None` if it does not match the query.
    fn block(
        &self,
        ix: EndIx,
        block: u16,
        visible: &VisibleLids,
    ) -> Option<LinearForwardingTableRecord> {
        let (node, _) = self.directory.port(ix);
        let table = self.directory.plan.table(node.guid)?;
        let mut record = LinearForwardingTableRecord::default();
        record
            .set_lid(self.directory.end(ix).lid)
            .set_block_num(block);
        let entries: &mut LinearForwardingTable = record.table_mut();
        *entries.ports_mut() = *table.block(block.into());
        if !self.trust.is_trusted() {
            let visible = visible.of(block, self);
            for (offset, port) in entries.ports_mut().iter_mut().enumerate() {
                if visible >> offset & 1 == 0 {
                    *port = LinearForwardingTable::DROP.0;
                }
            }
        }
        self.if_matching(record)
    }
}
