//! Tests of the history on disks that are cut off, damaged, full, or shared with other files.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rsm_api::v1;
use rsm_api::v1::event::Change;
use rsm_store::io::{Disk, FileOperation};

use super::recorder::QUEUE;
use super::scan::{Numbered, Query};
use super::{Archive, Bounds, Recorder, Segments};

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;
const BOUNDS: Bounds = Bounds {
    days: 30,
    bytes: 16 << 20,
};

fn event(at_unix_ms: u64, reason: &str) -> v1::Event {
    v1::Event {
        sequence: 1,
        at_unix_ms,
        change: Some(Change::StateChanged(v1::StateChanged {
            reason: reason.to_owned(),
            ..v1::StateChanged::default()
        })),
        ..v1::Event::default()
    }
}

fn open(dir: &Path) -> Archive {
    Archive::open(dir, Disk::new(), BOUNDS).unwrap()
}

/// Records one event and writes it.
fn record(archive: &mut Archive, at_unix_ms: u64, reason: &str) {
    archive.begin_segment_if_due(at_unix_ms);
    archive.event(&event(at_unix_ms, reason));
    archive.write(at_unix_ms).unwrap();
}

fn query(since_unix_ms: u64, until_unix_ms: u64) -> Query<'static> {
    Query {
        after: 0,
        before: 0,
        since_unix_ms,
        until_unix_ms,
        matches: &|_| true,
    }
}

/// The reasons of events, with a gap shown as `-COUNT`.
fn reasons(events: &[Numbered]) -> Vec<String> {
    let reason = |(_, event): &Numbered| match &event.change {
        Some(Change::StateChanged(to)) => to.reason.clone(),
        Some(Change::OperatorActed(act)) => format!("{} by {}", act.action, act.operator),
        Some(Change::EventsUnrecorded(gap)) => format!("-{}", gap.count),
        other => panic!("{other:?}"),
    };
    events.iter().map(reason).collect()
}

fn all(segments: &Segments) -> Vec<String> {
    reasons(&segments.events(&query(0, 0), usize::MAX))
}

fn files(dir: &Path) -> Vec<PathBuf> {
    Disk::new().list(&dir.join("history")).unwrap()
}

#[test]
fn events_survive_a_restart_and_continue_in_the_same_segment() {
    let dir = tempfile::tempdir().unwrap();
    let mut archive = open(dir.path());
    record(&mut archive, 1000, "a");
    record(&mut archive, 2000, "b");
    drop(archive);
    let mut archive = open(dir.path());
    record(&mut archive, 3000, "c");
    assert_eq!(all(&archive.segments()), ["a", "b", "c"]);
    assert_eq!(files(dir.path()).len(), 1);
    let numbers: Vec<u64> = archive
        .segments()
        .events(&query(0, 0), usize::MAX)
        .iter()
        .map(|&(number, _)| number)
        .collect();
    // Number 1 is the state at the beginning of the segment.
    assert_eq!(numbers, [2, 3, 4]);
}

#[test]
fn queries_select_events_by_time_number_and_count() {
    let dir = tempfile::tempdir().unwrap();
    let mut archive = open(dir.path());
    for at in 1..=9 {
        record(&mut archive, at * 1000, &at.to_string());
    }
    let segments = archive.segments();
    let found = segments.events(&query(3000, 6000), usize::MAX);
    assert_eq!(reasons(&found), ["3", "4", "5"]);
    assert_eq!(reasons(&segments.events(&query(3000, 0), 2)), ["3", "4"]);
    assert_eq!(reasons(&segments.newest(&query(0, 6000), 2)), ["4", "5"]);
    let after = Query {
        after: found[1].0,
        ..query(3000, 6000)
    };
    assert_eq!(reasons(&segments.events(&after, usize::MAX)), ["5"]);
}

#[test]
fn pages_back_from_the_newest_event_cover_all_segments() {
    let dir = tempfile::tempdir().unwrap();
    let mut archive = open(dir.path());
    // A segment spans at most three days, so that these times need two segments.
    for at in [DAY_MS, DAY_MS, DAY_MS + 1, 9 * DAY_MS, 9 * DAY_MS] {
        record(&mut archive, at, &at.to_string());
    }
    assert_eq!(files(dir.path()).len(), 2);
    let segments = archive.segments();
    let whole = segments.events(&query(0, 0), usize::MAX);
    let (mut pages, mut before) = (Vec::new(), 0);
    loop {
        let page = segments.newest(
            &Query {
                before,
                ..query(0, 0)
            },
            2,
        );
        let Some(&(first, _)) = page.first() else {
            break;
        };
        before = first;
        pages.extend(page.into_iter().rev());
    }
    pages.reverse();
    assert_eq!(pages, whole);
    assert_eq!(pages.len(), 5);
}

#[test]
fn clock_that_jumps_back_loses_no_event() {
    let dir = tempfile::tempdir().unwrap();
    let mut archive = open(dir.path());
    record(&mut archive, 40 * DAY_MS, "late");
    drop(archive);
    let mut archive = open(dir.path());
    record(&mut archive, 10 * DAY_MS, "back");
    record(&mut archive, 41 * DAY_MS, "on");
    let segments = archive.segments();
    assert_eq!(all(&segments), ["late", "back", "on"]);
    let late = query(39 * DAY_MS, 0);
    assert_eq!(reasons(&segments.events(&late, 9)), ["late", "on"]);
}

#[test]
fn truncated_file_keeps_the_events_before_the_cut_and_accepts_new_events() {
    let dir = tempfile::tempdir().unwrap();
    let mut archive = open(dir.path());
    record(&mut archive, 1000, "a");
    let one = std::fs::read(&files(dir.path())[0]).unwrap().len();
    record(&mut archive, 2000, "b");
    drop(archive);
    let path = files(dir.path()).remove(0);
    let whole = std::fs::read(&path).unwrap();
    for cut in one..whole.len() {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let mut archive = open(dir.path());
        record(&mut archive, 3000, "c");
        assert_eq!(all(&archive.segments()), ["a", "c"], "cut at {cut}");
    }
    for cut in 0..one {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let mut archive = open(dir.path());
        record(&mut archive, 3000, "c");
        assert_eq!(all(&archive.segments()), ["c"], "cut at {cut}");
        for file in files(dir.path()) {
            std::fs::remove_file(file).unwrap();
        }
    }
}

#[test]
fn changed_byte_costs_only_its_event_and_is_reported_as_a_gap() {
    let dir = tempfile::tempdir().unwrap();
    let mut archive = open(dir.path());
    let mut ends = Vec::new();
    for reason in ["a", "b", "c"] {
        record(&mut archive, 1000, reason);
        ends.push(std::fs::read(&files(dir.path())[0]).unwrap().len());
    }
    drop(archive);
    let path = files(dir.path()).remove(0);
    let whole = std::fs::read(&path).unwrap();
    let reader = |dir: &Path| open(dir).segments();
    for at in 0..ends[1] {
        let mut changed = whole.clone();
        changed[at] ^= 0x20;
        std::fs::write(&path, &changed).unwrap();
        let found = all(&reader(dir.path()));
        // The state at the beginning and the first event are written together.
        let expected: &[&[&str]] = match at < ends[0] {
            true => &[&["-1", "a", "b", "c"], &["-1", "b", "c"]],
            false => &[&["a", "-1", "c"]],
        };
        assert!(expected.iter().any(|one| *one == found), "{at}: {found:?}");
    }
}

#[test]
fn foreign_files_are_kept_and_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("history");
    std::fs::create_dir_all(folder.join("segment-0000000000000009.log")).unwrap();
    std::fs::write(folder.join("notes.txt"), b"mine").unwrap();
    std::fs::write(folder.join("segment-0000000000000001.log"), b"not ours").unwrap();
    let mut archive = open(dir.path());
    record(&mut archive, 1000, "a");
    assert_eq!(all(&archive.segments()), ["a"]);
    assert_eq!(std::fs::read(folder.join("notes.txt")).unwrap(), b"mine");
    assert!(folder.join("segment-0000000000000009.log").is_dir());
    let foreign = folder.join("segment-0000000000000001.log");
    assert_eq!(std::fs::read(foreign).unwrap(), b"not ours");
}

#[test]
fn file_in_place_of_the_history_folder_is_an_error_with_its_path() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("history"), b"").unwrap();
    let error = Archive::open(dir.path(), Disk::new(), BOUNDS).unwrap_err();
    assert!(error.to_string().contains("history"), "{error}");
}

#[test]
fn oldest_segments_are_removed_to_keep_all_bytes_within_the_bound() {
    let dir = tempfile::tempdir().unwrap();
    let bounds = Bounds {
        days: 30,
        bytes: 64 << 10,
    };
    let mut archive = Archive::open(dir.path(), Disk::new(), bounds).unwrap();
    let long = "x".repeat(1000);
    for at in 1..500 {
        record(&mut archive, at, &format!("{at} {long}"));
        let bytes: u64 = files(dir.path())
            .iter()
            .map(|path| path.metadata().unwrap().len())
            .sum();
        assert!(bytes <= bounds.bytes, "{bytes}");
        assert_eq!(bytes, archive.segments().bytes());
    }
    let kept = all(&archive.segments());
    assert!(kept.len() > 50 && kept.len() < 64, "{}", kept.len());
    assert!(kept.last().unwrap().starts_with("499 "));
    // A restart finds the same events.
    drop(archive);
    let archive = Archive::open(dir.path(), Disk::new(), bounds).unwrap();
    assert_eq!(all(&archive.segments()), kept);
}

#[test]
fn old_segments_are_removed_only_while_the_clock_is_trusted() {
    let dir = tempfile::tempdir().unwrap();
    let mut archive = open(dir.path());
    archive.trust_clock(true);
    for day in 1..=40 {
        record(&mut archive, day * DAY_MS, &day.to_string());
    }
    let kept = all(&archive.segments());
    assert_eq!(kept.last().unwrap(), "40");
    assert!(kept.len() >= 31 && kept.len() <= 34, "{kept:?}");
    drop(archive);
    // The clock is a year ahead at boot, and set after some hours.
    let mut archive = open(dir.path());
    for hour in 0..3 {
        record(&mut archive, 400 * DAY_MS + hour * HOUR_MS, "ahead");
    }
    archive.trust_clock(false);
    record(&mut archive, 400 * DAY_MS + 3 * HOUR_MS, "ahead");
    assert_eq!(all(&archive.segments()).len(), kept.len() + 4);
    archive.trust_clock(true);
    record(&mut archive, 40 * DAY_MS, "set");
    let all = all(&archive.segments());
    assert_eq!(all[..kept.len()], kept);
    assert_eq!(all.last().unwrap(), "set");
}

/// A disk that is full while the flag is set.
fn full_disk_switch() -> (Disk, Arc<AtomicBool>) {
    let full = Arc::new(AtomicBool::new(false));
    let flag = full.clone();
    let disk = Disk::with_fault(Arc::new(move |operation, _| {
        let writes = matches!(operation, FileOperation::Append | FileOperation::Sync);
        match writes && flag.load(Ordering::Relaxed) {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => Ok(()),
        }
    }));
    (disk, full)
}

#[test]
fn full_disk_delays_events_and_loses_none() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, full) = full_disk_switch();
    full.store(true, Ordering::Relaxed);
    let mut archive = Archive::open(dir.path(), disk, BOUNDS).unwrap();
    archive.begin_segment_if_due(1000);
    archive.event(&event(1000, "a"));
    for _ in 0..3 {
        let error = archive.write(1000).unwrap_err();
        assert!(error.to_string().contains("segment-"), "{error}");
    }
    full.store(false, Ordering::Relaxed);
    archive.write(1000).unwrap();
    full.store(true, Ordering::Relaxed);
    archive.begin_segment_if_due(2000);
    archive.event(&event(2000, "b"));
    archive.write(2000).unwrap_err();
    assert!(!archive.is_written());
    assert_eq!(all(&archive.segments()), ["a"]);
    full.store(false, Ordering::Relaxed);
    archive.write(2000).unwrap();
    record(&mut archive, 3000, "c");
    assert_eq!(all(&archive.segments()), ["a", "b", "c"]);
}

#[test]
fn write_to_a_full_device_is_an_error() {
    // Every write to this file fails as on a full disk.
    if !Path::new("/dev/full").exists() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut archive = open(dir.path());
    record(&mut archive, 1000, "a");
    let path = files(dir.path()).remove(0);
    drop(archive);
    let kept = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let mut archive = open(dir.path());
    let first = dir.path().join("history/segment-0000000000000001.log");
    std::os::unix::fs::symlink("/dev/full", &first).unwrap();
    archive.begin_segment_if_due(2000);
    archive.event(&event(2000, "b"));
    assert!(archive.write(2000).is_err());
    drop(archive);
    std::fs::remove_file(&first).unwrap();
    std::fs::write(&path, &kept).unwrap();
    assert_eq!(all(&open(dir.path()).segments()), ["a"]);
}

#[test]
fn removed_history_folder_is_created_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut archive = open(dir.path());
    record(&mut archive, 1000, "a");
    std::fs::remove_dir_all(dir.path().join("history")).unwrap();
    record(&mut archive, 2000, "b");
    assert_eq!(all(&archive.segments()), ["b"]);
    assert_eq!(all(&open(dir.path()).segments()), ["b"]);
}

#[test]
fn burst_does_not_wait_for_the_disk_and_lost_events_are_counted() {
    const BURST: usize = 100_000;
    let recorder = Recorder::default();
    // No thread takes entries, as if the disk hung.
    for part in 0..BURST / 1000 {
        let events = (0..1000).map(|at| Arc::new(event(at, &part.to_string())));
        recorder.put(events.collect(), None);
    }
    let batch = recorder.take(None).unwrap();
    assert_eq!(batch.events.len(), QUEUE);
    assert_eq!(batch.lost as usize, BURST - QUEUE);
    assert!(!recorder.settle(Duration::ZERO), "nothing is written yet");
    recorder.wrote();
    assert!(recorder.settle(Duration::ZERO));
    recorder.close();
    assert!(recorder.take(None).is_none());
}

fn operator_action(at_unix_ms: u64, operator: &str) -> v1::Event {
    v1::Event {
        at_unix_ms,
        change: Some(Change::OperatorActed(v1::OperatorActed {
            action: "drain".to_owned(),
            operator: operator.to_owned(),
            ..v1::OperatorActed::default()
        })),
        ..v1::Event::default()
    }
}

/// Bounds of 1 MiB: a segment has about 64 KiB, and operator actions have 32 KiB.
const SMALL: Bounds = Bounds {
    days: 30,
    bytes: 1 << 20,
};

/// Records about `bytes` bytes of events of a flapping link.
fn record_flaps(archive: &mut Archive, at_unix_ms: u64, bytes: usize) {
    let reason = "x".repeat(1000);
    for _ in 0..bytes / (20 * reason.len()) {
        archive.begin_segment_if_due(at_unix_ms);
        for _ in 0..20 {
            archive.event(&event(at_unix_ms, &reason));
        }
        archive.write(at_unix_ms).unwrap();
    }
}

fn operator_actions(segments: &Segments) -> Vec<String> {
    let acts = Query {
        matches: &rsm_api::is_operator_action,
        ..query(0, 0)
    };
    reasons(&segments.events(&acts, usize::MAX))
}

#[test]
fn operator_actions_survive_the_events_of_a_flapping_link() {
    let dir = tempfile::tempdir().unwrap();
    let mut archive = Archive::open(dir.path(), Disk::new(), SMALL).unwrap();
    for (at, operator) in [(1000, "ada"), (2000, "bob")] {
        archive.begin_segment_if_due(at);
        archive.event(&operator_action(at, operator));
        archive.write(at).unwrap();
        record_flaps(&mut archive, at + 500, 1 << 21);
    }
    let expected = ["drain by ada", "drain by bob"];
    assert_eq!(operator_actions(&archive.segments()), expected);
    assert!(archive.segments().bytes() <= SMALL.bytes + (64 << 10));
    let newest = archive.segments().newest(&query(0, 0), usize::MAX);
    assert_eq!(reasons(&newest)[..2], expected, "before all other events");
    let since = archive.segments().events(&query(1500, 2500), 1);
    assert_eq!(reasons(&since), ["drain by bob"]);
    // Actions have the numbers of their records, in order with all other events.
    let numbers: Vec<u64> = newest.iter().map(|&(number, _)| number).collect();
    assert!(numbers.is_sorted());
    drop(archive);
    let archive = Archive::open(dir.path(), Disk::new(), SMALL).unwrap();
    assert_eq!(
        operator_actions(&archive.segments()),
        expected,
        "after a restart"
    );
}

#[test]
fn operator_actions_have_their_own_bounds_of_bytes_and_age() {
    let dir = tempfile::tempdir().unwrap();
    let mut archive = Archive::open(dir.path(), Disk::new(), SMALL).unwrap();
    // The test records about 600 KiB of actions; of the actions in removed segments, the latest 32
    // KiB stay.
    for batch in 0..300u64 {
        archive.begin_segment_if_due(batch);
        for number in batch * 20..(batch + 1) * 20 {
            archive.event(&operator_action(batch, &format!("{number:060}")));
        }
        archive.write(batch).unwrap();
    }
    record_flaps(&mut archive, 6000, 3 << 20);
    let kept = operator_actions(&archive.segments());
    assert!((200..400).contains(&kept.len()), "{}", kept.len());
    assert!(kept.last().unwrap().ends_with("5999"), "{kept:?}");
    let path = dir.path().join("history/acts.log");
    assert!(std::fs::metadata(&path).unwrap().len() <= 32 << 10);
    archive.trust_clock(true);
    record_flaps(&mut archive, 31 * DAY_MS, 3 << 20);
    assert_eq!(
        operator_actions(&archive.segments()),
        [""; 0],
        "older than the days"
    );
}

#[test]
fn damaged_action_costs_only_itself_and_numbers_continue_after_the_last_action() {
    let dir = tempfile::tempdir().unwrap();
    let mut archive = Archive::open(dir.path(), Disk::new(), SMALL).unwrap();
    for (at, operator) in [(1000, "ada"), (1001, "bob"), (1002, "eve")] {
        archive.begin_segment_if_due(at);
        archive.event(&operator_action(at, operator));
        archive.write(at).unwrap();
    }
    record_flaps(&mut archive, 2000, 2 << 20);
    let last = archive.segments().newest(&query(0, 0), 1)[0].0;
    drop(archive);
    let path = dir.path().join("history/acts.log");
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    bytes.extend(b"half a rec");
    std::fs::write(&path, &bytes).unwrap();
    let archive = Archive::open(dir.path(), Disk::new(), SMALL).unwrap();
    assert_eq!(
        operator_actions(&archive.segments()),
        ["drain by ada", "drain by eve"]
    );
    drop(archive);
    for file in files(dir.path()).into_iter().filter(|file| *file != path) {
        std::fs::remove_file(file).unwrap();
    }
    let mut archive = Archive::open(dir.path(), Disk::new(), SMALL).unwrap();
    record(&mut archive, 3000, "on");
    let all = archive.segments().events(&query(0, 0), usize::MAX);
    assert_eq!(reasons(&all), ["drain by ada", "drain by eve", "on"]);
    let numbers: Vec<u64> = all.iter().map(|&(number, _)| number).collect();
    assert!(numbers.is_sorted() && numbers[2] < last, "{numbers:?}");
}

#[test]
fn full_queue_still_accepts_operator_actions() {
    let recorder = Recorder::default();
    let events = (0..QUEUE as u64 + 10).map(|at| Arc::new(event(at, "flap")));
    recorder.put(events.collect(), None);
    recorder.put(vec![Arc::new(operator_action(1, "ada"))], None);
    let batch = recorder.take(None).unwrap();
    assert_eq!((batch.events.len(), batch.lost), (QUEUE + 1, 10));
}
