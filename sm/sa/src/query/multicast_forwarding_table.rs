//! MulticastForwardingTableRecord: the planned multicast forwarding tables of switches.

use std::sync::Arc;

use rsm_mad::wire::sa::MulticastForwardingTableRecord;
use rsm_model::mft_image::{self, MftBlock};

use super::{Query, of_each_end};
use crate::ends::EndIx;

pub(super) fn candidates(
    query: Query<MulticastForwardingTableRecord>,
) -> impl Iterator<Item = Option<MulticastForwardingTableRecord>> + Send + 'static {
    let ends = query.ends(MulticastForwardingTableRecord::LID, query.record.lid());
    of_each_end(query, ends, |query, ix| {
        let query = Arc::clone(query);
        query.blocks(ix).map(move |at| query.block(ix, at))
    })
}

impl Query<MulticastForwardingTableRecord> {
    /// The blocks in the table of the node, up to the last one in use; none if it is no switch.
    fn blocks(&self, ix: EndIx) -> impl Iterator<Item = MftBlock> + use<> {
        let (node, _) = self.directory.port(ix);
        let table = self.directory.plan.multicast_table(node.guid);
        let top = table
            .filter(|_| node.is_switch())
            .and_then(|table| table.top());
        let top = top.unwrap_or(mft_image::NOTHING);
        mft_image::blocks_up_to(top, mft_image::positions(node.info.num_ports()))
    }

    fn block(&self, ix: EndIx, at: MftBlock) -> Option<MulticastForwardingTableRecord> {
        let (node, _) = self.directory.port(ix);
        let table = self.directory.plan.multicast_table(node.guid)?;
        let mut record = MulticastForwardingTableRecord::default();
        record
            .set_lid(self.directory.end(ix).lid)
            .set_block_num(at.block)
            .set_position(at.position);
        let masks = table.block(usize::from(at.block), usize::from(at.position));
        record.table_mut().set_masks(masks);
        self.keep(record)
    }
}
