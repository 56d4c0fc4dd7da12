//! What waits to be done.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rsm_ids::Guid;
use rsm_mad::Time;

use super::event::Ticket;
use crate::sweep::inventory::PortKey;

/// Causes that are spelled out for the operator; the rest of a burst is counted.
const CAUSES_SHOWN: usize = 3;

/// The first pause before what failed is tried again.
const REPAIR_FIRST: Duration = Duration::from_millis(250);

/// The longest pause between repairs: a port that stays silent costs a few SMPs in this time.
const REPAIR_LAST: Duration = Duration::from_secs(30);

/// Work that waits until the core is idle, or joins what is under way.
#[derive(Default, Debug)]
pub struct Work {
    everything: Option<bool>,
    lightly: bool,
    master: bool,
    plan: bool,
    groups: bool,
    rebalance: bool,
    repair: bool,
    switches: BTreeSet<Guid>,
    ports: BTreeSet<PortKey>,
    /// Ports to be read once more, without a sign that they changed.
    unread: BTreeSet<PortKey>,
    causes: Vec<String>,
    more_causes: usize,
    tickets: Vec<Ticket>,
    /// Switches to be looked at when their time has come.
    later: BTreeMap<Guid, Time>,
    repair_at: Option<Time>,
    repairs: u32,
    not_before: Option<Time>,
}

/// The next thing to be swept.
#[derive(PartialEq, Eq, Debug)]
pub enum Next {
    /// Everything; `audit`: and read known tables back.
    Everything {
        /// Whether to read known tables back.
        audit: bool,
    },
    /// These, and if `repair`, whatever owes an answer.
    Targets {
        /// Switches that changed.
        switches: BTreeSet<Guid>,
        /// Ports that changed.
        ports: BTreeSet<PortKey>,
        /// Ports that may have changed.
        unread: BTreeSet<PortKey>,
        /// Ask again what was not answered.
        repair: bool,
    },
    /// SwitchInfo of all.
    Lightly,
    /// Whether the master is still there.
    Master,
    /// Nothing is asked; the plan is made anew.
    Plan,
    /// Nothing is asked; multicast is planned anew on the routes in force.
    Groups,
    /// Nothing is asked; load is taken off the fullest links.
    Rebalance,
}

impl Work {
    /// Everything is to be swept.
    pub fn sweep_everything(&mut self, audit: bool, cause: impl Into<String>) {
        self.everything = Some(self.everything.unwrap_or(false) | audit);
        self.because(cause);
    }

    /// Every switch is to be asked whether anything changed.
    pub fn sweep_lightly(&mut self) {
        self.lightly = true;
    }

    /// The master is to be asked whether it is still there.
    pub fn poll_master(&mut self) {
        self.master = true;
    }

    /// A switch reported a change.
    pub fn look_at(&mut self, switch: Guid, cause: impl Into<String>) {
        self.later.remove(&switch);
        if self.switches.insert(switch) {
            self.because(cause);
        }
    }

    /// A switch is to be looked at, but not before `when`.
    pub fn look_at_later(&mut self, switch: Guid, when: Time) {
        self.later.entry(switch).or_insert(when);
    }

    /// A port reported a change.
    pub fn look_at_port(&mut self, port: PortKey) {
        if self.ports.insert(port) {
            self.because(format!("{port} changed"));
        }
    }

    /// Ports may have changed and could not report it.
    pub fn read_again(&mut self, ports: impl IntoIterator<Item = PortKey>) {
        self.unread.extend(ports);
        if !self.unread.is_empty() {
            self.because("ports read again that could not report");
        }
    }

    /// The plan is to be made anew.
    pub fn plan_again(&mut self, cause: impl Into<String>) {
        self.plan = true;
        self.because(cause);
    }

    /// Multicast is to be planned anew. It waits for the end of a push: cut short by every port
    /// that joins, none would come to an end while thousands do.
    pub fn regroup(&mut self) {
        self.groups = true;
    }

    /// Load is to be taken off the fullest links, when there is nothing else to do.
    pub fn rebalance(&mut self) {
        self.rebalance = true;
    }

    /// A plan is being made that has the latest groups.
    pub fn regrouped(&mut self) {
        self.groups = false;
    }

    /// `ticket` is to be told when the work that waits now is done.
    pub fn promise(&mut self, ticket: Ticket) {
        self.tickets.push(ticket);
    }

    /// What `ticket` waits for is not going to happen.
    pub fn withdraw(&mut self, ticket: Ticket) {
        self.tickets.retain(|&waiting| waiting != ticket);
    }

    /// Something failed: what owes an answer, and `nodes`, are to be tried again after a pause.
    pub fn repair(&mut self, nodes: impl IntoIterator<Item = Guid>, now: Time) {
        let pause = REPAIR_FIRST
            .saturating_mul(1 << self.repairs.min(16))
            .min(REPAIR_LAST);
        self.repairs = self.repairs.saturating_add(1);
        let due = now + pause;
        self.repair_at = Some(self.repair_at.map_or(due, |earlier| earlier.min(due)));
        for node in nodes {
            // Never later than it was to be looked at anyway.
            let when = self.later.entry(node).or_insert(due);
            *when = (*when).min(due);
        }
    }

    /// What waits now is not begun before the pause of a repair is over.
    pub fn postpone(&mut self, now: Time) {
        let pause = REPAIR_FIRST
            .saturating_mul(1 << self.repairs.min(16))
            .min(REPAIR_LAST);
        self.repairs = self.repairs.saturating_add(1);
        self.not_before = Some(now + pause);
    }

    /// Whether what waits is not begun before a pause is over.
    pub fn is_postponed(&self) -> bool {
        self.not_before.is_some()
    }

    /// Nothing is left to be repaired.
    pub fn repaired(&mut self) {
        self.repairs = 0;
        self.repair_at = None;
    }

    /// How many repairs in a row were needed so far.
    pub fn repairs(&self) -> u32 {
        self.repairs
    }

    /// Makes what is due at `now` wait no longer.
    pub fn wake(&mut self, now: Time) {
        let due: Vec<Guid> = self
            .later
            .iter()
            .filter(|&(_, &when)| when <= now)
            .map(|(&guid, _)| guid)
            .collect();
        for guid in due {
            self.later.remove(&guid);
            self.look_at(guid, format!("{guid} looked at again"));
        }
        if self.not_before.is_some_and(|when| when <= now) {
            self.not_before = None;
        }
        if self.repair_at.is_some_and(|when| when <= now) {
            self.repair_at = None;
            self.repair = true;
            self.because("repair");
        }
    }

    /// When [`Work::wake`] has something to do next.
    pub fn next_wake(&self) -> Option<Time> {
        self.later
            .values()
            .copied()
            .chain(self.repair_at)
            .chain(self.not_before)
            .min()
    }

    /// Whether nothing waits, now or later.
    pub fn is_empty(&self) -> bool {
        !self.is_due() && self.later.is_empty() && self.repair_at.is_none()
    }

    /// Whether something waits to be done now.
    pub fn is_due(&self) -> bool {
        self.lightly
            || self.master
            || self.groups
            || self.rebalance
            || !self.ports.is_empty()
            || !self.unread.is_empty()
            || self.is_urgent()
    }

    /// Whether something waits that should not wait for the end of a push. A port that reports
    /// another LID or capability can wait; most of these reports are echoes of the push itself.
    pub fn is_urgent(&self) -> bool {
        self.plan || self.repair || self.everything.is_some() || !self.switches.is_empty()
    }

    /// Whether the plan is to be made anew, also where a sweep that goes first finds nothing new.
    pub fn wants_plan(&self) -> bool {
        self.plan
    }

    /// A plan is being made of all that is known.
    pub fn planned(&mut self) {
        (self.plan, self.rebalance) = (false, false);
    }

    /// Takes the next thing to be done. What it covers does not wait any longer.
    pub fn take(&mut self) -> Option<Next> {
        if self.not_before.is_some() {
            return None;
        }
        if let Some(audit) = self.everything.take() {
            self.switches.clear();
            self.ports.clear();
            self.unread.clear();
            self.later.clear();
            (self.lightly, self.master, self.repair, self.rebalance) = (false, false, false, false);
            return Some(Next::Everything { audit });
        }
        if self.repair
            || !self.switches.is_empty()
            || !self.ports.is_empty()
            || !self.unread.is_empty()
        {
            (self.master, self.rebalance) = (false, false);
            return Some(Next::Targets {
                switches: std::mem::take(&mut self.switches),
                ports: std::mem::take(&mut self.ports),
                unread: std::mem::take(&mut self.unread),
                repair: std::mem::take(&mut self.repair),
            });
        }
        if self.wants_plan() {
            self.planned();
            return Some(Next::Plan);
        }
        if std::mem::take(&mut self.groups) {
            return Some(Next::Groups);
        }
        if std::mem::take(&mut self.lightly) {
            return Some(Next::Lightly);
        }
        if std::mem::take(&mut self.rebalance) {
            return Some(Next::Rebalance);
        }
        std::mem::take(&mut self.master).then_some(Next::Master)
    }

    /// Offers the switches that reported a change to the sweep under way; those that it does not
    /// take wait for its end. Returns whether it took any.
    pub fn offer_switches(&mut self, mut takes: impl FnMut(Guid) -> bool) -> bool {
        let waiting = self.switches.len();
        self.switches.retain(|&switch| !takes(switch));
        self.switches.len() < waiting
    }

    /// Takes the ports that reported a change, to join the sweep under way.
    pub fn take_ports(&mut self) -> BTreeSet<PortKey> {
        std::mem::take(&mut self.ports)
    }

    /// The causes of what waits, as one phrase.
    pub fn next_cause(&self) -> String {
        let mut text = self.causes.join("; ");
        if self.more_causes > 0 {
            text.push_str(&format!("; and {} more", self.more_causes));
        }
        text
    }

    /// Until when what waits is put off, if it is.
    pub fn not_before(&self) -> Option<Time> {
        self.not_before
    }

    /// The causes since the last call, as one phrase.
    pub fn take_cause(&mut self) -> String {
        let text = self.next_cause();
        self.causes.clear();
        self.more_causes = 0;
        text
    }

    /// Who waits for what is being done.
    pub fn take_tickets(&mut self) -> Vec<Ticket> {
        std::mem::take(&mut self.tickets)
    }

    fn because(&mut self, cause: impl Into<String>) {
        let cause = cause.into();
        if self.causes.contains(&cause) {
            return;
        }
        if self.causes.len() < CAUSES_SHOWN {
            self.causes.push(cause);
        } else {
            self.more_causes += 1;
        }
    }
}

#[cfg(test)]
mod tests;
