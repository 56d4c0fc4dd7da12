//! SwitchInfoRecord: the SwitchInfo of each switch.

use rsm_mad::wire::sa::SwitchInfoRecord;

use super::Query;
use crate::ends::EndIx;

/// The records of all switches; `None` for a port that belongs to no switch, does not match, or is
/// hidden from the requester.
pub(super) fn candidates(
    query: Query<SwitchInfoRecord>,
) -> impl Iterator<Item = Option<SwitchInfoRecord>> + Send + 'static {
    let ends = query.ends(SwitchInfoRecord::LID, query.record.lid());
    ends.map(EndIx).map(move |ix| {
        let (node, _) = query.directory.port(ix);
        let mut record = SwitchInfoRecord::default();
        record
            .set_lid(query.directory.end(ix).lid)
            .set_switch_info(node.switch.as_ref()?);
        query.if_matching(record).filter(|_| query.may_see(ix))
    })
}
