//! Local fast recovery in a whole subnet: two links, or a link and a switch, fail at once while the
//! manager is dead or suspended. Switches then forward as the proof over sets promises, packet by
//! packet, and the manager repairs the routes when it is back.

use std::collections::BTreeSet;
use std::time::Duration;

use rsm_config::AdaptiveRouting;
use rsm_ids::{Guid, Lid, PortNum};
use rsm_routing::topology::Topology;
use rsm_routing::verify::{Held, SetReport, recovered, verify_sets};
use rsm_sim::{Picks, Probe};
use rsm_tests::virtual_time::{Dice, Memory, World, expect, seeds};

use crate::sim_adaptive::{
    DEEP, DEVICES, adaptive, assert_as_planned, assert_delivers, assert_no_loop, brought_up_with,
    held, plan, settings, uplinks,
};

const LIMIT: Duration = Duration::from_secs(120);
const SECOND: Duration = Duration::from_secs(1);

/// A time longer than a switch takes to notice that a link is down, and far shorter than a repair.
const NOTICE_TIME: Duration = Duration::from_millis(1);

const FABRICS: [&str; 5] = [
    "fat-tree:k=4,levels=2,speed=ndr",
    "fat-tree:k=8,levels=2,speed=ndr",
    DEEP,
    "pgft:2;3,3;1,2;1,2,speed=ndr",
    "pgft:2;2,2;1,2;1,1,speed=ndr",
];

/// Parts that fail at the same moment.
#[derive(Debug)]
struct Failure {
    links: Vec<(Guid, PortNum)>,
    switch: Option<Guid>,
}

impl Failure {
    /// Two links between switches, or one link and a switch other than the leaf of the manager's
    /// host.
    fn random(world: &World, topology: &Topology, dice: &mut Dice) -> Failure {
        let links: Vec<(Guid, PortNum)> = topology.cables().iter().map(|cable| cable.a).collect();
        let first = dice.pick(&links);
        if dice.one_in(2) {
            let others: Vec<(Guid, PortNum)> =
                links.into_iter().filter(|&link| link != first).collect();
            return Failure {
                links: vec![first, dice.pick(&others)],
                switch: None,
            };
        }
        let local = world.manager().local(&world.sim).expect("it is attached");
        let (own, _) = world.sim.peer(local.0, local.1).unwrap().unwrap();
        let switches = topology.switches().iter().map(|switch| switch.guid);
        let others: Vec<Guid> = switches.filter(|&guid| guid != own).collect();
        Failure {
            links: vec![first],
            switch: Some(dice.pick(&others)),
        }
    }

    fn begin(&self, world: &mut World) {
        for &(guid, port) in &self.links {
            world.sim.unlink(guid, port).unwrap();
        }
        if let Some(guid) = self.switch {
            world.sim.power_off(guid).unwrap();
        }
    }

    fn end(&self, world: &mut World) {
        for &(guid, port) in &self.links {
            world.sim.relink(guid, port).unwrap();
        }
        if let Some(guid) = self.switch {
            world.sim.power_on(guid).unwrap();
        }
    }

    /// The fabric without the failed parts. A failed switch stays, without any cable.
    fn without(&self, world: &World, topology: &Topology) -> Topology {
        let mut ends = self.links.clone();
        if let Some(guid) = self.switch {
            let ports = (1..=world.sim.num_ports(guid).unwrap()).map(PortNum);
            ends.extend(ports.map(|port| (guid, port)));
        }
        topology.without_cables(&ends)
    }
}

/// Brings up a fabric with fast recovery.
fn brought_up(spec: &str, seed: u64) -> World {
    let mut settings = settings(AdaptiveRouting::FastRecovery, DEVICES);
    settings.seed = seed;
    brought_up_with(spec, settings)
}

/// Proves which packets switches still deliver after a failure, before any Set: the packets that
/// arrive whatever switches choose, without a loop or a credit loop. Returns the topology without
/// the failed parts, and the report of the proof.
fn prove_recovery(world: &World, failure: &Failure) -> (Topology, SetReport) {
    let plan = plan(world);
    let (tables, groups) = held(world, &plan);
    let before = Held {
        tables: &tables,
        adaptive: &groups,
    };
    let broken = failure.without(world, &plan.topology);
    let (tables, groups) = recovered(&broken, before);
    let after = Held {
        tables: &tables,
        adaptive: &groups,
    };
    let report = verify_sets(&broken, after);
    assert!(report.keeps_moving(), "{failure:?}: {:?}", report.witnesses);
    let longest = adaptive(&plan).report.max_hops;
    assert!(report.max_hops <= longest, "{failure:?}");
    (broken, report)
}

/// All end ports with their LIDs, before the failure.
fn ends(world: &World) -> Vec<((Guid, PortNum), Lid)> {
    let reach = expect::reach(world, &[]);
    let lids = reach.lids(&world.sim).into_iter();
    lids.map(|(lid, port)| (port, lid)).collect()
}

/// Sends a packet between any two ends that the failure left, with the worst choices that switches
/// can make. As many packets as proved must arrive, each within the proved number of hops, and none
/// may loop.
fn assert_delivers_as_proved(
    world: &World,
    ends: &[((Guid, PortNum), Lid)],
    failure: &Failure,
    (broken, promised): &(Topology, SetReport),
) {
    let lids = broken.destinations().iter().flat_map(|end| end.lids());
    let there: BTreeSet<Lid> = lids.collect();
    let ends: Vec<_> = ends.iter().filter(|(_, lid)| there.contains(lid)).collect();
    let mut delivered = 0;
    for &&(source, own) in &ends {
        for &&(holder, lid) in ends.iter().filter(|&&&(_, lid)| lid != own) {
            let outcome = world.sim.probe_choices(source, lid, 0, Picks::Worst);
            match outcome.unwrap().probe {
                Probe::Delivered { node, port, hops } => {
                    assert_eq!((node, port), holder, "{failure:?}");
                    // The links of the two hosts do not count as hops of the proof.
                    let of_hosts = [source, holder].into_iter();
                    let of_hosts = of_hosts.filter(|end| end.1 != PortNum::ZERO).count() as u32;
                    assert!(hops <= promised.max_hops + of_hosts, "{failure:?}");
                    delivered += 1;
                }
                Probe::Dropped { .. } => {}
                Probe::Loop { node } => panic!("a packet circles at {node}: {failure:?}"),
            }
        }
    }
    let reachable = promised.pairs.reachable + promised.switch_pairs.reachable;
    assert_eq!(delivered, reachable, "{failure:?}: {promised:?}");
}

/// Two of the four uplinks of a leaf fail: packets going up use the other two uplinks at once.
/// Without fast recovery some packets are lost.
#[test]
fn leaf_that_loses_two_uplinks_sends_by_the_other_uplinks_before_any_repair() {
    for (mode, keeps_all) in [
        (AdaptiveRouting::FastRecovery, true),
        (AdaptiveRouting::On, false),
    ] {
        let mut world = brought_up_with(FABRICS[1], settings(mode, DEVICES));
        let ends = ends(&world);
        let (leaf, ports) = uplinks(&world);
        assert_eq!(ports.len(), 4);
        let failure = Failure {
            links: ports[1..3].iter().map(|&port| (leaf, port)).collect(),
            switch: None,
        };
        let proof = keeps_all.then(|| prove_recovery(&world, &failure));
        world.kill(0);
        failure.begin(&mut world);
        world.run_for(NOTICE_TIME);
        if let Some(proof) = &proof {
            assert_delivers_as_proved(&world, &ends, &failure, proof);
        }
        let at_leaf = |host: Guid| {
            let peer = world.sim.peer(host, PortNum(1));
            peer.is_ok_and(|peer| peer.is_some_and(|(guid, _)| guid == leaf))
        };
        let hosts = ends.iter().filter(|(end, _)| end.1 != PortNum::ZERO);
        let (here, there): (Vec<_>, Vec<_>) = hosts.partition(|(end, _)| at_leaf(end.0));
        let mut lost = 0;
        for &(source, _) in &here {
            for &(_, lid) in &there {
                let outcome = world.sim.probe_choices(source, lid, 0, Picks::Worst);
                lost += usize::from(!outcome.unwrap().probe.is_delivered());
            }
        }
        assert_eq!(lost == 0, keeps_all, "{mode:?}: {lost} pairs are lost");
    }
}

/// One failure of two parts, and its repair by a manager that was dead or suspended.
fn run(seed: u64) {
    let mut dice = Dice::new(seed);
    let mut world = brought_up(dice.pick(&FABRICS), seed);
    let ends = ends(&world);
    let failure = Failure::random(&world, &plan(&world).topology, &mut dice);
    let proof = prove_recovery(&world, &failure);
    let pause = dice.duration(SECOND / 10, 20 * SECOND);
    let is_killed = dice.one_in(2);
    match is_killed {
        true => world.kill(0),
        false => world.pause_for(0, pause),
    }
    failure.begin(&mut world);
    world.run_for(NOTICE_TIME);
    assert_delivers_as_proved(&world, &ends, &failure, &proof);
    world.run_for(pause - 2 * NOTICE_TIME);
    assert_delivers_as_proved(&world, &ends, &failure, &proof);
    if is_killed {
        let memory = dice.pick(&[Memory::Kept, Memory::Lost]);
        world.start(0, memory);
    }
    for _ in 0..10 {
        let delay = dice.duration(Duration::from_micros(10), SECOND);
        world.schedule(delay, assert_no_loop);
    }
    world.run_for(2 * SECOND);
    world.settle(5 * LIMIT);
    expect::assert_up(&world);
    assert_as_planned(&world);
    assert_delivers(&world, 0, Picks::Worst);
    failure.end(&mut world);
    world.run_for(6 * SECOND);
    world.settle(5 * LIMIT);
    world.run_for(100 * SECOND);
    world.settle(5 * LIMIT);
    expect::assert_up(&world);
    assert_as_planned(&world);
    assert_delivers(&world, 0, Picks::Worst);
}

#[test]
fn two_failures_at_once_cost_no_packet_that_the_proof_promises() {
    let test = "--test system sim_fast_recovery::two_failures_at_once";
    seeds::run(test, 24, run);
}

#[test]
#[ignore = "runs as many seeds as RSM_SEEDS says, or 500"]
fn soak_of_two_failures_at_once() {
    let count = seeds::number("RSM_SEEDS").unwrap_or(500);
    seeds::run(
        "--test system sim_fast_recovery::soak_of_two_failures_at_once -- --ignored",
        count,
        run,
    );
}
