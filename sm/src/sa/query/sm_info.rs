//! SMInfoRecord: this subnet manager.

use rsm_mad::wire::attr::{SmInfo, SmState};
use rsm_mad::wire::sa::SmInfoRecord;

use super::Query;
use crate::sa::directory::Directory;
use crate::sa::trust::Trust;

pub(super) fn candidates(
    query: Query<SmInfoRecord>,
) -> impl Iterator<Item = Option<SmInfoRecord>> + Send + 'static {
    let own = query.directory.by_lid(query.directory.plan.sm_lid);
    let own = own.filter(|&ix| {
        query
            .ends(SmInfoRecord::LID, query.record.lid())
            .contains(&ix.0)
    });
    own.into_iter()
        .map(move |_| query.keep(record(&query.directory, query.trust)))
}

/// Only a master answers, so that its state is known.
fn record(directory: &Directory, trust: Trust) -> SmInfoRecord {
    let mut info = SmInfo::default();
    info.set_guid(directory.own_guid)
        .set_priority(directory.identity.priority)
        .set_sm_state(SmState::Master);
    if trust.is_trusted() {
        info.set_sm_key(directory.identity.sm_key);
    }
    let mut record = SmInfoRecord::default();
    record.set_lid(directory.plan.sm_lid).set_sm_info(&info);
    record
}
