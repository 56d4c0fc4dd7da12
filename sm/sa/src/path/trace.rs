//! TraceRecord: the nodes along a path.

use std::sync::Arc;

use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::wire::attr::NodeType;
use rsm_mad::wire::header::Status;
use rsm_mad::wire::sa::{PathRecord, SaStatus, TraceRecord};
use rsm_routing::topology::PortUse;

use super::constraints::PathConstraints;
use super::pairs::Pairs;
use super::{Body, DESTINATION, Finder, SOURCE, end};
use crate::directory::Directory;
use crate::ends::EndIx;
use crate::query_context::SaQueryContext;

/// Answers a GetTraceTable, whose request contains a PathRecord: the nodes along the first matching
/// path, including source and destination. The table is empty if no path matches.
///
/// # Errors
/// Fails like a query for PathRecord, and with ERR_REQ_INSUFFICIENT_COMPONENTS if source or
/// destination is missing.
pub(crate) fn answer(context: &SaQueryContext<'_>) -> Result<Body, Status> {
    let record: PathRecord = context.record()?;
    let mask = context.header.component_mask();
    let constraints = PathConstraints::of(&record, mask)?;
    let directory = context.directory;
    let from = end(directory, mask, SOURCE, record.sgid(), record.slid())?;
    let to = end(directory, mask, DESTINATION, record.dgid(), record.dlid())?;
    if !(from.is_given && to.is_given) {
        return Err(SaStatus::REQ_INSUFFICIENT_COMPONENTS);
    }
    let finder = Finder {
        directory: directory.clone(),
        viewer: (!context.trust.is_trusted()).then_some(context.requester),
        constraints,
        echoed_gids: (None, None),
    };
    Ok(Body::table(Hops {
        directory: directory.clone(),
        pairs: Some(Pairs::new(finder, from.ends, to.ends, Some(1))),
        nodes: Vec::new().into_iter(),
    }))
}

/// Searches the first path, and then returns the nodes along it.
struct Hops {
    directory: Arc<Directory>,
    /// The pairs of ends that are not examined yet; `None` once a path is found.
    pairs: Option<Pairs>,
    /// Nodes along the path that are not returned yet.
    nodes: std::vec::IntoIter<TraceRecord>,
}

impl Iterator for Hops {
    type Item = Option<TraceRecord>;

    fn next(&mut self) -> Option<Self::Item> {
        let Some(pairs) = &mut self.pairs else {
            return self.nodes.next().map(Some);
        };
        if let Some(path) = pairs.next()? {
            self.nodes = along(&self.directory, &path)
                .unwrap_or_default()
                .into_iter();
            self.pairs = None;
        }
        Some(None)
    }
}

/// The nodes along `path`; `None` if packets do not arrive.
fn along(directory: &Directory, path: &PathRecord) -> Option<Vec<TraceRecord>> {
    let source = directory.by_lid(path.slid())?;
    let target = directory.by_lid(path.dlid())?;
    trace(directory, source, target, path.dlid())
}

/// The nodes that packets from `source` to the LID `dlid` of `target` pass; `None` if the packets
/// do not arrive.
pub(super) fn trace(
    directory: &Directory,
    source: EndIx,
    target: EndIx,
    dlid: Lid,
) -> Option<Vec<TraceRecord>> {
    let topology = &directory.plan.topology;
    let tables = &directory.plan.routing.tables;
    let mut nodes = Vec::new();
    let (from, to) = (directory.end(source), directory.end(target));
    let is_switch = |ix| directory.port(ix).0.is_switch();
    let mut enter = PortNum::ZERO;
    if !is_switch(source) {
        let exit = if source == target {
            PortNum::ZERO
        } else {
            from.at.port
        };
        nodes.push(node(directory, source, PortNum::ZERO, exit));
        if source == target {
            return Some(nodes);
        }
        let peer = directory.fabric.find_port(directory.port(source).1.peer?)?;
        if peer == to.at {
            nodes.push(node(directory, target, to.at.port, PortNum::ZERO));
            return Some(nodes);
        }
        enter = peer.port;
    }
    let mut switch = topology.destination_of(from.lid)?.switch;
    // A route that passes more switches than the subnet has is a loop.
    for _ in 0..topology.switch_count() {
        let exit = tables.lft(switch).port(dlid)?;
        let guid = topology.switch(switch).guid;
        let ends_here = exit == PortNum::ZERO;
        nodes.push(record(
            directory,
            NodeType::Switch,
            guid,
            (guid, enter),
            (guid, exit),
        ));
        match topology.port_use(switch, exit) {
            PortUse::Destination(_) => {
                if !ends_here {
                    nodes.push(node(directory, target, to.at.port, PortNum::ZERO));
                }
                return Some(nodes);
            }
            PortUse::Link { peer, peer_port } => (switch, enter) = (peer, peer_port),
            PortUse::Unused => return None,
        }
    }
    None
}

/// The record of the node of an end. Port 0 means that packets start or end there.
fn node(directory: &Directory, ix: EndIx, enter: PortNum, exit: PortNum) -> TraceRecord {
    let (node, port) = directory.port(ix);
    record(
        directory,
        node.kind(),
        node.guid,
        (port.guid, enter),
        (port.guid, exit),
    )
}

/// The record of a node. Port 0 means that packets start or end there.
fn record(
    directory: &Directory,
    kind: NodeType,
    guid: Guid,
    enter: (Guid, PortNum),
    exit: (Guid, PortNum),
) -> TraceRecord {
    let id = |(guid, port): (Guid, PortNum)| {
        if port == PortNum::ZERO {
            Guid::ZERO
        } else {
            guid
        }
    };
    let mut record = TraceRecord::default();
    record
        .set_gid_prefix(directory.prefix())
        .set_node_type(kind)
        .set_node_id(guid)
        .set_entry_port_id(id(enter))
        .set_exit_port_id(id(exit))
        .set_entry_port(enter.1)
        .set_exit_port(exit.1);
    record
}
