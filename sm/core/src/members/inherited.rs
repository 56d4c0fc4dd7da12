//! Inherited multicast members: group members that only the switches' multicast tables show.
//!
//! A manager may take over a running subnet without the registrations: the store is lost, or
//! another manager was master. Such a manager learns about members only as they join again. Until
//! then, the receivers in the switches' multicast tables stay members: otherwise the first port to
//! join would cut off all other members. A member is inherited until it has joined again, at most
//! for [`INHERITED_FOR`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::Time;
use rsm_model::fabric::{Fabric, NodeIx, PortRef};
use rsm_model::mft_image::HeldMasks;
use rsm_plan::groups::{GroupMembers, GroupSet};

/// Time for which inherited members stay: longer than thousands of hosts take to join again after
/// the manager has asked for reregistration.
pub const INHERITED_FOR: Duration = Duration::from_secs(300);

/// State of the inherited members.
#[derive(Debug, Default)]
pub(super) enum Inherited {
    /// The SA has not yet reported whether its group set is complete.
    #[default]
    Unasked,
    /// The SA's group set is incomplete: the multicast tables of the switches must be read.
    Due,
    /// Inherited members count in addition to registered members.
    Valid {
        /// Time at which the inherited members expire.
        until: Time,
        /// Inherited members that have not registered yet.
        members: MembersByLid,
        /// The last results of [`Inherited::merged_into`].
        merged: Merged,
    },
    /// Only registered ports are members.
    Over,
}

/// Multicast LID → port GUID → whether the port receives.
type MembersByLid = BTreeMap<Lid, BTreeMap<Guid, bool>>;

/// Multicast LID → (registered members, registered and inherited members together), from the last
/// call of [`Inherited::merged_into`]. As long as the registered members are unchanged, the result
/// is the same `Arc`, so that the plan sees no change.
type Merged = BTreeMap<Lid, (Option<Arc<GroupMembers>>, Arc<GroupMembers>)>;

impl Inherited {
    /// Makes the next plan read the members from the multicast tables again. Called at a takeover,
    /// because another master may have written the tables.
    pub(super) fn inherit_again(&mut self) {
        *self = Inherited::Due;
    }

    /// Reads the inherited members from the switches' tables `masks`, if a reading is due. `groups`
    /// are the registered members.
    pub(super) fn read_if_due(
        &mut self,
        fabric: &Fabric,
        masks: &HeldMasks,
        groups: &GroupSet,
        now: Time,
    ) {
        if matches!(self, Inherited::Due) {
            *self = Inherited::Valid {
                until: now + INHERITED_FOR,
                members: members_in_tables(fabric, masks, groups),
                merged: Merged::new(),
            };
            self.on_registrations(groups);
        }
    }

    /// Handles the SA's group set: removes the inherited members that have registered. The first
    /// group set also decides whether the switches' tables must be read.
    pub(super) fn on_registrations(&mut self, groups: &GroupSet) {
        if matches!(self, Inherited::Unasked) {
            *self = if groups.partial {
                Inherited::Due
            } else {
                Inherited::Over
            };
        }
        let Inherited::Valid {
            members, merged, ..
        } = self
        else {
            return;
        };
        for (mlid, registered) in &groups.by_mlid {
            if let Some(ports) = members.get_mut(mlid) {
                let before = ports.len();
                ports.retain(|guid, _| !registered.ports.contains_key(guid));
                if ports.len() < before {
                    merged.remove(mlid);
                }
            }
        }
        members.retain(|_, ports| !ports.is_empty());
    }

    /// Returns `groups` with the inherited members added.
    pub(super) fn merged_into(&mut self, groups: &Arc<GroupSet>) -> Arc<GroupSet> {
        let Inherited::Valid {
            members, merged, ..
        } = self
        else {
            return groups.clone();
        };
        let mut all = GroupSet::clone(groups);
        for (&mlid, ports) in members {
            let registered = groups.by_mlid.get(&mlid);
            let is_unchanged = |(before, _): &&(Option<Arc<GroupMembers>>, _)| {
                before.as_ref().map(Arc::as_ptr) == registered.map(Arc::as_ptr)
            };
            let all_members = match merged.get(&mlid).filter(is_unchanged) {
                Some((_, all_members)) => all_members.clone(),
                None => {
                    let mut all_members = registered
                        .map_or_else(GroupMembers::default, |registered| (**registered).clone());
                    for (&guid, &receives) in &*ports {
                        *all_members.ports.entry(guid).or_default() |= receives;
                    }
                    let all_members = Arc::new(all_members);
                    merged.insert(mlid, (registered.cloned(), all_members.clone()));
                    all_members
                }
            };
            all.by_mlid.insert(mlid, all_members);
        }
        Arc::new(all)
    }

    /// Time at which the inherited members expire; `None` if there are none.
    pub(super) fn deadline(&self) -> Option<Time> {
        match self {
            Inherited::Valid { until, .. } => Some(*until),
            Inherited::Unasked | Inherited::Due | Inherited::Over => None,
        }
    }

    /// Drops the inherited members if they have expired at `now`. Returns whether they have.
    pub(super) fn expire(&mut self, now: Time) -> bool {
        let has_expired = self.deadline().is_some_and(|until| until <= now);
        if has_expired {
            *self = Inherited::Over;
        }
        has_expired
    }
}

/// The receivers that the switches' multicast tables show. The tables do not show send-only
/// members. Therefore, if a switch with end ports has an entry of a group but no registered member,
/// port 0 of the switch is added as a send-only member, which keeps the switch in the tree.
fn members_in_tables(fabric: &Fabric, masks: &HeldMasks, groups: &GroupSet) -> MembersByLid {
    let mut members = MembersByLid::new();
    for (&guid, held) in &masks.by_switch {
        let Some(switch) = fabric.find(guid) else {
            continue;
        };
        let ends = ends(fabric, switch);
        for (mlid, mask) in held.entries() {
            let registered = groups.by_mlid.get(&mlid);
            let is_registered =
                |guid| registered.is_some_and(|registered| registered.ports.contains_key(guid));
            let ports = members.entry(mlid).or_default();
            let (_, own) = ends[0];
            if ends.len() > 1 && !ends.iter().any(|(_, guid)| is_registered(guid)) {
                ports.insert(own, false);
            }
            let receivers = ends.iter().filter(|(port, _)| mask.contains(*port));
            ports.extend(receivers.map(|&(_, guid)| (guid, true)));
        }
    }
    members.retain(|_, ports| !ports.is_empty());
    members
}

/// The end ports at a switch, each with the switch's port that leads to it: first the switch's own
/// port 0, then the end ports at its cables.
fn ends(fabric: &Fabric, switch: NodeIx) -> Vec<(PortNum, Guid)> {
    let at = |port| PortRef { node: switch, port };
    let mut ends = vec![(PortNum::ZERO, fabric.port(at(PortNum::ZERO)).guid)];
    for number in 1..fabric.node(switch).ports.len() {
        let port = PortNum(number as u8);
        let peer = fabric.peer(at(port));
        if let Some(peer) = peer.filter(|peer| !fabric.node(peer.node).is_switch()) {
            ends.push((port, fabric.port(peer).guid));
        }
    }
    ends
}
