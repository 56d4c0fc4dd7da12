//! MCMemberRecord: groups and members; see [`crate::mcast`].

use std::sync::Arc;

use rsm_mad::wire::attr::PKey;
use rsm_mad::wire::header::{Method, Status};
use rsm_mad::wire::sa::{ComponentMask, McMemberRecord, SaHeader, SaStatus};

use super::{Record as _, SaQueryContext};
use crate::answer::Body;
use crate::directory::Directory;
use crate::ends::EndIx;
use crate::mcast::{
    Cursor, GroupRegistry, GroupRequester, GroupsView, McMemberAccess, is_meaningful,
};
use crate::template::Template;
use crate::trust::Trust;

/// Joins a port to a group, or removes the port from a group.
///
/// # Errors
/// Fails with the status for the answer.
pub(crate) fn change(
    registry: &mut GroupRegistry,
    directory: &Directory,
    (header, data): (&SaHeader, &[u8]),
    requester: EndIx,
    trust: Trust,
) -> Result<Body, Status> {
    let record = McMemberRecord::from_prefix(data).ok_or(SaStatus::REQ_INVALID)?;
    let mask = header.component_mask();
    let port = directory.member(requester);
    let requester = GroupRequester {
        port: port.ok_or(SaStatus::REQ_DENIED)?,
        acts_for_all: trust.acts_for_all(),
    };
    let answer = match header.mad().method() {
        Method::SET => registry.join(record, mask, &requester, directory)?,
        _ => registry.leave(record, mask, &requester, directory)?,
    };
    Ok(Body::record(&answer))
}

/// Searches groups and members.
///
/// # Errors
/// Fails with the status for the answer.
pub(super) fn read(context: &SaQueryContext<'_>) -> Result<Body, Status> {
    let record = context.record::<McMemberRecord>()?;
    let mask = context.header.component_mask();
    // The view compares the components; the template only refuses unknown components.
    Template::new(&record, mask, ComponentMask(u64::MAX))?;
    if !is_meaningful(&record, mask) {
        return Err(SaStatus::REQ_INVALID);
    }
    context.read(Candidates {
        view: context.view.clone(),
        record,
        mask,
        p_keys: context.directory.p_keys(context.requester).into(),
        trusted: context.trust.is_trusted(),
        cursor: Some(Cursor::default()),
    })
}

/// Examines groups and members, one in each step: yields a record, or `None` for a group or member
/// that does not match or that the requester may not see.
struct Candidates {
    view: GroupsView,
    record: McMemberRecord,
    mask: ComponentMask,
    p_keys: Arc<[PKey]>,
    trusted: bool,
    /// Position from which to continue; `None` after the last group.
    cursor: Option<Cursor>,
}

impl Iterator for Candidates {
    type Item = Option<McMemberRecord>;

    fn next(&mut self) -> Option<Self::Item> {
        let access = McMemberAccess {
            p_keys: &self.p_keys,
            trusted: self.trusted,
        };
        let cursor = self.cursor?;
        let (found, next) = self.view.query(&self.record, self.mask, access, cursor, 1);
        self.cursor = next;
        (found.is_some() || next.is_some()).then_some(found)
    }
}
