//! Pictures: a golden one, and well-formed ones for any fabric and any names of nodes.

use crate::common;
use crate::random;

use common::{Fabric, pgft};
use proptest::prelude::*;
use rsm_ids::Guid;
use rsm_routing::engine::{EngineKind, Options, levels_from_hosts, route};
use rsm_routing::picture::{MOST_LINES, Scene, draw};
use rsm_routing::quality::link_uses;
use rsm_routing::topology::Topology;

fn drawn(topology: &Topology, name: &dyn Fn(Guid) -> String) -> String {
    let routing = route(EngineKind::UpDn, topology, &Options::default(), None).unwrap();
    draw(&Scene {
        topology,
        links: &link_uses(topology, &routing.tables),
        levels: &levels_from_hosts(topology),
        missing: &[],
        title: &name(Guid(0)),
        notes: &["a note".to_owned(), name(Guid(1))],
        name,
    })
}

/// Checks that tags nest, attributes are quoted and nothing but the five entities is referred to;
/// returns the number of elements.
fn assert_well_formed(text: &str) -> usize {
    let mut open: Vec<&str> = Vec::new();
    let mut elements = 0;
    let mut rest = text;
    while let Some(start) = rest.find('<') {
        assert!(!rest[..start].contains('>'), "> outside of a tag");
        for reference in rest[..start].split('&').skip(1) {
            let (name, _) = reference.split_once(';').unwrap();
            assert!(
                ["amp", "lt", "gt", "quot", "apos"].contains(&name),
                "&{name};"
            );
        }
        let end = start + rest[start..].find('>').unwrap();
        let tag = &rest[start + 1..end];
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name)),
            None => {
                elements += 1;
                let name = tag.split([' ', '/']).next().unwrap();
                assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
                if !tag.ends_with('/') {
                    open.push(name);
                }
            }
        }
        rest = &rest[end + 1..];
    }
    assert_eq!(open, Vec::<&str>::new());
    elements
}

#[test]
fn a_small_tree_draws_the_golden_picture() {
    let topology = pgft(&[2, 2], &[1, 2], &[1, 1], 0);
    let picture = drawn(&topology, &|guid| format!("switch-{:x}", guid.0));
    assert_well_formed(&picture);
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/two-by-two.svg");
    if std::env::var_os("RSM_BLESS").is_some() {
        std::fs::write(golden, &picture).unwrap();
    }
    let expected = std::fs::read_to_string(golden).unwrap();
    assert_eq!(
        picture, expected,
        "set RSM_BLESS=1 to accept what is drawn now"
    );
}

#[test]
fn a_large_fabric_is_drawn_in_bands_and_each_switch_once() {
    let topology = pgft(&[8, 24, 44], &[1, 8, 6], &[1, 1, 1], 0);
    let links = topology.link_count();
    assert!(links > MOST_LINES);
    let picture = drawn(&topology, &|guid| guid.to_string());
    // A link, its tip, a rectangle, a name, and the bar and number of hosts.
    let most = 6 * topology.switch_count() + 1000;
    let elements = assert_well_formed(&picture);
    assert!(elements < most, "{elements} of {most}");
    for switch in topology.switches() {
        let tip = format!("<title>{} (", switch.guid);
        assert_eq!(picture.matches(&tip).count(), 1);
    }
    assert!(picture.contains("as bands between groups"));
}

#[test]
fn links_beyond_their_share_are_red_and_missing_cables_dashed() {
    let topology = pgft(&[4, 4], &[1, 2], &[1, 1], 0);
    let mut routing = route(EngineKind::UpDn, &topology, &Options::default(), None).unwrap();
    let even = drawn(&topology, &|guid| guid.to_string());
    assert!(!even.contains("more than its share") && !even.contains("missing"));
    let leaf = topology
        .indices()
        .find(|&at| topology.hosts(at) > 0)
        .unwrap();
    let up = (1..=topology.switch(leaf).num_ports)
        .map(rsm_ids::PortNum)
        .filter(|&port| topology.peer(leaf, port).is_some())
        .min()
        .unwrap();
    for destination in topology.destinations() {
        if destination.kind.is_host() && destination.switch != leaf {
            routing.tables.lfts[leaf.index()].set_entry(destination.lid, up.0);
        }
    }
    let spine = topology.peer(leaf, up).unwrap().0;
    let ends = [leaf, spine].map(|at| topology.switch(at).guid);
    let picture = draw(&Scene {
        topology: &topology,
        links: &link_uses(&topology, &routing.tables),
        levels: &levels_from_hosts(&topology),
        missing: &[(ends[0], ends[1])],
        title: "uneven",
        notes: &[],
        name: &|guid| guid.to_string(),
    });
    assert_well_formed(&picture);
    assert!(picture.contains("has twice its share of paths or more"));
    assert!(picture.contains("1 missing cable"));
    assert!(picture.contains("stroke-dasharray=\"6 4\""));
}

#[test]
fn an_empty_fabric_is_drawn_well_formed() {
    let empty = Fabric::new().build();
    assert_well_formed(&drawn(&empty, &|_| String::new()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_fabric_is_drawn_well_formed(plan in random::any_graph(), name in ".*") {
        assert_well_formed(&drawn(&plan.build(), &|_| name.clone()));
    }
}
