//! An index of end ports by LID and GUID.

use std::collections::HashMap;

use rsm_ids::{Guid, Lid};
use rsm_model::fabric::{Fabric, PortRef};

use super::api_view::{end_port_numbers, holds_lid};

/// Finds end ports by LID or GUID.
pub(super) struct Index {
    /// End port by LID, up to the highest LID that a port holds.
    by_lid: Vec<Option<PortRef>>,
    by_guid: HashMap<Guid, PortRef>,
}

impl Index {
    /// Indexes the end ports of `fabric`. If two ports share a LID or GUID, the first port in the
    /// order of nodes and ports counts.
    pub(super) fn build(fabric: &Fabric) -> Index {
        let mut index = Index {
            by_lid: Vec::new(),
            by_guid: HashMap::new(),
        };
        for (ix, node) in fabric.iter() {
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
}
