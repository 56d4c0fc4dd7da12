//! The first sweep, and the early bring-up: if the sweep is slow in a subnet that no manager has
//! programmed, the core brings up the nodes found so far.
//!
//! A sweep takes long if nodes answer slowly or not at all, or if the fabric loses SMPs. As long as
//! no switch forwards, there is no traffic that an incomplete plan could disturb. The core
//! therefore plans and writes the part found so far while the sweep continues.
//!
//! In a subnet in use, the first plan waits for the end of the sweep.

use std::time::Duration;

use rsm_hardware::sweep::{Sweep, SweepScope};
use rsm_mad::Time;
use rsm_mad::client::ClientStats;
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};

/// A sweep counts as waiting for stragglers (its last, slow answers) if it has at least this many
/// settled queries for each open query.
const SETTLED_PER_OPEN: usize = 8;

/// Minimum time that a sweep waits for stragglers. Answers take less than 1 ms; after a few lost
/// attempts, 100 ms.
const STRAGGLING: Duration = Duration::from_millis(250);

/// Age of a slow sweep at which the first early bring-up begins. The next one follows when the age
/// has doubled, so that early plans and pushes take no longer than the sweep itself.
const SLOW_AFTER: Duration = Duration::from_secs(2);

/// Number of settled queries per second below which a sweep is slow. A fabric without losses
/// settles ten times as many.
const SLOW_RATE: f64 = 4000.0;

/// Lowest share of lost attempts, in permille, that the core reports in a finding.
const LOSS_REPORTED: u32 = 50;

/// Minimum time between two snapshots published within a pass.
const SNAPSHOT_PAUSE: Duration = Duration::from_secs(1);

/// The state in the last snapshot published because of [`FirstSweep::take_snapshot_due`].
#[derive(Debug)]
struct Reported {
    /// Share of lost attempts, in units of [`LOSS_REPORTED`].
    losses: u32,
    /// Number of ports that hold a foreign M_Key.
    locked: usize,
    /// Earliest time of the next snapshot.
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
    /// Whether an early bring-up is possible. False once the sweep has found a switch that forwards
    /// by foreign tables, or a manager with precedence: the core then writes nothing before the
    /// sweep ends.
    is_fresh: bool,
    /// The sweep, while the core plans and writes the part found so far; else `None`.
    background: Option<Box<Sweep>>,
    /// Start of the sweep, and the number of attempts that had timed out by then; `None` before the
    /// first [`FirstSweep::watch`].
    began: Option<(Time, u64)>,
    /// Time at which the sweep began to wait for stragglers; `None` if it does not wait for them.
    straggling_since: Option<Time>,
    /// Time at which the core next checks whether the sweep is slow.
    slow_at: Time,
    /// Number of queries settled at the last early bring-up.
    settled_at_bring_up: usize,
    /// Number of queries settled at the last [`FirstSweep::watch`].
    last_settled: usize,
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
            straggling_since: None,
            slow_at: Time::ZERO,
            settled_at_bring_up: 0,
            last_settled: 0,
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

    /// Whether the plan in force was made before the end of the sweep. A new plan must then follow
    /// even if nothing changes, and does not start from the plan in force.
    pub(super) fn is_provisional(&self) -> bool {
        self.is_provisional
    }

    /// Records that a plan was made. The plan is final if the sweep has ended.
    pub(super) fn record_plan(&mut self) {
        self.is_provisional &= self.under_way;
    }

    /// The first sweep while it continues in the background of an early bring-up; `None` otherwise.
    pub(super) fn background_sweep_mut(&mut self) -> Option<&mut Sweep> {
        self.background.as_deref_mut()
    }

    /// Whether the core is bringing up a part of the subnet while the sweep continues.
    pub(super) fn is_in_background(&self) -> bool {
        self.background.is_some()
    }

    /// Makes the core write nothing before the end of the sweep: the subnet is in use, or another
    /// manager has precedence.
    pub(super) fn wait_for_end(&mut self) {
        self.is_fresh = false;
    }

    /// Begins an early bring-up, during which `sweep` continues.
    pub(super) fn move_to_background(&mut self, sweep: Box<Sweep>) {
        self.settled_at_bring_up = sweep.settled();
        self.background = Some(sweep);
        self.is_provisional = true;
    }

    /// Whether a snapshot is due at `now`: the loss rate has changed, or the number of `locked`
    /// ports, which ignore Sets, has grown. Records a snapshot that is due as published.
    pub(super) fn take_snapshot_due(
        &mut self,
        stats: &ClientStats,
        locked: usize,
        now: Time,
    ) -> bool {
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
                next: now + SNAPSHOT_PAUSE,
            };
        } else if locked < reported.locked {
            reported.locked = locked;
        }
        is_due
    }

    /// Updates the measures of the progress of `sweep`. Returns whether the early bring-up is due
    /// at `now`.
    pub(super) fn is_bring_up_due(
        &mut self,
        sweep: &Sweep,
        stats: &ClientStats,
        now: Time,
    ) -> bool {
        self.watch(sweep, stats, now);
        self.check_slowness(sweep, stats, now)
    }

    /// Updates the measures of the sweep's progress.
    fn watch(&mut self, sweep: &Sweep, stats: &ClientStats, now: Time) {
        if self.began.is_none() {
            self.began = Some((now, stats.timeouts));
            self.slow_at = now + SLOW_AFTER;
        }
        if self.last_settled == self.settled_at_bring_up && sweep.settled() > self.last_settled {
            // Nodes answer again, which leads to further queries: wait for their answers.
            self.straggling_since = None;
        }
        self.last_settled = sweep.settled();
        let straggling = sweep.open() * SETTLED_PER_OPEN <= sweep.settled();
        self.straggling_since = match self.straggling_since {
            Some(since) if straggling => Some(since),
            _ => straggling.then_some(now),
        };
    }

    /// Time of the early bring-up of the part that `sweep` has found, unless the sweep ends before;
    /// `None` if there will be no early bring-up.
    pub(super) fn bring_up_time(&self, sweep: &Sweep, stats: &ClientStats) -> Option<Time> {
        let (began, timeouts) = self.began?;
        let applies = self.under_way
            && self.is_fresh
            && matches!(sweep.scope(), SweepScope::Full { .. })
            && stats.timeouts > timeouts
            && sweep.settled() > self.settled_at_bring_up;
        // Even without losses, the last queries take some time: wait for them half as long as the
        // sweep had taken before.
        let stragglers = self
            .straggling_since
            .map(|since| since + STRAGGLING.max(since.since(began) / 2));
        let due = stragglers.map_or(self.slow_at, |due| due.min(self.slow_at));
        applies.then_some(due)
    }

    /// Whether the early bring-up is due at `now`. Postpones the next check if the sweep is not
    /// slow.
    fn check_slowness(&mut self, sweep: &Sweep, stats: &ClientStats, now: Time) -> bool {
        if self.bring_up_time(sweep, stats).is_none_or(|due| due > now) {
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
        is_slow || self.straggling_since.is_some()
    }

    /// Ends an early bring-up. Returns the sweep, which continues as a stage; `None` if there is no
    /// early bring-up.
    pub(super) fn resume(&mut self, now: Time) -> Option<Box<Sweep>> {
        let sweep = self.background.take()?;
        self.straggling_since = self.straggling_since.map(|_| now);
        if let Some((began, _)) = self.began {
            self.slow_at = now + now.since(began).max(SLOW_AFTER);
        }
        Some(sweep)
    }

    /// Gives up the first sweep in the background of an early bring-up, because its Gets were
    /// withdrawn. No other early bring-up follows. Returns whether there was such a sweep.
    pub(super) fn give_up(&mut self) -> bool {
        let was_in_background = self.background.take().is_some();
        self.is_fresh &= !was_in_background;
        was_in_background
    }

    /// The finding about lost SMPs; `None` if the first sweep has ended or the loss rate is below
    /// [`LOSS_REPORTED`]. `place` is the name of this manager's port.
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
