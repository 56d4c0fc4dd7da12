//! Lookup of nodes and ports of a fabric by name.

use std::sync::{Arc, OnceLock};

use rsm_api::LookupError;
use rsm_api::model::{PortId, Selector};
use rsm_api::resolve::NameLookup;
use rsm_ids::{Gid, Guid, Lid, PortNum};

use super::api_view::{api_key, core_key, end_port_numbers, holds_lid};
use super::index::Index;
use super::missing::Gone;
use crate::fabric::Fabric;

/// Finds nodes and ports of a fabric by the names that operators use.
pub struct Names {
    fabric: Arc<Fabric>,
    prefix: u64,
    /// Missing nodes.
    gone: Vec<Gone>,
    /// Built at its first use.
    index: OnceLock<Index>,
}

impl Names {
    /// Names of `fabric`, where GIDs begin with `prefix`.
    pub fn new(fabric: Arc<Fabric>, prefix: u64) -> Names {
        Names {
            fabric,
            prefix,
            gone: Vec::new(),
            index: OnceLock::new(),
        }
    }

    /// These names, with missing nodes.
    pub(super) fn with_gone(self, gone: Vec<Gone>) -> Names {
        Names { gone, ..self }
    }

    /// The missing node that had this name, with the port where the name is one's.
    pub(super) fn find_gone(&self, selector: &Selector) -> Option<(Guid, Option<PortNum>)> {
        self.gone.iter().find_map(|gone| gone.named(selector))
    }

    /// The upper half of every GID.
    pub(super) fn prefix(&self) -> u64 {
        self.prefix
    }

    pub(super) fn index(&self) -> &Index {
        self.index.get_or_init(|| Index::build(&self.fabric))
    }
}

impl NameLookup for Names {
    fn has_node(&self, guid: Guid) -> bool {
        self.fabric.find(guid).is_some()
    }

    fn port_of_guid(&self, guid: Guid) -> Option<PortId> {
        let at = self.index().port_of_guid(guid)?;
        Some(api_key(self.fabric.key(at)))
    }

    fn port_of_lid(&self, lid: Lid) -> Option<PortId> {
        let at = self.index().port_of_lid(lid)?;
        Some(api_key(self.fabric.key(at)))
    }

    fn port_of_gid(&self, gid: Gid) -> Option<PortId> {
        let here = [self.prefix, Gid::LINK_LOCAL].contains(&gid.prefix());
        here.then(|| self.port_of_guid(gid.guid())).flatten()
    }

    fn nodes_described(&self, is_meant: &dyn Fn(&str) -> bool) -> Vec<Guid> {
        let nodes = self.fabric.nodes();
        nodes
            .filter(|node| is_meant(&node.description) || is_meant(node.reported()))
            .map(|node| node.guid)
            .collect()
    }

    fn has_port(&self, port: PortId) -> bool {
        let at = self.fabric.find_port(core_key(port));
        at.is_some_and(|at| at.port != PortNum::ZERO || self.fabric.node(at.node).is_switch())
    }

    fn end_ports(&self, node: Guid) -> Vec<PortNum> {
        let Some(ix) = self.fabric.find(node) else {
            return Vec::new();
        };
        let node = self.fabric.node(ix);
        end_port_numbers(node)
            .filter(|number| holds_lid(&node.ports[number.index()]))
            .collect()
    }

    fn gone(&self, selector: &Selector) -> Option<LookupError> {
        let gone = self
            .gone
            .iter()
            .find(|gone| gone.named(selector).is_some())?;
        Some(gone.error(selector))
    }
}
