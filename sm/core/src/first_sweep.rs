//! The first sweep, and the early bring-up: in a subnet that no manager has programmed, the core
//! brings up the nodes found so far if the sweep is slow.
//!
//! A sweep takes long if nodes answer slowly or not at all, or if the fabric loses SMPs. As long as
//! no switch forwards, there is no traffic that an incomplete plan could disturb. Therefore the
//! core plans and writes the known part while the sweep continues.
//!
//! In a subnet in use, the first plan waits for the end of the sweep.

use std::time::Duration;

use rsm_hardware::sweep::{Sweep, SweepScope};
use rsm_mad::Time;
use rsm_mad::client::ClientStats;
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};

/// A sweep counts as waiting for stragglers, its last and slow answers, if it has at least this
/// many settled queries for each open one.
const SETTLED_PER_OPEN: usize = 8;

/// Minimum time that a sweep waits for stragglers. Answers take less than 1 ms; after a few lost
/// attempts, 100 ms.
const STRAGGLING: Duration = Duration::from_millis(250);

/// Age of a slow sweep at which the core first brings up the known part. The next early bring-up
/// follows when the age has doubled, so that early plans and pushes take no longer than the sweep
/// itself.
const SLOW_AFTER: Duration = Duration::from_secs(2);

/// Number of settled queries per second below which a sweep is slow. In a fabric without losses,
/// ten times as many are settled.
const SLOW_RATE: f64 = 4000.0;

/// Share of lost attempts, in permille, from which the core reports a finding.
const LOSS_REPORTED: u32 = 50;

/// Minimum time between two snapshots published within a pass.
const REPORTED_EVERY: Duration = Duration::from_secs(1);

/// The state in the last snapshot published because of [`FirstSweep::has_news`].
#[derive(Debug)]
struct Reported {
    /// Share of lost attempts, in units of [`LOSS_REPORTED`].
    losses: u32,
    /// Number of ports that hold a foreign M_Key.
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
    /// Whether the sweep has not ended.
    under_way: bool,
    /// Whether an early bring-up is possible. False once a switch was found that forwards by
    /// foreign tables, or a manager with precedence: the core then writes nothing before the sweep
    /// ends.
    is_fresh: bool,
    /// The sweep, while the core plans and writes the part that it has found; else `None`.
    background: Option<Box<Sweep>>,
    /// Start of the sweep, and the number of attempts that had timed out by then; `None` before the
    /// first [`FirstSweep::watch`].
    began: Option<(Time, u64)>,
    /// Time at which the sweep began to wait for stragglers; `None` if it does not.
    straggling: Option<Time>,
    /// Time at which the core next checks whether the sweep is slow.
    slow_at: Time,
    /// Number of queries settled at the last early bring-up.
    brought_up: usize,
    /// Number of queries settled at the last [`FirstSweep::watch`].
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
            background: None,
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

    /// Whether the plan in force was made before the end of the sweep: a new plan must follow even
    /// if nothing changes, and does not start from it.
    pub(super) fn is_provisional(&self) -> bool {
        self.is_provisional
    }

    /// Records that a plan was made; it is final if the sweep has ended.
    pub(super) fn planned(&mut self) {
        self.is_provisional &= self.under_way;
    }

    /// The first sweep while it continues in the background of an early bring-up; `None` otherwise.
    pub(super) fn background_sweep_mut(&mut self) -> Option<&mut Sweep> {
        self.background.as_deref_mut()
    }

    /// Whether the core is bringing up a part of the subnet while the sweep continues.
    pub(super) fn goes_on(&self) -> bool {
        self.background.is_some()
    }

    /// Makes the core write nothing before the end of the sweep: the subnet is in use, or another
    /// manager has precedence.
    pub(super) fn wait_for_end(&mut self) {
        self.is_fresh = false;
    }

    /// Begins an early bring-up: `sweep` continues meanwhile.
    pub(super) fn set_aside(&mut self, sweep: Box<Sweep>) {
        self.brought_up = sweep.settled();
        self.background = Some(sweep);
        self.is_provisional = true;
    }

    /// Whether a snapshot is due at `now`: the loss rate has changed, or the number of `locked`
    /// ports, which ignore Sets, has grown. Records the snapshot as published.
    pub(super) fn has_news(&mut self, stats: &ClientStats, locked: usize, now: Time) -> bool {
        let reported = &mut self.reported;
        let losses = match self.under_way {
            true => stats.loss_permille / LOSS_REPORTED,
            false => reported.losses,
        };
        let is_news = losses != reported.losses || locked > reported.locked;
        let is_due = is_news && now >= reported.next;
        if is_due {
            *reported = Reported {
                losses,
                locked,
                next: now + REPORTED_EVERY,
            };
        } else if locked < reported.locked {
            reported.locked = locked;
        }
        is_due
    }

    /// Updates the measures of the progress of `sweep`. Returns whether the early bring-up is due
    /// at `now`.
    pub(super) fn is_slow(&mut self, sweep: &Sweep, stats: &ClientStats, now: Time) -> bool {
        self.watch(sweep, stats, now);
        self.is_due(sweep, stats, now)
    }

    /// Updates the measures of the sweep's progress.
    fn watch(&mut self, sweep: &Sweep, stats: &ClientStats, now: Time) {
        if self.began.is_none() {
            self.began = Some((now, stats.timeouts));
            self.slow_at = now + SLOW_AFTER;
        }
        if self.seen == self.brought_up && sweep.settled() > self.seen {
            // Nodes answer again, which leads to further queries: wait for these.
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
    pub(super) fn due(&self, sweep: &Sweep, stats: &ClientStats) -> Option<Time> {
        let (began, timeouts) = self.began?;
        let applies = self.under_way
            && self.is_fresh
            && matches!(sweep.scope(), SweepScope::Full { .. })
            && stats.timeouts > timeouts
            && sweep.settled() > self.brought_up;
        // Even without losses the last queries take some time: wait for half as long as the sweep
        // took before them.
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

    /// Ends an early bring-up, and returns the sweep, which continues as a stage; `None` if there
    /// is no early bring-up.
    pub(super) fn resume(&mut self, now: Time) -> Option<Box<Sweep>> {
        let sweep = self.background.take()?;
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
