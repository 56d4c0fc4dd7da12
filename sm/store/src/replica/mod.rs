//! The thread that keeps a shared store up to date with the store of this machine.
//!
//! ```text
//!     claim: the epoch is free, this manager's own, or of a silent master
//! Watching ──────────────────────────────────────────────────────────────▶ Holding
//!    ▲  │ claim: the store does not answer            every second             │
//!    │  └────────────────────▶ Wanting ────────────────────────────────────────▶│
//!    └──────────────────── release, or another manager claimed the epoch ◀──────┘
//! ```
//!
//! A claim may name a master that is silent in the fabric. If that master has not yet been silent
//! in the store for long enough, the claim waits until the required silence is over or a sign of
//! life comes. Such a claim is answered within [`CLAIM_DEADLINE`], even if the store hangs: the
//! call under way and the calls of the claim end by then. A store that refuses calls delays the
//! answer just as long, in which the master may answer in the fabric.
//!
//! While it holds the epoch, the thread writes the changes of commits in groups, and shows a sign
//! of life every [`BEAT`]; each write fails once another manager has claimed the epoch. While it
//! watches, the thread reads the epoch at the same interval, to know whether the holder is alive.
//! No caller waits for the thread.

mod claim;
mod event;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rsm_ids::Guid;
use rsm_proto::with_causes;

pub use self::claim::Claim;
pub use self::event::{Health, Lag, ReplicaEvent};
use super::{
    CABLING, ChangeSet, ClaimCondition, Deadline, Epoch, FOLLOWED_TABLES, LOCAL_TABLES, Persisted,
    SeenEpoch, SharedStore, StoreError, last_commit,
};

/// Time for which a change waits for further changes to share its transaction.
const GROUPING_DELAY: Duration = Duration::from_millis(5);

/// Time between two signs of life of the holder, and between two readings of the epoch.
pub const BEAT: Duration = Duration::from_millis(100);

/// Time from a reading without a new sign of life to the next reading. A silence counts from the
/// moment when the last sign of life was seen, which must be soon after it was shown.
const SHORT_BEAT: Duration = Duration::from_millis(20);

/// Silence in the store after which a holder counts as gone.
pub const STALE: Duration = Duration::from_secs(3);

/// Silence in the store after which a master that does not answer in the fabric counts as gone; a
/// busy master still shows signs of life. This time is most of the period in which hosts get no
/// answers after a master's death. The loss of a member of etcd does not count as silence, because
/// the store then does not answer at all.
pub const SILENT: Duration = Duration::from_millis(400);

/// Time limit of a claim over a silent master if the store does not answer. With 0.4 seconds before
/// the claim, and the reading of a small subnet after it, a takeover takes less than two seconds.
pub const CLAIM_DEADLINE: Duration = Duration::from_secs(1);

/// Time between two attempts after the store did not answer, or did not grant the epoch.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Age of the oldest waiting change above which the shared store counts as lagging.
const BEHIND: Duration = Duration::from_secs(5);

/// Maximum number of changed rows that wait during an outage, each with its last value: three times
/// the state of 45,000 hosts. Above this number, the whole state, which is smaller, is written once
/// the store answers again.
pub(crate) const ROWS_MAX: usize = 2_000_000;

/// Time between two readings of the holder's writes; for each reading, etcd searches all keys.
const FOLLOW: Duration = Duration::from_secs(5);

/// Time between two readings of the holder's writes after the holder has stored another plan.
pub const FOLLOW_PLAN: Duration = Duration::from_secs(1);

/// An order to the thread.
enum Order {
    /// A claim, and the time by which it must have an answer; `None` if it may wait for the store.
    Claim(Box<Claim>, Option<Instant>),
    /// A check whether this manager still holds the epoch.
    Check,
    /// The end of the epoch, after the waiting changes are written.
    Release,
}

/// Changes and orders that wait for the thread.
#[derive(Default)]
struct Waiting {
    changes: ChangeSet,
    /// Whether changes were dropped because they exceeded [`ROWS_MAX`], and this is not yet
    /// reported.
    overflowed: bool,
    /// Number of rows that are being written.
    in_flight: usize,
    /// Time at which the oldest waiting change came; `None` if none waits.
    since: Option<Instant>,
    orders: Vec<Order>,
    /// Whether changes are kept: from a claim until the end of the epoch.
    keeps_changes: bool,
    is_closing: bool,
    /// This manager's GUID and the checksums of its settings, to be shown to other managers.
    announcement: Option<(Guid, String)>,
}

/// The queue from the handle to the thread.
#[derive(Default)]
struct Mailbox {
    waiting: Mutex<Waiting>,
    wakeup: Condvar,
}

/// Handle to the thread. Clones share it.
#[derive(Clone)]
pub struct ReplicaHandle {
    mailbox: Arc<Mailbox>,
    deadline: Deadline,
    thread: Arc<Mutex<Option<JoinHandle<()>>>>,
}

impl ReplicaHandle {
    /// Starts the thread. The thread calls `report` with its reports; `report` must not wait.
    ///
    /// # Errors
    /// Fails if the operating system cannot start a thread.
    pub fn start(
        store: Box<dyn SharedStore>,
        report: Box<dyn Fn(ReplicaEvent) + Send>,
    ) -> std::io::Result<ReplicaHandle> {
        let mailbox = Arc::new(Mailbox::default());
        let deadline = store.deadline();
        let worker = Worker {
            store,
            deadline: deadline.clone(),
            mailbox: mailbox.clone(),
            report,
            held: None,
            retried_claim: None,
            delayed_claim: None,
            seen: None,
            seen_at: now(),
            beat_at: now(),
            due: now(),
            health: Health::Good,
            compare_at: now(),
            followed_at: None,
            planned: None,
            configurations: BTreeMap::new(),
        };
        let thread = Builder::new()
            .name("shared-store".to_owned())
            .spawn(move || worker.run())?;
        Ok(ReplicaHandle {
            mailbox,
            deadline,
            thread: Arc::new(Mutex::new(Some(thread))),
        })
    }

    /// Queues changes, if this manager holds the epoch or has claimed it. Does not wait.
    pub fn put(&self, changes: ChangeSet) {
        let mut waiting = self.mailbox.waiting.lock();
        if !waiting.keeps_changes || changes.is_empty() {
            return;
        }
        waiting.changes.merge(changes);
        waiting.since.get_or_insert_with(now);
        if waiting.changes.len() > ROWS_MAX {
            waiting.drop_changes();
            waiting.overflowed = true;
        }
        self.mailbox.wakeup.notify_one();
    }

    /// Claims the epoch. Does not wait.
    pub fn claim(&self, claim: Claim) {
        let by = claim.over.map(|_| now() + CLAIM_DEADLINE);
        let mut waiting = self.mailbox.waiting.lock();
        (waiting.keeps_changes, waiting.overflowed) = (true, false);
        waiting.changes = ChangeSet::new();
        waiting.since = None;
        waiting.orders.push(Order::Claim(Box::new(claim), by));
        self.deadline.set(by);
        self.mailbox.wakeup.notify_one();
    }

    /// Checks whether this manager still holds the epoch. Does not wait.
    pub fn check(&self) {
        self.mailbox.waiting.lock().orders.push(Order::Check);
        self.mailbox.wakeup.notify_one();
    }

    /// Writes the waiting changes and releases the epoch, because another manager is master. Does
    /// not wait.
    pub fn release(&self) {
        let mut waiting = self.mailbox.waiting.lock();
        waiting.keeps_changes = false;
        waiting.orders.push(Order::Release);
        self.mailbox.wakeup.notify_one();
    }

    /// Shows the checksums of this manager's settings to other managers, and from then on reports
    /// theirs as [`ReplicaEvent::Configurations`].
    pub fn announce(&self, own: Guid, checksums: String) {
        self.mailbox.waiting.lock().announcement = Some((own, checksums));
    }

    /// The changes that wait to be written.
    pub fn lag(&self) -> Lag {
        self.mailbox.waiting.lock().lag()
    }

    /// Writes the waiting changes, in one attempt, and ends the thread.
    pub fn close(&self) {
        self.mailbox.waiting.lock().is_closing = true;
        self.mailbox.wakeup.notify_one();
        let thread = self.thread.lock().take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of the shared store panicked");
        }
    }
}

impl Waiting {
    /// Drops the waiting changes, and all later ones until the next claim.
    fn drop_changes(&mut self) {
        self.keeps_changes = false;
        self.changes = ChangeSet::new();
        self.since = None;
    }

    /// The number and age of the waiting rows.
    fn lag(&self) -> Lag {
        Lag {
            rows: self.changes.len() + self.in_flight,
            oldest: self.since.map_or(Duration::ZERO, |since| since.elapsed()),
        }
    }
}

/// State of the thread.
struct Worker {
    store: Box<dyn SharedStore>,
    /// Deadline shared with the store.
    deadline: Deadline,
    mailbox: Arc<Mailbox>,
    report: Box<dyn Fn(ReplicaEvent) + Send>,
    /// The epoch that this manager held.
    held: Option<Epoch>,
    /// The claim that is repeated until the store answers.
    retried_claim: Option<Box<Claim>>,
    /// The claim that waits until the holder has been silent for the required time, or until a
    /// store that refuses answers.
    delayed_claim: Option<Box<Claim>>,
    /// The epoch at the last reading.
    seen: Option<SeenEpoch>,
    /// Time at which `seen` last changed, or could not be read.
    seen_at: Instant,
    /// Time at which `seen` last changed.
    beat_at: Instant,
    /// Time at which the next sign of life, reading or attempt is due.
    due: Instant,
    health: Health,
    /// Time at which the settings of all managers are compared next.
    compare_at: Instant,
    /// Time at which this manager last read the holder's writes; `None` if a reading is due.
    followed_at: Option<Instant>,
    /// Number of the holder's last plan, reported after the rows that belong to it.
    planned: Option<u64>,
    /// Checksums of all managers' settings at the last comparison.
    configurations: BTreeMap<Guid, String>,
}

impl Worker {
    /// Carries out orders and writes changes until the handle is closed.
    fn run(mut self) {
        loop {
            let (orders, is_closing) = self.wait();
            let overflowed = std::mem::take(&mut self.mailbox.waiting.lock().overflowed);
            if overflowed {
                (self.report)(ReplicaEvent::Overflowed);
            }
            for order in orders {
                self.carry_out(order);
            }
            if is_closing {
                if self.held.is_some() {
                    self.write();
                }
                if matches!(self.health, Health::Good | Health::Behind) {
                    // The next manager need not wait until this manager's signs of life are old.
                    self.store.release();
                }
                if let Err(error) = self.store.close() {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "cannot close the shared store"
                    );
                }
                return;
            }
            if self.held.is_some() {
                self.write();
            } else if self.silence_end().is_some_and(|at| at <= now()) {
                if let Some(claim) = self.delayed_claim.take() {
                    self.try_claim(claim, Attempt::First);
                }
            } else if now() >= self.due {
                match self.retried_claim.take() {
                    Some(claim) => self.try_claim(claim, Attempt::Later),
                    None => self.watch(),
                }
            }
            self.compare_configurations();
        }
    }

    /// Waits for orders, for changes to write, or until an action is due. Returns the orders, and
    /// whether the handle was closed.
    fn wait(&self) -> (Vec<Order>, bool) {
        let mut waiting = self.mailbox.waiting.lock();
        loop {
            let present = now();
            let is_failing = matches!(self.health, Health::Failing(_));
            let group = waiting.since.filter(|_| self.held.is_some() && !is_failing);
            let until = group.map_or(self.due, |since| self.due.min(since + GROUPING_DELAY));
            let until = self.silence_end().map_or(until, |at| until.min(at));
            let has_work = !waiting.orders.is_empty() || waiting.is_closing || waiting.overflowed;
            if has_work || until <= present {
                return (std::mem::take(&mut waiting.orders), waiting.is_closing);
            }
            self.mailbox.wakeup.wait_until(&mut waiting, until);
        }
    }

    /// Carries out an order, and reports the outcome.
    fn carry_out(&mut self, order: Order) {
        match order {
            Order::Claim(claim, by) => {
                (self.delayed_claim, self.retried_claim) = (None, None);
                self.deadline.set(by);
                // While the store does not answer, the end of a silence cannot be seen.
                let is_failing = matches!(self.health, Health::Failing(_));
                if !is_failing && self.silence_needed(&claim).is_some_and(|at| at > now()) {
                    self.delayed_claim = Some(claim);
                } else {
                    self.try_claim(claim, Attempt::First);
                }
            }
            Order::Check => self.check(),
            Order::Release => {
                self.deadline.set(None);
                if self.held.is_some() {
                    self.write();
                }
                self.store.release();
                (self.held, self.retried_claim, self.delayed_claim) = (None, None, None);
                let mut waiting = self.mailbox.waiting.lock();
                if !waiting.keeps_changes {
                    waiting.drop_changes();
                }
                drop(waiting);
                self.due = now();
            }
        }
    }

    /// Time until which the holder must stay silent for the claim to succeed. `None` if the claim
    /// requires no silence, or does not name the holder.
    fn silence_needed(&self, claim: &Claim) -> Option<Instant> {
        let seen = self.seen?;
        let silence = claim.silence(&seen)?;
        (Some(seen.epoch.holder) == claim.over).then(|| self.seen_at + silence)
    }

    /// The end of the silence that the waiting claim requires.
    fn silence_end(&self) -> Option<Instant> {
        self.silence_needed(self.delayed_claim.as_ref()?)
    }

    /// Attempts a claim, and reports the outcome.
    fn try_claim(&mut self, claim: Box<Claim>, attempt: Attempt) {
        let outcome = self.claim(&claim);
        self.due = now() + RETRY_PAUSE;
        let (epoch, before) = match outcome {
            Ok(Ok(granted)) => granted,
            Ok(Err(holder)) => {
                self.deadline.set(None);
                self.set_health(Health::Good);
                self.retried_claim = None;
                self.due = now() + BEAT;
                // Changes are kept only for a master, until its next claim.
                if !claim.is_master && attempt == Attempt::First {
                    self.mailbox.waiting.lock().drop_changes();
                }
                (self.report)(ReplicaEvent::Refused(holder));
                return;
            }
            Err(error) => return self.retry_later(claim, attempt, &error),
        };
        self.deadline.set(None);
        self.set_health(Health::Good);
        let unseen = match before {
            Some(before) if before.epoch.holder != claim.own && !before.is_released => {
                self.beat_at.elapsed()
            }
            _ => Duration::ZERO,
        };
        let before = before.map(|before| before.epoch);
        (self.held, self.retried_claim) = (Some(epoch), None);
        self.planned = None;
        self.due = now();
        let number = claim.number;
        let shared = self.store.state();
        let is_newest = before.is_none_or(|before| claim.is_ahead_of(before, &shared));
        let is_combined = !is_newest && (claim.is_master || attempt == Attempt::Later);
        let state = self.choose_state(*claim, shared, is_newest, is_combined);
        tracing::info!(%epoch, "this manager holds the epoch of the shared store");
        (self.report)(ReplicaEvent::Granted {
            number,
            epoch,
            state,
            is_combined,
            unseen,
        });
    }

    /// Keeps a claim that the store does not answer for a later attempt, and reports that. Until
    /// the deadline of a claim over a master that may be alive, reports nothing and repeats the
    /// claim: a store that refuses at once must not end the mastership of a master that is silent
    /// for a moment.
    fn retry_later(&mut self, claim: Box<Claim>, attempt: Attempt, error: &StoreError) {
        self.fail(error);
        let deadline = self.deadline.get().filter(|&by| by > now());
        if let (Some(by), Attempt::First, false) = (deadline, attempt, claim.insists) {
            self.due = by.min(now() + BEAT);
            self.delayed_claim = Some(claim);
            return;
        }
        self.deadline.set(None);
        self.due = now() + RETRY_PAUSE;
        if attempt == Attempt::First {
            let state = self.last_known(&claim);
            let number = claim.number;
            (self.report)(ReplicaEvent::Unreachable { number, state });
        }
        self.retried_claim = Some(Box::new(Claim {
            over: None,
            ..*claim
        }));
    }

    /// The state at the last reading of the store. `None` if this machine was the last to write it,
    /// if this manager is already master, or if nothing was read.
    fn last_known(&self, claim: &Claim) -> Option<Box<Persisted>> {
        let epoch = self.seen?.epoch;
        let state = self.store.state();
        let is_own = claim.is_ahead_of(epoch, &state);
        (!is_own && !claim.is_master && !state.is_empty()).then(|| Box::new(state))
    }

    /// Decides with which state this manager continues, and queues the changes that bring the
    /// shared store to that state. Returns `None` if this is the state of this machine; otherwise
    /// the state, which is the shared one or combines both.
    fn choose_state(
        &self,
        claim: Claim,
        shared: Persisted,
        is_newest: bool,
        is_combined: bool,
    ) -> Option<Box<Persisted>> {
        let mut waiting = self.mailbox.waiting.lock();
        let later = std::mem::take(&mut waiting.changes);
        waiting.since = None;
        if !is_newest && !is_combined {
            return Some(Box::new(shared));
        }
        let mut own = claim.state;
        own.apply(&later);
        let wanted = if is_newest {
            own
        } else {
            // This manager is already master, or the store did not answer the first attempt: the
            // registrations of this machine are valid, and registrations that only the shared store
            // has are valid as well.
            let mut both = shared.clone();
            both.apply(&ChangeSet::between(
                &Persisted::default(),
                &own,
                LOCAL_TABLES,
            ));
            both
        };
        waiting.changes = ChangeSet::between(&shared, &wanted, LOCAL_TABLES);
        if !waiting.changes.is_empty() {
            waiting.since = Some(now());
        }
        (!is_newest).then(|| Box::new(wanted))
    }

    /// Claims the epoch. The inner `Ok` has the new epoch, and the former epoch as last seen; the
    /// inner `Err` has the epoch of a holder that is alive.
    fn claim(
        &mut self,
        claim: &Claim,
    ) -> Result<Result<(Epoch, Option<SeenEpoch>), Epoch>, StoreError> {
        let seen = match self.silence_needed(claim) {
            // The transaction fails if the holder has shown a sign of life since then.
            Some(at) if at <= now() => self.seen,
            _ => self.read_epoch()?,
        };
        let mut condition = ClaimCondition::Unconditional;
        if let Some(seen) = seen
            && let Some(silence) = claim.silence(&seen)
        {
            if self.seen_at.elapsed() < silence {
                return Ok(Err(seen.epoch));
            }
            condition = ClaimCondition::HolderSilent;
        }
        match self.store.claim(
            claim.own,
            seen.map(|seen| claim.over_epoch(seen)),
            condition,
        )? {
            Some(epoch) => Ok(Ok((epoch, seen))),
            // Another manager claimed first, or the holder is alive.
            None => match self.read_epoch()? {
                Some(seen) => Ok(Err(seen.epoch)),
                None => Err(StoreError::NoEpoch),
            },
        }
    }

    /// Reads the epoch, and records the time if the epoch or its sign of life changed.
    fn read_epoch(&mut self) -> Result<Option<SeenEpoch>, StoreError> {
        let seen = self.store.observe();
        match &seen {
            Ok(seen) if *seen == self.seen => {}
            Ok(seen) => {
                let before = std::mem::replace(&mut self.seen, *seen);
                (self.seen_at, self.beat_at) = (now(), now());
                let epoch = |seen: Option<SeenEpoch>| seen.map(|seen| seen.epoch);
                if self.held.is_some() && epoch(*seen) == self.held {
                    // The epoch is this manager's own.
                    return Ok(*seen);
                }
                if epoch(*seen) != epoch(before) {
                    (self.report)(ReplicaEvent::Seen(epoch(*seen)));
                }
                let plan = |seen: Option<SeenEpoch>| seen.map(|seen| seen.plan);
                if plan(*seen) != plan(before) {
                    self.planned = plan(*seen);
                }
            }
            // A store that does not answer shows nothing about the holder's silence.
            Err(_) => self.seen_at = now(),
        }
        seen
    }

    /// Reads the epoch of another manager, attempts a waiting claim if the reading decides it, and
    /// otherwise reads the holder's writes.
    fn watch(&mut self) {
        self.due = now() + BEAT;
        let before = self.seen;
        let reading = self.read_epoch().map(drop);
        let waits = self.silence_end().is_some();
        let claim = self
            .delayed_claim
            .take_if(|_| reading.is_err() || !waits || self.seen != before);
        if let Some(claim) = claim {
            return match reading {
                // The holder is alive, or released the epoch.
                Ok(()) => self.try_claim(claim, Attempt::First),
                Err(error) => self.retry_later(claim, Attempt::First, &error),
            };
        }
        if self.seen == before && self.seen_at.elapsed() < SILENT {
            self.due = now() + SHORT_BEAT;
        }
        // Reading must not delay a waiting claim.
        let followed = reading.and_then(|()| match self.delayed_claim {
            Some(_) => Ok(()),
            None => self.follow(),
        });
        match followed {
            Ok(()) => self.set_health(Health::Good),
            Err(error) => {
                self.fail(&error);
                self.due = now() + RETRY_PAUSE;
            }
        }
    }

    /// Reads and reports the holder's writes, if a reading is due.
    fn follow(&mut self) -> Result<(), StoreError> {
        let pause = match self.planned {
            Some(_) => FOLLOW_PLAN,
            None => FOLLOW,
        };
        if self.followed_at.is_some_and(|at| at.elapsed() < pause) {
            return Ok(());
        }
        self.followed_at = Some(now());
        let changed = self.store.follow()?;
        if FOLLOWED_TABLES.iter().any(|&name| changed.contains(name)) {
            let names = FOLLOWED_TABLES.iter().copied();
            let names = names.filter(|&name| name != CABLING || changed.contains(name));
            let rows = self.store.tables(&names.collect::<Vec<&str>>());
            (self.report)(ReplicaEvent::Followed(Box::new(rows)));
        }
        if let Some(plan) = self.planned.take() {
            (self.report)(ReplicaEvent::Planned(plan));
        }
        Ok(())
    }

    /// Shows a sign of life, and checks in the same transaction that this manager still holds the
    /// epoch. No claim can come in between, except a claim that does not depend on signs of life.
    fn check(&mut self) {
        if self.held.is_none() {
            // The core already knows that this manager lost the epoch.
            return;
        }
        let event = match self.store.beat() {
            Ok(()) => ReplicaEvent::Held,
            Err(StoreError::Deposed(by)) => return self.depose(by),
            Err(error) => {
                self.fail(&error);
                ReplicaEvent::Unreachable {
                    number: 0,
                    state: None,
                }
            }
        };
        (self.report)(event);
    }

    /// Gives up the epoch and the waiting changes, because the store has the epoch `by`.
    fn depose(&mut self, by: Epoch) {
        self.store.release();
        let ended = self.held.take();
        (self.retried_claim, self.delayed_claim) = (None, None);
        self.mailbox.waiting.lock().drop_changes();
        self.due = now();
        if let Some(ended) = ended {
            (self.report)(ReplicaEvent::Deposed { ended, by });
        }
    }

    /// Writes the waiting changes; without changes, shows a sign of life every [`BEAT`].
    fn write(&mut self) {
        let (changes, since) = {
            let mut waiting = self.mailbox.waiting.lock();
            let changes = std::mem::take(&mut waiting.changes);
            waiting.in_flight = changes.len();
            (changes, waiting.since)
        };
        let is_due = now() >= self.due;
        let written = match changes.is_empty() {
            true if !is_due => return,
            true => self.store.beat(),
            // A commit may take many transactions, so that a sign of life precedes it.
            false if is_due => self.store.beat().and_then(|()| self.store.commit(&changes)),
            false => self.store.commit(&changes),
        };
        if is_due {
            self.due = now() + BEAT;
        }
        let mut waiting = self.mailbox.waiting.lock();
        waiting.in_flight = 0;
        let later = std::mem::take(&mut waiting.changes);
        match written {
            Ok(()) => {
                waiting.since = (!later.is_empty()).then(now);
                waiting.changes = later;
                drop(waiting);
                let is_behind = since.is_some_and(|since| since.elapsed() > BEHIND);
                self.set_health(if is_behind {
                    Health::Behind
                } else {
                    Health::Good
                });
            }
            Err(StoreError::Deposed(by)) => {
                drop(waiting);
                self.depose(by);
            }
            Err(error) => {
                let mut all = changes;
                all.merge(later);
                waiting.changes = all;
                waiting.since = since.or(waiting.since);
                drop(waiting);
                self.fail(&error);
                self.due = now() + RETRY_PAUSE;
            }
        }
    }

    /// Compares the settings of all managers, every [`RETRY_PAUSE`], and reports changes.
    fn compare_configurations(&mut self) {
        if now() < self.compare_at || matches!(self.health, Health::Failing(_)) {
            return;
        }
        let announcement = self.mailbox.waiting.lock().announcement.clone();
        let Some((own, checksums)) = announcement else {
            return;
        };
        self.compare_at = now() + RETRY_PAUSE;
        match self.store.announce(own, &checksums) {
            Ok(configurations) if configurations != self.configurations => {
                self.configurations.clone_from(&configurations);
                (self.report)(ReplicaEvent::Configurations(configurations));
            }
            Ok(_) => {}
            Err(error) => tracing::debug!(
                error = &error as &dyn std::error::Error,
                "the settings of other managers are not known"
            ),
        }
    }

    /// Records that the shared store cannot be used because of `error`.
    fn fail(&mut self, error: &StoreError) {
        self.set_health(Health::Failing(with_causes(error)));
    }

    /// Records the state of the shared store, and reports it if it has changed.
    fn set_health(&mut self, health: Health) {
        let is_new = match (&self.health, &health) {
            // The reasons of several endpoints alternate; that is no change of health.
            (Health::Failing(_), Health::Failing(_)) => false,
            (before, now) => before != now,
        };
        if is_new {
            self.health = health.clone();
            (self.report)(ReplicaEvent::Health(health));
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the thread runs in real time, as etcd does"
)]
fn now() -> Instant {
    Instant::now()
}

/// Attempt of a claim: the core waits for the outcome of the first attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Attempt {
    First,
    Later,
}

#[cfg(test)]
mod tests;
