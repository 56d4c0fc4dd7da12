use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;
use rsm_ids::{Guid, PortKey, PortNum};
use rsm_store::io::{Disk, FileOperation};

use crate::*;

const NOON: u64 = 1_800_000_000_000;
const SECOND: u64 = 1000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

const BOUNDS: Bounds = Bounds {
    days: 30,
    bytes: 1 << 30,
};

const ALWAYS: Span = Span {
    since_unix_ms: 0,
    until_unix_ms: u64::MAX,
};

fn port(node: u64, number: u8) -> PortKey {
    PortKey::new(Guid(node), PortNum(number))
}

/// Counts with these values; other counters are zero.
fn counts(of: &[(Quantity, u64)]) -> Counts {
    let mut counts = Counts::default();
    of.iter()
        .for_each(|&(quantity, count)| counts[quantity] = count);
    counts
}

/// A reading of a switch port at `at`, after a reading at `since`.
fn reading(port: PortKey, since: u64, at: u64, of: &[(Quantity, u64)]) -> Reading {
    Reading {
        port,
        is_switch: true,
        since_unix_ms: Some(since),
        at_unix_ms: at,
        counts: counts(of),
    }
}

fn open(dir: &Path) -> Past {
    Past::open(dir, Disk::new(), BOUNDS).unwrap()
}

/// The files of the past in the state directory `dir`.
fn files(dir: &Path) -> Vec<PathBuf> {
    Disk::new().list(&dir.join("past")).unwrap()
}

fn total(series: &Series, quantity: Quantity) -> u64 {
    series
        .points
        .iter()
        .map(|point| point.counts[quantity])
        .sum()
}

/// Adds readings of port 1 of node 7 every 30 seconds for `minutes`, each with one symbol error and
/// 640 words.
fn add_steady_readings(past: &mut Past, minutes: u64) {
    for at in (NOON..NOON + minutes * MINUTE).step_by(30_000) {
        let of = [(Quantity::SymbolError, 1), (Quantity::XmitData, 640)];
        past.add(&mut [reading(port(7, 1), at - 30_000, at, &of)])
            .unwrap();
    }
}

/// Random readings of a few ports, by ascending time.
fn readings() -> impl Strategy<Value = Vec<Reading>> {
    let one = (
        any::<bool>(),
        1u64..200_000,
        0u8..5,
        0u64..64,
        0u64..1 << 50,
        0u64..1 << 40,
    );
    prop::collection::vec(one, 1..60).prop_map(|all| {
        let mut now = NOON;
        let readings = all
            .into_iter()
            .map(|(known, after, number, few, many, errors)| {
                let since = now;
                now += after;
                Reading {
                    port: port(u64::from(number) / 2, number),
                    is_switch: number < 4,
                    since_unix_ms: known.then_some(since),
                    at_unix_ms: now,
                    counts: counts(&[
                        (Quantity::XmitData, few),
                        (Quantity::RcvData, many),
                        (Quantity::RcvPkts, many / 1000),
                        (Quantity::SymbolError, errors % 3),
                        (Quantity::FecUncorrectableBlocks, errors),
                    ]),
                }
            });
        readings.collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn sums_of_steps_equal_sums_of_readings_for_any_step(all in readings(), batch in 1usize..20) {
        let dir = tempfile::tempdir().unwrap();
        let mut past = open(dir.path());
        for batch in all.clone().chunks_mut(batch) {
            past.add(batch).unwrap();
        }
        past.flush().unwrap();
        let reader = past.reader();
        let keys: BTreeSet<PortKey> = all.iter().map(|one| one.port).collect();
        let moved = reader.moved(Some(&keys), ALWAYS, Wanted::All).unwrap();
        for &key in &keys {
            let of_port = || all.iter().filter(move |one| one.port == key);
            let sum = |quantity| of_port().map(|one| one.counts[quantity]).sum::<u64>();
            let known = |quantity| {
                let known = of_port().filter(|one| one.since_unix_ms.is_some());
                known.map(|one| one.counts[quantity]).sum::<u64>()
            };
            let moved = moved.iter().find(|one| one.port == key);
            for step in [10 * SECOND, MINUTE, 7 * MINUTE, 15 * MINUTE, HOUR] {
                let series = reader.series(Part::Port(key), ALWAYS, Some(step)).unwrap();
                prop_assert!(series.points.iter().all(|one| one.start_unix_ms % series.step_ms == 0));
                for quantity in [Quantity::SymbolError, Quantity::FecUncorrectableBlocks] {
                    prop_assert_eq!(total(&series, quantity), sum(quantity));
                    prop_assert_eq!(moved.map_or(0, |one| one.counts[quantity]), sum(quantity));
                }
                for quantity in [Quantity::XmitData, Quantity::RcvData, Quantity::RcvPkts] {
                    let (rounded, exact) = (total(&series, quantity), known(quantity));
                    prop_assert!(rounded.abs_diff(exact) <= exact / 64 + 1, "{} {}", rounded, exact);
                }
            }
        }
    }

    #[test]
    fn reopened_past_has_the_same_sums_and_bytes(all in readings()) {
        let dir = tempfile::tempdir().unwrap();
        let mut past = open(dir.path());
        past.add(&mut all.clone()).unwrap();
        past.flush().unwrap();
        let before = past.reader().moved(None, ALWAYS, Wanted::All).unwrap();
        let bytes = past.reader().bytes();
        drop(past);
        let reader = open(dir.path()).reader();
        prop_assert_eq!(reader.moved(None, ALWAYS, Wanted::All).unwrap(), before);
        prop_assert_eq!(reader.bytes(), bytes);
    }

    #[test]
    fn damaged_byte_loses_at_most_one_step_of_a_file(
        all in readings(), at: prop::sample::Index, bit in 0u8..8, cut: bool
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut past = open(dir.path());
        // All readings share one port table. Damage of that table loses no step, only its counts.
        past.add(&mut all.iter().map(|one| Reading { port: port(1, 1), ..*one }).collect::<Vec<_>>())
            .unwrap();
        past.flush().unwrap();
        drop(past);
        let file = files(dir.path()).into_iter().find(|path| path.to_string_lossy().contains("/10s-"));
        let file = file.unwrap();
        let steps = |dir: &Path| {
            let reader = open(dir).reader();
            let part = Part::Port(port(1, 1));
            let series = reader.series(part, ALWAYS, Some(10 * SECOND)).unwrap();
            let from_seconds = reader.segments(Tier::Seconds);
            (from_seconds.iter().map(|one| one.steps).sum::<usize>(), series)
        };
        let (whole, _) = steps(dir.path());
        let mut bytes = std::fs::read(&file).unwrap();
        let at = at.index(bytes.len());
        match cut {
            true => bytes.truncate(at),
            false => bytes[at] ^= 1 << bit,
        }
        std::fs::write(&file, &bytes).unwrap();
        let (left, _) = steps(dir.path());
        if cut {
            prop_assert!(left <= whole);
        } else if at >= 4 {
            prop_assert!(left + 1 >= whole, "{} of {} steps", left, whole);
        } else {
            prop_assert_eq!(left, 0, "the file counts as one of another program");
        }
    }

    #[test]
    fn random_bytes_are_read_without_panic(bytes: Vec<u8>, whole in any::<bool>()) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("past")).unwrap();
        let mut file = Vec::new();
        // With `whole`, the frames have valid checksums, so that their payloads are decoded.
        for kind in [frame::Kind::PortTable, frame::Kind::Head, frame::Kind::Chunk] {
            match whole {
                true => frame::encode(kind, &bytes, &mut file),
                false => file.extend(&bytes),
            }
        }
        std::fs::write(dir.path().join("past/10s-0000000000.past"), file).unwrap();
        let reader = open(dir.path()).reader();
        reader.moved(None, ALWAYS, Wanted::All).unwrap();
        crate::chunk::decode(&bytes, true);
    }
}

#[test]
fn flipped_bit_in_a_chunk_loses_only_the_counts_of_its_step() {
    let dir = tempfile::tempdir().unwrap();
    let mut past = open(dir.path());
    add_steady_readings(&mut past, 10);
    past.flush().unwrap();
    drop(past);
    let file = files(dir.path())
        .into_iter()
        .find(|path| path.ends_with("1min-0000000000.past"));
    let mut bytes = std::fs::read(file.as_ref().unwrap()).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(file.unwrap(), bytes).unwrap();
    let reader = open(dir.path()).reader();
    let span = Span {
        since_unix_ms: NOON,
        until_unix_ms: NOON + HOUR,
    };
    let series = reader
        .series(Part::Port(port(7, 1)), span, Some(MINUTE))
        .unwrap();
    assert_eq!(series.points.len(), 9, "{series:?}");
    assert_eq!(total(&series, Quantity::SymbolError), 18);
}

#[test]
fn port_that_was_not_read_has_a_gap_in_its_series() {
    let dir = tempfile::tempdir().unwrap();
    let mut past = open(dir.path());
    let other = port(8, 1);
    for minute in 0..10 {
        let at = NOON + minute * MINUTE;
        past.add(&mut [reading(other, at - MINUTE, at, &[])])
            .unwrap();
        if !(3..6).contains(&minute) {
            past.add(&mut [reading(port(7, 1), at - MINUTE, at, &[])])
                .unwrap();
        }
    }
    past.flush().unwrap();
    let series = |key| {
        let reader = past.reader();
        reader
            .series(Part::Port(key), ALWAYS, Some(MINUTE))
            .unwrap()
    };
    let starts: Vec<u64> = series(port(7, 1))
        .points
        .iter()
        .map(|one| one.start_unix_ms)
        .collect();
    let minutes: Vec<u64> = starts.iter().map(|start| (start - NOON) / MINUTE).collect();
    assert_eq!(minutes, [0, 1, 2, 6, 7, 8, 9]);
    assert_eq!(series(other).points.len(), 10);
    let zero = series(other).points[4];
    assert_eq!(
        (zero.port_seconds, zero.per_second(Quantity::XmitData)),
        (60, Some(0.0))
    );
}

#[test]
fn trends_of_a_node_equal_the_series_of_its_ports() {
    let dir = tempfile::tempdir().unwrap();
    let mut past = open(dir.path());
    for at in (NOON..NOON + 5 * MINUTE).step_by(10_000) {
        let errors = u64::from(at > NOON + 3 * MINUTE);
        let of = |words: u64| {
            counts(&[
                (Quantity::XmitData, words),
                (Quantity::RcvData, words),
                (Quantity::SymbolError, errors),
                (Quantity::RcvErrors, errors),
            ])
        };
        let reading = |node, number, words| Reading {
            counts: of(words),
            ..reading(port(node, number), at - 10_000, at, &[])
        };
        past.add(&mut [reading(7, 1, 64), reading(7, 2, 128), reading(8, 1, 32)])
            .unwrap();
    }
    past.flush().unwrap();
    let reader = past.reader();
    let trends = reader.trends(Guid(7), ALWAYS, Some(MINUTE)).unwrap();
    assert_eq!(trends.step_ms, MINUTE);
    for number in [1, 2] {
        let part = Part::Port(port(7, number));
        let series = reader.series(part, ALWAYS, Some(MINUTE)).unwrap();
        let of_series = series.points.iter().map(|point| {
            let words = point.counts[Quantity::XmitData] + point.counts[Quantity::RcvData];
            let trend = Trend {
                seconds: point.port_seconds,
                words,
                errors: point.counts.errors(),
            };
            (point.start_unix_ms, trend)
        });
        let of_port = trends.steps.iter();
        let of_port = of_port.map(|(&start, ports)| (start, ports[&PortNum(number)]));
        assert_eq!(of_port.collect::<Vec<_>>(), of_series.collect::<Vec<_>>());
    }
    let ports = trends.steps.values().flat_map(BTreeMap::keys);
    assert_eq!(ports.copied().max(), Some(PortNum(2)));
    let errors = |trend: &Trend| trend.errors > 0;
    assert!(trends.steps.values().flat_map(BTreeMap::values).any(errors));
}

#[test]
fn steps_of_a_series_are_at_least_as_long_as_the_time_between_readings() {
    let dir = tempfile::tempdir().unwrap();
    let mut past = open(dir.path());
    add_steady_readings(&mut past, 20);
    let adapter = port(9, 1);
    for at in (NOON..NOON + 20 * MINUTE).step_by(300_000) {
        past.add(&mut [reading(
            adapter,
            at - 300_000,
            at,
            &[(Quantity::XmitData, 75_000)],
        )])
        .unwrap();
    }
    past.flush().unwrap();
    let step = |part| {
        past.reader()
            .series(part, ALWAYS, Some(10 * SECOND))
            .unwrap()
    };
    assert_eq!(step(Part::Port(port(7, 1))).step_ms, 30 * SECOND);
    let series = step(Part::Port(adapter));
    assert_eq!(series.step_ms, 5 * MINUTE);
    let rates = series
        .points
        .iter()
        .map(|point| point.per_second(Quantity::XmitData).unwrap());
    assert!(
        rates.into_iter().all(|rate| (246.0..254.0).contains(&rate)),
        "{series:?}"
    );
}

#[test]
fn series_over_several_tiers_has_no_gap_and_the_step_of_the_oldest() {
    let dir = tempfile::tempdir().unwrap();
    let mut past = open(dir.path());
    add_steady_readings(&mut past, 27 * 60);
    let reader = past.reader();
    let until_unix_ms = NOON + 27 * HOUR;
    let series = |ago: u64, step| {
        let span = Span {
            since_unix_ms: until_unix_ms - ago,
            until_unix_ms,
        };
        reader.series(Part::Port(port(7, 1)), span, step).unwrap()
    };
    assert_eq!(series(30 * MINUTE, None).step_ms, 30 * SECOND);
    assert_eq!(series(5 * HOUR, Some(1)).step_ms, MINUTE);
    let all = series(27 * HOUR, Some(1));
    assert_eq!(all.step_ms, 15 * MINUTE);
    // The last step of the coarsest tier is not written yet, but its minutes and seconds are.
    let errors = total(&all, Quantity::SymbolError);
    assert!((27 * 120 - 2..=27 * 120).contains(&errors), "{errors}");
    let kept = reader
        .segments(Tier::Minutes)
        .iter()
        .map(|one| one.steps)
        .sum::<usize>();
    assert!((1440..1440 + 60).contains(&kept), "{kept}");
}

#[test]
fn oldest_segments_are_removed_to_keep_the_bound_of_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let bounds = Bounds {
        days: 30,
        bytes: 64 << 10,
    };
    let mut past = Past::open(dir.path(), Disk::new(), bounds).unwrap();
    for minute in 0..600 {
        let at = NOON + minute * MINUTE;
        let mut readings: Vec<Reading> = (0..200)
            .map(|node| {
                let words = (node * 7919 + minute * 104_729) % 1_000_003;
                reading(
                    port(node, 1),
                    at - MINUTE,
                    at,
                    &[(Quantity::XmitData, words)],
                )
            })
            .collect();
        past.add(&mut readings).unwrap();
        assert!(past.reader().bytes() <= bounds.bytes, "minute {minute}");
    }
    let on_disk = files(dir.path())
        .iter()
        .map(|path| path.metadata().unwrap().len())
        .sum::<u64>();
    assert_eq!(on_disk, past.reader().bytes());
    assert!(on_disk > bounds.bytes / 2, "{on_disk}");
    assert!(past.reader().began_unix_ms().unwrap() > NOON);
}

#[test]
fn files_that_cannot_be_removed_count_until_they_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let keeps_all = Arc::new(AtomicBool::new(true));
    let disk = Disk::with_fault(Arc::new({
        let keeps_all = keeps_all.clone();
        move |operation, _| match operation {
            FileOperation::Remove if keeps_all.load(Ordering::Relaxed) => {
                Err(ErrorKind::PermissionDenied.into())
            }
            _ => Ok(()),
        }
    }));
    let bounds = Bounds {
        days: 30,
        bytes: 16 << 10,
    };
    let mut past = Past::open(dir.path(), disk, bounds).unwrap();
    let on_disk = || -> u64 {
        let files = files(dir.path());
        files
            .iter()
            .map(|path| path.metadata().unwrap().len())
            .sum()
    };
    let mut failures = 0;
    for minute in 0..600 {
        keeps_all.store(minute < 590, Ordering::Relaxed);
        let at = NOON + minute * MINUTE;
        let of = |node: u64| {
            [(
                Quantity::XmitData,
                (node * 7919 + minute * 104_729) % 1_000_003,
            )]
        };
        let mut readings: Vec<Reading> = (0..200)
            .map(|node| reading(port(node, 1), at - MINUTE, at, &of(node)))
            .collect();
        failures += usize::from(past.add(&mut readings).is_err());
        assert_eq!(on_disk(), past.reader().bytes(), "minute {minute}");
    }
    assert!(failures > 0, "files were to be removed");
    assert!(on_disk() <= bounds.bytes, "{}", on_disk());
}

#[test]
fn full_disk_loses_only_the_steps_of_that_time() {
    let dir = tempfile::tempdir().unwrap();
    let is_full = Arc::new(AtomicBool::new(false));
    let disk = Disk::with_fault(Arc::new({
        let is_full = is_full.clone();
        move |operation, _| match operation {
            FileOperation::Append if is_full.load(Ordering::Relaxed) => {
                Err(ErrorKind::StorageFull.into())
            }
            _ => Ok(()),
        }
    }));
    let mut past = Past::open(dir.path(), disk, BOUNDS).unwrap();
    for minute in 0..30 {
        is_full.store((10..13).contains(&minute), Ordering::Relaxed);
        let at = NOON + minute * MINUTE + SECOND;
        let of = [(Quantity::SymbolError, 1)];
        let added = past.add(&mut [reading(port(7, 1), at - MINUTE, at, &of)]);
        assert_eq!(
            added.is_err(),
            (10..13).contains(&minute),
            "minute {minute}"
        );
    }
    past.flush().unwrap();
    drop(past);
    let reader = open(dir.path()).reader();
    let series = reader
        .series(Part::Port(port(7, 1)), ALWAYS, Some(MINUTE))
        .unwrap();
    let minutes: Vec<u64> = series
        .points
        .iter()
        .map(|one| (one.start_unix_ms - NOON) / MINUTE)
        .collect();
    let expected: Vec<u64> = (0..30).filter(|minute| !(9..12).contains(minute)).collect();
    assert_eq!(
        minutes, expected,
        "a step is written with the first reading of the next one"
    );
}

#[test]
fn steps_are_written_to_a_folder_that_replaced_the_old_one() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("past");
    let mut past = open(dir.path());
    add_steady_readings(&mut past, 10);
    std::fs::remove_dir_all(&folder).unwrap();
    let at = NOON + HOUR;
    let mut add = |at| past.add(&mut [reading(port(7, 1), at - MINUTE, at, &[])]);
    assert!(add(at).is_err(), "a removed folder is not created again");
    std::fs::create_dir(&folder).unwrap();
    add(at + HOUR).unwrap();
    assert_eq!(
        files(dir.path()).len(),
        3,
        "the hour's only step, in each tier"
    );
}

#[test]
fn clock_set_back_loses_no_count() {
    let dir = tempfile::tempdir().unwrap();
    let mut past = open(dir.path());
    add_steady_readings(&mut past, 10);
    add_steady_readings(&mut past, 10);
    past.flush().unwrap();
    let moved = past.reader().moved(None, ALWAYS, Wanted::Errors).unwrap();
    assert_eq!(moved[0].counts[Quantity::SymbolError], 40);
}

#[test]
fn moved_errors_have_their_port_number_and_times() {
    let dir = tempfile::tempdir().unwrap();
    let mut past = open(dir.path());
    add_steady_readings(&mut past, 30);
    let (bad, good) = (port(3, 12), port(3, 13));
    for minute in 0..30 {
        let at = NOON + minute * MINUTE;
        let errors = u64::from((10..20).contains(&minute)) * 130;
        let of = [(Quantity::SymbolError, errors), (Quantity::RcvData, 5)];
        past.add(&mut [reading(bad, at - MINUTE, at, &of)]).unwrap();
        past.add(&mut [reading(good, at - MINUTE, at, &[])])
            .unwrap();
    }
    past.flush().unwrap();
    let ports = BTreeSet::from([bad, good, port(99, 1)]);
    let moved = |since_unix_ms| {
        let span = Span {
            since_unix_ms,
            until_unix_ms: NOON + HOUR + 1,
        };
        let reader = past.reader();
        reader.moved(Some(&ports), span, Wanted::Errors).unwrap()
    };
    let since_noon = moved(NOON);
    assert_eq!(
        since_noon.iter().map(|one| one.port).collect::<Vec<_>>(),
        [bad, good]
    );
    assert!(since_noon[1].errors.is_empty() && since_noon[1].seconds > 0);
    let errors = since_noon[0].errors[&Quantity::SymbolError];
    assert_eq!(errors.count, 1300);
    assert_eq!(errors.first_unix_ms, NOON + 10 * MINUTE);
    assert_eq!(errors.last_unix_ms, NOON + 19 * MINUTE);
    assert_eq!(errors.count_in_span, 1300);
    // The reading at the start, and the next one within its rounding, also cover earlier time.
    let errors = moved(NOON + 15 * MINUTE)[0].errors[&Quantity::SymbolError];
    assert_eq!((errors.count, errors.count_in_span), (5 * 130, 3 * 130));
    assert!(moved(NOON + 25 * MINUTE)[0].errors.is_empty());
}

#[test]
fn counts_of_a_node_and_of_the_fabric_are_sums_of_ports() {
    let dir = tempfile::tempdir().unwrap();
    let mut past = open(dir.path());
    let of = |words, errors| [(Quantity::XmitData, words), (Quantity::SymbolError, errors)];
    let at = NOON + SECOND;
    let mut readings = vec![
        reading(port(1, 1), NOON, at, &of(10, 1)),
        reading(port(1, 2), NOON, at, &of(20, 0)),
        reading(port(2, 1), NOON, at, &of(30, 0)),
        reading(port(3, 1), NOON, at, &of(30, 5)),
    ];
    readings[3].is_switch = false;
    past.add(&mut readings).unwrap();
    past.flush().unwrap();
    let sums = |part| {
        let series = past.reader().series(part, ALWAYS, Some(1)).unwrap();
        (
            total(&series, Quantity::XmitData),
            total(&series, Quantity::SymbolError),
        )
    };
    assert_eq!(sums(Part::Node(Guid(1))), (30, 1));
    assert_eq!(sums(Part::Port(port(3, 1))), (30, 5));
    assert_eq!(
        sums(Part::Fabric),
        (60, 6),
        "each cable of a host counts once"
    );
}

/// Writes a day of readings of 45,056 hosts and 225,280 switch ports, and prints the cost.
#[test]
#[ignore = "takes minutes; run in release for figures: cargo test --release -p rsm-past cost -- --ignored --nocapture"]
fn cost_of_a_day_of_45056_hosts() {
    crate::cost::day();
}
