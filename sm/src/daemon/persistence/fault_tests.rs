//! Tests the journal's thread on a disk that fails for a while.

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

/// A journal whose disk refuses writes while `failing` is set, and takes long for a flush while
/// `slow` is set.
struct Failing {
    dir: tempfile::TempDir,
    failing: Arc<AtomicBool>,
    slow: Arc<AtomicBool>,
    findings: DaemonFindings,
    journal: Arc<Acknowledged>,
    thread: JoinHandle<()>,
    sa: rsm_sa::Sa,
}

impl Failing {
    fn start() -> Failing {
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
        Failing {
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

    fn set_failing(&self, failing: bool) {
        self.failing.store(failing, Ordering::Relaxed);
    }

    /// Waits until there is a finding, or until there is none.
    fn until_finding(&self, expected: bool) {
        until(|| self.findings.all().is_empty() != expected);
    }

    fn end(self) {
        self.journal.close();
        self.thread.join().unwrap();
    }
}

/// Numbers of the entries that a start would find.
fn numbers(dir: &Path) -> Vec<u64> {
    let (_, entries) = Journal::open(dir, Disk::new()).unwrap();
    entries.iter().map(|entry| entry.number).collect()
}

#[test]
fn entries_of_a_failed_disk_are_written_once_it_works_again() {
    let site = Failing::start();
    assert_eq!(site.register(), Some(1));
    until(|| site.journal.durable() == 1);
    site.set_failing(true);
    site.register();
    site.until_finding(true);
    // Answers do not wait for a disk that is known to fail.
    assert_eq!(site.register(), None);
    // The store includes entry 2 but not entry 3, which came after its commit began.
    site.journal.cover(2);
    assert_eq!(site.register(), None);
    site.set_failing(false);
    site.until_finding(false);
    assert_eq!(site.register(), Some(5));
    until(|| site.journal.durable() == 5);
    let numbers = numbers(site.dir.path());
    assert!(numbers.ends_with(&[3, 4, 5]), "{numbers:?}");
    site.end();
}

#[test]
fn finding_of_covered_entries_that_could_not_be_dropped_ends_with_the_failure() {
    let site = Failing::start();
    site.register();
    until(|| site.journal.durable() == 1);
    site.set_failing(true);
    site.journal.cover(1);
    site.until_finding(true);
    site.set_failing(false);
    site.until_finding(false);
    assert_eq!(numbers(site.dir.path()), [0_u64; 0]);
    site.end();
}

#[test]
fn slow_disk_is_a_finding_until_a_write_is_fast_again() {
    let site = Failing::start();
    site.slow.store(true, Ordering::Relaxed);
    assert_eq!(site.register(), Some(1));
    site.until_finding(true);
    assert!(site.findings.all()[0].text.contains("takes longer"));
    assert_eq!(site.journal.durable(), 1);
    // A commit of the store does not write to the journal.
    site.journal.cover(1);
    until(|| numbers(site.dir.path()).is_empty());
    assert!(!site.findings.all().is_empty());
    site.slow.store(false, Ordering::Relaxed);
    assert_eq!(site.register(), Some(2));
    site.until_finding(false);
    site.end();
}

#[test]
fn answers_wait_for_no_second_attempt_when_the_disk_begins_to_fail() {
    let site = Failing::start();
    site.set_failing(true);
    let number = site.register().unwrap();
    until(|| site.journal.durable() >= number);
    site.until_finding(true);
    assert_eq!(site.register(), None);
    site.end();
}
