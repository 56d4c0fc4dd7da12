//! VLArbitrationTableRecord: the shares of VLs of a link.
//!
//! If section `qos` of the configuration is on, the answers are the planned tables. If the section
//! is off, devices keep their tables, which are not read: the answers then give all entries weight
//! 0, which disables them. Blocks that a port lacks are empty as well.

use std::sync::Arc;

use rsm_ids::PortNum;
use rsm_mad::wire::attr::VlArbitration;
use rsm_mad::wire::sa::{ComponentMask, VlArbitrationTableRecord};

use super::{Query, of_each_end};
use crate::ends::EndIx;

/// Components that are not compared for equality: the port number counts only on switches.
pub(super) const NOT_COMPARED: ComponentMask =
    VlArbitrationTableRecord::LID.with(VlArbitrationTableRecord::OUTPUT_PORT_NUM);

/// Numbers of the two low-priority blocks, followed by the two high-priority blocks.
const BLOCKS: std::ops::RangeInclusive<u8> = 1..=4;

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
        self.keep(record)
    }

    /// The planned block of a port; `None` if none is planned.
    fn planned(&self, ix: EndIx, port: PortNum, block: u8) -> Option<VlArbitration> {
        let block = VlArbitration::modifier_block(u32::from(block) << 16)?;
        let tables = self.tables_of(ix, port)?;
        let mut blocks = tables.blocks();
        blocks
            .any(|held| held == block)
            .then(|| tables.block(block))
    }
}
