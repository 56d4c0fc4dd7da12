//! What happened, for subscribers to be told at their own pace.
//!
//! There is one list for all of them, and each remembers how far it has been told: that takes the
//! memory of the list whatever the number of subscribers, and of those who do not answer. Two rules
//! keep it short:
//!
//! * After something was said of a thing, nothing is said of it for [`QUIET`]; then only the last
//!   of what happened meanwhile.
//! * A notice that is not the last about its thing is taken out; who has not been told of it hears
//!   the last one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use rsm_mad::Time;

use super::limits::{MAX_NOTICES, MAX_QUIET, QUIET};
use super::news::{News, Subject};

/// The list of what happened.
#[derive(Debug, Default)]
pub(super) struct Journal {
    /// From `start` on; those that were overtaken are gone.
    list: VecDeque<Option<Arc<News>>>,
    start: u64,
    latest: BTreeMap<Subject, u64>,
    /// What was spoken of a moment ago, and what is to be said of it next.
    quiet: BTreeMap<Subject, (Time, Option<News>)>,
    timers: BTreeSet<(Time, Subject)>,
    coalesced: u64,
    dropped: u64,
}

impl Journal {
    /// Takes what happened at `now`. Whether it is to be told now.
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

    /// Says what was held back for long enough. Whether anything is to be told.
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

    fn speak(&mut self, subject: Subject, news: News, now: Time) {
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

    /// The number of the first notice that is kept.
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// The number that the next notice will have.
    pub(super) fn end(&self) -> u64 {
        self.start + self.list.len() as u64
    }

    /// The notice with this number; `None` where it is kept no more, or was overtaken.
    pub(super) fn get(&self, number: u64) -> Option<&Arc<News>> {
        let index = number.checked_sub(self.start)?;
        self.list.get(usize::try_from(index).ok()?)?.as_ref()
    }

    /// Notices that nobody was told, because a later one says all there is to know.
    pub(super) fn coalesced(&self) -> u64 {
        self.coalesced
    }

    /// Notices that are kept no more, although somebody may not have been told of them.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }
}
