//! Requests to leave a multicast group (IBA 15.2.5.17.4).

use rsm_mad::wire::header::Status;
use rsm_mad::wire::sa::{ComponentMask, JoinState, McMemberRecord, SaStatus};

use super::join::may_change;
use super::{GroupRegistry, GroupRequester, Ports, group_mut};

impl GroupRegistry {
    /// Answers a Delete of MCMemberRecord: a port gives up the join states in the request. The
    /// answer contains the remaining states.
    ///
    /// # Errors
    /// Fails with the status for the answer; then nothing has changed.
    pub fn leave(
        &mut self,
        record: &McMemberRecord,
        mask: ComponentMask,
        requester: &GroupRequester<'_>,
        ports: &impl Ports,
    ) -> Result<McMemberRecord, Status> {
        let port = self.check_request(record, mask, ports)?;
        let alias = port.gid.guid();
        let (mgid, state) = (record.mgid(), record.join_state());
        let group = group_mut(&mut self.groups, mgid).ok_or(SaStatus::REQ_INVALID)?;
        let is_allowed = may_change(group, &port, requester);
        let member = group.members.get_mut(&alias);
        let member = member
            .filter(|member| is_allowed && state.0 != 0 && member.state.0 & state.0 == state.0)
            .ok_or(SaStatus::REQ_INVALID)?;
        let received = member.receives();
        member.state = JoinState(member.state.0 & !state.0);
        let remaining = *member;
        let mut answer = group.record_of(&remaining);
        answer.set_port_gid(record.port_gid());
        self.unsaved = true;
        if received != remaining.receives() {
            self.stale_mlids.insert(group.mlid);
        }
        if remaining.state == JoinState(0) {
            self.remove_member(mgid, alias);
        } else {
            self.delete_if_unused(mgid);
        }
        Ok(answer)
    }
}
