//! Members of multicast groups that only the hardware knows of.
//!
//! Whoever begins to manage a subnet that runs, and remembers less than it holds (the store is
//! lost, or another manager was there before), learns of members as they join again. Until they
//! have, those whose packets switches pass on now stay members: the first one to join must not cut
//! off all others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::Time;

use crate::fabric::{Fabric, NodeIx, PortRef};
use crate::plan::groups::{GroupSet, Members};
use crate::sweep::mft_image::HeldMasks;

/// How long they stay: longer than hosts take to join again once they are told that they have to,
/// by the thousand.
pub const FOUND_FOR: Duration = Duration::from_secs(300);

/// The members that were found.
#[derive(Debug, Default)]
pub(super) enum Found {
    /// The SA has not yet said whether it remembers everybody.
    #[default]
    Unasked,
    /// It does not, and what switches hold is to be looked at.
    Due,
    /// Until then, by multicast LID: who was found and has not spoken since, by port GUID; whether
    /// it receives.
    Until(Time, BTreeMap<Lid, BTreeMap<Guid, bool>>, Joined),
    /// Nobody is a member any more who did not join.
    Over,
}

/// By multicast LID: the members that were known to take part when [`Found::with`] joined those
/// that were found with them, and what came of it. The same members make the same set, so that
/// nothing seems to have changed.
type Joined = BTreeMap<Lid, (Option<Arc<Members>>, Arc<Members>)>;

impl Found {
    /// Looks at what switches hold as soon as somebody else takes part: others may have written it.
    pub(super) fn look_again(&mut self) {
        *self = Found::Due;
    }

    /// Looks at what switches hold, if it is to be looked at. `groups` is who is known to take
    /// part.
    pub(super) fn look(
        &mut self,
        fabric: &Fabric,
        masks: &HeldMasks,
        groups: &GroupSet,
        now: Time,
    ) {
        if matches!(self, Found::Due) {
            let found = members(fabric, masks, groups);
            *self = Found::Until(now + FOUND_FOR, found, Joined::new());
            self.heard(groups);
        }
    }

    /// The SA says who takes part: from now on those ports are members as long as
    /// they are in there.
    pub(super) fn heard(&mut self, groups: &GroupSet) {
        if matches!(self, Found::Unasked) {
            *self = if groups.partial {
                Found::Due
            } else {
                Found::Over
            };
        }
        let Found::Until(_, found, joined) = self else {
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

    /// `groups`, with those who were found.
    pub(super) fn with(&mut self, groups: &Arc<GroupSet>) -> Arc<GroupSet> {
        let Found::Until(_, found, joined) = self else {
            return groups.clone();
        };
        let mut all = GroupSet::clone(groups);
        for (&mlid, ports) in found {
            let known = groups.by_mlid.get(&mlid);
            let is_same = |(before, _): &&(Option<Arc<Members>>, _)| {
                before.as_ref().map(Arc::as_ptr) == known.map(Arc::as_ptr)
            };
            let members = match joined.get(&mlid).filter(is_same) {
                Some((_, members)) => members.clone(),
                None => {
                    let mut members =
                        known.map_or_else(Members::default, |known| (**known).clone());
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

    /// When there is something to be done.
    pub(super) fn deadline(&self) -> Option<Time> {
        match self {
            Found::Until(until, ..) => Some(*until),
            Found::Unasked | Found::Due | Found::Over => None,
        }
    }

    /// Lets those go whose time is over at `now`. Whether there were any.
    pub(super) fn expire(&mut self, now: Time) -> bool {
        let is_over = self.deadline().is_some_and(|until| until <= now);
        if is_over {
            *self = Found::Over;
        }
        is_over
    }
}

/// Whom switches pass packets on to. Who only sends does not show: a switch with hosts that takes
/// part in a tree, and at which nobody is known to, stands for whoever may send there.
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

/// The end ports at a switch, by the switch's port that leads to them: first its own port 0, then
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
