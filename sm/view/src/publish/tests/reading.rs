//! Tests of lists, names, tables and routes.

use std::sync::Arc;

use rsm_api::model::{
    LinkFilter, NodeFilter, NodeKind, PortFilter, PortState, RouteOutcome, Selector,
};
use rsm_api::resolve::{NameForm, NameLookup as _};
use rsm_api::v1::{LinkSpeed, LinkWidth};
use rsm_api::{LookupError, Subnet, v1};
use rsm_ids::{Guid, Lid, PortKey, PortNum};
use rsm_model::fabric::Fabric;
use rsm_plan::Plan;
use rsm_routing::netlist::Netlist;
use rsm_routing::tables::NO_PATH;
use rsm_sim::Probe;
use rsm_state::Snapshot;

use super::world::*;
use crate::publish::View;

/// All pages of a list, `limit` items at a time.
fn all<T, K: Copy>(
    limit: usize,
    page: impl Fn(Option<K>, usize) -> Vec<T>,
    key: impl Fn(&T) -> K,
) -> Vec<T> {
    let mut items: Vec<T> = Vec::new();
    loop {
        let next = page(items.last().map(&key), limit);
        assert!(next.len() <= limit);
        if next.is_empty() {
            return items;
        }
        items.extend(next);
    }
}

#[test]
fn pages_of_a_list_together_have_all_items() {
    let world = World::up();
    let view = &world.view;
    let node_filters = [
        NodeFilter::default(),
        NodeFilter {
            kind: Some(NodeKind::Switch),
            description_contains: Some("leaf".to_owned()),
        },
    ];
    for (filter, count) in node_filters.iter().zip([8, 2]) {
        let whole = view.nodes(None, usize::MAX, filter).items;
        assert_eq!(whole.len(), count);
        assert!(whole.is_sorted_by_key(|node| node.key));
        for node in &whole {
            assert_eq!(node.message.guid, node.key.to_string());
        }
        let pages = all(
            3,
            |after, limit| view.nodes(after, limit, filter).items,
            |n| n.key,
        );
        assert_eq!(pages, whole);
    }

    let every_port = view.ports(None, usize::MAX, &PortFilter::default()).items;
    assert_eq!(every_port.len(), 2 * 3 + 2 * 6 + 4);
    assert!(every_port.is_sorted_by_key(|port| port.key));
    for port in &every_port {
        assert_eq!(port.message.key, Some(port.key.into()));
    }
    let port_filters = [
        PortFilter::default(),
        PortFilter {
            node: Some(LEAF_2),
            ..PortFilter::default()
        },
        PortFilter {
            node_kind: Some(NodeKind::Ca),
            ..PortFilter::default()
        },
        PortFilter {
            state: Some(PortState::Active),
            connected: true,
            ..PortFilter::default()
        },
    ];
    for filter in &port_filters {
        let mut wanted = every_port.clone();
        wanted.retain(|port| filter.matches(port));
        assert!(!wanted.is_empty());
        for limit in [1, 4, 100] {
            let pages = all(
                limit,
                |a, l| view.ports(a, l, filter).items,
                |port| port.key,
            );
            assert_eq!(pages, wanted, "{filter:?}");
        }
    }

    let every_link = view.links(None, usize::MAX, &LinkFilter::default()).items;
    assert_eq!(every_link.len(), 8);
    assert!(every_link.is_sorted_by_key(|link| link.key));
    for link in &every_link {
        let end = link.message.a.as_ref().unwrap();
        assert_eq!(end.port, Some(link.key.into()));
    }
    let link_filters = [
        LinkFilter::default(),
        LinkFilter {
            nodes: vec![LEAF_1],
            ..LinkFilter::default()
        },
        LinkFilter {
            between_switches: true,
            ..LinkFilter::default()
        },
        LinkFilter {
            end_contains: Some("leaf-1".to_owned()),
            ..LinkFilter::default()
        },
        LinkFilter {
            end_contains: Some(LEAF_1.to_string()),
            between_switches: true,
            ..LinkFilter::default()
        },
        LinkFilter {
            end_contains: Some("nowhere".to_owned()),
            ..LinkFilter::default()
        },
    ];
    for (filter, count) in link_filters.iter().zip([8, 4, 4, 4, 2, 0]) {
        let mut wanted = every_link.clone();
        wanted.retain(|link| filter.matches(&link.message));
        assert_eq!(wanted.len(), count);
        for limit in [1, 3] {
            let pages = all(
                limit,
                |a, l| view.links(a, l, filter).items,
                |link| link.key,
            );
            assert_eq!(pages, wanted, "{filter:?}");
        }
    }
}

/// The snapshot of `world` with `cables` in place of the cables at their ends.
fn with_cables(world: &World, cables: &[(PortKey, PortKey)]) -> Snapshot {
    let snapshot = world.snapshot();
    let mut fabric = Fabric::clone(&snapshot.fabric);
    for &(a, b) in cables {
        for (here, there) in [(a, b), (b, a)] {
            let ix = fabric.find(here.node).unwrap();
            fabric.node_mut(ix).ports[here.port.index()].peer = Some(there);
        }
    }
    Snapshot {
        fabric: Arc::new(fabric),
        ..snapshot
    }
}

#[test]
fn cables_from_a_switch_to_itself_are_listed_once_with_and_without_a_node_filter() {
    let port = |node, number| PortKey::new(node, PortNum(number));
    let cables = [
        (port(LEAF_1, 5), port(LEAF_1, 5)),
        (port(LEAF_2, 3), port(LEAF_2, 4)),
        (port(SPINE_A, 2), port(SPINE_B, 2)),
    ];
    let view = blank_view();
    view.replace(Arc::new(with_cables(&World::up(), &cables)));
    let listed = |filter| view.links(None, usize::MAX, &filter).items;
    let every_link = listed(LinkFilter::default());
    // Two of the eight cables of the fabric make room for the cables between spines and at leaf 2.
    assert_eq!(every_link.len(), 9);
    assert_eq!(view.status().links, 9);
    for (node, count) in [(LEAF_1, 5), (LEAF_2, 3), (SPINE_A, 2), (SPINE_B, 2)] {
        let filter = LinkFilter {
            nodes: vec![node],
            ..LinkFilter::default()
        };
        let mut wanted = every_link.clone();
        wanted.retain(|link| filter.matches(&link.message));
        assert_eq!(wanted.len(), count);
        assert_eq!(listed(filter), wanted);
    }
}

#[test]
fn ports_and_nodes_show_the_state_of_the_hardware() {
    let world = World::up();
    let port = world.view.port(&named("leaf-1:3")).unwrap().message;
    assert_eq!(port.state(), PortState::Active);
    assert_eq!(
        (port.width(), port.speed()),
        (LinkWidth::LinkWidth4x, LinkSpeed::Hdr)
    );
    assert_eq!((port.mtu_bytes, port.operational_vls), (4096, 8));
    assert_eq!((port.lid, port.guid), (0, Guid::ZERO.to_string()));
    assert_eq!(port.peer.unwrap().description, "spine-a");
    let unused = world.view.port(&named("leaf-1:5")).unwrap().message;
    assert_eq!(
        (unused.state(), unused.width()),
        (PortState::Down, LinkWidth::Unspecified)
    );
    let node = world.view.node(&named("leaf-1")).unwrap().message;
    assert_eq!((node.num_ports, node.ports_active), (5, 4));
    let host = world.sim.port_info(HOSTS[1], PortNum(1)).unwrap();
    let shown = world.view.port(&named("host-2")).unwrap().message;
    assert_eq!(shown.lid, u32::from(host.lid().0));
}

#[test]
fn lookup_by_any_name_of_a_port_finds_the_port() {
    let world = World::up();
    let port = world.view.port(&named("host-2")).unwrap();
    assert_eq!(port.key.node, HOSTS[1]);
    let names = [
        port.message.lid.to_string(),
        port.message.guid.clone(),
        HOSTS[1].to_string(),
        "host-2:1".to_owned(),
    ];
    for name in names {
        let found = world.view.port(&named(&name)).map(|found| found.key);
        assert_eq!(found, Ok(port.key), "{name}");
    }
    assert!(matches!(
        world.view.node(&named("twin")),
        Err(LookupError::Ambiguous { total: 2, .. })
    ));
    for (name, expected) in [("host-2:0", HOSTS[1]), ("leaf-1:6", LEAF_1)] {
        let Err(LookupError::NoSuchPort { port }) = world.view.port(&named(name)) else {
            panic!("{name} does not exist");
        };
        assert_eq!(port.node, expected);
    }
}

fn route(view: &View, source: &Selector, destination: &Selector) -> Result<v1::Route, LookupError> {
    let response = view.route(source, destination)?;
    Ok(response.route.unwrap())
}

/// The outcome of a route, and the reason if packets are dropped.
fn outcome(route: &v1::Route) -> (RouteOutcome, String) {
    (route.outcome(), route.reason.clone())
}

fn node_of(hop: &v1::Hop) -> Guid {
    hop.node_guid.parse().unwrap()
}

#[test]
fn a_route_is_the_path_that_packets_take() {
    let world = World::up();
    for from in HOSTS {
        for to in HOSTS.into_iter().chain([SPINE_A, SPINE_B, LEAF_1, LEAF_2]) {
            let (source, destination) = (named(&from.to_string()), named(&to.to_string()));
            let route = route(&world.view, &source, &destination).unwrap();
            assert_eq!(route.outcome(), RouteOutcome::Delivered);
            let (first, last) = (route.hops.first().unwrap(), route.hops.last().unwrap());
            assert_eq!((node_of(first), first.in_port), (from, None));
            assert_eq!((node_of(last), last.out_port), (to, None));
            for pair in route.hops.windows(2) {
                let exit = PortNum(pair[0].out_port.unwrap() as u8);
                let entry = PortNum(pair[1].in_port.unwrap() as u8);
                let peer = world.sim.peer(node_of(&pair[0]), exit).unwrap();
                assert_eq!(peer, Some((node_of(&pair[1]), entry)));
            }
            let lid = Lid(route.lid as u16);
            let probe = world.sim.probe((from, PortNum(1)), lid, 0);
            assert!(matches!(probe, Ok(Probe::Delivered { .. })), "{probe:?}");
        }
    }
    let same = route(&world.view, &named("host-1"), &named("host-1")).unwrap();
    assert_eq!(same.hops.len(), 1);
    let far = route(&world.view, &named("host-1"), &named(&HOSTS[3].to_string()));
    assert_eq!(far.unwrap().hops.len(), 5);
    assert!(matches!(
        world.view.route(&named("host-1"), &named("leaf-1:3")),
        Err(LookupError::NoLid { .. })
    ));
}

/// A view of the world's snapshot with forwarding tables that `change` has changed.
fn with_tables(world: &World, change: impl FnOnce(&Plan, &mut Plan)) -> View {
    let snapshot = world.snapshot();
    let plan = snapshot.plan.clone().unwrap();
    let mut other = Plan {
        generation: plan.generation + 1,
        findings: Vec::new(),
        ..Plan::clone(&plan)
    };
    change(&plan, &mut other);
    let view = blank_view();
    view.replace(Arc::new(Snapshot {
        plan: Some(Arc::new(other)),
        ..snapshot
    }));
    view
}

#[test]
fn route_that_ends_early_shows_the_node_and_the_reason() {
    let world = World::up();
    let destination = named(&HOSTS[3].to_string());
    let lid = world.view.port(&destination).unwrap().message.lid;
    let lid = Lid(lid as u16);
    let walk = |switch, port: u8| {
        let view = with_tables(&world, |plan, other| {
            let at = plan.topology.switch_by_guid(switch).unwrap().index();
            Arc::make_mut(&mut other.routing).tables.lfts[at].set_entry(lid, port);
        });
        let route = route(&view, &named("host-1"), &destination).unwrap();
        let nodes: Vec<_> = route.hops.iter().map(node_of).collect();
        (outcome(&route), nodes, route.hops.last().unwrap().out_port)
    };
    let dropped = |reason: String| (RouteOutcome::Dropped, reason);

    let (end, nodes, exit) = walk(LEAF_1, NO_PATH);
    assert_eq!(end, dropped(format!("no entry for LID {lid}")));
    assert_eq!((nodes, exit), (vec![HOSTS[0], LEAF_1], None));
    assert_eq!(walk(LEAF_1, 5).0, dropped("port 5 is down".to_owned()));
    assert_eq!(
        walk(LEAF_1, 99).0,
        dropped("there is no port 99".to_owned())
    );
    let (end, nodes, _) = walk(LEAF_1, 2);
    assert_eq!(end, dropped(format!("it does not hold LID {lid}")));
    assert_eq!(nodes, [HOSTS[0], LEAF_1, HOSTS[1]]);
    let (end, nodes, _) = walk(LEAF_1, 1);
    assert_eq!(end, dropped(format!("it does not hold LID {lid}")));
    assert_eq!(nodes, [HOSTS[0], LEAF_1, HOSTS[0]]);

    // Both spines send packets back.
    let view = with_tables(&world, |plan, other| {
        for spine in [SPINE_A, SPINE_B] {
            let at = plan.topology.switch_by_guid(spine).unwrap().index();
            Arc::make_mut(&mut other.routing).tables.lfts[at].set_entry(lid, 1);
        }
    });
    let looping = route(&view, &named("host-1"), &destination).unwrap();
    assert_eq!(outcome(&looping), (RouteOutcome::Loop, String::new()));
    let nodes: Vec<_> = looping.hops.iter().map(node_of).collect();
    assert_eq!((nodes.len(), nodes[1], nodes[3]), (4, LEAF_1, LEAF_1));

    let view = blank_view();
    view.replace(Arc::new(Snapshot {
        plan: None,
        ..world.snapshot()
    }));
    let untabled = route(&view, &named("host-1"), &destination).unwrap();
    assert_eq!(
        outcome(&untabled),
        dropped("rsm knows no forwarding table of the switch".to_owned())
    );
    let table = view.forwarding_table(&named("leaf-1"), None, 9).unwrap();
    assert_eq!(table.table.unwrap().entries, []);
}

#[test]
fn shown_forwarding_table_equals_the_table_of_the_switch() {
    let world = World::up();
    let leaf = named("leaf-1");
    let page = |after, limit| {
        let response = world.view.forwarding_table(&leaf, after, limit).unwrap();
        response.table.unwrap()
    };
    let whole = page(None, usize::MAX);
    assert_eq!(whole.entries.len(), 8);
    let held = world.sim.lft(LEAF_1).unwrap();
    for entry in &whole.entries {
        assert_eq!(entry.port, u32::from(held[entry.lid as usize]));
        let destination = world.view.port(&named(&entry.lid.to_string())).unwrap();
        assert_eq!(entry.destination, Some(destination.key.into()));
        let description = destination.message.node_description;
        assert_eq!(entry.destination_description, description);
    }
    let top = world.sim.switch_info(LEAF_1).unwrap().linear_fdb_top();
    assert_eq!(whole.top, u32::from(top.0));
    let pages = all(
        3,
        |after, limit| page(after, limit).entries,
        |entry| Lid(entry.lid as u16),
    );
    assert_eq!(pages, whole.entries);
    assert!(matches!(
        world.view.forwarding_table(&named("host-1"), None, 1),
        Err(LookupError::NotASwitch { .. })
    ));
}

#[test]
fn attributes_are_shown_field_by_field_without_the_m_key() {
    let world = World::up();
    let fields = |attribute, name: &str| {
        let fields = world.view.attribute(attribute, &named(name)).unwrap();
        let fields = fields.into_iter().map(|field| (field.name, field.value));
        fields.collect::<std::collections::BTreeMap<_, _>>()
    };
    let port = fields(v1::SmpAttribute::PortInfo, "host-1");
    assert_eq!(port["M_Key"], "not shown");
    assert_eq!(port["PortState"], "Active");
    let node = fields(v1::SmpAttribute::NodeInfo, "host-1");
    assert_eq!(node["NodeGUID"], HOSTS[0].to_string());
    assert!(!fields(v1::SmpAttribute::SwitchInfo, "leaf-1").is_empty());
    assert!(fields(v1::SmpAttribute::SwitchInfo, "host-1").is_empty());
}

#[test]
fn index_of_names_finds_the_nodes_that_a_search_of_all_descriptions_finds() {
    let mut nodes = netlist().nodes().to_vec();
    for (node, description) in [
        (0, "MF0;core:CS8500/S01"),
        (1, "MF0;core:CS8500/S02"),
        (2, "MF0;Leaf-1:MQM8700/U1"),
        (4, "host-1 mlx5_0"),
        (5, "host-1 mlx5_1"),
    ] {
        nodes[node].description = description.as_bytes().to_vec();
    }
    let netlist = Netlist::new(nodes, netlist().cables().to_vec()).unwrap();
    let mut world = World::of(&netlist, HOSTS[0]);
    world.run(WAIT);
    let published = world.view.published();
    let names = &published.names;
    let described = published
        .fabric()
        .nodes()
        .map(|node| node.description.clone());
    let mut asked: Vec<String> = described.collect();
    asked.extend(
        [
            "core", "core/S01", "leaf-1", "LEAF-1", "host-1", "HOST-1", "host", "-",
        ]
        .map(str::to_owned),
    );
    let mut found = 0;
    for name in &asked {
        for form in [
            NameForm::Exact,
            NameForm::AnyCase,
            NameForm::Shown,
            NameForm::Host,
            NameForm::Part,
        ] {
            let searched = names.nodes_described(&|description| form.is_name(name, description));
            found += searched.len();
            assert_eq!(names.nodes_named(name, form), searched, "{name} {form:?}");
        }
    }
    assert!(found > asked.len());
}
