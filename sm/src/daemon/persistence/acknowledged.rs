//! Journal that puts registrations on the disk before the SA acknowledges them.
//!
//! ```text
//! request ─▶ SA ─▶ rows ─▶ append ─▶ thread: write, flush ─▶ durable ─▶ the answer
//!                                            └─ many requests at once
//! store's thread: commit ─▶ covered ─▶ thread: entries that the database has are dropped
//! ```

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use parking_lot::{Condvar, Mutex};
use rsm_api::with_causes;
use rsm_sa::{Sa, Touched};
use rsm_store::journal::{self, JournalEntry, RowChange};
use rsm_store::{ChangeSet, Persisted, StoreError};

use super::{groups, guids, services, subscriptions};
use crate::daemon::clock::Clock;
use crate::daemon::findings::{DaemonFindings, DaemonPart};
use crate::daemon::sa::{AckJournal, HELD_AT_MOST, Wake};

/// Table that holds the number of the last journal entry that the database includes.
const TABLE: &str = "journal";

/// Key of the table's only row.
const COVERED: &[u8] = b"covered";

/// Largest number of bytes that wait to be written: the requests of a whole subnet's hosts in one
/// second. Above it, answers do not wait for the disk.
const MAX_WAITING: usize = 16 << 20;

/// Time between two attempts to write to a failing disk.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// Number of the last entry that the database includes.
pub(super) fn covered(persisted: &Persisted) -> u64 {
    persisted.number(TABLE, COVERED)
}

/// Records in `changes` that they include the journal up to entry `number`.
pub(super) fn cover(number: u64, changes: &mut ChangeSet) {
    changes.set_number(TABLE, COVERED, number);
}

/// Changes that bring the database up to date with `entries`.
pub(super) fn replay(persisted: &Persisted, entries: Vec<JournalEntry>) -> ChangeSet {
    let known = covered(persisted);
    let mut state = persisted.clone();
    let mut all = ChangeSet::new();
    let mut last = known;
    for entry in entries.into_iter().filter(|entry| entry.number > known) {
        last = entry.number;
        for row in &entry.rows {
            let changes = change(&state, row);
            state.apply(&changes);
            all.merge(changes);
        }
    }
    if last > known {
        cover(last, &mut all);
    }
    all
}

/// Changes to `state` that a row of the journal demands.
fn change(state: &Persisted, row: &RowChange) -> ChangeSet {
    let mut changes = ChangeSet::new();
    match row {
        RowChange::Set { table, key, value } => {
            // `RowChange` was created with valid lengths.
            if let Err(error) = changes.set_record(table, key, value) {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "cannot store a row of the journal"
                );
            }
        }
        RowChange::Clear { table, prefix } => {
            let rows = state.records.get(table).into_iter().flatten();
            for (key, _) in rows.filter(|(key, _)| key.starts_with(prefix)) {
                changes.remove_record(table, key);
            }
        }
    }
    changes
}

/// Work for the journal's thread.
struct Work {
    /// Encoded entries.
    entries: Vec<u8>,
    /// Number of the last entry.
    last: u64,
    /// Number of the last entry that the database includes.
    covered: u64,
    /// Whether the last attempt failed. An attempt without entries then shows whether the disk
    /// works again.
    is_repeated: bool,
}

impl Work {
    /// Drops the entries that the database includes, and writes the new entries. Earlier calls have
    /// already dropped entries up to number `dropped`.
    fn apply(&self, journal: &mut journal::Journal, dropped: u64) -> Result<(), StoreError> {
        if self.covered > dropped {
            journal.covered(self.covered)?;
        }
        match self.entries.is_empty() && !self.is_repeated {
            true => Ok(()),
            false => journal.append(&self.entries, self.last),
        }
    }
}

/// Journal that the SA and the store's thread share.
pub(super) struct Acknowledged {
    clock: Clock,
    state: Mutex<State>,
    /// Wakes the journal's thread.
    wakeup: Condvar,
    /// Number of the last entry for which answers no longer wait.
    durable: AtomicU64,
    /// Wakes the SA's thread, once it has set the function.
    wake: OnceLock<Wake>,
}

/// Entries that wait for the thread, and the progress of journal and database.
#[derive(Default)]
struct State {
    /// Encoded entries that wait for the thread.
    waiting: Vec<u8>,
    /// Number of the newest entry.
    last: u64,
    /// Number of the last entry that the database includes.
    covered: u64,
    /// Whether the last attempt on the disk failed. The next attempt writes all of `waiting`, so
    /// that the journal has no gap between two entries.
    is_failing: bool,
    /// Whether more than [`MAX_WAITING`] bytes waited and were dropped. The journal then accepts no
    /// entries until the database includes the dropped entries.
    is_broken: bool,
    is_closing: bool,
}

impl State {
    /// Whether entries were dropped, and the database now includes them.
    fn is_caught_up(&self) -> bool {
        self.is_broken && self.covered >= self.last
    }

    /// Drops the waiting entries if they exceed [`MAX_WAITING`].
    fn drop_excess(&mut self) {
        if self.waiting.len() > MAX_WAITING {
            self.is_broken = true;
            self.waiting = Vec::new();
        }
    }
}

impl Acknowledged {
    /// Starts writing to `journal`, with entry numbers after `last`.
    ///
    /// # Errors
    /// The operating system cannot start the thread.
    pub(super) fn start(
        journal: journal::Journal,
        last: u64,
        clock: Clock,
        findings: DaemonFindings,
    ) -> anyhow::Result<(Arc<Acknowledged>, JoinHandle<()>)> {
        let acknowledged = Arc::new(Acknowledged {
            clock,
            state: Mutex::new(State {
                last,
                ..State::default()
            }),
            wakeup: Condvar::new(),
            durable: AtomicU64::new(last),
            wake: OnceLock::new(),
        });
        let thread = Builder::new()
            .name("journal".to_owned())
            .spawn({
                let acknowledged = acknowledged.clone();
                move || acknowledged.write_all(journal, &findings)
            })
            .context("cannot start the thread of the journal")?;
        Ok((acknowledged, thread))
    }

    /// Number of the newest entry.
    pub(super) fn last(&self) -> u64 {
        self.state.lock().last
    }

    /// Records that the database includes all entries up to `number`.
    pub(super) fn cover(&self, number: u64) {
        self.state.lock().covered = number;
        self.wakeup.notify_one();
    }

    /// Ends the thread after it has written all entries.
    pub(super) fn close(&self) {
        self.state.lock().is_closing = true;
        self.wakeup.notify_one();
    }

    /// Writes all entries to `journal`, until the end.
    fn write_all(&self, mut journal: journal::Journal, findings: &DaemonFindings) {
        let mut dropped = 0;
        while let Some(work) = self.wait(dropped) {
            let began = now();
            match work.apply(&mut journal, dropped) {
                Ok(()) => {
                    dropped = dropped.max(work.covered);
                    self.record_success(&work, now() - began > HELD_AT_MOST, findings);
                }
                Err(error) => self.record_failure(work, &error, findings),
            }
            if let Some(wake) = self.wake.get() {
                wake();
            }
        }
    }

    /// Waits for work, or for the next attempt while the disk fails; `None` at the end.
    fn wait(&self, dropped: u64) -> Option<Work> {
        let mut state = self.state.lock();
        let mut is_due = false;
        loop {
            let is_new =
                !state.waiting.is_empty() || state.covered > dropped || state.is_caught_up();
            if is_due || is_new && !state.is_failing {
                return Some(Work {
                    entries: std::mem::take(&mut state.waiting),
                    last: state.last,
                    covered: state.covered,
                    is_repeated: state.is_failing,
                });
            }
            if state.is_closing {
                return None;
            }
            if state.is_failing {
                // Entries that arrive meanwhile wait as well, because each attempt may take long.
                let until = now() + RETRY_AFTER;
                while !state.is_closing && !self.wakeup.wait_until(&mut state, until).timed_out() {}
                is_due = true;
            } else {
                self.wakeup.wait(&mut state);
            }
        }
    }

    /// Records that the work is on the disk.
    fn record_success(&self, work: &Work, is_slow: bool, findings: &DaemonFindings) {
        let mut state = self.state.lock();
        let is_caught_up = state.is_caught_up();
        state.is_failing = false;
        state.is_broken &= !is_caught_up;
        let is_broken = state.is_broken;
        drop(state);
        self.durable.store(work.last, Ordering::Release);
        let is_write = !work.entries.is_empty();
        if is_broken {
            findings.fail(DaemonPart::Journal, overflowed());
        } else if is_write && is_slow {
            findings.fail(DaemonPart::Journal, slow());
        } else if is_write || is_caught_up || work.is_repeated {
            findings.clear(DaemonPart::Journal);
        }
    }

    /// Keeps the work for the next attempt. Lets answers leave nevertheless, because the fabric
    /// must work without a disk.
    fn record_failure(&self, work: Work, error: &StoreError, findings: &DaemonFindings) {
        let mut state = self.state.lock();
        state.is_failing = true;
        if state.covered < work.last {
            let later = std::mem::replace(&mut state.waiting, work.entries);
            state.waiting.extend(later);
            state.drop_excess();
        }
        self.durable.store(state.last, Ordering::Release);
        drop(state);
        findings.fail(DaemonPart::Journal, unwritten(error));
    }

    /// Present rows of a registration that a request has changed.
    fn rows(&self, touched: &Touched, sa: &Sa) -> Vec<RowChange> {
        match touched {
            Touched::Membership { mgid, member } => {
                groups::rows(&sa.multicast().view(), *mgid, *member)
            }
            Touched::Service(id) => services::row(&sa.services().view(), id, &self.clock),
            Touched::AliasGuids(port) => guids::rows(sa.guids().alias_index().aliases(), *port),
            Touched::Subscriptions(port) => subscriptions::rows(&sa.events().view(), *port),
        }
    }

    /// Appends an entry. Returns the entry number for which the answer must wait; `None` if the
    /// answer need not wait.
    pub(super) fn append_rows(&self, rows: &[RowChange]) -> Option<u64> {
        let mut state = self.state.lock();
        if state.is_closing {
            return None;
        }
        state.last += 1;
        let number = state.last;
        if state.is_broken {
            return None;
        }
        journal::encode(number, rows, &mut state.waiting);
        state.drop_excess();
        if state.is_failing || state.is_broken {
            return None;
        }
        drop(state);
        self.wakeup.notify_one();
        Some(number)
    }
}

impl AckJournal for Acknowledged {
    fn append(&self, touched: &[Touched], sa: &Sa) -> Option<u64> {
        let rows: Vec<RowChange> = touched
            .iter()
            .flat_map(|touched| self.rows(touched, sa))
            .collect();
        self.append_rows(&rows)
    }

    fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    fn on_durable(&self, wake: Wake) {
        // The worker sets the callback only once.
        let _ = self.wake.set(wake);
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long a disk takes is measured in real time"
)]
pub(super) fn now() -> Instant {
    Instant::now()
}

/// Text of the finding when more registrations wait for the disk than the bound allows.
fn overflowed() -> String {
    format!(
        "more than {} MiB of registrations of hosts waited for the disk, and wait for the store alone: until it has them they \
         are forgotten when rsm is killed, traffic goes on; give the state folder a faster disk",
        MAX_WAITING >> 20
    )
}

/// Text of the finding while the journal cannot be written.
fn unwritten(error: &StoreError) -> String {
    format!(
        "registrations of hosts cannot be written as they come ({}): until the store has them they are forgotten when \
         rsm is killed, traffic goes on; make room in the state folder, or mount it writable",
        with_causes(error)
    )
}

/// Text of the finding about a journal that cannot be read at the start.
pub(super) fn unread(error: &StoreError) -> String {
    format!(
        "the journal of registrations cannot be read ({}): hosts are asked to register again, and their \
         registrations are on the disk only with the next commit; traffic goes on; make the file readable and start rsm again",
        with_causes(error)
    )
}

/// Text of the finding when a write took longer than answers wait.
fn slow() -> String {
    format!(
        "the disk of the state folder takes longer than {} ms to write: hosts are answered before their registration is on \
         it, and it is forgotten when rsm is killed meanwhile; traffic goes on; give the state folder a faster disk",
        HELD_AT_MOST.as_millis()
    )
}

#[cfg(test)]
mod tests {
    use rsm_store::{Bytes, Namespace};

    use super::*;

    fn set(table: &str, key: &[u8], value: &[u8]) -> RowChange {
        RowChange::Set {
            table: Namespace::new(table).unwrap(),
            key: key.to_vec(),
            value: value.to_vec(),
        }
    }

    #[test]
    fn replay_skips_entries_that_the_database_has() {
        let table = Namespace::new("t").unwrap();
        let clear = |prefix: &[u8]| RowChange::Clear {
            table: table.clone(),
            prefix: prefix.to_vec(),
        };
        let entries = || {
            let rows = [
                vec![set("t", b"aa", b"1"), set("t", b"ab", b"1")],
                vec![set("t", b"b", b"2")],
                vec![clear(b"a"), set("t", b"ac", b"3")],
            ];
            let numbered = (1..).zip(rows);
            numbered
                .map(|(number, rows)| JournalEntry { number, rows })
                .collect::<Vec<_>>()
        };
        let mut persisted = Persisted::default();
        assert!(replay(&persisted, Vec::new()).is_empty());
        persisted.apply(&replay(&persisted, entries()));
        let rows: Vec<_> = persisted.records[&table].clone().into_iter().collect();
        let row = |key: &[u8], value: &[u8]| (Bytes::from(key), Bytes::from(value));
        assert_eq!(rows, [row(b"ac", b"3"), row(b"b", b"2")]);
        assert_eq!(covered(&persisted), 3);
        assert!(replay(&persisted, entries()).is_empty());

        // The database includes entry 2: a replay must not overwrite its newer rows with the first
        // two entries.
        let mut persisted = Persisted::default();
        let mut changes = ChangeSet::new();
        changes.set_record(&table, b"aa", b"9").unwrap();
        cover(2, &mut changes);
        persisted.apply(&changes);
        persisted.apply(&replay(&persisted, entries()));
        let rows: Vec<_> = persisted.records[&table].clone().into_iter().collect();
        assert_eq!(rows, [row(b"ac", b"3")]);
    }
}
