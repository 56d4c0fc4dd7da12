//! The highest LID for which the forwarding tables of switches have entries.

use std::collections::{BTreeMap, BTreeSet};

use rsm_ids::{Guid, Lid, PortKey};
use rsm_model::fabric::{Fabric, Node};
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};

use super::Claims;

/// The LIDs that switches can forward to, and the switches whose tables are too small for the LIDs
/// in use.
pub(super) struct TableLimit {
    /// The highest LID to assign.
    pub(super) last: u16,
    /// Switches that get no LID, because more ports have LIDs beyond the tables of these switches
    /// than these switches have cables.
    pub(super) too_small: BTreeSet<Guid>,
    /// The last LID of each port that claims or holds LIDs, ascending.
    used: Vec<u16>,
}

impl TableLimit {
    /// The limit for a fabric whose ports keep the LIDs that they hold or claim. Without `claims`,
    /// every port gets a new LID, and the smallest table is the limit.
    ///
    /// A switch with a small table does not lower the limit if more ports have LIDs beyond its
    /// table than this switch and all switches with smaller tables have cables: a new switch, or a
    /// host that claims to be a switch, must not move LIDs in use. In all other cases, and always
    /// for a switch next to the manager, the table is the limit: ports with LIDs beyond the table
    /// get other LIDs.
    pub(super) fn of(fabric: &Fabric, claims: Option<&Claims>) -> TableLimit {
        let mut used: Vec<u16> = match claims {
            Some(claims) => last_lids(fabric, claims).collect(),
            None => Vec::new(),
        };
        used.sort_unstable();
        let mut limit = TableLimit {
            last: Lid::UNICAST_LAST.0,
            too_small: BTreeSet::new(),
            used,
        };
        let mut by_size: BTreeMap<u16, Vec<&Node>> = BTreeMap::new();
        for (_, node) in fabric.switches() {
            if let Some(last) = last_entry(node) {
                by_size.entry(last).or_default().push(node);
            }
        }
        let mut cables = 0;
        for (last, switches) in by_size.range(..limit.last) {
            cables += switches
                .iter()
                .map(|node| node.cables().count())
                .sum::<usize>();
            let carries_manager = switches.iter().any(|node| is_next_to_manager(fabric, node));
            if carries_manager || limit.ports_above(*last) <= cables {
                limit.last = *last;
                break;
            }
            limit
                .too_small
                .extend(switches.iter().map(|node| node.guid));
        }
        limit
    }

    /// The number of ports with a LID above `last`.
    fn ports_above(&self, last: u16) -> usize {
        self.used.len() - self.used.partition_point(|&lid| lid <= last)
    }

    /// The findings about switches whose tables are too small.
    pub(super) fn findings(&self, fabric: &Fabric) -> Vec<Finding> {
        let nodes = self
            .too_small
            .iter()
            .filter_map(|&guid| fabric.node_of(guid));
        let finding = |node: &Node| {
            let last = last_entry(node)?;
            let text = format!(
                "{} forwards to LIDs up to {last} only, and {} ports have higher LIDs: the switch \
                 gets no LID and no routes, and nodes that only it connects are cut off; replace \
                 the switch, or let all ports get new LIDs (lids.reassign)",
                node.name(),
                self.ports_above(last),
            );
            let subject = Subject::Node(node.guid);
            let kind = FindingKind::TableTooSmall;
            Some(Finding::new(kind, subject, Severity::Error, text))
        };
        nodes.filter_map(finding).collect()
    }
}

/// The last LID of each end port that claims or holds LIDs.
fn last_lids(fabric: &Fabric, claims: &Claims) -> impl Iterator<Item = u16> {
    fabric.end_ports().filter_map(|(_, port)| {
        let claimed = claims.get(&port.guid);
        let last = claimed.map(|claim| claim.base.0.saturating_add(claim.lmc.lids() - 1));
        last.or_else(|| port.lid().is_unicast().then_some(port.lid().0))
    })
}

/// The last LID in the forwarding table of a switch; `None` if SwitchInfo states no size.
pub(super) fn last_entry(node: &Node) -> Option<u16> {
    let entries = node.switch.as_ref()?.linear_fdb_cap();
    (entries > 1).then(|| entries - 1)
}

/// Whether the manager's port belongs to the switch, or is cabled to it.
fn is_next_to_manager(fabric: &Fabric, switch: &Node) -> bool {
    let Some(local) = fabric.local else {
        return false;
    };
    let PortKey { node, .. } = fabric.key(local);
    let peer = fabric.port(local).peer.map(|peer| peer.node);
    node == switch.guid || peer == Some(switch.guid)
}
