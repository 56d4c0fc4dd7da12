//! A fabric with rsm, and the paths of jobs by the tables of its switches.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use rsm_ids::{Guid, LinkRate, LinkSpeed, LinkWidth, PortNum};
use rsm_mad::wire::attr::PortState;
use rsm_mad::wire::perf::Counter;
use rsm_routing::netlist::{Netlist, NodeKind, host_name};
use rsm_sim::Sim;

use crate::binaries;
use crate::clock::wait_for_every;
use crate::hosted::Hosted;
use crate::process::{Finished, Invocation, Running};
use crate::served;

/// The fabrics of the stories: a SuperPOD, a fat tree of three levels, a tree of two levels.
pub(super) const FABRICS: [&str; 3] = [
    "superpod:su=2",
    "fat-tree:k=8,levels=3",
    "pgft:2;16,8;1,8;1,1",
];

/// The maximum time for rsm to start, for a command, and for links to come up.
const LIMIT: Duration = Duration::from_secs(120);

/// The interval at which states are polled.
const POLL: Duration = Duration::from_millis(200);

/// The maximum number of links that a packet crosses.
const MAX_HOPS: usize = 16;

/// One of this many cables has counters that were high before rsm started.
const SCARRED: usize = 12;

/// One of this many hosts is in another partition than the hosts of jobs.
const GUESTS: usize = 8;

/// A port of a node.
pub(super) type Port = (Guid, PortNum);

/// A host.
pub(super) struct Host {
    pub(super) name: String,
    /// The adapters, each with one port: the index is the rail.
    pub(super) adapters: Vec<Guid>,
}

/// A fabric as it was built.
pub(super) struct Topology {
    pub(super) names: BTreeMap<Guid, String>,
    pub(super) switches: BTreeSet<Guid>,
    /// The switches with hosts.
    pub(super) leaves: BTreeSet<Guid>,
    /// The other end of the cable in a port.
    pub(super) peers: BTreeMap<Port, Port>,
    /// The rate of all cables.
    pub(super) rate: LinkRate,
    /// The hosts; rsm runs at the first one.
    pub(super) hosts: Vec<Host>,
}

impl Topology {
    fn of(netlist: &Netlist) -> Topology {
        let port = |(node, port): (usize, PortNum)| (netlist.nodes()[node].guid, port);
        let mut peers = BTreeMap::new();
        for cable in netlist.cables() {
            peers.insert(port(cable.a), port(cable.b));
            peers.insert(port(cable.b), port(cable.a));
        }
        let mut names = BTreeMap::new();
        let mut switches = BTreeSet::new();
        let mut hosts: Vec<Host> = Vec::new();
        for node in netlist.nodes() {
            let name = String::from_utf8_lossy(&node.description).into_owned();
            match node.kind {
                NodeKind::Switch => {
                    switches.insert(node.guid);
                }
                _ => {
                    let host = host_name(&name).to_owned();
                    match hosts.iter_mut().find(|known| known.name == host) {
                        Some(known) => known.adapters.push(node.guid),
                        None => hosts.push(Host {
                            name: host,
                            adapters: vec![node.guid],
                        }),
                    }
                }
            }
            names.insert(node.guid, name);
        }
        let leaves = peers.iter().filter(|(end, _)| !switches.contains(&end.0));
        Topology {
            leaves: leaves.map(|(_, peer)| peer.0).collect(),
            names,
            switches,
            peers,
            rate: netlist.cables()[0].rate(),
            hosts,
        }
    }

    /// All ports of a node that have a cable.
    pub(super) fn ports(&self, node: Guid) -> impl Iterator<Item = Port> + '_ {
        let from = (node, PortNum(0));
        let to = (node, PortNum(u8::MAX));
        self.peers.range(from..=to).map(|(&port, _)| port)
    }

    /// The leaf of the host at which rsm runs.
    pub(super) fn home(&self) -> Guid {
        self.peers[&(self.hosts[0].adapters[0], PortNum(1))].0
    }

    /// A readable name of a port.
    pub(super) fn label(&self, port: Port) -> String {
        format!("{}:{}", self.names[&port.0], port.1.0)
    }

    /// The first host whose index belongs to the other partition.
    pub(super) fn first_guest(&self) -> usize {
        self.hosts.len() - self.hosts.len() / GUESTS
    }
}

/// The forwarding tables and LIDs of a fabric at one moment.
pub(super) struct Tables {
    lfts: BTreeMap<Guid, Vec<u8>>,
    lids: BTreeMap<Guid, u16>,
}

impl Tables {
    /// The ports through which a packet from one adapter to another leaves nodes.
    fn exits(&self, topology: &Topology, from: Guid, to: Guid) -> Vec<Port> {
        let mut exits = vec![(from, PortNum(1))];
        for _ in 0..MAX_HOPS {
            let at = exits
                .last()
                .and_then(|exit| topology.peers.get(exit))
                .map(|peer| peer.0);
            let Some((node, table)) = at.and_then(|node| Some((node, self.lfts.get(&node)?)))
            else {
                break;
            };
            let exit = table.get(usize::from(self.lids[&to])).copied();
            let exit = exit.map(|exit| (node, PortNum(exit)));
            let Some(exit) = exit.filter(|exit| topology.peers.contains_key(exit)) else {
                break;
            };
            exits.push(exit);
        }
        exits
    }

    /// The paths of a job with these hosts.
    pub(super) fn paths(&self, topology: &Topology, job: &[usize]) -> Paths {
        let mut paths = Paths::default();
        let adapters = |host: usize| topology.hosts[host].adapters.iter().enumerate();
        for (&from, &to) in job
            .iter()
            .flat_map(|from| job.iter().map(move |to| (from, to)))
        {
            if from == to {
                continue;
            }
            for (rail, &source) in adapters(from) {
                for (other, &destination) in adapters(to) {
                    let exits = self.exits(topology, source, destination);
                    if rail == other {
                        paths.rails.extend(exits.iter().copied());
                    }
                    paths.exits.extend(exits);
                }
            }
        }
        paths
    }
}

/// The paths of a job.
#[derive(Default)]
pub(super) struct Paths {
    /// The ports through which packets between adapters of one rail leave nodes.
    pub(super) rails: BTreeSet<Port>,
    /// The ports through which packets between any two adapters leave nodes.
    pub(super) exits: BTreeSet<Port>,
}

impl Paths {
    /// Whether a packet of the job crosses the cable of one of `ports`, in either direction.
    pub(super) fn cross(&self, topology: &Topology, ports: &BTreeSet<Port>) -> bool {
        let crosses = |port: &Port| {
            let peer = topology.peers.get(port);
            self.exits.contains(port) || peer.is_some_and(|peer| self.exits.contains(peer))
        };
        ports.iter().any(crosses)
    }

    /// Adds the paths of another moment.
    pub(super) fn extend(&mut self, other: Paths) {
        self.rails.extend(other.rails);
        self.exits.extend(other.exits);
    }
}

/// A simulated fabric and the rsm that manages it.
pub(super) struct Site {
    pub(super) fabric: &'static str,
    pub(super) topology: Topology,
    /// The ports whose counters were high before rsm started.
    pub(super) scarred: BTreeSet<Port>,
    pub(super) directory: PathBuf,
    // Fields drop in this order: rsm before its fabric.
    rsm: Running,
    hosted: Hosted,
}

impl Site {
    /// Starts the simulation and rsm, and waits until the subnet is up.
    pub(super) fn start(fabric: &'static str) -> Site {
        let netlist = rsm::offline::load(fabric).expect("the generator knows the fabric");
        let topology = Topology::of(&netlist);
        let hosted = Hosted::start(&netlist).expect("the fabric can be served");
        let scarred = scar(&hosted, &topology);
        let directory = hosted.directory().to_owned();
        fs::write(
            directory.join("rsm.toml"),
            "[counters]\nenabled = true\ninterval_s = 1\nports_interval_s = 3\n\
             adapters_interval_s = 5\n",
        )
        .expect("there is room");
        fs::write(directory.join("partitions.conf"), partitions(&topology)).expect("there is room");
        let rsm = served::client(
            &directory,
            &directory.join("fabric.sock"),
            "",
            binaries::rsm(),
        );
        let rsm = rsm.expect("there is room").args([
            "--fabric",
            "umad",
            "--listen",
            "off",
            "--state-dir",
            &directory.join("state").display().to_string(),
            "--config",
            &directory.join("rsm.toml").display().to_string(),
            "--partitions",
            &directory.join("partitions.conf").display().to_string(),
        ]);
        let site = Site {
            fabric,
            topology,
            scarred,
            directory,
            rsm: rsm.spawn().expect("rsm can be started"),
            hosted,
        };
        let is_up = wait_for_every(POLL, LIMIT, || {
            let status = site.rsmctl(&["status", "--format", "json"]);
            status.stdout.contains("\"up\"").then_some(())
        });
        assert!(is_up.is_some(), "{}", site.rsm.stderr_so_far());
        site
    }

    /// Runs a command of rsmctl.
    pub(super) fn rsmctl(&self, arguments: &[&str]) -> Finished {
        let own = tempfile::tempdir_in(&self.directory).expect("there is room");
        let server = format!("unix:{}", self.directory.join("state/rsm.sock").display());
        let rsmctl = Invocation::new(binaries::rsmctl(), own.path());
        let rsmctl = rsmctl.args(["--server", &server]).args(arguments);
        rsmctl.run(LIMIT).expect("rsmctl can be started")
    }

    /// Does something to the fabric.
    pub(super) fn act<R: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Sim) -> R + Send + 'static,
    ) -> R {
        self.hosted.sim.with(act).expect("the simulation runs")
    }

    /// The tables of the switches now.
    pub(super) fn tables(&self) -> Tables {
        let switches = self.topology.switches.clone();
        let adapters: Vec<Guid> = self
            .topology
            .hosts
            .iter()
            .flat_map(|host| host.adapters.iter().copied())
            .collect();
        self.act(move |sim| Tables {
            lfts: switches
                .into_iter()
                .map(|switch| (switch, sim.lft(switch).expect("a switch").to_vec()))
                .collect(),
            lids: adapters
                .into_iter()
                .map(|adapter| {
                    let info = sim.port_info(adapter, PortNum(1)).expect("a port");
                    (adapter, info.lid().0)
                })
                .collect(),
        })
    }

    /// Waits until every cabled port is Active.
    pub(super) fn wait_all_active(&self) {
        let ports: Vec<Port> = self.topology.peers.keys().copied().collect();
        let up = wait_for_every(POLL, LIMIT, || {
            let ports = ports.clone();
            let down = self.act(move |sim| {
                ports.into_iter().find(|&(node, port)| {
                    let info = sim.port_info(node, port).expect("a port");
                    info.port_state() != PortState::Active
                })
            });
            down.is_none().then_some(())
        });
        assert!(up.is_some(), "{}", self.rsm.stderr_so_far());
    }

    /// The rate of the cables with fewer lanes, or with a lower speed.
    pub(super) fn lower_rate(&self, narrow: bool, steps: usize) -> LinkRate {
        let LinkRate { width, speed } = self.topology.rate;
        let speeds = [
            LinkSpeed::Qdr,
            LinkSpeed::Fdr,
            LinkSpeed::Edr,
            LinkSpeed::Hdr,
            LinkSpeed::Ndr,
        ];
        let at = speeds.iter().position(|&other| other == speed);
        let at = at.expect("the fabrics have one of these speeds");
        match narrow {
            true => LinkRate {
                width: [LinkWidth::X1, LinkWidth::X2][steps % 2],
                speed,
            },
            false => LinkRate {
                width,
                speed: speeds[at - 1 - steps % 2],
            },
        }
    }
}

/// Lets the counters of some ports run for a second.
fn scar(hosted: &Hosted, topology: &Topology) -> BTreeSet<Port> {
    let scarred: BTreeSet<Port> = topology.peers.keys().copied().step_by(SCARRED).collect();
    for rate in [2000.0, 0.0] {
        let ports = scarred.clone();
        let set = hosted.sim.with(move |sim| {
            for (node, port) in ports {
                for counter in [
                    Counter::SymbolError,
                    Counter::RcvErrors,
                    Counter::LinkDowned,
                ] {
                    sim.set_errors(node, port, counter, rate).expect("a port");
                }
            }
        });
        set.expect("the simulation runs");
        std::thread::sleep(Duration::from_secs(1));
    }
    scarred
}

/// A file in which the hosts of jobs share a partition, and guests share another one.
fn partitions(topology: &Topology) -> String {
    let members = |hosts: &[Host]| {
        let adapters = hosts.iter().flat_map(|host| &host.adapters);
        let members: Vec<String> = adapters.map(|guid| format!("{guid}=full")).collect();
        members.join(", ")
    };
    let (train, guests) = topology.hosts.split_at(topology.first_guest());
    format!(
        "Default=0x7fff, ipoib : ALL=limited, ALL_SWITCHES=full, SELF=full ;\n\
         train=0x0010 : {} ;\nguests=0x0011 : {} ;\n",
        members(train),
        members(guests)
    )
}
