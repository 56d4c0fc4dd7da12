//! Inventories and fabric joined: the source of hints, findings, plans and files.

use std::collections::BTreeMap;

use super::config::AnalysisConfig;
use super::fabric::GpuFabric;
use super::findings::GpuFinding;
use super::hints::GpuHint;
use super::host::Host;
use super::rails::Rails;

/// Why hosts and fabric together give no answer: there is nothing to look at, so that a lack of
/// faults says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// No fabric was given, or its subnet manager has no routes.
    #[error(
        "there is no fabric to join GPU hosts with: a subnet manager has one once it has routes"
    )]
    NoFabric,
    /// No inventory, and no host of the fabric that looks like the machine type.
    #[error(
        "no GPU host is known: import inventories of hosts, or of a machine type whose devices are named as in the fabric"
    )]
    NoHosts,
    /// No compute port of any host is a port of the fabric.
    #[error(
        "none of the {hosts} GPU hosts has a compute port in the fabric: expected the GUIDs of the fabric in the \
         inventories, or its names of hosts and devices"
    )]
    NothingJoined {
        /// The number of hosts.
        hosts: usize,
    },
}

/// All results about the GPUs of a fabric at one moment. Immutable.
#[derive(Clone, Debug)]
pub struct Analysis {
    /// The fabric; `None` for hosts on their own.
    pub fabric: Option<GpuFabric>,
    /// The operator's configuration.
    pub config: AnalysisConfig,
    /// The hosts in the order of their names.
    pub hosts: Vec<Host>,
    /// Units and rails, with hosts by their places in `hosts`.
    pub rails: Rails,
    /// The hints of each host, by place; one for each GPU.
    pub hints: Vec<Vec<GpuHint>>,
    /// The faults, in the order of hosts and kinds.
    pub findings: Vec<GpuFinding>,
    /// The findings of each host that has any, by their places in `findings`.
    pub(super) of_host: BTreeMap<String, Vec<usize>>,
}

impl Analysis {
    /// The fabric, where at least one compute port of a host is in it.
    ///
    /// # Errors
    /// There is no fabric, no host, or no port of a host in the fabric.
    pub fn joined(&self) -> Result<&GpuFabric, JoinError> {
        let fabric = self.fabric.as_ref().ok_or(JoinError::NoFabric)?;
        match (self.hosts.len(), self.rails.units.len()) {
            (0, _) => Err(JoinError::NoHosts),
            (hosts, 0) => Err(JoinError::NothingJoined { hosts }),
            _ => Ok(fabric),
        }
    }

    /// The findings of a host, also those that it shares with other hosts, in the order of kinds.
    pub fn findings_of(&self, host: &str) -> impl Iterator<Item = &GpuFinding> {
        let places = self.of_host.get(host).map_or(&[][..], Vec::as_slice);
        places.iter().map(|&place| &self.findings[place])
    }

    /// The hosts of the fabric that have findings and no inventory, by name.
    pub fn without_inventory(&self) -> impl Iterator<Item = &str> {
        let names = self.of_host.keys().map(String::as_str);
        names.filter(|name| self.place(name).is_none())
    }

    /// The place of a host in [`Analysis::hosts`].
    pub fn place(&self, name: &str) -> Option<usize> {
        self.hosts
            .binary_search_by(|host| host.name.as_str().cmp(name))
            .ok()
    }
}
