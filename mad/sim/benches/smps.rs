//! Measures the number of SMPs that the simulator handles in a second of processor time: NodeInfo
//! of every switch of a fat tree by directed route, with as many requests in flight as from a
//! subnet manager, and NodeInfo of one switch by directed route and by LID. Run with `cargo bench
//! -p rsm-sim`.
#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a bench reads the clock and prints"
)]

use std::hint::black_box;
use std::time::Instant;

use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::Time;
use rsm_mad::ids::{DirectedPath, Tid};
use rsm_mad::transport::{Datagram, Inbound, RemoteAddress};
use rsm_mad::wire::attr::{Attribute, LinearForwardingTable, PortInfo, PortState, SwitchInfo};
use rsm_mad::wire::header::{AttrId, Method};
use rsm_mad::wire::smp::{Smp, SmpRequest};
use rsm_routing::generate::generate;
use rsm_routing::netlist::{Netlist, NodeKind};
use rsm_sim::{AttachId, Sim, SimConfig};

/// The number of requests of a measurement.
const REQUESTS: usize = 2_000_000;
/// The number of requests that are in flight at once.
const WINDOW: usize = 256;

fn directed(path: &DirectedPath, method: Method, attribute: AttrId, data: [u8; 64]) -> Datagram {
    let request = SmpRequest {
        method,
        attribute,
        modifier: 0,
        tid: Tid(1),
        m_key: 0,
        data,
    };
    Datagram {
        mad: *Smp::directed(path, &request).as_bytes(),
        remote: RemoteAddress::directed(),
    }
}

/// A clock of the thread's processor time, if the operating system has one, else a wall clock.
struct Stopwatch {
    started: Instant,
    cpu_ns: Option<u64>,
}

impl Stopwatch {
    fn start() -> Stopwatch {
        Stopwatch {
            started: Instant::now(),
            cpu_ns: Self::cpu_ns(),
        }
    }

    /// The processor time of this thread in nanoseconds; `None` if the operating system does not
    /// report it.
    fn cpu_ns() -> Option<u64> {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        text.split(' ').next()?.parse().ok()
    }

    fn seconds(&self) -> f64 {
        match (self.cpu_ns, Self::cpu_ns()) {
            (Some(before), Some(after)) => (after - before) as f64 / 1e9,
            _ => self.started.elapsed().as_secs_f64(),
        }
    }
}

/// Sends the datagrams in turn, [`REQUESTS`] in all, and returns the number of answers per second.
fn measure(sim: &mut Sim, client: AttachId, datagrams: &[Datagram]) -> f64 {
    let stopwatch = Stopwatch::start();
    let (mut sent, mut answers) = (0, 0);
    let mut now = sim.now();
    let mut next = datagrams.iter().cycle();
    while sent < WINDOW {
        sim.send(client, next.next().unwrap(), now);
        sent += 1;
    }
    while let Some(time) = sim.next_event() {
        now = now.max(time);
        while let Some((_, inbound)) = sim.poll(now) {
            if let Inbound::Mad(datagram) = &inbound {
                black_box(datagram);
                answers += 1;
            }
            if sent < REQUESTS {
                sim.send(client, next.next().unwrap(), now);
                sent += 1;
            }
        }
    }
    assert_eq!(answers, REQUESTS, "{:?}", sim.counters());
    answers as f64 / stopwatch.seconds()
}

/// A shortest directed path from a host to each switch, with the port through which the path enters
/// the switch.
fn paths(netlist: &Netlist, host: usize) -> Vec<(usize, DirectedPath, PortNum)> {
    let mut visited = vec![false; netlist.nodes().len()];
    let mut reached = vec![(host, DirectedPath::new(), PortNum(0))];
    visited[host] = true;
    let mut head = 0;
    while head < reached.len() {
        let (node, path, _) = reached[head];
        head += 1;
        for port in 1..=netlist.nodes()[node].num_ports {
            if let Some((peer, entry)) = netlist.peer((node, PortNum(port)))
                && !std::mem::replace(&mut visited[peer], true)
                && netlist.nodes()[peer].kind == NodeKind::Switch
            {
                reached.push((peer, path.child(PortNum(port)).unwrap(), entry));
            }
        }
    }
    reached.remove(0);
    reached
}

fn main() {
    let spec = "fat-tree:k=24,levels=3";
    let netlist = generate(spec).expect("the specification is valid");
    let host = (0..netlist.nodes().len())
        .find(|&node| netlist.nodes()[node].kind == NodeKind::Ca)
        .expect("the fabric has hosts");
    let mut sim = Sim::new(&netlist, SimConfig::default(), 1).expect("a valid fabric");
    let guid: Guid = netlist.nodes()[host].guid;
    let client = sim.attach(guid, PortNum(1)).expect("a free port");
    let paths = paths(&netlist, host);
    let total_hops: usize = paths.iter().map(|(_, path, _)| path.len()).sum();
    println!(
        "{spec}: {} switches, {:.1} hops away on average",
        paths.len(),
        total_hops as f64 / paths.len() as f64
    );

    let get = |path: &DirectedPath| directed(path, Method::GET, AttrId::NODE_INFO, [0; 64]);
    let all: Vec<_> = paths.iter().map(|(_, path, _)| get(path)).collect();
    let rate = measure(&mut sim, client, &all);
    println!("directed: {:.2} million SMPs a second", rate / 1e6);
    println!("  {:?} of virtual time", sim.now().since(Time::ZERO));

    // The host and its switch get LIDs and the routes between them, for requests by LID.
    let mut info = PortInfo::default();
    info.set_lid(Lid(1)).set_port_state(PortState::NoChange);
    let set = directed(
        &DirectedPath::new(),
        Method::SET,
        AttrId::PORT_INFO,
        *info.as_data(),
    );
    run_one(&mut sim, client, &set);
    let first = &paths[0];
    for (_, path, entry) in paths.iter().take(1) {
        let mut block = LinearForwardingTable::default();
        block.ports_mut().fill(255);
        block.ports_mut()[1] = entry.0;
        block.ports_mut()[2] = 0;
        let lft = AttrId::LINEAR_FORWARDING_TABLE;
        run_one(
            &mut sim,
            client,
            &directed(path, Method::SET, lft, *block.as_data()),
        );
        let mut info = SwitchInfo::default();
        info.set_linear_fdb_top(Lid(2));
        let switch = AttrId::SWITCH_INFO;
        run_one(
            &mut sim,
            client,
            &directed(path, Method::SET, switch, *info.as_data()),
        );
        let mut info = PortInfo::default();
        info.set_lid(Lid(2));
        let port = AttrId::PORT_INFO;
        run_one(
            &mut sim,
            client,
            &directed(path, Method::SET, port, *info.as_data()),
        );
    }
    let one_hop: Vec<_> = [get(&first.1)].into_iter().collect();
    let directed_rate = measure_one_agent(&mut sim, client, &one_hop);
    println!(
        "directed, one hop: {:.2} million SMPs a second",
        directed_rate / 1e6
    );
    let request = SmpRequest {
        method: Method::GET,
        attribute: AttrId::NODE_INFO,
        modifier: 0,
        tid: Tid(1),
        m_key: 0,
        data: [0; 64],
    };
    let by_lid = Datagram {
        mad: *Smp::lid_routed(&request).as_bytes(),
        remote: RemoteAddress::smi(Lid(2)),
    };
    let rate = measure_one_agent(&mut sim, client, &[by_lid]);
    println!("by LID, one hop: {:.2} million SMPs a second", rate / 1e6);
}

/// Sends a datagram, and runs the simulation until no event is left.
fn run_one(sim: &mut Sim, client: AttachId, datagram: &Datagram) {
    sim.send(client, datagram, sim.now());
    while let Some(time) = sim.next_event() {
        while sim.poll(time).is_some() {}
    }
}

/// Measures the answers per second of a single agent. At most 32 requests are in flight, which its
/// buffer holds.
fn measure_one_agent(sim: &mut Sim, client: AttachId, datagrams: &[Datagram]) -> f64 {
    let stopwatch = Stopwatch::start();
    let mut answers = 0;
    let mut next = datagrams.iter().cycle();
    while answers < REQUESTS / 2 {
        for _ in 0..32 {
            sim.send(client, next.next().unwrap(), sim.now());
        }
        while let Some(time) = sim.next_event() {
            while let Some((_, inbound)) = sim.poll(time) {
                black_box(&inbound);
                answers += 1;
            }
        }
    }
    answers as f64 / stopwatch.seconds()
}
