//! Compares the virtual ports of hosts' ports with the plan.

use std::collections::BTreeMap;

use rsm_ids::Lid;
use rsm_mad::wire::attr::{PortState, VPortInfo, VirtualizationInfo};
use rsm_model::fabric::PortRef;
use rsm_model::managed::BlockKey;
use rsm_model::vports::{PortVPorts, VPort, VPortKey};

use super::{Comparison, PKeyBlock, differing_p_keys};

/// The changes of the virtual ports of one port.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct VPortChanges {
    /// VirtualizationInfo, if virtual ports must be enabled or VPortStateChange cleared; else
    /// `None`.
    pub virtualization: Option<VirtualizationInfo>,
    /// Changes of virtual ports, by index.
    pub vports: BTreeMap<u16, VPortChange>,
}

impl VPortChanges {
    /// Whether a virtual port may become Active, so that its host may send requests to the SA.
    pub fn activates(&self) -> bool {
        self.vports.values().any(|change| change.info.is_some())
    }

    /// Whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.virtualization.is_none() && self.vports.is_empty()
    }
}

/// The changes of a virtual port.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct VPortChange {
    /// VPortInfo with the planned LID and state; `None` if the virtual port has both.
    pub info: Option<VPortInfo>,
    /// Blocks of the P_KeyTable that differ, lowest first.
    pub p_keys: Vec<PKeyBlock>,
}

impl Comparison<'_> {
    /// The changes of the virtual ports of a port with a LID; `None` if there are none.
    pub(super) fn vport_changes(&self, at: PortRef) -> Option<VPortChanges> {
        let vports = self.fabric.port(at).vports.as_deref()?;
        let key = self.fabric.key(at);
        self.plan.claim(key)?;
        let mut changes = VPortChanges {
            virtualization: enabled(&vports.info),
            vports: BTreeMap::new(),
        };
        for (&index, vport) in &vports.vports {
            let change = self.vport_change(vports, VPortKey::new(key, index), vport);
            if let Some(change) = change {
                changes.vports.insert(index, change);
            }
        }
        (!changes.is_empty()).then_some(changes)
    }

    /// The change of a virtual port; `None` if the virtual port is as planned, or the plan omits
    /// it. A virtual port does not become Active while it waits for its rate limits.
    fn vport_change(
        &self,
        vports: &PortVPorts,
        key: VPortKey,
        vport: &VPort,
    ) -> Option<VPortChange> {
        self.plan.lids.of_vport(vports, key)?;
        let own = self.plan.lids.vports.get(&key).copied();
        let own = own.unwrap_or(Lid::NONE);
        let wanted = self.plan.partitions.vport_table(key);
        let waits = !vport.is_active()
            && self
                .planned_blocks()
                .limits_rates(BlockKey::rate_limits(key.port, Some(key.index)))
            && self.inventory.awaits_rate_limits(key.port, key.index);
        let change = VPortChange {
            info: wanted_info(&vport.info, own).filter(|_| !waits),
            p_keys: wanted.map_or_else(Vec::new, |wanted| {
                let held = vport.p_keys.as_deref();
                differing_p_keys(held, wanted, vport.node.partition_cap, false)
            }),
        };
        (change != VPortChange::default()).then_some(change)
    }
}

/// VirtualizationInfo with virtual ports enabled and VPortStateChange cleared; `None` if `held`
/// already has this content.
fn enabled(held: &VirtualizationInfo) -> Option<VirtualizationInfo> {
    if held.enabled() && !held.vport_state_change() {
        return None;
    }
    let mut wanted = *held;
    wanted
        .set_enabled(true)
        .set_revision(0)
        .set_client_reregister(false)
        .clear_state_change();
    Some(wanted)
}

/// VPortInfo with this LID and state Active; `None` if `held` has both. A virtual port that becomes
/// Active gets ClientReregister.
fn wanted_info(held: &VPortInfo, lid: Lid) -> Option<VPortInfo> {
    let is_active = held.state() == PortState::Active;
    if is_active && held.lid() == lid {
        return None;
    }
    let mut wanted = *held;
    wanted
        .set_lid(lid)
        .set_state(match is_active {
            true => PortState::NoChange,
            false => PortState::Active,
        })
        .set_client_reregister(!is_active);
    Some(wanted)
}
