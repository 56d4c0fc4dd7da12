//! Fabrics to try engines and proofs on.

#![allow(dead_code, reason = "benches share this module, and use some of it")]

use std::collections::BTreeMap;

use rsm_ids::{Guid, Lid, Lmc, PortNum};
use rsm_routing::engine::Routing;
use rsm_routing::topology::{
    CableEnd, Destination, EndPart, EndpointKind, SwitchIdx, SwitchKey, SwitchPart, Topology,
    TopologyBuilder, TopologyError,
};
use rsm_routing::verify::{Report, verify_on_lanes};

/// Checks that a routing is sound on the lanes that it needs, and returns the report.
pub(crate) fn assert_sound_on_lanes(topology: &Topology, routing: &Routing) -> Report {
    let report = verify_on_lanes(topology, &routing.tables, &routing.lanes).report;
    assert!(report.loop_free, "{:?}", report.witnesses);
    assert!(report.credit_loop_free, "{:?}", report.witnesses);
    assert_eq!(report.unreachable_pairs, 0, "{:?}", report.witnesses);
    report
}

/// The switches in the order that routes follow, the highest first.
pub(crate) fn followed(routing: &Routing) -> Vec<Guid> {
    routing.ranking.as_ref().unwrap().followed()
}

/// Whether packets from a switch to a destination are packets between two switches without end
/// ports: these pairs have a path only where detours of other pairs pass.
pub(crate) fn carries_nothing(topology: &Topology, from: SwitchIdx, to: &Destination) -> bool {
    let is_bare = |switch| topology.destinations_of(switch).len() == 1;
    is_bare(from) && to.kind == EndpointKind::Switch0 && is_bare(to.switch)
}

/// SwitchInfo LinearFDBCap of the switches that are built here.
pub(crate) const FDB_CAP: u16 = 49_152;

/// Builds a topology; assigns ports, LIDs and GUIDs in ascending order.
pub(crate) struct Fabric {
    builder: TopologyBuilder,
    keys: Vec<SwitchKey>,
    next_port: Vec<u8>,
    next_lid: u16,
    next_guid: u64,
    lmc: Lmc,
}

impl Fabric {
    pub(crate) fn new() -> Fabric {
        Fabric::with_lmc(0)
    }

    /// Creates an empty fabric whose hosts get this LMC.
    pub(crate) fn with_lmc(lmc: u8) -> Fabric {
        Fabric {
            builder: TopologyBuilder::new(),
            keys: Vec::new(),
            next_port: Vec::new(),
            next_lid: 1,
            next_guid: 0x1_0000_0000,
            lmc: Lmc::new(lmc).unwrap(),
        }
    }

    /// A switch whose GUID is 0x1000 + its number.
    pub(crate) fn switch(&mut self) -> usize {
        let number = self.keys.len();
        self.switch_with_guid(Guid(0x1000 + number as u64))
    }

    pub(crate) fn switch_with_guid(&mut self, guid: Guid) -> usize {
        let lid = self.lids(Lmc::ZERO);
        let key = self
            .builder
            .add_switch(guid, 254, lid, Lmc::ZERO, FDB_CAP)
            .unwrap();
        self.keys.push(key);
        self.next_port.push(1);
        self.keys.len() - 1
    }

    pub(crate) fn switches(&mut self, count: usize) -> Vec<usize> {
        (0..count).map(|_| self.switch()).collect()
    }

    pub(crate) fn link(&mut self, a: usize, b: usize) -> (PortNum, PortNum) {
        self.link_of_rate(a, b, 100)
    }

    pub(crate) fn link_of_rate(&mut self, a: usize, b: usize, rate: u32) -> (PortNum, PortNum) {
        let ports = (self.port(a), self.port(b));
        self.builder
            .add_link(self.keys[a], ports.0, self.keys[b], ports.1, rate)
            .unwrap();
        ports
    }

    pub(crate) fn host(&mut self, switch: usize) -> Lid {
        self.endport(switch, EndpointKind::Ca)
    }

    pub(crate) fn hosts(&mut self, switch: usize, count: usize) {
        for _ in 0..count {
            self.host(switch);
        }
    }

    pub(crate) fn endport(&mut self, switch: usize, kind: EndpointKind) -> Lid {
        let lmc = if kind.is_host() { self.lmc } else { Lmc::ZERO };
        let lid = self.lids(lmc);
        let port = self.port(switch);
        self.next_guid += 1;
        let guid = Guid(self.next_guid);
        self.builder
            .add_endport(self.keys[switch], port, guid, lid, lmc, kind)
            .unwrap();
        lid
    }

    pub(crate) fn build(self) -> Topology {
        self.try_build().unwrap()
    }

    pub(crate) fn try_build(self) -> Result<Topology, TopologyError> {
        self.builder.build()
    }

    pub(crate) fn has_room(&self, switch: usize) -> bool {
        self.next_port[switch] < 250
    }

    fn port(&mut self, switch: usize) -> PortNum {
        let port = PortNum(self.next_port[switch]);
        self.next_port[switch] += 1;
        port
    }

    fn lids(&mut self, lmc: Lmc) -> Lid {
        let base = self.next_lid.next_multiple_of(lmc.lids());
        self.next_lid = base + lmc.lids();
        Lid(base)
    }
}

/// A parallel-ports generalised fat tree PGFT(h; m; w; p): each switch of level i has m[i] below
/// it, each of level i - 1 has w[i] above it, over p[i] links each; hosts are level 0, with one
/// link.
pub(crate) fn pgft(m: &[usize], w: &[usize], p: &[usize], lmc: u8) -> Topology {
    let levels = m.len();
    let mut fabric = Fabric::with_lmc(lmc);
    // A switch of level i is (its subtree, its number in it).
    let copies = |level: usize| w[..=level].iter().product::<usize>();
    let subtrees = |level: usize| m[level + 1..].iter().product::<usize>();
    let mut below: Vec<usize> = Vec::new();
    for level in 0..levels {
        let here = fabric.switches(subtrees(level) * copies(level));
        if level == 0 {
            for &leaf in &here {
                fabric.hosts(leaf, m[0]);
            }
        } else {
            for subtree in 0..subtrees(level) {
                for child in 0..m[level] {
                    for number in 0..copies(level - 1) {
                        let low = below[(subtree * m[level] + child) * copies(level - 1) + number];
                        for parent in 0..w[level] {
                            let high =
                                here[subtree * copies(level) + parent * copies(level - 1) + number];
                            for _ in 0..p[level] {
                                fabric.link(low, high);
                            }
                        }
                    }
                }
            }
        }
        below = here;
    }
    fabric.build()
}

/// A ring of switches with one host each.
pub(crate) fn ring(count: usize) -> Topology {
    let mut fabric = Fabric::new();
    let switches = fabric.switches(count);
    for &switch in &switches {
        fabric.host(switch);
        if count > 1 {
            fabric.link(switch, switches[(switch + 1) % count]);
        }
    }
    fabric.build()
}

/// A mesh, or, in the dimensions that wrap, a torus: (size, whether it wraps) by dimension, and
/// hosts at each switch. Switches are numbered with the last dimension running fastest; none of
/// `missing` is there.
pub(crate) fn grid(dimensions: &[(usize, bool)], hosts: usize, missing: &[usize]) -> Topology {
    let count = dimensions.iter().map(|(size, _)| size).product();
    let mut fabric = Fabric::new();
    // The order of GUIDs differs from that of positions.
    let switches: Vec<Option<usize>> = (0..count)
        .map(|number| {
            let guid = Guid(0x1000 + (number as u64 * 7919) % 10_007);
            let switch = (!missing.contains(&number)).then(|| fabric.switch_with_guid(guid));
            if let Some(switch) = switch {
                fabric.hosts(switch, hosts);
            }
            switch
        })
        .collect();
    for number in 0..count {
        let mut stride = count;
        for &(size, wraps) in dimensions {
            stride /= size;
            let at = number / stride % size;
            let next = number - at * stride + (at + 1) % size * stride;
            let joined = at + 1 < size || (wraps && size > 2);
            if let (Some(a), Some(b), true) = (switches[number], switches[next], joined) {
                fabric.link(a, b);
            }
        }
    }
    fabric.build()
}

/// The fabric that a generator makes of `spec`.
pub(crate) fn generated(spec: &str) -> Topology {
    let netlist = rsm_routing::generate::generate(spec).unwrap();
    Topology::from_netlist(&netlist).unwrap()
}

/// A topology without some switches, and without the ports that hang off them.
pub(crate) fn without_switches(topology: &Topology, gone: &[SwitchIdx]) -> Topology {
    rebuilt(
        topology,
        |switch| !gone.contains(&switch),
        |destination| destination.lid,
    )
}

/// The topology with only the switches for which `keep` is true, and the LIDs that `lid` returns.
pub(crate) fn rebuilt(
    topology: &Topology,
    keep: impl Fn(SwitchIdx) -> bool,
    lid: impl Fn(&Destination) -> Lid,
) -> Topology {
    rebuilt_with(topology, keep, |end| (lid(end), end.lmc))
}

/// The topology with only the switches for which `keep` is true, and the base LIDs and LMCs that
/// `lids` returns.
pub(crate) fn rebuilt_with(
    topology: &Topology,
    keep: impl Fn(SwitchIdx) -> bool,
    lids: impl Fn(&Destination) -> (Lid, Lmc),
) -> Topology {
    let mut builder = TopologyBuilder::new();
    let mut keys = Vec::new();
    for index in topology.indices() {
        let switch = topology.switch(index);
        let ends = topology.destinations_of(index);
        let key = keep(index).then(|| {
            let own = ends.iter().find(|d| d.port == PortNum::ZERO).unwrap();
            let (ports, cap) = (switch.num_ports, switch.linear_fdb_cap);
            let (lid, lmc) = lids(own);
            let key = builder
                .add_switch(switch.guid, ports, lid, lmc, cap)
                .unwrap();
            for end in ends.iter().filter(|d| d.port != PortNum::ZERO) {
                let (lid, lmc) = lids(end);
                builder
                    .add_endport(key, end.port, end.guid, lid, lmc, end.kind)
                    .unwrap();
            }
            key
        });
        keys.push(key);
    }
    for a in topology.indices() {
        for group in topology.groups(a).filter(|group| group.neighbour > a) {
            if let (Some(x), Some(y)) = (keys[a.index()], keys[group.neighbour.index()]) {
                for link in group.links {
                    builder
                        .add_link(x, link.port, y, link.peer_port, link.weight)
                        .unwrap();
                }
            }
        }
    }
    builder.build().unwrap()
}

/// A topology in which the cables in two ports of switches are swapped; a port may be empty.
pub(crate) fn swapped(
    topology: &Topology,
    one: (Guid, PortNum),
    other: (Guid, PortNum),
) -> Topology {
    let plug = |switch: SwitchIdx, port: PortNum| {
        let was = (topology.switch(switch).guid, port);
        let (guid, port) = match was {
            was if was == one => other,
            was if was == other => one,
            was => was,
        };
        (topology.switch_by_guid(guid).unwrap(), port)
    };
    let mut builder = TopologyBuilder::new();
    let mut keys = Vec::new();
    for index in topology.indices() {
        let switch = topology.switch(index);
        let mut ends = topology.destinations_of(index).iter();
        let own = ends.find(|d| d.port == PortNum::ZERO).unwrap();
        let (ports, cap) = (switch.num_ports, switch.linear_fdb_cap);
        let key = builder.add_switch(switch.guid, ports, own.lid, own.lmc, cap);
        keys.push(key.unwrap());
    }
    let hosts = topology.destinations().iter();
    for end in hosts.filter(|end| end.port != PortNum::ZERO) {
        let (switch, port) = plug(end.switch, end.port);
        let key = keys[switch.index()];
        builder
            .add_endport(key, port, end.guid, end.lid, end.lmc, end.kind)
            .unwrap();
    }
    for a in topology.indices() {
        for group in topology.groups(a).filter(|group| group.neighbour > a) {
            for link in group.links {
                let (x, x_port) = plug(a, link.port);
                let (y, y_port) = plug(group.neighbour, link.peer_port);
                let (x, y) = (keys[x.index()], keys[y.index()]);
                builder.add_link(x, x_port, y, y_port, link.weight).unwrap();
            }
        }
    }
    builder.build().unwrap()
}

/// A topology with one more host.
pub(crate) fn with_host(
    topology: &Topology,
    at: (Guid, PortNum),
    guid: Guid,
    lid: Lid,
) -> Topology {
    let mut changes = BTreeMap::new();
    let switch = topology.switch_by_guid(at.0).unwrap();
    let ends = topology.destinations_of(switch).iter();
    let own = ends.clone().find(|end| end.port == PortNum::ZERO).unwrap();
    let end_part = |port, guid, lid, lmc, kind| EndPart {
        port,
        guid,
        lid,
        lmc,
        further: rsm_routing::topology::FurtherLids::default(),
        kind,
    };
    let kept = ends
        .filter(|end| end.port != PortNum::ZERO)
        .map(|end| end_part(end.port, end.guid, end.lid, end.lmc, end.kind));
    let new = end_part(at.1, guid, lid, Lmc::ZERO, EndpointKind::Ca);
    let cables = topology.groups(switch).flat_map(|group| {
        let peer = topology.switch(group.neighbour).guid;
        group.links.iter().map(move |link| CableEnd {
            port: link.port,
            peer: (peer, link.peer_port),
            weight: link.weight,
        })
    });
    let switch_part = SwitchPart {
        switch: topology.switch(switch).clone(),
        lid: own.lid,
        lmc: own.lmc,
        cables: cables.collect(),
        ends: kept.chain([new]).collect(),
    };
    changes.insert(at.0, Some(switch_part));
    topology.follow(&changes).unwrap()
}

/// A dragonfly+: `links` cables between any two groups, dealt out to their spines in turn.
pub(crate) fn dragonfly(
    groups: usize,
    leaves: usize,
    spines: usize,
    hosts: usize,
    links: usize,
) -> Topology {
    let mut fabric = Fabric::new();
    let mut all_spines = Vec::new();
    for _ in 0..groups {
        let low = fabric.switches(leaves);
        let high = fabric.switches(spines);
        for &leaf in &low {
            fabric.hosts(leaf, hosts);
            for &spine in &high {
                fabric.link(leaf, spine);
            }
        }
        all_spines.push(high);
    }
    let mut dealt = vec![0; groups];
    for first in 0..groups {
        for other in first + 1..groups {
            for _ in 0..links {
                let ends = [first, other].map(|group| {
                    dealt[group] += 1;
                    all_spines[group][dealt[group] % spines]
                });
                fabric.link(ends[0], ends[1]);
            }
        }
    }
    fabric.build()
}
