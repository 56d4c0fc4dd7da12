//! Ports that hold an M_Key other than this subnet manager's (IBA 14.2.4).
//!
//! Such a port answers Gets by its protection level: at 0 with its key, at 1 without its key, at 2
//! and 3 not at all. At every level it drops each Set without an answer.

use rsm_ids::{Guid, PortNum};
use rsm_mad::wire::attr::{NodeType, PortInfo};

use super::Query;
use super::fault::Fault;
use super::inventory::{Inventory, PortKey};
use crate::findings::{Finding, FindingKind, Severity, Subject};

/// Ports that a finding names; it counts the others.
const SHOWN: usize = 5;

/// The sign that a port holds another M_Key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sign {
    /// It shows another key.
    Shown,
    /// It hides a key, and ignored a Set.
    SetIgnored,
    /// It reported a packet of this subnet manager as one with a wrong key (trap 256).
    Reported,
}

impl Inventory {
    /// The port that holds the M_Key for `key`: port 0 of a switch, otherwise the port itself.
    fn key_holder(&self, key: PortKey) -> PortKey {
        match self.node(key.node) {
            Some(node) if node.is_switch() => PortKey::new(key.node, PortNum::ZERO),
            _ => key,
        }
    }

    /// Whether the device drops Sets to `key` for their M_Key.
    pub fn is_locked(&self, key: PortKey) -> bool {
        self.faults.locked(self.key_holder(key)).is_some()
    }

    /// Takes the PortInfo of an end port.
    pub(super) fn see_m_key(&mut self, key: PortKey, info: &PortInfo) {
        if self.key_holder(key) != key {
            return;
        }
        let hides = info.m_key() == 0 && info.m_key_protect_bits() != 0;
        if info.m_key() != 0 && info.m_key() != self.m_key {
            self.faults.lock(key, Sign::Shown);
        } else if !hides {
            self.faults.unlock(key);
        }
    }

    /// Records that a Set to `key` got no answer. A hidden M_Key, if there may be one, explains it.
    pub fn set_ignored(&mut self, key: PortKey) {
        let holder = self.key_holder(key);
        let info = self.port(holder).and_then(|port| port.info.as_ref());
        let hides = info.is_some_and(|info| info.m_key() == 0 && info.m_key_protect_bits() != 0);
        if hides && self.faults.locked(holder).is_none() {
            self.faults.lock(holder, Sign::SetIgnored);
        }
    }

    /// Records that `key` reported a wrong M_Key from this subnet manager. Returns whether this is
    /// the first sign.
    pub fn key_refused(&mut self, key: PortKey) -> bool {
        let holder = self.key_holder(key);
        let news = self.faults.locked(holder).is_none();
        if news {
            self.faults.lock(holder, Sign::Reported);
        }
        news
    }

    /// Uses another M_Key from now on, and forgets the signs about the one before.
    pub fn use_m_key(&mut self, m_key: u64) {
        if self.m_key != m_key {
            self.m_key = m_key;
            self.faults.unlock_all();
        }
    }
}

/// Whether a node answers NodeInfo and ignores all other Gets, as devices do that do not check the
/// key of NodeInfo.
pub(super) fn shows_node_info_only(inventory: &Inventory, guid: Guid) -> bool {
    let Some(node) = inventory.node(guid) else {
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
    let locked: Vec<(PortKey, Sign)> = inventory.faults.all_locked().collect();
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

fn describe(sign: Sign) -> &'static str {
    match sign {
        Sign::Shown => {
            "shows an M_Key other than sm.m_key, and is sent no Set, as it would ignore it"
        }
        Sign::SetIgnored => {
            "hides an M_Key (protection level 1) other than sm.m_key, and ignores every Set"
        }
        Sign::Reported => {
            "reports that this subnet manager uses a wrong M_Key (trap 256), and ignores what it sends"
        }
    }
}

/// The local port, if its link is up and no node behind it answers.
fn silent_beyond(inventory: &Inventory) -> Option<PortKey> {
    let local = inventory.local?;
    let is_alone = inventory.len() == 1;
    let unanswering = matches!(
        inventory.faults.port(local),
        Some(Fault::Unanswering { .. })
    );
    (is_alone && unanswering).then_some(local)
}
