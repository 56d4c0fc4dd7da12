//! Virtual ports of host ports (SR-IOV of mlx5 adapters), as the hardware shows them.
//!
//! All virtual ports of a port are one value, [`PortVPorts`], which the inventory and the models of
//! the subnet share. In a port without virtual ports, the value takes the space of one pointer.
//! Index 0 is the physical function.
//!
//! A claim to a LID belongs to a GUID, and passes to another virtual port together with the GUID. A
//! virtual port that shares the LID of its physical port needs no entry in forwarding tables.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use rsm_ids::{Guid, Lid, PortKey, PortNum};
use rsm_mad::wire::attr::{GuidInfo, PortState, VNodeInfo, VPortInfo, VirtualizationInfo};

use super::p_keys::PKeyImage;

/// Maximum number of virtual ports of a port that rsm manages: the largest adapters have this many.
/// A finding reports ports with more virtual ports.
pub const INDICES_MAX: u16 = 1024;

/// Key of a virtual port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct VPortKey {
    /// Physical port of the host.
    pub port: PortKey,
    /// Index of the virtual port.
    pub index: u16,
}

impl VPortKey {
    /// The key of the virtual port at `index` of `port`.
    pub const fn new(port: PortKey, index: u16) -> VPortKey {
        VPortKey { port, index }
    }

    /// The range of the keys of all virtual ports of `port`.
    pub const fn all_of(port: PortKey) -> std::ops::RangeInclusive<VPortKey> {
        VPortKey::new(port, 0)..=VPortKey::new(port, u16::MAX)
    }
}

impl fmt::Display for VPortKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} vport {}", self.port, self.index)
    }
}

/// The virtual node of a virtual port, from VNodeInfo. All fields are zero until the adapter has
/// answered VNodeInfo.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct VNode {
    /// GUID of the virtual node.
    pub guid: Guid,
    /// Capacity of the virtual port's P_KeyTable, in keys.
    pub partition_cap: u16,
    /// Number of the virtual port on its virtual node.
    pub local_port: PortNum,
    /// Number of ports of the virtual node.
    pub ports: u8,
}

impl From<&VNodeInfo> for VNode {
    fn from(info: &VNodeInfo) -> VNode {
        VNode {
            guid: info.node_guid(),
            partition_cap: info.partition_cap(),
            local_port: info.local_port_num(),
            ports: info.num_ports(),
        }
    }
}

/// A virtual port that is not Down.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct VPort {
    /// VPortInfo as last answered.
    pub info: VPortInfo,
    /// The virtual node.
    pub node: VNode,
    /// VNodeDescription as lossy text.
    pub description: Arc<str>,
    /// The P_KeyTable, shared copy-on-write; `None` while it is not known.
    pub p_keys: Option<Arc<PKeyImage>>,
    /// The known blocks of the GUID table (VPortGUIDInfo) by number, shared copy-on-write; `None`
    /// if no block is known.
    pub guids: Option<Arc<BTreeMap<u8, GuidBlock>>>,
}

/// A block of a GUID table.
pub type GuidBlock = [Guid; GuidInfo::ENTRIES];

impl VPort {
    /// GUID of the virtual port.
    pub fn guid(&self) -> Guid {
        self.info.port_guid()
    }

    /// Number of blocks of the GUID table; 0 if GUIDCap has room only for the port's own GUID.
    pub fn guid_blocks(&self) -> u8 {
        match self.info.guid_cap() {
            0 | 1 => 0,
            capacity => capacity.div_ceil(GuidInfo::ENTRIES as u8),
        }
    }

    /// Content of a block of the GUID table; `None` if the adapter has not shown it.
    pub fn guid_block(&self, block: u8) -> Option<&GuidBlock> {
        self.guids.as_ref()?.get(&block)
    }

    /// The known GUIDs of the GUID table in ascending order of their indices, without the port's
    /// own GUID at index 0 and without empty entries.
    pub fn further_guids(&self) -> impl Iterator<Item = Guid> + '_ {
        let blocks = self.guids.iter().flat_map(|blocks| blocks.iter());
        let entries = blocks.flat_map(|(&block, guids)| {
            let first_index = usize::from(block) * GuidInfo::ENTRIES;
            (first_index..).zip(guids.iter().copied())
        });
        let capacity = usize::from(self.info.guid_cap());
        let further = entries.filter(move |&(index, _)| (1..capacity).contains(&index));
        let guids = further.map(|(_, guid)| guid);
        guids.filter(|guid| !guid.is_zero())
    }

    /// Whether the virtual port can be brought up: the host has given it a GUID, and the adapter
    /// has answered VNodeInfo.
    pub fn is_usable(&self) -> bool {
        !self.guid().is_zero() && !self.node.guid.is_zero()
    }

    /// Whether the virtual port passes data packets.
    pub fn is_active(&self) -> bool {
        self.info.state() == PortState::Active
    }

    /// Whether the virtual port differs from `before` only in values that a subnet manager sets.
    fn differs_only_in_settings(&self, before: &VPort) -> bool {
        let without_settings = |vport: &VPort| {
            let mut info = vport.info;
            info.set_state(PortState::NoChange)
                .set_lid(Lid::NONE)
                .set_p_key_violations(0)
                .set_q_key_violations(0);
            info
        };
        without_settings(self) == without_settings(before)
            && self.node == before.node
            && self.description == before.description
            && self.p_keys == before.p_keys
            && self.guids == before.guids
    }
}

/// All virtual ports of a physical port.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct PortVPorts {
    /// VirtualizationInfo as last answered.
    pub info: VirtualizationInfo,
    /// Virtual ports by index, without virtual ports in state Down.
    pub vports: BTreeMap<u16, VPort>,
}

impl PortVPorts {
    /// The virtual port at `index`; `None` if it is Down.
    pub fn get(&self, index: u16) -> Option<&VPort> {
        self.vports.get(&index)
    }

    /// Whether the same indices have virtual ports as in `before`, which differ only in values that
    /// a subnet manager sets. Ignores VirtualizationInfo.
    pub(crate) fn differs_only_in_settings(&self, before: &PortVPorts) -> bool {
        self.vports.len() == before.vports.len()
            && self.vports.iter().zip(&before.vports).all(
                |((index, now), (index_before, before))| {
                    index == index_before && now.differs_only_in_settings(before)
                },
            )
    }
}

/// Whether the virtual ports of a port differ in more than the values that a subnet manager sets;
/// `None` for a port without virtual ports.
pub fn differ(now: Option<&Arc<PortVPorts>>, before: Option<&Arc<PortVPorts>>) -> bool {
    match (now, before) {
        (None, None) => false,
        (Some(now), Some(before)) => {
            !Arc::ptr_eq(now, before) && !now.differs_only_in_settings(before)
        }
        _ => true,
    }
}
