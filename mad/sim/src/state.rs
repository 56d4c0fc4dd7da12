//! The programmed state of nodes and ports, for tests and displays.

use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::transport::LocalPort;
use rsm_mad::wire::attr::{Attribute, MulticastForwardingTable, VlArbitration};
use rsm_mad::wire::attr::{GuidInfo, NodeInfo, PKey, PKeyTable, PortInfo, SwitchInfo};
use rsm_routing::netlist::NodeKind;

use crate::error::SimError;
use crate::fabric::{NONE, Switch};
use crate::personality::Personality;
use crate::sim::{AttachId, Sim};

impl Sim {
    /// The ExtendedPortInfo that was last set at a port: whether the aggregation node behind the
    /// port may work, and the mask of service levels on which packets to the port may arrive out of
    /// order.
    ///
    /// # Errors
    /// There is no such port.
    pub fn extended_port(&self, node: Guid, port: PortNum) -> Result<(bool, u16), SimError> {
        let port = self.fabric.port(self.fabric.find_port(node, port)?);
        Ok((port.aggregation_enabled, port.out_of_order_sls))
    }

    /// The node that `name` identifies: by its GUID, by its identifier (`S-0002c90300001234`), or
    /// by its description if no other node has the same description.
    ///
    /// # Errors
    /// No node has this name, or several nodes have this description.
    pub fn find(&self, name: &str) -> Result<Guid, SimError> {
        let index = self.fabric.find_name(name)?;
        Ok(self.fabric.node(index).guid)
    }

    /// All nodes, in the order of the netlist, followed by the nodes that were added later.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = (Guid, NodeKind)> + '_ {
        self.fabric.nodes.iter().map(|node| (node.guid, node.kind))
    }

    /// The number of nodes of a kind.
    pub fn count(&self, kind: NodeKind) -> usize {
        self.fabric.count(kind)
    }

    /// All ports with an address of their own, node by node: port 0 of switches, external ports of
    /// other nodes. Ports without a cable are included.
    pub fn end_ports(&self) -> impl Iterator<Item = (Guid, PortNum)> + '_ {
        self.fabric.nodes.iter().flat_map(|node| {
            let numbers = if node.is_switch() {
                0..=0
            } else {
                1..=node.num_ports
            };
            numbers.map(|number| (node.guid, PortNum(number)))
        })
    }

    /// The first end port that holds a LID, as its base LID or as a LID that its LMC adds; `None`
    /// if no end port holds the LID. The search takes time in proportion to the number of end
    /// ports.
    pub fn holder(&self, lid: Lid) -> Option<(Guid, PortNum)> {
        let mut ends = self.end_ports();
        ends.find(|&(guid, port)| {
            let index = self.fabric.find_port(guid, port);
            index.is_ok_and(|index| self.fabric.port(index).holds(lid))
        })
    }

    /// The first end port with this GUID; `None` if no end port has the GUID. The search takes time
    /// in proportion to the number of end ports.
    pub fn port_with(&self, guid: Guid) -> Option<(Guid, PortNum)> {
        let mut ends = self.end_ports();
        ends.find(|&(node, port)| self.port_guid(node, port).is_ok_and(|own| own == guid))
    }

    /// The GidPrefix of the first end port that has a LID, as its manager set it; `None` if no end
    /// port has a LID.
    pub fn gid_prefix(&self) -> Option<u64> {
        let infos = self.end_ports().filter_map(|(guid, port)| {
            let index = self.fabric.find_port(guid, port).ok()?;
            Some(&self.fabric.port(index).info)
        });
        let mut managed = infos.filter(|info| info.lid() != Lid::NONE);
        managed.next().map(|info| info.gid_prefix())
    }

    /// The number of external ports of a node.
    ///
    /// # Errors
    /// There is no such node.
    pub fn num_ports(&self, node: Guid) -> Result<u8, SimError> {
        Ok(self.fabric.node(self.fabric.find_node(node)?).num_ports)
    }

    /// A node's description, without padding.
    ///
    /// # Errors
    /// There is no such node.
    pub fn description(&self, node: Guid) -> Result<&[u8], SimError> {
        let index = self.fabric.find_node(node)?;
        Ok(self.fabric.node(index).description.text())
    }

    /// A node's NodeInfo, without the fields that depend on the port of the request.
    ///
    /// # Errors
    /// There is no such node.
    pub fn node_info(&self, node: Guid) -> Result<NodeInfo, SimError> {
        Ok(self.fabric.node(self.fabric.find_node(node)?).info)
    }

    /// The personality of a node.
    ///
    /// # Errors
    /// There is no such node.
    pub fn personality(&self, node: Guid) -> Result<Personality, SimError> {
        Ok(self.fabric.node(self.fabric.find_node(node)?).personality)
    }

    /// Whether a node is switched on.
    ///
    /// # Errors
    /// There is no such node.
    pub fn is_powered(&self, node: Guid) -> Result<bool, SimError> {
        Ok(self.fabric.node(self.fabric.find_node(node)?).is_powered)
    }

    /// The number of Sets that took effect at a node.
    ///
    /// # Errors
    /// There is no such node.
    pub fn sets_at(&self, node: Guid) -> Result<u64, SimError> {
        Ok(self.fabric.node(self.fabric.find_node(node)?).sets)
    }

    /// The GUID of a port; on a switch, the node GUID.
    ///
    /// # Errors
    /// There is no such port.
    pub fn port_guid(&self, node: Guid, port: PortNum) -> Result<Guid, SimError> {
        let index = self.fabric.find_port(node, port)?;
        Ok(self.fabric.port(index).guid)
    }

    /// A port's PortInfo, port 0 of switches included.
    ///
    /// # Errors
    /// There is no such port.
    pub fn port_info(&self, node: Guid, port: PortNum) -> Result<&PortInfo, SimError> {
        let index = self.fabric.find_port(node, port)?;
        Ok(&self.fabric.port(index).info)
    }

    /// The port at the other end of a port's cable, even if the cable is unplugged; `None` without
    /// a cable.
    ///
    /// # Errors
    /// There is no such port.
    pub fn peer(&self, node: Guid, port: PortNum) -> Result<Option<(Guid, PortNum)>, SimError> {
        let peer = self.fabric.port(self.fabric.find_port(node, port)?).peer;
        Ok((peer != NONE).then(|| {
            let number = self.fabric.port(peer).number;
            (self.fabric.node_of(peer).guid, PortNum(number))
        }))
    }

    /// The state that only switches have. Fails for other nodes.
    fn switch(&self, guid: Guid) -> Result<&Switch, SimError> {
        let node = self.fabric.node(self.fabric.find_node(guid)?);
        node.switch.as_deref().ok_or(SimError::NotASwitch { guid })
    }

    /// A switch's SwitchInfo.
    ///
    /// # Errors
    /// There is no such node, or the node is no switch.
    pub fn switch_info(&self, switch: Guid) -> Result<&SwitchInfo, SimError> {
        Ok(&self.switch(switch)?.info)
    }

    /// A switch's forwarding table: the exit port by LID, 255 for "drop". The table ends with the
    /// last block ever written; packets to LIDs beyond that block are dropped. LinearFDBTop is in
    /// [`switch_info`](Sim::switch_info).
    ///
    /// # Errors
    /// There is no such node, or the node is no switch.
    pub fn lft(&self, switch: Guid) -> Result<&[u8], SimError> {
        Ok(&self.switch(switch)?.lft)
    }

    /// The blocks of a switch's multicast forwarding table that were ever written, by the
    /// attribute's modifier; other blocks have no ports. MulticastFDBTop is in
    /// [`switch_info`](Sim::switch_info).
    ///
    /// # Errors
    /// There is no such node, or the node is no switch.
    pub fn mft(&self, switch: Guid) -> Result<impl Iterator<Item = (u32, &[u8; 64])>, SimError> {
        let mft = &self.switch(switch)?.mft;
        Ok(mft.iter().map(|(&modifier, data)| (modifier, data)))
    }

    /// Whether a switch forwards packets to this multicast LID through this port.
    ///
    /// # Errors
    /// There is no such node, or the node is no switch.
    pub fn multicasts_to(&self, switch: Guid, lid: Lid, port: PortNum) -> Result<bool, SimError> {
        let switch = self.switch(switch)?;
        let Some((block, index)) = MulticastForwardingTable::block_and_index_of(lid) else {
            return Ok(false);
        };
        let position = port.0 / MulticastForwardingTable::PORTS_PER_POSITION;
        let modifier = MulticastForwardingTable::modifier(block, position);
        let mask = switch
            .multicast_mask(modifier, index)
            .filter(|_| switch.multicast_in_effect(lid))
            .unwrap_or(0);
        let bit = port.0 % MulticastForwardingTable::PORTS_PER_POSITION;
        Ok(mask >> bit & 1 != 0)
    }

    /// The P_Keys in a port's table, up to the last written block; after power-on, only 0xFFFF.
    ///
    /// # Errors
    /// There is no such port.
    pub fn p_keys(&self, node: Guid, port: PortNum) -> Result<Vec<PKey>, SimError> {
        let port = self.fabric.port(self.fabric.find_port(node, port)?);
        let mut keys = vec![PKey::DEFAULT_FULL];
        for (&block, data) in port.tables.iter().flat_map(|tables| &tables.p_keys) {
            keys.resize(usize::from(block) * PKeyTable::ENTRIES, PKey::default());
            keys.extend(PKeyTable::from_data(data).p_keys());
        }
        Ok(keys)
    }

    /// The GUIDs in a port's GUIDInfo, by index, up to the last block that was written; the first
    /// GUID is the port's own.
    ///
    /// # Errors
    /// There is no such port.
    pub fn guids(&self, node: Guid, port: PortNum) -> Result<Vec<Guid>, SimError> {
        let port = self.fabric.port(self.fabric.find_port(node, port)?);
        let mut guids = vec![port.guid];
        for (&block, data) in port.tables.iter().flat_map(|tables| &tables.guids) {
            guids.resize(block as usize * GuidInfo::ENTRIES, Guid::ZERO);
            guids.extend(GuidInfo::from_data(data).guids());
        }
        Ok(guids)
    }

    /// The VL of each service level at the port `output`, for packets that entered the switch
    /// through `input` (0 on other nodes).
    ///
    /// # Errors
    /// There is no such port.
    pub fn virtual_lanes(
        &self,
        node: Guid,
        input: PortNum,
        output: PortNum,
    ) -> Result<[u8; 16], SimError> {
        let port = self.fabric.port(self.fabric.find_port(node, output)?);
        Ok(std::array::from_fn(|sl| {
            port.virtual_lane(input.0, sl as u8)
        }))
    }

    /// The VLs and weights in a block, 1 to 4, of a port's VLArbitrationTable, as a manager last
    /// set the block; empty if no manager has set it.
    ///
    /// # Errors
    /// There is no such port.
    pub fn vl_weights(
        &self,
        node: Guid,
        port: PortNum,
        block: u8,
    ) -> Result<Vec<(u8, u8)>, SimError> {
        let port = self.fabric.port(self.fabric.find_port(node, port)?);
        let tables = port.tables.as_ref();
        let data = tables.and_then(|tables| tables.vl_arbitration.get(&block));
        let entries = data
            .map(|data| VlArbitration::from_data(data).entries())
            .into_iter()
            .flatten();
        Ok(entries.map(|entry| (entry.vl(), entry.weight())).collect())
    }

    /// The PortInfo of a client's port.
    pub(crate) fn client_info(&self, client: AttachId) -> Option<&PortInfo> {
        Some(&self.fabric.port(self.client_port(client)?).info)
    }

    /// The local port as a client sees it; `None` for a detached client.
    pub fn local_port(&self, client: AttachId) -> Option<LocalPort> {
        let port = self.fabric.port(self.client_port(client)?);
        let info = &port.info;
        Some(LocalPort {
            ca: format!("sim{}", client.0),
            port: PortNum(port.number),
            node_guid: self.fabric.node(port.node).guid,
            port_guid: port.guid,
            lid: info.lid(),
            sm_lid: info.master_sm_lid(),
            state: info.port_state(),
        })
    }
}
