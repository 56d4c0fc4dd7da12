//! Reads records of the history while others are appended.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use prost::Message as _;
use rsm_api::v1::event::Change;
use rsm_api::{v1, with_causes};
use rsm_store::StoreError;
use rsm_store::io::{Disk, FileOperation};

use super::frame::{Frame, Frames, Kind};
use super::moments::Moments;
use super::operator_actions::OperatorActionLog;
use super::state::{State, StateChange};

/// A file of records.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub(super) path: PathBuf,
    /// Number of the first record.
    pub(super) first: u64,
    /// Time of the first record, in milliseconds since the Unix epoch; `None` if its header cannot
    /// be read.
    pub(super) began_unix_ms: Option<u64>,
    /// Length of the whole records in bytes; for a segment of an earlier run, length of the whole
    /// file.
    pub(super) bytes: u64,
    /// Earliest and latest time of the records, in milliseconds since the Unix epoch; `None` while
    /// they are unknown.
    pub(super) span: Option<(u64, u64)>,
}

/// Segments of a history, oldest first. Clones share one list.
#[derive(Clone, Debug)]
pub struct Segments {
    disk: Disk,
    list: Arc<Mutex<Vec<Segment>>>,
    /// Operator actions from removed segments.
    operator_actions: Arc<Mutex<OperatorActionLog>>,
}

/// Selects events of the history.
pub struct Query<'a> {
    /// Matches only records with a higher number.
    pub after: u64,
    /// Matches only records with a lower number; 0 for any.
    pub before: u64,
    /// Matches only events at or after this time, in milliseconds since the Unix epoch; 0 for any.
    pub since_unix_ms: u64,
    /// Matches only events before this time, in milliseconds since the Unix epoch; 0 for any.
    pub until_unix_ms: u64,
    /// Matches only events for which this returns true.
    pub matches: &'a dyn Fn(&v1::Event) -> bool,
}

impl Query<'_> {
    fn includes(&self, number: u64) -> bool {
        number > self.after && (self.before == 0 || number < self.before)
    }

    fn covers(&self, at: u64) -> bool {
        at >= self.since_unix_ms && (self.until_unix_ms == 0 || at < self.until_unix_ms)
    }

    /// Whether a segment may contain matching records. `next` is the first number of the following
    /// segment; `None` for the last segment.
    fn reaches(&self, segment: &Segment, next: Option<u64>) -> bool {
        let is_after = next.is_none_or(|next| next > self.after.saturating_add(1));
        let is_before = self.before == 0 || segment.first < self.before;
        is_after
            && is_before
            && segment.span.is_none_or(|(from, to)| {
                to >= self.since_unix_ms && (self.until_unix_ms == 0 || from < self.until_unix_ms)
            })
    }
}

/// Event with the number of its record.
pub type Numbered = (u64, v1::Event);

impl Segments {
    pub(super) fn new(
        disk: Disk,
        segments: Vec<Segment>,
        operator_actions: OperatorActionLog,
    ) -> Segments {
        Segments {
            disk,
            list: Arc::new(Mutex::new(segments)),
            operator_actions: Arc::new(Mutex::new(operator_actions)),
        }
    }

    pub(super) fn operator_actions(&self) -> OperatorActionLog {
        self.operator_actions.lock().clone()
    }

    pub(super) fn set_operator_actions(&self, actions: OperatorActionLog) {
        *self.operator_actions.lock() = actions;
    }

    /// The segments, and the matching operator actions of removed segments.
    fn read_operator_actions(&self, query: &Query<'_>) -> (Vec<Segment>, Vec<Numbered>) {
        // An action is copied to the log before its segment is removed, so reading the segments
        // first misses no action.
        let segments = self.list.lock().clone();
        let before = segments.first().map_or(u64::MAX, |segment| segment.first);
        let actions = self.operator_actions();
        let actions = actions
            .frames(before)
            .filter_map(|frame| event(&frame, query));
        (segments, actions.collect())
    }

    pub(super) fn last(&self) -> Option<Segment> {
        self.list.lock().last().cloned()
    }

    pub(super) fn add(&self, segment: Segment) {
        self.list.lock().push(segment);
    }

    pub(super) fn remove_last(&self) {
        self.list.lock().pop();
    }

    pub(super) fn remove_first(&self) {
        let mut list = self.list.lock();
        if !list.is_empty() {
            list.remove(0);
        }
    }

    /// The oldest segment, and the time at which the next segment began, which bounds the age of
    /// the oldest segment's records; `None` if there are no segments.
    pub(super) fn oldest(&self) -> Option<(PathBuf, Option<u64>)> {
        let list = self.list.lock();
        let next = list.get(1).and_then(|segment| segment.began_unix_ms);
        list.first().map(|segment| (segment.path.clone(), next))
    }

    /// Size of all segments and of the operator action log, in bytes.
    pub fn bytes(&self) -> u64 {
        let segments: u64 = self.list.lock().iter().map(|segment| segment.bytes).sum();
        segments + self.operator_actions.lock().bytes()
    }

    /// Records that the segment at `path` has grown to `bytes`, and that its new records are in
    /// `span`.
    pub(super) fn grow(&self, path: &Path, bytes: u64, span: Option<(u64, u64)>) {
        let mut list = self.list.lock();
        let Some(segment) = list.iter_mut().find(|segment| segment.path == path) else {
            return;
        };
        let is_new = segment.bytes == 0;
        segment.bytes = bytes;
        segment.span = match (segment.span, span) {
            (Some((from, to)), Some((first, last))) => Some((from.min(first), to.max(last))),
            (None, span) if is_new => span,
            (known, _) => known,
        };
    }

    /// The first `limit` matching events, oldest first.
    ///
    /// An unreadable segment, and records lost to damage, appear as one event in their place, which
    /// reports the gap.
    pub fn events(&self, query: &Query<'_>, limit: usize) -> Vec<Numbered> {
        let (segments, mut found) = self.read_operator_actions(query);
        for (index, segment) in segments.iter().enumerate() {
            let next = segments.get(index + 1).map(|next| next.first);
            if found.len() >= limit {
                break;
            }
            if query.reaches(segment, next) {
                self.read(segment, query, &mut found);
            }
        }
        found.truncate(limit);
        found
    }

    /// The last `limit` matching events, oldest first.
    pub fn newest(&self, query: &Query<'_>, limit: usize) -> Vec<Numbered> {
        let (segments, mut acts) = self.read_operator_actions(query);
        let mut found: Vec<Numbered> = Vec::new();
        for (index, segment) in segments.iter().enumerate().rev() {
            if found.len() >= limit {
                break;
            }
            let next = segments.get(index + 1).map(|next| next.first);
            if query.reaches(segment, next) {
                let mut here = Vec::new();
                self.read(segment, query, &mut here);
                here.append(&mut found);
                found = here;
            }
        }
        if found.len() < limit {
            acts.append(&mut found);
            found = acts;
        }
        found.split_off(found.len().saturating_sub(limit))
    }

    /// Adds the matching events of a segment to `found`.
    fn read(&self, segment: &Segment, query: &Query<'_>, found: &mut Vec<Numbered>) {
        let bytes = match self.bytes_of(segment) {
            Ok(Some(bytes)) => bytes,
            // The segment was removed meanwhile, because it was the oldest.
            Ok(None) => return,
            Err(error) => {
                let reason = with_causes(&error);
                tracing::warn!("{reason}");
                let at = segment.began_unix_ms.unwrap_or(query.since_unix_ms);
                found.extend(gap(segment.first, at, 0, reason, query));
                return;
            }
        };
        let mut expected = segment.first;
        let mut span = None;
        for frame in Frames::of(&bytes) {
            if frame.number > expected {
                let lost = frame.number - expected;
                let reason = format!("{} is damaged", segment.path.display());
                found.extend(gap(expected, frame.at_unix_ms, lost, reason, query));
            }
            expected = frame.number + 1;
            let at = frame.at_unix_ms;
            let (from, to) = span.unwrap_or((at, at));
            span = Some((at.min(from), at.max(to)));
            found.extend(event(&frame, query));
        }
        self.record_span(segment, span);
    }

    fn record_span(&self, segment: &Segment, span: Option<(u64, u64)>) {
        let mut list = self.list.lock();
        let held = list.iter_mut().find(|held| held.path == segment.path);
        if let Some(held) = held.filter(|held| held.bytes == segment.bytes) {
            held.span = span;
        }
    }

    fn bytes_of(&self, segment: &Segment) -> Result<Option<Vec<u8>>, StoreError> {
        self.disk.run(FileOperation::Read, &segment.path, || {
            let file = match File::open(&segment.path) {
                Ok(file) => file,
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            };
            let mut bytes = Vec::new();
            file.take(segment.bytes).read_to_end(&mut bytes)?;
            Ok::<_, io::Error>(Some(bytes))
        })
    }

    /// State of the subnet at `at_unix_ms`, that is, after the last record at or before that time,
    /// in the order of record numbers. `None` if the history does not reach back to that time, or
    /// if the subnet was unknown then.
    ///
    /// # Errors
    /// A segment cannot be read.
    pub fn state_at(&self, at_unix_ms: u64) -> Result<Option<State>, StoreError> {
        let segments = self.list.lock().clone();
        for segment in segments.iter().rev() {
            let Some(bytes) = self.bytes_of(segment)? else {
                break;
            };
            // Events may come from other managers, and may be older than the state before them.
            let is_state =
                |frame: &Frame<'_>| matches!(frame.kind, Some(Kind::Base | Kind::Change));
            let last = Frames::of(&bytes)
                .filter(|frame| is_state(frame) && frame.at_unix_ms <= at_unix_ms)
                .last();
            let Some(last) = last.map(|frame| frame.number) else {
                continue;
            };
            let state = replay(Frames::of(&bytes).take_while(|frame| frame.number <= last));
            return Ok(state.filter(|state| !state.is_unknown()));
        }
        Ok(None)
    }

    /// First state of the subnet in the history, and its time in milliseconds since the Unix epoch;
    /// `None` if the history has no state yet.
    ///
    /// # Errors
    /// A segment cannot be read.
    pub fn first_state(&self) -> Result<Option<(u64, State)>, StoreError> {
        let segments = self.list.lock().clone();
        for segment in &segments {
            let Some(bytes) = self.bytes_of(segment)? else {
                continue;
            };
            let mut state = State::default();
            for frame in Frames::of(&bytes) {
                if frame.kind == Some(Kind::Base) {
                    state = State::default();
                }
                if let Some(Kind::Base | Kind::Change) = frame.kind
                    && let Ok(change) = StateChange::decode(frame.payload)
                {
                    state.apply(change);
                    if !state.is_unknown() {
                        return Ok(Some((frame.at_unix_ms, state)));
                    }
                }
            }
        }
        Ok(None)
    }

    /// The changes after `at_unix_ms`; `then` is the state of the subnet at that time. Unreadable
    /// records are left out.
    ///
    /// # Errors
    /// A segment cannot be read.
    pub fn moments_after(&self, at_unix_ms: u64, then: &State) -> Result<Moments, StoreError> {
        let mut moments = Moments::after(then.clone());
        let segments = self.list.lock().clone();
        // The segment of that time shows which links trained then.
        let has_begun = |segment: &Segment| {
            segment
                .began_unix_ms
                .is_some_and(|began| began <= at_unix_ms)
        };
        let of_that_time = segments.iter().rposition(has_begun).unwrap_or(0);
        for (index, segment) in segments.iter().enumerate() {
            let is_earlier = segment.span.is_some_and(|(_, to)| to <= at_unix_ms);
            if is_earlier && index != of_that_time {
                continue;
            }
            let Some(bytes) = self.bytes_of(segment)? else {
                continue;
            };
            for frame in Frames::of(&bytes) {
                let at = frame.at_unix_ms;
                match frame.kind {
                    Some(Kind::Event) if at <= at_unix_ms => {
                        let event = v1::Event::decode(frame.payload);
                        event.iter().for_each(|event| moments.earlier_event(event));
                    }
                    _ if at <= at_unix_ms => {}
                    Some(Kind::Base) => {
                        let base = StateChange::decode(frame.payload);
                        base.into_iter().for_each(|base| moments.base(at, base));
                    }
                    Some(Kind::Change) => {
                        let change = StateChange::decode(frame.payload);
                        change.into_iter().for_each(|one| moments.change(at, one));
                    }
                    Some(Kind::Event) => {
                        let event = v1::Event::decode(frame.payload);
                        event.iter().for_each(|event| moments.event(event));
                    }
                    _ => {}
                }
            }
        }
        Ok(moments)
    }

    /// Time of the oldest record, in milliseconds since the Unix epoch; `None` without a record.
    pub fn began_unix_ms(&self) -> Option<u64> {
        self.list.lock().first()?.began_unix_ms
    }
}

/// Replays some frames of a segment. Returns the state after them; `None` if the base is damaged.
fn replay<'a>(frames: impl Iterator<Item = Frame<'a>>) -> Option<State> {
    let mut state = None;
    for frame in frames {
        if frame.kind == Some(Kind::Base) {
            state = Some(State::default());
        }
        let holds_state = matches!(frame.kind, Some(Kind::Base | Kind::Change));
        if let (true, Some(state)) = (holds_state, &mut state) {
            state.apply(StateChange::decode(frame.payload).ok()?);
        }
    }
    state
}

/// The event in a frame; `None` if the frame contains no event, or an event that does not match.
fn event(frame: &Frame<'_>, query: &Query<'_>) -> Option<Numbered> {
    if frame.kind != Some(Kind::Event)
        || !query.includes(frame.number)
        || !query.covers(frame.at_unix_ms)
    {
        return None;
    }
    let event = v1::Event::decode(frame.payload).ok()?;
    (query.matches)(&event).then_some((frame.number, event))
}

/// The event that reports a gap; `None` if it does not match.
fn gap(
    number: u64,
    at_unix_ms: u64,
    count: u64,
    reason: String,
    query: &Query<'_>,
) -> Option<Numbered> {
    let event = unrecorded(at_unix_ms, count, reason);
    let is_wanted = query.includes(number) && query.covers(at_unix_ms) && (query.matches)(&event);
    is_wanted.then_some((number, event))
}

/// The event that reports `count` events missing from the history, for `reason`.
pub fn unrecorded(at_unix_ms: u64, count: u64, reason: String) -> v1::Event {
    v1::Event {
        at_unix_ms,
        change: Some(Change::EventsUnrecorded(v1::EventsUnrecorded {
            count,
            reason,
        })),
        ..v1::Event::default()
    }
}
