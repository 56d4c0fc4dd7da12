//! A fabric that this process simulates and serves. Programs reach the fabric through the preloaded
//! library, and this process reaches it directly.
//!
//! [`Served`](crate::served::Served) leaves the simulation to another process.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::ids::Gid;
use rsm_mad::wire::attr::PortState;
use rsm_mad::wire::header::{AttrId, Method};
use rsm_routing::netlist::{Netlist, NodeKind};
use rsm_sim::live::{self, LiveError, SimHandle};
use rsm_sim::{Sim, SimConfig};
use rsm_sim_host::server::{self, HostServer, HostServerOptions};
use tempfile::TempDir;

use crate::clock::wait_for_every;
use crate::error::Error;
use crate::load::Place;
use crate::process::Invocation;
use crate::served;
use crate::virtual_time::first_host;

/// The default subnet prefix of rsm and of OpenSM.
const PREFIX: u64 = 0xFE80_0000_0000_0000;

/// The interval at which traffic is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// A simulated and served fabric, which ends when dropped.
pub struct Hosted {
    // Fields drop in this order: the server removes its files before the directory is removed.
    _server: HostServer,
    /// The handle to the fabric, which runs in real time.
    pub sim: SimHandle,
    /// The node and port at which programs run: the first host.
    pub place: (Guid, PortNum),
    socket: PathBuf,
    directory: TempDir,
}

impl Hosted {
    /// Simulates `netlist` and serves it, with programs at the first host.
    ///
    /// # Errors
    ///
    /// The simulation cannot start from `netlist`, or a directory or socket cannot be created.
    ///
    /// # Panics
    ///
    /// The netlist has no host.
    pub fn start(netlist: &Netlist) -> Result<Hosted, Box<dyn std::error::Error>> {
        let directory = tempfile::Builder::new().prefix("rsm-hosted-").tempdir()?;
        let socket = directory.path().join("fabric.sock");
        let sim = live::spawn(Sim::new(netlist, SimConfig::default(), 1)?)?;
        let place = first_host(netlist);
        let options = HostServerOptions {
            socket: socket.clone(),
            node: place.0,
        };
        Ok(Hosted {
            _server: server::serve(sim.clone(), &options)?,
            sim,
            place,
            socket,
            directory,
        })
    }

    /// A directory for files, which is removed with the fabric.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Prepares `program` to run at the first host.
    ///
    /// # Errors
    ///
    /// The directory of the program cannot be made.
    pub fn client(&self, program: impl AsRef<Path>) -> Result<Invocation, Error> {
        served::client(self.directory.path(), &self.socket, "", program)
    }

    /// The hosts whose ports are Active, sorted by GUID, and the LID of the manager; LID 0 if no
    /// port is Active.
    ///
    /// # Errors
    ///
    /// The simulation has stopped.
    pub fn hosts(&self) -> Result<(Vec<Place>, Lid), LiveError> {
        self.sim.with(|sim| {
            let mut manager = Lid(0);
            let mut places = Vec::new();
            for (node, kind) in sim.nodes() {
                if kind != NodeKind::Ca {
                    continue;
                }
                let port = PortNum(1);
                let (Ok(info), Ok(guid)) = (sim.port_info(node, port), sim.port_guid(node, port))
                else {
                    continue;
                };
                if info.port_state() == PortState::Active {
                    manager = info.master_sm_lid();
                    places.push(Place {
                        node,
                        port,
                        lid: info.lid(),
                        gid: Gid::new(PREFIX, guid),
                    });
                }
            }
            places.sort_by_key(|place| place.node);
            (places, manager)
        })
    }

    /// The number of forwarding table blocks that switches have received so far.
    ///
    /// # Errors
    ///
    /// The simulation has stopped.
    pub fn blocks_written(&self) -> Result<u64, LiveError> {
        self.sim.with(|sim| {
            let counters = sim.counters();
            counters.received(AttrId::LINEAR_FORWARDING_TABLE, Method::SET)
        })
    }

    /// Waits until switches and hosts have received no request, except Gets of SMInfo, for the time
    /// `quiet`; returns false if `limit` passes first.
    ///
    /// # Errors
    ///
    /// The simulation has stopped.
    pub fn wait_quiet(&self, quiet: Duration, limit: Duration) -> Result<bool, LiveError> {
        let requests = || {
            self.sim.with(|sim| {
                let counters = sim.counters();
                let polls = counters.received(AttrId::SM_INFO, Method::GET);
                counters.gets() + counters.sets() - polls
            })
        };
        let quiet_polls = quiet.as_millis().div_ceil(POLL_INTERVAL.as_millis());
        let (mut before, mut unchanged) = (requests()?, 0);
        let is_quiet = wait_for_every(POLL_INTERVAL, limit, || {
            let seen = requests();
            unchanged = match &seen {
                Ok(seen) if *seen == before => unchanged + 1,
                _ => 0,
            };
            before = seen.unwrap_or(before);
            (unchanged >= quiet_polls).then_some(())
        });
        Ok(is_quiet.is_some())
    }
}
