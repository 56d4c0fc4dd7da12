//! The operator's rules about switches and their ports, beside what the fabric says of itself.
//!
//! Rules are part of the topology, so that every cost of a path has one source. A plan under other
//! rules takes no ranking and no tables from the plan before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rsm_ids::{Guid, PortNum};

use super::{Group, SwitchIdx, Topology};

/// Rules for engines; the default has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SwitchRules {
    /// How many hops the hop out of a switch by a port counts as, 1 to [`SwitchRules::MOST_HOPS`];
    /// 1 for ports without a rule.
    pub hops: BTreeMap<(Guid, PortNum), u8>,
    /// Ports of switches whose load does not count when routes are spread.
    pub uncounted: BTreeSet<(Guid, PortNum)>,
    /// The place of a switch among those of one level, in the place of its GUID.
    pub ids: BTreeMap<Guid, u64>,
}

impl SwitchRules {
    /// The most hops that one counts as. Costs of paths end at 253: with this many, six such hops
    /// on one path still have a cost.
    pub const MOST_HOPS: u8 = 40;

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.hops.is_empty() && self.uncounted.is_empty() && self.ids.is_empty()
    }
}

impl Topology {
    /// The same fabric under other rules.
    pub fn with_rules(self, rules: Arc<SwitchRules>) -> Topology {
        Topology { rules, ..self }
    }

    /// The rules.
    pub fn rules(&self) -> &Arc<SwitchRules> {
        &self.rules
    }

    /// How many hops the hop from a switch over one of its port groups counts as: that of the link
    /// with the fewest.
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

    /// Whether load on a port of a switch counts when routes are spread.
    pub(crate) fn is_counted(&self, switch: SwitchIdx, port: PortNum) -> bool {
        let uncounted = &self.rules.uncounted;
        uncounted.is_empty() || !uncounted.contains(&(self.switch(switch).guid, port))
    }

    /// The place of a switch among those of one level: lower ones lie higher.
    pub(crate) fn order_id(&self, switch: SwitchIdx) -> (u64, SwitchIdx) {
        let guid = self.switch(switch).guid;
        let id = self.rules.ids.get(&guid).copied().unwrap_or(guid.0);
        (id, switch)
    }
}
