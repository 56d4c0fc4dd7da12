//! Tests of the queue: order, bound, restarts, full disks and damaged files.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use proptest::prelude::*;
use rsm_proto::v1::event::Change;

use super::*;

/// Minimum bound that an operator can set.
const BOUND: u64 = 1 << 20;

/// Files in memory that outlive their queue. The simulated disk can be full; an append then writes
/// half of the bytes and fails.
#[derive(Clone, Debug, Default)]
struct Fake {
    files: Rc<RefCell<BTreeMap<String, Vec<u8>>>>,
    is_full: Rc<Cell<bool>>,
}

impl Fake {
    /// Bytes of all segments.
    fn bytes(&self) -> u64 {
        let files = self.files.borrow();
        let segments = files.iter().filter(|(name, _)| *name != TAKEN);
        segments.map(|(_, bytes)| bytes.len() as u64).sum()
    }
}

impl Files for Fake {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.files.borrow().keys().cloned().collect())
    }

    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        Ok(self.files.borrow().get(name).cloned())
    }

    fn append(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut files = self.files.borrow_mut();
        let file = files.entry(name.to_owned()).or_default();
        if self.is_full.get() {
            file.extend(&bytes[..bytes.len() / 2]);
            return Err(io::ErrorKind::StorageFull.into());
        }
        file.extend(bytes);
        Ok(())
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        if self.is_full.get() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.files
            .borrow_mut()
            .insert(name.to_owned(), bytes.to_vec());
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.files.borrow_mut().remove(name);
        Ok(())
    }
}

/// An event with a text of `length` bytes.
fn event(sequence: u64, length: usize) -> Arc<v1::Event> {
    Arc::new(v1::Event {
        sequence,
        change: Some(Change::StateChanged(v1::StateChanged {
            reason: "x".repeat(length),
            ..v1::StateChanged::default()
        })),
        ..v1::Event::default()
    })
}

fn sequences(records: &[Record]) -> Vec<u64> {
    records.iter().map(|record| record.event.sequence).collect()
}

/// Sequence numbers of all waiting events.
fn waiting_sequences<F: Files>(queue: &mut Queue<F>) -> Vec<u64> {
    sequences(&queue.peek(usize::MAX).unwrap())
}

/// A step of a random test.
#[derive(Clone, Debug)]
enum Step {
    /// Puts `count` events with texts of `length` bytes.
    Put { count: u64, length: usize },
    /// Takes at most this many records.
    Take(usize),
    /// Ends the process without a flush, and opens the queue again.
    Restart,
    /// Fills the disk, or frees room.
    Full(bool),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (1..40u64, 0..20_000usize).prop_map(|(count, length)| Step::Put { count, length }),
        2 => (1..60usize).prop_map(Step::Take),
        1 => Just(Step::Restart),
        1 => any::<bool>().prop_map(Step::Full),
    ];
    prop::collection::vec(step, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn restarts_and_full_disks_keep_order_and_bound(steps in steps()) {
        let fake = Fake::default();
        let mut queue = Queue::open(Some(fake.clone()), BOUND).unwrap();
        let (mut last_put, mut last_taken) = (0, 0u64);
        for step in steps {
            match step {
                Step::Put { count, length } => {
                    let numbers = last_put + 1..=last_put + count;
                    let events = numbers.map(|number| event(number, length));
                    last_put += count;
                    prop_assert_eq!(queue.put(7, events).is_err(), fake.is_full.get());
                }
                Step::Take(most) => {
                    let records = queue.peek(most).unwrap();
                    let taken = sequences(&records);
                    // The numbers ascend, and exceed all numbers taken before. Gaps are lost
                    // records.
                    prop_assert!(taken.is_sorted_by(|a, b| a < b), "{:?}", taken);
                    prop_assert!(taken.first().is_none_or(|&first| first > last_taken));
                    if let Some(last) = records.last() {
                        last_taken = last.event.sequence;
                        let _full = queue.take(last.number);
                    }
                }
                Step::Restart => {
                    // A restart loses the records that were not written because the disk was full.
                    queue = Queue::open(Some(fake.clone()), BOUND).unwrap();
                    let next = waiting_sequences(&mut queue).first().copied();
                    // If the disk was full, the stored number of the last taken record may be out
                    // of date.
                    last_taken = next.map_or(last_taken, |next| last_taken.min(next - 1));
                }
                Step::Full(is_full) => {
                    fake.is_full.set(is_full);
                    prop_assert!(is_full || queue.flush().is_ok());
                }
            }
            prop_assert!(fake.bytes() <= BOUND, "{}", fake.bytes());
            prop_assert!(queue.bytes() <= BOUND);
            prop_assert_eq!(queue.waiting(), waiting_sequences(&mut queue).len() as u64);
        }
    }
}

#[test]
fn queue_beyond_its_bound_keeps_the_newest_events() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder(dir.path().join("webhook"));
    let mut queue = Queue::open(Some(folder.clone()), BOUND).unwrap();
    for batch in 0..300u64 {
        let events = (1..=10).map(|number| event(batch * 10 + number, 1000));
        queue.put(1, events).unwrap();
        let files = std::fs::read_dir(&folder.0).unwrap();
        let bytes: u64 = files
            .map(|file| file.unwrap().metadata().unwrap().len())
            .sum();
        assert!(bytes <= BOUND, "{bytes}");
    }
    let waiting = waiting_sequences(&mut queue);
    assert_eq!(*waiting.last().unwrap(), 3000);
    assert_eq!(queue.lost() + waiting.len() as u64, 3000);
    assert!(waiting.len() > 800, "{}", waiting.len());
    let (first, last) = (waiting[0], 3000);
    assert_eq!(waiting, (first..=last).collect::<Vec<_>>());
    drop(queue);
    let mut again = Queue::open(Some(folder), BOUND).unwrap();
    assert_eq!(waiting_sequences(&mut again), waiting);
}

#[test]
fn file_cut_anywhere_keeps_earlier_records_and_accepts_new_ones() {
    let fake = Fake::default();
    let mut queue = Queue::open(Some(fake.clone()), BOUND).unwrap();
    queue
        .put(1, (1..=3).map(|number| event(number, 5)))
        .unwrap();
    let (name, whole) = fake
        .files
        .borrow()
        .first_key_value()
        .map(|(name, bytes)| (name.clone(), bytes.clone()))
        .unwrap();
    let record_length = whole.len() / 3;
    for cut in 0..=whole.len() {
        fake.files.borrow_mut().clear();
        fake.files
            .borrow_mut()
            .insert(name.clone(), whole[..cut].to_vec());
        let mut queue = Queue::open(Some(fake.clone()), BOUND).unwrap();
        queue.put(2, [event(9, 5)]).unwrap();
        let mut expected: Vec<u64> = (1..=(cut / record_length) as u64).collect();
        expected.push(9);
        assert_eq!(waiting_sequences(&mut queue), expected, "cut at {cut}");
    }
}

#[test]
fn taken_records_are_not_sent_again_after_a_restart() {
    let fake = Fake::default();
    let mut queue = Queue::open(Some(fake.clone()), BOUND).unwrap();
    queue
        .put(1, (1..=5).map(|number| event(number, 5)))
        .unwrap();
    let taken = queue.peek(3).unwrap();
    queue.take(taken[2].number).unwrap();
    drop(queue);
    let mut queue = Queue::open(Some(fake.clone()), BOUND).unwrap();
    assert_eq!(
        (waiting_sequences(&mut queue), queue.waiting()),
        (vec![4, 5], 2)
    );
    let rest = queue.peek(9).unwrap();
    queue.take(rest[1].number).unwrap();
    assert_eq!(
        (fake.bytes(), queue.waiting()),
        (0, 0),
        "taken segments are gone"
    );
    queue.put(1, [event(6, 5)]).unwrap();
    assert_eq!(waiting_sequences(&mut queue), [6]);
    // If the stored number of the last taken record is damaged, the receiver may get records twice.
    fake.files
        .borrow_mut()
        .insert(TAKEN.to_owned(), vec![0; 16]);
    assert_eq!(
        waiting_sequences(&mut Queue::open(Some(fake), BOUND).unwrap()),
        [6]
    );
}

#[test]
fn events_wait_in_memory_until_a_full_disk_has_room() {
    let fake = Fake::default();
    let mut queue = Queue::open(Some(fake.clone()), BOUND).unwrap();
    queue.put(1, [event(1, 5)]).unwrap();
    fake.is_full.set(true);
    for number in 2..=4 {
        queue.put(1, [event(number, 5)]).unwrap_err();
    }
    assert_eq!(
        (waiting_sequences(&mut queue), queue.in_memory()),
        (vec![1, 2, 3, 4], 3)
    );
    fake.is_full.set(false);
    queue.flush().unwrap();
    assert_eq!(queue.in_memory(), 0);
    let mut again = Queue::open(Some(fake.clone()), BOUND).unwrap();
    assert_eq!(
        (waiting_sequences(&mut again), again.lost()),
        (vec![1, 2, 3, 4], 0)
    );
    // Without a disk, the oldest records beyond the limit of the memory are dropped.
    let mut queue = Queue::open(None::<Fake>, BOUND).unwrap();
    let limit = MEMORY_MAX as u64;
    queue
        .put(1, (1..=limit + 10).map(|number| event(number, 0)))
        .unwrap();
    assert_eq!((queue.waiting(), queue.lost()), (limit, 10));
    assert_eq!(queue.peek(1).unwrap()[0].event.sequence, 11);
}

#[test]
fn event_longer_than_a_segment_is_counted_as_lost() {
    let mut queue = Queue::open(Some(Fake::default()), BOUND).unwrap();
    queue
        .put(1, [event(1, BOUND as usize), event(2, 5)])
        .unwrap();
    assert_eq!((waiting_sequences(&mut queue), queue.lost()), (vec![2], 1));
}

#[test]
fn foreign_files_in_the_folder_are_not_removed() {
    let fake = Fake::default();
    fake.files
        .borrow_mut()
        .insert("notes.txt".to_owned(), b"mine".to_vec());
    let mut queue = Queue::open(Some(fake.clone()), BOUND).unwrap();
    queue.put(1, [event(1, 5)]).unwrap();
    queue.clear().unwrap();
    assert_eq!(queue.waiting(), 0);
    assert!(fake.files.borrow().contains_key("notes.txt"));
}

/// Damages one byte of the first segment, at `numerator` / `denominator` of the segment's length.
fn damage_first_segment(fake: &Fake, numerator: usize, denominator: usize) {
    let mut files = fake.files.borrow_mut();
    let (_, bytes) = files.iter_mut().find(|(name, _)| *name != TAKEN).unwrap();
    let at = bytes.len() * numerator / denominator;
    bytes[at] ^= 0x55;
}

#[test]
fn records_from_a_damaged_record_on_are_counted_as_lost() {
    let fake = Fake::default();
    let mut queue = Queue::open(Some(fake.clone()), BOUND).unwrap();
    queue
        .put(7, (1..=10).map(|number| event(number, 100)))
        .unwrap();
    damage_first_segment(&fake, 11, 20);
    queue
        .put(7, (11..=12).map(|number| event(number, 100)))
        .unwrap();
    let first = queue.peek(20).unwrap();
    assert_eq!(sequences(&first), [1, 2, 3, 4, 5]);
    queue.take(first.last().unwrap().number).unwrap();
    assert_eq!(waiting_sequences(&mut queue), [] as [u64; 0]);
    assert_eq!((queue.lost(), queue.waiting()), (7, 0));
}

#[test]
fn records_of_a_damaged_segment_are_counted_as_lost_when_the_queue_opens() {
    let fake = Fake::default();
    let mut queue = Queue::open(Some(fake.clone()), BOUND).unwrap();
    queue
        .put(7, (1..=12).map(|number| event(number, 20_000)))
        .unwrap();
    let last_of_first_segment = queue.segments[0].last;
    assert!(last_of_first_segment < 12, "there are several segments");
    damage_first_segment(&fake, 0, 1);
    let mut queue = Queue::open(Some(fake), BOUND).unwrap();
    assert_eq!(queue.lost(), last_of_first_segment);
    assert_eq!(
        waiting_sequences(&mut queue),
        (last_of_first_segment + 1..=12).collect::<Vec<u64>>()
    );
}
