//! The parts that the routes of a plan avoid, and findings about parts that the routes use
//! nevertheless.

use std::collections::BTreeSet;
use std::sync::Arc;

use rsm_ids::PortKey;
use rsm_model::fabric::Fabric;
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};

use crate::avoid::{Avoid, NodeOrCable, Reason};

/// The parts that the routes of a plan avoid.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Avoided {
    /// The set of parts.
    pub avoid: Arc<Avoid>,
    /// Cables that routes avoid for other reasons, each given by either end.
    pub damped: Arc<BTreeSet<PortKey>>,
    /// Parts that routes use nevertheless, because ports would be cut off otherwise.
    pub in_use: BTreeSet<NodeOrCable>,
    /// The reason why routes use all parts of the set; `None` if they avoid the parts.
    pub(crate) suspended: Option<String>,
}

impl Avoided {
    /// Whether routes use a part that the set contains.
    pub fn uses(&self, part: NodeOrCable) -> bool {
        self.suspended.is_some() || self.in_use.contains(&part)
    }

    /// Findings about the parts of `fabric` that routes use nevertheless.
    pub(super) fn findings(&self, fabric: &Fabric) -> Vec<Finding> {
        let parts = self.avoid.parts();
        let used = parts.filter(|&(part, _)| self.uses(part) && part.is_there(fabric));
        used.map(|(part, reason)| self.finding(part, reason, fabric))
            .collect()
    }

    fn finding(&self, part: NodeOrCable, reason: &Reason, fabric: &Fabric) -> Finding {
        let (name, subject) = match part {
            NodeOrCable::Node(guid) => (fabric.name(guid), Subject::Node(guid)),
            NodeOrCable::Port(key) => (fabric.port_name(key), Subject::Port(key)),
        };
        let why = match &self.suspended {
            Some(why) => format!("no routes go around it ({why})"),
            None => "ports would be cut off otherwise".to_owned(),
        };
        let text = match reason {
            Reason::Drained(_) => format!(
                "{name} is drained and routes use it all the same: {why}; do not unplug it, and repair the other faults first"
            ),
            Reason::Unhealthy(fault) => format!(
                "{name} is unhealthy ({fault}) and routes use it all the same: {why}; repair the other faults first"
            ),
        };
        Finding::new(FindingKind::DrainedInUse, subject, Severity::Warning, text)
    }
}
