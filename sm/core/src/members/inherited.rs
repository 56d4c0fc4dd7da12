//! Inherited multicast members: group members that only the hardware shows.
//!
//! A manager that takes over a running subnet without the registrations (the store is lost, or
//! another manager was master) learns about members as they join again. Until then, the receivers
//! in the switches' multicast tables stay members: the first port to join must not cut off all
//! others.
//!
//! Inherited members count until they have joined again, and at most for [`INHERITED_FOR`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::Time;
use rsm_model::fabric::{Fabric, NodeIx, PortRef};
use rsm_model::mft_image::HeldMasks;
use rsm_plan::groups::{GroupMembers, GroupSet};

/// Time for which inherited members stay: longer than thousands of hosts take to join again after a
/// request to register again.
pub const INHERITED_FOR: Duration = Duration::from_secs(300);

/// State of the inherited members.
#[derive(Debug, Default)]
pub(super) enum Inherited {
    /// The SA has not yet reported whether its group set is complete.
    #[default]
    Unasked,
    /// The SA's group set is incomplete: the multicast tables of the switches must be read.
    Due,
    /// Members that have not joined again, by multicast LID and port GUID, and whether they
    /// receive; valid until this time.
    Until(Time, BTreeMap<Lid, BTreeMap<Guid, bool>>, Joined),
    /// Only ports that joined are members.
    Over,
}

/// For each multicast LID, the registered members when [`Inherited::with`] last merged the
/// inherited ones into them, and the merged set. Unchanged registered members give the same `Arc`,
/// so that the plan sees no change.
type Joined = BTreeMap<Lid, (Option<Arc<GroupMembers>>, Arc<GroupMembers>)>;

impl Inherited {
    /// Reads the multicast tables again after a takeover, because another master may have written
    /// them.
    pub(super) fn look_again(&mut self) {
        *self = Inherited::Due;
    }

    /// Reads the inherited members from the switches' tables, if that is due. `groups` are the
    /// registered members.
    pub(super) fn look(
        &mut self,
        fabric: &Fabric,
        masks: &HeldMasks,
        groups: &GroupSet,
        now: Time,
    ) {
        if matches!(self, Inherited::Due) {
            let found = members(fabric, masks, groups);
            *self = Inherited::Until(now + INHERITED_FOR, found, Joined::new());
            self.heard(groups);
        }
    }

    /// Removes members that have registered with the SA: their registration counts from now on.
    pub(super) fn heard(&mut self, groups: &GroupSet) {
        if matches!(self, Inherited::Unasked) {
            *self = if groups.partial {
                Inherited::Due
            } else {
                Inherited::Over
            };
        }
        let Inherited::Until(_, found, joined) = self else {
            return;
        };
        for (mlid, members) in &groups.by_mlid {
            if let Some(ports) = found.get_mut(mlid) {
                let before = ports.len();
                ports.retain(|guid, _| !members.ports.contains_key(guid));
                if ports.len() < before {
                    joined.remove(mlid);
                }
            }
        }
        found.retain(|_, ports| !ports.is_empty());
    }

    /// Merges the inherited members into `groups`.
    pub(super) fn with(&mut self, groups: &Arc<GroupSet>) -> Arc<GroupSet> {
        let Inherited::Until(_, found, joined) = self else {
            return groups.clone();
        };
        let mut all = GroupSet::clone(groups);
        for (&mlid, ports) in found {
            let known = groups.by_mlid.get(&mlid);
            let is_same = |(before, _): &&(Option<Arc<GroupMembers>>, _)| {
                before.as_ref().map(Arc::as_ptr) == known.map(Arc::as_ptr)
            };
            let members = match joined.get(&mlid).filter(is_same) {
                Some((_, members)) => members.clone(),
                None => {
                    let mut members =
                        known.map_or_else(GroupMembers::default, |known| (**known).clone());
                    for (&guid, &receives) in &*ports {
                        *members.ports.entry(guid).or_default() |= receives;
                    }
                    let members = Arc::new(members);
                    joined.insert(mlid, (known.cloned(), members.clone()));
                    members
                }
            };
            all.by_mlid.insert(mlid, members);
        }
        Arc::new(all)
    }

    /// Time at which the inherited members expire; `None` if there are none.
    pub(super) fn deadline(&self) -> Option<Time> {
        match self {
            Inherited::Until(until, ..) => Some(*until),
            Inherited::Unasked | Inherited::Due | Inherited::Over => None,
        }
    }

    /// Drops the inherited members if their time is over at `now`. Returns whether it is.
    pub(super) fn expire(&mut self, now: Time) -> bool {
        let is_over = self.deadline().is_some_and(|until| until <= now);
        if is_over {
            *self = Inherited::Over;
        }
        is_over
    }
}

/// Members that the switches' multicast tables show. Tables do not show send-only members: port 0
/// of a switch in a tree without a known member at the switch stands for them.
fn members(
    fabric: &Fabric,
    masks: &HeldMasks,
    groups: &GroupSet,
) -> BTreeMap<Lid, BTreeMap<Guid, bool>> {
    let mut found: BTreeMap<Lid, BTreeMap<Guid, bool>> = BTreeMap::new();
    for (&guid, held) in &masks.by_switch {
        let Some(switch) = fabric.find(guid) else {
            continue;
        };
        let ends = ends(fabric, switch);
        for (mlid, mask) in held.entries() {
            let known = groups.by_mlid.get(&mlid);
            let takes_part = |guid| known.is_some_and(|known| known.ports.contains_key(guid));
            let ports = found.entry(mlid).or_default();
            let (_, own) = ends[0];
            if ends.len() > 1 && !ends.iter().any(|(_, guid)| takes_part(guid)) {
                ports.insert(own, false);
            }
            let receivers = ends.iter().filter(|(port, _)| mask.contains(*port));
            ports.extend(receivers.map(|&(_, guid)| (guid, true)));
        }
    }
    found.retain(|_, ports| !ports.is_empty());
    found
}

/// The end ports at a switch, with the switch's port that leads to them: first its own port 0, then
/// those at its cables.
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
