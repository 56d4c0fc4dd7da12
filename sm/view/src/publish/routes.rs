//! Shows forwarding tables, and follows routes along them.

use std::collections::BTreeSet;

use rsm_api::model::{NodeKind, PortState, RouteOutcome, Selector};
use rsm_api::resolve::{NameLookup as _, resolve_node, resolve_port};
use rsm_api::{LookupError, v1};
use rsm_ids::{Lid, PortNum};
use rsm_mad::wire::attr::PKey;
use rsm_model::fabric::{Node, NodeIx, Port, PortRef};
use rsm_routing::tables::Lft;
use rsm_sa::{NoPath, can_talk, planned_keys};

use super::api_view::{api_key, core_key, holds_lid, kind, state};
use super::names::obstacle;
use super::published::Published;

/// Maximum number of partitions of a port in a sentence; further partitions are counted.
const MAX_PARTITIONS: usize = 6;

pub(super) fn forwarding_table(
    published: &Published,
    switch: &Selector,
    after: Option<Lid>,
    limit: usize,
) -> Result<v1::GetForwardingTableResponse, LookupError> {
    let guid = resolve_node(&published.names, switch)?;
    let not_a_switch = || LookupError::NotASwitch {
        selector: switch.to_string(),
    };
    let fabric = published.fabric();
    let node = fabric
        .find(guid)
        .map(|ix| fabric.node(ix))
        .filter(|node| kind(node) == NodeKind::Switch)
        .ok_or_else(not_a_switch)?;
    let planned = published
        .plan()
        .and_then(|plan| Some((plan.table(guid)?, plan.top())));
    let (entries, top) = match planned {
        Some((table, top)) => (entries(published, table, after, limit), top),
        None => (
            Vec::new(),
            node.switch
                .as_ref()
                .map_or(Lid::NONE, |info| info.linear_fdb_top()),
        ),
    };
    let table = v1::ForwardingTable {
        switch_guid: guid.to_string(),
        description: node.description.clone(),
        lid: node.ports.first().map_or(Lid::NONE, Port::lid).0.into(),
        top: top.0.into(),
        entries,
    };
    Ok(v1::GetForwardingTableResponse {
        generation: published.generation,
        table: Some(table),
        next_page_token: String::new(),
    })
}

fn entries(
    published: &Published,
    table: &Lft,
    after: Option<Lid>,
    limit: usize,
) -> Vec<v1::ForwardingEntry> {
    let first = after.map_or(Lid::UNICAST_FIRST.0, |after| after.0.saturating_add(1));
    (first..=Lid::UNICAST_LAST.0)
        .take_while(|&lid| usize::from(lid) < table.lids())
        .map(Lid)
        .filter_map(|lid| Some((lid, table.port(lid)?)))
        .take(limit)
        .map(|(lid, port)| {
            let fabric = published.fabric();
            let holder = published.index().port_of_lid(lid);
            v1::ForwardingEntry {
                lid: lid.0.into(),
                port: port.0.into(),
                destination: holder.map(|at| api_key(fabric.key(at)).into()),
                destination_description: holder
                    .map(|at| fabric.node(at.node).description.clone())
                    .unwrap_or_default(),
            }
        })
        .collect()
}

pub(super) fn route(
    published: &Published,
    source: &Selector,
    destination: &Selector,
) -> Result<v1::ResolveRouteResponse, LookupError> {
    let from = end_port(published, source)?;
    let to = end_port(published, destination)?;
    let lid = match destination {
        Selector::Lid(lid) => *lid,
        Selector::Guid { .. } | Selector::Gid(_) | Selector::Description(_) => {
            published.fabric().port(to).lid()
        }
    };
    let mut walk = Walk {
        published,
        lid,
        hops: Vec::new(),
    };
    let (outcome, reason) = walk.run(from, to);
    let no_partition = match outcome {
        RouteOutcome::Delivered => no_partition(published, from, to),
        RouteOutcome::Dropped | RouteOutcome::Loop | RouteOutcome::Unspecified => None,
    };
    let route = v1::Route {
        source: Some(api_key(published.fabric().key(from)).into()),
        destination: Some(api_key(published.fabric().key(to)).into()),
        lid: lid.0.into(),
        hops: walk.hops,
        outcome: outcome.into(),
        reason,
        no_partition: no_partition.unwrap_or_default(),
    };
    Ok(v1::ResolveRouteResponse {
        generation: published.generation,
        route: Some(route),
    })
}

/// Reason why two ports cannot communicate although tables lead from one to the other; `None` if
/// the ports can communicate, and before there is a plan.
fn no_partition(published: &Published, from: PortRef, to: PortRef) -> Option<String> {
    let (fabric, plan) = (published.fabric(), published.plan()?);
    let [these, those] = [from, to].map(|end| planned_keys(fabric, plan, end));
    if from == to || can_talk(these, those) {
        return None;
    }
    let member = |end: PortRef, keys: &[PKey]| {
        let name = &fabric.node(end.node).description;
        format!("{name} is in {}", memberships(keys))
    };
    let reason = NoPath::NoPartition;
    let (from, to) = (member(from, these), member(to, those));
    Some(format!("{reason}; {from}; {to}"))
}

/// The partitions of a port with this P_Key table, in words: `0x7fff (limited), 0x0010 (full)`.
fn memberships(keys: &[PKey]) -> String {
    let valid: Vec<&PKey> = keys.iter().filter(|key| key.is_valid()).collect();
    let named = valid.iter().take(MAX_PARTITIONS).map(|key| {
        let member = if key.is_full() { "full" } else { "limited" };
        format!("{:#06x} ({member})", key.base())
    });
    let mut named: Vec<String> = named.collect();
    match valid.len().saturating_sub(MAX_PARTITIONS) {
        0 if valid.is_empty() => named.push("no partition".to_owned()),
        0 => {}
        more => named.push(format!("{more} more")),
    }
    named.join(", ")
}

/// A sentence on where and why packets from `from` to a LID of `to` are dropped, or cycle; `None`
/// if they arrive.
pub(super) fn dropped(
    published: &Published,
    from: PortRef,
    to: PortRef,
    lid: Lid,
) -> Option<String> {
    let mut walk = Walk {
        published,
        lid,
        hops: Vec::new(),
    };
    let (outcome, reason) = walk.run(from, to);
    let last = walk.hops.last()?;
    let name = match last.description.as_str() {
        "" => &last.node_guid,
        description => description,
    };
    match outcome {
        RouteOutcome::Dropped => Some(format!("packets end at {name}: {reason}")),
        RouteOutcome::Loop => Some(format!("packets cycle: they pass {name} again")),
        RouteOutcome::Delivered | RouteOutcome::Unspecified => None,
    }
}

/// The end port with a LID that `selector` refers to.
pub(super) fn end_port(published: &Published, selector: &Selector) -> Result<PortRef, LookupError> {
    let key = resolve_port(&published.names, selector)?;
    let fabric = published.fabric();
    let at = fabric
        .find_port(core_key(key))
        .ok_or(LookupError::NoSuchPort { port: key })?;
    let external = kind(fabric.node(at.node)) == NodeKind::Switch && at.port != PortNum::ZERO;
    if external || !holds_lid(fabric.port(at)) {
        return Err(published.names.without_lid(key));
    }
    Ok(at)
}

/// The walk of a packet from node to node.
struct Walk<'a> {
    published: &'a Published,
    lid: Lid,
    hops: Vec<v1::Hop>,
}

impl Walk<'_> {
    /// Outcome of the walk, and the reason if the packet is dropped; otherwise the reason is empty.
    /// The walk ends at the first node that it passes twice.
    fn run(&mut self, from: PortRef, to: PortRef) -> (RouteOutcome, String) {
        let mut passed = BTreeSet::new();
        let mut node = from.node;
        let mut in_port = None;
        loop {
            let step = if self.is_switch(node) {
                self.at_switch(node, to)
            } else if node == to.node && in_port.unwrap_or(from.port) == to.port {
                WalkStep::Delivered
            } else if in_port.is_none() {
                self.through(from)
            } else {
                self.not_the_holder()
            };
            match step {
                WalkStep::Delivered => {
                    self.hop(node, in_port, None);
                    return (RouteOutcome::Delivered, String::new());
                }
                WalkStep::Dropped { reason, behind } => {
                    self.hop(node, in_port, None);
                    let reason = match self.obstacle(node, behind, to) {
                        Some(obstacle) => format!("{reason}, because {obstacle}"),
                        None => reason,
                    };
                    return (RouteOutcome::Dropped, reason);
                }
                WalkStep::On { by, next } => {
                    self.hop(node, in_port, Some(by));
                    if !passed.insert(node) {
                        return (RouteOutcome::Loop, String::new());
                    }
                    (node, in_port) = (next.node, Some(next.port));
                }
            }
        }
    }

    fn is_switch(&self, node: NodeIx) -> bool {
        kind(self.published.fabric().node(node)) == NodeKind::Switch
    }

    /// The next step by the forwarding table of the switch.
    fn at_switch(&self, node: NodeIx, to: PortRef) -> WalkStep {
        let guid = self.published.fabric().node(node).guid;
        let Some(table) = self.published.plan().and_then(|plan| plan.table(guid)) else {
            return WalkStep::dropped("rsm knows no forwarding table of the switch".to_owned());
        };
        match table.port(self.lid) {
            None => WalkStep::dropped(format!("no entry for LID {}", self.lid)),
            Some(PortNum::ZERO) if node == to.node => WalkStep::Delivered,
            Some(PortNum::ZERO) => self.not_the_holder(),
            Some(port) => self.through(PortRef { node, port }),
        }
    }

    fn not_the_holder(&self) -> WalkStep {
        WalkStep::dropped(format!("it does not hold LID {}", self.lid))
    }

    /// Steps to the port at the other end of the cable. Only Active ports pass data.
    fn through(&self, exit: PortRef) -> WalkStep {
        let fabric = self.published.fabric();
        let Some(port) = fabric.node(exit.node).ports.get(exit.port.index()) else {
            return WalkStep::dropped(format!("there is no port {}", exit.port));
        };
        let word = match state(port) {
            PortState::Active => None,
            PortState::Down | PortState::Unspecified => Some("down"),
            PortState::Init => Some("in state Init"),
            PortState::Armed => Some("in state Armed"),
        };
        let behind = fabric.peer(exit);
        match (word, behind) {
            (Some(word), _) => WalkStep::Dropped {
                reason: format!("port {} is {word}", exit.port),
                behind,
            },
            (None, None) => WalkStep::dropped(format!("no node answers behind port {}", exit.port)),
            (None, Some(next)) => WalkStep::On {
                by: exit.port,
                next,
            },
        }
    }

    /// Reason why rsm has not programmed a route onward from `node`: rsm does not program the node,
    /// the node behind its port, the destination, or the switch at the destination. `None` if rsm
    /// programs all of them.
    fn obstacle(&self, node: NodeIx, behind: Option<PortRef>, to: PortRef) -> Option<String> {
        let fabric = self.published.fabric();
        let around = [behind, Some(to), fabric.peer(to)].into_iter().flatten();
        let nodes = std::iter::once(node).chain(around.map(|at| at.node));
        nodes.map(|ix| fabric.node(ix)).find_map(obstacle)
    }

    fn hop(&mut self, node: NodeIx, in_port: Option<PortNum>, out_port: Option<PortNum>) {
        let node = self.published.fabric().node(node);
        self.hops.push(shown_hop(node, in_port, out_port));
    }
}

/// Converts a node that a packet passes.
pub(super) fn shown_hop(
    node: &Node,
    in_port: Option<PortNum>,
    out_port: Option<PortNum>,
) -> v1::Hop {
    let number = |port: PortNum| u32::from(port.0);
    v1::Hop {
        node_guid: node.guid.to_string(),
        description: node.description.clone(),
        kind: kind(node).into(),
        in_port: in_port.map(number),
        out_port: out_port.map(number),
    }
}

/// The next step of the packet at a node.
enum WalkStep {
    Delivered,
    Dropped {
        reason: String,
        /// Port at the other end of the cable that the packet would take; `None` if there is none.
        behind: Option<PortRef>,
    },
    On {
        by: PortNum,
        next: PortRef,
    },
}

impl WalkStep {
    fn dropped(reason: String) -> WalkStep {
        let behind = None;
        WalkStep::Dropped { reason, behind }
    }
}
