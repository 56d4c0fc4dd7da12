//! A view of all groups and members, which answers queries while the registry changes (IBA
//! 15.2.5.17.5).

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use rsm_ids::Guid;
use rsm_mad::ids::Gid;
use rsm_mad::wire::attr::PKey;
use rsm_mad::wire::sa::{ComponentMask, JoinState, McMemberRecord};

use super::MulticastGroup;
use super::join::matches;

/// Position of a query: the group, and the GUID of the member in it, after which the query
/// continues. Without a member, the query continues after the group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cursor(Option<(Gid, Option<Guid>)>);

/// All groups at one moment.
#[derive(Clone, Default, Debug)]
pub struct GroupsView {
    groups: Arc<BTreeMap<Gid, Arc<MulticastGroup>>>,
}

/// The properties of a requester that decide which MCMemberRecords it may see.
#[derive(Clone, Copy, Debug)]
pub struct McMemberAccess<'a> {
    /// P_Keys of the requester.
    pub p_keys: &'a [PKey],
    /// Whether the requester showed the SM_Key.
    pub trusted: bool,
}

impl McMemberAccess<'_> {
    /// Whether the requester may see the group.
    fn allows(&self, group: &MulticastGroup) -> bool {
        let partition = group.parameters.p_key.base();
        self.trusted || self.p_keys.iter().any(|key| key.base() == partition)
    }
}

impl GroupsView {
    pub(super) fn of(groups: Arc<BTreeMap<Gid, Arc<MulticastGroup>>>) -> GroupsView {
        GroupsView { groups }
    }

    /// The group with this MGID.
    pub fn group(&self, mgid: Gid) -> Option<&MulticastGroup> {
        self.groups.get(&mgid).map(Arc::as_ref)
    }

    /// All groups, by MGID.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = &MulticastGroup> {
        self.groups.values().map(Arc::as_ref)
    }

    /// The groups whose MGIDs follow `after`, by MGID; all groups if `after` is `None`.
    pub fn groups_after(&self, after: Option<Gid>) -> impl Iterator<Item = &MulticastGroup> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let groups = self.groups.range((from, Bound::Unbounded));
        groups.map(|(_, group)| group.as_ref())
    }

    /// Whether the port with this GUID is a member of a group.
    pub fn is_member(&self, mgid: Gid, port: Guid) -> bool {
        let members = self.group(mgid).map(|group| &group.members);
        members.is_some_and(|members| {
            // Nearly all members have the GUID of the port itself.
            members.get(&port).is_some_and(|own| own.port == port)
                || members.values().any(|member| member.port == port)
        })
    }

    /// The next record after `cursor` that matches a Get or GetTable with `record` and `mask`.
    /// Examines at most `work` groups and members. Returns the record, or `None` if none of these
    /// matches; and the position to continue from, or `None` after the last group.
    ///
    /// A trusted requester sees all groups, with one record for each member, or one record for a
    /// group without members. Any other requester sees only the groups of its own partitions, with
    /// one record for each group, in which PortGID, JoinState and ProxyJoin are 0.
    pub fn query(
        &self,
        record: &McMemberRecord,
        mask: ComponentMask,
        access: McMemberAccess<'_>,
        cursor: Cursor,
        work: usize,
    ) -> (Option<McMemberRecord>, Option<Cursor>) {
        let mut cursor = cursor;
        for _ in 0..work {
            let (group, after) = match self.next_group(record, mask, cursor) {
                None => return (None, None),
                Some(next) => next,
            };
            let mgid = group.parameters.mgid;
            let is_visible = access.allows(group)
                && matches(record, mask, group)
                && scope_matches(record, mask, group);
            let by_member = access.trusted || mask.contains(McMemberRecord::PORT_GID);
            if !is_visible || !by_member {
                cursor = Cursor(Some((mgid, None)));
                if is_visible && matches_without_member(record, mask) {
                    return (Some(group.record()), Some(cursor));
                }
                continue;
            }
            let (found, next) = next_member(record, mask, group, after);
            cursor = match next {
                Some(member) => Cursor(Some((mgid, Some(member)))),
                None => Cursor(Some((mgid, None))),
            };
            if let Some(mut found) = found {
                if !access.trusted {
                    found
                        .set_port_gid(Gid(0))
                        .set_join_state(JoinState(0))
                        .set_proxy_join(false);
                }
                return (Some(found), Some(cursor));
            }
        }
        (None, Some(cursor))
    }

    /// The group to examine next, and the GUID of the member in it to continue after; `None` after
    /// the last group.
    fn next_group(
        &self,
        record: &McMemberRecord,
        mask: ComponentMask,
        cursor: Cursor,
    ) -> Option<(&MulticastGroup, Option<Guid>)> {
        if let Cursor(Some((mgid, Some(member)))) = cursor
            && let Some(group) = self.group(mgid)
        {
            return Some((group, Some(member)));
        }
        let from = match cursor {
            Cursor(None) => Bound::Unbounded,
            Cursor(Some((mgid, _))) => Bound::Excluded(mgid),
        };
        if mask.contains(McMemberRecord::MGID) {
            let is_ahead = match from {
                Bound::Excluded(last) => record.mgid() > last,
                _ => true,
            };
            let group = self.group(record.mgid()).filter(|_| is_ahead)?;
            return Some((group, None));
        }
        let (_, group) = self.groups.range((from, Bound::Unbounded)).next()?;
        Some((group, None))
    }
}

/// The record of the next member of `group` after `after`, or `None` if that member does not match;
/// and the member to continue after, or `None` at the end of the group.
fn next_member(
    record: &McMemberRecord,
    mask: ComponentMask,
    group: &MulticastGroup,
    after: Option<Guid>,
) -> (Option<McMemberRecord>, Option<Guid>) {
    if mask.contains(McMemberRecord::PORT_GID) {
        let member = group.members.get(&record.port_gid().guid());
        let member = member.filter(|member| {
            state_matches(record, mask, member.state)
                && (!mask.contains(McMemberRecord::PROXY_JOIN)
                    || record.proxy_join() == member.proxy)
        });
        return (member.map(|member| group.record_of(member)), None);
    }
    if group.members.is_empty() {
        let found = matches_without_member(record, mask).then(|| group.record());
        return (found, None);
    }
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    match group.members.range((from, Bound::Unbounded)).next() {
        None => (None, None),
        Some((&guid, member)) => {
            let is_match = state_matches(record, mask, member.state)
                && (!mask.contains(McMemberRecord::PROXY_JOIN)
                    || record.proxy_join() == member.proxy);
            (is_match.then(|| group.record_of(member)), Some(guid))
        }
    }
}

fn state_matches(record: &McMemberRecord, mask: ComponentMask, state: JoinState) -> bool {
    !mask.contains(McMemberRecord::JOIN_STATE) || record.join_state() == state
}

/// Whether a record without a member matches the query.
fn matches_without_member(record: &McMemberRecord, mask: ComponentMask) -> bool {
    state_matches(record, mask, JoinState(0))
        && !(mask.contains(McMemberRecord::PROXY_JOIN) && record.proxy_join())
}

fn scope_matches(record: &McMemberRecord, mask: ComponentMask, group: &MulticastGroup) -> bool {
    !mask.contains(McMemberRecord::SCOPE) || record.scope() == group.parameters.scope
}
