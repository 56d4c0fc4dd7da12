//! The partners that ports lose by a change of partitions: the ports with which they can no longer
//! communicate.
//!
//! The core refuses a change by which ports lose partners until the operator accepts the loss;
//! `docs/guards.md` lists the guards of each call.

use std::collections::{BTreeMap, BTreeSet};

use rsm_config::{PartitionLoss, Partitions, Rule};
use rsm_ids::Guid;
use rsm_mad::wire::attr::{NodeType, PKey};
use rsm_model::fabric::{Fabric, PortRef};

use super::isolated::{MemberHosts, bases, host_numbers};
use super::members::{EndPorts, WantedKeys};
use super::with_rules;

/// The partners that ports of `fabric` lose in the partition `p_key` when the partitions `after`
/// replace the partitions `before`.
pub fn loss_between(
    fabric: &Fabric,
    p_key: PKey,
    before: &Partitions,
    after: &Partitions,
) -> PartitionLoss {
    let ports = AllPorts::of(fabric);
    let of_key = |partitions: &Partitions| {
        let wanted = ports.members(partitions, |rule| rule.p_key.base() == p_key.base());
        let wanted = wanted.iter();
        wanted.map(PortMembership::of).collect::<Vec<_>>()
    };
    let changes: Vec<MembershipChange> = of_key(before).into_iter().zip(of_key(after)).collect();
    let mut counts: BTreeMap<MembershipChange, u64> = BTreeMap::new();
    for (_, &change) in ports.hosts(&changes) {
        *counts.entry(change).or_default() += 1;
    }
    let loses_partners = |one: MembershipChange| {
        let other = |(&other, &count): (&MembershipChange, &u64)| {
            is_lost(one, other) && count > u64::from(one == other)
        };
        counts.iter().any(other)
    };
    let losing: Vec<usize> = ports
        .hosts(&changes)
        .filter(|&(_, &one)| loses_partners(one))
        .map(|(index, _)| index)
        .collect();
    PartitionLoss {
        changed: changes
            .iter()
            .filter(|(before, after)| before != after)
            .count(),
        ports: losing.len(),
        isolated: ports.isolated(&losing, after),
        pairs: lost_pairs(&counts),
        names: losing
            .iter()
            .take(PartitionLoss::NAMES_MAX)
            .map(|&index| ports.name(index))
            .collect(),
    }
}

/// The partitions in which ports lose partners when `after` replaces `before`, each with the loss;
/// ascending by P_Key.
pub fn all_losses(
    fabric: &Fabric,
    before: &Partitions,
    after: &Partitions,
) -> Vec<(PKey, PartitionLoss)> {
    let of_key = |partitions: &Partitions, base: u16| {
        let rules = partitions.rules.iter();
        let rules = rules.filter(|rule| rule.p_key.base() == base).copied();
        rules.collect::<Vec<Rule>>()
    };
    let all = before.rules.iter().chain(&after.rules);
    let bases: BTreeSet<u16> = all.map(|rule| rule.p_key.base()).collect();
    let same_allow_both = before.allow_both == after.allow_both;
    let changed = bases
        .into_iter()
        .filter(|&base| !same_allow_both || of_key(before, base) != of_key(after, base));
    let losses = changed.map(|base| {
        let p_key = PKey(base);
        (p_key, loss_between(fabric, p_key, before, after))
    });
    losses.filter(|(_, loss)| !loss.is_none()).collect()
}

/// A port's membership in a partition, which decides with which members the port can communicate.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum PortMembership {
    /// Not a member.
    None,
    /// A limited member, which communicates with full members only.
    Limited,
    /// A full member, which communicates with all members.
    Full,
}

/// Membership of a port before and after a change.
type MembershipChange = (PortMembership, PortMembership);

impl PortMembership {
    /// Membership according to the port's keys of one partition. A port with both keys counts as a
    /// full member.
    fn of(wanted: &WantedKeys) -> PortMembership {
        let keys = wanted.keys.iter();
        let memberships = keys.map(|key| match key.is_full() {
            true => PortMembership::Full,
            false => PortMembership::Limited,
        });
        memberships.max().unwrap_or(PortMembership::None)
    }

    /// Whether ports with these memberships can communicate.
    fn communicates_with(self, other: PortMembership) -> bool {
        self.min(other) != PortMembership::None && self.max(other) == PortMembership::Full
    }
}

/// Whether two ports with these changes could communicate before, and cannot afterwards.
fn is_lost(one: MembershipChange, other: MembershipChange) -> bool {
    one.0.communicates_with(other.0) && !one.1.communicates_with(other.1)
}

/// Number of pairs of ports that can no longer communicate; `counts` has the number of ports with
/// each change.
fn lost_pairs(counts: &BTreeMap<MembershipChange, u64>) -> u64 {
    let mut twice = 0;
    for (&one, &ones) in counts {
        let others = counts.iter().filter(|&(&other, _)| is_lost(one, other));
        twice += others
            .map(|(&other, &others)| ones * (others - u64::from(one == other)))
            .sum::<u64>();
    }
    twice / 2
}

/// The end ports of a fabric, followed by their virtual ports.
struct AllPorts<'a> {
    fabric: &'a Fabric,
    ports: EndPorts,
    vports: EndPorts,
    /// GUIDs of the virtual ports.
    guids: Vec<Guid>,
}

impl<'a> AllPorts<'a> {
    fn of(fabric: &'a Fabric) -> AllPorts<'a> {
        let ports = fabric.end_ports().map(|(at, _)| at).collect();
        let vports = fabric.end_ports().flat_map(|(at, port)| {
            let vports = port.vports.iter().flat_map(|vports| vports.vports.values());
            let vports = vports.filter(|vport| vport.is_usable() && vport.guid() != port.guid);
            vports.map(move |vport| (at, vport.guid()))
        });
        let vports: Vec<(PortRef, Guid)> = vports.collect();
        AllPorts {
            fabric,
            ports: EndPorts::of(fabric, ports),
            guids: vports.iter().map(|&(_, guid)| guid).collect(),
            vports: EndPorts::of_vports(vports),
        }
    }

    /// The keys of each port according to the rules for which `applies` returns true.
    fn members(&self, partitions: &Partitions, applies: impl Fn(&Rule) -> bool) -> Vec<WantedKeys> {
        let partitions = with_rules(partitions, applies);
        let mut wanted = self.ports.members(&partitions);
        wanted.extend(self.vports.members(&partitions));
        wanted
    }

    /// The port with this index, or the physical port of the virtual port with this index.
    fn physical_port(&self, index: usize) -> PortRef {
        let ports = self.ports.list();
        match index.checked_sub(ports.len()) {
            None => ports[index],
            Some(vport) => self.vports.list()[vport],
        }
    }

    /// The items of `all` that belong to ports of hosts, with their indices.
    fn hosts<'b, T>(&'b self, all: &'b [T]) -> impl Iterator<Item = (usize, &'b T)> {
        let ats = self.ports.list().iter().chain(self.vports.list());
        let hosts = ats
            .zip(all)
            .enumerate()
            .filter(|(_, (at, _))| self.fabric.node(at.node).kind() != NodeType::Switch);
        hosts.map(|(index, (_, item))| (index, item))
    }

    /// Number of the ports `losing` that can communicate with no port of another host under
    /// `partitions`; the subnet manager's own port does not count as a host.
    fn isolated(&self, losing: &[usize], partitions: &Partitions) -> usize {
        if losing.is_empty() {
            return 0;
        }
        let wanted = self.members(partitions, |_| true);
        let ports = (0..wanted.len()).map(|index| self.physical_port(index));
        let hosts = host_numbers(self.fabric, ports);
        let is_own = |index: usize| Some(self.physical_port(index)) == self.fabric.local;
        let mut others: Vec<usize> = self.hosts(&wanted).map(|(index, _)| index).collect();
        others.retain(|&index| !is_own(index));
        others.sort_by_key(|&index| hosts[index]);
        let mut members: BTreeMap<u16, MemberHosts> = BTreeMap::new();
        for index in others {
            for (base, is_full) in bases(&wanted[index].keys) {
                members.entry(base).or_default().add(hosts[index], is_full);
            }
        }
        let is_isolated = |&&index: &&usize| {
            !bases(&wanted[index].keys)
                .into_iter()
                .any(|(base, is_full)| {
                    let members = members.get(&base);
                    members.is_some_and(|members| members.reaches_other(hosts[index], is_full))
                })
        };
        losing.iter().filter(is_isolated).count()
    }

    /// Name of the port or virtual port with this index.
    fn name(&self, index: usize) -> String {
        let at = self.physical_port(index);
        let port = self.fabric.port_name(self.fabric.key(at));
        match index.checked_sub(self.ports.list().len()) {
            None => port,
            Some(vport) => format!("{port} vport {}", self.guids[vport]),
        }
    }
}
