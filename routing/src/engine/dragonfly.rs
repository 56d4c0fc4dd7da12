//! `dragonfly+`: minimal paths with at most one hop between groups. After that hop, packets change
//! to another VL.

use super::columns::{self, Column, NO_GROUP};
use super::shape::Groups;
use super::{Engine, EngineError, Options, Routing, nue, prepare};
use crate::lanes::{Lanes, Mapping, Row, ServiceLevels};
use crate::tables::Tables;
use crate::topology::{PortUse, SwitchIdx, Topology};

/// Minimal paths in two-level groups whose spines are linked to those of every other group: up to a
/// spine with a link to the other group, across, and down.
///
/// - *Guarantee*: no loop and no credit loop. Within a group, paths go up and then down. One leaf
///   of each group counts as a top above the spines: over it, a spine without a link to the other
///   group reaches a spine that has one. A switch sends packets from another group on the second
///   VL, where packets only go down.
/// - *Needs*: three VLs. Packets between hosts may have any service level. Packets to spines, and
///   to leaves that faults cut off from such paths, need SL 1: they follow paths of
///   [`nue`](super::Nue) on the third VL.
/// - *Complexity*: O(l² · s) for l leaves with s spines each, times the hosts of a leaf.
#[derive(Clone, Copy, Debug, Default)]
pub struct DragonflyPlus;

/// The VL of packets on the way to a link between groups, and on that link.
const SOURCE_VL: u8 = 0;
/// The VL of packets beyond a link between groups.
const TARGET_VL: u8 = 1;
/// The VL of packets to destinations without a minimal path.
const OTHER_VL: u8 = 2;
const VLS: u8 = 3;
/// The service level of packets to destinations without a minimal path.
const OTHER_SL: usize = 1;

/// The kind of ports to hosts and to switches of the same group, in SLtoVLMappingTables.
const LOCAL: u8 = 0;
/// The kind of ports to switches of other groups.
const GLOBAL: u8 = 1;

impl Engine for DragonflyPlus {
    fn name(&self) -> &'static str {
        "dragonfly+"
    }

    fn guarantee(&self) -> &'static str {
        "paths with one hop between groups, without loops or credit loops, on dragonfly+ fabrics; \
         others are refused"
    }

    fn route(
        &self,
        topology: &Topology,
        options: &Options,
        _previous: Option<&Tables>,
    ) -> Result<Routing, EngineError> {
        prepare::check_capacities(topology)?;
        let engine = self.name();
        let groups = Groups::find(topology).map_err(|reason| EngineError::Shape {
            engine,
            reason: format!("it is no dragonfly+: {reason}"),
        })?;
        prepare::check_data_vls(engine, VLS, options)?;
        prepare::in_pool(options, || {
            let mut finder = ColumnFinder::new(topology, &groups);
            let mut columns_by_switch: Vec<Vec<Column>> =
                topology.indices().map(|to| finder.columns(to)).collect();
            let others: Vec<SwitchIdx> = topology
                .indices()
                .filter(|to| columns_by_switch[to.index()].is_empty())
                .collect();
            for (to, columns) in nue::route_some(topology, &others) {
                columns_by_switch[to.index()] = columns;
            }
            let hosts_apart = others.iter().filter(|&&to| topology.hosts(to) > 0).count();
            let leaves = groups.is_leaf.iter().filter(|&&is_leaf| is_leaf).count();
            let mut reason = format!(
                "dragonfly+: {} groups of {leaves} leaves in all, one hop between groups, on two lanes",
                groups.count
            );
            if hosts_apart > 0 {
                reason += &format!(
                    "; {hosts_apart} switches with hosts have no such path from everywhere, and are \
                     reached by nue on service level {OTHER_SL}"
                );
                reason += prepare::SEVERAL_SLS;
            }
            let lanes = lanes(topology, &groups, &others);
            Routing::unranked(
                engine,
                reason,
                columns::tables(topology, &columns_by_switch),
                lanes,
            )
        })
    }
}

/// The service levels and VLs; `others` are the destination switches without minimal paths.
fn lanes(topology: &Topology, groups: &Groups, others: &[SwitchIdx]) -> Lanes {
    let kind = |switch: SwitchIdx, port| match topology.port_use(switch, port) {
        PortUse::Link { peer, .. }
            if groups.group[switch.index()] != groups.group[peer.index()] =>
        {
            GLOBAL
        }
        _ => LOCAL,
    };
    let row = |input: u8, output: u8| -> Row {
        let crossed = input == GLOBAL && output == LOCAL;
        let mut row = [if crossed { TARGET_VL } else { SOURCE_VL }; 16];
        row[OTHER_SL] = OTHER_VL;
        row
    };
    let mut levels = vec![0; topology.switch_count()];
    for other in others {
        levels[other.index()] = OTHER_SL as u8;
    }
    let mapping = Mapping::new(topology, 2, kind, row);
    Lanes::new(ServiceLevels::ByDestination(levels), mapping, VLS)
}

/// Finds columns and tracks the load of each port group.
struct ColumnFinder<'a> {
    topology: &'a Topology,
    groups: &'a Groups,
    /// For each group of switches, its top: the leaf with the most neighbours. Paths may go up from
    /// spines to it.
    top: Vec<SwitchIdx>,
    /// The load of each port group of the topology: paths divided by the rate of its links.
    load: Vec<f64>,
    /// The total rate of each port group.
    rate: Vec<f64>,
    /// The number of hosts of each switch.
    hosts: Vec<f64>,
    /// For each switch, its port groups with the group of switches to which each leads, sorted by
    /// that group.
    by_group: Vec<Vec<(u32, usize)>>,
}

impl<'a> ColumnFinder<'a> {
    fn new(topology: &'a Topology, groups: &'a Groups) -> ColumnFinder<'a> {
        let mut top: Vec<Option<SwitchIdx>> = vec![None; groups.count];
        for leaf in topology
            .indices()
            .filter(|leaf| groups.is_leaf[leaf.index()])
        {
            let best = &mut top[groups.group[leaf.index()] as usize];
            if best.is_none_or(|best| topology.groups(best).len() < topology.groups(leaf).len()) {
                *best = Some(leaf);
            }
        }
        let rate = |group| {
            let links = topology.group(group).links;
            links.iter().map(|link| f64::from(link.weight)).sum()
        };
        let by_group = |switch: SwitchIdx| {
            let to = |own: usize| groups.group[topology.group(own).neighbour.index()];
            let own_groups = topology.group_range(switch);
            let mut by_group: Vec<(u32, usize)> = own_groups.map(|own| (to(own), own)).collect();
            by_group.sort_unstable();
            by_group
        };
        let hosts = |switch: SwitchIdx| topology.hosts(switch) as f64;
        ColumnFinder {
            hosts: topology.indices().map(hosts).collect(),
            by_group: topology.indices().map(by_group).collect(),
            topology,
            groups,
            // Every group of switches has a leaf.
            top: top.into_iter().map(Option::unwrap_or_default).collect(),
            load: vec![0.0; topology.group_count()],
            rate: (0..topology.group_count()).map(rate).collect(),
        }
    }

    /// Computes a column to a leaf for each of its destinations, each with the load of the earlier
    /// columns. Empty if the switch is no leaf, or if some switch has no minimal path to it.
    fn columns(&mut self, to: SwitchIdx) -> Vec<Column> {
        if !self.groups.is_leaf[to.index()] {
            return Vec::new();
        }
        let ways = self.topology.destinations_of(to).len();
        let columns: Option<Vec<Column>> = (0..ways).map(|_| self.column(to)).collect();
        columns.unwrap_or_default()
    }

    /// Computes a column to a leaf, and adds its load; `None` if some switch has no minimal path to
    /// the leaf.
    fn column(&mut self, to: SwitchIdx) -> Option<Column> {
        let topology = self.topology;
        let groups = self.groups;
        let home = groups.group[to.index()];
        // For each switch, the port group of the topology by which it sends.
        let mut next: Vec<Option<usize>> = vec![None; topology.switch_count()];
        // Spines above the leaf come first, then spines with a link to one of these, then the top
        // of each group by its best spine. All other switches follow: they go up to a spine that
        // has a path, or to the top.
        let is_spine = |switch: &SwitchIdx| !groups.is_leaf[switch.index()];
        for spine in topology.indices().filter(is_spine) {
            if groups.group[spine.index()] == home {
                next[spine.index()] = topology
                    .group_range(spine)
                    .find(|&group| topology.group(group).neighbour == to);
            }
        }
        let above: Vec<bool> = next.iter().map(Option::is_some).collect();
        for spine in topology.indices().filter(is_spine) {
            if groups.group[spine.index()] != home {
                let across = self.leading_to(spine, home);
                next[spine.index()] = self.lightest(across, |other| above[other.index()]);
            }
        }
        let has_path: Vec<bool> = next.iter().map(Option::is_some).collect();
        for &top in &self.top {
            if top != to {
                next[top.index()] =
                    self.lightest(topology.group_range(top), |spine| has_path[spine.index()]);
            }
        }
        let is_top = |switch: SwitchIdx| self.top[groups.group[switch.index()] as usize] == switch;
        for spine in topology.indices().filter(is_spine) {
            if next[spine.index()].is_none() {
                next[spine.index()] = topology.group_range(spine).find(|&group| {
                    let other = topology.group(group).neighbour;
                    is_top(other) && (other == to || next[other.index()].is_some())
                });
            }
        }
        // A leaf prefers a spine with a path of its own to a spine that has to go through the top.
        for leaf in topology
            .indices()
            .filter(|leaf| groups.is_leaf[leaf.index()])
        {
            if leaf != to && next[leaf.index()].is_none() {
                let up = || topology.group_range(leaf);
                next[leaf.index()] = self
                    .lightest(up(), |spine| has_path[spine.index()])
                    .or_else(|| self.lightest(up(), |spine| next[spine.index()].is_some()));
            }
        }
        let is_missing = |switch: SwitchIdx| {
            let connected = topology.component_of(switch) == topology.component_of(to);
            connected && switch != to && next[switch.index()].is_none()
        };
        if topology.indices().any(is_missing) {
            return None;
        }
        self.add_load(to, &next);
        let own = |switch: SwitchIdx| match next[switch.index()] {
            // A switch has at most 254 groups.
            Some(group) => (group - topology.group_range(switch).start) as u8,
            None => NO_GROUP,
        };
        Some(topology.indices().map(own).collect())
    }

    /// The port groups of a switch that lead to a group of switches, in ascending order.
    fn leading_to(&self, from: SwitchIdx, group: u32) -> impl Iterator<Item = usize> + '_ {
        let groups = &self.by_group[from.index()];
        let first = groups.partition_point(|&(to, _)| to < group);
        let leading = groups[first..]
            .iter()
            .take_while(move |(to, _)| *to == group);
        leading.map(|&(_, own)| own)
    }

    /// The least loaded port group of `among` whose neighbour is permitted, the first one if
    /// several are equal; `None` if no neighbour is permitted.
    fn lightest(
        &self,
        among: impl Iterator<Item = usize>,
        is_permitted: impl Fn(SwitchIdx) -> bool,
    ) -> Option<usize> {
        among
            .filter(|&group| is_permitted(self.topology.group(group).neighbour))
            .min_by(|&a, &b| self.load[a].total_cmp(&self.load[b]))
    }

    /// Adds the paths of all hosts to a leaf to the load.
    fn add_load(&mut self, to: SwitchIdx, next: &[Option<usize>]) {
        for from in self.topology.indices() {
            let hosts = self.hosts[from.index()];
            let mut at = from;
            // The longest path is leaf, spine, top, spine, spine, leaf.
            for _ in 0..6 {
                let (Some(group), true) = (next[at.index()], hosts > 0.0 && at != to) else {
                    break;
                };
                self.load[group] += hosts / self.rate[group];
                at = self.topology.group(group).neighbour;
            }
        }
    }
}
