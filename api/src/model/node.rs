use rsm_ids::{Guid, Lid};

/// The kind of a node (IBA 14.2.5.3, NodeType).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeKind {
    /// A channel adapter: a host, a storage target, an aggregation node.
    Ca,
    /// A switch.
    Switch,
    /// A router between subnets.
    Router,
}

/// A channel adapter, switch or router. Its key is [`Node::guid`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The node GUID.
    pub guid: Guid,
    /// The GUID that all nodes of one chassis or card share; zero where hardware reports none.
    pub system_image_guid: Guid,
    /// Its kind.
    pub kind: NodeKind,
    /// NodeDescription without its padding; bytes that are not UTF-8 are replaced.
    pub description: String,
    /// The number of physical ports, 1 to 254; a switch's port 0 is not counted.
    pub num_ports: u8,
    /// How many of the physical ports are Active.
    pub ports_active: u8,
    /// The base LIDs of the node's end ports, ascending by port number: one for a switch (port 0).
    pub lids: Vec<Lid>,
    /// IEEE vendor identifier, 24 bits.
    pub vendor_id: u32,
    /// Device identifier that the vendor gives, 16 bits.
    pub device_id: u32,
    /// Hardware revision.
    pub revision: u32,
    /// Links between the subnet manager's own node and this one, on the path of discovery.
    pub distance: u8,
    /// The level of a switch in the routing engine's ranking, 0 for roots; none where the engine
    /// ranks nothing.
    pub rank: Option<u8>,
    /// The node did not answer; the subnet manager keeps it until it answers or is given up.
    pub suspected: bool,
}

/// A filter of nodes; the default passes all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeFilter {
    /// Only nodes of this kind.
    pub kind: Option<NodeKind>,
    /// Only nodes whose description contains this text, case as given.
    pub description_contains: Option<String>,
}

impl NodeFilter {
    /// Whether the filter passes `node`.
    pub fn matches(&self, node: &Node) -> bool {
        self.kind.is_none_or(|kind| kind == node.kind)
            && self
                .description_contains
                .as_deref()
                .is_none_or(|text| node.description.contains(text))
    }
}
