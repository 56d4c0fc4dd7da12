//! Multicast groups in the form in which they survive a restart.

use std::collections::BTreeMap;
use std::sync::Arc;

use rsm_ids::{Guid, Lid};
use rsm_mad::Time;
use rsm_mad::ids::Gid;
use rsm_mad::wire::sa::JoinState;

use super::limits::{MAX_GROUPS, MAX_MEMBERS};
use super::{GroupRegistry, MulticastGroup, MulticastMember, Parameters};

/// A group with its members, in saved form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SavedGroup {
    /// Parameters of the group's packets.
    pub parameters: Parameters,
    /// Multicast LID, which senders have learned.
    pub mlid: Lid,
    /// GUID of the port whose request created the group; `None` if no port is charged with it.
    pub creator: Option<Guid>,
    /// Members of the group.
    pub members: Vec<SavedMember>,
}

/// A member of a group, in saved form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SavedMember {
    /// GID with which the port is a member.
    pub gid: Gid,
    /// GUID of the port itself.
    pub port: Guid,
    /// Join states.
    pub state: JoinState,
    /// Whether the membership was requested by another port (a proxy join).
    pub proxy: bool,
}

impl GroupRegistry {
    /// Whether there are changes to save.
    pub(crate) fn is_unsaved(&self) -> bool {
        self.unsaved
    }

    /// Whether there are changes to save; marks them as saved.
    pub(crate) fn take_unsaved(&mut self) -> bool {
        std::mem::take(&mut self.unsaved)
    }

    /// All groups in saved form.
    pub fn save(&self) -> impl Iterator<Item = SavedGroup> {
        self.groups.values().map(|group| SavedGroup {
            parameters: group.parameters,
            mlid: group.mlid,
            creator: group.creator,
            members: group
                .members
                .values()
                .map(|member| SavedMember {
                    gid: member.gid,
                    port: member.port,
                    state: member.state,
                    proxy: member.proxy,
                })
                .collect(),
        })
    }

    /// Restores saved groups at the start of the daemon. Every port counts as absent until
    /// [`GroupRegistry::ports_changed`] finds it. Absent ports keep their memberships until
    /// `until`, because a sweep of a large subnet takes long.
    ///
    /// Groups and members that are invalid, contradict earlier groups or members, or exceed the
    /// limits are skipped, because bytes on a disk deserve no more trust than a request. Returns
    /// the number of skipped groups and members.
    pub fn restore(&mut self, saved: impl IntoIterator<Item = SavedGroup>, until: Time) -> usize {
        let mut skipped = 0;
        for group in saved {
            let mgid = group.parameters.mgid;
            let p_key = group.parameters.p_key;
            let is_valid = mgid.is_multicast()
                && p_key.is_valid()
                && self.groups.len() < MAX_GROUPS
                && !self.groups.contains_key(&mgid)
                && self.mlids.claim(mgid, p_key, group.mlid);
            if !is_valid {
                skipped += 1 + group.members.len();
                continue;
            }
            let mut members = BTreeMap::new();
            for member in group.members {
                let is_valid = member.state.0 & 0xF == member.state.0
                    && member.state.0 != 0
                    && self.members < MAX_MEMBERS
                    && !members.contains_key(&member.gid.guid());
                if !is_valid {
                    skipped += 1;
                    continue;
                }
                self.members += 1;
                self.index_membership(member.port, mgid, member.gid.guid());
                self.absent_ports.insert(member.port, until);
                members.insert(
                    member.gid.guid(),
                    MulticastMember {
                        gid: member.gid,
                        port: member.port,
                        state: member.state,
                        proxy: member.proxy,
                    },
                );
            }
            self.stale_mlids.insert(group.mlid);
            if let Some(creator) = group.creator {
                self.created.add(creator);
            }
            let group = MulticastGroup {
                parameters: group.parameters,
                mlid: group.mlid,
                // The next [`GroupRegistry::set_well_known`] sets this flag again.
                well_known: false,
                creator: group.creator,
                members,
            };
            Arc::make_mut(&mut self.groups).insert(mgid, Arc::new(group));
            self.has_stale_levels = true;
        }
        skipped
    }
}
