//! The M_Key that each port holds, as far as answers show it.
//!
//! At protection level 0, a port shows its key. From level 1 on, it shows the key only to requests
//! with that key; at levels 2 and 3 it answers no other requests. A key is therefore known once a
//! PortInfo shows it. Until then, Gets of PortInfo try the [candidates](MKeyPolicy::candidates) one
//! by one, and other requests try several candidates in turn.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use rsm_config::m_keys::{Generations, KeyHolder, MKeyPolicy};
use rsm_ids::{Guid, PortKey, PortNum};
use rsm_mad::client::MKeys;

/// Known facts about the key of one port.
#[derive(Clone, Copy, Default, Debug)]
struct State {
    /// The key that the port holds, 0 if it has no key; `None` while the key is unknown.
    held: Option<u64>,
    /// Number of candidates tried without success since the key became unknown.
    tried: usize,
    /// Whether a Get has been left unanswered since the last PortInfo.
    is_silent: bool,
    /// Whether another manager has rotated keys since the port last showed `held`.
    is_unverified: bool,
    /// While `is_unverified`, the key that the other manager may have set at the port in its
    /// rotation; `None` until the policy with that key arrives.
    given: Option<u64>,
}

/// Knowledge of a port's key, as the M_Key in a PortInfo shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum KeyStatus {
    /// The port holds a key of this subnet manager, or no key.
    Known,
    /// The port shows a key that this subnet manager does not have.
    Foreign,
    /// The port hides its key, which may be the next candidate.
    TryNext,
    /// The port hides its key and has refused all candidates, or it has a protection level without
    /// a key.
    Hidden,
}

/// The keys of all ports.
#[derive(Clone, Default)]
pub(super) struct HeldKeys {
    policy: MKeyPolicy,
    /// Whether ports that have not answered yet may require the key for Gets as well as for Sets.
    guards_gets: bool,
    ports: BTreeMap<PortKey, State>,
    /// Ports that do not hold their planned key.
    behind: BTreeSet<PortKey>,
    /// Number of candidates tried without an answer for the unknown node behind each port.
    tried_behind: BTreeMap<PortKey, usize>,
    /// Latest key generations that ports showed.
    seen: Generations,
}

impl std::fmt::Debug for HeldKeys {
    /// Formats the state without secret keys.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (ports, behind) = (self.ports.len(), self.behind.len());
        write!(f, "{:?}, {ports} ports, {behind} behind", self.policy)
    }
}

impl HeldKeys {
    /// The policy of keys in use.
    pub(super) fn policy(&self) -> &MKeyPolicy {
        &self.policy
    }

    /// Changes the policy of keys. If `guards_gets` is true, ports may require the key for Gets as
    /// well as for Sets. Returns whether the policy differs from the former policy.
    pub(super) fn use_policy(
        &mut self,
        policy: &MKeyPolicy,
        guards_gets: bool,
        holder: impl Fn(PortKey) -> KeyHolder,
    ) -> bool {
        self.guards_gets = guards_gets || !policy.foreign.by_port.is_empty();
        if self.policy == *policy {
            return false;
        }
        self.policy = policy.clone();
        self.tried_behind.clear();
        for state in self.ports.values_mut() {
            state.tried = 0;
        }
        let ports: Vec<PortKey> = self.ports.keys().copied().collect();
        for port in ports {
            self.compare(holder(port));
        }
        true
    }

    /// Records that another manager has rotated keys: each port may hold its planned key now.
    pub(super) fn distrust(&mut self) {
        for state in self.ports.values_mut() {
            (state.is_unverified, state.given) = (true, None);
        }
    }

    /// Prepares for a full sweep, which tries every candidate once more.
    pub(super) fn try_again(&mut self) {
        self.tried_behind.clear();
        for state in self.ports.values_mut() {
            state.tried = 0;
        }
    }

    /// The keys for a Get to `holder`, whose last PortInfo shows the protection level `protection`.
    pub(super) fn for_get(&self, holder: KeyHolder, protection: Option<u8>) -> MKeys {
        let state = self.ports.get(&holder.port).copied().unwrap_or_default();
        if state.is_silent || protection.map_or(self.guards_gets, |level| level > 1) {
            return self.for_request(holder);
        }
        match (state.held, state.tried) {
            // Other candidates are derived only when needed, because derivation takes longer.
            (None, 0) => self.policy.planned(holder).into(),
            _ => self.for_request(holder).first().into(),
        }
    }

    /// The keys for a request to `holder`. If its key is known: that key, and then the planned key,
    /// which the port may have got since. After a rotation by another manager, the key of that
    /// rotation comes first. If the key of `holder` is not known: the next candidates.
    pub(super) fn for_request(&self, holder: KeyHolder) -> MKeys {
        if self.policy.is_uniform() {
            return self.policy.one.into();
        }
        let state = self.ports.get(&holder.port).copied().unwrap_or_default();
        match state.held {
            // A port without a key accepts any key.
            Some(0) => self.policy.planned(holder).into(),
            Some(held) => match self.policy.planned(holder) {
                planned if planned == held || planned == 0 => held.into(),
                planned if state.is_unverified => {
                    let given = state.given.unwrap_or(planned);
                    let later = (planned != given).then_some(planned);
                    MKeys::several([given, held].into_iter().chain(later))
                }
                planned => MKeys::several([held, planned]),
            },
            None => chunk(&self.policy.candidates(holder), state.tried),
        }
    }

    /// The keys for a request to the port of a manager. The known key comes first, even after a
    /// rotation: requests to a manager are so frequent that the known key is recent.
    pub(super) fn for_manager(&self, holder: KeyHolder) -> MKeys {
        let held = self.ports.get(&holder.port).and_then(|state| state.held);
        match (held, self.policy.planned(holder)) {
            (Some(held), planned) if held != 0 && held != planned => {
                MKeys::several([held, planned])
            }
            _ => self.for_request(holder),
        }
    }

    /// All keys that `holder` may hold, without duplicates, the most likely first.
    pub(super) fn by_likelihood(&self, holder: KeyHolder) -> Vec<u64> {
        let held = self.ports.get(&holder.port).and_then(|state| state.held);
        let mut keys = match held.filter(|&held| held != 0) {
            Some(_) => self.for_request(holder).as_slice().to_vec(),
            None => Vec::new(),
        };
        for key in self.policy.candidates(holder) {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys
    }

    /// The keys for NodeInfo of the node behind `from`, which may hold one of `candidates`.
    pub(super) fn behind_port(&self, from: PortKey, candidates: &[u64]) -> MKeys {
        match self.tried_behind.get(&from) {
            Some(&tried) => chunk(candidates, tried),
            None if self.guards_gets => chunk(candidates, 0),
            None => candidates.first().copied().unwrap_or_default().into(),
        }
    }

    /// Records that no node behind `from` answered with the keys tried.
    pub(super) fn record_silence_behind(&mut self, from: PortKey) {
        if !self.policy.is_uniform() {
            let first = if self.guards_gets { MKeys::MAX } else { 0 };
            let tried = self.tried_behind.entry(from);
            tried
                .and_modify(|tried| *tried += MKeys::MAX)
                .or_insert(first);
        }
    }

    /// Records that `holder` did not answer with the keys tried.
    pub(super) fn record_silence(&mut self, holder: KeyHolder) {
        if self.policy.is_uniform() {
            return;
        }
        let state = self.ports.entry(holder.port).or_default();
        let was_silent = std::mem::replace(&mut state.is_silent, true);
        state.tried = match state.held.take() {
            None if was_silent => state.tried + MKeys::MAX,
            _ => 0,
        };
    }

    /// Handles the M_Key in a PortInfo. `hides` says whether the port protects a key and does not
    /// show it.
    pub(super) fn on_key(&mut self, holder: KeyHolder, shown: u64, hides: bool) -> KeyStatus {
        if self.policy.is_uniform() {
            return match shown {
                0 if hides => KeyStatus::Hidden,
                0 => KeyStatus::Known,
                key if key == self.policy.one => KeyStatus::Known,
                _ => KeyStatus::Foreign,
            };
        }
        let status = match shown {
            0 if hides => self.on_hidden_key(holder),
            key => self.on_shown_key(holder, key),
        };
        self.compare(holder);
        status
    }

    /// Handles a key that the port shows; 0 means that the port has no key.
    fn on_shown_key(&mut self, holder: KeyHolder, key: u64) -> KeyStatus {
        // Nearly every port shows its planned key in every sweep. Comparing with any other key
        // requires a derivation.
        let is_usual = key == 0 || key == self.policy.planned(holder);
        let is_known = is_usual
            || self.record_later_generation(holder, key)
            || self.policy.candidates(holder).contains(&key);
        if !is_known {
            self.ports.insert(holder.port, State::default());
            return KeyStatus::Foreign;
        }
        let state = State {
            held: Some(key),
            ..State::default()
        };
        self.ports.insert(holder.port, state);
        KeyStatus::Known
    }

    /// Records the key of another manager, which a port shows because the lease has ended. This
    /// manager can use it to set the planned key.
    pub(super) fn inherit(&mut self, holder: KeyHolder, key: u64) {
        if self.policy.is_uniform() {
            return;
        }
        let state = State {
            held: Some(key),
            ..State::default()
        };
        self.ports.insert(holder.port, state);
        self.compare(holder);
    }

    /// Records the generation of `key` if it is later than the generation in use. Returns whether
    /// it is later.
    fn record_later_generation(&mut self, holder: KeyHolder, key: u64) -> bool {
        let Some(generation) = self.policy.ahead(holder, key) else {
            return false;
        };
        let seen = match holder.is_switch {
            true => &mut self.seen.switches,
            false => &mut self.seen.others,
        };
        *seen = generation.max(*seen);
        true
    }

    /// Handles a PortInfo that hides the port's key: the key that was known or tried is wrong.
    fn on_hidden_key(&mut self, holder: KeyHolder) -> KeyStatus {
        let candidates = self.policy.candidates(holder).len();
        let state = self.ports.entry(holder.port).or_default();
        state.is_silent = false;
        state.tried = match state.held.take() {
            Some(_) => 0,
            None => state.tried + 1,
        };
        if state.tried < candidates {
            KeyStatus::TryNext
        } else {
            KeyStatus::Hidden
        }
    }

    /// Whether `holder` is known to hold `key`, and `key` is not a key shared by all ports.
    pub(super) fn holds(&self, holder: KeyHolder, key: u64) -> bool {
        let state = self.ports.get(&holder.port);
        !self.policy.is_uniform() && state.is_some_and(|state| state.held == Some(key))
    }

    /// Whether `key` may be the key of `holder`, as far as the keys are known. A port without a key
    /// accepts every key.
    pub(super) fn accepts(&self, holder: KeyHolder, key: u64) -> bool {
        if self.policy.is_uniform() {
            return self.policy.one == 0 || self.policy.one == key;
        }
        match self.ports.get(&holder.port).and_then(|state| state.held) {
            None => self.policy.candidates(holder).contains(&key),
            Some(0) => true,
            Some(held) => held == key || self.policy.planned(holder) == key,
        }
    }

    /// Updates the record of whether the port holds its planned key.
    fn compare(&mut self, holder: KeyHolder) {
        let planned = self.policy.planned(holder);
        let state = self.ports.get_mut(&holder.port);
        let is_held = state.is_some_and(|state| {
            // A port that holds its planned key cannot have got another key in the rotation.
            state.is_unverified &= state.held != Some(planned);
            state.given.get_or_insert(planned);
            state.held == Some(planned)
        });
        if self.policy.is_uniform() || is_held {
            self.behind.remove(&holder.port);
        } else {
            self.behind.insert(holder.port);
        }
    }

    /// Ports that answered, and do not hold their planned key.
    pub(super) fn behind(&self) -> &BTreeSet<PortKey> {
        &self.behind
    }

    /// Number of ports that answered and hold their planned key.
    pub(super) fn settled(&self) -> usize {
        self.ports.len().saturating_sub(self.behind.len())
    }

    /// The latest key generations that ports showed; `None` unless they are later than the
    /// generations in use.
    pub(super) fn ahead(&self) -> Option<Generations> {
        let later = self.policy.generations.later(self.seen);
        (later != self.policy.generations).then_some(later)
    }

    /// Forgets a port that vanished.
    pub(super) fn forget_port(&mut self, port: PortKey) {
        self.ports.remove(&port);
        self.behind.remove(&port);
    }

    /// Forgets a node that vanished.
    pub(super) fn forget(&mut self, node: Guid) {
        let first = PortKey::new(node, PortNum::ZERO);
        let last = PortKey::new(node, PortNum(u8::MAX));
        let range = (Bound::Included(first), Bound::Included(last));
        let ports: Vec<PortKey> = self.ports.range(range).map(|(&port, _)| port).collect();
        for port in ports {
            self.forget_port(port);
        }
    }
}

/// The next keys of `candidates` after the first `tried` keys, as many as fit into [`MKeys`]. After
/// the last candidate comes the first one again.
fn chunk(candidates: &[u64], tried: usize) -> MKeys {
    let start = match candidates.len() {
        0 => 0,
        len => tried % len,
    };
    let keys = candidates.iter().cycle().skip(start);
    MKeys::several(keys.take(candidates.len()).copied())
}

#[cfg(test)]
mod tests {
    use rsm_config::m_keys::{SECRET_BYTES, Secret};

    use super::*;

    const HOLDER: KeyHolder = KeyHolder {
        port: PortKey::new(Guid(5), PortNum(1)),
        guid: Guid(6),
        is_switch: false,
    };

    fn keys(policy: MKeyPolicy) -> HeldKeys {
        let mut keys = HeldKeys::default();
        assert!(keys.use_policy(&policy, false, |_| HOLDER));
        keys
    }

    fn own_keys() -> MKeyPolicy {
        MKeyPolicy {
            one: 0xc0ffee,
            per_port: true,
            secrets: [Secret::new([7; SECRET_BYTES])].into(),
            ..MKeyPolicy::default()
        }
    }

    #[test]
    fn a_port_that_hides_its_key_is_asked_with_every_candidate_once() {
        let policy = own_keys();
        let candidates = policy.candidates(HOLDER);
        let mut keys = keys(policy);
        let mut tried = Vec::new();
        loop {
            tried.push(keys.for_get(HOLDER, Some(1)).first());
            match keys.on_key(HOLDER, 0, true) {
                KeyStatus::TryNext => {}
                status => break assert_eq!(status, KeyStatus::Hidden),
            }
        }
        assert_eq!(tried, candidates);
        assert!(keys.behind().contains(&HOLDER.port));
    }

    #[test]
    fn after_a_rotation_the_old_and_the_new_key_are_tried_until_the_port_shows_the_new_one() {
        let mut policy = own_keys();
        let old = policy.planned(HOLDER);
        let mut keys = keys(policy.clone());
        assert_eq!(keys.on_key(HOLDER, old, false), KeyStatus::Known);
        assert_eq!(keys.for_request(HOLDER).as_slice(), [old]);
        policy.generations = policy.generations.rotated();
        assert!(keys.use_policy(&policy, false, |_| HOLDER));
        let new = policy.planned(HOLDER);
        assert_eq!(keys.for_request(HOLDER).as_slice(), [old, new]);
        assert_eq!((keys.behind().len(), keys.settled()), (1, 0));
        assert!(keys.holds(HOLDER, old) && !keys.holds(HOLDER, new));
        assert_eq!(keys.on_key(HOLDER, new, false), KeyStatus::Known);
        assert_eq!(keys.for_request(HOLDER).as_slice(), [new]);
        assert_eq!((keys.behind().len(), keys.settled()), (0, 1));
    }

    #[test]
    fn after_a_rotation_by_another_manager_the_new_key_goes_first_until_the_port_shows_one() {
        let mut policy = own_keys();
        let old = policy.planned(HOLDER);
        let mut keys = keys(policy.clone());
        assert_eq!(keys.on_key(HOLDER, old, false), KeyStatus::Known);
        policy.generations = policy.generations.rotated();
        let new = policy.planned(HOLDER);
        keys.distrust();
        assert!(keys.use_policy(&policy, true, |_| HOLDER));
        assert_eq!(keys.for_request(HOLDER).as_slice(), [new, old]);
        assert_eq!(keys.for_get(HOLDER, Some(2)).as_slice(), [new, old]);
        // This manager rotates its keys next.
        policy.generations = policy.generations.rotated();
        assert!(keys.use_policy(&policy, true, |_| HOLDER));
        let newest = policy.planned(HOLDER);
        assert_eq!(keys.for_request(HOLDER).as_slice(), [new, old, newest]);
        assert_eq!(keys.on_key(HOLDER, old, false), KeyStatus::Known);
        let sent = [old, newest];
        assert_eq!(
            keys.for_request(HOLDER).as_slice(),
            sent,
            "it has refused the other"
        );
    }

    #[test]
    fn a_port_without_a_key_is_sent_the_planned_one() {
        let policy = own_keys();
        let mut keys = keys(policy.clone());
        assert_eq!(keys.on_key(HOLDER, 0, false), KeyStatus::Known);
        assert_eq!(
            keys.for_request(HOLDER).as_slice(),
            [policy.planned(HOLDER)]
        );
        assert!(keys.accepts(HOLDER, 1));
    }

    #[test]
    fn a_key_of_a_later_generation_is_known_and_an_unrelated_key_is_foreign() {
        let policy = own_keys();
        let mut keys = keys(policy.clone());
        assert_eq!(keys.on_key(HOLDER, 0x1234, false), KeyStatus::Foreign);
        assert_eq!(keys.ahead(), None);
        let later = policy.secrets[0].m_key(2, HOLDER.port);
        assert_eq!(keys.on_key(HOLDER, later, false), KeyStatus::Known);
        let ahead = keys.ahead().expect("a later generation");
        assert_eq!((ahead.switches, ahead.others), (0, 2));
        assert!(keys.accepts(HOLDER, later) && !keys.accepts(HOLDER, 1));
    }

    #[test]
    fn a_port_that_stays_silent_is_asked_with_the_next_candidates() {
        let policy = own_keys();
        let candidates = policy.candidates(HOLDER);
        assert!(candidates.len() > MKeys::MAX);
        let mut keys = keys(policy);
        assert_eq!(keys.for_get(HOLDER, None).as_slice(), [candidates[0]]);
        keys.record_silence(HOLDER);
        assert_eq!(
            keys.for_get(HOLDER, None).as_slice(),
            &candidates[..MKeys::MAX]
        );
        keys.record_silence(HOLDER);
        assert_eq!(keys.for_get(HOLDER, None).first(), candidates[MKeys::MAX]);
    }

    #[test]
    fn shared_key_is_used_for_every_port_and_no_port_is_behind() {
        let mut keys = keys(MKeyPolicy::one(5));
        assert_eq!(keys.for_request(HOLDER).as_slice(), [5]);
        for (shown, hides, status) in [
            (0, false, KeyStatus::Known),
            (0, true, KeyStatus::Hidden),
            (5, false, KeyStatus::Known),
            (6, false, KeyStatus::Foreign),
        ] {
            assert_eq!(keys.on_key(HOLDER, shown, hides), status);
        }
        keys.record_silence(HOLDER);
        assert_eq!(keys.for_get(HOLDER, Some(3)).as_slice(), [5]);
        assert!(keys.behind().is_empty());
        assert!(keys.accepts(HOLDER, 5) && !keys.accepts(HOLDER, 6));
    }
}
