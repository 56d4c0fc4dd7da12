//! The journal of notices, which each subscriber reads at its own pace.
//!
//! One list serves all subscribers, and each has a position in it. So its memory depends neither on
//! the number of subscribers nor on how many do not answer. Two rules keep the list short:
//!
//! * After a notice about a subject, further ones about it are held back for [`QUIET`]; then only
//!   the last of them is added.
//! * A later notice replaces an earlier one about the same subject. A subscriber that has not
//!   received the earlier one receives the later.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use rsm_mad::Time;

use super::limits::{MAX_NOTICES, MAX_QUIET, QUIET};
use super::news::{News, NoticeSubject};

/// The journal.
#[derive(Debug, Default)]
pub(super) struct NoticeJournal {
    /// Notices from number `start` on; `None` where a later notice has replaced one.
    list: VecDeque<Option<Arc<News>>>,
    start: u64,
    latest: BTreeMap<NoticeSubject, u64>,
    /// Subjects in their quiet time: its end, and the notice to add then.
    quiet: BTreeMap<NoticeSubject, (Time, Option<News>)>,
    timers: BTreeSet<(Time, NoticeSubject)>,
    coalesced: u64,
    dropped: u64,
}

impl NoticeJournal {
    /// Accepts a notice at `now`. Returns whether it was added to the list.
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

    /// The notice with this number; `None` if it was dropped or replaced.
    pub(super) fn get(&self, number: u64) -> Option<&Arc<News>> {
        let index = number.checked_sub(self.start)?;
        self.list.get(usize::try_from(index).ok()?)?.as_ref()
    }

    /// Number of notices that a later one about the same subject replaced.
    pub(super) fn coalesced(&self) -> u64 {
        self.coalesced
    }

    /// Number of notices dropped for lack of room, which slow subscribers may have missed.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }
}
