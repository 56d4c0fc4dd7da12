//! An index of end ports by LID and GUID, and of nodes by name.

use std::collections::HashMap;

use rsm_api::resolve::names_in;
use rsm_ids::{Guid, Lid};
use rsm_model::fabric::{Fabric, NodeIx, PortRef};

use super::api_view::{end_port_numbers, holds_lid};

/// Finds end ports by LID or GUID, and nodes by name.
pub(super) struct Index {
    /// End port by LID, up to the highest LID that a port holds.
    by_lid: Vec<Option<PortRef>>,
    by_guid: HashMap<Guid, PortRef>,
    /// Nodes by each of their names in lower case, in the order of nodes.
    by_name: HashMap<String, Vec<NodeIx>>,
}

impl Index {
    /// Indexes the end ports and nodes of `fabric`. If two ports share a LID or GUID, the first port in the
    /// order of nodes and ports counts.
    pub(super) fn build(fabric: &Fabric) -> Index {
        let mut index = Index {
            by_lid: Vec::new(),
            by_guid: HashMap::new(),
            by_name: HashMap::new(),
        };
        for (ix, node) in fabric.iter() {
            let reported = Some(node.reported()).filter(|&own| own != node.description);
            let descriptions = [Some(node.description.as_str()), reported];
            for name in descriptions.into_iter().flatten().flat_map(names_in) {
                let nodes = index.by_name.entry(name).or_default();
                if nodes.last() != Some(&ix) {
                    nodes.push(ix);
                }
            }
            for number in end_port_numbers(node) {
                let at = PortRef {
                    node: ix,
                    port: number,
                };
                let port = fabric.port(at);
                index.by_guid.entry(port.guid).or_insert(at);
                if holds_lid(port) {
                    index.hold(port.lid(), port.lmc().lids(), at);
                }
            }
        }
        index
    }

    fn hold(&mut self, base: Lid, count: u16, at: PortRef) {
        let end = usize::from(base.0) + usize::from(count);
        if self.by_lid.len() < end {
            self.by_lid.resize(end, None);
        }
        for slot in &mut self.by_lid[base.index()..end] {
            slot.get_or_insert(at);
        }
    }

    pub(super) fn port_of_lid(&self, lid: Lid) -> Option<PortRef> {
        self.by_lid.get(lid.index()).copied().flatten()
    }

    pub(super) fn port_of_guid(&self, guid: Guid) -> Option<PortRef> {
        self.by_guid.get(&guid).copied()
    }

    /// The nodes with this name in some form and any case of letters, in the order of nodes.
    pub(super) fn nodes_named(&self, name: &str) -> &[NodeIx] {
        let nodes = self.by_name.get(&name.to_ascii_lowercase());
        nodes.map_or(&[], Vec::as_slice)
    }
}
