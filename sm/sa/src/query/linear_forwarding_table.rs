//! LinearForwardingTableRecord: the planned forwarding tables of switches.

use std::sync::Arc;

use rsm_mad::wire::attr::LinearForwardingTable;
use rsm_mad::wire::sa::LinearForwardingTableRecord;

use super::{Query, of_each_end};
use crate::ends::EndIx;

pub(super) fn candidates(
    query: Query<LinearForwardingTableRecord>,
) -> impl Iterator<Item = Option<LinearForwardingTableRecord>> + Send + 'static {
    let ends = query.ends(LinearForwardingTableRecord::LID, query.record.lid());
    of_each_end(query, ends, |query, ix| {
        let query = Arc::clone(query);
        (0..query.blocks(ix)).map(move |block| query.block(ix, block))
    })
}

impl Query<LinearForwardingTableRecord> {
    /// Number of blocks in the table of the node; 0 if it is no switch.
    fn blocks(&self, ix: EndIx) -> u16 {
        let (node, _) = self.directory.port(ix);
        let plan = &self.directory.plan;
        let planned = node.is_switch() && plan.table(node.guid).is_some();
        // LIDs have 16 bits, so that there are at most 1,024 blocks.
        if planned { plan.blocks() as u16 } else { 0 }
    }

    fn block(&self, ix: EndIx, block: u16) -> Option<LinearForwardingTableRecord> {
        let (node, _) = self.directory.port(ix);
        let table = self.directory.plan.table(node.guid)?;
        let mut record = LinearForwardingTableRecord::default();
        record
            .set_lid(self.directory.end(ix).lid)
            .set_block_num(block);
        let entries: &mut LinearForwardingTable = record.table_mut();
        *entries.ports_mut() = *table.block(block.into());
        self.keep(record)
    }
}
