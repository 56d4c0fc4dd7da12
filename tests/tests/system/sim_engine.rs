//! A change of the engine at run time, and the forecast of a lost cable compared with its outcome.

use std::time::Duration;

use rsm_config::overlay::WhenCutOff;
use rsm_mad::wire::header::{AttrId, Method};
use rsm_plan::whatif::{Loss, what_if};
use rsm_routing::engine::EngineKind;
use rsm_routing::tables::Tables;
use rsm_state::{Activity, Command};
use rsm_tests::virtual_time::{Settings, World, expect};

const LIMIT: Duration = Duration::from_secs(60);

fn tables(world: &World) -> Tables {
    let plan = world.manager().core().plan().expect("the subnet is up");
    plan.routing.tables.clone()
}

fn engine(world: &World) -> &'static str {
    let plan = world.manager().core().plan().expect("the subnet is up");
    plan.routing.engine
}

/// Requests an engine, and asserts that the subnet is up without findings afterwards.
fn request_engine(world: &mut World, engine: EngineKind, ticket: u64) {
    world.command(Command::Engine {
        engine,
        when_cut_off: WhenCutOff::Accept,
        ticket,
    });
    world.settle(LIMIT);
    expect::assert_up(world);
    expect::assert_no_findings(world);
}

#[test]
fn another_engine_routes_once_its_tables_are_proved() {
    // With one spine, shortest paths go up and down, and close no credit loop.
    let mut world = World::brought_up("pgft:2;4,4;1,1;1,1", Settings::default());
    assert_ne!(engine(&world), "minhop");
    world.watch();
    request_engine(&mut world, EngineKind::MinHop, 7);
    assert_eq!(engine(&world), "minhop");
    assert_eq!(world.manager().done(), &[7]);
    assert!(world.manager().declined().is_empty());
    let last = world.manager().convergences().last();
    let last = last.expect("it converged");
    assert_eq!(last.cause, "engine minhop requested");
    assert!(last.complete);
    world.watched().assert_harmless();
    // The new engine stays over later sweeps.
    world.command(Command::Resweep {
        full: true,
        ticket: 8,
    });
    world.settle(LIMIT);
    assert_eq!(engine(&world), "minhop");
}

#[test]
fn an_engine_with_a_credit_loop_is_declined_and_nothing_changes() {
    let mut world = World::brought_up("ring:6", Settings::default());
    let (engine_before, before) = (engine(&world), tables(&world));
    request_engine(&mut world, EngineKind::MinHop, 3);
    assert!(world.manager().done().is_empty());
    let [(3, reason)] = world.manager().declined() else {
        panic!("{:?}", world.manager().declined());
    };
    assert!(reason.contains("credit loop"), "{reason}");
    assert_eq!((engine(&world), &tables(&world)), (engine_before, &before));
    let passes = world.manager().convergences();
    let refused = passes
        .iter()
        .filter(|pass| pass.cause == "engine minhop requested; refused");
    assert_eq!(refused.count(), 1);
    // The tables are known to be those of the earlier engine.
    let last = passes.last().expect("there was a pass");
    assert!(last.complete, "{last:?}");
    // The earlier engine makes the next plan.
    world.command(Command::Resweep {
        full: true,
        ticket: 4,
    });
    world.settle(LIMIT);
    assert_eq!(world.manager().done(), &[4]);
    expect::assert_no_findings(&world);
    assert_eq!(tables(&world), before);
}

#[test]
fn an_engine_withdrawn_before_its_start_is_not_tried() {
    let mut world = World::brought_up("fat-tree:k=4,levels=2", Settings::default());
    let before = engine(&world);
    world.command(Command::Resweep {
        full: true,
        ticket: 1,
    });
    let progress = world.manager().core().progress();
    assert!(matches!(progress.activity, Activity::Sweeping { .. }));
    assert_eq!(progress.cause, "requested");
    assert_eq!(
        progress.nodes,
        world.manager().core().inventory().hardware.len()
    );
    assert!(progress.outstanding > 0);
    for ticket in [2, 3] {
        world.command(Command::Engine {
            engine: EngineKind::UpDn,
            when_cut_off: WhenCutOff::Accept,
            ticket,
        });
        let progress = world.manager().core().progress();
        assert_eq!(progress.next, "engine updn requested");
        world.command(Command::Withdraw { ticket });
    }
    world.settle(LIMIT);
    assert_eq!(world.manager().done(), &[1]);
    assert!(world.manager().declined().is_empty());
    assert_eq!(engine(&world), before);
    expect::assert_up(&world);
    assert_eq!(world.manager().core().progress().next, "");

    // An engine that is withdrawn while it is tried still completes its plan, and stays.
    world.command(Command::Engine {
        engine: EngineKind::UpDn,
        when_cut_off: WhenCutOff::Accept,
        ticket: 4,
    });
    world.command(Command::Withdraw { ticket: 4 });
    world.settle(LIMIT);
    assert_eq!(world.manager().done(), &[1]);
    assert_eq!(engine(&world), "updn");
}

#[test]
fn an_engine_requested_while_another_engine_is_tried_is_declined() {
    let mut world = World::brought_up("fat-tree:k=4,levels=2", Settings::default());
    world.command(Command::Engine {
        engine: EngineKind::UpDn,
        when_cut_off: WhenCutOff::Accept,
        ticket: 1,
    });
    world.command(Command::Engine {
        engine: EngineKind::MinHop,
        when_cut_off: WhenCutOff::Accept,
        ticket: 2,
    });
    world.settle(LIMIT);
    assert_eq!(world.manager().done(), &[1]);
    let [(2, reason)] = world.manager().declined() else {
        panic!("{:?}", world.manager().declined());
    };
    assert!(reason.contains("another engine"), "{reason}");
    assert_eq!(engine(&world), "updn");
}

#[test]
fn the_forecast_of_a_lost_cable_matches_its_outcome() {
    let mut world = World::brought_up("fat-tree:k=6,levels=3", Settings::default());
    let plan = world
        .manager()
        .core()
        .plan()
        .expect("the subnet is up")
        .clone();
    let cable = plan
        .fabric
        .links()
        .map(|(a, b)| {
            (
                plan.fabric.node(a.node),
                plan.fabric.node(b.node),
                plan.fabric.key(a),
            )
        })
        .find(|(a, b, _)| a.is_switch() && b.is_switch())
        .map(|(_, _, key)| key)
        .expect("switches are cabled");
    let foreseen = what_if(&plan, Loss::Cable(cable)).expect("it can go");
    let before = world.manager().convergences().len();
    world.count_requests();
    world
        .sim
        .unlink(cable.node, cable.port)
        .expect("it is there");
    world.settle(LIMIT);
    expect::assert_up(&world);
    let since = &world.manager().convergences()[before..];
    let blocks: u64 = since.iter().map(|one| one.lft_blocks).sum();
    let switches: u64 = since.iter().map(|one| one.switches_written).sum();
    assert_eq!(blocks, (foreseen.blocks + foreseen.blocks_before) as u64);
    assert_eq!(switches, foreseen.switches as u64);
    let now = tables(&world);
    let entries: usize = plan
        .routing
        .tables
        .lfts
        .iter()
        .zip(&now.lfts)
        .map(|(old, new)| old.differing(new).count())
        .sum();
    assert_eq!(foreseen.entries, entries);
    let requests = world.requests();
    let written: u64 = requests
        .nodes(Method::SET, AttrId::LINEAR_FORWARDING_TABLE)
        .into_iter()
        .map(|node| requests.of(node, Method::SET, AttrId::LINEAR_FORWARDING_TABLE))
        .sum();
    assert_eq!(written, blocks);
}

#[test]
fn an_engine_whose_tables_cut_pairs_off_while_written_is_set_only_if_that_is_accepted() {
    // Each engine has its own channel order, so no mixture of their tables can be proved.
    let mut world = World::brought_up("torus:4x4,hosts=2", Settings::default());
    request_engine(&mut world, EngineKind::Dfsssp, 1);
    let before = tables(&world);
    let set = |world: &mut World, when_cut_off, ticket| {
        world.command(Command::Engine {
            engine: EngineKind::UpDn,
            when_cut_off,
            ticket,
        });
        world.settle(LIMIT);
        expect::assert_up(world);
    };
    set(&mut world, WhenCutOff::Refuse, 2);
    let [(2, reason)] = world.manager().declined() else {
        panic!("{:?}", world.manager().declined());
    };
    assert!(
        reason.contains("would be cut off while the tables of updn are written"),
        "{reason}"
    );
    assert_eq!((engine(&world), &tables(&world)), ("dfsssp", &before));
    set(&mut world, WhenCutOff::Accept, 3);
    assert_eq!(
        (world.manager().done().back(), engine(&world)),
        (Some(&3), "updn")
    );
}
