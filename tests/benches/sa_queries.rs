//! Compares how rsm and OpenSM answer queries to the SA, while idle and while routing.
//!
//! `cargo bench -p rsm-tests --bench sa_queries [-- [--spec SPEC] [--rounds N] [--only NAME]]`.
//! Each manager runs resident on a fabric of its own, which this process simulates, and reaches it
//! through the shim. Hosts send requests as fast as the manager answers, on the simulation's
//! thread. Each round runs every query on one manager after the other. While "re-routing", links
//! between switches go down and come back, twenty a second and each only once, and OpenSM gets
//! SIGHUP (sweep) every second. Simulation, shim and hosts take processor time from both managers
//! alike. `cpu_us` is the manager's own processor time for an answer, routing included.
//! `inside_p99_us` is rsm's own measurement, from reading a request at the device until its answer
//! goes to the kernel. It excludes the processes on the path, and the request's wait at the device.
//! `advertised_us` is the response time in the SA's ClassPortInfo. `p99_of_advertised` is p99 as a
//! share of that time: above 1, hosts repeat requests.

mod options;

use std::collections::{BTreeMap, VecDeque};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::wire::header::{Method, Status};
use rsm_mad::wire::sa::{ClassPortInfo, ComponentMask, NodeRecord, Record};
use rsm_routing::netlist::{Netlist, NodeKind};
use rsm_tests::answering::Host;
use rsm_tests::binaries;
use rsm_tests::clock::now;
use rsm_tests::hosted::Hosted;
use rsm_tests::load::{Load, Outcome, Place, Question};
use rsm_tests::measure::{Comparison, milliseconds};
use rsm_tests::sm::{OpenSm, Rsm};
use serde_json::Value;

use options::Options;

/// The fabric of the comparison: 3,456 hosts and 720 switches.
const DEFAULT_SPEC: &str = "fat-tree:k=24,levels=3";

/// The time limit for a contender to bring the subnet up, or to become idle.
const LIMIT: Duration = Duration::from_secs(600);

/// The time without a written table after which a manager counts as idle.
const QUIET: Duration = Duration::from_secs(2);

/// The time for which a query runs in a round.
const SPAN: Duration = Duration::from_millis(1500);

/// The time for which a query runs while links go down: OpenSM sweeps a large subnet for seconds
/// before it routes.
const ROUTING_SPAN: Duration = Duration::from_secs(5);

/// The interval at which links go down.
const PAUSE: Duration = Duration::from_millis(50);

/// The number of links that are down at the same time: each comes back after this number of further
/// links went down. That takes half a second, in which a manager can notice the link.
const DOWN: usize = 10;

/// The interval of OpenSM's sweeps.
const SWEEPS: Duration = Duration::from_secs(1);

type Failure = Box<dyn std::error::Error>;

/// The number of answers by the upper bound of their latency in nanoseconds.
type Latencies = BTreeMap<u64, u64>;

/// A query, the number of clients, and the number of outstanding requests of each client.
struct Scenario {
    name: &'static str,
    question: Question,
    clients: usize,
    outstanding: usize,
    is_routing: bool,
}

const fn scenario(
    name: &'static str,
    question: Question,
    clients: usize,
    outstanding: usize,
    is_routing: bool,
) -> Scenario {
    Scenario {
        name,
        question,
        clients,
        outstanding,
        is_routing,
    }
}

const SCENARIOS: [Scenario; 8] = [
    scenario("path, 1 client, 1 at a time", Question::Path, 1, 1, false),
    scenario("path, 1 client, 16 at once", Question::Path, 1, 16, false),
    scenario("path, 16 clients, 4 at once", Question::Path, 16, 4, false),
    scenario("port, 1 client, 16 at once", Question::Port, 1, 16, false),
    scenario("port, 16 clients, 4 at once", Question::Port, 16, 4, false),
    scenario(
        "path, 1 client, 1 at a time, re-routing",
        Question::Path,
        1,
        1,
        true,
    ),
    scenario(
        "path, 1 client, 16 at once, re-routing",
        Question::Path,
        1,
        16,
        true,
    ),
    scenario(
        "path, 16 clients, 4 at once, re-routing",
        Question::Path,
        16,
        4,
        true,
    ),
];

/// A resident subnet manager.
enum Resident {
    Rsm(Rsm),
    OpenSm(OpenSm),
}

/// A contender with its fabric.
struct Contender {
    name: &'static str,
    // The manager is dropped before its fabric.
    resident: Resident,
    fabric: Hosted,
    hosts: Vec<Place>,
    server: Lid,
    /// The links between switches that have not been down yet.
    links: Vec<(Guid, PortNum)>,
}

fn main() -> Result<(), Failure> {
    let options = Options::from_arguments(3)?;
    let spec = options.spec(DEFAULT_SPEC);
    let netlist = rsm::offline::load(spec)?;
    let mut out = std::io::stdout();
    let mut contenders = Vec::new();
    for name in ["rsm", "opensm"] {
        if options.takes_part(name) {
            let started = now();
            let contender = Contender::start(name, &netlist)?;
            let elapsed = started.elapsed().as_secs_f64();
            let hosts = contender.hosts.len();
            writeln!(out, "{name}: {spec}, {hosts} hosts up after {elapsed:.1} s")?;
            contenders.push(contender);
        }
    }
    let mut comparisons: Vec<Comparison> =
        SCENARIOS.iter().map(|_| Comparison::default()).collect();
    let mut tables = Comparison::default();
    for _ in 0..options.rounds() {
        for (scenario, comparison) in SCENARIOS.iter().zip(&mut comparisons) {
            for contender in &mut contenders {
                contender.measure(scenario, comparison)?;
            }
        }
        for contender in &mut contenders {
            contender.fetch_table(&mut tables)?;
        }
    }
    for (scenario, comparison) in SCENARIOS.iter().zip(&comparisons) {
        writeln!(out, "\n{}\n{}", scenario.name, comparison.table())?;
        writeln!(out, "{}", comparison.json(scenario.name, "rsm"))?;
    }
    writeln!(out, "\nall NodeRecords\n{}", tables.table())?;
    writeln!(out, "{}", tables.json("all NodeRecords", "rsm"))?;
    Ok(())
}

impl Contender {
    fn start(name: &'static str, netlist: &Netlist) -> Result<Contender, Failure> {
        let fabric = Hosted::start(netlist)?;
        // Managers do not sweep periodically: only a scenario causes routing.
        let resident = match name {
            "rsm" => {
                let (state, config) = (
                    fabric.directory().join("state"),
                    fabric.directory().join("rsm.toml"),
                );
                std::fs::write(&config, "[sweep]\nlight_interval_ms = 0\n")?;
                let config = config.to_string_lossy().into_owned();
                let client = fabric.client(binaries::rsm())?;
                Resident::Rsm(Rsm::run(client, &state, &["--config", &config], LIMIT)?)
            }
            _ => {
                let client = fabric.client("opensm")?;
                Resident::OpenSm(OpenSm::run(client, &["-s", "0"], LIMIT)?)
            }
        };
        if !fabric.wait_quiet(QUIET, LIMIT)? {
            return Err(format!("{name} still writes tables after the time limit").into());
        }
        let (hosts, server) = fabric.hosts()?;
        let contender = Contender {
            name,
            resident,
            fabric,
            hosts,
            server,
            links: links_between_switches(netlist),
        };
        contender.wait_until_answered()?;
        Ok(contender)
    }

    /// The hosts of the clients: spread over the fabric, without the manager's host.
    fn clients(&self, count: usize) -> Vec<Place> {
        let other_hosts: Vec<Place> = self
            .hosts
            .iter()
            .filter(|host| host.lid != self.server)
            .copied()
            .collect();
        (0..count)
            .map(|index| other_hosts[index * other_hosts.len() / count])
            .collect()
    }

    fn wait_until_answered(&self) -> Result<(), Failure> {
        let load = self.load(Question::Path, 1, 1);
        let deadline = now() + LIMIT;
        while now() < deadline {
            let outcome = load.run(&self.fabric.sim, Duration::from_millis(100))?;
            if outcome.answered > 0 && outcome.busy == 0 && outcome.refused == 0 {
                return Ok(());
            }
        }
        Err(format!("{} does not answer", self.name).into())
    }

    fn load(&self, question: Question, clients: usize, outstanding: usize) -> Load {
        Load {
            clients: self.clients(clients),
            outstanding,
            question,
            targets: Arc::from(&self.hosts[..]),
            server: self.server,
        }
    }

    fn measure(&mut self, scenario: &Scenario, comparison: &mut Comparison) -> Result<(), Failure> {
        let load = self.load(scenario.question, scenario.clients, scenario.outstanding);
        let (blocks, processor_time) = (self.fabric.blocks_written()?, self.processor_time());
        let inside = self.latencies()?;
        let outcome = if scenario.is_routing {
            self.while_routing(&load)?
        } else {
            load.run(&self.fabric.sim, SPAN)?
        };
        let processor_time = self.processor_time().saturating_sub(processor_time);
        let inside = inside.zip(self.latencies()?);
        let advertised_us = self.advertised()?.as_secs_f64() * 1e6;
        let blocks_during = self.fabric.blocks_written()? - blocks;
        if scenario.is_routing {
            self.fabric.wait_quiet(QUIET, LIMIT)?;
        }
        let until_calm = self.fabric.blocks_written()? - blocks;
        let figures = comparison.of(self.name);
        let micros = |share| outcome.quantile(share).as_secs_f64() * 1e6;
        figures.add("answers_per_s", outcome.rate());
        figures.add("p50_us", micros(0.5));
        figures.add("p99_us", micros(0.99));
        figures.add("max_us", micros(1.0));
        figures.add("advertised_us", advertised_us);
        figures.add("p99_of_advertised", micros(0.99) / advertised_us);
        if let Some((before, after)) = inside {
            figures.add("inside_p99_us", p99_us(&before, &after));
        }
        let answers = outcome.answered.max(1) as f64;
        figures.add("cpu_us", processor_time.as_secs_f64() * 1e6 / answers);
        figures.add("busy", outcome.busy as f64);
        figures.add("refused", outcome.refused as f64);
        figures.add("unanswered", outcome.unanswered as f64);
        figures.add("blocks_written", blocks_during as f64);
        figures.add("blocks_until_calm", until_calm as f64);
        Ok(())
    }

    /// Runs the load while links go down and come back.
    fn while_routing(&mut self, load: &Load) -> Result<Outcome, Failure> {
        let is_running = AtomicBool::new(true);
        let (links, sim) = (&mut self.links, &self.fabric.sim);
        let resident = &self.resident;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut down = VecDeque::new();
                // If the simulation has stopped, the load returns the error.
                let relink = |(switch, port)| {
                    let _ = sim.with(move |sim| sim.relink(switch, port));
                };
                while is_running.load(Ordering::Relaxed) {
                    if let Some((switch, port)) = links.pop() {
                        let _ = sim.with(move |sim| sim.unlink(switch, port));
                        down.push_back((switch, port));
                    }
                    if down.len() > DOWN {
                        down.pop_front().into_iter().for_each(relink);
                    }
                    std::thread::sleep(PAUSE);
                }
                down.into_iter().for_each(relink);
            });
            scope.spawn(|| {
                let mut due = now();
                while is_running.load(Ordering::Relaxed) {
                    if let Resident::OpenSm(opensm) = resident
                        && now() >= due
                    {
                        opensm.hang_up();
                        due += SWEEPS;
                    }
                    std::thread::sleep(PAUSE);
                }
            });
            let outcome = load.run(sim, ROUTING_SPAN);
            is_running.store(false, Ordering::Relaxed);
            Ok(outcome?)
        })
    }

    /// The response time that the SA states in ClassPortInfo (IBA 13.4.8.1).
    fn advertised(&self) -> Result<Duration, Failure> {
        let place = self.clients(1)[0];
        let mut host = Host::at(&self.fabric.sim, (place.node, place.port), self.server);
        let answer = host.ask(Method::GET, ComponentMask::NONE, &ClassPortInfo::default());
        if answer.status() != Status::OK {
            return Err(format!("{}: {} for ClassPortInfo", self.name, answer.status()).into());
        }
        let info: ClassPortInfo = answer.record();
        // 4.096 µs × 2^RespTimeValue.
        Ok(Duration::from_nanos(4096 << info.resp_time_value()))
    }

    /// Queries all nodes, whose table has many segments.
    fn fetch_table(&mut self, comparison: &mut Comparison) -> Result<(), Failure> {
        let place = self.clients(1)[0];
        let mut host = Host::at(&self.fabric.sim, (place.node, place.port), self.server);
        let started = now();
        let answer = host.ask(
            Method::GET_TABLE,
            ComponentMask::NONE,
            &NodeRecord::default(),
        );
        let elapsed = started.elapsed();
        if answer.status() != Status::OK {
            return Err(format!("{}: {} for a table", self.name, answer.status()).into());
        }
        let records: Vec<NodeRecord> = answer.records();
        let figures = comparison.of(self.name);
        figures.add("wall_ms", milliseconds(elapsed));
        figures.add("records", records.len() as f64);
        figures.add("kib", (records.len() * NodeRecord::LEN) as f64 / 1024.0);
        Ok(())
    }

    /// The number of answers since the start, by the upper bound of their latency; `None` for
    /// OpenSM, which does not report it.
    fn latencies(&self) -> Result<Option<Latencies>, Failure> {
        let Resident::Rsm(rsm) = &self.resident else {
            return Ok(None);
        };
        let counters = rsm.ask(&["sa"])?;
        let buckets = counters["latencies"]["buckets"].as_array();
        let bucket = |bucket: &Value| {
            // The bound 0 marks the bucket without a bound.
            let below = bucket["below_ns"].as_u64().filter(|&below| below > 0);
            Some((below.unwrap_or(u64::MAX), bucket["count"].as_u64()?))
        };
        let counts = buckets.and_then(|buckets| buckets.iter().map(bucket).collect());
        counts
            .map(Some)
            .ok_or_else(|| format!("no latencies in {counters}").into())
    }

    fn processor_time(&mut self) -> Duration {
        match &mut self.resident {
            Resident::Rsm(rsm) => rsm.process().processor_time(),
            Resident::OpenSm(opensm) => opensm.process().processor_time(),
        }
    }
}

/// The lowest bound of the latency, in microseconds, that holds for 99 % of the answers between two
/// counts.
fn p99_us(before: &Latencies, after: &Latencies) -> f64 {
    let since = |(below, count): (&u64, &u64)| (*below, count - before.get(below).unwrap_or(&0));
    let counts: Vec<(u64, u64)> = after.iter().map(since).collect();
    let mut slower_count = counts.iter().map(|(_, count)| count).sum::<u64>() / 100;
    for &(below, count) in counts.iter().rev() {
        if count > slower_count {
            return below as f64 / 1e3;
        }
        slower_count -= count;
    }
    0.0
}

/// One end of each link between two switches, in an order that is spread over the fabric.
fn links_between_switches(netlist: &Netlist) -> Vec<(Guid, PortNum)> {
    let is_switch = |node: usize| netlist.nodes()[node].kind == NodeKind::Switch;
    let cables = netlist.cables().iter();
    let ends = cables
        .map(|cable| (cable.a, cable.b))
        .filter(|(a, b)| is_switch(a.0) && is_switch(b.0));
    let mut links: Vec<(Guid, PortNum)> = ends
        .map(|((node, port), _)| (netlist.nodes()[node].guid, port))
        .collect();
    // A prime stride reaches every link once.
    const STRIDE: usize = 7919;
    let count = links.len();
    if !count.is_multiple_of(STRIDE) {
        links = (0..count)
            .map(|index| links[index * STRIDE % count])
            .collect();
    }
    links
}
