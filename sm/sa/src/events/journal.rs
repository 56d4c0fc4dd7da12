//! The journal of notices, which each subscriber reads at its own pace.
//!
//! One list serves all subscribers, each of which has a position in it. Its memory therefore
//! depends neither on the number of subscribers nor on the number of subscribers that do not
//! answer. Two rules keep the list short:
//!
//! * After a notice about a subject, further notices about it are held back for [`QUIET`]; after
//!   that, only the last one is added.
//! * A later notice supersedes an earlier one about the same subject. A subscriber that has not
//!   received the earlier notice receives the later one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use rsm_mad::Time;

use super::limits::{MAX_NOTICES, MAX_QUIET, QUIET};
use super::news::{News, NoticeSubject};

/// The journal.
#[derive(Debug, Default)]
pub(super) struct NoticeJournal {
    /// Notices from number `start` on; `None` for a notice that a later one superseded.
    list: VecDeque<Option<Arc<News>>>,
    start: u64,
    latest: BTreeMap<NoticeSubject, u64>,
    /// Subjects in their quiet time, each with its end and the notice to add then.
    quiet: BTreeMap<NoticeSubject, (Time, Option<News>)>,
    timers: BTreeSet<(Time, NoticeSubject)>,
    coalesced: u64,
    dropped: u64,
}

impl NoticeJournal {
    /// Takes in a notice at `now`. Returns whether it was added to the list.
    pub(super) fn take(&mut self, news: News, now: Time) -> bool {
        let subject = news.subject();
        if let Some((_, next)) = self.quiet.get_mut(&subject) {
            self.coalesced += u64::from(next.is_some());
            *next = Some(news);
            return false;
        }
        self.speak(subject, news, now);
        true
    }

    /// Adds the notices whose quiet time has ended. Returns whether there were any.
    pub(super) fn handle_deadline(&mut self, now: Time) -> bool {
        let mut spoken = false;
        while let Some(&(due, subject)) = self.timers.first()
            && due <= now
        {
            self.timers.pop_first();
            if let Some((_, Some(news))) = self.quiet.remove(&subject) {
                self.speak(subject, news, now);
                spoken = true;
            }
        }
        spoken
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.timers.first().map(|&(due, _)| due)
    }

    fn speak(&mut self, subject: NoticeSubject, news: News, now: Time) {
        if self.quiet.len() < MAX_QUIET {
            let until = now + QUIET;
            self.quiet.insert(subject, (until, None));
            self.timers.insert((until, subject));
        }
        let number = self.end();
        self.list.push_back(Some(Arc::new(news)));
        if let Some(before) = self.latest.insert(subject, number)
            && let Some(overtaken) = self.slot(before)
            && overtaken.take().is_some()
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

    fn slot(&mut self, number: u64) -> Option<&mut Option<Arc<News>>> {
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
    pub(super) fn get(&self, number: u64) -> Option<&Arc<News>> {
        let index = number.checked_sub(self.start)?;
        self.list.get(usize::try_from(index).ok()?)?.as_ref()
    }

    /// Number of notices superseded by a later one about the same subject.
    pub(super) fn coalesced(&self) -> u64 {
        self.coalesced
    }

    /// Number of notices dropped for lack of room; slow subscribers may have missed them.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }
}
