//! Keeping a flapping link out of the routes until it is quiet.
//!
//! A link that changed its state a number of times within a window is kept out of the routes until
//! it has not changed for the hold time. Damping covers only links between switches: damping a
//! host's only link would cut off the host.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rsm_mad::Time;
use rsm_mad::wire::attr::PortState;

use crate::fabric::{Delta, Fabric};
use crate::plan::policy::DampingPolicy;
use crate::sweep::inventory::PortKey;

/// The recent changes of links, each named by its end with the lower (GUID, port).
#[derive(Clone, Debug)]
pub struct Damping {
    policy: DampingPolicy,
    links: BTreeMap<PortKey, Changes>,
}

#[derive(Clone, Default, Debug)]
struct Changes {
    /// The latest ones, as many as suppress a link at most.
    recent: VecDeque<Time>,
    suppressed: bool,
    /// All since the link was last quiet.
    count: u32,
}

impl Damping {
    /// No link has flapped yet.
    pub fn new(policy: DampingPolicy) -> Damping {
        Damping {
            policy,
            links: BTreeMap::new(),
        }
    }

    /// Uses another policy from now on.
    pub fn configure(&mut self, policy: DampingPolicy) {
        self.policy = policy;
    }

    /// The link changed its state at `now`.
    pub fn flapped(&mut self, link: PortKey, now: Time) {
        let DampingPolicy {
            threshold, window, ..
        } = self.policy;
        if threshold == 0 {
            return;
        }
        let changes = self.links.entry(link).or_default();
        changes.count = changes.count.saturating_add(1);
        changes.recent.push_back(now);
        while changes.recent.len() > threshold as usize {
            changes.recent.pop_front();
        }
        let oldest = changes.recent.front().copied().unwrap_or(now);
        changes.suppressed |=
            changes.recent.len() == threshold as usize && now.since(oldest) <= window;
    }

    /// Forgets links that are quiet by `now`. Returns whether any of them was suppressed.
    pub fn release(&mut self, now: Time) -> bool {
        let policy = self.policy;
        let mut released = false;
        self.links.retain(|_, changes| {
            let quiet = now.since(changes.recent.back().copied().unwrap_or(Time::ZERO));
            if changes.suppressed && quiet >= policy.hold {
                released = true;
                return false;
            }
            changes.suppressed || quiet <= policy.window
        });
        released
    }

    /// When [`Damping::release`] forgets the next suppressed link.
    pub fn next_release(&self) -> Option<Time> {
        self.links
            .values()
            .filter(|changes| changes.suppressed)
            .filter_map(|changes| Some(*changes.recent.back()? + self.policy.hold))
            .min()
    }

    /// The links kept out now.
    pub fn suppressed(&self) -> BTreeSet<PortKey> {
        self.changes().map(|(link, _)| link).collect()
    }

    /// The links kept out now, with how often each changed.
    pub fn changes(&self) -> impl Iterator<Item = (PortKey, u32)> + '_ {
        self.links
            .iter()
            .filter(|(_, changes)| changes.suppressed)
            .map(|(&link, changes)| (link, changes.count))
    }
}

/// Counts a flap of each link between switches that vanished or was retrained since the last model.
pub(super) fn count_flaps(
    damping: &mut Damping,
    delta: &Delta,
    old: &Fabric,
    new: &Fabric,
    now: Time,
) {
    if old.is_empty() {
        return;
    }
    let between_switches = |fabric: &Fabric, key: PortKey| {
        fabric
            .find(key.node)
            .is_some_and(|ix| fabric.node(ix).is_switch())
    };
    for &(a, b) in &delta.links_vanished {
        if between_switches(old, a) && between_switches(old, b) {
            damping.flapped(a, now);
        }
    }
    for &key in &delta.ports_changed {
        let state = |fabric: &Fabric| {
            fabric
                .find_port(key)
                .map(|at| (fabric.port(at).state(), fabric.port(at).peer))
        };
        let (Some((before, Some(_))), Some((PortState::Init, Some(peer)))) =
            (state(old), state(new))
        else {
            continue;
        };
        // Both ends fell back to Init; count one flap, for the lower end.
        if before == PortState::Active
            && key < peer
            && between_switches(new, key)
            && between_switches(new, peer)
        {
            damping.flapped(key, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rsm_ids::{Guid, PortNum};

    use super::*;

    const LINK: PortKey = PortKey::new(Guid(7), PortNum(1));

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    fn damping() -> Damping {
        Damping::new(DampingPolicy {
            threshold: 3,
            window: Duration::from_secs(10),
            hold: Duration::from_secs(30),
        })
    }

    #[test]
    fn flapping_link_is_suppressed_until_quiet_for_the_hold_time() {
        let mut damping = damping();
        damping.flapped(LINK, at(0));
        damping.flapped(LINK, at(1));
        assert_eq!(damping.suppressed(), BTreeSet::new());
        damping.flapped(LINK, at(2));
        assert_eq!(damping.suppressed(), BTreeSet::from([LINK]));
        damping.flapped(LINK, at(20));
        assert_eq!(damping.next_release(), Some(at(50)));
        assert!(!damping.release(at(49)));
        assert!(damping.release(at(50)));
        assert_eq!(damping.suppressed(), BTreeSet::new());
    }

    #[test]
    fn rare_changes_never_suppress_a_link() {
        let mut damping = damping();
        for minute in 0..100 {
            damping.flapped(LINK, at(60 * minute));
            assert!(damping.suppressed().is_empty());
        }
        assert!(!damping.release(at(60 * 200)));
        assert!(damping.links.is_empty());
    }
}
