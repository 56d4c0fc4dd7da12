//! The node and the devices that a process sees.

use std::os::unix::ffi::OsStrExt as _;

use rsm_ids::{Guid, PortNum};
use rsm_sim::live::SimHandle;
use rustix::io::Errno;

use super::port::NodePort;
use super::tree::NodeFacts;
use crate::protocol::{ALL_PORTS, Hello, MAX_NAME, VERSION};

/// An error for a process, with its reason.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) errno: Errno,
    /// The reason for the operator; the shim prints it.
    pub(super) reason: String,
}

impl Refusal {
    pub(super) fn new(errno: Errno, reason: impl Into<String>) -> Refusal {
        Refusal {
            errno,
            reason: reason.into(),
        }
    }

    /// The refusal of a request because the fabric or the server has failed.
    pub(super) fn broken(error: &dyn std::error::Error) -> Refusal {
        Refusal::new(Errno::IO, error.to_string())
    }
}

/// The part of the fabric that a process sees: a node, and the ports whose devices the process
/// sees, with the port of `umad0` first.
#[derive(Debug)]
pub(super) struct DeviceView {
    pub(super) node: Guid,
    pub(super) ports: Vec<PortNum>,
}

impl DeviceView {
    /// Finds the node `name`, or `default` if the name is empty, with the ports that `hello` names.
    pub(super) fn find(
        sim: &SimHandle,
        default: Guid,
        hello: &Hello,
        name: &[u8],
    ) -> Result<DeviceView, Refusal> {
        if hello.version != VERSION {
            return Err(Refusal::new(
                Errno::PROTO,
                format!(
                    "the shim speaks version {} of the protocol, the server version {VERSION}",
                    hello.version
                ),
            ));
        }
        let name = match std::str::from_utf8(name) {
            Ok(name) if name.len() <= MAX_NAME => name.to_owned(),
            _ => {
                return Err(Refusal::new(
                    Errno::NODEV,
                    "the name of the node is not text, or is too long",
                ));
            }
        };
        let wanted = match hello.port {
            ALL_PORTS => None,
            number => Some(PortNum(u8::try_from(number).map_err(|_| {
                Refusal::new(Errno::NODEV, format!("{number} is not a port number"))
            })?)),
        };
        let found = sim.with(move |sim| {
            let node = match &name[..] {
                "" => default,
                name => sim.find(name).map_err(|error| error.to_string())?,
            };
            let ports: Vec<PortNum> = sim
                .end_ports()
                .filter(|(guid, _)| *guid == node)
                .map(|(_, port)| port)
                .filter(|port| wanted.is_none_or(|wanted| wanted == *port))
                .collect();
            if ports.is_empty() {
                let wanted = wanted.map_or_else(String::new, |port| format!(" {port}"));
                return Err(format!("node {node} has no end port{wanted}"));
            }
            Ok(DeviceView { node, ports })
        });
        match found {
            Ok(Ok(device_view)) => Ok(device_view),
            Ok(Err(reason)) => Err(Refusal::new(Errno::NODEV, reason)),
            Err(error) => Err(Refusal::broken(&error)),
        }
    }

    /// The port of the device with the number `device`. Fails with ENOENT if there is no such
    /// device.
    pub(super) fn port(&self, device: u32) -> Result<NodePort, Refusal> {
        match self.ports.get(device as usize) {
            Some(port) => Ok((self.node, *port)),
            None => Err(Refusal::new(
                Errno::NOENT,
                format!("there is no device {device}"),
            )),
        }
    }

    /// The facts about the node that its sysfs tree shows.
    pub(super) fn facts(&self, sim: &SimHandle) -> Result<NodeFacts, Refusal> {
        let (node, ports) = (self.node, self.ports.clone());
        match sim.with(move |sim| NodeFacts::of(sim, node, &ports)) {
            Ok(Ok(facts)) => Ok(facts),
            Ok(Err(error)) => Err(Refusal::broken(&error)),
            Err(error) => Err(Refusal::broken(&error)),
        }
    }

    /// The name of the sysfs directory of the device.
    pub(super) fn directory(&self) -> String {
        let mut name = format!("{:016x}", self.node.0);
        for port in &self.ports {
            name.push_str(&format!("-{port}"));
        }
        name
    }
}

/// The bytes of a path, for the shim.
pub(super) fn path_bytes(path: &std::path::Path) -> &[u8] {
    path.as_os_str().as_bytes()
}
