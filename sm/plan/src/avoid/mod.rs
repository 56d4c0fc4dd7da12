//! Parts of the fabric that routes avoid although they stay in the fabric.
//!
//! [`Avoid`] is the set of such parts, each with its [`Reason`]: an operator drained the part, or
//! the part is unhealthy. Reachability has precedence over the set: [`Avoid::resolve`] decides
//! which cables of a fabric routes avoid, and which parts routes use nevertheless, because ports
//! would be cut off otherwise. [`Avoid::try_add`] refuses parts whose removal would cut ports off.
//!
//! An avoided part keeps its LIDs and stays managed. An avoided switch keeps its cables to one
//! neighbour, so that its port 0 and its hosts stay reachable, while no transit packets pass
//! through it. The only cable of a host stays in use, because only the host's own packets use it.
//!
//! The switch graph omits the resolved cables in the same way as flapping ones, so that engines,
//! proofs and interim tables know nothing of drains. Parts that reachability needs are used again,
//! unhealthy ones first.

mod cut_off;
mod graph;
mod needed;
mod over;
mod resolve;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use rsm_ids::{Guid, PortKey, PortNum, UnixMs};
use rsm_model::fabric::Fabric;

pub use self::cut_off::CutOff;
pub use self::needed::needed;
pub use self::over::{LidsOver, Unplugged, lids_over};
pub use self::resolve::Resolved;

/// Maximum number of parts, more than a site drains at a time. At some 500 bytes an order, and at
/// most three orders a part (an isolation, a disabled port and a drain), the set takes at most 1.5
/// megabytes.
pub(crate) const MAX_PARTS: usize = 1024;

/// A part of the fabric, present or not.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum NodeOrCable {
    /// A node with all its cables.
    Node(Guid),
    /// The cable at a port, including any cable that replaces it.
    Port(PortKey),
}

impl NodeOrCable {
    /// The port, or port 0 of the node.
    pub fn key(self) -> PortKey {
        match self {
            NodeOrCable::Node(guid) => PortKey::new(guid, PortNum::ZERO),
            NodeOrCable::Port(key) => key,
        }
    }

    /// The node, or the node of the port.
    pub fn node(self) -> Guid {
        self.key().node
    }

    /// Whether the part is in the fabric. A port is in the fabric if it has a cable.
    pub fn is_there(self, fabric: &Fabric) -> bool {
        match self {
            NodeOrCable::Node(guid) => fabric.find(guid).is_some(),
            NodeOrCable::Port(key) => {
                let at = fabric.find_port(key);
                at.is_some_and(|at| fabric.port(at).peer.is_some())
            }
        }
    }

    /// Whether the subnet manager is cut off at once without this part, which is then the manager's
    /// node, its cable, or the switch at the other end. False while the manager's port is not
    /// known.
    pub fn connects_manager(self, fabric: &Fabric) -> bool {
        let Some(local) = fabric.local else {
            return false;
        };
        let ends = [Some(fabric.key(local)), fabric.port(local).peer];
        ends.into_iter().flatten().any(|end| match self {
            NodeOrCable::Node(guid) => guid == end.node,
            NodeOrCable::Port(key) => key == end,
        })
    }
}

/// The operator in the records of ports that rsm disables because of a hostile host. Requests of
/// operators have other names, because theirs begin with the identity of the connection.
pub const ISOLATION: &str = "health.hostile_hosts";

/// An operator's order that routes shall avoid a part, or the isolation of a host's port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Drained {
    /// Identity of the operator, or [`ISOLATION`].
    pub by: String,
    /// Time of the drain, in milliseconds since 1970.
    pub since_unix_ms: u64,
    /// Note of the operator, possibly empty.
    pub note: String,
    /// Whether the operator accepted that ports would be cut off without the part.
    pub forced: bool,
    /// Name of the part at the time of the drain: `leaf-03` or `leaf-03 port 7`.
    pub name: String,
    /// Other end of the cable at the time of the drain; `None` for a node.
    pub peer: Option<PortKey>,
    /// Whether the port of a cable is disabled as well, so that its link stays down until the port
    /// is enabled.
    pub disabled: bool,
    /// Order of another operator about the same part, which stays in force when the port is
    /// enabled if it is a drain; `None` for a part that is not disabled.
    pub beside: Option<Box<Drained>>,
}

impl Drained {
    /// The plainest order of an operator: without a note or a name, not forced, for a node.
    pub fn new(by: impl Into<String>, since_unix_ms: u64) -> Drained {
        Drained {
            by: by.into(),
            since_unix_ms,
            note: String::new(),
            forced: false,
            name: String::new(),
            peer: None,
            disabled: false,
            beside: None,
        }
    }

    /// This order, and the orders beside it.
    pub fn orders(&self) -> impl Iterator<Item = &Drained> {
        std::iter::successors(Some(self), |order| order.beside.as_deref())
    }

    /// The note, and after it the orders of others beside this one.
    pub fn whole_note(&self) -> String {
        let mut parts = vec![self.note.clone()];
        parts.extend(self.orders().skip(1).map(|order| {
            let done = if order.disabled {
                "disabled"
            } else {
                "drained"
            };
            let note = match order.note.as_str() {
                "" => String::new(),
                note => format!(": {note}"),
            };
            format!(
                "also {done} by {} at {}{note}",
                order.by,
                UnixMs(order.since_unix_ms)
            )
        }));
        parts.retain(|part| !part.is_empty());
        parts.join("; ")
    }

    /// The orders for a part with a `later` order: each operator's drain stands beside the order of
    /// another operator that disables the port, and an operator's order beside an isolation.
    /// Otherwise the first order stays, until its operator disables the port.
    fn and(mut self, mut later: Drained) -> Drained {
        let is_own = self.by == later.by;
        match (self.disabled, later.disabled) {
            (false, true) => {
                later.peer = later.peer.or(self.peer);
                later.beside = match is_own {
                    true => None,
                    false => Some(Box::new(self)),
                };
                later
            }
            (true, is_disabled) if !is_own && (!is_disabled || self.by == ISOLATION) => {
                let beside = match self.beside.take() {
                    None => later,
                    Some(before) => before.and(later),
                };
                self.beside = Some(Box::new(beside));
                self
            }
            _ => {
                if is_own && !later.note.is_empty() {
                    self.note = later.note;
                }
                self.forced |= later.forced;
                self.peer = later.peer.or(self.peer);
                self
            }
        }
    }

    /// The orders that `stays` accepts; `None` if it accepts none.
    fn retain(mut self, stays: &impl Fn(&Drained) -> bool) -> Option<Drained> {
        let beside = self.beside.take().and_then(|beside| beside.retain(stays));
        if !stays(&self) {
            return beside;
        }
        self.beside = beside.map(Box::new);
        Some(self)
    }
}

/// The reason why routes avoid a part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reason {
    /// An operator drained the part.
    Drained(Drained),
    /// The part loses or damages packets, as the text describes.
    Unhealthy(String),
}

/// The parts that routes avoid; at most `MAX_PARTS`.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Avoid {
    parts: BTreeMap<NodeOrCable, Reason>,
}

/// The reason why parts were not added.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AvoidError {
    /// Ports would be cut off.
    #[error(transparent)]
    CutOff(#[from] CutOff),
    /// The set would have too many parts.
    #[error(
        "routes go around {MAX_PARTS} parts already, the maximum; undrain a part before another is drained"
    )]
    TooMany,
}

impl Avoid {
    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The parts with their reasons, ascending.
    pub fn parts(&self) -> impl Iterator<Item = (NodeOrCable, &Reason)> {
        self.parts.iter().map(|(&part, reason)| (part, reason))
    }

    /// The drained parts, ascending.
    pub fn drained(&self) -> impl Iterator<Item = (NodeOrCable, &Drained)> {
        self.parts().filter_map(|(part, reason)| match reason {
            Reason::Drained(drained) => Some((part, drained)),
            Reason::Unhealthy(_) => None,
        })
    }

    /// The ports that must be disabled, ascending.
    pub fn disabled(&self) -> impl Iterator<Item = PortKey> {
        let disabled = self.drained().filter(|(_, drained)| drained.disabled);
        disabled.filter_map(|(part, _)| match part {
            NodeOrCable::Node(_) => None,
            NodeOrCable::Port(key) => Some(key),
        })
    }

    /// The reason for avoiding a part; `None` if the set lacks it.
    pub fn reason(&self, part: NodeOrCable) -> Option<&Reason> {
        self.parts.get(&part)
    }

    /// Adds all of `parts`, if their removal cuts no port of `fabric` off; otherwise adds none. A
    /// drained part stays drained if it also becomes unhealthy, and an unhealthy part becomes
    /// drained. No order replaces the order of another operator. Routes avoid the cables in
    /// `damped` (each given by either end) in any case.
    ///
    /// # Errors
    /// The parts would newly cut off ports other than ports of drained nodes, or the set would have
    /// too many parts. The set is unchanged in both cases.
    pub fn try_add(
        &mut self,
        parts: &BTreeMap<NodeOrCable, Reason>,
        fabric: &Fabric,
        damped: &BTreeSet<PortKey>,
    ) -> Result<(), AvoidError> {
        let mut next = self.clone();
        next.add(parts)?;
        next.check(self, fabric, damped)?;
        *self = next;
        Ok(())
    }

    /// Adds parts even if ports are cut off: the operator accepted this, or an earlier set
    /// contained these parts.
    ///
    /// # Errors
    /// The set would have too many parts, and is unchanged.
    pub fn add(&mut self, parts: &BTreeMap<NodeOrCable, Reason>) -> Result<(), AvoidError> {
        let fresh = parts.keys().filter(|part| !self.parts.contains_key(part));
        if self.parts.len() + fresh.count() > MAX_PARTS {
            return Err(AvoidError::TooMany);
        }
        for (&part, reason) in parts {
            let reason = match (self.parts.get(&part), reason) {
                (Some(Reason::Drained(_)), Reason::Unhealthy(_)) => continue,
                (Some(Reason::Drained(before)), Reason::Drained(later)) => {
                    Reason::Drained(before.clone().and(later.clone()))
                }
                _ => reason.clone(),
            };
            self.parts.insert(part, reason);
        }
        Ok(())
    }

    /// Replaces all unhealthy parts by `parts`, up to the maximum size of the set. Returns whether
    /// the set has changed.
    pub fn replace_unhealthy(&mut self, parts: &BTreeMap<NodeOrCable, String>) -> bool {
        let before = self.clone();
        self.parts.retain(|part, reason| {
            matches!(reason, Reason::Drained(_)) || parts.contains_key(part)
        });
        for (&part, why) in parts {
            if self.parts.len() < MAX_PARTS || self.parts.contains_key(&part) {
                let reason = Reason::Unhealthy(why.clone());
                // The length was checked, so the addition cannot fail.
                let _ = self.add(&BTreeMap::from([(part, reason)]));
            }
        }
        *self != before
    }

    /// Ends the drains of these parts. Ports that are disabled stay so.
    pub fn undrain(&mut self, parts: &BTreeSet<NodeOrCable>) {
        self.retain_orders(parts, &|order| order.disabled);
    }

    /// Ends all orders that keep a port disabled. Drains of its cable by others stay in force.
    pub fn enable(&mut self, port: PortKey) {
        let parts = BTreeSet::from([NodeOrCable::Port(port)]);
        self.retain_orders(&parts, &|order| !order.disabled);
    }

    /// Ends the orders about these parts that `stays` does not accept.
    fn retain_orders(&mut self, parts: &BTreeSet<NodeOrCable>, stays: &impl Fn(&Drained) -> bool) {
        for part in parts {
            if let Some(Reason::Drained(drained)) = self.parts.get(part) {
                match drained.clone().retain(stays) {
                    Some(left) => self.parts.insert(*part, Reason::Drained(left)),
                    None => self.parts.remove(part),
                };
            }
        }
    }

    /// The order by which another operator than `by` keeps a port disabled; `None` if there is
    /// none. An isolation is no operator's order.
    pub fn disabled_by_another(&self, port: PortKey, by: &str) -> Option<&Drained> {
        let Some(Reason::Drained(drained)) = self.parts.get(&NodeOrCable::Port(port)) else {
            return None;
        };
        let mut orders = drained.orders();
        orders.find(|order| order.disabled && order.by != by && order.by != ISOLATION)
    }

    /// The drained part that `part` denotes; `None` if that part is not drained. A port denotes a
    /// drained cable by either end, and also by the end that the cable had at the time of the
    /// drain.
    pub fn drained_at(&self, part: NodeOrCable, fabric: &Fabric) -> Option<NodeOrCable> {
        let is_drained =
            |part: &NodeOrCable| matches!(self.parts.get(part), Some(Reason::Drained(_)));
        let NodeOrCable::Port(key) = part else {
            return Some(part).filter(is_drained);
        };
        let peer = fabric.find_port(key).and_then(|at| fabric.port(at).peer);
        let now = [Some(key), peer]
            .into_iter()
            .flatten()
            .map(NodeOrCable::Port);
        // A port with another cable is no longer the other end.
        let then = |&(part, drained): &(NodeOrCable, &Drained)| {
            drained.peer == Some(key) && peer.is_none() && !part.is_there(fabric)
        };
        let found = now.into_iter().find(is_drained);
        found.or_else(|| self.drained().find(then).map(|(part, _)| part))
    }
}
