use std::collections::BTreeMap;

use rsm_ids::{Guid, Lid, Lmc, PortNum};
use rsm_routing::netlist::{LinkSpeed, LinkWidth, NodeKind};
use rsm_routing::tables::Lft;

use super::hops::{HopRule, Hops};

/// A fabric in the form of the dump files, which list nodes in OpenSM's order, regardless of the
/// order in which they were given.
#[derive(Debug)]
pub struct DumpSource<'a> {
    pub(super) nodes: Vec<DumpNode<'a>>,
    pub(super) sm_lid: Lid,
    /// Owner of each LID, as node index and port; `None` for a LID that no port owns.
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
    /// NodeInfo.NumPorts, which excludes port 0.
    pub num_ports: u8,
    /// Ports by number; those of a switch include port 0, which has its GUID and LID.
    pub ports: BTreeMap<PortNum, DumpPort>,
    /// Tables of a switch; `None` for other nodes.
    pub tables: Option<DumpTables>,
}

/// A port.
#[derive(Clone, Copy, Debug, Default)]
pub struct DumpPort {
    /// PortInfo's GUID; external ports of a switch have the GUID of its port 0.
    pub guid: Guid,
    /// Base LID; [`Lid::NONE`] for external ports of a switch.
    pub lid: Lid,
    /// LID mask control: the port answers to 2^LMC LIDs.
    pub lmc: Lmc,
    /// Other end of the port's cable; `None` if there is no link.
    pub link: Option<DumpLink>,
}

/// A link, seen from one of its ports.
#[derive(Clone, Copy, Debug)]
pub struct DumpLink {
    /// Node GUID at the other end.
    pub node: Guid,
    /// Port number at the other end.
    pub port: PortNum,
    /// PortInfo.LinkWidthActive.
    pub width: LinkWidth,
    /// PortInfo.LinkSpeedActive, or LinkSpeedExtActive if the port states one.
    pub speed: LinkSpeed,
    /// PortInfo.PortState of this end.
    pub state: LinkState,
}

/// PortInfo.PortState of a port that has a link (IBA 14.2.5.6).
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

/// Forwarding tables of a switch.
#[derive(Clone, Debug, Default)]
pub struct DumpTables {
    /// Linear forwarding table.
    pub linear: Lft,
    /// Output ports by multicast LID.
    pub multicast: BTreeMap<Lid, Vec<PortNum>>,
}

/// Contradiction between the nodes of one fabric.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// Two nodes share this node GUID.
    #[error("two nodes have the GUID {0}")]
    DuplicateNode(Guid),
    /// Two ports share a LID.
    #[error("nodes {a} and {b} both have LID {lid}")]
    DuplicateLid {
        /// Shared LID.
        lid: Lid,
        /// Node GUID of one owner.
        a: Guid,
        /// Node GUID of the other owner.
        b: Guid,
    },
    /// A link leads to a node or port that does not exist.
    #[error(
        "port {port} of node {node} leads to port {peer_port} of node {peer}, which is not there"
    )]
    Dangling {
        /// Node GUID of the end that exists.
        node: Guid,
        /// Port of that node.
        port: PortNum,
        /// Node GUID at the missing end.
        peer: Guid,
        /// Port at the missing end.
        peer_port: PortNum,
    },
}

impl<'a> DumpSource<'a> {
    /// Prepares the dump of `nodes`, whose subnet manager has `sm_lid`. `rule` selects the paths
    /// that count for the hops in the files.
    ///
    /// # Errors
    /// Two nodes share a GUID, two ports share a LID, or a link leads to a node or port that is not
    /// in `nodes`.
    pub fn new(
        mut nodes: Vec<DumpNode<'a>>,
        sm_lid: Lid,
        rule: HopRule<'_>,
    ) -> Result<DumpSource<'a>, SourceError> {
        nodes.sort_by_key(|node| sort_key(node.guid));
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

    /// Switches in ascending order of GUID, each with its node index and tables.
    pub(super) fn switches(&self) -> impl Iterator<Item = (usize, &DumpNode<'a>, &DumpTables)> {
        let all = self.nodes.iter().enumerate();
        all.filter_map(|(index, node)| Some((index, node, node.tables.as_ref()?)))
    }

    /// Owner of `lid`, as node index, node and port; `None` for a LID that no port owns.
    pub(super) fn owner(&self, lid: usize) -> Option<(usize, &DumpNode<'a>, &DumpPort)> {
        let (index, port) = (*self.owners.get(lid)?)?;
        let node = &self.nodes[index];
        Some((index, node, node.ports.get(&port)?))
    }

    /// Highest LID in use; 0 if no LID is in use.
    pub(super) fn max_lid(&self) -> usize {
        self.owners.len().saturating_sub(1)
    }
}

/// Sort key of nodes: the GUID with its bytes reversed. OpenSM compares GUIDs in the byte order of
/// memory, in network order; with the same order, its files and rsm's can be compared line by line.
fn sort_key(guid: Guid) -> u64 {
    guid.0.swap_bytes()
}

/// Index of the node with `guid` among `nodes`, which are sorted by [`sort_key`]; `None` if there
/// is no such node.
pub(super) fn index_of(nodes: &[DumpNode<'_>], guid: Guid) -> Option<usize> {
    nodes
        .binary_search_by_key(&sort_key(guid), |node| sort_key(node.guid))
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
