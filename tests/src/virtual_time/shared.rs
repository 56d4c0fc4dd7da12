//! The store that the managers of a world share. The core sees the behaviour of etcd and of the
//! thread in front of it ([`rsm_store::ReplicaHandle`]): delayed answers, signs of life of the
//! holder, and delayed writes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use rsm_core::{EpochEvent, EpochRequest, Event, SavedCoreState};
use rsm_ids::Guid;
use rsm_mad::Time;
use rsm_store::Epoch;
use rsm_store::replica::{BEAT, CLAIM_DEADLINE, FOLLOW_PLAN, SILENT, STALE};

use super::World;

/// The time from a request to its answer.
const ANSWER_DELAY: Duration = Duration::from_millis(5);

/// The time from a change of the state to its arrival in the store.
const WRITE_DELAY: Duration = Duration::from_millis(10);

/// The store, and the state of the store that each manager has seen.
#[derive(Default)]
pub(super) struct SharedStore {
    epoch: Option<Epoch>,
    is_released: bool,
    state: SavedCoreState,
    /// The epoch that each manager believes it holds.
    held: BTreeMap<usize, Epoch>,
    /// The time of the holder's last sign of life.
    alive_at: Time,
    /// The time at which the other managers were last shown a plan, or will next be shown one.
    plan_shown_at: Time,
    /// Whether the store answers no manager.
    pub(super) is_unreachable: bool,
    /// The time until a manager learns that the store does not answer: zero if the store refuses
    /// connections, [`CLAIM_DEADLINE`] if it hangs.
    failure_delay: Duration,
    /// The claims that wait for the end of a silence, each with the last sign of life that the
    /// manager has seen.
    awaiting: BTreeMap<usize, (EpochRequest, Time)>,
    /// The number of claims and releases so far.
    requests: u64,
    /// The number of the last claim or release of each manager that has arrived. A repeated claim
    /// with a lower number is superseded.
    arrived: BTreeMap<usize, u64>,
    /// The managers to which the store does not answer.
    cut_off: BTreeSet<usize>,
    /// The state that the store last showed to each manager that did not hold the epoch.
    last_shown: BTreeMap<usize, SavedCoreState>,
}

impl SharedStore {
    /// The stored state of a manager other than `own`; `None` if no other manager has stored a
    /// state, or if the store does not answer the manager `index`.
    pub(super) fn stored_by_another(
        &self,
        index: usize,
        own: Option<Guid>,
    ) -> Option<&SavedCoreState> {
        let epoch = self.epoch.filter(|epoch| Some(epoch.holder) != own);
        (self.answers(index) && epoch.is_some()).then_some(&self.state)
    }

    /// Whether the store answers the manager `index`.
    fn answers(&self, index: usize) -> bool {
        !self.is_unreachable && !self.cut_off.contains(&index)
    }
}

impl World {
    /// Makes the store unreachable for all managers, or reachable again.
    ///
    /// # Panics
    ///
    /// The managers share no store.
    pub fn set_store_away(&mut self, is_unreachable: bool) {
        self.store_mut().is_unreachable = is_unreachable;
        if !is_unreachable {
            self.announce_plan();
        }
    }

    /// Makes the store hang, or work again. A store that hangs accepts requests but does not answer
    /// them.
    ///
    /// # Panics
    ///
    /// The managers share no store.
    pub fn set_store_hangs(&mut self, is_hanging: bool) {
        self.store_mut().failure_delay = if is_hanging {
            CLAIM_DEADLINE
        } else {
            Duration::ZERO
        };
        self.set_store_away(is_hanging);
    }

    /// Makes the store unreachable for one manager, or reachable again.
    ///
    /// # Panics
    ///
    /// The managers share no store.
    pub fn cut_from_store(&mut self, index: usize, is_cut: bool) {
        let store = self.store_mut();
        match is_cut {
            true => store.cut_off.insert(index),
            false => store.cut_off.remove(&index),
        };
        self.announce_epoch();
        // A deposed manager learns first that its epoch has ended, and then that the store answers.
        let noticed = if is_cut { Duration::ZERO } else { 2 * BEAT };
        self.schedule(noticed, move |world| {
            let now = world.now;
            if world.managers[index].is_alive() {
                let silent = Event::Epoch(EpochEvent::Silent(is_cut));
                world.managers[index].handle(silent, now);
            }
        });
    }

    /// The epoch of the shared store.
    ///
    /// # Panics
    ///
    /// The managers share no store.
    #[must_use]
    pub fn epoch(&self) -> Option<Epoch> {
        let store = self.shared.as_ref().expect("the managers share a store");
        store.epoch
    }

    /// The state in the shared store.
    ///
    /// # Panics
    ///
    /// The managers share no store.
    #[must_use]
    pub fn stored(&self) -> &SavedCoreState {
        let store = self.shared.as_ref().expect("the managers share a store");
        &store.state
    }

    fn store_mut(&mut self) -> &mut SharedStore {
        self.shared.as_mut().expect("the managers share a store")
    }

    /// Carries out the cores' requests to the store.
    pub(super) fn carry_out_requests(&mut self) {
        if self.shared.is_none() {
            return;
        }
        self.record_signs_of_life();
        for index in 0..self.managers.len() {
            for request in self.managers[index].take_requests() {
                let store = self.store_mut();
                store.requests += u64::from(request != EpochRequest::Check);
                let number = store.requests;
                self.schedule(ANSWER_DELAY, move |world| {
                    world.receive(index, request, number)
                });
            }
            if let Some(state) = self.managers[index].take_pending_store() {
                self.schedule(WRITE_DELAY, move |world| world.store(index, *state));
            }
        }
    }

    /// Records signs of life of the holder while it runs.
    pub(super) fn record_signs_of_life(&mut self) {
        let now = self.now;
        let Some(store) = &mut self.shared else {
            return;
        };
        let holder = store.epoch.and_then(|epoch| {
            let mut held = store.held.iter();
            held.find(|&(_, &held)| held == epoch)
                .map(|(&index, _)| index)
        });
        let reaches = |index: usize| store.answers(index) && self.managers[index].is_running();
        if holder.is_some_and(reaches) {
            store.alive_at = now;
        }
    }

    /// Receives a request, and answers it. If the store does not answer, the manager learns of the
    /// failure after `failure_delay`.
    fn receive(&mut self, index: usize, request: EpochRequest, number: u64) {
        let store = self.store_mut();
        if request != EpochRequest::Check {
            let arrived = store.arrived.entry(index).or_default();
            *arrived = number.max(*arrived);
        }
        if store.answers(index) {
            self.answer(index, request, number);
        } else {
            // A claim over a master that may be alive is repeated for that long.
            let failure_delay = match request {
                EpochRequest::Claim {
                    over: Some(_),
                    insists: false,
                    ..
                } => CLAIM_DEADLINE,
                _ => store.failure_delay,
            };
            self.schedule(failure_delay, move |world| {
                world.answer(index, request, number)
            });
        }
    }

    /// Answers a request, unless the manager has died or a later claim supersedes this one.
    fn answer(&mut self, index: usize, request: EpochRequest, number: u64) {
        let is_superseded = self.store_mut().arrived.get(&index) != Some(&number);
        let claims = matches!(request, EpochRequest::Claim { .. });
        if !self.managers[index].is_alive() || claims && is_superseded {
            return;
        }
        let now = self.now;
        if !self.store_mut().answers(index) {
            if request == EpochRequest::Release {
                // The holder's signs of life end without notice.
                self.store_mut().held.remove(&index);
            } else {
                let last_shown = self.store_mut().last_shown.get(&index).cloned();
                let state = last_shown.filter(|_| claims).map(Box::new);
                let is_replaced = state.is_some();
                self.managers[index].handle(Event::Epoch(EpochEvent::Unreachable(state)), now);
                if is_replaced {
                    let groups = Arc::new(self.groups.clone());
                    self.managers[index].regroup(groups, now);
                }
            }
            if claims {
                // The store's thread repeats the request.
                self.schedule(Duration::from_secs(1), move |world| {
                    world.receive(index, request, number);
                });
            }
            return;
        }
        if self.awaits_silence(index, request, number) {
            return;
        }
        let store = self.store_mut();
        let event = match request {
            EpochRequest::Release => {
                store.awaiting.remove(&index);
                let held = store.held.remove(&index);
                store.is_released |= held.is_some() && held == store.epoch;
                self.announce_epoch();
                return;
            }
            EpochRequest::Check => match store.epoch {
                Some(epoch) if store.held.get(&index) == Some(&epoch) => EpochEvent::Held,
                Some(by) => match store.held.get(&index) {
                    Some(&ended) => EpochEvent::Deposed { ended, by },
                    // The store's thread has already reported the end of the epoch.
                    None => return,
                },
                None => EpochEvent::Unreachable(None),
            },
            EpochRequest::Claim {
                own, over, insists, ..
            } => {
                let silence = now.since(store.alive_at);
                let in_force = store.epoch.filter(|epoch| {
                    let ends = epoch.holder == own
                        || over == Some(epoch.holder) && (insists || silence >= SILENT)
                        || store.is_released
                        || silence >= STALE;
                    !ends
                });
                match in_force {
                    Some(epoch) => EpochEvent::Refused(epoch),
                    None => return self.grant(index, own),
                }
            }
        };
        self.managers[index].handle(Event::Epoch(event), now);
    }

    /// Tells whether a claim over a silent master must wait until the master has been silent for
    /// [`SILENT`] or shows a sign of life.
    fn awaits_silence(&mut self, index: usize, request: EpochRequest, number: u64) -> bool {
        let EpochRequest::Claim {
            own,
            over,
            insists: false,
            ..
        } = request
        else {
            return false;
        };
        let now = self.now;
        let store = self.store_mut();
        let alive_at = store.alive_at;
        let is_over_holder = store.epoch.is_some_and(|epoch| {
            over == Some(epoch.holder) && own != epoch.holder && !store.is_released
        });
        let silence = now.since(alive_at);
        if !is_over_holder || !(BEAT..SILENT).contains(&silence) {
            return false;
        }
        store.awaiting.insert(index, (request, alive_at));
        self.schedule(SILENT.saturating_sub(silence), move |world| {
            let awaiting = &mut world.store_mut().awaiting;
            if awaiting.get(&index) == Some(&(request, alive_at)) {
                awaiting.remove(&index);
                world.answer(index, request, number);
            }
        });
        true
    }

    /// Grants the next epoch to a manager. The grant includes the stored state, unless the manager
    /// stored that state itself.
    fn grant(&mut self, index: usize, own: Guid) {
        let now = self.now;
        let store = self.store_mut();
        let before = store.epoch;
        let epoch = Epoch {
            number: before.map_or(0, |epoch| epoch.number) + 1,
            holder: own,
        };
        let is_own = before.is_none_or(|before| store.held.get(&index) == Some(&before));
        let unseen = match is_own || store.is_released {
            true => Duration::ZERO,
            false => now.since(store.alive_at),
        };
        (store.epoch, store.is_released, store.alive_at) = (Some(epoch), false, now);
        store.held.insert(index, epoch);
        store.last_shown.remove(&index);
        let state = (!is_own).then(|| Box::new(store.state.clone()));
        let is_replaced = state.is_some();
        let granted = EpochEvent::Granted {
            epoch,
            state,
            unseen,
        };
        self.managers[index].handle(Event::Epoch(granted), now);
        if is_replaced {
            // The SA has the registrations from the store, and passes them on.
            let groups = Arc::new(self.groups.clone());
            self.managers[index].regroup(groups, now);
        }
        self.announce_epoch();
    }

    /// Stores the state of a manager that holds the epoch.
    fn store(&mut self, index: usize, state: SavedCoreState) {
        if !self.store_mut().answers(index) {
            // A dead manager does not repeat the write, so the state is lost.
            if self.managers[index].is_alive() {
                self.schedule(BEAT, move |world| world.store(index, state));
            }
            return;
        }
        let store = self.store_mut();
        if store.held.get(&index) != store.epoch.as_ref() {
            return;
        }
        let is_new_plan = store.state.generation != state.generation;
        store.state = state;
        if is_new_plan {
            self.announce_plan();
        }
    }

    /// Informs all managers except the holder about the epoch, after one heartbeat. A manager that
    /// held an earlier epoch is deposed.
    fn announce_epoch(&mut self) {
        self.schedule(BEAT, |world| {
            let now = world.now;
            let Some(epoch) = world.epoch() else { return };
            for index in 0..world.managers.len() {
                let held = world.store_mut().held.get(&index).copied();
                let is_connected = world.store_mut().answers(index);
                if held == Some(epoch) || !is_connected || !world.managers[index].is_alive() {
                    continue;
                }
                if let Some(ended) = held {
                    world.store_mut().held.remove(&index);
                    let deposed = EpochEvent::Deposed { ended, by: epoch };
                    world.managers[index].handle(Event::Epoch(deposed), now);
                }
                world.show_store(index);
            }
        });
    }

    /// Shows a new plan to the managers that do not hold the epoch, at most once per
    /// [`FOLLOW_PLAN`].
    fn announce_plan(&mut self) {
        let now = self.now;
        let store = self.store_mut();
        if store.plan_shown_at > now {
            return;
        }
        let at = (now + BEAT).max(store.plan_shown_at + FOLLOW_PLAN);
        store.plan_shown_at = at;
        self.schedule(at.since(now), |world| {
            for index in 0..world.managers.len() {
                if world.store_mut().held.get(&index).copied() != world.epoch() {
                    world.show_store(index);
                }
            }
        });
    }

    /// Lets a starting manager read the store.
    pub(super) fn schedule_first_read(&mut self, index: usize) {
        if self.shared.is_some() {
            self.schedule(ANSWER_DELAY, move |world| world.show_store(index));
        }
    }

    /// Shows a manager the store, as the store's thread does at the start and at every change.
    pub(super) fn show_store(&mut self, index: usize) {
        let now = self.now;
        let store = self.shared.as_mut();
        let Some(store) = store.filter(|store| store.answers(index)) else {
            return;
        };
        store.last_shown.insert(index, store.state.clone());
        let (epoch, plan) = (store.epoch, store.state.generation);
        let claims = store.state.claims.clone();
        if epoch.is_some() && self.managers[index].is_alive() {
            let events = [
                EpochEvent::Seen(epoch),
                EpochEvent::Claims(claims),
                EpochEvent::Positions(store.state.positions.clone()),
                EpochEvent::Cabling(Arc::new(store.state.cabling.recalled())),
                EpochEvent::MKeys {
                    generations: store.state.generations,
                    is_pushing: store.state.is_pushing,
                },
                EpochEvent::Footprints(store.state.footprints.clone()),
                EpochEvent::Planned(plan),
            ];
            for event in events {
                self.managers[index].handle(Event::Epoch(event), now);
            }
        }
    }

    /// Forgets which epoch a manager holds and which state it was shown, because it starts.
    pub(super) fn forget_held(&mut self, index: usize) {
        if let Some(store) = &mut self.shared {
            store.held.remove(&index);
            store.last_shown.remove(&index);
        }
    }
}
