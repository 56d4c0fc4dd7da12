//! Tests that findings and convergences keep their numbers from snapshot to snapshot.

use std::sync::Arc;
use std::time::Duration;

use rsm_gdr::findings::GpuFindingKind;
use rsm_ids::{Guid, PortKey, PortNum};
use rsm_mad::Time;
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_state::{Convergence, HISTORY, TablesWritten, Unwritten};

use crate::publish::findings::HeldFindings;
use crate::publish::log::ConvergenceLog;

fn finding(kind: FindingKind, node: u64, text: &str) -> Finding {
    let subject = Subject::Port(PortKey::new(Guid(node), PortNum(1)));
    Finding::new(kind, subject, Severity::Warning, text.to_owned())
}

fn unnamed(_: Subject) -> String {
    String::new()
}

#[test]
fn set_machine_clock_moves_the_time_of_a_present_finding() {
    let mut all = HeldFindings::default();
    let errors = finding(FindingKind::LinkErrors, 1, "10 times");
    all.update(std::slice::from_ref(&errors), &unnamed, 1, 100);
    all.move_times(1000);
    all.update(&[errors], &unnamed, 2, 1200);
    assert_eq!(all.held()[0].raised_unix_ms, 1100);
    all.move_times(-600);
    assert_eq!(all.held()[0].raised_unix_ms, 500);
}

#[test]
fn finding_keeps_its_number_until_it_is_cleared() {
    let mut all = HeldFindings::default();
    let errors = |text| finding(FindingKind::LinkErrors, 1, text);
    let other = finding(FindingKind::SelfCabled, 2, "a plug");
    let changes = all.update(&[errors("10 times"), other.clone()], &unnamed, 1, 100);
    assert_eq!(changes.raised.len(), 2);
    let changes = all.update(&[errors("11 times")], &unnamed, 2, 200);
    assert_eq!((changes.raised.len(), changes.cleared.len()), (0, 1));
    assert_eq!(changes.cleared[0].kind, "self-cabled");
    let held = all.held();
    assert_eq!(held.len(), 1);
    let held = &held[0];
    assert_eq!((held.id, held.generation, held.raised_unix_ms), (1, 1, 100));
    assert_eq!((held.occurrences, held.message.as_str()), (2, "11 times"));
    assert_eq!(held.node_guid, Guid(1).to_string());
    assert_eq!(held.port, Some(1));
    // A finding that comes back is raised again.
    let changes = all.update(&[errors("12 times"), other], &unnamed, 3, 300);
    assert_eq!(changes.raised[0].id, 3);
    let ids: Vec<_> = all.held().iter().map(|finding| finding.id).collect();
    assert_eq!(ids, [1, 3]);
}

#[test]
fn a_finding_about_gpu_hosts_has_the_hosts_as_its_name() {
    let mut all = HeldFindings::default();
    let absent = |text: &str| {
        let kind = FindingKind::Gpu(GpuFindingKind::HostAbsent);
        Finding::new(kind, Subject::Subnet, Severity::Error, text.to_owned())
    };
    let findings = [
        absent("host-7, host-9: none of their ports is in the fabric; no job runs there"),
        absent("3 more findings about GPU hosts; the first of the worst kind: host-8: it is gone"),
    ];
    let changes = all.update(&findings, &unnamed, 1, 100);
    let names: Vec<&str> = changes.raised.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["host-7, host-9", ""]);
}

#[test]
fn findings_of_one_kind_and_subject_have_different_numbers() {
    let mut all = HeldFindings::default();
    let [one, two] = ["one", "two"].map(|text| finding(FindingKind::SetFailed, 1, text));
    assert_eq!(
        all.update(&[one.clone(), two.clone()], &unnamed, 1, 0)
            .raised
            .len(),
        2
    );
    let changes = all.update(&[one, two], &unnamed, 2, 0);
    assert_eq!((changes.raised.len(), changes.cleared.len()), (0, 0));
    assert_eq!(all.held().len(), 2);
}

#[test]
fn of_two_findings_with_one_kind_and_subject_only_the_ended_one_is_cleared() {
    let mut all = HeldFindings::default();
    let [one, two, three] =
        ["one", "two", "three"].map(|text| finding(FindingKind::SetFailed, 1, text));
    all.update(&[one, two.clone()], &unnamed, 1, 0);
    let changes = all.update(std::slice::from_ref(&two), &unnamed, 2, 0);
    assert_eq!((changes.raised.len(), changes.cleared.len()), (0, 1));
    assert_eq!(
        (changes.cleared[0].id, &*changes.cleared[0].message),
        (1, "one")
    );
    let changes = all.update(&[three, two], &unnamed, 3, 0);
    assert_eq!((changes.raised.len(), changes.cleared.len()), (1, 0));
    let held: Vec<_> = all
        .held()
        .iter()
        .map(|one| (one.id, one.message.clone()))
        .collect();
    assert_eq!(held, [(2, "two".to_owned()), (3, "three".to_owned())]);
}

fn convergence(seconds: u64) -> Arc<Convergence> {
    Arc::new(Convergence {
        cause: format!("cause {seconds}"),
        finished: Time::ZERO + Duration::from_secs(seconds),
        discover: Duration::ZERO,
        plan: Duration::ZERO,
        push: Duration::ZERO,
        total: Duration::ZERO,
        gets: 0,
        sets: 0,
        retries: 0,
        timeouts: 0,
        lft_blocks: 0,
        mft_blocks: 0,
        switches_written: 0,
        ports_activated: 0,
        complete: true,
        tables: TablesWritten::default(),
        unwritten: Unwritten::default(),
        whole: Vec::new(),
    })
}

#[test]
fn convergences_are_numbered_once_and_the_oldest_are_dropped() {
    let mut log = ConvergenceLog::default();
    let all: Vec<_> = (0..HISTORY as u64 + 10).map(convergence).collect();
    let stamp = |time: Time| (7, time.as_nanos());
    assert_eq!(log.update(&all[..2], stamp).len(), 2);
    assert_eq!(log.update(&all[..2], stamp).len(), 0);
    let changes = log.update(&all[1..4], stamp);
    let numbers: Vec<_> = changes.iter().map(|logged| logged.shown.sequence).collect();
    assert_eq!(numbers, [3, 4]);
    assert_eq!(changes[0].shown.cause, "cause 2");
    // The history no longer contains any known entry.
    log.update(&all[10..], stamp);
    let entries = log.entries();
    assert_eq!(entries.len(), HISTORY);
    assert_eq!(entries[0].shown.sequence, 5);
    assert_eq!(entries[0].shown.cause, "cause 10");
}
