//! The journal: registrations are on the disk before the SA acknowledges them.
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
use std::time::Instant;

use anyhow::Context as _;
use parking_lot::{Condvar, Mutex};

use super::{groups, guids, services, subscriptions};
use crate::daemon::clock::Clock;
use crate::daemon::findings::{DaemonFindings, Part};
use crate::daemon::sa::{AckJournal, HELD_AT_MOST, Wake};
use crate::sa::{Sa, Touched};
use crate::store::journal::{self, JournalEntry, RowChange};
use crate::store::{ChangeSet, Namespace, Persisted, StoreError};

/// The table with the number of the last entry that the database has.
const TABLE: &str = "journal";

/// Its only row: the number of the last entry that the database has, big-endian.
const COVERED: &[u8] = b"covered";

/// Bytes that may wait to be written: the requests of a whole subnet's hosts in one second. Beyond
/// it answers do not wait.
const MAX_WAITING: usize = 16 << 20;

/// The number of the last entry that the database has.
pub(super) fn covered(persisted: &Persisted) -> u64 {
    let namespace = Namespace::new(TABLE).ok();
    let table = namespace.and_then(|namespace| persisted.records.get(&namespace));
    let value = table.and_then(|table| table.get(COVERED));
    let bytes = value.and_then(|value| value[..].try_into().ok());
    bytes.map_or(0, u64::from_be_bytes)
}

/// Adds to `changes` that they include the journal up to entry `number`.
pub(super) fn cover(number: u64, changes: &mut ChangeSet) {
    if let Ok(namespace) = Namespace::new(TABLE)
        && let Err(error) = changes.set_record(&namespace, COVERED, &number.to_be_bytes())
    {
        tracing::error!(error = &error as &dyn std::error::Error, "cannot remember");
    }
}

/// The changes that bring the database up to date with `entries`.
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

fn change(state: &Persisted, row: &RowChange) -> ChangeSet {
    let mut changes = ChangeSet::new();
    match row {
        RowChange::Set { table, key, value } => {
            // `RowChange` was made with valid lengths.
            if let Err(error) = changes.set_record(table, key, value) {
                tracing::error!(error = &error as &dyn std::error::Error, "cannot remember");
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

/// The journal, shared by the SA and the thread of the store.
pub(super) struct Acknowledged {
    clock: Clock,
    state: Mutex<State>,
    bell: Condvar,
    /// The number of the last entry that answers no longer wait for.
    durable: AtomicU64,
    wake: OnceLock<Wake>,
}

#[derive(Default)]
struct State {
    /// Encoded entries that wait for the thread.
    waiting: Vec<u8>,
    /// The number of the newest entry.
    last: u64,
    /// The number of the last entry that the database has.
    covered: u64,
    /// The journal lacks entries that failed: it takes no others until the database has these.
    broken: bool,
    closing: bool,
}

impl State {
    /// Whether the database has the entries that the journal could not take.
    fn is_mended(&self) -> bool {
        self.broken && self.covered >= self.last
    }
}

impl Acknowledged {
    /// Starts to write to `journal`, with numbers after `last`.
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
            bell: Condvar::new(),
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

    /// The number of the newest entry.
    pub(super) fn last(&self) -> u64 {
        self.state.lock().last
    }

    /// Notes that the database has everything up to this entry.
    pub(super) fn cover(&self, number: u64) {
        self.state.lock().covered = number;
        self.bell.notify_one();
    }

    /// Ends the thread after it has written all entries.
    pub(super) fn close(&self) {
        self.state.lock().closing = true;
        self.bell.notify_one();
    }

    fn write_all(&self, mut journal: journal::Journal, findings: &DaemonFindings) {
        let mut dropped = 0;
        while let Some((entries, last)) = self.wait(dropped) {
            if !entries.is_empty() {
                self.write(&mut journal, &entries, last, findings);
            }
            let covered = self.state.lock().covered;
            if covered > dropped {
                dropped = covered;
                if let Err(error) = journal.covered(covered) {
                    findings.fail(Part::Journal, unwritten(&error));
                }
            }
            let mut state = self.state.lock();
            if state.is_mended() {
                state.broken = false;
                drop(state);
                findings.clear(Part::Journal);
            }
        }
    }

    /// Waits for work. Returns the entries to write and the number of the last one; `None` at the
    /// end.
    fn wait(&self, dropped: u64) -> Option<(Vec<u8>, u64)> {
        let mut state = self.state.lock();
        loop {
            let due = !state.waiting.is_empty() || state.covered > dropped || state.is_mended();
            if due {
                return Some((std::mem::take(&mut state.waiting), state.last));
            }
            if state.closing {
                return None;
            }
            self.bell.wait(&mut state);
        }
    }

    fn write(
        &self,
        journal: &mut journal::Journal,
        entries: &[u8],
        last: u64,
        findings: &DaemonFindings,
    ) {
        let began = now();
        match journal.append(entries, last) {
            Ok(()) if now() - began > HELD_AT_MOST => findings.fail(Part::Journal, slow()),
            Ok(()) => findings.clear(Part::Journal),
            Err(error) => {
                let mut state = self.state.lock();
                state.broken = true;
                state.waiting.clear();
                drop(state);
                findings.fail(Part::Journal, unwritten(&error));
            }
        }
        // Even after a failed write answers go out: the fabric works without a disk.
        self.durable.store(last, Ordering::Release);
        if let Some(wake) = self.wake.get() {
            wake();
        }
    }

    /// The present rows of a registration that a request has changed.
    fn rows(&self, touched: &Touched, sa: &Sa) -> Vec<RowChange> {
        match touched {
            Touched::Membership { mgid, member } => {
                groups::rows(&sa.multicast().view(), *mgid, *member)
            }
            Touched::Service(id) => services::row(&sa.services().view(), id, &self.clock),
            Touched::AliasGuids(port) => guids::rows(sa.guids().names().aliases(), *port),
            Touched::Subscriptions(port) => subscriptions::rows(&sa.events().view(), *port),
        }
    }
}

impl AckJournal for Acknowledged {
    fn append(&self, touched: &[Touched], sa: &Sa) -> Option<u64> {
        let rows: Vec<RowChange> = touched
            .iter()
            .flat_map(|touched| self.rows(touched, sa))
            .collect();
        let mut state = self.state.lock();
        if state.broken || state.closing {
            return None;
        }
        if state.waiting.len() > MAX_WAITING {
            state.broken = true;
            return None;
        }
        state.last += 1;
        let number = state.last;
        journal::encode(number, &rows, &mut state.waiting);
        drop(state);
        self.bell.notify_one();
        Some(number)
    }

    fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    fn on_durable(&self, wake: Wake) {
        // The worker sets it once.
        let _ = self.wake.set(wake);
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long a disk takes is measured in real time"
)]
fn now() -> Instant {
    Instant::now()
}

fn unwritten(error: &StoreError) -> String {
    let cause = std::error::Error::source(error);
    let error = cause.map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"));
    format!(
        "registrations of hosts cannot be written as they come ({error}): until the store has them they are forgotten when \
         rsm is killed, traffic goes on; make room in the state folder, or mount it writable"
    )
}

/// The finding's text about a journal that cannot be read at the start.
pub(super) fn unread(error: &StoreError) -> String {
    let cause = std::error::Error::source(error).map(ToString::to_string);
    format!(
        "the journal of registrations cannot be read ({error}: {}): hosts are asked to register again, and their \
         registrations are on the disk only with the next commit; traffic goes on; make the file readable and start rsm again",
        cause.unwrap_or_default()
    )
}

fn slow() -> String {
    format!(
        "the disk of the state folder takes longer than {} ms to write: hosts are answered before their registration is on \
         it, and it is forgotten when rsm is killed meanwhile; traffic goes on; give the state folder a faster disk",
        HELD_AT_MOST.as_millis()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Bytes;

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

        // The database is at entry 2: replay must not undo its newer rows with the first two
        // entries.
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
