//! Looks up nodes and ports of a fabric by name.

use std::sync::{Arc, OnceLock};

use rsm_api::model::{NodeKind, PortId, Selector};
use rsm_api::resolve::{NameForm, NameLookup, Sense, ambiguous, called};
use rsm_api::{LookupError, plain_names};
use rsm_ids::{Gid, Guid, Lid, PortNum};
use rsm_model::expected::LostEnd;
use rsm_model::fabric::{Fabric, Node, Port};
use rsm_routing::netlist::host_of;

use super::api_view::{api_key, core_key, end_port_numbers, holds_lid, kind, port_numbers};
use super::index::Index;
use super::missing::MissingNode;

/// Finds nodes and ports of a fabric by the names that operators use.
pub struct Names {
    fabric: Arc<Fabric>,
    prefix: u64,
    /// Missing nodes.
    gone: Arc<[MissingNode]>,
    /// Index by LID, GUID and name, built at its first use.
    index: OnceLock<Index>,
}

impl Names {
    /// Creates the names of `fabric`, whose GIDs have the prefix `prefix`.
    pub fn new(fabric: Arc<Fabric>, prefix: u64) -> Names {
        Names {
            fabric,
            prefix,
            gone: Arc::from([]),
            index: OnceLock::new(),
        }
    }

    /// Adds missing nodes to the names.
    pub(super) fn with_gone(self, gone: Arc<[MissingNode]>) -> Names {
        Names { gone, ..self }
    }

    /// The missing nodes.
    pub(super) fn missing_nodes(&self) -> &Arc<[MissingNode]> {
        &self.gone
    }

    /// The missing node that had exactly this name, with the port if the name includes one; `None`
    /// if no node or several nodes had the name.
    pub(super) fn find_gone(&self, selector: &Selector) -> Option<(Guid, Option<PortNum>)> {
        let (gone, port) = self.gone_named(selector, Sense::Whole);
        match gone[..] {
            [gone] => Some((gone.guid, port)),
            _ => None,
        }
    }

    /// Missing nodes that had this name, with the port if the name includes one.
    fn gone_named(
        &self,
        selector: &Selector,
        sense: Sense,
    ) -> (Vec<&MissingNode>, Option<PortNum>) {
        let with_end = |is_meant: &dyn Fn(&LostEnd) -> bool| {
            let found = self.gone.iter().find_map(|gone| {
                let mut ends = gone.ends.iter();
                Some((gone, ends.find(|end| is_meant(end))?.port))
            });
            found.map_or_else(Default::default, |(gone, port)| (vec![gone], Some(port)))
        };
        match selector {
            Selector::Guid { guid, port } => {
                match (self.gone.iter().find(|gone| gone.guid == *guid), port) {
                    (Some(gone), port) => (vec![gone], *port),
                    (None, None) => with_end(&|end| end.guid == *guid),
                    (None, Some(_)) => Default::default(),
                }
            }
            Selector::Lid(lid) => with_end(&|end| end.lid == *lid && lid.is_unicast()),
            Selector::Gid(gid) => {
                with_end(&|end| end.guid == gid.guid() && self.has_prefix(gid.prefix()))
            }
            Selector::Description(text) => called(text, sense, &|name, form| {
                let gone = self.gone.iter();
                gone.filter(|gone| form.is_name(name, &gone.description))
                    .collect()
            }),
        }
    }

    fn has_prefix(&self, prefix: u64) -> bool {
        [self.prefix, Gid::LINK_LOCAL].contains(&prefix)
    }

    /// Upper half of every GID.
    pub(super) fn prefix(&self) -> u64 {
        self.prefix
    }

    pub(super) fn index(&self) -> &Index {
        self.index.get_or_init(|| Index::build(&self.fabric))
    }
}

/// Reason why rsm does not program a node; `None` if rsm programs it.
pub(super) fn obstacle(node: &Node) -> Option<String> {
    let name = node.name();
    if node.locked {
        return Some(format!(
            "{name} holds an M_Key that rsm does not know and ignores its Sets (finding m-key-mismatch)"
        ));
    }
    (node.unmanageable || node.suspected).then(|| format!("{name} does not answer"))
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
        let here = self.has_prefix(gid.prefix());
        here.then(|| self.port_of_guid(gid.guid())).flatten()
    }

    fn nodes_described(&self, is_meant: &dyn Fn(&str) -> bool) -> Vec<Guid> {
        let nodes = self.fabric.nodes();
        nodes
            .filter(|node| is_meant(&node.description) || is_meant(node.reported()))
            .map(|node| node.guid)
            .collect()
    }

    fn nodes_named(&self, name: &str, form: NameForm) -> Vec<Guid> {
        if form == NameForm::Part {
            return self.nodes_described(&|description| form.is_name(name, description));
        }
        let found = self.index().nodes_named(name).iter();
        let found = found.map(|&ix| self.fabric.node(ix));
        let is_meant = |node: &&Node| {
            form.is_name(name, &node.description) || form.is_name(name, node.reported())
        };
        found.filter(is_meant).map(|node| node.guid).collect()
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

    fn cable_ports(&self, node: Guid) -> Vec<(PortNum, bool)> {
        let Some(node) = self.fabric.node_of(node) else {
            return Vec::new();
        };
        let numbers = port_numbers(node).filter(|&number| number != PortNum::ZERO);
        numbers
            .map(|number| (number, node.ports[number.index()].peer.is_some()))
            .collect()
    }

    fn without_lid(&self, port: PortId) -> LookupError {
        let node = self.fabric.node_of(port.node);
        // External ports of a switch never hold a LID.
        let node = node.filter(|node| !node.is_switch() || port.number == PortNum::ZERO);
        match node.and_then(obstacle) {
            Some(reason) => LookupError::WithoutLid {
                node: port.node,
                reason,
            },
            None => LookupError::NoLid { port },
        }
    }

    fn described(&self, node: Guid, port: Option<PortNum>) -> (String, String) {
        let Some(ix) = self.fabric.find(node) else {
            let gone = self.gone.iter().find(|gone| gone.guid == node);
            return gone.map_or_else(Default::default, MissingNode::described);
        };
        let node = self.fabric.node(ix);
        let what = match kind(node) {
            NodeKind::Switch => "switch",
            NodeKind::Router => "router",
            NodeKind::Ca | NodeKind::Unspecified => "CA",
        };
        let mut facts = vec![what.to_owned()];
        let end = end_port_numbers(node).find(|&end| port.is_none_or(|port| port == end));
        let lid = end.map(|end| &node.ports[end.index()]);
        let lid = lid.filter(|end| holds_lid(end)).map(Port::lid);
        facts.extend(lid.map(|lid| format!("LID {lid}")));
        let cable = node.cables().find(|(here, _)| {
            let is_asked = |port: PortNum| port == here.port || port == PortNum::ZERO;
            port.is_none_or(is_asked)
        });
        facts.extend(cable.map(|(_, there)| format!("at {}", self.fabric.port_name(there))));
        (node.description.clone(), plain_names(&facts.join(", ")))
    }

    fn gone(&self, selector: &Selector, sense: Sense) -> Option<LookupError> {
        let (gone, port) = self.gone_named(selector, sense);
        match gone[..] {
            [] => None,
            [gone] => Some(gone.error(selector, port)),
            [first, ..] => {
                let host = host_of(&first.description);
                let is_one = gone.iter().all(|gone| host_of(&gone.description) == host);
                if host.is_some() && is_one {
                    return Some(MissingNode::error_of_host(&gone, selector));
                }
                let meant = gone.iter().map(|gone| (gone.guid, port));
                Some(ambiguous(self, selector, &meant.collect::<Vec<_>>()))
            }
        }
    }
}
