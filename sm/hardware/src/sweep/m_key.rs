//! Ports that hold an M_Key other than this subnet manager's (IBA 14.2.4).
//!
//! The protection level of such a port decides how it answers Gets without the right key: at level
//! 0 it shows its key, at level 1 it hides its key, and at levels 2 and 3 it does not answer. At
//! every level it drops Sets without the right key, and does not answer them.

use std::collections::BTreeSet;

use rsm_config::m_keys::{Generations, KeyHolder, MKeyPolicy};
use rsm_ids::{Guid, PortKey, PortNum};
use rsm_mad::client::MKeys;
use rsm_mad::wire::attr::{NodeType, PortInfo};
use rsm_model::MKeySign;
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};

use super::Query;
use super::fault::Fault;
use super::held_keys::KeyStatus;
use super::inventory::Inventory;

/// Maximum number of ports that a finding names; the finding counts further ports.
const SHOWN: usize = 5;

/// Maximum number of missing or silent ports whose keys are tried behind a port: these ports may
/// have been moved there.
const MOVED_MAX: usize = 8;

/// Number of keys of each expected neighbour that are tried before keys of other ports.
const LIKELY_KEYS: usize = 3;

impl Inventory {
    /// The port that holds the M_Key for `key`, and its GUID.
    fn holder_of(&self, key: PortKey) -> KeyHolder {
        let port = self.hardware.key_holder(key);
        KeyHolder {
            port,
            guid: self
                .hardware
                .port(port)
                .map_or(Guid::ZERO, |port| port.guid),
            is_switch: self.hardware.is_switch(key.node),
        }
    }

    /// Whether all ports share one key, or have none, so that keys do not depend on the port.
    fn has_one_key(&self) -> bool {
        self.m_keys.policy().is_uniform()
    }

    /// The M_Keys for a Set to `key`. Port 0 of a channel adapter stands for the port that
    /// [`Hardware::paths_to`](rsm_model::Hardware::paths_to) leads to.
    pub fn m_keys_to(&self, key: PortKey) -> MKeys {
        if self.has_one_key() {
            return self.m_keys.policy().one.into();
        }
        self.m_keys
            .for_request(self.holder_of(self.entry_port(key)))
    }

    /// The M_Keys for a Get to `key`; port 0 has the meaning of [`Inventory::m_keys_to`].
    pub(crate) fn m_keys_to_read(&self, key: PortKey) -> MKeys {
        if self.has_one_key() {
            return self.m_keys.policy().one.into();
        }
        let holder = self.holder_of(self.entry_port(key));
        let info = self
            .hardware
            .port(holder.port)
            .and_then(|port| port.info.as_ref());
        let protection = info.map(PortInfo::m_key_protect_bits);
        self.m_keys.for_get(holder, protection)
    }

    /// The M_Keys for a Get of SMInfo from the manager at `key`, which may have rotated the keys of
    /// the subnet. `silent` is the number of successive unanswered Gets.
    pub fn m_keys_to_manager(&self, key: PortKey, silent: usize) -> MKeys {
        let keys = self.m_keys_to_read(key);
        let info = self.hardware.port(key).and_then(|port| port.info.as_ref());
        let guards = info.is_some_and(|info| info.m_key_protect_bits() > 1);
        if self.has_one_key() || !guards {
            return keys;
        }
        let holder = self.holder_of(key);
        let keys = self.m_keys.for_manager(holder);
        let later = self.m_keys.policy().later(holder).into_iter();
        let mut all = keys.as_slice().to_vec();
        all.extend(later.filter(|key| !keys.as_slice().contains(key)));
        let others = all.len() - 1;
        if !silent.is_multiple_of(2) && others > 0 {
            // Only every other Get tries another key: a Get may also be lost although its key is
            // right.
            all.swap(0, 1 + silent / 2 % others);
        }
        MKeys::several(all)
    }

    /// Records that `key` answered a Get with this M_Key. At protection levels 2 and 3, the answer
    /// proves that the port holds the key.
    pub fn key_answered(&mut self, key: PortKey, m_key: u64) {
        let holder = self.holder_of(key);
        let info = self
            .hardware
            .port(holder.port)
            .and_then(|port| port.info.as_ref());
        let guards = info.is_some_and(|info| info.m_key_protect_bits() > 1);
        if guards && !self.has_one_key() {
            self.m_keys.on_key(holder, m_key, false);
        }
    }

    /// Forgets the key of a channel adapter's or router's port that has lost its cable.
    pub(super) fn forget_m_key(&mut self, port: PortKey) {
        if self.hardware.key_holder(port) == port {
            self.m_keys.forget_port(port);
        }
    }

    /// The port by which a packet to `key` enters its node.
    fn entry_port(&self, key: PortKey) -> PortKey {
        let Some(node) = self.hardware.node(key.node) else {
            return key;
        };
        if node.is_switch() || key.port != PortNum::ZERO {
            return key;
        }
        if let Some(local) = self.hardware.local.filter(|local| local.node == key.node) {
            return local;
        }
        let is_off_path = |&(_, peer): &(PortNum, PortKey)| {
            let neighbour = self.hardware.node(peer.node);
            let path = neighbour.and_then(|neighbour| neighbour.path.child(peer.port).ok());
            path != Some(node.path)
        };
        let cables = node
            .external_ports()
            .filter_map(|(number, port)| Some((number, port.peer?)));
        let entry = cables.min_by_key(is_off_path);
        entry.map_or(key, |(number, _)| PortKey::new(key.node, number))
    }

    /// The M_Keys for NodeInfo of the node behind `from`, or of the local node if `from` is `None`.
    pub(super) fn m_keys_behind(&self, from: Option<PortKey>) -> MKeys {
        if self.has_one_key() {
            return self.m_keys.policy().one.into();
        }
        let Some(from) = from else {
            let known = self.hardware.local.map(|local| self.holder_of(local));
            let before = self.local_before.map(|local| self.holder_of(local));
            let local = known.or(self.attached).or(before);
            let keys = local.map(|local| self.m_keys.for_get(local, None));
            return keys.unwrap_or(self.m_keys.policy().one.into());
        };
        let (mut candidates, mut unlikely) = (Vec::new(), Vec::new());
        let policy = self.m_keys.policy();
        for holder in self.expected_behind(from) {
            let mut keys = self.m_keys.by_likelihood(holder).into_iter();
            candidates.extend(keys.by_ref().take(LIKELY_KEYS));
            unlikely.extend(keys);
        }
        candidates.extend(self.moved_ports(from).map(|holder| policy.planned(holder)));
        candidates.push(policy.one);
        candidates.extend(unlikely);
        self.m_keys.behind_port(from, &candidates)
    }

    /// The ports that may be behind `from`, the most likely first: the ports that were there
    /// according to the cabling stored by the master, to this run, to an earlier run, or to the
    /// files of another manager.
    fn expected_behind(&self, from: PortKey) -> Vec<KeyHolder> {
        let mut holders: Vec<KeyHolder> = Vec::new();
        let known = self.hardware.port(from).and_then(|port| port.peer);
        // The master has seen the cable more recently than this manager.
        let stored = self.stored_cabling.port(from).map(|lost| lost.peer);
        let before = self.expected.port(from).map(|lost| lost.peer);
        for peer in [stored, known, before].into_iter().flatten() {
            let holder = self.expected_holder(peer);
            if !holders.contains(&holder) {
                holders.push(holder);
            }
        }
        let foreign = &self.m_keys.policy().foreign;
        let here = self
            .hardware
            .port(from)
            .map_or(Guid::ZERO, |port| port.guid);
        if let Some(&guid) = foreign.neighbors.get(&(here, from.port.0)) {
            holders.push(KeyHolder {
                port: PortKey::new(guid, PortNum::ZERO),
                guid,
                is_switch: true,
            });
        }
        holders
    }

    /// At most [`MOVED_MAX`] ports that may have been moved to `from`: ports that do not answer at
    /// their known place, and missing ports.
    fn moved_ports(&self, from: PortKey) -> impl Iterator<Item = KeyHolder> + '_ {
        let missing = self.expected.ports().map(|(port, _)| port);
        let silent = self.faults.unanswering();
        let silent = silent.filter_map(move |port| self.hardware.port(port)?.peer);
        let others = silent
            .chain(missing)
            .filter(move |port| port.node != from.node);
        others
            .take(MOVED_MAX)
            .map(move |port| self.expected_holder(port))
    }

    /// Like [`Inventory::holder_of`], also for a node that has not answered yet.
    fn expected_holder(&self, key: PortKey) -> KeyHolder {
        if self.hardware.node(key.node).is_some() {
            return self.holder_of(key);
        }
        let stored = self.stored_cabling.node(key.node);
        let lost = stored.or_else(|| self.expected.node(key.node));
        let is_switch = lost.is_some_and(|node| node.kind == NodeType::Switch);
        let port = match is_switch {
            true => PortKey::new(key.node, PortNum::ZERO),
            false => key,
        };
        let end = lost.and_then(|node| node.ends.iter().find(|end| end.port == port.port));
        KeyHolder {
            port,
            guid: end.map_or(Guid::ZERO, |end| end.guid),
            is_switch,
        }
    }

    /// Handles the M_Key in PortInfo of a port. Returns whether the port hides its key and must be
    /// asked again with another key. PortInfo of a switch's external port is ignored.
    pub(crate) fn check_m_key(&mut self, key: PortKey, info: &PortInfo) -> bool {
        if self.hardware.key_holder(key) != key {
            return false;
        }
        let hides = info.m_key() == 0 && info.m_key_protect_bits() != 0;
        let holder = self.holder_of(key);
        // The end of a lease removes the protection and keeps the key, so that a manager that lost
        // its key can recover (IBA 14.2.4.2).
        let has_expired = info.m_key_lease_period() != 0 && info.m_key_protect_bits() == 0;
        match self.m_keys.on_key(holder, info.m_key(), hides) {
            KeyStatus::Known => self.hardware.unlock(key),
            KeyStatus::Foreign if has_expired && !self.has_one_key() => {
                self.m_keys.inherit(holder, info.m_key());
                self.hardware.unlock(key);
            }
            KeyStatus::Foreign => self.hardware.lock(key, MKeySign::Shown),
            KeyStatus::Hidden => {}
            KeyStatus::TryNext => return true,
        }
        false
    }

    /// Handles the answer to a Set of PortInfo with the M_Key `planned`. Returns the PortInfo, with
    /// the key filled in if the agent hides it: some agents hide a key that they have just
    /// accepted, because the request had the former key.
    pub(crate) fn see_set_m_key(
        &mut self,
        key: PortKey,
        info: &PortInfo,
        planned: u64,
    ) -> PortInfo {
        let mut info = *info;
        if self.has_one_key() {
            // Leave the answer unchanged: a device that does not keep the key must get a finding.
            return info;
        }
        if info.m_key() == 0 && info.m_key_protect_bits() != 0 {
            info.set_m_key(planned);
        }
        self.check_m_key(key, &info);
        info
    }

    /// Records that a Get of `key` was not answered, possibly because of a wrong key.
    pub(super) fn record_unanswered_get(&mut self, key: PortKey) {
        let holder = self.holder_of(self.entry_port(key));
        self.m_keys.record_silence(holder);
    }

    /// Records that no node behind `from` answered.
    pub(super) fn record_silence_behind(&mut self, from: PortKey) {
        self.m_keys.record_silence_behind(from);
    }

    /// Whether `m_key` may be the key of the port `key`, as far as keys are known; `None` stands
    /// for an unknown port.
    pub fn accepts_m_key(&self, key: Option<PortKey>, m_key: u64) -> bool {
        let unknown = PortKey::new(Guid::ZERO, PortNum::ZERO);
        self.m_keys
            .accepts(self.holder_of(key.unwrap_or(unknown)), m_key)
    }

    /// Ports that answered and do not hold their planned key; empty if all ports share one key.
    pub fn ports_behind(&self) -> &BTreeSet<PortKey> {
        self.m_keys.behind()
    }

    /// Number of ports that hold their own planned key.
    pub fn ports_with_keys(&self) -> usize {
        self.m_keys.settled()
    }

    /// The latest key generations that ports showed; `None` unless they are later than the
    /// generations in use.
    pub fn generations_ahead(&self) -> Option<Generations> {
        self.m_keys.ahead()
    }

    /// Records that another manager has rotated keys: the keys of ports are no longer known, and
    /// the planned keys are more likely than the former keys.
    pub fn distrust_m_keys(&mut self) {
        self.m_keys.distrust();
    }

    /// Whether no node answers behind the local port although its link is up.
    pub fn is_alone_behind_a_link(&self) -> bool {
        silent_beyond(self).is_some()
    }

    /// Prepares for a full sweep, which tries every key once more.
    pub(super) fn try_m_keys_again(&mut self) {
        self.m_keys.try_again();
    }

    /// Records that a Set to `key` was not answered. If the port hides its M_Key, this is a sign of
    /// a foreign key.
    pub(crate) fn set_ignored(&mut self, key: PortKey) {
        let holder = self.hardware.key_holder(key);
        let info = self
            .hardware
            .port(holder)
            .and_then(|port| port.info.as_ref());
        let hides = info.is_some_and(|info| info.m_key() == 0 && info.m_key_protect_bits() != 0);
        if hides && self.hardware.locked(holder).is_none() {
            self.hardware.lock(holder, MKeySign::SetIgnored);
        }
    }

    /// Records that `key` reported a wrong M_Key from this subnet manager. Returns whether this is
    /// the first sign of a foreign key. If ports have keys of their own, the report is no sign:
    /// requests try several keys, and the port's key may have changed since the request.
    pub fn key_refused(&mut self, key: PortKey) -> bool {
        let holder = self.hardware.key_holder(key);
        let is_first_sign = self.has_one_key() && self.hardware.locked(holder).is_none();
        if is_first_sign {
            self.hardware.lock(holder, MKeySign::Reported);
        }
        is_first_sign
    }

    /// Whether the port `key` is known to hold `m_key`, and ports have keys of their own.
    pub fn holds_m_key(&self, key: PortKey, m_key: u64) -> bool {
        self.m_keys.holds(self.holder_of(key), m_key)
    }

    /// Whether this subnet manager may have sent `m_key` to the port `key`.
    pub fn may_have_sent(&self, key: Option<PortKey>, m_key: u64) -> bool {
        let policy = self.m_keys.policy();
        match key {
            Some(key) if !policy.is_uniform() => {
                policy.candidates(self.holder_of(key)).contains(&m_key)
            }
            _ => policy.one == m_key,
        }
    }

    /// Uses these M_Keys and this protection level from now on. If the keys change, forgets which
    /// ports held foreign keys.
    pub fn use_m_keys(&mut self, policy: &MKeyPolicy, protection: u8) {
        let mut keys = std::mem::take(&mut self.m_keys);
        let has_changed = keys.use_policy(policy, protection > 1, |port| self.holder_of(port));
        self.m_keys = keys;
        if has_changed {
            self.hardware.unlock_all();
        }
    }
}

/// Whether a node answers NodeInfo and ignores all other Gets, as devices with a foreign key do
/// that check the M_Key of every attribute except NodeInfo.
pub(super) fn shows_node_info_only(inventory: &Inventory, guid: Guid) -> bool {
    let Some(node) = inventory.hardware.node(guid) else {
        return false;
    };
    let is_owed = |number| {
        let port = PortKey::new(guid, PortNum(number));
        inventory.faults.is_owed(Query::Port(port))
    };
    let is_end_port = |number: usize| (number == 0) == (node.kind() == NodeType::Switch);
    let mut ports = node.ports.iter().enumerate();
    node.description.is_none()
        && inventory.faults.is_owed(Query::Description(guid))
        && ports.any(|(number, port)| {
            is_end_port(number) && port.info.is_none() && is_owed(number as u8)
        })
}

/// Findings about M_Keys.
pub(super) fn findings(inventory: &Inventory, place: impl Fn(PortKey) -> String) -> Vec<Finding> {
    let finding = |subject, text| {
        let kind = FindingKind::MKeyMismatch;
        Finding::new(kind, subject, Severity::Error, text)
    };
    let locked: Vec<(PortKey, MKeySign)> = inventory.hardware.all_locked().collect();
    let mut findings = Vec::new();
    if let [(only, sign)] = locked[..] {
        let text = format!("{} {}; {REMEDY}", place(only), describe(sign));
        findings.push(finding(Subject::Port(only), text));
    } else if !locked.is_empty() {
        let shown: Vec<String> = locked
            .iter()
            .take(SHOWN)
            .map(|&(port, _)| place(port))
            .collect();
        let more = locked.len() - shown.len();
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        let text = format!(
            "{} ports hold an M_Key other than sm.m_key and ignore every Set: {}{more}; {REMEDY}",
            locked.len(),
            shown.join(", "),
        );
        findings.push(finding(Subject::Subnet, text));
    }
    if let Some(local) = silent_beyond(inventory) {
        let text = format!(
            "no node answers behind {}, the port of this subnet manager, although its link is up: the switch there is dead, \
             or it holds an M_Key other than sm.m_key with protection level 2 or 3; no part of the subnet is managed; \
             {REMEDY}",
            place(local)
        );
        findings.push(finding(Subject::Port(local), text));
    }
    findings
}

const REMEDY: &str = "its LID, tables and links stay as they are; set sm.m_key to the key of the subnet manager before, or \
                      let the lease of the key run out, or reset the device";

/// A sign of a foreign key in the words of a finding.
fn describe(sign: MKeySign) -> &'static str {
    match sign {
        MKeySign::Shown => {
            "shows an M_Key other than sm.m_key, and gets no Sets, which it would ignore"
        }
        MKeySign::SetIgnored => {
            "hides an M_Key (protection level 1) other than sm.m_key, and ignores every Set"
        }
        MKeySign::Reported => {
            "reports that this subnet manager uses a wrong M_Key (trap 256), and ignores its requests"
        }
    }
}

/// The local port, if its link is up and no node behind it answers; `None` otherwise.
fn silent_beyond(inventory: &Inventory) -> Option<PortKey> {
    let local = inventory.hardware.local?;
    let is_alone = inventory.hardware.len() == 1;
    let unanswering = matches!(
        inventory.faults.port(local),
        Some(Fault::Unanswering { .. })
    );
    (is_alone && unanswering).then_some(local)
}
