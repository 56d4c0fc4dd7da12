//! VLArbitrationTableRecord: how the VLs of a link share its bandwidth.
//!
//! If section `qos` of the configuration is on, the answers contain the planned tables. If the
//! section is off, devices keep their tables, which rsm does not read: all entries in the answers
//! then have weight 0, as in blocks that a port lacks.

use std::sync::Arc;

use rsm_ids::PortNum;
use rsm_mad::wire::attr::VlArbitration;
use rsm_mad::wire::sa::{ComponentMask, VlArbitrationTableRecord};

use super::{Query, of_each_end};
use crate::ends::EndIx;

/// Components that the template does not compare: any LID of a port's range matches, and the port
/// number counts only on switches.
pub(super) const NOT_COMPARED: ComponentMask =
    VlArbitrationTableRecord::LID.with(VlArbitrationTableRecord::OUTPUT_PORT_NUM);

/// Numbers of the two low-priority blocks, followed by the two high-priority blocks.
const BLOCKS: std::ops::RangeInclusive<u8> = 1..=4;

/// The records of all blocks; `None` for a block that does not match.
pub(super) fn candidates(
    query: Query<VlArbitrationTableRecord>,
) -> impl Iterator<Item = Option<VlArbitrationTableRecord>> + Send + 'static {
    let ends = query.ends(VlArbitrationTableRecord::LID, query.record.lid());
    of_each_end(query, ends, |query, ix| {
        let query = Arc::clone(query);
        query.port_numbers(ix).flat_map(move |port| {
            let query = Arc::clone(&query);
            BLOCKS.map(move |block| query.block(ix, PortNum(port), block))
        })
    })
}

impl Query<VlArbitrationTableRecord> {
    /// The record of a block of a port; `None` if the record does not match the query.
    fn block(&self, ix: EndIx, port: PortNum, block: u8) -> Option<VlArbitrationTableRecord> {
        let by_port = self.is_switch(ix)
            && self
                .mask
                .contains(VlArbitrationTableRecord::OUTPUT_PORT_NUM);
        if by_port && self.record.output_port_num() != port {
            return None;
        }
        let mut record = VlArbitrationTableRecord::default();
        record
            .set_lid(self.directory.end(ix).lid)
            .set_output_port_num(port)
            .set_block_num(block);
        if let Some(table) = self.planned(ix, port, block) {
            *record.table_mut() = table;
        }
        self.if_matching(record)
    }

    /// The planned block of a port; `None` if the block is not planned.
    fn planned(&self, ix: EndIx, port: PortNum, block: u8) -> Option<VlArbitration> {
        let block = VlArbitration::modifier_block(u32::from(block) << 16)?;
        let tables = self.tables_of(ix, port)?;
        let mut blocks = tables.blocks();
        blocks
            .any(|held| held == block)
            .then(|| tables.block(block))
    }
}
