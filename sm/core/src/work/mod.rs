//! The queue of waiting work for the stages: sweeps, plans and repairs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rsm_ids::{Guid, PortKey};
use rsm_mad::Time;
use rsm_state::Ticket;

/// Maximum number of causes that an operator sees by name; further causes are only counted.
const CAUSES_SHOWN: usize = 3;

/// Pause before the first repair.
const REPAIR_FIRST: Duration = Duration::from_millis(250);

/// Longest pause between repairs: a port that stays silent costs a few SMPs in this time.
const REPAIR_LAST: Duration = Duration::from_secs(30);

/// Maximum number of times that a full or light sweep gives way to reports of changes. Without a
/// limit, flapping links could keep a full sweep from ending, and a light sweep from beginning.
const GIVES_WAY: u8 = 4;

/// Maximum number of passes that a ticket waits for while urgent work follows each of them. The
/// work of a command takes no more than three passes, of which reports may interrupt each once.
/// Without a limit, flapping links could keep commands from completing.
const TICKET_PASSES: u8 = 8;

/// `first`, doubled this number of `times`, but at most `last`.
pub(super) fn doubled(first: Duration, times: u32, last: Duration) -> Duration {
    first.saturating_mul(1 << times.min(16)).min(last)
}

/// Work that waits until the core is idle, or joins the sweep under way.
#[derive(Default, Debug)]
pub struct Work {
    /// The full sweep that waits; `None` if none waits.
    everything: Option<FullSweep>,
    /// The full sweep under way; `None` in other passes.
    under_way: Option<FullSweep>,
    // Work that waits, named after its variant of `Next`.
    succession: bool,
    reads_ahead: bool,
    following: bool,
    /// Number of passes that may still precede the light sweep; `None` if it does not wait.
    lightly: Option<u8>,
    master: bool,
    plan: bool,
    groups: bool,
    rebalance: bool,
    route_adaptively: bool,
    /// Switches that reported a change.
    switches: BTreeSet<Guid>,
    /// Whether `switches` and `ports` were offered to the sweep under way. Reporters that the sweep
    /// refused, perhaps thousands, are not offered to it again.
    is_offered: bool,
    /// Ports that reported a change.
    ports: BTreeSet<PortKey>,
    /// Ports to read again although they reported no change.
    unread: BTreeSet<PortKey>,
    /// The first [`CAUSES_SHOWN`] causes of the work that waits.
    causes: Vec<String>,
    /// Number of further causes.
    more_causes: usize,
    /// Tickets that complete with the work that waits, each with the number of passes that it may
    /// still wait for.
    tickets: Vec<(Ticket, u8)>,
    /// Switches to sweep later, each with its time.
    later: BTreeMap<Guid, Time>,
    /// Time of the next light sweep, or of the next poll of the master.
    light_at: Option<Time>,
    /// Time of the next rebalancing step; `None` if none is scheduled.
    rebalance_at: Option<Time>,
    repairs: Repairs,
    /// Time before which no work starts, after a failure.
    not_before: Option<Time>,
    /// Whether the next full sweep distrusts the tables that switches hold.
    rewrites: bool,
    /// The part of the subnet that the last full sweep did not reach; `None` if it reached all
    /// known nodes.
    uncovered: Option<Uncovered>,
}

/// A full sweep, waiting or under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FullSweep {
    /// Whether to read known tables back as well.
    audit: bool,
    /// Number of passes for reported changes that may still precede the sweep.
    gives_way: u8,
    /// Whether a pass for reported changes has preceded the sweep, or precedes it now.
    has_given_way: bool,
}

impl FullSweep {
    /// A sweep of a subnet in use: no Set waits for its result, so changes that are reported during
    /// the sweep come first.
    pub(crate) fn in_use(audit: bool) -> FullSweep {
        FullSweep {
            audit,
            gives_way: GIVES_WAY,
            has_given_way: false,
        }
    }

    /// A sweep that must end before the first Set. Reported changes wait for its end.
    pub(crate) fn before_writing(audit: bool) -> FullSweep {
        FullSweep {
            audit,
            gives_way: 0,
            has_given_way: false,
        }
    }

    /// The sweep that replaces this sweep and `other`.
    fn merged_with(self, other: Option<FullSweep>) -> FullSweep {
        let Some(other) = other else { return self };
        FullSweep {
            audit: self.audit | other.audit,
            gives_way: self.gives_way.min(other.gives_way),
            has_given_way: self.has_given_way & other.has_given_way,
        }
    }
}

/// The part of the subnet that a full sweep did not reach.
#[derive(Debug)]
struct Uncovered {
    /// Whether the sweep was an audit.
    audit: bool,
    /// The known nodes that the sweep did not reach.
    nodes: BTreeSet<Guid>,
}

/// Repairs of the failures that a pass left, after pauses that double.
#[derive(Default, Debug)]
struct Repairs {
    is_due: bool,
    /// Time at which the next repair becomes due.
    at: Option<Time>,
    /// Number of successive repairs that left something to repair.
    in_a_row: u32,
    /// Faults at the time when the last repair was scheduled: nodes (by port 0) that had not
    /// answered or were not written as planned, and ports behind which no node answered.
    awaiting_answer: BTreeSet<PortKey>,
}

/// A switch or port that reported a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reporter {
    Switch(Guid),
    Port(PortKey),
}

/// The next work for the stages.
#[derive(PartialEq, Eq, Debug)]
pub enum Next {
    /// Sweep the whole subnet.
    Everything {
        /// Whether to read known tables back as well.
        audit: bool,
    },
    /// Sweep these switches and ports.
    Targets {
        /// Switches that changed.
        switches: BTreeSet<Guid>,
        /// Ports that reported a change.
        ports: BTreeSet<PortKey>,
        /// Ports that may have changed.
        unread: BTreeSet<PortKey>,
        /// Whether to repeat unanswered queries.
        repair: bool,
    },
    /// Take over: read the parts of the subnet that the first push needs. This standby has read all
    /// other parts before.
    Succession,
    /// Read the parts that a takeover would need, while the master is silent.
    ReadAhead,
    /// Read the parts that the master has changed since this standby's last reading.
    Following,
    /// Ask all switches for SwitchInfo.
    Lightly,
    /// Poll the master.
    Master,
    /// Plan again, without a sweep.
    Plan,
    /// Plan multicast again on the routes in force, without a sweep.
    Groups,
    /// Relieve the fullest links, without a sweep.
    Rebalance,
    /// Write the Sets of adaptive routing that waited for forwarding tables, without a sweep.
    RouteAdaptively,
}

impl Work {
    /// Queues a full sweep, merged with a waiting full sweep.
    pub(crate) fn sweep_everything(&mut self, sweep: FullSweep, cause: impl Into<String>) {
        self.everything = Some(sweep.merged_with(self.everything));
        self.add_cause(cause);
    }

    /// Whether a full sweep under way must give way: a switch has reported a change, and the sweep
    /// has not given way too often.
    pub(crate) fn full_sweep_gives_way(&self) -> bool {
        let gives_way = |sweep: FullSweep| sweep.gives_way > 0;
        self.under_way.is_some_and(gives_way) && !self.switches.is_empty()
    }

    /// Queues the full sweep under way again, after the switches that have reported changes.
    pub(crate) fn sweep_everything_after_reports(&mut self) {
        if let Some(sweep) = self.under_way.take() {
            let sweep = FullSweep {
                has_given_way: true,
                ..sweep
            };
            self.everything = Some(sweep.merged_with(self.everything));
        }
    }

    /// Whether a full sweep waits.
    pub(crate) fn owes_full_sweep(&self) -> bool {
        self.everything.is_some()
    }

    /// Queues the reading of [`Next::Succession`].
    pub(crate) fn queue_succession(&mut self, cause: impl Into<String>) {
        self.succession = true;
        self.add_cause(cause);
    }

    /// Queues the reading of [`Next::ReadAhead`].
    pub(crate) fn read_ahead(&mut self) {
        self.reads_ahead = true;
    }

    /// Queues the reading of [`Next::Following`].
    pub fn follow(&mut self) {
        self.following = true;
    }

    /// Queues a light sweep.
    pub(crate) fn sweep_lightly(&mut self) {
        self.lightly.get_or_insert(GIVES_WAY);
    }

    /// Queues a poll of the master.
    pub(crate) fn poll_master(&mut self) {
        self.master = true;
    }

    /// Queues a switch that reported a change.
    pub(crate) fn sweep_switch(&mut self, switch: Guid, cause: impl Into<String>) {
        self.later.remove(&switch);
        self.is_offered = false;
        if self.switches.insert(switch) {
            self.add_cause(cause);
        }
    }

    /// Queues a switch to be swept at `when`, unless it is already queued for an earlier time.
    pub(crate) fn sweep_switch_at(&mut self, switch: Guid, when: Time) {
        let earliest = self.later.entry(switch).or_insert(when);
        *earliest = (*earliest).min(when);
    }

    /// Queues a port that reported a change.
    pub(crate) fn read_port(&mut self, port: PortKey) {
        self.is_offered = false;
        if self.ports.insert(port) {
            self.add_cause(format!("{port} changed"));
        }
    }

    /// Queues ports that may have changed and could not report it.
    pub fn read_again(&mut self, ports: impl IntoIterator<Item = PortKey>) {
        self.unread.extend(ports);
        if !self.unread.is_empty() {
            self.add_cause("ports read again that could not report");
        }
    }

    /// Queues a plan.
    pub(crate) fn plan_again(&mut self, cause: impl Into<String>) {
        self.plan = true;
        self.add_cause(cause);
    }

    /// Queues a plan of multicast. The plan waits for the end of a push: if every port that joins
    /// interrupted the push, no push would end while thousands of ports join.
    pub fn regroup(&mut self) {
        self.groups = true;
    }

    /// Queues a rebalancing step, to be made when no other work waits.
    pub fn rebalance(&mut self) {
        self.rebalance = true;
    }

    /// Queues the Sets of adaptive routing that waited for forwarding tables.
    pub fn route_adaptively(&mut self) {
        self.route_adaptively = true;
    }

    /// Records that a plan with the latest multicast groups begins.
    pub fn record_multicast_plan(&mut self) {
        self.groups = false;
    }

    /// Adds a ticket, which completes with the work that waits now.
    pub fn add_ticket(&mut self, ticket: Ticket) {
        self.tickets.push((ticket, TICKET_PASSES));
    }

    /// Drops `ticket`, whose work will not happen.
    pub fn withdraw(&mut self, ticket: Ticket) {
        self.tickets.retain(|&(waiting, _)| waiting != ticket);
    }

    /// Schedules the repair of a pass's failures. `awaiting_answer` has the missing answers: port 0
    /// stands for its node, another port for the unknown node behind it. Nodes in `failed` are
    /// swept as a whole. `has_failed_sets` says whether Sets have failed, perhaps on nodes that
    /// have answered all Gets.
    pub(crate) fn repair_pass(
        &mut self,
        awaiting_answer: BTreeSet<PortKey>,
        failed: &[Guid],
        has_failed_sets: bool,
        now: Time,
    ) {
        if !awaiting_answer.is_subset(&self.repairs.awaiting_answer) {
            // The pauses have grown because of other faults: start again for the new faults.
            self.end_repairs();
        }
        if awaiting_answer.is_empty() {
            if has_failed_sets {
                // Keep the scheduled repair, which repeats the failed Sets.
                return;
            }
            self.end_repairs();
        } else {
            self.repair(failed.iter().copied(), now);
        }
        self.repairs.awaiting_answer = awaiting_answer;
    }

    /// Schedules a repair after a pause: a sweep for the missing answers and of `nodes`.
    pub fn repair(&mut self, nodes: impl IntoIterator<Item = Guid>, now: Time) {
        // A pass that ends before the scheduled repair neither delays nor counts it.
        let due = match self.repairs.at {
            Some(due) => due,
            None => now + self.next_pause(),
        };
        self.repairs.at = Some(due);
        for node in nodes {
            self.sweep_switch_at(node, due);
        }
    }

    /// Makes all waiting work wait for the next pause of repairs.
    pub fn postpone(&mut self, now: Time) {
        self.not_before = Some(now + self.next_pause());
    }

    /// The pause before the next repair, twice as long as the last pause. Counts a repair.
    fn next_pause(&mut self) -> Duration {
        let pause = doubled(REPAIR_FIRST, self.repairs.in_a_row, REPAIR_LAST);
        self.repairs.in_a_row = self.repairs.in_a_row.saturating_add(1);
        pause
    }

    /// Ends the pause of [`Work::postpone`], because the cause of the failure is gone.
    pub fn end_postponement(&mut self) {
        self.not_before = None;
    }

    /// Whether all waiting work waits for a pause ([`Work::postpone`]).
    pub(crate) fn is_postponed(&self) -> bool {
        self.not_before.is_some()
    }

    /// Records that nothing is left to repair.
    pub fn end_repairs(&mut self) {
        (self.repairs.in_a_row, self.repairs.at) = (0, None);
    }

    /// Number of successive repairs so far.
    pub fn repairs(&self) -> u32 {
        self.repairs.in_a_row
    }

    /// Queues the work that was scheduled for `now` or earlier.
    pub fn wake(&mut self, now: Time) {
        let due: Vec<Guid> = self
            .later
            .iter()
            .filter(|&(_, &when)| when <= now)
            .map(|(&guid, _)| guid)
            .collect();
        for guid in due {
            self.later.remove(&guid);
            self.sweep_switch(guid, format!("{guid} is read again"));
        }
        if self.not_before.is_some_and(|when| when <= now) {
            self.not_before = None;
        }
        if self.repairs.at.is_some_and(|when| when <= now) {
            self.repairs.at = None;
            self.repairs.is_due = true;
            self.add_cause("repair");
        }
        if self.rebalance_at.is_some_and(|due| due <= now) {
            self.rebalance_at = None;
            self.rebalance();
        }
    }

    /// Time at which [`Work::wake`] next has something to do; `None` if never.
    pub(crate) fn next_wake(&self) -> Option<Time> {
        self.later
            .values()
            .copied()
            .chain(self.repairs.at)
            .chain(self.not_before)
            .chain(self.rebalance_at)
            .min()
    }

    /// Whether no work waits, now or later.
    pub fn is_empty(&self) -> bool {
        !self.is_due() && self.later.is_empty() && self.repairs.at.is_none()
    }

    /// Whether work waits that may start now.
    pub fn is_due(&self) -> bool {
        self.lightly.is_some()
            || self.master
            || self.reads_ahead
            || self.following
            || self.groups
            || self.rebalance
            || self.route_adaptively
            || !self.ports.is_empty()
            || !self.unread.is_empty()
            || self.owes_full_sweep()
            || self.is_urgent()
    }

    /// Whether work waits that should not wait for the end of a push. Reports of ports can wait:
    /// the push itself, which changes LIDs, causes most of them.
    pub(crate) fn is_urgent(&self) -> bool {
        self.plan
            || self.repairs.is_due
            || self.succession
            || self.everything.is_some_and(|sweep| !sweep.has_given_way)
            || !self.switches.is_empty()
    }

    /// Whether to plan again, even if a preceding sweep finds no change.
    pub(crate) fn wants_plan(&self) -> bool {
        self.plan
    }

    /// Records that a plan of the latest state begins.
    pub fn record_plan(&mut self) {
        (self.plan, self.rebalance) = (false, false);
    }

    /// Takes the next work, together with the waiting work that it includes. `None` if no work may
    /// start now.
    pub fn take_next(&mut self) -> Option<Next> {
        if self.not_before.is_some() {
            return None;
        }
        self.is_offered = false;
        self.under_way = None;
        if let Some(sweep) = self.everything.take() {
            if sweep.gives_way == 0 || self.switches.is_empty() {
                return Some(self.begin_everything(sweep));
            }
            // Packets are lost until the reported changes are repaired.
            self.everything = Some(FullSweep {
                gives_way: sweep.gives_way - 1,
                has_given_way: true,
                ..sweep
            });
        }
        if std::mem::take(&mut self.succession) {
            (self.master, self.rebalance) = (false, false);
            (self.reads_ahead, self.following) = (false, false);
            return Some(Next::Succession);
        }
        if std::mem::take(&mut self.reads_ahead) {
            return Some(Next::ReadAhead);
        }
        if std::mem::take(&mut self.following) {
            return Some(Next::Following);
        }
        // Reported switches join a light sweep.
        if self.lightly.take_if(|gives_way| *gives_way == 0).is_some() {
            return Some(Next::Lightly);
        }
        if let Some(next) = self.take_before_lightly() {
            if let Some(gives_way) = &mut self.lightly {
                *gives_way -= 1;
            }
            return Some(next);
        }
        if self.lightly.take().is_some() {
            return Some(Next::Lightly);
        }
        if std::mem::take(&mut self.rebalance) {
            return Some(Next::Rebalance);
        }
        std::mem::take(&mut self.master).then_some(Next::Master)
    }

    /// Takes the next work that goes before a light sweep, unless that has given way too often.
    fn take_before_lightly(&mut self) -> Option<Next> {
        if self.repairs.is_due
            || !self.switches.is_empty()
            || !self.ports.is_empty()
            || !self.unread.is_empty()
        {
            (self.master, self.rebalance) = (false, false);
            return Some(Next::Targets {
                switches: std::mem::take(&mut self.switches),
                ports: std::mem::take(&mut self.ports),
                unread: std::mem::take(&mut self.unread),
                repair: std::mem::take(&mut self.repairs.is_due),
            });
        }
        if self.wants_plan() {
            self.record_plan();
            return Some(Next::Plan);
        }
        if std::mem::take(&mut self.groups) {
            return Some(Next::Groups);
        }
        std::mem::take(&mut self.route_adaptively).then_some(Next::RouteAdaptively)
    }

    /// Begins a full sweep. Other sweeps no longer wait, because the full sweep reads their
    /// parts.
    fn begin_everything(&mut self, sweep: FullSweep) -> Next {
        if sweep.has_given_way {
            // The first place, so that the causes of many reports do not hide it.
            let cause = "the full sweep that gave way to reported changes";
            self.causes.insert(0, cause.to_owned());
            if self.causes.len() > CAUSES_SHOWN {
                self.causes.pop();
                self.more_causes += 1;
            }
        }
        self.under_way = Some(sweep);
        self.switches.clear();
        self.ports.clear();
        self.unread.clear();
        self.later.clear();
        (self.lightly, self.master, self.rebalance) = (None, false, false);
        self.repairs.is_due = false;
        (self.succession, self.reads_ahead, self.following) = (false, false, false);
        Next::Everything { audit: sweep.audit }
    }

    /// Offers the switches and ports that reported a change to the sweep under way. `accepts` says
    /// whether the sweep accepts a reporter; refused reporters wait for the end of the sweep.
    /// Returns whether any was accepted.
    pub(crate) fn offer(&mut self, mut accepts: impl FnMut(Reporter) -> bool) -> bool {
        if std::mem::replace(&mut self.is_offered, true) {
            return false;
        }
        let waiting = self.switches.len() + self.ports.len();
        self.switches
            .retain(|&switch| !accepts(Reporter::Switch(switch)));
        self.ports.retain(|&port| !accepts(Reporter::Port(port)));
        self.switches.len() + self.ports.len() < waiting
    }

    /// Schedules a light sweep at `when`, unless one is due before.
    pub(crate) fn sweep_lightly_at(&mut self, when: Time) {
        self.light_at.get_or_insert(when);
    }

    /// Schedules the next poll of the master at `when`.
    pub(crate) fn poll_master_at(&mut self, when: Time) {
        self.light_at = Some(when);
    }

    /// Time of the next light sweep or poll of the master; `None` if there is none.
    pub(crate) fn light_due(&self) -> Option<Time> {
        self.light_at
    }

    /// Whether a light sweep is due at `now`; true only once.
    pub(crate) fn take_light(&mut self, now: Time) -> bool {
        self.light_at.take_if(|due| *due <= now).is_some()
    }

    /// Schedules the next rebalancing step at `when`; `None` for none.
    pub(crate) fn rebalance_at(&mut self, when: Option<Time>) {
        self.rebalance_at = when;
    }

    /// Queues a full sweep after which all forwarding tables are written again.
    pub(crate) fn rewrite(&mut self) {
        self.rewrites = true;
        let cause = "every forwarding table is to be written";
        // Give way to no reports: the pass for a report would already write all tables.
        self.sweep_everything(FullSweep::before_writing(true), cause);
    }

    /// Whether the full sweep about to begin distrusts all tables; true only once.
    pub(crate) fn take_rewrite(&mut self) -> bool {
        std::mem::take(&mut self.rewrites)
    }

    /// Records the end of a full sweep, which did not reach the known nodes in `unreached`. The
    /// sweep is repeated when one of them answers again.
    pub(crate) fn record_coverage(&mut self, audit: bool, unreached: BTreeSet<Guid>) {
        self.uncovered = (!unreached.is_empty()).then_some(Uncovered {
            audit,
            nodes: unreached,
        });
    }

    /// Whether the last full sweep reached all known nodes.
    pub(crate) fn is_covered(&self) -> bool {
        self.uncovered.is_none()
    }

    /// Repeats the last full sweep if `has_answered` returns true for a node that the sweep did not
    /// reach. Answers of other nodes repeat nothing: the sweep would be as incomplete again.
    pub(crate) fn repeat_uncovered_sweep(&mut self, has_answered: impl Fn(Guid) -> bool) {
        let answered =
            |uncovered: &mut Uncovered| uncovered.nodes.iter().copied().any(&has_answered);
        if let Some(uncovered) = self.uncovered.take_if(answered) {
            let cause = "nodes answer that were silent in a full sweep";
            self.sweep_everything(FullSweep::in_use(uncovered.audit), cause);
        }
    }

    /// Causes of the waiting work, as one phrase.
    pub(crate) fn next_cause(&self) -> String {
        let mut text = self.causes.join("; ");
        if self.more_causes > 0 {
            text.push_str(&format!("; and {} more", self.more_causes));
        }
        text
    }

    /// Time before which no work starts, because of a failure; `None` if work may start now.
    pub fn not_before(&self) -> Option<Time> {
        self.not_before
    }

    /// Causes since the last call, as one phrase.
    pub(crate) fn take_cause(&mut self) -> String {
        let text = self.next_cause();
        self.causes.clear();
        self.more_causes = 0;
        text
    }

    /// Takes the tickets of the work that is being done.
    pub(crate) fn take_tickets(&mut self) -> Vec<Ticket> {
        let tickets = std::mem::take(&mut self.tickets);
        tickets.into_iter().map(|(ticket, _)| ticket).collect()
    }

    /// Counts a pass that urgent work follows. Takes the tickets that have waited for
    /// [`TICKET_PASSES`] such passes.
    pub(crate) fn take_overdue_tickets(&mut self) -> Vec<Ticket> {
        for (_, passes) in &mut self.tickets {
            *passes -= 1;
        }
        let overdue = self.tickets.extract_if(.., |&mut (_, passes)| passes == 0);
        overdue.map(|(ticket, _)| ticket).collect()
    }

    /// Adds a cause of the waiting work, unless the list has it already.
    fn add_cause(&mut self, cause: impl Into<String>) {
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
