//! LinkRecord: cables, with a record for each of the two directions.

use std::sync::Arc;

use rsm_mad::wire::sa::{ComponentMask, LinkRecord};
use rsm_model::fabric::PortRef;

use super::{Query, of_each_end};
use crate::ends::EndIx;

/// Components that the template does not compare: any LID of a port's range matches.
pub(super) const NOT_COMPARED: ComponentMask = LinkRecord::FROM_LID.with(LinkRecord::TO_LID);

/// The records of all cables; `None` for a port without a cable, or for a record that does not
/// match.
pub(super) fn candidates(
    query: Query<LinkRecord>,
) -> impl Iterator<Item = Option<LinkRecord>> + Send + 'static {
    let ends = query.ends(LinkRecord::FROM_LID, query.record.from_lid());
    of_each_end(query, ends, |query, ix| {
        let query = Arc::clone(query);
        query.ports(ix).map(move |at| query.cable(ix, at))
    })
}

impl Query<LinkRecord> {
    /// The record of the cable at `from`, a port of the node of `ix`. `None` if there is no cable,
    /// if the record does not match, or if the requester may not see the other end.
    fn cable(&self, ix: EndIx, from: PortRef) -> Option<LinkRecord> {
        let to = self.directory.fabric.peer(from)?;
        let to_lid = self.directory.lid_of(to)?;
        let far = self.directory.by_lid(to_lid)?;
        let wanted = !self.mask.contains(LinkRecord::TO_LID)
            || self.directory.by_lid(self.record.to_lid()) == Some(far);
        if !wanted || !self.may_see(far) {
            return None;
        }
        let mut record = LinkRecord::default();
        record
            .set_from_lid(self.directory.end(ix).lid)
            .set_from_port(from.port)
            .set_to_port(to.port)
            .set_to_lid(to_lid);
        self.if_matching(record)
    }
}
