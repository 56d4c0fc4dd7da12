//! Asks about hosts of a unit that are cabled to rails in two orders if no majority decides, and
//! about units whose rails are in another order of leaves than in other units.

use std::collections::{BTreeMap, BTreeSet};

use super::{MisplacedPort, RailSearch, within_rails};
use crate::findings::{GpuFinding, GpuFindingKind};
use crate::host::Host;
use crate::rails::{Rail, Unit};
use rsm_routing::topology::SwitchIdx;

/// Slots of a host, each with the leaf that its port reaches.
type Reached = Vec<(usize, SwitchIdx)>;

/// The leaves that ports should reach, each with the leaf that they do reach.
type Exchange = Vec<(SwitchIdx, SwitchIdx)>;

/// If at least one in this many hosts of a unit deviates, the finding is a question, because it is
/// unclear which hosts are wrong.
const QUESTION_DIVISOR: usize = 3;

impl RailSearch<'_> {
    /// Reports units of which one half has the rails in another order than the other half.
    pub(super) fn halves(&self, findings: &mut Vec<GpuFinding>) {
        let sure = |rail: &Option<Rail>| rail.is_none_or(|rail| rail.is_sure());
        for unit in &self.analysis.rails.units {
            let unsure: Vec<usize> = (0..unit.rails.len())
                .filter(|&slot| !sure(&unit.rails[slot]))
                .collect();
            let mut by_pattern: BTreeMap<Reached, Vec<usize>> = BTreeMap::new();
            for &place in &unit.hosts {
                let pattern = self.pattern(place, &unsure);
                if !pattern.is_empty() {
                    by_pattern.entry(pattern).or_default().push(place);
                }
            }
            let mut halves: Vec<(Reached, Vec<usize>)> = by_pattern.into_iter().collect();
            halves.sort_by(|one, other| one.1.cmp(&other.1));
            if let [one, other] = &halves[..]
                && one.1.len() == other.1.len()
            {
                findings.push(self.two_orders(one, other));
            }
        }
    }

    /// Removes racks from `misplaced`: several hosts of a unit whose ports exchange the same leaves
    /// share one finding, which is a question if they are a large part of the unit.
    pub(super) fn racks(&self, misplaced: &mut Vec<MisplacedPort>, findings: &mut Vec<GpuFinding>) {
        let mut of_host: BTreeMap<usize, Vec<MisplacedPort>> = BTreeMap::new();
        for port in misplaced.iter() {
            of_host.entry(port.host).or_default().push(port.clone());
        }
        let mut racks: BTreeMap<(Option<u32>, Exchange), Vec<usize>> = BTreeMap::new();
        for (&place, moved_ports) in of_host
            .iter()
            .filter(|(_, moved_ports)| within_rails(moved_ports))
        {
            let mut exchange: Exchange = moved_ports
                .iter()
                .map(|port| (port.expected, port.actual))
                .collect();
            exchange.sort_unstable();
            let unit = self.analysis.rails.unit_of[place];
            racks.entry((unit, exchange)).or_default().push(place);
        }
        for hosts in racks.into_values().filter(|hosts| hosts.len() > 1) {
            let moved_ports = &of_host[&hosts[0]];
            let unit = self.analysis.rails.unit(hosts[0]);
            let all = unit.map_or(0, |unit| unit.hosts.len());
            match QUESTION_DIVISOR * hosts.len() >= all {
                true => findings.push(self.many_of_unit(&hosts, moved_ports)),
                false => findings.push(self.rack(&hosts, moved_ports)),
            }
            misplaced.retain(|port| !hosts.contains(&port.host));
        }
    }

    /// The leaves that the ports in `slots` of a host reach; empty if a port is missing or not in
    /// the fabric.
    fn pattern(&self, place: usize, slots: &[usize]) -> Reached {
        let host = &self.analysis.hosts[place];
        let leaf = |slot: usize| self.leaf(host, host.slots.get(slot).copied().flatten()?);
        let reached = slots.iter().map(|&slot| Some((slot, leaf(slot)?)));
        reached.collect::<Option<Reached>>().unwrap_or_default()
    }

    /// The finding about hosts of a unit whose cables are exchanged in the same way.
    fn rack(&self, hosts: &[usize], moved_ports: &[MisplacedPort]) -> GpuFinding {
        let evidence = format!(
            "{} hosts of a unit have {}: each cable belongs where another one of its host is",
            hosts.len(),
            self.ends(
                &self.analysis.hosts[hosts[0]],
                moved_ports.iter().map(MisplacedPort::end)
            )
        );
        let kind = GpuFindingKind::RailCablesSwapped;
        let mut finding = self.finding(kind, hosts[0], moved_ports, evidence);
        finding.also = self.names(&hosts[1..]);
        finding
    }

    /// The question about hosts that are a large part of their unit.
    fn many_of_unit(&self, hosts: &[usize], moved_ports: &[MisplacedPort]) -> GpuFinding {
        let slots: Vec<usize> = moved_ports
            .iter()
            .filter_map(|port| self.analysis.hosts[hosts[0]].slot(port.port))
            .collect();
        let unit = self.analysis.rails.unit(hosts[0]);
        let others: Vec<usize> = unit
            .iter()
            .flat_map(|unit| &unit.hosts)
            .copied()
            .filter(|place| !hosts.contains(place))
            .collect();
        let [one, other] = [hosts, &others].map(|half| {
            let pattern = half.first().map(|&place| self.pattern(place, &slots));
            (pattern.unwrap_or_default(), half.to_vec())
        });
        self.two_orders(&one, &other)
    }

    /// The question about two groups of hosts that have the rails in different orders.
    fn two_orders(&self, one: &(Reached, Vec<usize>), other: &(Reached, Vec<usize>)) -> GpuFinding {
        let [first, second] = [one, other].map(|(pattern, hosts)| {
            let host = &self.analysis.hosts[hosts[0]];
            let ends = pattern
                .iter()
                .filter_map(|&(slot, leaf)| Some((host.slots[slot]?, leaf)));
            let more = match hosts.len() - 1 {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!("{}{more} have {}", host.name, self.ends(host, ends))
        });
        let evidence = format!("{first}, {second}: the cables of one of the two are exchanged");
        let mut hosts: Vec<usize> = one.1.iter().chain(&other.1).copied().collect();
        hosts.sort_unstable();
        let mut names = self.names(&hosts).into_iter();
        let first = names.next().unwrap_or_default();
        let mut finding = GpuFinding::new(GpuFindingKind::RailsDisagree, &first, evidence);
        finding.also = names.collect();
        finding
    }

    /// Ports with the leaves that they reach, such as `mlx5_0 at leaf-2 and mlx5_1 at leaf-1`.
    fn ends(&self, host: &Host, ends: impl Iterator<Item = (usize, SwitchIdx)>) -> String {
        let end = |(port, leaf): (usize, SwitchIdx)| {
            let label = host.inventory.hca_ports[port].label();
            format!("{label} at {}", self.fabric.switch_name(leaf))
        };
        ends.map(end).collect::<Vec<String>>().join(" and ")
    }

    /// The names of hosts given by position.
    fn names(&self, hosts: &[usize]) -> Vec<String> {
        let name = |&place: &usize| self.analysis.hosts[place].name.clone();
        hosts.iter().map(name).collect()
    }

    /// Reports units whose rails are at leaves in another order of names than in most units.
    pub(super) fn orders_of_units(&self, findings: &mut Vec<GpuFinding>) {
        let units = self.analysis.rails.units.iter();
        let orders: Vec<(&Unit, Vec<usize>)> = units
            .filter_map(|unit| Some((unit, self.order_of_names(unit)?)))
            .collect();
        let mut count: BTreeMap<&[usize], usize> = BTreeMap::new();
        for (_, order) in &orders {
            *count.entry(order).or_default() += 1;
        }
        for (unit, order) in &orders {
            let alike = count.iter().filter(|(other, _)| other.len() == order.len());
            let all: usize = alike.clone().map(|(_, count)| count).sum();
            // Of two units, the one whose leaves are out of the order of their names is reported.
            let is_usual = |(other, count): &(&&[usize], &usize)| {
                2 * **count > all || all == 2 && other.is_sorted()
            };
            let usual = alike.clone().find(is_usual).map(|(usual, _)| *usual);
            if let Some(usual) = usual.filter(|usual| usual != order) {
                findings.push(self.unit_in_other_order(unit, order, usual));
            }
        }
    }

    /// The rank of each rail's leaf by name among the unit's leaves; `None` if two rails have one
    /// leaf, or a leaf has no number in its name.
    fn order_of_names(&self, unit: &Unit) -> Option<Vec<usize>> {
        // A leaf that a third of the hosts does not reach has a question of its own.
        let is_plain = |rail: &Rail| rail.votes > 2 * rail.runner_up;
        let leaf = |rail: &Option<Rail>| rail.filter(is_plain).map(|rail| rail.leaf);
        let leaves: Vec<SwitchIdx> = unit.rails.iter().map(leaf).collect::<Option<_>>()?;
        let names: Vec<Vec<(String, u64)>> = leaves
            .iter()
            .map(|leaf| texts_and_numbers(self.fabric.switch_names.get(leaf.index())?))
            .collect::<Option<_>>()?;
        let sorted: BTreeSet<&Vec<(String, u64)>> = names.iter().collect();
        let rank = |name| sorted.iter().position(|other| *other == name);
        let is_unique = sorted.len() == names.len() && names.len() > 1;
        is_unique.then(|| names.iter().filter_map(rank).collect())
    }

    /// The finding about a unit whose rails have the order `order` instead of `usual`.
    fn unit_in_other_order(&self, unit: &Unit, order: &[usize], usual: &[usize]) -> GpuFinding {
        let moved = (0..order.len()).filter(|&rail| order[rail] != usual[rail]);
        let ends: Vec<String> = moved
            .filter_map(|rail| {
                let leaf = self.fabric.switch_name(unit.rails[rail]?.leaf);
                Some(format!("rail {rail} at {leaf}"))
            })
            .collect();
        let evidence = format!(
            "the unit has {}, in another order of the leaves' names than the other units: the cables of all of its \
             hosts are exchanged, or the names of its leaves",
            ends.join(" and ")
        );
        let mut names = self.names(&unit.hosts).into_iter();
        let first = names.next().unwrap_or_default();
        let mut finding = GpuFinding::new(GpuFindingKind::RailsDisagree, &first, evidence);
        finding.also = names.collect();
        finding
    }
}

impl MisplacedPort {
    /// The port with the leaf that it reaches.
    fn end(&self) -> (usize, SwitchIdx) {
        (self.port, self.actual)
    }
}

/// The alternating texts and numbers of a name, so that 2 comes before 10; `None` without a number.
fn texts_and_numbers(name: &str) -> Option<Vec<(String, u64)>> {
    let is_digit = |char: char| char.is_ascii_digit();
    let mut parts = Vec::new();
    let mut rest = name;
    while let Some(at) = rest.find(is_digit) {
        let (text, number) = rest.split_at(at);
        let digits = number.len() - number.trim_start_matches(is_digit).len();
        parts.push((text.to_owned(), number[..digits].parse().ok()?));
        rest = &number[digits..];
    }
    let has_number = !parts.is_empty();
    parts.push((rest.to_owned(), 0));
    has_number.then_some(parts)
}
