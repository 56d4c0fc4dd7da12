//! SMInfoRecord: the SMInfo of this subnet manager, and the last known SMInfo of other managers.

use rsm_ids::PortKey;
use rsm_mad::wire::attr::{SmInfo, SmState};
use rsm_mad::wire::sa::SmInfoRecord;

use super::Query;

/// The records of all managers, this one first; `None` for a record that does not match.
pub(super) fn candidates(
    query: Query<SmInfoRecord>,
) -> impl Iterator<Item = Option<SmInfoRecord>> + Send + 'static {
    let own = query.directory.by_lid(query.directory.plan.sm_lid);
    let own = own.filter(|&ix| {
        query
            .ends(SmInfoRecord::LID, query.record.lid())
            .contains(&ix.0)
    });
    let fabric = query.directory.fabric.clone();
    let others = (0..fabric.managers.len()).map(move |index| fabric.managers[index]);
    let own = own.into_iter().map(|_| None);
    own.chain(others.map(Some)).map(move |other| match other {
        None => query.if_matching(query.own()),
        Some((port, info)) => query.other(port, info),
    })
}

impl Query<SmInfoRecord> {
    /// The record of this subnet manager. The state is always master, because no other manager
    /// answers. Only trusted requesters get the SM_Key.
    fn own(&self) -> SmInfoRecord {
        let directory = &self.directory;
        let mut info = SmInfo::default();
        info.set_guid(directory.own_guid)
            .set_act_count(self.act_count)
            .set_priority(directory.identity.priority)
            .set_sm_state(SmState::Master);
        if self.trust.is_trusted() {
            info.set_sm_key(directory.identity.sm_key);
        }
        let mut record = SmInfoRecord::default();
        record.set_lid(directory.plan.sm_lid).set_sm_info(&info);
        record
    }

    /// The record of another manager, without its SM_Key, which the SA does not know. `None` if the
    /// record does not match, or if the requester may not see the manager.
    fn other(&self, port: PortKey, mut info: SmInfo) -> Option<SmInfoRecord> {
        let at = self.directory.fabric.find_port(port)?;
        let lid = self.directory.lid_of(at)?;
        let ix = self.directory.by_lid(lid)?;
        let named = self.ends(SmInfoRecord::LID, self.record.lid());
        if !named.contains(&ix.0) || !self.may_see(ix) {
            return None;
        }
        info.set_sm_key(0);
        let mut record = SmInfoRecord::default();
        record.set_lid(lid).set_sm_info(&info);
        self.if_matching(record)
    }
}
