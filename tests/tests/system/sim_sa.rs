//! Hosts of a simulated fabric query the SA.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rsm::daemon::sa::{AckJournal, HELD_AT_MOST, Wake};
use rsm_ids::{Gid, Guid, Lid, PortNum};
use rsm_mad::wire::attr::NodeType;
use rsm_mad::wire::header::{Method, Status};
use rsm_mad::wire::sa::{
    ComponentMask, NodeRecord, PathRecord, Record, SaStatus, ServiceRecord,
    VlArbitrationTableRecord,
};
use rsm_sa::{Sa, Touched};
use rsm_sim::DropReason;
use rsm_tests::answering::{AnsweringFabric, Host};
use rsm_tests::clock::wait_for;

const SPEC: &str = "fat-tree:k=4,levels=3";

/// The hosts other than the manager's, with their ports and LIDs.
fn hosts(fabric: &AnsweringFabric) -> Vec<(Guid, PortNum, Lid)> {
    let snapshot = &fabric.snapshot;
    let own = snapshot.own_guid;
    snapshot
        .fabric
        .end_ports()
        .filter(|(at, port)| !snapshot.fabric.node(at.node).is_switch() && port.guid != own)
        .map(|(at, port)| (snapshot.fabric.node(at.node).guid, at.port, port.lid()))
        .collect()
}

/// A query of the path from `slid` to `dlid`.
fn path(slid: Lid, dlid: Lid) -> PathRecord {
    let mut record = PathRecord::default();
    record.set_slid(slid).set_dlid(dlid);
    record
}

const PAIR: ComponentMask = PathRecord::SLID.with(PathRecord::DLID);

/// The number of pairs of end ports with a path: all pairs except some pairs of switches without
/// hosts.
fn connected_pairs(fabric: &AnsweringFabric) -> usize {
    let ends = fabric.snapshot.fabric.end_ports().count();
    let plan = fabric.snapshot.plan.as_ref().expect("it is planned");
    ends * ends - plan.report.switch_pairs.unreachable as usize
}

#[test]
fn a_host_gets_a_path_and_whole_tables() {
    let fabric = AnsweringFabric::answering(SPEC, 0);
    let hosts = hosts(&fabric);
    let (node, port, lid) = hosts[0];
    let mut host = fabric.host(node, port);

    let (.., other) = hosts[7];
    let wanted = path(lid, other);
    let record: PathRecord = host.ask(Method::GET, PAIR, &wanted).record();
    assert_eq!((record.slid(), record.dlid()), (lid, other));

    let all = host.ask(
        Method::GET_TABLE,
        ComponentMask::NONE,
        &PathRecord::default(),
    );
    let connected = connected_pairs(&fabric);
    let paths: Vec<PathRecord> = all.records();
    let pairs: BTreeSet<(Lid, Lid)> = paths
        .iter()
        .map(|path| (path.slid(), path.dlid()))
        .collect();
    assert_eq!((paths.len(), pairs.len()), (connected, connected));

    let all = host.ask(
        Method::GET_TABLE,
        ComponentMask::NONE,
        &NodeRecord::default(),
    );
    let nodes: Vec<NodeRecord> = all.records();
    let switches = nodes
        .iter()
        .filter(|node| node.node_info().node_type() == NodeType::Switch);
    assert_eq!(switches.count(), fabric.snapshot.count(NodeType::Switch));

    // Nothing matches: the answer is a table without records.
    let none = host.ask(Method::GET_TABLE, PAIR, &path(lid, Lid(0xBFFF)));
    assert_eq!(none.status(), Status::OK);
    assert!(none.records::<PathRecord>().is_empty());

    let counters = fabric.sa_handle.statistics().counters();
    let of = |attribute, method| counters.requests.get(&(attribute, method)).copied();
    assert!(of(PathRecord::ID, Method::GET).is_some_and(|count| count >= 1));
    assert_eq!(of(PathRecord::ID, Method::GET_TABLE), Some(2));
    assert_eq!(of(NodeRecord::ID, Method::GET_TABLE), Some(1));
    assert_eq!(counters.requests.len(), 3);
    assert!(counters.answers[&Status::OK] >= 4);
    assert!(counters.latencies.count() >= 4);
    assert_eq!(
        (counters.busy, counters.dropped, counters.failed),
        (0, 0, 0)
    );
    fabric.sa_handle.stop();
}

#[test]
fn requests_before_the_first_snapshot_get_no_answer_until_they_are_repeated_after_it() {
    let fabric = AnsweringFabric::brought_up(SPEC, 0);
    let hosts = hosts(&fabric);
    let (node, port, lid) = hosts[0];
    let mut host = fabric.host(node, port);
    for method in [Method::GET, Method::GET_TABLE] {
        // A status would end the request; without an answer, libraries repeat it.
        let answer = host.try_ask(
            Duration::from_millis(200),
            (method, PAIR, 0),
            &path(lid, lid),
        );
        assert!(answer.is_none(), "{answer:?}");
    }
    let counters = fabric.sa_handle.statistics().counters();
    assert_eq!((counters.unserved, counters.busy), (2, 0));
    fabric.sa_handle.publish(fabric.snapshot.clone());
    let answered = wait_for(Duration::from_secs(10), || {
        let patience = Duration::from_millis(200);
        host.try_ask(patience, (Method::GET, PAIR, 0), &path(lid, lid))
    });
    assert_eq!(answered.expect("it is master now").status(), Status::OK);
    fabric.sa_handle.stop();
}

/// A disk on which an entry is durable only when the test says so.
#[derive(Default)]
struct SlowDisk {
    appended: AtomicU64,
    durable: AtomicU64,
    wake: OnceLock<Wake>,
}

impl AckJournal for SlowDisk {
    fn append(&self, touched: &[Touched], _: &Sa) -> Option<u64> {
        assert_eq!(touched.len(), 1);
        Some(self.appended.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn durable(&self) -> u64 {
        self.durable.load(Ordering::Relaxed)
    }

    fn on_durable(&self, wake: Wake) {
        assert!(self.wake.set(wake).is_ok());
    }
}

#[test]
fn a_registration_is_acknowledged_once_on_disk_or_when_the_disk_is_too_slow() {
    let disk = Arc::new(SlowDisk::default());
    let fabric = AnsweringFabric::journaled(SPEC, 0, Some(disk.clone())).serving();
    let (node, port, lid) = hosts(&fabric)[0];
    let mut host = fabric.host(node, port);
    let gid = fabric
        .handle
        .with(move |sim| sim.port_guid(node, port))
        .unwrap()
        .unwrap();
    let mut service = ServiceRecord::default();
    service.set_service_gid(Gid::new(0xFE80_0000_0000_0000, gid));
    let mask = ServiceRecord::SERVICE_ID | ServiceRecord::SERVICE_GID;
    let answered = |fabric: &AnsweringFabric| {
        let counters = fabric.sa_handle.statistics().counters();
        counters.latencies.count()
    };

    service.set_service_id(1);
    host.send(Method::SET, mask, &service);
    let appended = || (disk.appended.load(Ordering::Relaxed) == 1).then_some(());
    wait_for(Duration::from_secs(10), appended).expect("it is written");
    assert_eq!(answered(&fabric), 0);
    disk.durable.store(1, Ordering::Relaxed);
    (disk.wake.get().expect("it wants to know"))();
    assert_eq!(host.answer().status(), Status::OK);

    // The disk hangs: the SA answers a request without changes at once, and delays others only for
    // a bounded time.
    service.set_service_id(2);
    host.send(Method::SET, mask, &service);
    assert_eq!(host.answer().status(), Status::OK);
    assert_eq!(disk.appended.load(Ordering::Relaxed), 2);
    let counters = fabric.sa_handle.statistics().counters();
    let slowest = counters
        .latencies
        .quantile(1.0)
        .expect("something was answered");
    assert!(
        Duration::from_nanos(slowest) >= HELD_AT_MOST,
        "{slowest} ns"
    );
    let path = host.ask(Method::GET, PAIR, &path(lid, lid));
    assert_eq!(path.status(), Status::OK);
    assert_eq!(disk.appended.load(Ordering::Relaxed), 2);
    fabric.sa_handle.stop();
}

/// A fabric with thousands of records whose SA answers, and a host.
fn large_fabric_with_host() -> (AnsweringFabric, Host) {
    let fabric = AnsweringFabric::answering("fat-tree:k=8,levels=3", 0);
    let (node, port, _) = hosts(&fabric)[0];
    let host = fabric.host(node, port);
    (fabric, host)
}

#[test]
fn a_get_that_matches_none_of_thousands_of_records_returns_no_records() {
    let (fabric, mut host) = large_fabric_with_host();
    // No port has such a block, and the ports have thousands of others.
    let mut wanted = VlArbitrationTableRecord::default();
    wanted.set_block_num(77);
    let mask = VlArbitrationTableRecord::BLOCK_NUM;
    let answer = host.ask(Method::GET, mask, &wanted);
    assert_eq!(answer.status(), SaStatus::NO_RECORDS);
    fabric.sa_handle.stop();
}

#[test]
fn loss_delays_a_table_and_does_not_cut_it() {
    // Fourteen thousand segments take a while.
    let (fabric, mut host) = large_fabric_with_host();
    host.send(
        Method::GET_TABLE,
        ComponentMask::NONE,
        &PathRecord::default(),
    );
    // The first segment shows that the request has arrived.
    host.first_packet();
    fabric
        .handle
        .with(|sim| sim.set_loss(0.002))
        .unwrap()
        .unwrap();
    let paths: Vec<PathRecord> = host.answer().records();
    assert_eq!(paths.len(), connected_pairs(&fabric));
    let lost = fabric
        .handle
        .with(|sim| sim.counters().dropped_for(DropReason::Loss));
    assert!(lost.unwrap() > 0);
    fabric.sa_handle.stop();
}

#[test]
fn hosts_are_answered_while_another_host_floods_the_sa() {
    let fabric = AnsweringFabric::answering(SPEC, 0);
    let hosts = hosts(&fabric);
    let (node, port, lid) = hosts[0];
    let mut greedy = fabric.host(node, port);
    let (node, port, other) = hosts[1];
    let mut modest = fabric.host(node, port);
    // The host repeatedly requests the paths of all pairs, without any acknowledgement.
    for _ in 0..12 {
        greedy.send(
            Method::GET_TABLE,
            ComponentMask::NONE,
            &PathRecord::default(),
        );
    }
    for _ in 0..200 {
        let answer = modest.ask(Method::GET, PAIR, &path(other, lid));
        assert_eq!(answer.status(), Status::OK);
    }
    let counters = fabric.sa_handle.statistics().counters();
    assert_eq!(counters.dropped, 0);
    fabric.sa_handle.stop();
}
