//! Tests of requests to the core.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use rsm_api::access::Grant;
use rsm_api::model::{PartitionAction, PartitionChange, SubnetState, WhenCutOff};
use rsm_api::v1::{Activity, Stage};
use rsm_api::{Control, ControlError, Subnet};
use rsm_core::Event;
use rsm_ids::{Lid, PortKey, PortNum};
use rsm_mad::wire::attr::SmState;
use rsm_state::{Command, Other, PassProgress, Role, Snapshot};
use tokio::sync::mpsc;

use super::world::*;
use crate::publish::{Controller, MAX_TENANT_WAITING, MAX_TENANTS_WAITING, MAX_WAITING};

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
        controller.request_done(ticket, &convergence);
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
        is_converging: true,
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
    let status = world.view.status();
    let shown = (status.state(), status.state_reason.as_str());
    assert_eq!(shown, (SubnetState::Converging, "trap 128"));
    let shown = status.activity.unwrap();
    assert_eq!((shown.sets_acknowledged, shown.callers), (40, 0));
    world.view.show_progress(PassProgress::default());
    assert_eq!(world.view.status().activity, None);
    assert_eq!(world.view.status().state(), SubnetState::Up);
}

#[test]
fn state_is_converging_from_a_trap_on_until_its_repair_has_ended() {
    let mut world = World::up();
    let state = |world: &World| {
        world.view.show_progress(world.core.progress());
        world.view.status().state()
    };
    assert_eq!(state(&world), SubnetState::Up);
    world.sim.unlink(SPINE_A, PortNum(2)).unwrap();
    let mut states = Vec::new();
    for _ in 0..2000 {
        world.run(Duration::from_micros(50));
        let now = state(&world);
        if states.last() != Some(&now) {
            states.push(now);
        }
    }
    assert_eq!(states, [SubnetState::Converging, SubnetState::Up]);
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
async fn waiting_tenants_leave_room_for_other_tenants_and_operators() {
    let world = World::up();
    let (sender, _events) = mpsc::channel::<Event>(2 * MAX_WAITING);
    let controller = Arc::new(Controller::new(sender, world.view.clone()));
    let mut waiting = Vec::new();
    let mut ask = async |tenant: &str| {
        let change = PartitionChange {
            p_key: 0x10,
            action: PartitionAction::Delete,
            by: tenant.to_owned(),
            grant: Grant::tenant([0x10..=0x1f]),
            cut_off: WhenCutOff::Accept,
        };
        let before = controller.waiting();
        let asked = tokio::spawn({
            let controller = controller.clone();
            async move { controller.change_partition(change).await }
        });
        while controller.waiting() == before && !asked.is_finished() {
            tokio::task::yield_now().await;
        }
        let waits = !asked.is_finished();
        waiting.push(asked);
        waits
    };
    for _ in 0..MAX_TENANT_WAITING {
        assert!(ask("blue").await);
    }
    assert!(!ask("blue").await, "its share is used");
    for tenant in MAX_TENANT_WAITING..MAX_TENANTS_WAITING {
        assert!(ask(&format!("tenant-{tenant}")).await);
    }
    assert!(!ask("red").await, "the share of all tenants is used");
    let operators = MAX_WAITING - MAX_TENANTS_WAITING;
    for wanted in 1..=operators {
        let controller = controller.clone();
        tokio::spawn({
            let controller = controller.clone();
            async move { controller.resweep(false).await }
        });
        while controller.waiting() < MAX_TENANTS_WAITING + wanted {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(controller.resweep(false).await, Err(ControlError::Busy));
}
