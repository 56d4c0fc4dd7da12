//! Requests to the core and to the simulation.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use rsm_api::model::{SimulationAction, SubnetState};
use rsm_api::v1::{Activity, Stage};
use rsm_api::{Control, ControlError, LookupError, Simulation, SimulationError, Subnet};
use rsm_core::Event;
use rsm_ids::{Guid, Lid, PortKey, PortNum};
use rsm_mad::wire::attr::{PortState, SmState};
use rsm_sim::{Sim, SimConfig, live};
use rsm_state::{Command, Other, PassProgress, Role, Snapshot};
use tokio::sync::mpsc;

use super::world::*;
use crate::publish::{Controller, MAX_WAITING, Simulator};

#[tokio::test]
async fn a_resweep_returns_its_convergence() {
    let mut world = World::up();
    let (sender, mut events) = mpsc::channel::<Event>(4);
    let controller = Arc::new(Controller::new(sender, world.view.clone()));
    let asked = tokio::spawn({
        let controller = controller.clone();
        async move { controller.resweep(true).await }
    });
    let event = events.recv().await.unwrap();
    assert!(matches!(
        event,
        Event::Command(Command::Resweep { full: true, .. })
    ));
    world.handle(event);
    world.run(Duration::from_secs(1));
    for (ticket, convergence) in std::mem::take(&mut world.done) {
        controller.done(ticket, &convergence);
    }
    let convergence = asked.await.unwrap().unwrap();
    assert_eq!((convergence.sequence, convergence.lft_blocks), (2, 0));
    assert_eq!(convergence.cause, "requested");
    assert_eq!(controller.waiting(), 0);
}

#[tokio::test]
async fn requests_of_callers_that_leave_are_withdrawn() {
    let world = World::up();
    let (sender, mut events) = mpsc::channel::<Event>(4);
    let controller = Controller::new(sender, world.view.clone());
    {
        let asked = controller.resweep(false);
        tokio::pin!(asked);
        tokio::select! {
            biased;
            answer = &mut asked => panic!("nobody answered: {answer:?}"),
            event = events.recv() => assert!(event.is_some()),
        }
        assert_eq!(controller.waiting(), 1);
    }
    assert_eq!(controller.waiting(), 0);
    // The request is withdrawn from the core as well.
    let withdrawn = events.try_recv();
    assert!(matches!(
        withdrawn,
        Ok(Event::Command(Command::Withdraw { .. }))
    ));
}

#[tokio::test]
async fn activity_shows_the_progress_of_the_core() {
    let world = World::up();
    let (sender, _events) = mpsc::channel::<Event>(4);
    let controller = Controller::new(sender, world.view.clone());
    let idle = Activity {
        stage: Stage::Idle.into(),
        ..Activity::default()
    };
    assert_eq!(controller.activity(), idle);
    let asked = controller.resweep(false);
    tokio::pin!(asked);
    let waits =
        std::future::poll_fn(|context| Poll::Ready(asked.as_mut().poll(context).is_pending()));
    assert!(waits.await);
    let now = world.view.now();
    world.view.show_progress(PassProgress {
        activity: rsm_state::Activity::Pushing {
            done: 40,
            expected: 400,
        },
        cause: "trap 128".to_owned(),
        since: Some(now),
        nodes: 6,
        outstanding: 14,
        next: "requested".to_owned(),
        not_before: Some(now + Duration::from_secs(2)),
    });
    let expected = Activity {
        stage: Stage::Pushing.into(),
        cause: "trap 128".to_owned(),
        running_ms: 0,
        nodes: 6,
        outstanding: 14,
        sets_acknowledged: 40,
        sets_expected: 400,
        next: "requested, in 2.0 s".to_owned(),
        callers: 1,
        ..Activity::default()
    };
    assert_eq!(controller.activity(), expected);
    let shown = world.view.status().activity.unwrap();
    assert_eq!((shown.sets_acknowledged, shown.callers), (40, 0));
    world.view.show_progress(PassProgress::default());
    assert_eq!(world.view.status().activity, None);
}

#[tokio::test]
async fn requests_that_cannot_succeed_are_refused_at_once() {
    let world = World::up();
    let (sender, mut events) = mpsc::channel::<Event>(1);
    let controller = Arc::new(Controller::new(sender, world.view.clone()));
    let waiting = tokio::spawn({
        let controller = controller.clone();
        async move { controller.resweep(false).await }
    });
    while controller.waiting() == 0 {
        tokio::task::yield_now().await;
    }
    // The channel is full.
    assert_eq!(controller.resweep(false).await, Err(ControlError::Busy));
    events.recv().await.unwrap();
    // Another master appears while a caller waits.
    let master = Other {
        port: PortKey::new(HOSTS[1], PortNum(1)),
        guid: HOSTS[1],
        lid: Lid(9),
        priority: 14,
        state: SmState::Master,
        sm_key: 0,
        name: "host-2".to_owned(),
    };
    world.view.replace(Arc::new(Snapshot {
        role: Role::Standby { master },
        ..world.snapshot()
    }));
    controller.recheck();
    let refused = Err(ControlError::Standby { master: Lid(9) });
    assert_eq!(waiting.await.unwrap(), refused);
    assert_eq!(controller.resweep(false).await, refused);
    world.view.replace(Arc::new(Snapshot {
        port_up: false,
        ..world.snapshot()
    }));
    assert!(matches!(
        controller.resweep(false).await,
        Err(ControlError::NotAttached { .. })
    ));
    world.view.replace(Arc::new(Snapshot {
        port_up: true,
        role: Role::Master,
        ..world.snapshot()
    }));
    assert_eq!(world.view.status().state(), SubnetState::Up);
    controller.stop();
    assert_eq!(controller.resweep(false).await, Err(ControlError::Stopping));
}

#[tokio::test]
async fn callers_beyond_max_waiting_are_refused() {
    let world = World::up();
    let (sender, events) = mpsc::channel::<Event>(MAX_WAITING + 2);
    let controller = Arc::new(Controller::new(sender, world.view.clone()));
    let callers: Vec<_> = (0..MAX_WAITING)
        .map(|_| {
            let controller = controller.clone();
            tokio::spawn(async move { controller.resweep(false).await })
        })
        .collect();
    while controller.waiting() < MAX_WAITING {
        tokio::task::yield_now().await;
    }
    assert_eq!(controller.resweep(false).await, Err(ControlError::Busy));
    controller.stop();
    for caller in callers {
        assert_eq!(caller.await.unwrap(), Err(ControlError::Stopping));
    }
    drop(events);
}

#[tokio::test]
async fn a_simulated_fabric_is_operated_by_name() {
    let netlist = netlist();
    let sim = Sim::new(&netlist, SimConfig::default(), 1).unwrap();
    let handle = live::spawn(sim).unwrap();
    let simulator = Simulator::new(handle.clone(), netlist);
    let leaf = || named("leaf-1");
    let state = || {
        let look = |sim: &mut Sim| sim.port_info(SPINE_A, PortNum(1)).unwrap().port_state();
        handle.with(look).unwrap()
    };
    assert_eq!(state(), PortState::Init);
    let port = PortNum(3);
    let unlink = SimulationAction::Unlink {
        node: leaf(),
        port: Some(port),
    };
    simulator.act(unlink).await.unwrap();
    assert_eq!(state(), PortState::Down);

    let powered = || handle.with(|sim| sim.is_powered(LEAF_1).unwrap()).unwrap();
    simulator
        .act(SimulationAction::PowerOff { node: leaf() })
        .await
        .unwrap();
    assert!(!powered());
    // A node without power still has its name.
    simulator
        .act(SimulationAction::PowerOn { node: leaf() })
        .await
        .unwrap();
    assert!(powered());

    let peer = |port: u8| handle.with(move |sim| sim.peer(LEAF_1, PortNum(port)).unwrap());
    let [before, other] = [3, 4].map(|port| peer(port).unwrap());
    let swap = SimulationAction::SwapCables {
        node: leaf(),
        port: Some(port),
        other_node: leaf(),
        other_port: Some(PortNum(4)),
    };
    simulator.act(swap).await.unwrap();
    assert_eq!([3, 4].map(|port| peer(port).unwrap()), [other, before]);
    // The links of the cables have trained by the answer.
    assert_eq!(state(), PortState::Init);

    let refused = |node: &str, port: u8| {
        simulator.act(SimulationAction::Relink {
            node: named(node),
            port: (port > 0).then_some(PortNum(port)),
        })
    };
    assert!(matches!(
        refused("leaf-1", 5).await,
        Err(SimulationError::NoCable { .. })
    ));
    for (node, port) in [("leaf-1", 6), ("host-1", 2)] {
        let result = refused(node, port).await;
        let expected = matches!(
            result,
            Err(SimulationError::Lookup(LookupError::NoSuchPort { .. }))
        );
        assert!(expected, "{node}: {result:?}");
    }
    assert!(matches!(
        refused("twin", 1).await,
        Err(SimulationError::Lookup(LookupError::Ambiguous { .. }))
    ));
    assert!(matches!(
        refused("nobody", 1).await,
        Err(SimulationError::Lookup(LookupError::NotFound { .. }))
    ));
    let loss = SimulationAction::SetLoss {
        rate: 0.5,
        attribute: Some(0x15),
    };
    simulator.act(loss).await.unwrap();
    let errors = |counter: &str| SimulationAction::SetErrors {
        node: leaf(),
        port: Some(PortNum(1)),
        counter: counter.to_owned(),
        per_second: 2.5,
    };
    let done = simulator.act(errors("symbolerrorcounter")).await;
    let refused = simulator.act(errors("SymbolErrors")).await.unwrap_err();
    let sentence = refused.to_string();
    assert!(sentence.starts_with(
        "`SymbolErrors` is no counter of a port: expected one of SymbolErrorCounter, "
    ));
    done.unwrap();
}

#[tokio::test]
async fn simulated_ports_go_by_every_name_that_a_drain_takes() {
    let sim = World::up().sim;
    let host = HOSTS[0];
    let port_guid = sim.port_guid(host, PortNum(1)).unwrap().to_string();
    let lid = sim.port_info(host, PortNum(1)).unwrap().lid().to_string();
    let handle = live::spawn(sim).unwrap();
    let simulator = Simulator::new(handle.clone(), netlist());
    let bare = format!("{:016x}", LEAF_1.0);
    let state = |node: Guid, port: u8| {
        let look = move |sim: &mut Sim| sim.port_info(node, PortNum(port)).unwrap().port_state();
        handle.with(look).unwrap()
    };
    for (name, number, node, port) in [
        ("leaf-1:3", None, LEAF_1, 3),
        ("LEAF-1", Some(3), LEAF_1, 3),
        ("eaf-1:3", None, LEAF_1, 3),
        (&format!("{LEAF_1}:3"), None, LEAF_1, 3),
        (&format!("{bare}:3"), None, LEAF_1, 3),
        (&bare, Some(3), LEAF_1, 3),
        ("host-1", None, host, 1),
        ("host-1:1", None, host, 1),
        ("host-1:1", Some(1), host, 1),
        (&port_guid, None, host, 1),
        (&lid, None, host, 1),
        (&format!("lid:{lid}"), Some(1), host, 1),
    ] {
        let at = || (named(name), number.map(PortNum));
        let (node_name, port_number) = at();
        let unlink = SimulationAction::Unlink {
            node: node_name,
            port: port_number,
        };
        simulator
            .act(unlink)
            .await
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(state(node, port), PortState::Down, "{name}");
        let (node_name, port_number) = at();
        let relink = SimulationAction::Relink {
            node: node_name,
            port: port_number,
        };
        simulator.act(relink).await.unwrap();
        assert_ne!(state(node, port), PortState::Down, "{name}");
    }
    let refused = |name: &str, number: Option<u8>| {
        simulator.act(SimulationAction::Unlink {
            node: named(name),
            port: number.map(PortNum),
        })
    };
    let no_port = refused("leaf-1", None).await;
    assert!(
        matches!(no_port, Err(SimulationError::NoPort { .. })),
        "{no_port:?}"
    );
    let two = refused("leaf-1:3", Some(2)).await;
    assert!(
        matches!(two, Err(SimulationError::TwoPorts { .. })),
        "{two:?}"
    );
    let unknown = refused("40000", None).await;
    let is_unknown = matches!(
        unknown,
        Err(SimulationError::Lookup(LookupError::NotFound { .. }))
    );
    assert!(is_unknown, "{unknown:?}");
}
