//! The start of a connection: a request for sysfs, or the opening of a device.

use std::collections::{BTreeMap, VecDeque};

use rustix::io::Errno;

use super::connection::Purpose;
use super::device::{DeviceView, Refusal, path_bytes};
use super::event_loop::EventLoop;
use super::port::{NodePort, ServedPort};
use super::tree::Tree;
use crate::layer::MadLayer;
use crate::protocol::{ASK_TREE, Hello, OPEN_ISSM, OPEN_UMAD, split};

impl EventLoop {
    /// Handles the first packet of a connection, and answers it. Returns whether the connection
    /// stays open.
    pub(super) fn hello(&mut self, id: u64, packet: &[u8]) -> bool {
        let Some((hello, name)) = split::<Hello>(packet) else {
            return false;
        };
        let opened = DeviceView::find(&self.sim, self.default, &hello, name)
            .and_then(|device_view| self.open(id, &hello, &device_view));
        let Some(connection) = self.connections.get(&id) else {
            return false;
        };
        let (answer, stays_open) = match opened {
            Ok(Some(body)) => (connection.answer(0, &body), hello.what != ASK_TREE),
            // The answer is sent later.
            Ok(None) => (Ok(()), true),
            Err(refusal) => {
                let errno = refusal.errno.raw_os_error() as u32;
                (connection.answer(errno, refusal.reason.as_bytes()), false)
            }
        };
        answer.is_ok() && stays_open
    }

    /// Opens the sysfs or the device that a Hello requests. Returns the body of the answer, or
    /// `None` if the answer is sent later.
    fn open(
        &mut self,
        id: u64,
        hello: &Hello,
        device_view: &DeviceView,
    ) -> Result<Option<Vec<u8>>, Refusal> {
        for &port in &device_view.ports {
            self.close_ended_connections((device_view.node, port));
        }
        match hello.what {
            ASK_TREE => self.tree(device_view).map(Some),
            OPEN_UMAD => self.open_umad(id, device_view.port(hello.device)?),
            OPEN_ISSM => {
                self.open_issm(id, device_view.port(hello.device)?, hello.nonblocking != 0)
            }
            _ => Err(Refusal::new(
                Errno::PROTO,
                "the shim requests an unknown purpose",
            )),
        }
    }

    /// Updates the sysfs directory of a node. Returns the bytes of its path.
    fn tree(&mut self, device_view: &DeviceView) -> Result<Vec<u8>, Refusal> {
        let facts = device_view.facts(&self.sim)?;
        let name = device_view.directory();
        let root = self.directory.join(&name);
        let tree = self.trees.entry(name).or_insert_with(|| Tree::new(root));
        tree.update(&facts)
            .map_err(|error| Refusal::broken(&error))?;
        Ok(path_bytes(tree.root()).to_vec())
    }

    /// The served port `key`, which is attached to the fabric on first use.
    fn port(&mut self, key: NodePort) -> Result<&mut ServedPort, Refusal> {
        if !self.ports.contains_key(&key) {
            let attached = self.arrivals.attach(&self.sim, key, &self.wake);
            let registered = self.registered.get(&key).copied().unwrap_or(0);
            let port = ServedPort {
                layer: MadLayer::after(registered),
                wire: attached.map_err(|error| Refusal::broken(&error))?,
                files: BTreeMap::new(),
                is_sm: None,
                want_is_sm: VecDeque::new(),
            };
            self.ports.insert(key, port);
        }
        self.ports
            .get_mut(&key)
            .ok_or_else(|| Refusal::new(Errno::IO, "the port is gone"))
    }

    /// Makes a connection an open device for datagrams.
    fn open_umad(&mut self, id: u64, key: NodePort) -> Result<Option<Vec<u8>>, Refusal> {
        let port = self.port(key)?;
        let file = port.layer.open();
        port.files.insert(file, id);
        self.set_purpose(id, Purpose::Umad(key, file));
        Ok(Some(Vec::new()))
    }

    /// Makes a connection the holder of IsSM. While another connection holds IsSM, a blocking open
    /// waits, and a non-blocking open fails with EAGAIN.
    fn open_issm(
        &mut self,
        id: u64,
        key: NodePort,
        nonblocking: bool,
    ) -> Result<Option<Vec<u8>>, Refusal> {
        let port = self.port(key)?;
        if port.is_sm.is_some() {
            if nonblocking {
                return Err(Refusal::new(
                    Errno::AGAIN,
                    "another process holds IsSM of the port",
                ));
            }
            port.want_is_sm.push_back(id);
            self.set_purpose(id, Purpose::WaitsForIsSm(key));
            return Ok(None);
        }
        self.set_is_sm(key, Some(id));
        Ok(Some(Vec::new()))
    }

    /// Makes `holder` the holder of a port's IsSM; `None` clears IsSM.
    pub(super) fn set_is_sm(&mut self, key: NodePort, holder: Option<u64>) {
        let Some(port) = self.ports.get_mut(&key) else {
            return;
        };
        port.is_sm = holder;
        let (client, is_set) = (port.wire.client(), holder.is_some());
        if let Err(error) = self.sim.with(move |sim| sim.set_is_sm(client, is_set)) {
            tracing::debug!(%error, "IsSM of a port was not changed");
        }
        if let Some(id) = holder {
            self.set_purpose(id, Purpose::IsSm(key));
        }
    }

    fn set_purpose(&mut self, id: u64, purpose: Purpose) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.purpose = purpose;
        }
    }
}
