//! Hosts that query the SA through a lossy fabric, and abusive hosts, in virtual time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::Time;
use rsm_mad::client::rmpp::RmppConfig;
use rsm_mad::ids::{Gid, Tid};
use rsm_mad::messenger::Delivery;
use rsm_mad::transport::Message;
use rsm_mad::transport::fault::{Chance, FaultPlan, FaultRates};
use rsm_mad::wire::attr::PKey;
use rsm_mad::wire::header::{Method, Status};
use rsm_mad::wire::perf::Counter;
use rsm_mad::wire::rmpp::{RMPP_VERSION, RmppFlags, RmppType};
use rsm_mad::wire::sa::{
    ComponentMask, JoinState, McMemberRecord, MultiPathRecord, NodeRecord, PathRecord, Record,
    SA_HEADER_LEN, SaHeader, SaMad,
};
use rsm_routing::netlist::NodeKind;
use rsm_sa::SaConfig;
use rsm_tests::virtual_time::hosts::Hosts;
use rsm_tests::virtual_time::{Settings, World, seeds};

const SPEC: &str = "fat-tree:k=4,levels=3";

/// The number of nodes: 20 switches and 16 hosts, one of them the manager's.
const NODES: usize = 36;

/// The number of paths between the nodes. There is no path for 76 ordered pairs of switches without
/// hosts.
const PATHS: usize = NODES * NODES - 76;

/// The number of hosts without a manager.
const HOSTS: usize = 15;

const SM_KEY: u64 = 0x5EC2_E75E_C2E7;

/// The broadcast group of the default partition: ff12:401b:ffff::ffff:ffff.
const BROADCAST: Gid = Gid(0xFF12_401B_FFFF_0000_0000_0000_FFFF_FFFF);

const PAIR: ComponentMask = PathRecord::SLID.with(PathRecord::DLID);

/// A subnet that is up, whose hosts query the SA amid the faults of `plan`.
fn subnet(plan: FaultPlan) -> Hosts {
    let world = World::brought_up(SPEC, Settings::default());
    Hosts::of(
        &world,
        SaConfig {
            sm_key: SM_KEY,
            ..SaConfig::default()
        },
        plan,
    )
}

/// A query of the path from one LID to another.
fn path(from: Lid, to: Lid) -> PathRecord {
    let mut record = PathRecord::default();
    record.set_slid(from).set_dlid(to);
    record
}

/// Requests all paths.
fn request_all_paths(subnet: &mut Hosts, host: usize) -> Tid {
    subnet.ask(
        host,
        Method::GET_TABLE,
        ComponentMask::NONE,
        &PathRecord::default(),
    )
}

fn status(message: &Message) -> Status {
    message.header().unwrap().status()
}

/// The next request of a starting host: it joins the broadcast group, then queries a path, then all
/// nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum NextRequest {
    Group,
    Path,
    Nodes,
    Nothing,
}

/// Sends the request of a host for `next`.
fn ask(subnet: &mut Hosts, host: usize, next: NextRequest) {
    let (guid, lid) = subnet.places()[host];
    let (_, other) = subnet.places()[(host + 1) % HOSTS];
    match next {
        NextRequest::Group => {
            let mut record = McMemberRecord::default();
            record
                .set_mgid(BROADCAST)
                .set_port_gid(Gid::new(0xFE80_0000_0000_0000, guid))
                .set_p_key(PKey::DEFAULT_FULL)
                .set_join_state(JoinState::FULL_MEMBER);
            let mask = McMemberRecord::MGID
                | McMemberRecord::PORT_GID
                | McMemberRecord::P_KEY
                | McMemberRecord::JOIN_STATE;
            subnet.ask(host, Method::SET, mask, &record);
        }
        NextRequest::Path => {
            subnet.ask(host, Method::GET, PAIR, &path(lid, other));
        }
        NextRequest::Nodes => {
            subnet.ask(
                host,
                Method::GET_TABLE,
                ComponentMask::NONE,
                &NodeRecord::default(),
            );
        }
        NextRequest::Nothing => {}
    }
}

/// Checks the answer to `next`.
fn check(subnet: &Hosts, host: usize, next: NextRequest, message: &Message) {
    assert_eq!(status(message), Status::OK);
    match next {
        NextRequest::Group => {
            let record = McMemberRecord::from_prefix(message.data()).unwrap();
            assert_eq!(record.port_gid().guid(), subnet.places()[host].0);
        }
        NextRequest::Path => {
            let record = PathRecord::from_prefix(message.data()).unwrap();
            let (_, lid) = subnet.places()[host];
            let (_, other) = subnet.places()[(host + 1) % HOSTS];
            assert_eq!((record.slid(), record.dlid()), (lid, other));
        }
        NextRequest::Nodes => {
            let records = message.data().chunks_exact(NodeRecord::LEN);
            let guids = records.map(|record| NodeRecord::from_prefix(record).unwrap().lid());
            assert_eq!(guids.collect::<BTreeSet<_>>().len(), NODES);
        }
        NextRequest::Nothing => {}
    }
}

/// Starts all hosts at once. Returns the number of repeated requests.
fn start_all(subnet: &mut Hosts, limit: Duration) -> usize {
    let mut next = [NextRequest::Group; HOSTS];
    for (host, &next) in next.iter().enumerate() {
        ask(subnet, host, next);
    }
    let until = subnet.now() + limit;
    let mut repeated = 0;
    while next.iter().any(|&next| next != NextRequest::Nothing) {
        let Some((host, delivery)) = subnet.next(until) else {
            panic!("after {limit:?} a request still waits: {next:?}");
        };
        match delivery {
            Delivery::Message(message) => {
                let attribute = message.header().unwrap().attribute();
                let wanted = match next[host] {
                    NextRequest::Group => McMemberRecord::ID,
                    NextRequest::Path => PathRecord::ID,
                    NextRequest::Nodes => NodeRecord::ID,
                    NextRequest::Nothing => continue,
                };
                // A duplicate answer is ignored.
                if attribute != wanted {
                    continue;
                }
                check(subnet, host, next[host], &message);
                next[host] = match next[host] {
                    NextRequest::Group => NextRequest::Path,
                    NextRequest::Path => NextRequest::Nodes,
                    _ => NextRequest::Nothing,
                };
            }
            Delivery::Unanswered { .. } => repeated += 1,
            Delivery::TooLong { .. } => panic!("hosts send nothing long"),
        }
        ask(subnet, host, next[host]);
    }
    repeated
}

#[test]
fn through_loss_every_host_joins_and_gets_a_path() {
    let rates = FaultRates {
        drop_out: Chance::percent(5),
        drop_in: Chance::percent(5),
        duplicate_out: Chance::percent(2),
        duplicate_in: Chance::percent(2),
        delay_in: Chance::percent(5),
    };
    seeds::run(
        "--test system sim_hosts::through_loss_every_host_joins_and_gets_a_path",
        50,
        |seed| {
            let plan = FaultPlan {
                seed,
                others: rates,
                hold: 3,
                ..FaultPlan::default()
            };
            let mut subnet = subnet(plan);
            let repeated = start_all(&mut subnet, Duration::from_secs(60));
            let faults = subnet.faults();
            assert!(faults.dropped_in > 0 && faults.dropped_out > 0 && faults.delayed > 0);
            assert!(repeated < 3 * HOSTS, "{repeated} questions again");
            assert_eq!(subnet.sa.multicast().members(), HOSTS);
        },
    );
}

#[test]
fn without_faults_no_request_is_repeated() {
    let mut subnet = subnet(FaultPlan::default());
    assert_eq!(start_all(&mut subnet, Duration::from_secs(1)), 0);
    assert_eq!(subnet.sa.multicast().members(), HOSTS);
}

/// Sends a path query from a host, and asserts that it is answered within 100 ms. Returns the time
/// of the answer.
fn assert_answered(subnet: &mut Hosts, host: usize) -> Time {
    let (_, lid) = subnet.places()[host];
    let (_, other) = subnet.places()[(host + 1) % HOSTS];
    let tid = subnet.ask(host, Method::GET, PAIR, &path(lid, other));
    let until = subnet.now() + Duration::from_millis(100);
    while let Some((who, delivery)) = subnet.next(until) {
        if let Delivery::Message(message) = delivery
            && who == host
            && message.header().unwrap().tid() == tid
        {
            assert_eq!(status(&message), Status::OK);
            return subnet.now();
        }
    }
    panic!("{lid} is not answered");
}

#[test]
fn a_host_that_never_acknowledges_holds_its_share_for_a_bounded_time() {
    let config = RmppConfig::default();
    let mut subnet = subnet(FaultPlan::default());
    subnet.deafen(0);
    // The requests are raw datagrams, because the messenger of a program would run out of room.
    for tid in 0..200 {
        let mad = SaMad::request(
            Method::GET_TABLE,
            Tid(tid),
            ComponentMask::NONE,
            &PathRecord::default(),
        );
        subnet.send(0, mad.as_bytes());
    }
    let mut most = 0;
    for host in 1..HOSTS {
        assert_answered(&mut subnet, host);
        most = most.max(subnet.stats().transactions);
    }
    assert_eq!(most, config.max_per_client);
    // Another host still gets its whole table.
    request_all_paths(&mut subnet, 3);
    let until = subnet.now() + Duration::from_secs(1);
    let (host, delivery) = subnet.next(until).expect("it is answered");
    let Delivery::Message(table) = delivery else {
        panic!("{delivery:?}");
    };
    assert_eq!(host, 3);
    assert_eq!(table.data().len(), PATHS * PathRecord::LEN);
    // After five attempts the SA has dropped every transfer.
    subnet.run_for(Duration::from_secs(60), |_, _| ());
    assert_eq!(subnet.stats().transactions, 0);
}

#[test]
fn repeated_requests_for_all_paths_do_not_delay_other_hosts() {
    let mut subnet = subnet(FaultPlan::default());
    let greedy = 5;
    let mut tables = BTreeMap::new();
    for _ in 0..40 {
        for host in 0..greedy {
            let under_way: &mut BTreeSet<Tid> = tables.entry(host).or_default();
            while under_way.len() < 10 {
                under_way.insert(request_all_paths(&mut subnet, host));
            }
        }
        // While the SA makes dozens of tables of thousands of records, an answer takes no longer
        // than the wire.
        let start = subnet.now();
        let modest = HOSTS - 1;
        let (_, lid) = subnet.places()[modest];
        let tid = subnet.ask(modest, Method::GET, PAIR, &path(lid, lid));
        loop {
            let until = start + Duration::from_millis(100);
            let (host, delivery) = subnet.next(until).expect("it is answered");
            let Delivery::Message(message) = delivery else {
                panic!("{delivery:?}");
            };
            let answered = message.header().unwrap().tid();
            if host == modest {
                assert_eq!((answered, status(&message)), (tid, Status::OK));
                break;
            }
            assert!(tables.get_mut(&host).unwrap().remove(&answered));
            let records = message.data().len() / PathRecord::LEN;
            assert!(status(&message) == Status::BUSY || records == PATHS);
        }
        let most = greedy * 10;
        assert!(subnet.stats().transactions <= most);
    }
}

/// A segment of an endless GetMulti.
fn fragment(tid: u64, number: u32) -> [u8; 256] {
    let mut header = SaHeader::request::<MultiPathRecord>(Method::GET_MULTI, Tid(tid));
    let flags = if number == 1 {
        RmppFlags::ACTIVE | RmppFlags::FIRST
    } else {
        RmppFlags::ACTIVE
    };
    header
        .rmpp_mut()
        .set_version(RMPP_VERSION)
        .set_rmpp_type(RmppType::Data)
        .set_flags(flags)
        .set_segment_number(number);
    let mut mad = [0; 256];
    mad[..SA_HEADER_LEN].copy_from_slice(header.as_bytes());
    mad
}

#[test]
fn endless_fragments_are_refused_at_the_limits() {
    let config = RmppConfig::default();
    let mut subnet = subnet(FaultPlan::default());
    subnet.deafen(0);
    // For one endless message, the SA receives no more than its limit.
    let segments = config.max_received / 200 + 100;
    for number in 1..=segments as u32 {
        subnet.send(0, &fragment(1, number));
        subnet.run_for(Duration::from_micros(20), |_, _| ());
        assert!(subnet.stats().transactions <= 1);
    }
    assert_eq!(subnet.stats().transactions, 0);
    let failed = subnet.stats().failed;
    assert!(failed >= 1);
    // For many messages without a second segment there is room for some of them, and the SA
    // refuses the others.
    for tid in 100..1_100 {
        subnet.send(0, &fragment(tid, 1));
    }
    for host in 1..HOSTS {
        assert_answered(&mut subnet, host);
        assert!(subnet.stats().transactions <= config.max_per_client);
    }
    subnet.run_for(Duration::from_millis(10), |_, _| ());
    assert!(subnet.stats().stopped >= 1_000 - config.max_per_client as u64);
    // All hosts send at once: each host stays within its own room.
    for host in 1..HOSTS {
        for tid in 100..200 {
            subnet.send(host, &fragment(tid, 1));
        }
    }
    assert_answered(&mut subnet, 7);
    assert!(subnet.stats().transactions <= HOSTS * config.max_per_client);
    subnet.run_for(Duration::from_secs(60), |_, _| ());
    assert_eq!(subnet.stats().transactions, 0);
}

/// The packets that each end port of hosts has sent and received, by port GUID.
fn packets(subnet: &mut Hosts) -> BTreeMap<Guid, (u64, u64)> {
    let ends: Vec<_> = subnet.sim.end_ports().collect();
    let ends = ends.into_iter().filter(|(_, port)| *port != PortNum::ZERO);
    ends.map(|(node, port)| {
        let counters = subnet.sim.port_counters(node, port).unwrap();
        let guid = subnet.sim.port_guid(node, port).unwrap();
        let packets = (counters[Counter::XmitPkts], counters[Counter::RcvPkts]);
        (guid, packets)
    })
    .collect()
}

#[test]
fn port_counters_count_the_joins_of_all_hosts_and_their_answers() {
    let mut subnet = subnet(FaultPlan::default());
    let before = packets(&mut subnet);
    for host in 0..HOSTS {
        ask(&mut subnet, host, NextRequest::Group);
    }
    let mut joined = 0;
    subnet.run_for(Duration::from_secs(1), |_, delivery| {
        if let Delivery::Message(message) = delivery {
            joined += usize::from(status(&message) == Status::OK);
        }
    });
    assert_eq!(joined, HOSTS);
    let hosts: BTreeSet<Guid> = subnet.places().iter().map(|&(guid, _)| guid).collect();
    for (guid, (sent, received)) in packets(&mut subnet) {
        let (sent, received) = (sent - before[&guid].0, received - before[&guid].1);
        let expected = if hosts.contains(&guid) {
            1
        } else {
            HOSTS as u64
        };
        assert_eq!((sent, received), (expected, expected), "{guid}");
    }
    // Packets that leave a port of a switch arrive at the other end.
    let switches: Vec<Guid> = subnet
        .sim
        .nodes()
        .filter(|&(_, kind)| kind == NodeKind::Switch)
        .map(|(guid, _)| guid)
        .collect();
    for node in switches {
        for port in (1..=subnet.sim.num_ports(node).unwrap()).map(PortNum) {
            let Some((peer, peer_port)) = subnet.sim.peer(node, port).unwrap() else {
                continue;
            };
            let sent = subnet.sim.port_counters(node, port).unwrap()[Counter::XmitData];
            let received = subnet.sim.port_counters(peer, peer_port).unwrap()[Counter::RcvData];
            assert_eq!(sent, received, "{node} port {port}");
        }
    }
}
