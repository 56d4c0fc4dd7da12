//! The first sweep of a subnet that no manager has programmed: the core brings up the nodes found
//! so far while the sweep continues.
//!
//! A sweep takes long if nodes answer slowly or not at all, or the fabric loses SMPs. As long as no
//! switch forwards, there is no traffic that an incomplete plan could disturb. So the core plans
//! and writes the known part while the sweep continues.
//!
//! In a subnet in use, the sweep ends before the first plan.

use std::time::Duration;

use rsm_hardware::sweep::{Sweep, SweepScope};
use rsm_mad::Time;
use rsm_mad::client::ClientStats;
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_state::Role;

use super::convergence::Part;
use super::mastership::epoch::Holding;
use super::mastership::role::{self, ElectionOutcome};
use super::stage::Stage;
use super::{Core, Mode};

/// Settled queries for each open one from which on a sweep only waits for stragglers.
const SETTLED_PER_OPEN: usize = 8;

/// Minimum time that a sweep waits for stragglers. Answers take less than a millisecond; after a
/// few losses, 100.
const STRAGGLING: Duration = Duration::from_millis(250);

/// Time that the core waits for a slow sweep before it first brings up the known part; after that,
/// twice the time passed, so that early plans and pushes take no longer than the sweep itself.
const SLOW_AFTER: Duration = Duration::from_secs(2);

/// Settled queries per second below which a sweep is slow: lossless fabrics settle ten times as
/// many.
const SLOW_RATE: f64 = 4000.0;

/// Lost attempts in permille from which on the core reports a finding.
const LOSS_REPORTED: u32 = 50;

/// Minimum time between two snapshots published within a pass.
const REPORTED_EVERY: Duration = Duration::from_secs(1);

/// State last published within a pass.
#[derive(Debug)]
struct Reported {
    /// Losses, in steps of [`LOSS_REPORTED`].
    losses: u32,
    /// Number of ports that hold another M_Key.
    locked: usize,
    /// Time from which on the next snapshot may be published.
    next: Time,
}

impl Default for Reported {
    fn default() -> Reported {
        Reported {
            losses: 0,
            locked: 0,
            next: Time::ZERO,
        }
    }
}

/// State of the first sweep, until its end.
#[derive(Debug)]
pub(super) struct FirstSweep {
    under_way: bool,
    /// Whether no switch forwards by foreign tables, and no manager with precedence was found. If
    /// not, the core writes nothing before the end of the sweep.
    is_fresh: bool,
    /// The sweep, while the core plans and writes the part that it has found; else `None`.
    aside: Option<Box<Sweep>>,
    /// Start of the sweep, and the number of attempts that had timed out by then.
    began: Option<(Time, u64)>,
    /// Time since when the sweep only waits for stragglers.
    straggling: Option<Time>,
    /// Time at which the core next checks whether the sweep is slow.
    slow_at: Time,
    /// Queries settled at the last early bring-up.
    brought_up: usize,
    /// Queries settled at the last [`FirstSweep::watch`].
    seen: usize,
    /// Whether the plan in force was made before the end of the sweep.
    is_provisional: bool,
    reported: Reported,
}

impl Default for FirstSweep {
    fn default() -> FirstSweep {
        FirstSweep {
            under_way: true,
            is_fresh: true,
            aside: None,
            began: None,
            straggling: None,
            slow_at: Time::ZERO,
            brought_up: 0,
            seen: 0,
            is_provisional: false,
            reported: Reported::default(),
        }
    }
}

impl FirstSweep {
    /// State at the start; `may_plan` allows the core to plan before the sweep has ended.
    pub(super) fn new(may_plan: bool) -> FirstSweep {
        FirstSweep {
            is_fresh: may_plan,
            ..FirstSweep::default()
        }
    }

    /// Whether the first sweep has not ended.
    pub(super) fn is_under_way(&self) -> bool {
        self.under_way
    }

    /// Records that the first sweep has ended.
    pub(super) fn end(&mut self) {
        self.under_way = false;
    }

    /// Whether the plan in force was made before the end of the sweep, so that the next plan does
    /// not follow it.
    pub(super) fn is_provisional(&self) -> bool {
        self.is_provisional
    }

    /// Records that a plan was made; it is final if the sweep has ended.
    pub(super) fn planned(&mut self) {
        self.is_provisional &= self.under_way;
    }

    /// The sweep, while the core plans and writes the part that it has found; else `None`.
    pub(super) fn aside_mut(&mut self) -> Option<&mut Sweep> {
        self.aside.as_deref_mut()
    }

    /// Whether the core is bringing up a part of the subnet while the sweep continues.
    pub(super) fn goes_on(&self) -> bool {
        self.aside.is_some()
    }

    /// Updates the measures of the progress of `sweep`.
    fn watch(&mut self, sweep: &Sweep, stats: &ClientStats, now: Time) {
        if self.began.is_none() {
            self.began = Some((now, stats.timeouts));
            self.slow_at = now + SLOW_AFTER;
        }
        if self.seen == self.brought_up && sweep.settled() > self.seen {
            // Nodes answer again: the queries that follow are awaited.
            self.straggling = None;
        }
        self.seen = sweep.settled();
        let straggling = sweep.open() * SETTLED_PER_OPEN <= sweep.settled();
        self.straggling = match self.straggling {
            Some(since) if straggling => Some(since),
            _ => straggling.then_some(now),
        };
    }

    /// Time at which the core brings up the part that `sweep` has found, if the sweep does not end
    /// before; `None` if never.
    fn due(&self, sweep: &Sweep, stats: &ClientStats) -> Option<Time> {
        let (began, timeouts) = self.began?;
        let applies = self.under_way
            && self.is_fresh
            && matches!(sweep.scope(), SweepScope::Full { .. })
            && stats.timeouts > timeouts
            && sweep.settled() > self.brought_up;
        // Even in a sweep without losses, the last queries take their share of the time.
        let stragglers = self
            .straggling
            .map(|since| since + STRAGGLING.max(since.since(began) / 2));
        let due = stragglers.map_or(self.slow_at, |due| due.min(self.slow_at));
        applies.then_some(due)
    }

    /// Whether the early bring-up is due at `now`.
    fn is_due(&mut self, sweep: &Sweep, stats: &ClientStats, now: Time) -> bool {
        if self.due(sweep, stats).is_none_or(|due| due > now) {
            return false;
        }
        let Some((began, _)) = self.began else {
            return false;
        };
        if now < self.slow_at {
            return true;
        }
        let elapsed = now.since(began);
        self.slow_at = now + elapsed.max(SLOW_AFTER);
        let is_slow = (sweep.settled() as f64) < SLOW_RATE * elapsed.as_secs_f64();
        is_slow || self.straggling.is_some()
    }

    /// Ends an early bring-up: returns the sweep, which continues.
    fn resume(&mut self, now: Time) -> Option<Box<Sweep>> {
        let sweep = self.aside.take()?;
        self.straggling = self.straggling.map(|_| now);
        if let Some((began, _)) = self.began {
            self.slow_at = now + now.since(began).max(SLOW_AFTER);
        }
        Some(sweep)
    }

    /// The finding about lost SMPs; `None` if the share is too low.
    pub(super) fn finding(&self, stats: &ClientStats, place: &str) -> Option<Finding> {
        if !self.under_way || stats.loss_permille < LOSS_REPORTED {
            return None;
        }
        let text = format!(
            "{} % of the SMPs that {place} sends are lost on their way there or back: the subnet comes up slowly, and data \
             packets may be lost on the same links; look for symbol errors (perfquery), beginning with the cable of that \
             port and its switch",
            (stats.loss_permille + 5) / 10,
        );
        Some(Finding::new(
            FindingKind::SmpLoss,
            Subject::Subnet,
            Severity::Warning,
            text,
        ))
    }
}

impl Core {
    /// Time of the early bring-up; `None` if there will be none.
    pub(super) fn first_sweep_due(&self) -> Option<Time> {
        match &self.stage {
            Stage::Sweeping(sweep)
                if self.may_bring_up_early()
                    && (self.epoch.permits() || matches!(self.epoch.holding, Holding::Free)) =>
            {
                self.first_sweep.due(sweep, &self.client.stats())
            }
            _ => None,
        }
    }

    /// Whether the first sweep is under way, and this manager may set and has no inquiry open.
    fn may_bring_up_early(&self) -> bool {
        self.first_sweep.is_under_way()
            && self.config.mode == Mode::Manage
            && self.election.inquiry.is_none()
    }

    /// Brings up the part that the first sweep has found, if the sweep is slow and no part of the
    /// subnet is in use. Returns whether it does.
    pub(super) fn bring_up_what_is_known(&mut self, now: Time) -> bool {
        let Stage::Sweeping(sweep) = &self.stage else {
            return false;
        };
        if !self.may_bring_up_early() || matches!(self.epoch.holding, Holding::Refused(_)) {
            return false;
        }
        let stats = self.client.stats();
        self.first_sweep.watch(sweep, &stats, now);
        if !self.first_sweep.is_due(sweep, &stats, now) {
            return false;
        }
        if !self.is_for_us_to_bring_up() {
            self.first_sweep.is_fresh = false;
            return false;
        }
        if !self.epoch.permits() {
            if matches!(self.epoch.holding, Holding::Free) {
                self.claim_epoch(None, now);
            }
            return false;
        }
        let Stage::Sweeping(sweep) = std::mem::replace(&mut self.stage, Stage::Idle) else {
            return false;
        };
        self.first_sweep.brought_up = sweep.settled();
        self.first_sweep.aside = Some(sweep);
        self.first_sweep.is_provisional = true;
        self.election.role = Role::Master;
        self.meter.mark(Part::Discover, now);
        let fabric = self.model();
        self.missing.meet(&self.fabric, &fabric, now);
        self.fabric = fabric;
        self.start_plan(now);
        true
    }

    /// Whether no switch forwards by tables that this subnet manager did not plan, and no manager
    /// found so far has precedence.
    fn is_for_us_to_bring_up(&self) -> bool {
        let has_local = self.local_port().is_some();
        if self.may_be_shut_out() {
            return false;
        }
        let is_ours = |guid| {
            let plan = self.plans.in_force();
            plan.is_some_and(|plan| plan.table(guid).is_some())
        };
        let mut switches = self.inventory.switches();
        let in_use =
            switches.any(|(guid, _, switch)| switch.info.linear_fdb_top().0 != 0 && !is_ours(guid));
        let others = self.other_managers();
        let verdict = role::decide(
            &self.election.role,
            &others,
            self.identity(),
            self.own_guid(),
            self.election.predecessor,
        );
        has_local && !in_use && verdict == ElectionOutcome::Be(Role::Master)
    }

    /// Continues the first sweep after an early bring-up. Returns whether there was one.
    pub(super) fn resume_first_sweep(&mut self, now: Time) -> bool {
        let Some(sweep) = self.first_sweep.resume(now) else {
            return false;
        };
        self.meter.start(
            "answers that came late".to_owned(),
            now,
            self.client.stats(),
        );
        self.stage = Stage::Sweeping(sweep);
        true
    }

    /// Publishes a snapshot within a pass, if losses change or more ports ignore Sets.
    pub(super) fn tell_early(&mut self, now: Time) {
        let locked = self.inventory.count_locked();
        let losses = if self.first_sweep.is_under_way() {
            self.client.stats().loss_permille / LOSS_REPORTED
        } else {
            self.first_sweep.reported.losses
        };
        let news =
            losses != self.first_sweep.reported.losses || locked > self.first_sweep.reported.locked;
        if news && now >= self.first_sweep.reported.next {
            self.first_sweep.reported = Reported {
                losses,
                locked,
                next: now + REPORTED_EVERY,
            };
            self.publish(now);
        } else if locked < self.first_sweep.reported.locked {
            self.first_sweep.reported.locked = locked;
        }
    }
}
