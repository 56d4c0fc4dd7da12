//! GUIDInfoRecord: the GUIDs of a port.

use std::sync::Arc;

use rsm_ids::Guid;
use rsm_mad::wire::attr::{GuidInfo, PortInfo};
use rsm_mad::wire::sa::GuidInfoRecord;

use super::{Query, of_each_end};
use crate::sa::directory::EndIx;

pub(super) fn candidates(
    query: Query<GuidInfoRecord>,
) -> impl Iterator<Item = Option<GuidInfoRecord>> + Send + 'static {
    let ends = query.ends(GuidInfoRecord::LID, query.record.lid());
    of_each_end(query, ends, |query, ix| {
        let query = Arc::clone(query);
        (0..query.blocks(ix)).map(move |block| query.block(ix, block))
    })
}

impl Query<GuidInfoRecord> {
    /// How many blocks the table of the port has. Every port has a GUID, and so at least one.
    fn blocks(&self, ix: EndIx) -> u8 {
        let (_, port) = self.directory.port(ix);
        let capacity = port.info.as_ref().map_or(0, PortInfo::guid_cap);
        capacity.div_ceil(GuidInfo::ENTRIES as u8).max(1)
    }

    fn block(&self, ix: EndIx, block: u8) -> Option<GuidInfoRecord> {
        let end = self.directory.end(ix);
        let mut guids = [Guid::ZERO; GuidInfo::ENTRIES];
        if block == 0 {
            guids[0] = end.guid;
        }
        let mut record = GuidInfoRecord::default();
        record.set_lid(end.lid).set_block_num(block);
        record.guid_info_mut().set_guids(guids);
        self.keep(record)
    }
}
