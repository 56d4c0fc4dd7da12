//! The operator's rules about switches and their ports, which the fabric does not state itself.
//!
//! Rules are part of the topology, so that every path cost has one source. A plan under other rules
//! reuses no ranking and no tables of the previous plan.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rsm_ids::{Guid, PortNum};

use super::{Group, SwitchIdx, Topology};

/// Rules for engines; the default has no rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SwitchRules {
    /// The cost, in hops, of leaving a switch by a port: 1 to [`SwitchRules::MOST_HOPS`]. Ports
    /// without a rule cost 1.
    pub hops: BTreeMap<(Guid, PortNum), u8>,
    /// The ports of switches whose load does not count when routes are balanced.
    pub uncounted: BTreeSet<(Guid, PortNum)>,
    /// The rank of a switch among the switches of its level, in place of its GUID.
    pub ids: BTreeMap<Guid, u64>,
}

impl SwitchRules {
    /// The maximum cost of one hop. Path costs end at 253, so that a path can have six such hops.
    pub const MOST_HOPS: u8 = 40;

    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.hops.is_empty() && self.uncounted.is_empty() && self.ids.is_empty()
    }
}

impl Topology {
    /// The fabric with other rules.
    pub fn with_rules(self, rules: Arc<SwitchRules>) -> Topology {
        Topology { rules, ..self }
    }

    /// The rules.
    pub fn rules(&self) -> &Arc<SwitchRules> {
        &self.rules
    }

    /// The cost, in hops, of leaving a switch over one of its port groups: the minimum over the
    /// group's links.
    pub(crate) fn hops(&self, switch: SwitchIdx, group: Group<'_>) -> u8 {
        if self.rules.hops.is_empty() {
            return 1;
        }
        let guid = self.switch(switch).guid;
        let hops = |port| self.rules.hops.get(&(guid, port)).copied().unwrap_or(1);
        let links = group.links.iter().map(|link| hops(link.port));
        let most = SwitchRules::MOST_HOPS;
        links.min().unwrap_or(1).clamp(1, most)
    }

    /// Whether load on a port of a switch counts when routes are balanced.
    pub(crate) fn is_counted(&self, switch: SwitchIdx, port: PortNum) -> bool {
        let uncounted = &self.rules.uncounted;
        uncounted.is_empty() || !uncounted.contains(&(self.switch(switch).guid, port))
    }

    /// The sort key of a switch among the switches of its level: switches with lower keys are
    /// higher.
    pub(crate) fn order_id(&self, switch: SwitchIdx) -> (u64, SwitchIdx) {
        let guid = self.switch(switch).guid;
        let id = self.rules.ids.get(&guid).copied().unwrap_or(guid.0);
        (id, switch)
    }
}
