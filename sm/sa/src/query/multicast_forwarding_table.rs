//! MulticastForwardingTableRecord: the planned multicast forwarding tables of switches. The entries
//! of groups in partitions that the requester is not in are empty, as for LIDs without a group.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use rsm_ids::Lid;
use rsm_mad::wire::sa::MulticastForwardingTableRecord;
use rsm_model::mft_image::{self, MftBlock};

use super::{Query, of_each_end};
use crate::ends::EndIx;
use crate::mcast::GroupsView;

/// The records of all blocks; `None` for a block that does not match.
pub(super) fn candidates(
    query: Query<MulticastForwardingTableRecord>,
    groups: GroupsView,
) -> impl Iterator<Item = Option<MulticastForwardingTableRecord>> + Send + 'static {
    let ends = query.ends(MulticastForwardingTableRecord::LID, query.record.lid());
    let visible = Arc::new(VisibleMlids {
        groups,
        mlids: OnceLock::new(),
    });
    of_each_end(query, ends, move |query, ix| {
        let (query, visible) = (Arc::clone(query), Arc::clone(&visible));
        query
            .blocks(ix)
            .map(move |at| query.block(ix, at, &visible))
    })
}

/// The multicast LIDs of groups in the requester's partitions, computed when a block is first read.
struct VisibleMlids {
    groups: GroupsView,
    mlids: OnceLock<BTreeSet<Lid>>,
}

impl VisibleMlids {
    fn has(&self, mlid: Lid, query: &Query<MulticastForwardingTableRecord>) -> bool {
        let visible = self.mlids.get_or_init(|| {
            let p_keys = query.directory.p_keys(query.requester);
            let is_in = |partition: u16| p_keys.iter().any(|key| key.base() == partition);
            let groups = self.groups.groups();
            let groups = groups.filter(|group| is_in(group.parameters.p_key.base()));
            groups.map(|group| group.mlid).collect()
        });
        visible.contains(&mlid)
    }
}

impl Query<MulticastForwardingTableRecord> {
    /// The blocks in the table of the node, up to the last block in use; empty if the node is not a
    /// switch.
    fn blocks(&self, ix: EndIx) -> impl Iterator<Item = MftBlock> + use<> {
        let (node, _) = self.directory.port(ix);
        let table = self.directory.plan.multicast_table(node.guid);
        let top = table
            .filter(|_| node.is_switch())
            .and_then(|table| table.top());
        let top = top.unwrap_or(mft_image::NOTHING);
        mft_image::blocks_up_to(top, mft_image::positions(node.info.num_ports()))
    }

    /// The record of a block of a switch's table; `None` if it does not match the query.
    fn block(
        &self,
        ix: EndIx,
        at: MftBlock,
        visible: &VisibleMlids,
    ) -> Option<MulticastForwardingTableRecord> {
        let (node, _) = self.directory.port(ix);
        let table = self.directory.plan.multicast_table(node.guid)?;
        let mut record = MulticastForwardingTableRecord::default();
        record
            .set_lid(self.directory.end(ix).lid)
            .set_block_num(at.block)
            .set_position(at.position);
        let mut masks = table.block(usize::from(at.block), usize::from(at.position));
        if !self.trust.is_trusted() {
            let first = Lid::MULTICAST_FIRST.0 + at.block * masks.len() as u16;
            for (offset, mask) in (0..).zip(&mut masks) {
                if *mask != 0 && !visible.has(Lid(first + offset), self) {
                    *mask = 0;
                }
            }
        }
        record.table_mut().set_masks(masks);
        self.if_matching(record)
    }
}
