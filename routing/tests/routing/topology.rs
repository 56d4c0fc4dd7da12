//! The switch graph: the parts that it refuses, and that it does not depend on their order.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rsm_ids::{Guid, Lid, Lmc, PortNum};
use rsm_routing::topology::{
    CableEnd, EndPart, EndpointKind, PortUse, SwitchIdx, SwitchPart, Topology, TopologyBuilder,
    TopologyError,
};

use crate::common::{self, FDB_CAP, Fabric};
use crate::random;

fn port(number: u8) -> PortNum {
    PortNum(number)
}

#[test]
fn parallel_links_are_one_group_sorted_by_port() {
    let mut fabric = Fabric::new();
    let [a, b, c] = fabric.switches(3)[..] else {
        unreachable!()
    };
    fabric.link(a, c);
    fabric.link(a, b);
    fabric.link(c, a);
    let topology = fabric.build();
    let groups: Vec<(u32, Vec<u8>)> = topology
        .groups(SwitchIdx(0))
        .map(|group| {
            let ports = group.links.iter().map(|link| link.port.0).collect();
            (group.neighbour.0, ports)
        })
        .collect();
    assert_eq!(groups, [(1, vec![2]), (2, vec![1, 3])]);
    assert_eq!(topology.link_count(), 3);
    assert_eq!(topology.to_petgraph().edge_count(), 3);
    assert_eq!(
        topology.peer(SwitchIdx(0), port(3)),
        Some((SwitchIdx(2), port(2)))
    );
    assert_eq!(topology.peer(SwitchIdx(0), port(4)), None);
}

#[test]
fn loop_backs_are_separate_from_links() {
    let mut builder = TopologyBuilder::new();
    let switch = builder
        .add_switch(Guid(1), 8, Lid(1), Lmc::ZERO, FDB_CAP)
        .unwrap();
    builder
        .add_link(switch, port(4), switch, port(2), 1)
        .unwrap();
    // A plug that joins a port to itself.
    builder
        .add_link(switch, port(7), switch, port(7), 1)
        .unwrap();
    let topology = builder.build().unwrap();
    assert_eq!(topology.groups(SwitchIdx(0)).len(), 0);
    assert_eq!(topology.loopbacks().len(), 2);
    assert_eq!(topology.to_petgraph().edge_count(), 2);
    assert_eq!(
        topology.peer(SwitchIdx(0), port(4)),
        Some((SwitchIdx(0), port(2)))
    );
    let without = topology.without_cables(&[(Guid(1), port(2))]);
    assert_eq!(without.loopbacks().len(), 1);
    assert_eq!(without.port_use(SwitchIdx(0), port(4)), PortUse::Unused);
}

#[test]
fn contradictions_are_refused_by_name() {
    let new = || {
        let mut builder = TopologyBuilder::new();
        let a = builder
            .add_switch(Guid(1), 4, Lid(1), Lmc::ZERO, FDB_CAP)
            .unwrap();
        let b = builder
            .add_switch(Guid(2), 4, Lid(2), Lmc::ZERO, FDB_CAP)
            .unwrap();
        (builder, a, b)
    };
    let ca = EndpointKind::Ca;

    let (mut builder, a, b) = new();
    builder.add_link(a, port(1), b, port(1), 1).unwrap();
    builder
        .add_endport(a, port(1), Guid(9), Lid(9), Lmc::ZERO, ca)
        .unwrap();
    let reused = TopologyError::PortReused {
        guid: Guid(1),
        port: port(1),
    };
    assert_eq!(builder.build().unwrap_err(), reused);

    let (mut builder, a, _) = new();
    builder
        .add_endport(a, port(1), Guid(9), Lid(2), Lmc::ZERO, ca)
        .unwrap();
    assert!(matches!(
        builder.build().unwrap_err(),
        TopologyError::DuplicateLid { lid: Lid(2), .. }
    ));

    let (mut builder, _, _) = new();
    builder
        .add_switch(Guid(1), 4, Lid(3), Lmc::ZERO, FDB_CAP)
        .unwrap();
    let duplicate = TopologyError::DuplicateSwitch { guid: Guid(1) };
    assert_eq!(builder.build().unwrap_err(), duplicate);

    let (mut builder, a, b) = new();
    for number in [0, 5] {
        assert!(matches!(
            builder.add_link(a, port(1), b, port(number), 1),
            Err(TopologyError::NoSuchPort { .. })
        ));
    }
    for (lid, lmc) in [(0, 0), (0xC000, 0), (0xBFFF, 1), (0xFFFF, 7)] {
        let lmc = Lmc::new(lmc).unwrap();
        assert!(matches!(
            builder.add_endport(a, port(2), Guid(9), Lid(lid), lmc, ca),
            Err(TopologyError::LidRange { .. })
        ));
    }
    builder
        .add_endport(a, port(2), Guid(9), Lid(0xBFFF), Lmc::ZERO, ca)
        .unwrap();
    assert_eq!(builder.build().unwrap().top_lid(), Lid(0xBFFF));

    let (mut other, _, _) = new();
    other
        .add_switch(Guid(3), 4, Lid(3), Lmc::ZERO, FDB_CAP)
        .unwrap();
    let (_, _, foreign) = {
        let (mut builder, a, b) = new();
        let c = builder
            .add_switch(Guid(3), 4, Lid(3), Lmc::ZERO, FDB_CAP)
            .unwrap();
        (a, b, c)
    };
    let (mut builder, a, _) = new();
    assert_eq!(
        builder.add_link(a, port(1), foreign, port(1), 1),
        Err(TopologyError::UnknownSwitch)
    );
}

#[test]
fn an_empty_builder_makes_an_empty_topology() {
    let topology = TopologyBuilder::new().build().unwrap();
    assert_eq!(topology.switch_count(), 0);
    assert_eq!(topology.top_lid(), Lid::NONE);
    assert!(topology.components().is_empty());
    assert!(topology.destination_of(Lid(1)).is_none());
}

#[test]
fn a_host_is_removed_with_its_cable() {
    let mut fabric = Fabric::with_lmc(2);
    let [a, b] = fabric.switches(2)[..] else {
        unreachable!()
    };
    fabric.link(a, b);
    let lid = fabric.host(a);
    let topology = fabric.build();
    assert_eq!(topology.destination_of(Lid(lid.0 + 3)).unwrap().lid, lid);
    let ends = [
        (Guid(0x1000), port(2)),
        (Guid(0x1001), port(1)),
        (Guid(77), port(1)),
    ];
    let without = topology.without_cables(&ends);
    assert!(without.destination_of(lid).is_none());
    assert_eq!(without.link_count(), 0);
    assert_eq!(without.components().len(), 2);
    assert_eq!(topology.components().len(), 1);
}

proptest! {
    #[test]
    fn the_order_of_parts_does_not_change_the_topology(
        edges in proptest::collection::vec((0usize..6, 0usize..6), 0..12),
        seed in any::<u64>(),
    ) {
        let build = |shuffled: bool| {
            let mut switches: Vec<usize> = (0..6).collect();
            // Ports are set by index in the list, so that both builds have the same cables.
            let mut cables: Vec<(usize, usize, u8)> = edges
                .iter()
                .enumerate()
                .map(|(index, &(a, b))| (a, b, 2 * index as u8 + 1))
                .collect();
            if shuffled {
                switches.rotate_left((seed % 6) as usize);
                let count = cables.len().max(1);
                cables.rotate_left((seed / 6) as usize % count);
            }
            let mut builder = TopologyBuilder::new();
            let mut keys = [None; 6];
            for switch in switches {
                let number = switch as u16;
                keys[switch] = Some(
                    builder
                        .add_switch(Guid(100 - u64::from(number)), 40, Lid(number + 1), Lmc::ZERO, FDB_CAP)
                        .unwrap(),
                );
            }
            for (a, b, first) in cables {
                builder
                    .add_link(keys[a].unwrap(), port(first), keys[b].unwrap(), port(first + 1), 1)
                    .unwrap();
            }
            builder.build().unwrap()
        };
        let (straight, shuffled) = (build(false), build(true));
        prop_assert_eq!(straight.cables(), shuffled.cables());
        prop_assert_eq!(straight.loopbacks(), shuffled.loopbacks());
        prop_assert_eq!(straight.switches(), shuffled.switches());
        prop_assert_eq!(straight.components(), shuffled.components());
        prop_assert_eq!(straight.destinations(), shuffled.destinations());
    }
}

/// A switch as part of a change.
fn part(topology: &Topology, switch: SwitchIdx) -> SwitchPart {
    let node = &topology.switch(switch);
    let mut part = SwitchPart {
        switch: (*node).clone(),
        lid: Lid::NONE,
        lmc: Lmc::ZERO,
        cables: Vec::new(),
        ends: Vec::new(),
    };
    for destination in topology.destinations_of(switch) {
        if destination.kind == EndpointKind::Switch0 {
            (part.lid, part.lmc) = (destination.lid, destination.lmc);
            continue;
        }
        part.ends.push(EndPart {
            port: destination.port,
            guid: destination.guid,
            lid: destination.lid,
            lmc: destination.lmc,
            further: destination.further.clone(),
            kind: destination.kind,
        });
    }
    for (number, &leads_to) in (0..=u8::MAX).zip(topology.port_uses(switch)) {
        if let PortUse::Link { peer, peer_port } = leads_to {
            let links = topology.groups(switch).flat_map(|group| group.links);
            let weight = links
                .filter(|link| link.port == PortNum(number))
                .map(|link| link.weight)
                .next();
            part.cables.push(CableEnd {
                port: PortNum(number),
                peer: (topology.switch(peer).guid, peer_port),
                weight: weight.unwrap_or(1),
            });
        }
    }
    part
}

/// The switches that differ between two topologies, as they are in the second.
fn changes(from: &Topology, to: &Topology) -> BTreeMap<Guid, Option<SwitchPart>> {
    let parts = |topology: &Topology| -> BTreeMap<Guid, SwitchPart> {
        let parts = topology.indices().map(|switch| part(topology, switch));
        parts.map(|part| (part.switch.guid, part)).collect()
    };
    let (before, after) = (parts(from), parts(to));
    let mut changes = BTreeMap::new();
    for &guid in before.keys().chain(after.keys()) {
        if before.get(&guid) != after.get(&guid) {
            changes.insert(guid, after.get(&guid).cloned());
        }
    }
    changes
}

proptest! {
    #[test]
    fn a_topology_from_changes_equals_the_one_built_anew(
        plan in random::any_fabric(),
        other in random::any_fabric(),
        cut in any::<prop::sample::Index>(),
    ) {
        let (one, other) = (plan.build(), other.build());
        let empty = TopologyBuilder::new().build().unwrap();
        for (from, to) in [(&empty, &one), (&one, &other), (&other, &empty)] {
            prop_assert_eq!(&from.follow(&changes(from, to)).unwrap(), to);
        }
        let cables = one.cables();
        if !cables.is_empty() {
            let cut = one.without_cables(&[cables[cut.index(cables.len())].a]);
            let changes = changes(&one, &cut);
            prop_assert!(changes.len() <= 2);
            let followed = one.follow(&changes).unwrap();
            prop_assert_eq!(&followed, &cut);
            // Both name the two switches of the cable. No changes are known between topologies that
            // are built separately.
            let ends: Vec<Guid> = changes.keys().copied().collect();
            prop_assert_eq!(followed.changes_since(one.id()), Some(&ends[..]));
            prop_assert_eq!(cut.changes_since(one.id()), Some(&ends[..]));
            let same = cut.clone();
            prop_assert_eq!(same.changes_since(cut.id()), Some(&[][..]));
            prop_assert_eq!(cut.changes_since(followed.id()), None);
            prop_assert_eq!(one.changes_since(cut.id()), None);
        }
    }
}

#[test]
fn a_cable_stated_at_one_end_only_is_refused() {
    let ring = common::ring(4);
    let first = SwitchIdx(0);
    let guid = ring.switch(first).guid;
    let mut stated = part(&ring, first);
    let cable = stated.cables.pop().unwrap();
    let refused = ring.follow(&BTreeMap::from([(guid, Some(stated.clone()))]));
    assert!(
        matches!(refused, Err(TopologyError::OneSided { .. })),
        "{refused:?}"
    );
    stated.cables.push(CableEnd {
        peer: (cable.peer.0, PortNum(200)),
        ..cable
    });
    let refused = ring.follow(&BTreeMap::from([(guid, Some(stated))]));
    assert!(
        matches!(refused, Err(TopologyError::OneSided { .. })),
        "{refused:?}"
    );
    // A switch is removed while its neighbours remain unchanged.
    let refused = ring.follow(&BTreeMap::from([(guid, None)]));
    assert!(
        matches!(refused, Err(TopologyError::OneSided { .. })),
        "{refused:?}"
    );
}
