//! Tests of the journal's thread on a disk that fails, or is slow, for a while.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rsm_ids::Guid;
use rsm_store::io::{Disk, FileOperation};
use rsm_store::journal::Journal;

use super::acknowledged::Acknowledged;
use super::tests::until;
use crate::daemon::clock::Clock;
use crate::daemon::findings::DaemonFindings;
use crate::daemon::sa::{AckJournal as _, HELD_AT_MOST};

/// A journal whose disk refuses writes while `failing` is set, and whose flushes take long while
/// `slow` is set.
struct FaultyJournal {
    dir: tempfile::TempDir,
    failing: Arc<AtomicBool>,
    slow: Arc<AtomicBool>,
    findings: DaemonFindings,
    journal: Arc<Acknowledged>,
    thread: JoinHandle<()>,
    sa: rsm_sa::Sa,
}

impl FaultyJournal {
    /// Starts a journal in a new folder, without faults.
    fn start() -> FaultyJournal {
        let dir = tempfile::tempdir().unwrap();
        let failing = Arc::new(AtomicBool::new(false));
        let slow = Arc::new(AtomicBool::new(false));
        let disk = Disk::with_fault({
            let (failing, slow) = (failing.clone(), slow.clone());
            Arc::new(move |operation, _| match operation {
                FileOperation::Write | FileOperation::Sync if failing.load(Ordering::Relaxed) => {
                    Err(ErrorKind::ReadOnlyFilesystem.into())
                }
                FileOperation::Sync if slow.load(Ordering::Relaxed) => {
                    std::thread::sleep(2 * HELD_AT_MOST);
                    Ok(())
                }
                _ => Ok(()),
            })
        });
        let (journal, _) = Journal::open(dir.path(), disk).unwrap();
        let findings = DaemonFindings::new();
        let started = Acknowledged::start(journal, 0, Clock::start(), findings.clone());
        let (journal, thread) = started.unwrap();
        let sa = rsm_sa::Sa::new(rsm_sa::SaConfig {
            sm_key: 0,
            ..rsm_sa::SaConfig::default()
        });
        FaultyJournal {
            dir,
            failing,
            slow,
            findings,
            journal,
            thread,
            sa,
        }
    }

    /// Appends a registration, and returns the entry number for which its answer waits.
    fn register(&self) -> Option<u64> {
        let touched = rsm_sa::Touched::AliasGuids(Guid(9));
        self.journal.append(&[touched], &self.sa)
    }

    /// Makes the disk fail, or work again.
    fn set_failing(&self, failing: bool) {
        self.failing.store(failing, Ordering::Relaxed);
    }

    /// Waits until there is a finding or, if `is_expected` is false, until there is no finding.
    fn until_finding(&self, is_expected: bool) {
        until(|| self.findings.all().is_empty() != is_expected);
    }

    /// Closes the journal, and waits for the end of its thread.
    fn end(self) {
        self.journal.close();
        self.thread.join().unwrap();
    }
}

/// The numbers of the entries that the journal in `dir` has for a restart.
fn stored_numbers(dir: &Path) -> Vec<u64> {
    let (_, entries) = Journal::open(dir, Disk::new()).unwrap();
    entries.iter().map(|entry| entry.number).collect()
}

#[test]
fn entries_appended_while_the_disk_fails_are_written_once_it_works_again() {
    let faulty = FaultyJournal::start();
    assert_eq!(faulty.register(), Some(1));
    until(|| faulty.journal.durable() == 1);
    faulty.set_failing(true);
    faulty.register();
    faulty.until_finding(true);
    // Answers do not wait for a disk that is known to fail.
    assert_eq!(faulty.register(), None);
    // The store includes entry 2 but not entry 3, which came after its commit began.
    faulty.journal.cover(2);
    assert_eq!(faulty.register(), None);
    faulty.set_failing(false);
    faulty.until_finding(false);
    assert_eq!(faulty.register(), Some(5));
    until(|| faulty.journal.durable() == 5);
    let numbers = stored_numbers(faulty.dir.path());
    assert!(numbers.ends_with(&[3, 4, 5]), "{numbers:?}");
    faulty.end();
}

#[test]
fn when_covered_entries_cannot_be_dropped_the_finding_ends_with_the_failure() {
    let faulty = FaultyJournal::start();
    faulty.register();
    until(|| faulty.journal.durable() == 1);
    faulty.set_failing(true);
    faulty.journal.cover(1);
    faulty.until_finding(true);
    faulty.set_failing(false);
    faulty.until_finding(false);
    assert_eq!(stored_numbers(faulty.dir.path()), [0_u64; 0]);
    faulty.end();
}

#[test]
fn slow_disk_is_a_finding_until_a_write_is_fast_again() {
    let faulty = FaultyJournal::start();
    faulty.slow.store(true, Ordering::Relaxed);
    assert_eq!(faulty.register(), Some(1));
    faulty.until_finding(true);
    assert!(faulty.findings.all()[0].text.contains("takes longer"));
    assert_eq!(faulty.journal.durable(), 1);
    // A commit of the store does not write to the journal.
    faulty.journal.cover(1);
    until(|| stored_numbers(faulty.dir.path()).is_empty());
    assert!(!faulty.findings.all().is_empty());
    faulty.slow.store(false, Ordering::Relaxed);
    assert_eq!(faulty.register(), Some(2));
    faulty.until_finding(false);
    faulty.end();
}

#[test]
fn when_the_disk_begins_to_fail_answers_wait_only_for_the_first_attempt() {
    let faulty = FaultyJournal::start();
    faulty.set_failing(true);
    let number = faulty.register().unwrap();
    until(|| faulty.journal.durable() >= number);
    faulty.until_finding(true);
    assert_eq!(faulty.register(), None);
    faulty.end();
}
