//! Bad links, and which of them routes leave out.
//!
//! A link is bad if its error counters show that it is unhealthy, if it flaps, if it is slower than
//! its siblings, or if it is up and does not become Active. A table may lead to a link only once
//! the link is Active: if one end refused or did not answer, every table planned to use the link
//! would wait. Routes therefore leave out links that do not become Active. The core still tries to
//! bring up their ports, as often as other repairs, and routes over a link once it is Active.

pub(super) mod damping;
mod findings;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use rsm_config::Isolate;
use rsm_hardware::push::Push;
use rsm_hardware::sweep::inventory::Inventory;
use rsm_ids::PortKey;
use rsm_mad::Time;
use rsm_model::fabric::{Delta, Fabric};
use rsm_model::slow_links::SlowLinks;
use rsm_monitor::health::{Health, PortErrors, SavedHealth};
use rsm_plan::Plan;
use rsm_plan::avoid::{self, Avoid, NodeOrCable, Reason};

use super::settings::CoreConfig;
use damping::{Damping, Released};
pub(super) use findings::LinkContext;

/// Number of cables that isolation may take out of the routes in a small fabric.
const MIN_ISOLATION_LIMIT: usize = 10;

/// In a large fabric, isolation takes at most one in this many cables between switches out of the
/// routes: health limits that are too low must not disconnect the fabric.
const ISOLATED_ONE_IN: usize = 200;

/// The recovery time of ports is stored again once it has moved by more than this duration: each
/// further error moves the time, and not every move needs a write.
const STORED_WITHIN: Duration = Duration::from_secs(60);

/// Bad links, and the links that routes leave out.
pub(super) struct Links {
    health: Health,
    /// Value of [`Health::last_release`] when it was last stored.
    stored: Option<Time>,
    damping: Damping,
    /// Links that are up and that no push could make Active, each by one of its ends.
    unopened: BTreeSet<PortKey>,
    /// Links that routes leave out, each by one or both of its ends.
    left_out: Arc<BTreeSet<PortKey>>,
    slow: SlowLinks,
}

/// The change made by [`Links::count_errors`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum HealthNews {
    /// Nothing that matters has changed.
    None,
    /// The recovery time of ports has moved, and should be stored.
    Time,
    /// The set of unhealthy ports has changed.
    Ports,
}

impl Links {
    /// State at the start of a run; `saved` is the health that an earlier run has stored.
    pub(super) fn new(config: &CoreConfig, saved: &SavedHealth) -> Links {
        let health = Health::restored(config.health, saved);
        Links {
            stored: health.last_release(),
            health,
            damping: Damping::new(config.damping),
            unopened: BTreeSet::new(),
            left_out: Arc::default(),
            slow: SlowLinks::default(),
        }
    }

    /// Continues with the health state that another manager has stored.
    pub(super) fn restore_health(&mut self, config: &CoreConfig, saved: &SavedHealth) {
        self.health = Health::restored(config.health, saved);
    }

    /// Uses the policies of a reloaded configuration.
    pub(super) fn configure(&mut self, config: &CoreConfig) {
        self.damping.configure(config.damping);
        self.health.configure(config.health);
    }

    /// Handles the ports whose error counters exceed a limit now.
    pub(super) fn count_errors(
        &mut self,
        errors: Arc<BTreeMap<PortKey, PortErrors>>,
        now: Time,
    ) -> HealthNews {
        let stored = self.stored.map(|at| at + STORED_WITHIN);
        match self.health.count(errors, now) {
            true => HealthNews::Ports,
            false if self.health.last_release() > stored => HealthNews::Time,
            false => HealthNews::None,
        }
    }

    /// Handles a port's report of link errors. Returns whether the unhealthy ports have changed.
    pub(super) fn report(&mut self, port: PortKey, now: Time) -> bool {
        self.health.report(port, now)
    }

    /// Counts unhealthy ports as healthy again that have been quiet for long enough. Returns
    /// whether there were any.
    pub(super) fn release_healthy(&mut self, now: Time) -> bool {
        self.health.release(now)
    }

    /// Notes unhealthy ports whose errors have ended. Returns whether there are new ones.
    pub(super) fn note_ended_errors(&mut self, now: Time) -> bool {
        self.health.note_ended_errors(now)
    }

    /// Forgets flapping links that have been quiet for the hold time at `now`.
    pub(super) fn release_quiet(&mut self, now: Time) -> Released {
        self.damping.release(now)
    }

    /// Time at which [`Links::release_healthy`], [`Links::note_ended_errors`] or
    /// [`Links::release_quiet`] next has something to do; `None` if never.
    pub(super) fn next_release(&self) -> Option<Time> {
        let releases = [self.damping.next_release(), self.health.next_release()];
        releases.into_iter().flatten().min()
    }

    /// The health of ports, for the store. Stores the unhealthy ports in `avoid` as isolated.
    pub(super) fn saved_health(&self, avoid: &Avoid) -> SavedHealth {
        let isolated = avoid
            .parts()
            .filter_map(|(part, reason)| match (part, reason) {
                (NodeOrCable::Port(port), Reason::Unhealthy(_)) => Some(port),
                _ => None,
            });
        self.health.saved(isolated)
    }

    /// Records that the state is being stored.
    pub(super) fn record_stored(&mut self) {
        self.stored = self.health.last_release();
    }

    /// Adds the unhealthy cables that an earlier run or another manager had isolated to `avoid`.
    pub(super) fn isolate_again(&self, saved: &SavedHealth, avoid: &mut Arc<Avoid>) {
        if self.health.policy().isolate != Isolate::On {
            return;
        }
        let unhealthy = self.health.ill();
        let isolated = unhealthy.filter(|(port, ..)| saved.isolated.contains(port));
        let parts: BTreeMap<NodeOrCable, String> = isolated
            .map(|(port, text, _)| (NodeOrCable::Port(port), text.to_owned()))
            .collect();
        if !parts.is_empty() {
            Arc::make_mut(avoid).replace_unhealthy(&parts);
        }
    }

    /// The cables to isolate, by their unhealthy port, each with a description of its errors.
    /// Prefers cables that `avoid` already isolates, then the worst cables, up to the limit.
    pub(super) fn to_isolate(
        &self,
        fabric: &Fabric,
        avoid: &Avoid,
    ) -> BTreeMap<NodeOrCable, String> {
        if self.health.policy().isolate != Isolate::On || self.health.ill().next().is_none() {
            return BTreeMap::new();
        }
        let is_isolated = |port| {
            let reason = avoid.reason(NodeOrCable::Port(port));
            matches!(reason, Some(Reason::Unhealthy(_)))
        };
        let mut unhealthy: Vec<(PortKey, PortKey, &str, f64)> = self
            .health
            .ill()
            .filter_map(|(port, text, excess)| {
                Some((port, peer_switch(fabric, port)?, text, excess))
            })
            .collect();
        unhealthy.sort_by(|a, b| {
            let isolated_first = is_isolated(b.0).cmp(&is_isolated(a.0));
            isolated_first.then(b.3.total_cmp(&a.3))
        });
        let cables = fabric.links().filter(|&(a, b)| {
            let is_switch = |at: rsm_model::fabric::PortRef| fabric.node(at.node).is_switch();
            is_switch(a) && is_switch(b)
        });
        let limit = (cables.count() / ISOLATED_ONE_IN).max(MIN_ISOLATION_LIMIT);
        let mut isolated = BTreeSet::new();
        let mut parts = BTreeMap::new();
        for (port, peer, text, _) in unhealthy {
            let cable = port.min(peer);
            if isolated.len() < limit || isolated.contains(&cable) {
                isolated.insert(cable);
                parts.insert(NodeOrCable::Port(port), text.to_owned());
            }
        }
        parts
    }

    /// Updates flapping and slow links after a sweep that changed the model from `before` to `new`.
    pub(super) fn follow(&mut self, delta: &Delta, before: &Fabric, new: &Fabric, now: Time) {
        damping::count_flaps(&mut self.damping, delta, before, new, now);
        self.slow.follow(before, new);
    }

    /// Takes over the slow cables of a plan that comes into force: cables slower than parallel
    /// cables.
    pub(super) fn set_slow_siblings(&mut self, plan: &Plan) {
        self.slow.set_siblings(&plan.slow_cables);
    }

    /// The slow links. Includes links that are only slower than their siblings if a plan of this
    /// manager is in force (`manages`).
    pub(super) fn slow(&self, manages: bool) -> SlowLinks {
        match manages {
            true => self.slow.clone(),
            false => self.slow.without_siblings(),
        }
    }

    /// The links that routes leave out.
    pub(super) fn left_out(&self) -> &Arc<BTreeSet<PortKey>> {
        &self.left_out
    }

    /// Decides which links routes leave out. Returns whether they are unchanged.
    pub(super) fn leave_out(&mut self, inventory: &Inventory, fabric: &Fabric) -> bool {
        let out = self.bad_for_routes(inventory, fabric);
        let is_same = out == *self.left_out;
        self.left_out = Arc::new(out);
        is_same
    }

    /// Leaves out links that a push could not make Active, and readmits links that are Active now.
    /// Returns the reason for a new plan; `None` if no plan is needed.
    pub(super) fn update_unopened(
        &mut self,
        push: &Push,
        inventory: &Inventory,
        fabric: &Fabric,
    ) -> Option<&'static str> {
        let before_push = self.unopened.len();
        self.unopened.extend(push.report().unopened());
        let after_push = self.unopened.len();
        self.left_out = Arc::new(self.bad_for_routes(inventory, fabric));
        if self.unopened.len() < after_push {
            Some("links that routes were kept off became Active, or went")
        } else if after_push > before_push {
            Some("routes are kept off links that do not become Active")
        } else {
            None
        }
    }

    /// The links that routes should leave out now: flapping links, and links that do not become
    /// Active. A flapping link stays in use if its switches have no other connection.
    pub(super) fn bad_for_routes(
        &mut self,
        inventory: &Inventory,
        fabric: &Fabric,
    ) -> BTreeSet<PortKey> {
        self.unopened
            .retain(|&port| is_up_and_not_active(inventory, port));
        let mut out = self.damping.suppressed();
        out.extend(&self.unopened);
        let flapping = self.damping.quietest_first();
        let flapping = flapping.filter(|port| !self.unopened.contains(port));
        for needed in avoid::needed(fabric, &out, flapping) {
            out.remove(&needed);
        }
        out
    }
}

/// Whether both ends of a link are up, and not both are Active.
fn is_up_and_not_active(inventory: &Inventory, port: PortKey) -> bool {
    let peer = inventory.hardware.port(port).and_then(|record| record.peer);
    let ends = [Some(port), peer].map(|end| end.and_then(|end| inventory.hardware.port(end)));
    let [Some(one), Some(other)] = ends else {
        return false;
    };
    one.is_up() && other.is_up() && !(one.is_active() && other.is_active())
}

/// The other end of the cable at `port`; `None` unless the cable joins two switches.
fn peer_switch(fabric: &Fabric, port: PortKey) -> Option<PortKey> {
    let peer = fabric.port(fabric.find_port(port)?).peer?;
    (fabric.is_switch(port.node) && fabric.is_switch(peer.node)).then_some(peer)
}
