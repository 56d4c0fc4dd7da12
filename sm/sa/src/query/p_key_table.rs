//! P_KeyTableRecord: the P_Keys of a port.

use std::sync::Arc;

use rsm_ids::PortNum;
use rsm_mad::wire::attr::{PKey, PKeyTable};
use rsm_mad::wire::sa::{ComponentMask, PKeyTableRecord};
use rsm_model::fabric::PortRef;

use super::{Query, of_each_end};
use crate::ends::EndIx;

/// Components that the template does not compare: any LID of a port's range matches, and the port
/// number counts only on switches.
pub(super) const NOT_COMPARED: ComponentMask = PKeyTableRecord::LID.with(PKeyTableRecord::PORT_NUM);

/// The records of all blocks; `None` for a block that does not match.
pub(super) fn candidates(
    query: Query<PKeyTableRecord>,
) -> impl Iterator<Item = Option<PKeyTableRecord>> + Send + 'static {
    let ends = query.ends_and_vports(PKeyTableRecord::LID, query.record.lid());
    of_each_end(query, ends, |query, ix| {
        let query = Arc::clone(query);
        query.ports(ix).flat_map(move |at| {
            let query = Arc::clone(&query);
            let blocks = query.table(ix, at).len().div_ceil(PKeyTable::ENTRIES);
            // PartitionCap has 16 bits, so there are at most 2,048 blocks.
            (0..blocks as u16).map(move |block| query.block(ix, at, block))
        })
    })
}

impl Query<PKeyTableRecord> {
    /// The P_Keys of `at`, a port of the node of `ix`; empty if no table is planned for the port.
    fn table(&self, ix: EndIx, at: PortRef) -> &[PKey] {
        if at == self.directory.end(ix).at {
            self.directory.p_keys(ix)
        } else {
            self.directory.switch_p_keys(at).unwrap_or_default()
        }
    }

    /// The record of a block of a port; `None` if it does not match the query.
    fn block(&self, ix: EndIx, at: PortRef, block: u16) -> Option<PKeyTableRecord> {
        let port = if self.is_switch(ix) {
            at.port
        } else {
            PortNum::ZERO
        };
        let by_port = self.is_switch(ix) && self.mask.contains(PKeyTableRecord::PORT_NUM);
        if by_port && self.record.port_num() != port {
            return None;
        }
        let table = self.table(ix, at);
        let held = table.chunks(PKeyTable::ENTRIES).nth(block.into())?;
        let mut entries = [PKey::INVALID; PKeyTable::ENTRIES];
        entries[..held.len()].copy_from_slice(held);
        let mut record = PKeyTableRecord::default();
        record
            .set_lid(self.directory.end(ix).lid)
            .set_block_num(block)
            .set_port_num(port);
        record.table_mut().set_p_keys(entries);
        self.if_matching(record)
    }
}
