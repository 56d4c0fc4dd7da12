//! The inventory: the state of the hardware as last reported, and the working state of sweeps.
//!
//! Sweeps and pushes update the inventory. All other views of the subnet derive from the inventory,
//! and are immutable.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rsm_config::m_keys::KeyHolder;
use rsm_ids::{Guid, Lid, PortKey};
use rsm_mad::wire::attr::{PortInfo, PortPhysicalState, PortState};
use rsm_model::alias_guids::AliasGuids;
use rsm_model::expected::Expected;
use rsm_model::managed::BlockKey;
use rsm_model::whole::{Step, Whole};
use rsm_model::{Hardware, InventoryNode, InventoryPort};

use super::adaptive_trials::AdaptiveTrials;
use super::duplicates::Rights;
use super::fault::Faults;
use super::held_keys::HeldKeys;
use super::kind_answers::KindAnswers;
use super::paths::LastSearch;
use super::port_states::PortStateProofs;
use super::unverified::UnverifiedPorts;
use super::vports::VPortReading;
use crate::link_step::{BouncedLink, LinkStep};

/// The whole subnet as last seen, with the policy and the working state of sweeps.
#[derive(Clone, Debug, Default)]
pub struct Inventory {
    /// State of the hardware.
    pub hardware: Hardware,
    /// Wrong or missing answers, kept until an answer ends them.
    pub faults: Faults,
    /// Ports that have a right to a GUID although the GUID was found elsewhere.
    pub rights: Rights,
    /// Nodes that may be dead, which paths avoid. A suspect left a Get unanswered, or several of
    /// its cables went down at once, and it has answered nothing since.
    pub suspects: BTreeSet<Guid>,
    /// M_Keys of ports, set by [`Inventory::use_m_keys`].
    pub(super) m_keys: HeldKeys,
    /// The missing parts of the subnet, including parts of an earlier run that have not answered
    /// yet.
    pub expected: Arc<Expected>,
    /// Cables that the master has stored, on a standby that shares the store; otherwise empty.
    pub stored_cabling: Arc<Expected>,
    /// The subnet manager's own port in the former run.
    pub local_before: Option<PortKey>,
    /// The subnet manager's own port according to the host's driver, which knows the port before
    /// the port answers.
    pub attached: Option<KeyHolder>,
    /// Ports that may not hold the values of the last Set; a sweep must read them.
    pub unverified: UnverifiedPorts,
    /// Links that were bounced to change their MTU or VLs, by the port that was set to Down.
    pub bounced: BTreeMap<PortKey, BouncedLink>,
    /// Ports of switches to disable, because the port at the other end sends traps without an end,
    /// or because an operator has disabled them.
    pub disabling: BTreeSet<PortKey>,
    /// Ports that operators ordered to bounce or enable, and ports to disable while their links are
    /// down. An order stays until its Sets are answered or fail.
    pub link_orders: BTreeMap<PortKey, LinkStep>,
    /// The highest multicast LID in use: sweeps read the multicast tables of switches without a
    /// valid MulticastFDBTop up to this LID.
    pub multicast_top: Option<Lid>,
    /// Planned alias GUIDs. Sweeps read GUIDInfo of their ports.
    pub alias_guids: Arc<AliasGuids>,
    /// Whether any port has, or once had, alias GUIDs.
    pub named: bool,
    /// Trials of adaptive routing, by type of switch.
    pub adaptive_trials: AdaptiveTrials,
    /// Answers of kinds of devices to QoSConfigSL.
    pub(super) rate_limit_answers: KindAnswers,
    /// Number of successive unanswered Gets of the rate limits of each virtual port.
    pub(super) rate_limit_silences: BTreeMap<BlockKey, u8>,
    /// Number of refused Sets of the rate limits of each virtual port since it last accepted one.
    pub(super) rate_limit_refusals: BTreeMap<BlockKey, u8>,
    /// State of reading virtual ports, in addition to the records of the physical ports.
    pub(super) vport_reading: VPortReading,
    /// Proofs that SwitchPortStateTables are correct.
    pub port_state_proofs: PortStateProofs,
    /// Reason for a search of all paths since the last call of
    /// [`Inventory::take_full_search_reason`]; `None` if there was no such search.
    pub(super) full_search_reason: Option<&'static str>,
    /// State of the last search for paths.
    pub(super) search: Option<LastSearch>,
}

impl Inventory {
    /// The port of this subnet manager; `None` before its first answer.
    pub fn own_port(&self) -> Option<&InventoryPort> {
        self.hardware.port(self.hardware.local?)
    }

    /// PortInfo of the subnet manager's port; `None` before its first answer.
    pub fn own_info(&self) -> Option<PortInfo> {
        self.own_port()?.info
    }

    /// GUID of the subnet manager's port; zero before its first answer.
    pub fn own_guid(&self) -> Guid {
        self.own_port().map_or(Guid::ZERO, |port| port.guid)
    }

    /// Whether the link of a port is down and could come up: the port does not show that it is
    /// disabled.
    pub fn may_come_up(&self, port: PortKey) -> bool {
        let port = self.hardware.port(port);
        let info = port.and_then(|port| port.info.as_ref());
        info.is_some_and(|info| {
            info.port_state() == PortState::Down
                && info.port_physical_state() != PortPhysicalState::Disabled
        })
    }

    /// Reason for a search of all paths since the last call; `None` if there was no such search.
    pub fn take_full_search_reason(&mut self) -> Option<Whole> {
        let why = self.full_search_reason.take()?;
        Some(Whole::new(Step::Paths, why))
    }

    /// Removes a node and the cables to it.
    pub fn remove(&mut self, guid: Guid) -> Option<InventoryNode> {
        let node = self.hardware.remove(guid)?;
        self.suspects.remove(&guid);
        self.port_state_proofs.forget(guid);
        self.vport_reading.forget(guid);
        self.rate_limit_silences
            .retain(|key, _| key.port.node != guid);
        self.rate_limit_refusals
            .retain(|key, _| key.port.node != guid);
        self.m_keys.forget(guid);
        Some(node)
    }

    /// Whether both ends of a bounced link are Active again.
    pub fn has_returned(&self, near: PortKey, link: &BouncedLink) -> bool {
        [near, link.far].into_iter().all(|end| {
            let port = self.hardware.port(end);
            port.is_some_and(InventoryPort::is_active)
        })
    }

    /// Records that a cable joins `a` and `b`, and that their former cables are gone.
    pub fn join(&mut self, a: PortKey, b: PortKey) {
        for end in self.hardware.join(a, b) {
            self.forget_m_key(end);
        }
    }

    /// Records that the cable at `key` is gone. Returns the other end of the cable; `None` if no
    /// cable was known.
    pub fn unplug(&mut self, key: PortKey) -> Option<PortKey> {
        let peer = self.hardware.unplug(key)?;
        for end in [key, peer] {
            self.forget_m_key(end);
        }
        Some(peer)
    }
}
