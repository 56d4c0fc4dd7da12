//! Tests of the status.

use std::sync::Arc;
use std::time::Duration;

use rsm_api::model::{Selector, SubnetState};
use rsm_api::{Subnet, v1};
use rsm_gdr::findings::GpuFindingKind;
use rsm_ids::{Guid, Lid, PortKey, PortNum};
use rsm_mad::wire::attr::SmState;
use rsm_model::fabric::Fabric;
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_plan::{PlanError, RefusedPlan};
use rsm_routing::verify::Report;
use rsm_state::{Other, Role, Snapshot};

use super::world::*;

fn standby() -> Role {
    Role::Standby {
        master: Other {
            port: PortKey::new(HOSTS[1], PortNum(1)),
            guid: Guid(0x1011),
            lid: Lid(9),
            priority: 14,
            state: SmState::Master,
            sm_key: 0,
            name: "host-2".to_owned(),
        },
    }
}

fn finding(severity: Severity) -> Arc<[Finding]> {
    let text = "something is wrong".to_owned();
    Arc::from([Finding::new(
        FindingKind::Incomplete,
        Subject::Subnet,
        severity,
        text,
    )])
}

#[test]
fn status_shows_the_state_of_the_subnet_and_its_reason() {
    let up = World::up().snapshot();
    let state = |snapshot: Snapshot| {
        let view = blank_view();
        view.replace(Arc::new(snapshot));
        let status = view.status();
        (status.state(), status.state_reason)
    };
    assert_eq!(state(up.clone()), (SubnetState::Up, String::new()));
    let down = Snapshot {
        port_up: false,
        ..up.clone()
    };
    let words = "the local port is down".to_owned();
    assert_eq!(state(down), (SubnetState::NotActive, words));
    let silent = Snapshot {
        fabric: Arc::new(Fabric::default()),
        findings: finding(Severity::Error),
        ..up.clone()
    };
    let words = "something is wrong".to_owned();
    assert_eq!(state(silent), (SubnetState::NotActive, words));
    let of_daemon = [
        FindingKind::Gpu(GpuFindingKind::GdrTierPoor),
        FindingKind::EventsUndelivered,
        FindingKind::Storage,
    ];
    for kind in of_daemon {
        let text = "of no port of this host".to_owned();
        let finding = Finding::new(kind, Subject::Subnet, Severity::Warning, text);
        let starting = Snapshot {
            fabric: Arc::new(Fabric::default()),
            findings: Arc::from([finding]),
            ..up.clone()
        };
        assert_eq!(state(starting).0, SubnetState::Discovering, "{kind:?}");
    }
    let discovering = Snapshot {
        role: Role::Discovering,
        ..up.clone()
    };
    assert_eq!(state(discovering).0, SubnetState::Discovering);
    let standing_by = Snapshot {
        role: standby(),
        ..up.clone()
    };
    let words = "host-2 at LID 9 is master".to_owned();
    assert_eq!(state(standing_by), (SubnetState::Standby, words));
    let converging = Snapshot {
        converging: true,
        ..up.clone()
    };
    assert_eq!(state(converging).0, SubnetState::Converging);
    let broken = Snapshot {
        findings: finding(Severity::Error),
        ..up.clone()
    };
    assert_eq!(state(broken), (SubnetState::Degraded, "1 error".to_owned()));
    let warned = Snapshot {
        findings: finding(Severity::Warning),
        ..up
    };
    assert_eq!(state(warned).0, SubnetState::Up);
}

#[test]
fn before_the_first_snapshot_the_subnet_is_being_discovered() {
    let status = blank_view().status();
    assert_eq!(status.state(), SubnetState::Discovering);
    assert_eq!((status.generation, status.switches), (0, 0));
    assert_eq!(status.engine, None);
}

#[test]
fn other_managers_are_listed_with_state_and_priority() {
    let Role::Standby { master } = standby() else {
        panic!("a standby has a master");
    };
    let third = Other {
        guid: Guid(0x1021),
        lid: Lid::NONE,
        priority: 2,
        state: SmState::NotActive,
        name: "twin".to_owned(),
        ..master.clone()
    };
    let view = blank_view();
    view.replace(Arc::new(Snapshot {
        role: standby(),
        others: Arc::from([master, third]),
        ..World::up().snapshot()
    }));
    let status = view.status();
    assert_eq!(status.master.map(|master| master.lid), Some(9));
    let shown: Vec<_> = status
        .other_managers
        .iter()
        .map(|other| (other.description.as_str(), other.state(), other.priority))
        .collect();
    let expected = [
        ("host-2", v1::ManagerState::Master, 14),
        ("twin", v1::ManagerState::NotActive, 2),
    ];
    assert_eq!(shown, expected);
}

#[test]
fn a_port_that_is_not_active_leaves_the_subnet_degraded() {
    let mut snapshot = World::up().snapshot();
    let mut fabric = Fabric::clone(&snapshot.fabric);
    let ix = fabric.find(LEAF_2).unwrap();
    let port = &mut fabric.node_mut(ix).ports[3];
    port.info
        .as_mut()
        .unwrap()
        .set_port_state(rsm_mad::wire::attr::PortState::Init);
    snapshot.fabric = Arc::new(fabric);
    let view = blank_view();
    view.replace(Arc::new(snapshot));
    let status = view.status();
    assert_eq!(status.state(), SubnetState::Degraded);
    assert_eq!(status.state_reason, "1 port is not Active");
    assert_eq!(status.ports_not_active, 1);
}

#[test]
fn a_refused_plan_shows_the_reachability_of_the_routes_in_force() {
    let mut snapshot = World::up().snapshot();
    let error = || PlanError::NoLocalLid;
    snapshot.refused_plan = Some(Arc::new(RefusedPlan {
        error: error(),
        in_force: Some(Report {
            reachable_pairs: 40,
            unreachable_pairs: 7,
            disconnected_pairs: 2,
            ..Report::default()
        }),
    }));
    let view = blank_view();
    view.replace(Arc::new(snapshot.clone()));
    let status = view.status();
    assert_eq!(status.state(), SubnetState::Degraded);
    assert!(status.state_reason.contains("9 pairs"), "{status:?}");
    let verification = status.verify.unwrap();
    assert_eq!(
        (verification.reachable_pairs, verification.unreachable_pairs),
        (40, 9)
    );
    let engine = status.engine.unwrap();
    assert!(
        engine.reason.ends_with(", 9 pairs unreachable"),
        "{engine:?}"
    );
    // If the reachability is unknown, none is shown, not even the proof of the former plan.
    snapshot.refused_plan = Some(Arc::new(RefusedPlan {
        error: error(),
        in_force: None,
    }));
    view.replace(Arc::new(snapshot));
    let status = view.status();
    assert_eq!(status.state(), SubnetState::Degraded);
    assert_eq!(status.verify, None);
    let engine = status.engine.unwrap();
    assert!(!engine.reason.contains("reachable"), "{engine:?}");
}

#[test]
fn status_of_a_converged_subnet_counts_nodes_links_ports_and_smps() {
    let mut world = World::up();
    world.run(Duration::from_secs(3));
    let status = world.view.status();
    assert_eq!(
        (status.fabric.as_str(), status.simulated),
        ("sim:test", true)
    );
    assert_eq!(status.uptime_ms, 5000);
    assert_eq!((status.switches, status.cas, status.routers), (4, 4, 0));
    assert_eq!((status.links, status.lids), (8, 8));
    assert_eq!((status.ports_active, status.ports_not_active), (16, 0));
    let verification = status.verify.unwrap();
    assert!(verification.loop_free && verification.credit_loop_free);
    assert_eq!(verification.unreachable_pairs, 0);
    let local = world.view.port(&Selector::guid(HOSTS[0])).unwrap().message;
    assert_eq!((status.port_guid, status.lid), (local.guid, local.lid));
    assert_eq!(status.subnet_prefix, "0xfe80000000000000");
    let last = status.last_convergence.unwrap();
    assert_eq!((last.sequence, last.generation), (1, 1));
    assert!(last.complete && last.finished_unix_ms >= BEGIN_UNIX_MS);
    let smps = last.smps.unwrap();
    let sent = status.smps.unwrap();
    assert_eq!((sent.get, sent.set), (smps.get, smps.set));
    assert_eq!(world.view.convergences(5).items, [last]);
}
