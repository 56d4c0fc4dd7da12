//! The LIDs of all ports of a fabric.

use std::collections::{BTreeMap, BTreeSet};

use rsm_ids::{Guid, Lid, Lmc, PortKey, PortNum};
use rsm_model::fabric::PortRef;
use rsm_model::findings::Finding;
use rsm_model::vports::{PortVPorts, VPortKey};

/// The LIDs of one port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    /// Base LID: the lowest LID of the port.
    pub base: Lid,
    /// LID mask control: the port has 2^LMC LIDs.
    pub lmc: Lmc,
}

impl Claim {
    /// The highest LID of the port. A `u32`, because an invalid claim may end above 0xffff.
    pub fn last_lid(self) -> u32 {
        u32::from(self.base.0) + u32::from(self.lmc.lids()) - 1
    }
}

/// LIDs of each port GUID, assigned in this run or an earlier one.
pub type Claims = BTreeMap<Guid, Claim>;

/// The assigned LIDs of a fabric.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct LidPlan {
    /// LIDs by port; ports in `left_out` have no entry.
    pub lids: BTreeMap<PortKey, Claim>,
    /// LID of each served virtual port; [`Lid::NONE`] if it shares another port's LID.
    pub vports: BTreeMap<VPortKey, Lid>,
    /// Ports that got no LID, because no LID was free.
    pub left_out: Vec<PortRef>,
    /// Findings for the operator.
    pub findings: Vec<Finding>,
}

impl LidPlan {
    /// The LIDs of a switch's port 0; `None` if the port has none.
    pub fn of_node(&self, guid: Guid) -> Option<Claim> {
        self.lids.get(&PortKey::new(guid, PortNum::ZERO)).copied()
    }

    /// Ports whose LIDs differ, or that have LIDs in only one of the two plans. LIDs of virtual
    /// ports count for their port.
    pub fn differing(&self, other: &LidPlan) -> BTreeSet<PortKey> {
        let mut differing = BTreeSet::new();
        if std::ptr::eq(self, other) {
            return differing;
        }
        let mut there = other.lids.iter().peekable();
        for (port, claim) in &self.lids {
            while let Some((&gone, _)) = there.next_if(|(other, _)| *other < port) {
                differing.insert(gone);
            }
            if there.next_if(|(other, _)| *other == port) != Some((port, claim)) {
                differing.insert(*port);
            }
        }
        differing.extend(there.map(|(&port, _)| port));
        if self.vports != other.vports {
            for (one, other) in [(self, other), (other, self)] {
                let vports = one.vports.iter();
                let vports = vports.filter(|&(key, lid)| other.vports.get(key) != Some(lid));
                differing.extend(vports.map(|(key, _)| key.port));
            }
        }
        differing
    }

    /// The LID by which packets reach a virtual port in `vports`: its own one, or the LID of the
    /// virtual or physical port that shares it. `None` if the virtual port is not served.
    pub fn of_vport(&self, vports: &PortVPorts, key: VPortKey) -> Option<Lid> {
        let own = *self.vports.get(&key)?;
        if own.is_unicast() {
            return Some(own);
        }
        let index = vports.get(key.index)?.info.lid_by_vport_index();
        let of_other = self.vports.get(&VPortKey { index, ..key });
        let of_other = of_other.copied().filter(|lid| lid.is_unicast());
        of_other.or_else(|| self.lids.get(&key.port).map(|claim| claim.base))
    }

    /// The LIDs of a port's virtual ports, excluding shared ones.
    pub fn vport_lids(&self, port: PortKey) -> impl Iterator<Item = Lid> + '_ {
        let all = self.vports.range(VPortKey::all_of(port));
        all.map(|(_, &lid)| lid).filter(|lid| lid.is_unicast())
    }
}
