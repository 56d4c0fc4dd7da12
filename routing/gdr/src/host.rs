//! One host after the match: the roles of its ports, and the port of each GPU.

use std::sync::Arc;

use super::assign::{IMPOSSIBLE, assign};
use super::hosts::HostOrigin;
use super::inventory::{HostInventory, PciAddress, Tier};
use super::join::Joined;
use super::roles::{ReasonedRole, TrafficRole};

/// A host with its matched ports. Ports and GPUs are given by position in the inventory.
#[derive(Clone, Debug)]
pub struct Host {
    /// The name of the host.
    pub name: String,
    /// The inventory.
    pub inventory: Arc<HostInventory>,
    /// The origin of the inventory: the host itself, or a machine type.
    pub origin: HostOrigin,
    /// The time of the inventory, in seconds of the caller's clock.
    pub seen: u64,
    /// The match of each port with the fabric.
    pub joined: Vec<Joined>,
    /// The role of each port, with its reason.
    pub roles: Vec<ReasonedRole>,
    /// The compute ports by slot, working or not: the k-th item is the host's port on rail k.
    /// `None`
    /// if the host lacks a port that its peers have.
    pub slots: Vec<Option<usize>>,
    /// The compute ports at PCIe places that no other host uses; their slots follow from their
    /// leaves.
    pub(super) unplaced: Vec<usize>,
}

/// Weight of the PCIe tier in the cost of pairing a GPU with a port; above all lower parts
/// together.
pub(super) const TIER_WEIGHT: u64 = 1 << 32;
/// Weight of a rail misfit (0 or 1).
const RAIL_WEIGHT: u64 = 1 << 16;
/// Weight of the distance between the two positions; the distance is capped below [`RAIL_WEIGHT`].
const ORDER_WEIGHT: u64 = 1;

impl Host {
    /// Assigns slots to the compute ports in the order of the GPUs that they serve. Does not look
    /// at the slots of other hosts.
    pub(super) fn number_slots(&mut self) {
        let compute = self.compute_ports();
        let order = self.device_order(&compute);
        let assigned = self.assign_among(&compute, |_, _| 0);
        let mut first = vec![(usize::MAX, 0usize); self.inventory.hca_ports.len()];
        for (gpu, ports) in assigned.iter().enumerate() {
            for (choice, &port) in ports.iter().enumerate() {
                first[port] = first[port].min((gpu, choice));
            }
        }
        let mut slots = compute.clone();
        slots.sort_by_key(|port| {
            let place = compute.iter().position(|other| other == port);
            (first[*port].0, place.map(|place| order[place]))
        });
        self.slots = slots.into_iter().map(Some).collect();
    }

    /// The compute ports with a slot, in the order of slots.
    pub fn compute_slots(&self) -> impl Iterator<Item = usize> + '_ {
        self.slots.iter().flatten().copied()
    }

    /// Appends compute ports without a slot to the slots.
    pub(super) fn append_unplaced(&mut self) {
        let unplaced = std::mem::take(&mut self.unplaced);
        self.slots.extend(unplaced.into_iter().map(Some));
    }

    /// The compute ports, in the order of the inventory.
    pub fn compute_ports(&self) -> Vec<usize> {
        let is_compute = |port: &usize| self.roles[*port].0 == TrafficRole::Compute;
        (0..self.roles.len()).filter(is_compute).collect()
    }

    /// Whether traffic can pass a port, as far as known. With a fabric, the port must be matched;
    /// without one, its inventory must not say that it is down.
    pub fn works(&self, port: usize, has_fabric: bool) -> bool {
        match has_fabric {
            true => self
                .joined
                .get(port)
                .is_some_and(|joined| joined.port().is_some()),
            false => self.inventory.hca_ports[port].active != Some(false),
        }
    }

    /// The ports of each GPU among `ports`, best first. `misfit` returns 1 for a GPU and a port
    /// that do not fit the rails, and 0 otherwise.
    pub(super) fn assign_among(
        &self,
        ports: &[usize],
        misfit: impl Fn(usize, usize) -> u64,
    ) -> Vec<Vec<usize>> {
        let gpus = self.inventory.gpus.len();
        let order = self.device_order(ports);
        let tier = |gpu, port| {
            self.inventory
                .tier(gpu, port)
                .map_or(5, |tier: Tier| tier as u64)
        };
        // Within one tier, GPUs and ports are paired in their orders. The square makes two small
        // shifts cheaper than one large shift, so that no two pairings cross.
        let shift = |gpu: usize, place: usize| {
            let gpu_position = (2 * gpu + 1) * ports.len();
            let port_position = (2 * order[place] + 1) * gpus;
            let distance = gpu_position.abs_diff(port_position) as u64;
            distance * distance / (4 * gpus as u64).max(1)
        };
        let cost = |gpu: usize, place: usize| {
            let port = ports[place];
            let major = tier(gpu, port) * TIER_WEIGHT + misfit(gpu, port).min(1) * RAIL_WEIGHT;
            (major + shift(gpu, place).min(RAIL_WEIGHT - 1) * ORDER_WEIGHT).min(IMPOSSIBLE)
        };
        let assigned = assign(gpus, ports.len(), cost);
        assigned
            .into_iter()
            .map(|places| places.into_iter().map(|place| ports[place]).collect())
            .collect()
    }

    /// The rank of each of these ports by PCI address, or by position in the list if an address is
    /// missing.
    fn device_order(&self, ports: &[usize]) -> Vec<usize> {
        let address = |port: usize| self.inventory.hca_ports[port].pci;
        let known = ports.iter().all(|&port| address(port).is_some());
        let mut order: Vec<usize> = (0..ports.len()).collect();
        if known {
            order.sort_by_key(|&place| {
                (
                    address(ports[place]),
                    self.inventory.hca_ports[ports[place]].port,
                )
            });
        }
        let mut rank = vec![0; ports.len()];
        for (device_rank, &place) in order.iter().enumerate() {
            rank[place] = device_rank;
        }
        rank
    }

    /// The compute ports sorted by PCI address; `None` if an address is missing, or two ports have
    /// the same PCIe place.
    pub(super) fn pci_order(&self) -> Option<Vec<usize>> {
        let key = |&port: &usize| -> Option<(PciAddress, u8)> {
            let entry = &self.inventory.hca_ports[port];
            Some((entry.pci?, entry.port))
        };
        let mut keyed: Vec<((PciAddress, u8), usize)> = self
            .compute_slots()
            .map(|port| Some((key(&port)?, port)))
            .collect::<Option<_>>()?;
        keyed.sort_unstable();
        let unique = keyed.windows(2).all(|pair| pair[0].0 != pair[1].0);
        unique.then(|| keyed.into_iter().map(|(_, port)| port).collect())
    }

    /// The compute ports in the order in which software counts devices: by name, with numbers in
    /// natural order. `None` if a device has no name.
    pub(super) fn device_names_order(&self) -> Option<Vec<usize>> {
        let key = |port: usize| -> Option<(&str, u64, u8)> {
            let entry = &self.inventory.hca_ports[port];
            let name = entry.device.as_deref()?;
            let stem = name.trim_end_matches(|char: char| char.is_ascii_digit());
            let number = name[stem.len()..].parse().unwrap_or(0);
            Some((stem, number, entry.port))
        };
        let mut keyed: Vec<_> = self
            .compute_slots()
            .map(|port| Some((key(port)?, port)))
            .collect::<Option<Vec<_>>>()?;
        keyed.sort_unstable();
        Some(keyed.into_iter().map(|(_, port)| port).collect())
    }

    /// The slot of a port; `None` if the port has no slot.
    pub fn slot(&self, port: usize) -> Option<usize> {
        self.slots.iter().position(|&other| other == Some(port))
    }
}
