//! Random fabrics, as proptest strategies.

use proptest::prelude::*;
use rsm_routing::topology::{EndpointKind, Topology};

use super::common::Fabric;

/// The parts of a random fabric, printed when a test fails.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) switches: usize,
    /// (switch, switch, how many parallel links, rate); equal ends make a loop-back.
    pub(crate) links: Vec<(usize, usize, usize, u32)>,
    /// (switch, kind of port that hangs off it).
    pub(crate) ports: Vec<(usize, EndpointKind)>,
    pub(crate) lmc: u8,
}

impl Plan {
    pub(crate) fn build(&self) -> Topology {
        let mut fabric = Fabric::with_lmc(self.lmc);
        // GUIDs in another order than numbers: nothing may depend on the order of discovery.
        for switch in 0..self.switches {
            let guid = 0x9000 + (switch as u64 * 7919) % 1009;
            fabric.switch_with_guid(rsm_ids::Guid(guid));
        }
        for &(a, b, count, rate) in &self.links {
            for _ in 0..count {
                if fabric.has_room(a) && fabric.has_room(b) {
                    fabric.link_of_rate(a, b, rate);
                }
            }
        }
        for &(switch, kind) in &self.ports {
            if fabric.has_room(switch) {
                fabric.endport(switch, kind);
            }
        }
        fabric.build()
    }
}

fn kind() -> impl Strategy<Value = EndpointKind> {
    prop_oneof![
        6 => Just(EndpointKind::Ca),
        1 => Just(EndpointKind::Router),
        2 => Just(EndpointKind::AggregationNode),
    ]
}

/// Any graph: sparse ones are not connected, and have loop-backs.
pub(crate) fn any_graph() -> impl Strategy<Value = Plan> {
    (1usize..14).prop_flat_map(|switches| {
        let rate = prop_oneof![3 => Just(100u32), 1 => Just(25), 1 => Just(400)];
        let link = (0..switches, 0..switches, 1usize..4, rate);
        let links = proptest::collection::vec(link, 0..30);
        let ports = proptest::collection::vec((0..switches, kind()), 0..40);
        (Just(switches), links, ports, 0u8..3).prop_map(|(switches, links, ports, lmc)| Plan {
            switches,
            links,
            ports,
            lmc,
        })
    })
}

/// Pods of leaves, with three hosts each, below spines of their own, with `parallel` cables each;
/// several pods meet in as many switches above as a pod has spines.
pub(crate) fn tree(leaves: usize, spines: usize, pods: usize, parallel: usize) -> Plan {
    let mut links = Vec::new();
    let mut ports = Vec::new();
    let pod_size = leaves + spines;
    let cores = if pods > 1 { spines } else { 0 };
    for pod in 0..pods {
        for leaf in 0..leaves {
            let leaf_number = pod * pod_size + leaf;
            ports.extend((0..3).map(|_| (leaf_number, EndpointKind::Ca)));
            for spine in 0..spines {
                links.push((leaf_number, pod * pod_size + leaves + spine, parallel, 100));
            }
        }
        for spine in 0..spines {
            for core in 0..cores {
                let spine_number = pod * pod_size + leaves + spine;
                links.push((spine_number, pods * pod_size + core, 1, 100));
            }
        }
    }
    Plan {
        switches: pods * pod_size + cores,
        links,
        ports,
        lmc: 0,
    }
}

/// Two- and three-level trees with links missing, hosts in odd places, and aggregation nodes
/// everywhere or nowhere.
pub(crate) fn broken_tree() -> impl Strategy<Value = Plan> {
    let shape = (1usize..5, 1usize..5, 1usize..4, 1usize..3);
    let holes = proptest::collection::vec(any::<prop::sample::Index>(), 0..6);
    let odd = proptest::collection::vec(any::<prop::sample::Index>(), 0..4);
    (shape, holes, odd, any::<bool>()).prop_map(
        |((leaves, spines, pods, parallel), holes, odd, nodes)| {
            let mut plan = tree(leaves, spines, pods, parallel);
            let (links, ports, switches) = (&mut plan.links, &mut plan.ports, plan.switches);
            for hole in holes {
                if !links.is_empty() {
                    links.swap_remove(hole.index(links.len()));
                }
            }
            ports.extend(
                odd.iter()
                    .map(|drawn| (drawn.index(switches), EndpointKind::Ca)),
            );
            if nodes {
                ports.extend((0..switches).map(|switch| (switch, EndpointKind::AggregationNode)));
            }
            plan
        },
    )
}

/// Two- and three-dimensional tori.
pub(crate) fn torus() -> impl Strategy<Value = Plan> {
    (2usize..5, 2usize..5, 1usize..4).prop_map(|(x, y, z)| {
        let number = |a: usize, b: usize, c: usize| (a % x * y + b % y) * z + c % z;
        let mut links = Vec::new();
        let mut ports = Vec::new();
        for a in 0..x {
            for b in 0..y {
                for c in 0..z {
                    let here = number(a, b, c);
                    ports.push((here, EndpointKind::Ca));
                    for next in [
                        number(a + 1, b, c),
                        number(a, b + 1, c),
                        number(a, b, c + 1),
                    ] {
                        if next != here {
                            links.push((here, next, 1, 100));
                        }
                    }
                }
            }
        }
        Plan {
            switches: x * y * z,
            links,
            ports,
            lmc: 0,
        }
    })
}

pub(crate) fn any_fabric() -> impl Strategy<Value = Plan> {
    prop_oneof![any_graph(), broken_tree(), torus()]
}
