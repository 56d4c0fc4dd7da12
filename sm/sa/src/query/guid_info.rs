//! GUIDInfoRecord: the port GUID and alias GUIDs of a port (see [`crate::guids`]), and the GUIDs of
//! a virtual port as its adapter shows them.

use std::sync::Arc;

use rsm_mad::wire::attr::{GuidInfo, PortInfo};
use rsm_mad::wire::header::{Method, Status};
use rsm_mad::wire::sa::{ComponentMask, GuidInfoRecord, SaHeader, SaStatus};

use super::{EndIndices, Query, Record as _, of_each_end, vport};
use crate::answer::Body;
use crate::ends::EndIx;
use crate::guids::{AliasRegistry, AliasRequester};

/// Assigns or releases alias GUIDs of a port.
///
/// # Errors
/// Fails with the status for the answer.
pub(crate) fn change(
    registry: &mut AliasRegistry,
    (header, data): (&SaHeader, &[u8]),
    requester: &AliasRequester<'_>,
) -> Result<Body, Status> {
    let record = GuidInfoRecord::from_prefix(data).ok_or(SaStatus::REQ_INVALID)?;
    let mask = header.component_mask();
    let answer = match header.mad().method() {
        Method::SET => registry.assign(record, mask, requester)?,
        _ => registry.release(record, mask, requester)?,
    };
    Ok(Body::record(&answer))
}

/// The records of all blocks; `None` for a block that does not match.
pub(super) fn candidates(
    query: Query<GuidInfoRecord>,
) -> impl Iterator<Item = Option<GuidInfoRecord>> + Send + 'static {
    let ends = query.ends_to_examine();
    of_each_end(query, ends, |query, ix| {
        let query = Arc::clone(query);
        (0..query.blocks(ix)).map(move |block| query.block(ix, block))
    })
}

impl Query<GuidInfoRecord> {
    /// The ends to examine: the ends with the LID of the query, or with its port GUID (the first
    /// GUID of block 0), or all ends if the query has neither.
    fn ends_to_examine(&self) -> EndIndices {
        const PORT_GUID: ComponentMask = GuidInfoRecord::BLOCK_NUM.with(GuidInfoRecord::GUID0);

        let is_by_guid = !self.mask.contains(GuidInfoRecord::LID)
            && self.mask.contains(PORT_GUID)
            && self.record.block_num() == 0;
        let guid = self.record.guid_info().guids()[0];
        match is_by_guid {
            true => self.ends_with_guid(guid),
            false => self.ends_and_vports(GuidInfoRecord::LID, self.record.lid()),
        }
    }

    /// Number of blocks in the table of the port, at least one, because every port has a GUID.
    fn blocks(&self, ix: EndIx) -> u8 {
        if let Some(vport) = self.directory.vport(ix) {
            return vport.guid_blocks().max(1);
        }
        let (_, port) = self.directory.port(ix);
        let capacity = port.info.as_ref().map_or(0, PortInfo::guid_cap);
        capacity.div_ceil(GuidInfo::ENTRIES as u8).max(1)
    }

    /// The record of a block of an end's GUIDs. `None` if the record does not match the query, or
    /// if the adapter of a virtual port did not show the block.
    fn block(&self, ix: EndIx, block: u8) -> Option<GuidInfoRecord> {
        let end = self.directory.end(ix);
        let guids = match self.directory.vport(ix) {
            Some(vport) => vport::guid_block(vport, block)?,
            None => self
                .directory
                .alias_index()
                .aliases()
                .block(end.guid, block),
        };
        let mut record = GuidInfoRecord::default();
        record.set_lid(end.lid).set_block_num(block);
        record.guid_info_mut().set_guids(guids);
        self.if_matching(record)
    }
}
