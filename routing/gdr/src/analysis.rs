//! Inventories matched with the fabric: the source of hints, findings, plans and files.

use std::collections::BTreeMap;

use super::config::AnalysisConfig;
use super::fabric::{FormerPlace, GpuFabric};
use super::findings::GpuFinding;
use super::hints::GpuHint;
use super::host::Host;
use super::rails::Rails;

/// The reason why hosts and fabric do not match. Without a match, an empty list of findings does
/// not mean that there are no faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// There is no fabric, or its subnet manager has no routes.
    #[error(
        "there is no fabric to join GPU hosts with: a subnet manager has one once it has routes"
    )]
    NoFabric,
    /// There is no inventory, and no host of the fabric looks like the machine type.
    #[error(
        "no GPU host is known: import inventories of hosts, or of a machine type whose devices are named as in the fabric"
    )]
    NoHosts,
    /// No compute port of any host is in the fabric.
    #[error(
        "none of the {hosts} GPU hosts has a compute port in the fabric: expected the GUIDs of the fabric in the \
         inventories, or its names of hosts and devices"
    )]
    NothingJoined {
        /// The number of hosts.
        hosts: usize,
    },
}

/// All results about the GPUs of a fabric at one moment; immutable.
#[derive(Clone, Debug)]
pub struct Analysis {
    /// The fabric; `None` if the analysis uses inventories only.
    pub fabric: Option<GpuFabric>,
    /// The operator's configuration.
    pub config: AnalysisConfig,
    /// The hosts, sorted by name.
    pub hosts: Vec<Host>,
    /// Units and rails, with hosts by position in `hosts`.
    pub rails: Rails,
    /// The hints of each host, by position; one hint for each GPU.
    pub hints: Vec<Vec<GpuHint>>,
    /// The findings, sorted by host and kind.
    pub findings: Vec<GpuFinding>,
    /// The findings of each host that has any, by position in `findings`.
    pub(super) of_host: BTreeMap<String, Vec<usize>>,
}

impl Analysis {
    /// The fabric, if it has at least one compute port of a host.
    ///
    /// # Errors
    /// There is no fabric, no host, or no compute port of a host in the fabric.
    pub fn joined(&self) -> Result<&GpuFabric, JoinError> {
        let fabric = self.fabric.as_ref().ok_or(JoinError::NoFabric)?;
        match (self.hosts.len(), self.rails.units.len()) {
            (0, _) => Err(JoinError::NoHosts),
            (hosts, 0) => Err(JoinError::NothingJoined { hosts }),
            _ => Ok(fabric),
        }
    }

    /// Whether the fabric has a port of the host at `place`, or another device of its name; true
    /// without a fabric.
    pub fn knows_name(&self, place: usize) -> bool {
        let host = &self.hosts[place];
        let is_joined = host.joined.iter().any(|joined| joined.port().is_some());
        let fabric = self.fabric.as_ref();
        is_joined
            || fabric.is_none_or(|fabric| {
                let was_there = fabric.absent_host(&host.name).is_some();
                was_there || fabric.described_host(&host.name).is_some()
            })
    }

    /// The former place of the first port of the host at `place`; `None` if the host was never in
    /// the fabric, or has a port there now.
    pub fn former_place(&self, place: usize) -> Option<&FormerPlace> {
        let host = &self.hosts[place];
        let is_joined = host.joined.iter().any(|joined| joined.port().is_some());
        let absent = self.fabric.as_ref()?.absent_host(&host.name);
        absent.filter(|_| !is_joined).map(|absent| &absent.first)
    }

    /// The findings of a host, including findings shared with other hosts, sorted by kind.
    pub fn findings_of(&self, host: &str) -> impl Iterator<Item = &GpuFinding> {
        let places = self.of_host.get(host).map_or(&[][..], Vec::as_slice);
        places.iter().map(|&place| &self.findings[place])
    }

    /// The names of the fabric's hosts that have findings but no inventory.
    pub fn without_inventory(&self) -> impl Iterator<Item = &str> {
        let names = self.of_host.keys().map(String::as_str);
        names.filter(|name| self.place(name).is_none())
    }

    /// The position of a host in [`Analysis::hosts`]; `None` if no host has this name.
    pub fn place(&self, name: &str) -> Option<usize> {
        self.hosts
            .binary_search_by(|host| host.name.as_str().cmp(name))
            .ok()
    }
}
