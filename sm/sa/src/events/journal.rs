//! The journal of notices, which each subscriber reads at its own pace.
//!
//! All subscribers share one list, and each subscriber has a position in the list. The memory of
//! the list therefore does not depend on the number of subscribers, nor on the number of
//! subscribers that do not answer. Two rules keep the list short:
//!
//! * After a notice about a subject, further notices about that subject are held back for
//!   [`QUIET`]; then only the last of these further notices is added.
//! * A later notice supersedes an earlier notice about the same subject. A subscriber that has not
//!   received the earlier notice receives only the later notice.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use rsm_mad::Time;

use super::limits::{MAX_NOTICES, MAX_QUIET, QUIET};
use super::published_notice::{NoticeSubject, PublishedNotice};

/// The journal of notices.
#[derive(Debug, Default)]
pub(super) struct NoticeJournal {
    /// Notices from number `start` on; `None` for a notice that a later one superseded.
    list: VecDeque<Option<Arc<PublishedNotice>>>,
    /// Number of the first notice in `list`.
    start: u64,
    /// Number of the last notice about each subject in `list`.
    latest: BTreeMap<NoticeSubject, u64>,
    /// Subjects whose notices are held back, each with the end of the quiet time and the last
    /// notice held back; `None` if no notice is held back.
    quiet: BTreeMap<NoticeSubject, (Time, Option<PublishedNotice>)>,
    /// Ends of the quiet times in `quiet`, ascending.
    timers: BTreeSet<(Time, NoticeSubject)>,
    coalesced: u64,
    dropped: u64,
}

impl NoticeJournal {
    /// Adds a notice at `now`, or holds it back. Returns whether it was added to the list.
    pub(super) fn publish(&mut self, published: PublishedNotice, now: Time) -> bool {
        let subject = published.subject();
        if let Some((_, next)) = self.quiet.get_mut(&subject) {
            self.coalesced += u64::from(next.is_some());
            *next = Some(published);
            return false;
        }
        self.add(subject, published, now);
        true
    }

    /// Adds the held notices whose quiet time has ended. Returns whether any notice was added.
    pub(super) fn handle_deadline(&mut self, now: Time) -> bool {
        let mut has_added = false;
        while let Some(&(due, subject)) = self.timers.first()
            && due <= now
        {
            self.timers.pop_first();
            if let Some((_, Some(published))) = self.quiet.remove(&subject) {
                self.add(subject, published, now);
                has_added = true;
            }
        }
        has_added
    }

    /// Time at which [`NoticeJournal::handle_deadline`] next has work; `None` if no subject is held
    /// back.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.timers.first().map(|&(due, _)| due)
    }

    /// Adds a notice to the list, and holds back further notices about its subject.
    fn add(&mut self, subject: NoticeSubject, published: PublishedNotice, now: Time) {
        if self.quiet.len() < MAX_QUIET {
            let until = now + QUIET;
            self.quiet.insert(subject, (until, None));
            self.timers.insert((until, subject));
        }
        let number = self.end();
        self.list.push_back(Some(Arc::new(published)));
        if let Some(before) = self.latest.insert(subject, number)
            && let Some(superseded) = self.slot(before)
            && superseded.take().is_some()
        {
            self.coalesced += 1;
        }
        while self.list.len() > MAX_NOTICES || self.list.front().is_some_and(Option::is_none) {
            if let Some(oldest) = self.list.pop_front().flatten() {
                self.latest.remove(&oldest.subject());
                self.dropped += 1;
            }
            self.start += 1;
        }
    }

    /// The list entry of the notice with this number; `None` if the list no longer contains it.
    fn slot(&mut self, number: u64) -> Option<&mut Option<Arc<PublishedNotice>>> {
        let index = number.checked_sub(self.start)?;
        self.list.get_mut(usize::try_from(index).ok()?)
    }

    /// Number of the first notice in the list.
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// Number that the next notice will have.
    pub(super) fn end(&self) -> u64 {
        self.start + self.list.len() as u64
    }

    /// The notice with this number; `None` if it was dropped or superseded.
    pub(super) fn get(&self, number: u64) -> Option<&Arc<PublishedNotice>> {
        let index = number.checked_sub(self.start)?;
        self.list.get(usize::try_from(index).ok()?)?.as_ref()
    }

    /// Number of notices superseded by later notices about the same subject.
    pub(super) fn coalesced(&self) -> u64 {
        self.coalesced
    }

    /// Number of notices dropped for lack of room; slow subscribers may have missed them.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }
}
