//! The first sweep of a subnet that nobody has programmed: what it has found is brought up while it
//! goes on.
//!
//! A node that answers slowly or not at all, and a fabric that loses SMPs, make a sweep long. As
//! long as no switch forwards anything there is no traffic that an incomplete picture could
//! disturb, so that everybody else need not wait: what is known is planned and written, and the
//! sweep goes on meanwhile.

use std::time::Duration;

use rsm_mad::Time;
use rsm_mad::client::ClientStats;

use super::convergence::Part;
use super::role::{self, Role, Verdict};
use super::stage::Stage;
use super::{Core, Mode};
use crate::findings::{Finding, FindingKind, Severity, Subject};
use crate::sweep::{Scope, Sweep};

/// A sweep has come down to stragglers when this times as many questions are settled as are open.
const SETTLED_PER_OPEN: usize = 8;

/// How long stragglers are waited for at least. Answers take less than a millisecond, a few lost
/// ones 100.
const STRAGGLING: Duration = Duration::from_millis(250);

/// How long a slow sweep is waited for before what it has found is brought up for the first time;
/// then for twice the time that has passed, so that what is planned and written in vain costs no
/// more than the sweep itself.
const SLOW_AFTER: Duration = Duration::from_secs(2);

/// A sweep that settles fewer questions a second than this is slow: fabrics that lose nothing do
/// ten times as many.
const SLOW_RATE: f64 = 4000.0;

/// Share of lost attempts, in permille, that the operator is told of.
const LOSS_TOLD: u32 = 50;

/// How often the operator is told at most of what changes in the middle of a pass.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// What the operator was told last in the middle of a pass.
#[derive(Debug)]
pub(super) struct Told {
    /// Losses, in steps of [`LOSS_TOLD`].
    losses: u32,
    /// Ports that hold another M_Key.
    locked: usize,
    /// When there may be more.
    next: Time,
}

impl Default for Told {
    fn default() -> Told {
        Told {
            losses: 0,
            locked: 0,
            next: Time::ZERO,
        }
    }
}

/// What the core knows of its first sweep, until it has ended.
#[derive(Debug)]
pub(super) struct FirstSweep {
    under_way: bool,
    /// Part of the subnet is in use, or managed by another: all of it has to be seen before
    /// anything is written.
    is_fresh: bool,
    /// The sweep, while what it has found is planned and written.
    aside: Option<Box<Sweep>>,
    /// When it began, and how many attempts had timed out by then.
    began: Option<(Time, u64)>,
    /// Since when only stragglers are waited for.
    straggling: Option<Time>,
    /// When it is next looked at whether the sweep is slow.
    slow_at: Time,
    /// Questions settled when what was found was last brought up.
    brought_up: usize,
    /// Questions settled when the sweep was last looked at.
    seen: usize,
    /// The plan in force was made before everything was seen.
    is_provisional: bool,
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
        }
    }
}

impl FirstSweep {
    /// Whether it has not ended.
    pub(super) fn is_under_way(&self) -> bool {
        self.under_way
    }

    /// Every question is settled.
    pub(super) fn end(&mut self) {
        self.under_way = false;
    }

    /// Whether the plan in force was made before everything was seen: it is no basis for the next
    /// one.
    pub(super) fn is_provisional(&self) -> bool {
        self.is_provisional
    }

    /// A plan was made.
    pub(super) fn planned(&mut self) {
        self.is_provisional &= self.under_way;
    }

    /// The sweep, while what it has found is planned and written.
    pub(super) fn aside_mut(&mut self) -> Option<&mut Sweep> {
        self.aside.as_deref_mut()
    }

    /// Whether what was found is being brought up while the sweep goes on.
    pub(super) fn goes_on(&self) -> bool {
        self.aside.is_some()
    }

    /// Looks at how far `sweep` is.
    fn watch(&mut self, sweep: &Sweep, stats: &ClientStats, now: Time) {
        if self.began.is_none() {
            self.began = Some((now, stats.timeouts));
            self.slow_at = now + SLOW_AFTER;
        }
        if self.seen == self.brought_up && sweep.settled() > self.seen {
            // Somebody answers again: what comes of it is waited for.
            self.straggling = None;
        }
        self.seen = sweep.settled();
        let straggling = sweep.open() * SETTLED_PER_OPEN <= sweep.settled();
        self.straggling = match self.straggling {
            Some(since) if straggling => Some(since),
            _ => straggling.then_some(now),
        };
    }

    /// When what `sweep` has found is to be brought up, if it does not end before.
    fn due(&self, sweep: &Sweep, stats: &ClientStats) -> Option<Time> {
        let (began, timeouts) = self.began?;
        let applies = self.under_way
            && self.is_fresh
            && matches!(sweep.scope(), Scope::Full { .. })
            && stats.timeouts > timeouts
            && sweep.settled() > self.brought_up;
        // In a sweep that nothing holds up, the last questions take their share of the time, too.
        let stragglers = self
            .straggling
            .map(|since| since + STRAGGLING.max(since.since(began) / 2));
        let due = stragglers.map_or(self.slow_at, |due| due.min(self.slow_at));
        applies.then_some(due)
    }

    /// Whether what was found is to be brought up now.
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

    /// What was found is brought up: `sweep` is the sweep under way again.
    fn resume(&mut self, now: Time) -> Option<Box<Sweep>> {
        let sweep = self.aside.take()?;
        self.straggling = self.straggling.map(|_| now);
        if let Some((began, _)) = self.began {
            self.slow_at = now + now.since(began).max(SLOW_AFTER);
        }
        Some(sweep)
    }

    /// What the operator is to know of losses.
    pub(super) fn finding(&self, stats: &ClientStats, place: &str) -> Option<Finding> {
        if !self.under_way || stats.loss_permille < LOSS_TOLD {
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
    /// When what the first sweep has found is to be brought up.
    pub(super) fn first_sweep_due(&self) -> Option<Time> {
        match &self.stage {
            Stage::Sweeping(sweep) if self.may_bring_up_early() => {
                self.first_sweep.due(sweep, &self.client.stats())
            }
            _ => None,
        }
    }

    /// Whether the first sweep goes on, and this manager sets anything and is in no doubt of being
    /// the master.
    fn may_bring_up_early(&self) -> bool {
        self.first_sweep.is_under_way()
            && self.config.mode == Mode::Manage
            && self.election.inquiry.is_none()
    }

    /// Brings up what the first sweep has found, if it is held up and nothing is in use that this
    /// could disturb. Returns whether it does.
    pub(super) fn bring_up_what_is_known(&mut self, now: Time) -> bool {
        let Stage::Sweeping(sweep) = &self.stage else {
            return false;
        };
        if !self.may_bring_up_early() {
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
        let Stage::Sweeping(sweep) = std::mem::replace(&mut self.stage, Stage::Idle) else {
            return false;
        };
        self.first_sweep.brought_up = sweep.settled();
        self.first_sweep.aside = Some(sweep);
        self.first_sweep.is_provisional = true;
        self.role = Role::Master;
        self.meter.mark(Part::Discover, now);
        let fabric = self.model();
        self.expect_met(&fabric, now);
        self.fabric = fabric;
        self.start_plan(now);
        true
    }

    /// Whether no switch forwards anything but what this subnet manager planned, and no other that
    /// was met has precedence.
    fn is_for_us_to_bring_up(&self) -> bool {
        let local = self.inventory.local;
        let has_local = local
            .and_then(|local| self.inventory.port(local))
            .is_some_and(|port| port.info.is_some());
        let is_ours = |guid| {
            let plan = self.plan.as_ref();
            plan.is_some_and(|plan| plan.table(guid).is_some())
        };
        let mut switches = self.inventory.switches();
        let in_use =
            switches.any(|(guid, _, switch)| switch.info.linear_fdb_top().0 != 0 && !is_ours(guid));
        let others = role::others(&self.inventory);
        let verdict = role::decide(
            &self.role,
            &others,
            self.config.identity,
            self.own_guid(),
            self.election.predecessor,
        );
        has_local && !in_use && verdict == Verdict::Be(Role::Master)
    }

    /// Goes on with the first sweep, if what it had found was brought up.
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

    /// Tells the operator in the middle of a pass what keeps it from its end: losses, and ports
    /// that ignore Sets.
    pub(super) fn tell_early(&mut self, now: Time) {
        let locked = self.inventory.faults.count_locked();
        let losses = if self.first_sweep.is_under_way() {
            self.client.stats().loss_permille / LOSS_TOLD
        } else {
            self.told.losses
        };
        let news = losses != self.told.losses || locked > self.told.locked;
        if news && now >= self.told.next {
            self.told = Told {
                losses,
                locked,
                next: now + TOLD_EVERY,
            };
            self.publish(now);
        } else if locked < self.told.locked {
            self.told.locked = locked;
        }
    }
}
