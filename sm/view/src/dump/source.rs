use std::collections::BTreeMap;

use rsm_ids::{Guid, Lid, Lmc, PortNum};
use rsm_routing::netlist::{LinkSpeed, LinkWidth, NodeKind};
use rsm_routing::tables::Lft;

use super::hops::{HopRule, Hops};

/// The fabric as the dump files show it. Files list the nodes in OpenSM's order, however they are
/// given.
#[derive(Debug)]
pub struct DumpSource<'a> {
    pub(super) nodes: Vec<DumpNode<'a>>,
    pub(super) sm_lid: Lid,
    /// The owner of each LID, by LID: index of the node and its port.
    pub(super) owners: Vec<Option<(usize, PortNum)>>,
    pub(super) hops: Hops,
}

/// A node.
#[derive(Clone, Debug)]
pub struct DumpNode<'a> {
    /// Switch, channel adapter or router.
    pub kind: NodeKind,
    /// NodeInfo.NodeGUID (IBA 14.2.5.3).
    pub guid: Guid,
    /// NodeInfo.SystemImageGUID.
    pub system_image_guid: Guid,
    /// NodeInfo.VendorID, 24 bits.
    pub vendor_id: u32,
    /// NodeInfo.DeviceID.
    pub device_id: u16,
    /// NodeInfo.Revision.
    pub revision: u32,
    /// NodeDescription, up to its first zero byte.
    pub description: &'a [u8],
    /// NodeInfo.NumPorts: port 0 not counted.
    pub num_ports: u8,
    /// By number; for a switch with port 0, which holds its GUID and LID.
    pub ports: BTreeMap<PortNum, DumpPort>,
    /// The tables of a switch; `None` for other nodes.
    pub tables: Option<DumpTables>,
}

/// A port.
#[derive(Clone, Copy, Debug, Default)]
pub struct DumpPort {
    /// PortInfo's GUID; a switch's external ports have that of its port 0.
    pub guid: Guid,
    /// The base LID, [`Lid::NONE`] for a switch's external ports.
    pub lid: Lid,
    /// LID mask control: the port answers to 2^LMC LIDs.
    pub lmc: Lmc,
    /// The other end of its cable.
    pub link: Option<DumpLink>,
}

/// A port's end of a link.
#[derive(Clone, Copy, Debug)]
pub struct DumpLink {
    /// The node at the other end.
    pub node: Guid,
    /// Its port.
    pub port: PortNum,
    /// PortInfo.LinkWidthActive.
    pub width: LinkWidth,
    /// PortInfo.LinkSpeedActive, or the extended one.
    pub speed: LinkSpeed,
    /// PortInfo.PortState of this end.
    pub state: LinkState,
}

/// PortInfo.PortState of a port that has a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// Down.
    Down,
    /// Initialize.
    Init,
    /// Armed.
    Armed,
    /// Active.
    Active,
}

/// The tables of a switch.
#[derive(Clone, Debug, Default)]
pub struct DumpTables {
    /// The linear forwarding table.
    pub linear: Lft,
    /// Multicast LID → the ports it goes out on.
    pub multicast: BTreeMap<Lid, Vec<PortNum>>,
}

/// The nodes contradict each other.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// Two nodes have one GUID.
    #[error("two nodes have the GUID {0}")]
    DuplicateNode(Guid),
    /// Two ports have one LID.
    #[error("nodes {a} and {b} both have LID {lid}")]
    DuplicateLid {
        /// The LID.
        lid: Lid,
        /// One node.
        a: Guid,
        /// The other.
        b: Guid,
    },
    /// A link leads to a node or port that is not there.
    #[error(
        "port {port} of node {node} leads to port {peer_port} of node {peer}, which is not there"
    )]
    Dangling {
        /// The node.
        node: Guid,
        /// Its port.
        port: PortNum,
        /// Where it leads.
        peer: Guid,
        /// To which port.
        peer_port: PortNum,
    },
}

impl<'a> DumpSource<'a> {
    /// The fabric of `nodes`, whose subnet manager has `sm_lid`. `rule` says which paths count for
    /// the hops that the files state.
    ///
    /// # Errors
    ///
    /// When the nodes contradict each other.
    pub fn new(
        mut nodes: Vec<DumpNode<'a>>,
        sm_lid: Lid,
        rule: HopRule<'_>,
    ) -> Result<DumpSource<'a>, SourceError> {
        nodes.sort_by_key(|node| place(node.guid));
        if let Some(pair) = nodes.windows(2).find(|pair| pair[0].guid == pair[1].guid) {
            return Err(SourceError::DuplicateNode(pair[0].guid));
        }
        check_links(&nodes)?;
        Ok(DumpSource {
            owners: owners(&nodes)?,
            hops: Hops::new(&nodes, rule),
            nodes,
            sm_lid,
        })
    }

    /// The switches, each with its index among the nodes and its tables, by GUID.
    pub(super) fn switches(&self) -> impl Iterator<Item = (usize, &DumpNode<'a>, &DumpTables)> {
        let all = self.nodes.iter().enumerate();
        all.filter_map(|(index, node)| Some((index, node, node.tables.as_ref()?)))
    }

    /// The port that owns `lid`, and its node.
    pub(super) fn owner(&self, lid: usize) -> Option<(usize, &DumpNode<'a>, &DumpPort)> {
        let (index, port) = (*self.owners.get(lid)?)?;
        let node = &self.nodes[index];
        Some((index, node, node.ports.get(&port)?))
    }

    /// The highest LID in use, 0 when there is none.
    pub(super) fn max_lid(&self) -> usize {
        self.owners.len().saturating_sub(1)
    }
}

/// The sort key of nodes: the GUID with its last byte first. OpenSM compares GUIDs as they lie in
/// memory, in network order; in the same order its files and rsm's can be compared line by line.
fn place(guid: Guid) -> u64 {
    guid.0.swap_bytes()
}

/// The index of the node among `nodes`, which are sorted.
pub(super) fn index_of(nodes: &[DumpNode<'_>], guid: Guid) -> Option<usize> {
    nodes
        .binary_search_by_key(&place(guid), |node| place(node.guid))
        .ok()
}

fn check_links(nodes: &[DumpNode<'_>]) -> Result<(), SourceError> {
    for node in nodes {
        for (&port, DumpPort { link, .. }) in &node.ports {
            let Some(link) = link else { continue };
            let peer = index_of(nodes, link.node).map(|index| &nodes[index]);
            if peer.is_none_or(|peer| !peer.ports.contains_key(&link.port)) {
                return Err(SourceError::Dangling {
                    node: node.guid,
                    port,
                    peer: link.node,
                    peer_port: link.port,
                });
            }
        }
    }
    Ok(())
}

fn owners(nodes: &[DumpNode<'_>]) -> Result<Vec<Option<(usize, PortNum)>>, SourceError> {
    let mut owners: Vec<Option<(usize, PortNum)>> = Vec::new();
    for (index, node) in nodes.iter().enumerate() {
        for (&number, port) in &node.ports {
            if !port.lid.is_unicast() {
                continue;
            }
            let first = port.lid.index();
            let end = (first + usize::from(port.lmc.lids())).min(Lid::MULTICAST_FIRST.index());
            if owners.len() < end {
                owners.resize(end, None);
            }
            for (lid, owner) in owners.iter_mut().enumerate().take(end).skip(first) {
                if let Some((other, _)) = owner.replace((index, number)) {
                    return Err(SourceError::DuplicateLid {
                        lid: Lid(lid as u16),
                        a: nodes[other].guid,
                        b: node.guid,
                    });
                }
            }
        }
    }
    Ok(owners)
}
