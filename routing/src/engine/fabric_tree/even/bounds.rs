//! Lower bounds of link loads, from cuts of the fabric.
//!
//! All packets between a set of switches and the rest cross the links of the cut around the set.
//! Under any tables, some link of the cut has at least the load that every link would have if the
//! links shared the packets in proportion to their rates. The sets are single switches and
//! subtrees.

use super::super::numbering::DisjointSets;
use super::{ReducerInput, Target};
use crate::topology::SwitchIdx;

/// Bounds of link loads. All loads are in the unit of [`Cuts::unit`].
pub(super) struct Bounds {
    /// For each link, the highest share of a cut's load that it gets if all links of the cut share
    /// the load. Links of one rate share whole destinations, because packets of several sources to
    /// one destination then meet less often; links of different rates share packets.
    pub(super) fair: Vec<u64>,
    /// Lower bound of the maximum link load: under any tables, some link carries at least this
    /// much.
    pub(super) max_load_bound: u64,
}

/// The number of hosts that send packets, and of targets that receive them.
#[derive(Clone, Copy, Default)]
struct Ends {
    hosts: u64,
    targets: u64,
}

impl Ends {
    fn add(&mut self, other: Ends) {
        self.hosts += other.hosts;
        self.targets += other.targets;
    }
}

/// A set of switches, and the cut around it.
#[derive(Clone, Copy, Default)]
struct Side {
    inside: Ends,
    /// The ends in the whole component, including those inside the set.
    all: Ends,
    /// The total rate of the live links to other sets.
    rate: u128,
    /// The rate of the fastest of these links; 0 without links.
    fastest: u32,
    /// The rate of the slowest of these links; 0 without links.
    slowest: u32,
}

/// The loads of the links of a cut.
#[derive(Clone, Copy, Default)]
struct Shares {
    /// The load if the links share all packets in proportion to their rates.
    even: u64,
    /// The load in whole destinations if all links are equal; see [`Bounds::fair`].
    fair: u64,
}

impl Side {
    fn add_link(&mut self, rate: u32) {
        let is_first = self.rate == 0;
        self.rate += u128::from(rate);
        self.fastest = self.fastest.max(rate);
        self.slowest = if is_first {
            rate
        } else {
            self.slowest.min(rate)
        };
    }

    /// The loads of the cut's links if they carry one packet from each of `hosts` hosts to each of
    /// `targets` targets. `unit` is the load of one packet on a link of rate 1.
    fn shares(&self, hosts: u64, targets: u64, unit: u64) -> Shares {
        if self.rate == 0 {
            return Shares::default();
        }
        let (hosts, targets) = (u128::from(hosts), u128::from(targets));
        let unit = u128::from(unit);
        let even = hosts * targets * unit / self.rate;
        let fair = if self.fastest == self.slowest {
            let rate = u128::from(self.fastest);
            hosts * (targets * rate).div_ceil(self.rate) * unit / rate
        } else {
            even
        };
        let narrow = |load| u64::try_from(load).unwrap_or(u64::MAX);
        Shares {
            even: narrow(even),
            fair: narrow(fair),
        }
    }

    /// The loads of the links that leave the set.
    fn outward(&self, unit: u64) -> Shares {
        let targets = self.all.targets - self.inside.targets;
        self.shares(self.inside.hosts, targets, unit)
    }

    /// The loads of the links that enter the set.
    fn inward(&self, unit: u64) -> Shares {
        let hosts = self.all.hosts - self.inside.hosts;
        self.shares(hosts, self.inside.targets, unit)
    }
}

/// The inputs from which bounds are computed.
pub(super) struct Cuts<'a> {
    input: ReducerInput<'a>,
    /// The ends at each switch.
    ends: Vec<Ends>,
    /// The ends in each component, by component number.
    components: Vec<Ends>,
    /// The load of one packet on a link of rate 1.
    unit: u64,
}

impl<'a> Cuts<'a> {
    /// Collects the inputs for packets from `hosts`, indexed by switch, to `targets`.
    pub(super) fn of(
        input: ReducerInput<'a>,
        hosts: &[u64],
        targets: &[Target],
        unit: u64,
    ) -> Cuts<'a> {
        let known = input.known;
        let of_hosts = |&hosts: &u64| Ends { hosts, targets: 0 };
        let mut ends: Vec<Ends> = hosts.iter().map(of_hosts).collect();
        for target in targets {
            ends[target.switch.index()].targets += 1;
        }
        let mut components = vec![Ends::default(); known.components().len()];
        for switch in known.indices() {
            components[known.component_of(switch)].add(ends[switch.index()]);
        }
        Cuts {
            input,
            ends,
            components,
            unit,
        }
    }

    /// The bounds from single switches and from the subtrees below each level.
    pub(super) fn bounds(&self) -> Bounds {
        let mut bounds = Bounds {
            fair: vec![0; self.input.known.half_link_count()],
            max_load_bound: 0,
        };
        let levels = self.input.order.levels().iter();
        let deepest = usize::from(levels.copied().max().unwrap_or(0));
        for level in 1..=deepest + 1 {
            self.raise(&mut bounds, &self.subtrees(level));
        }
        bounds
    }

    /// For each switch, the subtree that contains it: switches at or below `level` that links among
    /// them connect. A subtree is identified by one of its switches. A switch above `level` is a
    /// set of its own.
    fn subtrees(&self, level: usize) -> Vec<SwitchIdx> {
        let ReducerInput { known, order, .. } = self.input;
        let is_inside = |switch: SwitchIdx| usize::from(order.levels()[switch.index()]) >= level;
        let mut sets = DisjointSets::new(known.switch_count());
        for switch in known.indices().filter(|&switch| is_inside(switch)) {
            for group in known.groups(switch) {
                if is_inside(group.neighbour) {
                    sets.join(switch.0, group.neighbour.0);
                }
            }
        }
        let first = |switch: SwitchIdx| SwitchIdx(sets.find(switch.0));
        known.indices().map(first).collect()
    }

    /// Raises bounds to the loads of the cuts around sets of switches. `set_of` has, for each
    /// switch, the switch that identifies its set.
    fn raise(&self, bounds: &mut Bounds, set_of: &[SwitchIdx]) {
        let known = self.input.known;
        let sides = self.sides(set_of);
        let shares: Vec<(Shares, Shares)> = sides
            .iter()
            .map(|side| (side.outward(self.unit), side.inward(self.unit)))
            .collect();
        for (out, into) in &shares {
            bounds.max_load_bound = bounds.max_load_bound.max(out.even).max(into.even);
        }
        for switch in known.indices() {
            for group in known.group_range(switch) {
                let from = set_of[switch.index()];
                let to = set_of[known.group(group).neighbour.index()];
                if from != to {
                    let load = shares[from.index()].0.fair.max(shares[to.index()].1.fair);
                    for number in known.link_range(group) {
                        bounds.fair[number] = bounds.fair[number].max(load);
                    }
                }
            }
        }
    }

    /// The sets, each at the index of the switch that identifies it; the other elements are empty.
    fn sides(&self, set_of: &[SwitchIdx]) -> Vec<Side> {
        let ReducerInput { known, live, .. } = self.input;
        let mut sides = vec![Side::default(); known.switch_count()];
        for switch in known.indices() {
            let set = set_of[switch.index()];
            let side = &mut sides[set.index()];
            side.inside.add(self.ends[switch.index()]);
            side.all = self.components[known.component_of(switch)];
            for group in known.group_range(switch) {
                let ends = known.group(group);
                if set_of[ends.neighbour.index()] == set {
                    continue;
                }
                for (link, number) in ends.links.iter().zip(known.link_range(group)) {
                    if live.links.contains(number) {
                        side.add_link(link.weight);
                    }
                }
            }
        }
        sides
    }
}
