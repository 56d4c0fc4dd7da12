//! A real rsm, started with the preloaded library, on a fabric that the test's process simulates.
//! A test can kill rsm and inspect the fabric while rsm is down.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::ids::Gid;
use rsm_mad::wire::header::{Method, Status};
use rsm_mad::wire::sa::{ClassPortInfo, ComponentMask};
use rsm_routing::netlist::NodeKind;

use crate::answering::Host;
use crate::binaries;
use crate::bringup::LIMIT;
use crate::clock::wait_for_every;
use crate::hosted::Hosted;
use crate::process::Running;
use crate::sa_key;

/// The time after which a host repeats a request, because rsm may be down.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// The maximum number of ports of a switch in the tests.
const MAX_PORTS: u8 = 64;

/// The default subnet prefix.
const PREFIX: u64 = 0xFE80_0000_0000_0000;

/// The blocks of a switch's MulticastForwardingTable, by attribute modifier.
pub type Masks = BTreeMap<u32, [u8; 64]>;

/// A fabric with rsm at its first host.
pub struct Managed {
    /// The fabric, and the access of programs to the fabric.
    pub fabric: Hosted,
    /// The cabled end ports of hosts, sorted by GUID, with the manager's port first.
    pub hosts: Vec<(Guid, PortNum)>,
}

impl Managed {
    /// Simulates and serves the fabric of a generator's specification.
    ///
    /// # Panics
    ///
    /// The fabric cannot be simulated or served.
    #[must_use]
    pub fn start(spec: &str) -> Managed {
        let netlist = rsm::offline::load(spec).expect("the specification is valid");
        let fabric = Hosted::start(&netlist).expect("the fabric can be simulated and served");
        let place = fabric.place;
        let hosts = fabric.sim.with(move |sim| {
            let kinds: BTreeMap<Guid, NodeKind> = sim.nodes().collect();
            let mut hosts: Vec<(Guid, PortNum)> = sim
                .end_ports()
                .filter(|(node, _)| kinds.get(node) == Some(&NodeKind::Ca))
                .filter(|&(node, port)| sim.peer(node, port).is_ok_and(|peer| peer.is_some()))
                .collect();
            hosts.sort_by_key(|&host| (host != place, host));
            hosts
        });
        Managed {
            fabric,
            hosts: hosts.expect("the simulation runs"),
        }
    }

    /// The state directory of rsm.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.fabric.directory().join("state")
    }

    /// Starts rsm at the first host, with [`sa_key::SA_KEY`] as the key of trusted requests, and
    /// waits until it answers `host`.
    ///
    /// # Panics
    ///
    /// rsm does not answer.
    pub fn rsm(&self, host: &mut Host) -> Running {
        let config = sa_key::configuration(&self.fabric.directory().join("conf"));
        self.rsm_with(
            host,
            &["--config", config.to_str().expect("the path is UTF-8")],
        )
    }

    /// Starts rsm like [`Managed::rsm`], without a configuration and with these arguments.
    ///
    /// # Panics
    ///
    /// Panics as [`Managed::rsm`] does.
    pub fn rsm_with(&self, host: &mut Host, arguments: &[&str]) -> Running {
        let rsm = self.fabric.client(binaries::rsm());
        let rsm = rsm
            .expect("the directory of the program can be made")
            .args(["--fabric", "umad"]);
        let rsm = rsm.args(["--listen", "127.0.0.1:0"]).args(arguments);
        let running = rsm
            .arg("--state-dir")
            .arg(self.state())
            .spawn()
            .expect("rsm can be started");
        let answers = wait_for_every(RETRY_INTERVAL, LIMIT, || {
            host.ask_lid(self.lid(0));
            let question = (Method::GET, ComponentMask::NONE, 0);
            let answer = host.try_ask(RETRY_INTERVAL, question, &ClassPortInfo::default())?;
            (answer.status() == Status::OK).then_some(())
        });
        assert!(answers.is_some(), "{}", running.stderr_so_far());
        running
    }

    /// Attaches the host with the index `number`.
    ///
    /// # Panics
    ///
    /// The host is already attached.
    #[must_use]
    pub fn host(&self, number: usize) -> Host {
        let (node, port) = self.hosts[number];
        Host::at(&self.fabric.sim, (node, port), self.lid(0))
    }

    /// The LID of the host with the index `number`, as its port holds it.
    ///
    /// # Panics
    ///
    /// The simulation has ended.
    #[must_use]
    pub fn lid(&self, number: usize) -> Lid {
        let (node, port) = self.hosts[number];
        let lid = self.fabric.sim.with(move |sim| {
            let info = sim.port_info(node, port);
            info.expect("the port exists").lid()
        });
        lid.expect("the simulation runs")
    }

    /// The LIDs of all hosts, in the order of [`Managed::hosts`].
    ///
    /// # Panics
    ///
    /// The simulation has ended.
    #[must_use]
    pub fn lids(&self) -> Vec<Lid> {
        (0..self.hosts.len()).map(|place| self.lid(place)).collect()
    }

    /// The MasterSMLID that the host with the index `number` holds.
    ///
    /// # Panics
    ///
    /// The simulation has ended.
    #[must_use]
    pub fn master_lid(&self, number: usize) -> Lid {
        let (node, port) = self.hosts[number];
        let lid = self.fabric.sim.with(move |sim| {
            let info = sim.port_info(node, port);
            info.expect("the port exists").master_sm_lid()
        });
        lid.expect("the simulation runs")
    }

    /// The MasterSMLID of all hosts, in the order of [`Managed::hosts`].
    ///
    /// # Panics
    ///
    /// The simulation has ended.
    #[must_use]
    pub fn master_lids(&self) -> Vec<Lid> {
        let hosts = self.hosts.clone();
        let lids = self.fabric.sim.with(move |sim| {
            let lid = |&(node, port)| {
                sim.port_info(node, port)
                    .expect("the port exists")
                    .master_sm_lid()
            };
            hosts.iter().map(lid).collect()
        });
        lids.expect("the simulation runs")
    }

    /// The GID of the host with the index `number`.
    ///
    /// # Panics
    ///
    /// The simulation has ended.
    #[must_use]
    pub fn gid(&self, number: usize) -> Gid {
        let (node, port) = self.hosts[number];
        let guid = self.fabric.sim.with(move |sim| {
            let guid = sim.port_guid(node, port);
            guid.expect("the port exists")
        });
        Gid::new(PREFIX, guid.expect("the simulation runs"))
    }

    /// The number of Sets that took effect since the last call, by the node of their sender. The
    /// first call starts the recording and returns nothing.
    ///
    /// # Panics
    ///
    /// The simulation has ended.
    pub fn sets_by_sender(&self) -> BTreeMap<Guid, usize> {
        let journal_read = self.fabric.sim.with(|sim| {
            let journal = sim.take_journal();
            sim.start_journal(1 << 20);
            journal
        });
        let mut senders = BTreeMap::new();
        let journal = journal_read.expect("the simulation runs");
        for entry in journal.iter().flat_map(|journal| journal.entries()) {
            if let Some((node, _)) = entry.sender {
                *senders.entry(node).or_insert(0) += 1;
            }
        }
        senders
    }

    /// Plugs in or unplugs the cable at a port of a switch.
    ///
    /// # Panics
    ///
    /// The port has no cable, or the simulation has ended.
    pub fn set_link(&self, (node, port): (Guid, PortNum), up: bool) {
        let changed = self.fabric.sim.with(move |sim| match up {
            true => sim.relink(node, port),
            false => sim.unlink(node, port),
        });
        changed
            .expect("the simulation runs")
            .expect("the port has a cable");
    }

    /// One port of each cable between switches.
    ///
    /// # Panics
    ///
    /// The simulation has ended.
    #[must_use]
    pub fn cables(&self) -> Vec<(Guid, PortNum)> {
        let found = self.fabric.sim.with(|sim| {
            let kinds: BTreeMap<Guid, _> = sim.nodes().collect();
            let is_switch = |guid: &Guid| kinds.get(guid) == Some(&NodeKind::Switch);
            let mut cables = Vec::new();
            for &guid in kinds.keys().filter(|guid| is_switch(guid)) {
                for number in 1..=MAX_PORTS {
                    let port = PortNum(number);
                    if let Ok(Some(peer)) = sim.peer(guid, port)
                        && is_switch(&peer.0)
                        && guid < peer.0
                    {
                        cables.push((guid, port));
                    }
                }
            }
            cables
        });
        found.expect("the simulation runs")
    }

    /// The multicast forwarding tables of all switches.
    ///
    /// # Panics
    ///
    /// The simulation has ended.
    #[must_use]
    pub fn multicast_tables(&self) -> BTreeMap<Guid, Masks> {
        let tables = self.fabric.sim.with(|sim| {
            let switches = sim.nodes().filter(|&(_, kind)| kind == NodeKind::Switch);
            let switches: Vec<Guid> = switches.map(|(guid, _)| guid).collect();
            let masks = |guid| {
                let blocks = sim.mft(guid).expect("the switch exists");
                blocks.map(|(modifier, block)| (modifier, *block)).collect()
            };
            switches
                .into_iter()
                .map(|guid| (guid, masks(guid)))
                .collect()
        });
        tables.expect("the simulation runs")
    }

    /// The GUIDInfo table of the host with the index `number`.
    ///
    /// # Panics
    ///
    /// The simulation has ended.
    #[must_use]
    pub fn guids(&self, number: usize) -> Vec<Guid> {
        let (node, port) = self.hosts[number];
        let guids = self.fabric.sim.with(move |sim| sim.guids(node, port));
        guids
            .expect("the simulation runs")
            .expect("the port exists")
    }

    /// The number of Sets that have reached agents so far.
    ///
    /// # Panics
    ///
    /// The simulation has ended.
    #[must_use]
    pub fn sets(&self) -> u64 {
        let sets = self.fabric.sim.with(|sim| sim.counters().sets());
        sets.expect("the simulation runs")
    }

    /// The hosts, by index, that receive a packet from the host `from` to a group, each with the
    /// number of copies that it receives.
    ///
    /// # Panics
    ///
    /// The simulation has ended, or the packet loops.
    #[must_use]
    pub fn receivers(&self, from: usize, mlid: Lid) -> BTreeMap<usize, u32> {
        let sender = self.hosts[from];
        let probe = self
            .fabric
            .sim
            .with(move |sim| sim.probe_multicast(sender, mlid, 0));
        let probe = probe
            .expect("the simulation runs")
            .expect("the port exists");
        assert!(!probe.loops, "{mlid:?} from {sender:?}");
        let place = |at| self.hosts.iter().position(|&host| host == at);
        let delivered = probe.delivered.into_iter();
        delivered
            .filter_map(|(at, count)| Some((place(at)?, count)))
            .collect()
    }
}
