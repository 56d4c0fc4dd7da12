//! Keeps a flapping link out of the routes until it is quiet.
//!
//! A link that changes its state a given number of times within a window is suppressed until it has
//! not changed for the hold time. The caller keeps a suppressed link out of the routes only if it
//! joins two switches that other links join as well: a flapping link is better than none. Flapping
//! links of hosts are only recorded for findings.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rsm_ids::{Guid, PortKey};
use rsm_mad::Time;
use rsm_mad::wire::attr::PortState;
use rsm_model::fabric::{Delta, Fabric};
use rsm_plan::policy::DampingPolicy;

/// Recent changes of links. The key of a link is its end with the lower (GUID, port).
#[derive(Clone, Debug)]
pub(crate) struct Damping {
    policy: DampingPolicy,
    links: BTreeMap<PortKey, Changes>,
    /// Suppressed links, each with the time of its last change.
    suppressed: BTreeSet<(Time, PortKey)>,
}

/// Recent changes of one link.
#[derive(Clone, Default, Debug)]
struct Changes {
    /// Times of the latest changes, at most as many as suffice to suppress a link.
    recent: VecDeque<Time>,
    /// Number of changes since the link was last quiet.
    count: u32,
    /// Whether one end is not a switch; routes then still use the link.
    is_of_host: bool,
}

/// A link that changes its state too often.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FlappingLink {
    /// End with the lower (GUID, port).
    pub link: PortKey,
    /// Number of changes since the link was last quiet.
    pub changes: u32,
    /// Whether one end is not a switch; routes then still use the link.
    pub is_of_host: bool,
}

/// The kind of links that [`Damping::release`] forgot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Released {
    /// No links.
    None,
    /// Only links of hosts, which routes used all the time.
    OfHosts,
    /// Links between switches, which routes may use again.
    OfRoutes,
}

impl Damping {
    /// State without flapping links.
    pub(crate) fn new(policy: DampingPolicy) -> Damping {
        Damping {
            policy,
            links: BTreeMap::new(),
            suppressed: BTreeSet::new(),
        }
    }

    /// Uses another policy from now on.
    pub(crate) fn configure(&mut self, policy: DampingPolicy) {
        self.policy = policy;
    }

    /// Records that the link changed its state at `now`, and suppresses it if it changes too often.
    /// A threshold of 0 turns damping off.
    pub(crate) fn record_flap(&mut self, link: PortKey, is_of_host: bool, now: Time) {
        let DampingPolicy {
            threshold, window, ..
        } = self.policy;
        if threshold == 0 {
            return;
        }
        let changes = self.links.entry(link).or_default();
        let last = changes.recent.back();
        let was_suppressed = last.is_some_and(|&last| self.suppressed.remove(&(last, link)));
        changes.is_of_host = is_of_host;
        changes.count = changes.count.saturating_add(1);
        changes.recent.push_back(now);
        while changes.recent.len() > threshold as usize {
            changes.recent.pop_front();
        }
        let oldest = changes.recent.front().copied().unwrap_or(now);
        let flaps = changes.recent.len() == threshold as usize && now.since(oldest) <= window;
        if was_suppressed || flaps {
            self.suppressed.insert((now, link));
        }
    }

    /// Forgets suppressed links that have been quiet for the hold time at `now`. Returns their
    /// kind.
    pub(crate) fn release(&mut self, now: Time) -> Released {
        let mut released = Released::None;
        while let Some(&(last, link)) = self.suppressed.first()
            && now.since(last) >= self.policy.hold
        {
            self.suppressed.pop_first();
            let changes = self.links.remove(&link);
            let is_of_host = changes.is_some_and(|changes| changes.is_of_host);
            released = released.max(match is_of_host {
                true => Released::OfHosts,
                false => Released::OfRoutes,
            });
        }
        released
    }

    /// Forgets links that are not suppressed, once they have been quiet for the window.
    fn forget_quiet(&mut self, now: Time) {
        let window = self.policy.window;
        self.links.retain(|&link, changes| {
            let last = changes.recent.back().copied().unwrap_or(Time::ZERO);
            now.since(last) <= window || self.suppressed.contains(&(last, link))
        });
    }

    /// Time at which [`Damping::release`] forgets the next suppressed link; `None` if there is
    /// none.
    pub(crate) fn next_release(&self) -> Option<Time> {
        let &(last, _) = self.suppressed.first()?;
        Some(last + self.policy.hold)
    }

    /// The links between switches that routes should avoid now.
    pub(crate) fn suppressed(&self) -> BTreeSet<PortKey> {
        self.quietest_first().collect()
    }

    /// The suppressed links between switches, with the longest quiet one first.
    pub(crate) fn quietest_first(&self) -> impl Iterator<Item = PortKey> + '_ {
        let links = self.suppressed.iter().map(|&(_, link)| link);
        links.filter(|link| !self.links[link].is_of_host)
    }

    /// The links that flap now, in the order of their ends.
    pub(crate) fn flapping(&self) -> impl Iterator<Item = FlappingLink> + '_ {
        let suppressed: BTreeSet<PortKey> = self.suppressed.iter().map(|&(_, link)| link).collect();
        suppressed.into_iter().map(|link| {
            let changes = &self.links[&link];
            FlappingLink {
                link,
                changes: changes.count,
                is_of_host: changes.is_of_host,
            }
        })
    }
}

/// Counts a flap of each link that vanished or trained again since the last model.
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
    damping.forget_quiet(now);
    let vanished: BTreeSet<Guid> = delta.nodes_vanished.iter().copied().collect();
    for &(a, b) in &delta.links_vanished {
        if vanished.contains(&a.node) && vanished.contains(&b.node) {
            // Both nodes are cut off, so the link between them may still be up.
            continue;
        }
        // The link of a host also vanishes when the host is switched off, which is no fault.
        let is_of_host = !(old.is_switch(a.node) && old.is_switch(b.node));
        damping.record_flap(a, is_of_host, now);
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
        // Both ends fell back to Init; one flap is counted, for the lower end.
        if before == PortState::Active && key < peer {
            let is_of_host = !(new.is_switch(key.node) && new.is_switch(peer.node));
            damping.record_flap(key, is_of_host, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rsm_ids::PortNum;

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
        damping.record_flap(LINK, false, at(0));
        damping.record_flap(LINK, false, at(1));
        assert_eq!(damping.suppressed(), BTreeSet::new());
        damping.record_flap(LINK, false, at(2));
        assert_eq!(damping.suppressed(), BTreeSet::from([LINK]));
        damping.record_flap(LINK, false, at(20));
        assert_eq!(damping.next_release(), Some(at(50)));
        assert_eq!(damping.release(at(49)), Released::None);
        assert_eq!(damping.release(at(50)), Released::OfRoutes);
        assert_eq!(damping.suppressed(), BTreeSet::new());
    }

    #[test]
    fn flapping_link_of_a_host_is_listed_and_not_suppressed() {
        let mut damping = damping();
        (0..3).for_each(|second| damping.record_flap(LINK, true, at(second)));
        assert_eq!(damping.suppressed(), BTreeSet::new());
        let flapping: Vec<FlappingLink> = damping.flapping().collect();
        assert_eq!(flapping.len(), 1);
        assert!(flapping[0].is_of_host && flapping[0].changes == 3);
        assert_eq!(damping.next_release(), Some(at(32)));
        assert_eq!(damping.release(at(32)), Released::OfHosts);
        assert_eq!(damping.flapping().count(), 0);
    }

    #[test]
    fn rare_changes_never_suppress_a_link() {
        let mut damping = damping();
        for minute in 0..100 {
            damping.record_flap(LINK, false, at(60 * minute));
            assert!(damping.suppressed().is_empty());
        }
        assert_eq!(damping.release(at(60 * 200)), Released::None);
        damping.forget_quiet(at(60 * 200));
        assert!(damping.links.is_empty());
    }
}
