//! Compares path records with the routes that packets take through the forwarding tables, which
//! code independent of the SA follows.

use std::sync::Arc;

use proptest::prelude::*;
use rsm_ids::{Lid, PortNum};
use rsm_mad::wire::attr::{LinkSpeedExt, LinkSpeeds, Mtu, PortInfo};
use rsm_mad::wire::sa::{PathRecord, Rate, SaStatus};
use rsm_model::fabric::{Fabric, PortRef};
use rsm_plan::Plan;

use super::world::{SMALL, World, planned};

/// The route of a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Route {
    /// Minimum MTU of the links, in bytes.
    pub(super) mtu: u16,
    /// Minimum rate of the links, in units of 100 Mb/s.
    pub(super) rate: u16,
    /// The source port, followed by the port at which the packet enters each further node.
    pub(super) nodes: Vec<PortRef>,
}

/// MTU in bytes and rate in units of 100 Mb/s of a port's link.
fn limits(info: &PortInfo) -> (u16, u16) {
    let rate = Rate::of_link(info.link_rate().unwrap());
    (
        info.neighbor_mtu().bytes().unwrap(),
        rate.tenth_gbps().unwrap(),
    )
}

/// The route of a packet from the port `from` to `dlid`, a LID of `to`; `None` if the packet does
/// not arrive.
pub(super) fn walk(
    fabric: &Fabric,
    plan: &Plan,
    from: PortRef,
    to: PortRef,
    dlid: Lid,
) -> Option<Route> {
    let mut found = Route {
        mtu: u16::MAX,
        rate: u16::MAX,
        nodes: Vec::new(),
    };
    let mut at = from;
    let mut hops_left = fabric.len() + 2;
    loop {
        found.nodes.push(at);
        let node = fabric.node(at.node);
        let exit = if node.is_switch() {
            plan.table(node.guid)?.port(dlid)?
        } else if at == from {
            at.port
        } else {
            return (at == to).then_some(found);
        };
        if exit == PortNum::ZERO {
            return (at.node == to.node).then_some(found);
        }
        let exit = PortRef {
            node: at.node,
            port: exit,
        };
        node.ports.get(exit.port.index())?;
        let next = fabric.peer(exit)?;
        for end in [exit, next] {
            let (mtu, rate) = limits(fabric.port(end).info.as_ref()?);
            found.mtu = found.mtu.min(mtu);
            found.rate = found.rate.min(rate);
        }
        at = next;
        hops_left = hops_left.checked_sub(1)?;
    }
}

/// Gives every cable a random speed and MTU, equal at both ends.
fn randomize_links(fabric: &mut Fabric, seed: u64) {
    let cables: Vec<_> = fabric.links().collect();
    let mut state = seed;
    for (a, b) in cables {
        // A multiplicative congruential generator is random enough to distinguish cables.
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let mtu = Mtu::from_code(3 + (state >> 33) as u8 % 3);
        let speed =
            [LinkSpeedExt::EDR, LinkSpeedExt::HDR, LinkSpeedExt::NDR][(state >> 40) as usize % 3];
        for at in [a, b] {
            let info = fabric.port_mut(at).info.as_mut().unwrap();
            info.set_neighbor_mtu(mtu)
                .set_link_speed_active(LinkSpeeds::NONE)
                .set_link_speed_ext_active(speed);
        }
    }
}

/// Checks that the path of every pair of LIDs exists if a packet arrives, has the lowest MTU and
/// rate of the routes there and back, and is reversible if there is a route back. Returns the
/// number of pairs with a path.
fn check_all_pairs(world: &mut World) -> Result<usize, TestCaseError> {
    let fabric = world.snapshot.fabric.clone();
    let plan = world.snapshot.plan.clone().unwrap();
    let ends: Vec<PortRef> = fabric.end_ports().map(|(at, _)| at).collect();
    let mut reached = 0;
    for (&from, &to) in ends.iter().flat_map(|a| ends.iter().map(move |b| (a, b))) {
        if from == to {
            continue;
        }
        let (source, target) = (fabric.port(from), fabric.port(to));
        for (slid, dlid) in (0..source.lmc().lids())
            .flat_map(|a| (0..target.lmc().lids()).map(move |b| (a, b)))
            .map(|(a, b)| (Lid(source.lid().0 + a), Lid(target.lid().0 + b)))
        {
            let forth = walk(&fabric, &plan, from, to, dlid);
            let back = walk(&fabric, &plan, to, from, slid);
            let mut wanted = PathRecord::default();
            wanted.set_slid(slid).set_dlid(dlid);
            let answer = world.get(PathRecord::SLID | PathRecord::DLID, &wanted);
            let Some(forth) = forth else {
                prop_assert_eq!(answer.unwrap_err(), SaStatus::NO_RECORDS);
                continue;
            };
            reached += 1;
            let path = answer.unwrap();
            let least = |pick: fn(&Route) -> u16| {
                let back = back.as_ref().map_or(u16::MAX, pick);
                pick(&forth).min(back)
            };
            prop_assert_eq!(path.mtu().bytes(), Some(least(|found| found.mtu)));
            prop_assert_eq!(path.rate().tenth_gbps(), Some(least(|found| found.rate)));
            prop_assert_eq!(path.reversible(), back.is_some());
        }
    }
    Ok(reached)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn path_records_match_the_routes_of_packets(
        spec in prop::sample::select(&[
            SMALL, "fat-tree:k=4,levels=2", "ring:5,hosts=2", "random:switches=8,degree=4,hosts=2,seed=3",
        ][..]),
        lmc in 0..2u8,
        seed in any::<u64>(),
        uniform in any::<bool>(),
        prepared in any::<bool>(),
    ) {
        let (mut fabric, plan) = planned(spec, lmc);
        if !uniform {
            randomize_links(&mut fabric, seed);
        }
        let mut world = World::of(fabric, plan);
        if prepared {
            world.prepare();
        }
        prop_assert!(check_all_pairs(&mut world)? > 0);
    }

    #[test]
    fn path_records_match_the_routes_of_packets_through_arbitrary_tables(
        changes in prop::collection::vec((any::<prop::sample::Index>(), 1..20u16, 0..8u8, any::<bool>()), 1..40),
    ) {
        let (fabric, mut plan) = planned(SMALL, 0);
        for (switch, lid, port, dropped) in changes {
            let tables = &mut Arc::make_mut(&mut plan.routing).tables.lfts;
            let index = switch.index(tables.len());
            let entry = if dropped { rsm_routing::tables::NO_PATH } else { port };
            tables[index].set_entry(Lid(lid), entry);
        }
        plan.report = rsm_routing::verify::verify(&plan.topology, &plan.routing.tables);
        let mut world = World::of(fabric, plan);
        check_all_pairs(&mut world)?;
        world.prepare();
        check_all_pairs(&mut world)?;
    }
}
