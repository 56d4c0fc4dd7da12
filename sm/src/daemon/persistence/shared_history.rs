//! Shares the history of a subnet among the managers that share a store.
//!
//! ```text
//! history         SLOT (2)   version (1) row (8) manager (8), events: length (4), rsm.v1.Event
//! history-local   "read"     row (8) and number of its events (4) that this machine has copied
//! ```
//!
//! Rows form a ring: row N is in slot N modulo [`ROWS`]. Only the master writes rows; each manager
//! copies the other managers' events into the history of its own machine. All numbers are
//! big-endian.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use prost::Message as _;
use rsm_api::v1;
use rsm_api::v1::event::Change;
use rsm_ids::Guid;
use rsm_store::{ChangeSet, Persisted};
use rsm_view::history::Recorder;
use rsm_view::history::recorder::QUEUE;
use rsm_view::history::scan::unrecorded;

use super::table;

/// Table with the rows of the ring.
const TABLE: &str = "history";
/// Table with the position of this machine, which other managers do not share.
const LOCAL: &str = "history-local";
/// Key of the only row of [`LOCAL`].
const READ: &[u8] = b"read";

/// Number of rows of the ring: with [`ROW_BYTES`] each, 4 MiB in total, which is about 10,000
/// events.
const ROWS: u64 = 512;

/// Size in bytes from which a row is full. Each event rewrites the last row.
const ROW_BYTES: usize = 8 << 10;

/// Largest size of an event, in bytes: with any header, the event fits into a row of the store.
const EVENT_MAX: usize = 48 << 10;

/// Version of the layout of a row.
const VERSION: u8 = 1;
/// Number of bytes before the events of a row.
const HEADER: usize = 1 + 8 + 8;

/// Whether managers that share the store receive an event. They receive the events that tell an
/// operator what the master did, and for which reason. Events of single nodes, ports and links stay
/// on the master's machine; missing parts are findings.
pub(in crate::daemon) fn is_shared(event: &v1::Event) -> bool {
    match &event.change {
        Some(
            Change::StateChanged(_)
            | Change::RoutesChanged(_)
            | Change::FindingRaised(_)
            | Change::FindingCleared(_)
            | Change::ConvergenceFinished(_)
            | Change::ManagerStarted(_)
            | Change::OperatorActed(_)
            | Change::EventsUnrecorded(_),
        ) => true,
        Some(
            Change::NodeAppeared(_)
            | Change::NodeVanished(_)
            | Change::NodeChanged(_)
            | Change::PortAppeared(_)
            | Change::PortVanished(_)
            | Change::PortChanged(_)
            | Change::LinkAppeared(_)
            | Change::LinkVanished(_)
            | Change::LinkChanged(_),
        )
        | None => false,
    }
}

/// Events on their way to the ring.
#[derive(Default)]
pub(super) struct Outgoing {
    events: Vec<Arc<v1::Event>>,
    /// Number of events that were dropped since the last call of [`Outgoing::take`].
    lost: u64,
}

impl Outgoing {
    /// Adds events, and drops the oldest events beyond [`QUEUE`], which the ring could not hold
    /// either.
    pub(super) fn extend(&mut self, events: Vec<Arc<v1::Event>>) {
        self.events.extend(events);
        let surplus = self.events.len().saturating_sub(QUEUE);
        self.events.drain(..surplus);
        self.lost += surplus as u64;
    }

    /// Takes the events. If events were dropped, the first event states their number.
    pub(super) fn take(&mut self) -> Vec<Arc<v1::Event>> {
        let Outgoing { mut events, lost } = std::mem::take(self);
        if let Some(first) = events.first().filter(|_| lost > 0) {
            let reason = "more came at once than wait for the shared store".to_owned();
            let gap = unrecorded(first.at_unix_ms, lost, reason);
            events.insert(0, Arc::new(gap));
        }
        events
    }
}

/// Row of the ring.
struct Row {
    number: u64,
    manager: Guid,
    /// Encoded events.
    events: Vec<u8>,
}

impl Row {
    /// Decodes a row; `None` if the row is invalid.
    fn decode(value: &[u8]) -> Option<Row> {
        let (&version, rest) = value.split_first()?;
        let (number, rest) = rest.split_first_chunk()?;
        let (manager, events) = rest.split_first_chunk()?;
        (version == VERSION).then(|| Row {
            number: u64::from_be_bytes(*number),
            manager: Guid(u64::from_be_bytes(*manager)),
            events: events.to_vec(),
        })
    }

    /// Adds the change that writes the row into its slot.
    fn put(&self, persisted: &Persisted, changes: &mut ChangeSet) {
        let mut value = Vec::with_capacity(HEADER + self.events.len());
        value.push(VERSION);
        value.extend(self.number.to_be_bytes());
        value.extend(self.manager.0.to_be_bytes());
        value.extend_from_slice(&self.events);
        let slot = (self.number % ROWS) as u16;
        table::put(persisted, TABLE, &slot.to_be_bytes(), Some(&value), changes);
    }

    /// Decoded events; `None` in place of an unreadable event.
    fn events(&self) -> Vec<Option<v1::Event>> {
        let mut events = Vec::new();
        let mut rest = &self.events[..];
        while !rest.is_empty() {
            let Some((event, behind)) = split_event(rest) else {
                events.push(None);
                break;
            };
            events.push(v1::Event::decode(event).ok());
            rest = behind;
        }
        events
    }
}

/// Splits bytes after the first event; `None` if they are damaged.
fn split_event(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)
}

/// Adds the changes that append `events` of the manager `own` to the ring in `persisted`.
pub(super) fn add(
    persisted: &Persisted,
    own: Guid,
    events: &[Arc<v1::Event>],
    changes: &mut ChangeSet,
) {
    if events.is_empty() {
        return;
    }
    let rows = table::read(persisted, TABLE, |_, value| Row::decode(value));
    let last = rows.into_iter().max_by_key(|row| row.number);
    let next = |number: u64| Row {
        number: number.saturating_add(1),
        manager: own,
        events: Vec::new(),
    };
    let mut row = match last {
        Some(last) if last.manager == own => last,
        last => next(last.map_or(0, |last| last.number)),
    };
    for event in events {
        let mut event = v1::Event::clone(event);
        event.manager = own.to_string();
        let mut bytes = event.encode_to_vec();
        if bytes.len() > EVENT_MAX {
            let reason = format!("an event of {} bytes is too long for others", bytes.len());
            bytes = unrecorded(event.at_unix_ms, 1, reason).encode_to_vec();
        }
        if !row.events.is_empty() && row.events.len() + bytes.len() > ROW_BYTES {
            row.put(persisted, changes);
            row = next(row.number);
        }
        // The length is at most EVENT_MAX.
        row.events.extend((bytes.len() as u32).to_be_bytes());
        row.events.extend(bytes);
    }
    row.put(persisted, changes);
    if Position::of(persisted).is_none() {
        Position::default().put(persisted, changes);
    }
}

/// Position in the ring up to which events are copied into the history of this machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
struct Position {
    row: u64,
    /// Number of copied events in the row.
    events: u32,
}

impl Position {
    /// Reads the position; `None` if no event was ever copied or written, which means that the
    /// history of this machine is new.
    fn of(persisted: &Persisted) -> Option<Position> {
        let known = table::read(persisted, LOCAL, |key, value| {
            let (row, events) = value.split_first_chunk()?;
            let events = events.try_into().ok()?;
            (key == READ).then(|| Position {
                row: u64::from_be_bytes(*row),
                events: u32::from_be_bytes(events),
            })
        });
        known.into_iter().next()
    }

    /// Adds the change that stores the position.
    fn put(self, persisted: &Persisted, changes: &mut ChangeSet) {
        let value = [&self.row.to_be_bytes()[..], &self.events.to_be_bytes()].concat();
        table::put(persisted, LOCAL, READ, Some(&value), changes);
    }
}

/// Events after `from` of managers other than `own`, and the end of the ring. If `from` is `None`,
/// returns the events of all managers.
fn unread(
    rows: &Persisted,
    own: Guid,
    from: Option<Position>,
) -> (Vec<v1::Event>, Option<Position>) {
    let rows = table::read(rows, TABLE, |_, value| Row::decode(value));
    let rows: BTreeMap<u64, Row> = rows.into_iter().map(|row| (row.number, row)).collect();
    let Some((_, last)) = rows.last_key_value() else {
        return (Vec::new(), from);
    };
    let end = Position {
        row: last.number,
        events: u32::try_from(last.events().len()).unwrap_or(u32::MAX),
    };
    // A new history also lacks the events of this manager.
    let own = from.map(|_| own);
    // A position beyond the end belongs to an earlier ring: the store was created again.
    let from = from.filter(|from| from.row <= end.row).unwrap_or_default();
    let mut events = Vec::new();
    for row in rows.range(from.row..).map(|(_, row)| row) {
        if Some(row.manager) == own {
            continue;
        }
        let skipped = match row.number == from.row {
            true => from.events,
            false => 0,
        };
        let mut at = 0;
        for event in row.events().into_iter().skip(skipped as usize) {
            let reason = "a row of the shared history is damaged";
            let event = event.unwrap_or_else(|| v1::Event {
                manager: row.manager.to_string(),
                ..unrecorded(at, 0, reason.to_owned())
            });
            at = event.at_unix_ms;
            events.push(event);
        }
    }
    (events, Some(end))
}

/// Copies events of other managers into the history of this machine.
#[derive(Default)]
pub(super) struct SharedHistory {
    /// Recorder of this machine's history, once it exists.
    pub(super) recorder: Arc<OnceLock<Recorder>>,
    /// GUID of this manager, once it is known.
    pub(super) own: Arc<OnceLock<Guid>>,
}

impl SharedHistory {
    /// Copies the events in `rows` that this machine lacks, and adds the change that records the
    /// position. While the disk of this machine takes no events, the position stays: the ring in
    /// the shared store keeps them, and they are copied with the next change there.
    pub(super) fn read(&self, persisted: &Persisted, rows: &Persisted, changes: &mut ChangeSet) {
        let (Some(recorder), Some(&own)) = (self.recorder.get(), self.own.get()) else {
            return;
        };
        let from = Position::of(persisted);
        let (events, end) = unread(rows, own, from);
        if !events.is_empty() && !recorder.put_others(events) {
            return;
        }
        if let Some(end) = end.filter(|_| end != from) {
            end.put(persisted, changes);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rsm_store::Namespace;

    use super::*;

    const ONE: Guid = Guid(0x11);
    const OTHER: Guid = Guid(0x22);

    /// Actions of an operator at these times.
    fn acts(range: std::ops::Range<u64>) -> Vec<Arc<v1::Event>> {
        let event = |at: u64| v1::Event {
            at_unix_ms: at,
            change: Some(Change::OperatorActed(v1::OperatorActed {
                action: "drain".to_owned(),
                detail: format!("leaf-{at}"),
                ..v1::OperatorActed::default()
            })),
            ..v1::Event::default()
        };
        range.map(|at| Arc::new(event(at))).collect()
    }

    /// Adds actions at these times to the ring, as the manager `own` does.
    fn write(persisted: &mut Persisted, own: Guid, range: std::ops::Range<u64>) {
        let mut changes = ChangeSet::new();
        add(persisted, own, &acts(range), &mut changes);
        persisted.apply(&changes);
    }

    /// Manager that copies the ring into its own history.
    #[derive(Default)]
    struct Reader {
        history: SharedHistory,
        local: Persisted,
    }

    impl Reader {
        fn new(own: Guid) -> Reader {
            let reader = Reader::default();
            reader.history.own.set(own).unwrap();
            reader.history.recorder.set(Recorder::default()).unwrap();
            reader
        }

        fn read(&mut self, rows: &Persisted) {
            let mut changes = ChangeSet::new();
            self.history.read(&self.local, rows, &mut changes);
            self.local.apply(&changes);
        }

        /// Times and managers of the new events.
        fn copy(&mut self, rows: &Persisted) -> Vec<(u64, String)> {
            self.read(rows);
            self.take()
        }

        /// Takes the events that wait for the disk, each as its time and manager.
        fn take(&mut self) -> Vec<(u64, String)> {
            let recorder = self.history.recorder.get().unwrap();
            let batch = recorder.take(Some(std::time::Duration::ZERO)).unwrap();
            let events = batch.others.into_iter();
            events
                .map(|event| (event.at_unix_ms, event.manager))
                .collect()
        }
    }

    /// Times and managers that [`Reader::copy`] returns for events of one manager.
    fn of(manager: Guid, range: std::ops::Range<u64>) -> Vec<(u64, String)> {
        range.map(|at| (at, manager.to_string())).collect()
    }

    #[test]
    fn each_manager_gets_the_events_of_the_others_once() {
        let mut rows = Persisted::default();
        let (mut one, mut other) = (Reader::new(ONE), Reader::new(OTHER));
        write(&mut rows, ONE, 0..3);
        assert_eq!(other.copy(&rows), of(ONE, 0..3));
        assert_eq!(other.copy(&rows), []);
        // The last row grows.
        write(&mut rows, ONE, 3..5);
        assert_eq!(other.copy(&rows), of(ONE, 3..5));
        // The first manager wrote these events itself.
        let mut noted = ChangeSet::new();
        Position::default().put(&one.local, &mut noted);
        one.local.apply(&noted);
        assert_eq!(one.copy(&rows), []);
        write(&mut rows, OTHER, 5..200);
        assert_eq!(one.copy(&rows), of(OTHER, 5..200));
        assert_eq!(other.copy(&rows), []);
        write(&mut rows, ONE, 200..201);
        assert_eq!(one.copy(&rows), []);
        assert_eq!(other.copy(&rows), of(ONE, 200..201));
        // The manager has lost its folder, so it receives all events.
        let all = [of(ONE, 0..5), of(OTHER, 5..200), of(ONE, 200..201)].concat();
        assert_eq!(Reader::new(ONE).copy(&rows), all);
    }

    #[test]
    fn events_for_others_wait_within_a_bound_and_a_gap_stands_for_the_oldest() {
        let mut waiting = Outgoing::default();
        let all = 3 * QUEUE as u64;
        for from in (0..all).step_by(1_000) {
            waiting.extend(acts(from..(from + 1_000).min(all)));
        }
        let events = waiting.take();
        assert_eq!(events.len(), 1 + QUEUE);
        let Some(Change::EventsUnrecorded(gap)) = &events[0].change else {
            panic!("no gap: {:?}", events[0]);
        };
        assert_eq!(gap.count, all - QUEUE as u64);
        assert_eq!(events[1..], acts(all - QUEUE as u64..all));
        waiting.extend(acts(0..1));
        assert_eq!(waiting.take(), acts(0..1), "the gap is named once");
    }

    #[test]
    fn events_of_others_wait_in_the_ring_while_the_disk_takes_none() {
        let (mut rows, mut other) = (Persisted::default(), Reader::new(OTHER));
        let each = 2_000;
        for round in 0..20 {
            write(&mut rows, ONE, round * each..(round + 1) * each);
            other.read(&rows);
        }
        let copied = other.take();
        assert!(copied.len() <= QUEUE, "{} wait", copied.len());
        assert_eq!(copied, of(ONE, 0..copied.len() as u64));
        // The disk takes events again: the ring still has the last of those that follow.
        let later = other.copy(&rows);
        let first = later[0].0;
        assert!(first >= copied.len() as u64);
        assert_eq!(later, of(ONE, first..20 * each));
        assert_eq!(other.copy(&rows), []);
    }

    #[test]
    fn ring_keeps_the_last_events_within_its_bounds() {
        let mut rows = Persisted::default();
        let mut reader = Reader::new(OTHER);
        for round in 0..60 {
            write(&mut rows, ONE, round * 2_000..(round + 1) * 2_000);
        }
        let table = Namespace::new(TABLE).unwrap();
        let ring = &rows.records[&table];
        assert_eq!(ring.len() as u64, ROWS);
        let longest = ring.values().map(|row| row.len()).max().unwrap();
        assert!(longest <= ROW_BYTES + HEADER + 8, "{longest}");
        let copied = reader.copy(&rows);
        let last = copied.last().unwrap().0;
        assert_eq!(last, 119_999);
        let first = copied[0].0;
        assert_eq!(copied, of(ONE, first..120_000));
        assert!(copied.len() > 10_000, "{}", copied.len());
    }

    #[test]
    fn too_long_event_is_a_gap() {
        let mut act = v1::Event::clone(&acts(7..8)[0]);
        let long = "x".repeat(EVENT_MAX);
        if let Some(Change::OperatorActed(acted)) = &mut act.change {
            acted.detail = long;
        }
        let (mut rows, mut changes) = (Persisted::default(), ChangeSet::new());
        add(&rows, ONE, &[Arc::new(act)], &mut changes);
        rows.apply(&changes);
        let (events, _) = unread(&rows, OTHER, None);
        assert!(matches!(
            events[0].change,
            Some(Change::EventsUnrecorded(_))
        ));
    }

    #[test]
    fn damaged_row_is_a_gap_and_other_rows_are_read() {
        let mut rows = Persisted::default();
        write(&mut rows, ONE, 0..2);
        write(&mut rows, OTHER, 2..3);
        let table = Namespace::new(TABLE).unwrap();
        let key = 1u16.to_be_bytes();
        let mut value = rows.records[&table][&key[..]].to_vec();
        value.pop();
        let mut changes = ChangeSet::new();
        changes.set_record(&table, &key, &value).unwrap();
        rows.apply(&changes);
        let (events, _) = unread(&rows, OTHER, None);
        let kinds: Vec<bool> = (events.iter())
            .map(|event| matches!(event.change, Some(Change::OperatorActed(_))))
            .collect();
        assert_eq!(kinds, [true, false, true]);
    }

    proptest! {
        #[test]
        fn arbitrary_rows_cause_no_panic(rows: Vec<(u16, Vec<u8>)>, at: (u64, u32)) {
            let table = Namespace::new(TABLE).unwrap();
            let mut set = ChangeSet::new();
            for (slot, value) in &rows {
                let value = [&[VERSION][..], value].concat();
                set.set_record(&table, &slot.to_be_bytes(), &value).unwrap();
            }
            let mut persisted = Persisted::default();
            persisted.apply(&set);
            let from = Position { row: at.0, events: at.1 };
            let _ = unread(&persisted, ONE, Some(from));
            let mut changes = ChangeSet::new();
            add(&persisted, ONE, &acts(0..2), &mut changes);
            prop_assert!(!changes.is_empty());
        }
    }
}
