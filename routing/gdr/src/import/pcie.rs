//! Computes the tier between two functions from their paths in the PCIe tree.

use crate::inventory::{
    Gpu, HcaPort, HostInventory, InventoryError, InventorySource, MAX_GPUS, MAX_HCA_PORTS, Tier,
};

/// The path from a NUMA node to a PCIe function.
#[derive(Clone, Debug, Default)]
pub(super) struct Path {
    /// The NUMA node of the host bridge; `None` if it is unknown.
    pub(super) numa: Option<u16>,
    /// The host bridge, as a number unique to it; `None` if the source does not state it.
    pub(super) root: Option<u32>,
    /// The bridges from the host bridge on, each as a number unique to it.
    pub(super) bridges: Vec<u32>,
}

/// How a source counts a PCIe switch, which has an upstream port and a downstream port to each
/// device.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Switches {
    /// Every port of a switch is a bridge of its own, as in the kernel.
    TwoBridges,
    /// The whole switch is one bridge, as in NCCL.
    OneBridge,
}

impl Path {
    /// The tier between two functions. `None` if they share no host bridge and the NUMA node of
    /// either is unknown.
    pub(super) fn tier(&self, other: &Path, switches: Switches) -> Option<Tier> {
        let has_same_root = self.root == other.root;
        let shared_bridges = match has_same_root {
            true => self
                .bridges
                .iter()
                .zip(&other.bridges)
                .take_while(|(a, b)| a == b)
                .count(),
            false => 0,
        };
        if shared_bridges > 0 {
            let bridges_below =
                (self.bridges.len() - shared_bridges).max(other.bridges.len() - shared_bridges);
            let bridges_in_one_switch = match switches {
                Switches::TwoBridges => 1,
                Switches::OneBridge => 0,
            };
            return Some(if bridges_below <= bridges_in_one_switch {
                Tier::Pix
            } else {
                Tier::Pxb
            });
        }
        if has_same_root && self.root.is_some() {
            return Some(Tier::Phb);
        }
        match (self.numa, other.numa) {
            (Some(mine), Some(theirs)) if mine == theirs => Some(Tier::Node),
            (Some(_), Some(_)) => Some(Tier::Sys),
            _ => None,
        }
    }
}

/// The GPUs and ports of a PCIe tree.
#[derive(Default)]
pub(super) struct FoundDevices {
    pub(super) gpus: Vec<(Gpu, Path)>,
    pub(super) ports: Vec<(HcaPort, Path)>,
}

impl FoundDevices {
    /// Builds the host. If the source has not numbered the GPUs (`is_numbered` is false), their
    /// indices follow the order of their addresses.
    ///
    /// # Errors
    /// There are more GPUs or ports than a host can have; no matrix is allocated.
    pub(super) fn into_host(
        mut self,
        source: InventorySource,
        switches: Switches,
        is_numbered: bool,
    ) -> Result<HostInventory, InventoryError> {
        if self.gpus.len() > MAX_GPUS {
            return Err(InventoryError::TooManyGpus(self.gpus.len()));
        }
        if self.ports.len() > MAX_HCA_PORTS {
            return Err(InventoryError::TooManyHcaPorts(self.ports.len()));
        }
        if !is_numbered {
            self.gpus.sort_by_key(|(gpu, _)| gpu.pci);
            for (index, (gpu, _)) in (0u16..).zip(&mut self.gpus) {
                gpu.index = index;
            }
        }
        let mut host = HostInventory::empty(source);
        for (_, gpu) in &self.gpus {
            let tiers = self.ports.iter().map(|(_, port)| gpu.tier(port, switches));
            host.tiers.extend(tiers);
        }
        host.gpus = self.gpus.into_iter().map(|(gpu, _)| gpu).collect();
        host.hca_ports = self.ports.into_iter().map(|(port, _)| port).collect();
        host.sort_gpus();
        Ok(host)
    }
}
