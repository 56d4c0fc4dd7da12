use rsm_api::v1::{LinkSpeed, LinkWidth};
use rsm_ids::Lid;

use super::*;

fn switch(number: u64, name: &str) -> Keyed<Guid, v1::Node> {
    let guid = Guid(number);
    Keyed {
        key: guid,
        message: v1::Node {
            guid: guid.to_string(),
            description: name.to_owned(),
            lids: vec![number as u32],
            ..v1::Node::default()
        },
    }
}

fn link(a: u64, b: u64, state: PortState, speed: LinkSpeed) -> v1::Link {
    let end = |node: u64| {
        Some(v1::LinkEnd {
            port: Some(v1::PortKey {
                node_guid: Guid(node).to_string(),
                number: 1,
            }),
            ..v1::LinkEnd::default()
        })
    };
    v1::Link {
        a: end(a),
        b: end(b),
        state: state.into(),
        width: LinkWidth::LinkWidth4x.into(),
        speed: speed.into(),
        ..v1::Link::default()
    }
}

/// Two leaves below a spine; each leaf has two hosts, and two cables to the spine.
fn parts() -> Parts {
    let up = |leaf| link(leaf, 3, PortState::Active, LinkSpeed::Hdr);
    let host = |leaf, host| link(host, leaf, PortState::Active, LinkSpeed::Hdr);
    Parts {
        generation: 7,
        switches: vec![switch(1, "leaf-2"), switch(2, "leaf-1"), switch(3, "spine")],
        links: vec![
            up(1),
            up(1),
            up(2),
            up(2),
            host(1, 11),
            host(1, 12),
            host(2, 13),
            host(2, 14),
        ],
        gone: GoneSwitches::default(),
    }
}

#[test]
fn reduction_engines_inside_switches_are_not_counted_as_hosts() {
    let mut parts = parts();
    let before = Graph::of(self::parts());
    let mut engine = link(3, 99, PortState::Active, LinkSpeed::Hdr);
    engine.b.as_mut().unwrap().description = format!("{AGGREGATION_NODE} 1");
    parts.links.push(engine);
    let graph = Graph::of(parts);
    assert_eq!(graph.switches.hosts, [0, 2, 2]);
    assert_eq!(graph.tiers, before.tiers);
    assert_eq!(graph.links_active, before.links_active + 1);
}

#[test]
fn links_between_two_switches_are_one_bundle_and_hosts_are_counted() {
    let graph = Graph::of(parts());
    assert_eq!(graph.switches.name, ["spine", "leaf-1", "leaf-2"]);
    assert_eq!(graph.switches.hosts, [0, 2, 2]);
    assert_eq!(graph.tiers, 2);
    let mut links: Vec<&[u32]> = graph.links.chunks(5).collect();
    links.sort_unstable();
    for (link, leaf) in links.iter().zip([2, 1]) {
        let ends = [link[0].min(link[1]), link[0].max(link[1])];
        assert!(ends == [0, leaf] || ends == [0, 3 - leaf], "{links:?}");
        assert_eq!(link[2..], [2, 0, LinkKind::Good as u32]);
    }
    assert_eq!((graph.links_active, graph.links_not_active), (8, 0));
}

#[test]
fn bundle_shows_its_worst_link() {
    let mut parts = parts();
    parts.links[0].state = PortState::Init.into();
    // A lower rate is no fault if, as here, a link belongs to an older switch.
    parts.links[2].speed = LinkSpeed::Edr.into();
    parts.links[3].slow = Some(v1::SlowLink::default());
    parts.links[4].damped = true;
    let graph = Graph::of(parts);
    let mut worst: Vec<(u32, u32)> =
        (graph.links.chunks(5).map(|link| (link[3], link[4]))).collect();
    worst.sort_unstable();
    let expected = [(1, LinkKind::Slow as u32), (1, LinkKind::Inactive as u32)];
    assert_eq!(worst, expected);
    let leaf = graph.switches.name.iter().position(|name| name == "leaf-2");
    assert_eq!(graph.switches.hosts_bad[leaf.unwrap()], 1);
    assert_eq!(graph.links_not_active, 1);
}

#[test]
fn missing_cables_and_drained_switches_are_shown_and_unknown_ends_left_out() {
    let mut parts = parts();
    let end = |node, port| PortId {
        node: Guid(node),
        number: PortNum(port),
    };
    parts.gone.cables = vec![[end(1, 4), end(3, 9)], [end(77, 1), end(99, 1)]];
    parts.switches[0].message.avoidance = Avoidance::Drained.into();
    parts.switches[1].message.avoidance = Avoidance::Isolated.into();
    parts
        .links
        .push(link(77, 78, PortState::Active, LinkSpeed::Hdr));
    parts.links.push(v1::Link::default());
    let graph = Graph::of(parts);
    let spine = graph.switches.name.iter().position(|name| name == "spine");
    let leaf = graph.switches.name.iter().position(|name| name == "leaf-2");
    let ends = [(leaf.unwrap() as u32, 4), (spine.unwrap() as u32, 9)];
    assert_eq!(graph.missing, ends);
    assert_eq!(graph.switches.flags[leaf.unwrap()], 2);
    let other = graph.switches.name.iter().position(|name| name == "leaf-1");
    assert_eq!(graph.switches.flags[other.unwrap()], 4);
    assert_eq!(graph.links.len(), 2 * 5);
}

#[test]
fn drained_link_is_shown_as_drained_even_if_inactive_and_unhealthy_link_as_avoided() {
    let mut parts = parts();
    parts.links[0].avoidance = Avoidance::Drained.into();
    parts.links[0].state = PortState::Init.into();
    parts.links[2].avoidance = Avoidance::Isolated.into();
    parts.links[5].avoidance = Avoidance::Draining.into();
    let graph = Graph::of(parts);
    let mut worst: Vec<(u32, u32)> =
        (graph.links.chunks(5).map(|link| (link[3], link[4]))).collect();
    worst.sort_unstable();
    let expected = [(1, LinkKind::Drained as u32), (1, LinkKind::Avoided as u32)];
    assert_eq!(worst, expected);
    // A drained link to a host counts as a drained link between switches does.
    assert_eq!(graph.switches.name[2], "leaf-2");
    assert_eq!(graph.switches.hosts_bad, [0, 0, 1]);
}

/// Two leaves with a host each below two spines; the second spine and its cables have gone.
fn without_a_spine() -> Parts {
    let ranked = |number, name, rank| {
        let mut switch = switch(number, name);
        switch.message.rank = Some(rank);
        switch
    };
    let end = |node, port| PortId {
        node: Guid(node),
        number: PortNum(port),
    };
    Parts {
        switches: vec![
            ranked(1, "leaf-1", 1),
            ranked(2, "leaf-2", 1),
            ranked(3, "spine-1", 0),
        ],
        links: vec![
            link(1, 3, PortState::Active, LinkSpeed::Hdr),
            link(2, 3, PortState::Active, LinkSpeed::Hdr),
            link(11, 1, PortState::Active, LinkSpeed::Hdr),
            link(12, 2, PortState::Active, LinkSpeed::Hdr),
        ],
        gone: GoneSwitches {
            switches: vec![GoneSwitch {
                guid: Guid(4),
                description: "spine-2".to_owned(),
                lid: Lid(40),
                has_hosts: false,
            }],
            cables: vec![[end(1, 2), end(4, 1)], [end(2, 2), end(4, 2)]],
            leaves: Vec::new(),
        },
        ..parts()
    }
}

#[test]
fn switch_whose_hosts_are_all_missing_keeps_its_position() {
    // A ring without ranks: each switch has a host.
    let ring = |hosts: std::ops::RangeInclusive<u64>, leaves: Vec<Guid>| {
        let active = |a, b| link(a, b, PortState::Active, LinkSpeed::Hdr);
        let cables = (1..=4).map(|switch| active(switch, switch % 4 + 1));
        Graph::of(Parts {
            switches: (1..=4)
                .map(|number| switch(number, &format!("ring-{number}")))
                .collect(),
            links: cables
                .chain(hosts.map(|host| active(host + 10, host)))
                .collect(),
            gone: GoneSwitches {
                leaves,
                ..GoneSwitches::default()
            },
            generation: 7,
        })
    };
    let (before, after) = (ring(1..=4, Vec::new()), ring(2..=4, vec![Guid(1)]));
    assert_eq!(after.tiers, before.tiers);
    assert_eq!(after.switches.guid, before.switches.guid);
    assert_eq!(after.switches.x, before.switches.x);
    assert_eq!(after.switches.y, before.switches.y);
    assert_eq!(after.switches.hosts, [0, 1, 1, 1]);
    let unknown = ring(2..=4, Vec::new());
    assert_ne!(
        unknown.tiers, before.tiers,
        "without its hosts it would be no leaf"
    );
}

#[test]
fn gone_switch_is_drawn_at_its_former_position_with_its_gone_cables() {
    let mut before = without_a_spine();
    let gone = std::mem::take(&mut before.gone);
    let mut spine = switch(4, "spine-2");
    spine.message.rank = Some(0);
    before.switches.push(spine);
    for [leaf, spine] in &gone.cables {
        let (leaf, spine) = (leaf.node.0, spine.node.0);
        let cable = link(leaf, spine, PortState::Active, LinkSpeed::Hdr);
        before.links.push(cable);
    }
    let (before, after) = (Graph::of(before), Graph::of(without_a_spine()));
    assert_eq!(after.switches.name, before.switches.name);
    assert_eq!(after.switches.x, before.switches.x);
    assert_eq!(after.switches.y, before.switches.y);
    let of = |graph: &Graph| {
        graph
            .switches
            .name
            .iter()
            .position(|name| name == "spine-2")
    };
    let spine = of(&after).unwrap();
    assert_eq!(
        (before.switches.flags[spine], after.switches.flags[spine]),
        (0, 8)
    );
    assert_eq!(after.switches.lid[spine], 40);
    let gone = after
        .links
        .chunks(5)
        .filter(|link| link[4] == LinkKind::Gone as u32);
    assert!(gone.clone().all(|link| link[..2].contains(&(spine as u32))));
    assert_eq!(gone.count(), 2);
    // The neighbours of the switch are in order.
    assert_eq!(after.missing, []);
    assert_eq!(after.links_active, 4);
}
