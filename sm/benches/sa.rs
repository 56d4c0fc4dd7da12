//! Measures how many requests the SA answers per second, one after another on one thread, from the
//! bytes of a request to the bytes of its answer: the cost of the SA itself, without a network.
//!
//! Usage: `cargo bench -p rsm --bench sa [-- FABRIC]`, where FABRIC is anything that `rsm plan`
//! takes; without FABRIC, the benchmark runs on a small fabric and on a fabric of 45,056 hosts.

#![allow(
    clippy::print_stdout,
    reason = "a benchmark reports on standard output"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "a benchmark is where the clock is read"
)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rsm::offline;
use rsm_ids::Lid;
use rsm_mad::Time;
use rsm_mad::client::ClientStats;
use rsm_mad::ids::{Gid, Tid};
use rsm_mad::transport::RemoteAddress;
use rsm_mad::wire::MadBytes;
use rsm_mad::wire::attr::{Mtu, NodeInfo, NodeType};
use rsm_mad::wire::header::Method;
use rsm_mad::wire::sa::{
    ComponentMask, LinearForwardingTableRecord, NodeRecord, PathRecord, PortInfoRecord, Record,
    SaMad,
};
use rsm_model::fabric::Fabric;
use rsm_model::slow_links::SlowLinks;
use rsm_plan::policy::Policy;
use rsm_plan::{self, Outcome, PlanJob};
use rsm_sa::{Sa, SaConfig, SaRequest, SaSnapshot};
use rsm_state::{Identity, Role, Snapshot};

/// Fabrics for a run without FABRIC.
const FABRICS: [&str; 2] = ["fat-tree:k=12,levels=3", "pgft:3;32,32,44;1,32,16;1,1,2"];

/// Number of requests of each kind.
const REQUESTS: usize = 1_000_000;

/// Number of different requests of each kind, which are sent in turn: too many to stay in a cache.
const VARIETY: usize = 65_536;

/// Generator of pseudo-random numbers that are the same in every run.
struct Random(u64);

impl Random {
    /// A number below `bound`.
    fn below(&mut self, bound: usize) -> usize {
        const MULTIPLIER: u64 = 6_364_136_223_846_793_005;
        self.0 = self.0.wrapping_mul(MULTIPLIER).wrapping_add(1);
        (((self.0 >> 32) * bound as u64) >> 32) as usize
    }
}

/// A host's port.
struct Host {
    lid: Lid,
    gid: Gid,
}

/// Snapshot of the fabric after its plan is written.
fn planned(spec: &str) -> Snapshot {
    let netlist = offline::load(spec).expect("the specification is right");
    let mut fabric = Fabric::of_netlist(&netlist);
    let job = PlanJob::first(Arc::new(fabric.clone()), Arc::new(Policy::default()));
    let Outcome::Plan(plan) = rsm_plan::plan(&job) else {
        unreachable!("a generated tree can be routed");
    };
    for (&port, claim) in &plan.lids.lids {
        let at = fabric.find_port(port).expect("the plan is for this fabric");
        let port = fabric.port_mut(at);
        if let Some(info) = &mut port.info {
            info.set_lid(claim.base).set_lmc(claim.lmc);
        }
    }
    for port in fabric.nodes_mut().flat_map(|node| &mut node.ports) {
        if let Some(info) = &mut port.info {
            info.set_neighbor_mtu(Mtu::Bytes4096);
        }
    }
    Snapshot {
        following: None,
        at: Time::ZERO,
        role: Role::Master,
        identity: Identity::default(),
        others: Arc::from([]),
        own_guid: fabric.port(fabric.local.expect("there is a host")).guid,
        port_up: true,
        converging: false,
        fabric: Arc::new(fabric),
        plan: Some(plan),
        refused_plan: None,
        controls_congestion: false,
        manages_vports: false,
        expected: Arc::default(),
        avoid: Arc::default(),
        overlay: Arc::default(),
        capabilities: Arc::default(),
        adaptive: Arc::default(),
        slow_links: SlowLinks::default(),
        m_keys: Default::default(),
        congestion: rsm_model::congestion::CongestionView::default(),
        findings: Arc::new([]),
        history: Arc::new([]),
        stats: ClientStats::default(),
        traps: Default::default(),
    }
}

/// All ports of hosts.
fn hosts(fabric: &Fabric, prefix: u64) -> Vec<Host> {
    let ends = fabric.end_ports();
    ends.filter(|(at, _)| fabric.node(at.node).kind() == NodeType::Ca)
        .map(|(_, port)| Host {
            lid: port.lid(),
            gid: Gid::new(prefix, port.guid),
        })
        .collect()
}

/// An SA, and the hosts that send requests to it.
struct Bench {
    sa: Sa,
    hosts: Vec<Host>,
    random: Random,
}

impl Bench {
    /// Requests of random pairs of hosts, with the records that `make` gives.
    fn requests<R: Record>(
        &mut self,
        mask: ComponentMask,
        make: impl Fn(&Host, &Host) -> R,
    ) -> Vec<(MadBytes, RemoteAddress)> {
        (0..VARIETY)
            .map(|_| {
                let a = &self.hosts[self.random.below(self.hosts.len())];
                let b = &self.hosts[self.random.below(self.hosts.len())];
                let mad = SaMad::request(Method::GET, Tid(1), mask, &make(a, b));
                (*mad.as_bytes(), RemoteAddress::gsi(a.lid, 0))
            })
            .collect()
    }

    /// Measures [`REQUESTS`] requests, and prints the result.
    fn run(&mut self, name: &str, requests: &[(MadBytes, RemoteAddress)]) {
        let mut longest = Duration::ZERO;
        let start = Instant::now();
        let mut before = start;
        for index in 0..REQUESTS {
            let (bytes, requester) = &requests[index % requests.len()];
            let answer = self.sa.handle(
                SaRequest {
                    bytes,
                    requester: *requester,
                },
                Time::ZERO,
            );
            let answer = answer.expect("every request is answered");
            assert!(answer.status().is_ok(), "{answer:?}");
            black_box(answer.datagram());
            let now = Instant::now();
            longest = longest.max(now - before);
            before = now;
        }
        let elapsed = start.elapsed();
        println!(
            "  {name:<28} {:>9.0}/s, {:>6.0} ns each, longest {:.3} ms",
            REQUESTS as f64 / elapsed.as_secs_f64(),
            elapsed.as_nanos() as f64 / REQUESTS as f64,
            longest.as_secs_f64() * 1e3,
        );
    }

    /// Measures a Get without a LID, from the request to the answer. The SA examines all records;
    /// at most one matches.
    fn search<R: Record>(&mut self, name: &str, mask: ComponentMask, record: &R) {
        let mad = SaMad::request(Method::GET, Tid(1), mask, record);
        let requester = RemoteAddress::gsi(self.hosts[0].lid, 0);
        let start = Instant::now();
        let request = SaRequest {
            bytes: mad.as_bytes(),
            requester,
        };
        let answer = self.sa.handle(request, Time::ZERO);
        let mut longest = start.elapsed();
        let mut answer = answer.expect("every request is answered");
        loop {
            let before = Instant::now();
            let is_complete = self.sa.continue_search(&mut answer);
            longest = longest.max(before.elapsed());
            if is_complete {
                break;
            }
        }
        println!(
            "  {name:<28} {} in {:.3} ms, longest turn {:.3} ms",
            answer.status(),
            start.elapsed().as_secs_f64() * 1e3,
            longest.as_secs_f64() * 1e3,
        );
    }

    /// Measures the answer to a GetTable until its last byte.
    fn table<R: Record>(&mut self, name: &str, mask: ComponentMask, record: &R) {
        let mad = SaMad::request(Method::GET_TABLE, Tid(1), mask, record);
        let start = Instant::now();
        let requester = RemoteAddress::gsi(self.hosts[0].lid, 0);
        let answer = self.sa.handle(
            SaRequest {
                bytes: mad.as_bytes(),
                requester,
            },
            Time::ZERO,
        );
        let mut answer = answer.expect("every request is answered");
        let mut buffer = vec![0; 64 * 1024];
        let mut bytes = 0;
        let mut longest = Duration::ZERO;
        loop {
            let before = Instant::now();
            let pulled = answer.pull(&mut buffer);
            longest = longest.max(before.elapsed());
            black_box(&buffer);
            bytes += pulled.bytes;
            if pulled.ended {
                break;
            }
        }
        println!(
            "  {name:<28} {} records in {:.3} ms, longest turn {:.3} ms",
            bytes / R::LEN,
            start.elapsed().as_secs_f64() * 1e3,
            longest.as_secs_f64() * 1e3,
        );
    }
}

/// Measures the SA on the fabric `spec`, with equal links between switches and with two kinds of
/// links.
fn measure(spec: &str) {
    run(spec, "equal links between switches", planned(spec));
    let mut snapshot = planned(spec);
    let mut fabric = Fabric::clone(&snapshot.fabric);
    halve_some_mtus(&mut fabric);
    snapshot.fabric = Arc::new(fabric);
    run(spec, "two kinds of links", snapshot);
}

/// Halves the MTU of every third port of each switch.
fn halve_some_mtus(fabric: &mut Fabric) {
    let switches = fabric.nodes_mut().filter(|node| node.is_switch());
    for port in switches.flat_map(|node| node.ports.iter_mut().step_by(3)) {
        if let Some(info) = &mut port.info {
            info.set_neighbor_mtu(Mtu::Bytes2048);
        }
    }
}

/// Measures the SA on one snapshot.
fn run(spec: &str, links: &str, snapshot: Snapshot) {
    let mut sa = Sa::new(SaConfig {
        sm_key: 0,
        ..SaConfig::default()
    });
    let start = Instant::now();
    let sa_snapshot = SaSnapshot::of(&snapshot, None);
    let arranged = start.elapsed();
    sa.answer_from(sa_snapshot.clone());
    let prefix = Policy::default().ports.subnet_prefix;
    let hosts = hosts(&snapshot.fabric, prefix);
    println!(
        "{spec}, {links}: {} hosts; arranged in {:.1} ms",
        hosts.len(),
        arranged.as_secs_f64() * 1e3
    );
    let mut bench = Bench {
        sa,
        hosts,
        random: Random(1),
    };
    let gids = bench.requests(PathRecord::SGID | PathRecord::DGID, |a, b| {
        let mut record = PathRecord::default();
        record.set_sgid(a.gid).set_dgid(b.gid);
        record
    });
    bench.run("PathRecord by GID, at first", &gids);
    bench.run("PathRecord by GID", &gids);
    let lids = bench.requests(PathRecord::SLID | PathRecord::DLID, |a, b| {
        let mut record = PathRecord::default();
        record.set_slid(a.lid).set_dlid(b.lid);
        record
    });
    bench.run("PathRecord by LID", &lids);
    let ports = bench.requests(PortInfoRecord::END_PORT_LID, |a, _| {
        let mut record = PortInfoRecord::default();
        record.set_end_port_lid(a.lid);
        record
    });
    bench.run("PortInfoRecord by LID", &ports);
    let start = Instant::now();
    sa_snapshot.prepare();
    println!(
        "  all other paths computed in {:.0} ms",
        start.elapsed().as_secs_f64() * 1e3
    );
    bench.run("PathRecord by GID, prepared", &gids);
    searches(&mut bench);
    let mut from = PathRecord::default();
    from.set_sgid(bench.hosts[0].gid);
    bench.table("PathRecord from one", PathRecord::SGID, &from);
    bench.table(
        "NodeRecord, all",
        ComponentMask::NONE,
        &NodeRecord::default(),
    );
    bench.table(
        "PortInfoRecord, all",
        ComponentMask::NONE,
        &PortInfoRecord::default(),
    );
}

/// Measures Gets that name no LID.
fn searches(bench: &mut Bench) {
    let last = bench.hosts.last().expect("there are hosts");
    let guid = last.gid.guid();
    let mut info = NodeInfo::default();
    info.set_port_guid(guid);
    let mut node = NodeRecord::default();
    node.set_node_info(&info);
    bench.search("NodeRecord by PortGUID", NodeRecord::PORT_GUID, &node);
    let mut port = PortInfoRecord::default();
    port.port_info_mut().set_m_key_lease_period(0xBEEF);
    let mask = PortInfoRecord::M_KEY_LEASE_PERIOD;
    bench.search("PortInfoRecord by lease", mask, &port);
    let mut table = LinearForwardingTableRecord::default();
    table.set_block_num(1023);
    let mask = LinearForwardingTableRecord::BLOCK_NUM;
    bench.search("LFT by block", mask, &table);
}

fn main() {
    let given: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with("--"))
        .collect();
    if given.is_empty() {
        FABRICS.into_iter().for_each(measure);
    }
    given.iter().for_each(|spec| measure(spec));
}
