use std::collections::HashMap;

use super::Priority;
use super::list::{Links, List};
use super::slab::Slab;

const PRIORITIES: usize = Priority::ALL.len();

/// The waiting and outstanding requests of one target.
#[derive(Debug)]
struct Target {
    /// The number that identifies the target.
    key: u64,
    /// The number of requests that are out.
    outstanding: u16,
    /// The maximum number of requests that may be out.
    cap: u16,
    /// The waiting requests of each priority, in the order of sending.
    waiting: [List; PRIORITIES],
    /// For each priority, whether the target is in the ready list of that priority.
    ready: [bool; PRIORITIES],
}

/// Selects the next request.
///
/// Requests of a higher priority go first; within a priority, targets take turns, and requests to
/// one target keep their order. A target at its cap of requests out is in no ready list, so that
/// its waiting requests cost nothing. Requests and targets are small indices; all lists are
/// intrusive.
#[derive(Debug)]
pub(super) struct Scheduler {
    /// The maximum number of requests that are out to one target.
    cap: u16,
    targets: Slab<Target>,
    /// The index of each target by its number. The map is never iterated, so that its order has no
    /// effect.
    index: HashMap<u64, u32>,
    requests: Links,
    /// The links of the ready lists of targets; one set for each priority, because a target can be
    /// in several of the lists.
    ready_links: [Links; PRIORITIES],
    /// For each priority, the targets whose requests may be sent.
    ready: [List; PRIORITIES],
    /// The number of waiting requests.
    waiting: usize,
}

impl Scheduler {
    pub(super) fn new(cap: u16) -> Scheduler {
        Scheduler {
            cap,
            targets: Slab::new(),
            index: HashMap::new(),
            requests: Links::default(),
            ready_links: Default::default(),
            ready: [List::EMPTY; PRIORITIES],
            waiting: 0,
        }
    }

    /// The number of requests that wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Queues a new request as the last request of its target, and returns the index of the target.
    pub(super) fn enqueue(&mut self, key: u64, priority: Priority, request: u32) -> u32 {
        let target = match self.index.get(&key) {
            Some(&target) => target,
            None => {
                let target = self.targets.insert(Target {
                    key,
                    outstanding: 0,
                    cap: self.cap,
                    waiting: [List::EMPTY; PRIORITIES],
                    ready: [false; PRIORITIES],
                });
                self.index.insert(key, target);
                target
            }
        };
        let level = priority as usize;
        self.requests
            .push_back(&mut self.targets[target].waiting[level], request);
        self.waiting += 1;
        self.make_ready(target, level, false);
        target
    }

    /// Limits `target` to one outstanding request if `one_at_a_time` is set, else to the common
    /// cap.
    pub(super) fn set_one_at_a_time(&mut self, target: u32, one_at_a_time: bool) {
        let state = &mut self.targets[target];
        let cap = if one_at_a_time { 1 } else { self.cap };
        if state.cap == cap {
            return;
        }
        state.cap = cap;
        let full = state.outstanding >= state.cap;
        for level in 0..PRIORITIES {
            if full {
                self.remove_ready(target, level);
            } else {
                self.make_ready(target, level, false);
            }
        }
    }

    /// Removes and returns the next request to send; it counts against its target until
    /// [`Scheduler::release`].
    pub(super) fn take(&mut self) -> Option<u32> {
        for level in 0..PRIORITIES {
            let Some(target) = self.ready[level].head() else {
                continue;
            };
            self.remove_ready(target, level);
            let state = &mut self.targets[target];
            let request = self.requests.pop_front(&mut state.waiting[level]);
            debug_assert!(request.is_some(), "a ready target has a waiting request");
            state.outstanding += 1;
            self.waiting -= 1;
            if state.outstanding < state.cap {
                self.make_ready(target, level, false);
            } else {
                for level in 0..PRIORITIES {
                    self.remove_ready(target, level);
                }
            }
            return request;
        }
        None
    }

    /// Ends an outstanding request of `target`.
    pub(super) fn release(&mut self, target: u32) {
        self.targets[target].outstanding -= 1;
        for level in 0..PRIORITIES {
            self.make_ready(target, level, false);
        }
        self.forget_if_idle(target);
    }

    /// Ends the attempt of the outstanding `request`, and queues the request again before all other
    /// requests of its target and priority.
    pub(super) fn requeue(&mut self, target: u32, priority: Priority, request: u32) {
        let level = priority as usize;
        let state = &mut self.targets[target];
        state.outstanding -= 1;
        self.requests.push_front(&mut state.waiting[level], request);
        self.waiting += 1;
        // A retry has already waited for a timeout: its target goes first.
        self.remove_ready(target, level);
        self.make_ready(target, level, true);
        for level in 0..PRIORITIES {
            self.make_ready(target, level, false);
        }
    }

    /// Removes a waiting request from the queues.
    pub(super) fn withdraw(&mut self, target: u32, priority: Priority, request: u32) {
        let level = priority as usize;
        self.requests
            .unlink(&mut self.targets[target].waiting[level], request);
        self.waiting -= 1;
        if self.targets[target].waiting[level].is_empty() {
            self.remove_ready(target, level);
        }
        self.forget_if_idle(target);
    }

    /// Puts `target` into the ready list of a priority, at the front if `first` is set. Nothing
    /// happens if the target is in the list, is at its cap, or has no waiting request.
    fn make_ready(&mut self, target: u32, level: usize, first: bool) {
        let state = &mut self.targets[target];
        if state.ready[level] || state.outstanding >= state.cap || state.waiting[level].is_empty() {
            return;
        }
        state.ready[level] = true;
        let (links, list) = (&mut self.ready_links[level], &mut self.ready[level]);
        if first {
            links.push_front(list, target);
        } else {
            links.push_back(list, target);
        }
    }

    /// Removes a target from the ready list of a priority, if the list contains the target.
    fn remove_ready(&mut self, target: u32, level: usize) {
        let is_listed = &mut self.targets[target].ready[level];
        if std::mem::take(is_listed) {
            self.ready_links[level].unlink(&mut self.ready[level], target);
        }
    }

    /// Removes the target if it has no requests.
    fn forget_if_idle(&mut self, target: u32) {
        let state = &self.targets[target];
        if state.outstanding == 0 && state.waiting.iter().all(List::is_empty) {
            let state = self.targets.remove(target);
            self.index.remove(&state.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(scheduler: &mut Scheduler) -> Vec<u32> {
        std::iter::from_fn(|| scheduler.take()).collect()
    }

    #[test]
    fn targets_take_turns_and_keep_their_order() {
        let mut scheduler = Scheduler::new(8);
        for (request, key) in [(0, 100), (1, 100), (2, 100), (3, 200), (4, 300), (5, 200)] {
            scheduler.enqueue(key, Priority::Normal, request);
        }
        assert_eq!(drain(&mut scheduler), [0, 3, 4, 1, 5, 2]);
    }

    #[test]
    fn higher_priorities_go_first_and_the_cap_counts_requests_of_all_priorities() {
        let mut scheduler = Scheduler::new(2);
        let target = scheduler.enqueue(7, Priority::Background, 0);
        scheduler.enqueue(7, Priority::Urgent, 1);
        scheduler.enqueue(7, Priority::Normal, 2);
        scheduler.enqueue(8, Priority::Background, 3);
        assert_eq!(drain(&mut scheduler), [1, 2, 3]);
        scheduler.release(target);
        assert_eq!(drain(&mut scheduler), [0]);
    }

    #[test]
    fn a_target_limited_to_one_request_gets_the_next_after_the_first_ended() {
        let mut scheduler = Scheduler::new(2);
        let target = scheduler.enqueue(7, Priority::Normal, 0);
        scheduler.enqueue(7, Priority::Normal, 1);
        scheduler.enqueue(7, Priority::Normal, 2);
        scheduler.set_one_at_a_time(target, true);
        assert_eq!(drain(&mut scheduler), [0]);
        scheduler.set_one_at_a_time(target, false);
        assert_eq!(drain(&mut scheduler), [1]);
        scheduler.set_one_at_a_time(target, true);
        scheduler.release(target);
        assert_eq!(drain(&mut scheduler), [], "one of two is still out");
        scheduler.release(target);
        assert_eq!(drain(&mut scheduler), [2]);
    }

    #[test]
    fn a_retry_goes_before_all_other_requests_of_its_priority() {
        let mut scheduler = Scheduler::new(1);
        let target = scheduler.enqueue(7, Priority::Normal, 0);
        scheduler.enqueue(7, Priority::Normal, 1);
        assert_eq!(scheduler.take(), Some(0));
        scheduler.enqueue(8, Priority::Normal, 2);
        scheduler.requeue(target, Priority::Normal, 0);
        assert_eq!(drain(&mut scheduler), [0, 2]);
    }

    #[test]
    fn idle_targets_are_forgotten() {
        let mut scheduler = Scheduler::new(1);
        let first = scheduler.enqueue(7, Priority::Normal, 0);
        let second = scheduler.enqueue(8, Priority::Urgent, 1);
        assert_eq!(scheduler.targets.len(), 2);
        scheduler.withdraw(first, Priority::Normal, 0);
        assert_eq!(scheduler.targets.len(), 1);
        assert_eq!(scheduler.take(), Some(1));
        assert_eq!(scheduler.waiting(), 0);
        scheduler.release(second);
        assert_eq!(scheduler.targets.len(), 0);
        assert_eq!(scheduler.take(), None);
    }
}
