//! The hosts with inventories, and the machine types that are used for the other hosts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::fabric::GpuFabric;
use super::inventory::{HostInventory, InventoryError, MAX_NAME};
use rsm_routing::netlist::MAX_NODES;

/// The maximum number of hosts: every host needs a LID.
pub const MAX_HOSTS: usize = MAX_NODES;

/// The maximum number of machine types. A site has a handful; each can be as large as a host's
/// inventory.
pub const MAX_MACHINE_TYPES: usize = 256;

/// The origin of a host's inventory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum HostOrigin {
    /// The host reported the inventory itself.
    Own,
    /// The inventory is the default machine type, because the host reported none. The names of the
    /// host's devices in the fabric match that type.
    MachineType,
}

/// The inventory of one host, with its origin and time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostRecord {
    /// The inventory.
    pub inventory: Arc<HostInventory>,
    /// The origin of the inventory.
    pub origin: HostOrigin,
    /// The time of the inventory in seconds of the caller's clock; 0 for a machine type.
    pub seen: u64,
}

/// The reason why a record is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// The host name does not fit into the files of schedulers and libraries.
    #[error(
        "host name `{0}`: expected at most {MAX_NAME} letters, digits and `._-`, a letter or digit first"
    )]
    Name(String),
    /// There are more hosts than a subnet can have.
    #[error("more than {MAX_HOSTS} hosts")]
    TooManyHosts,
    /// There are more than [`MAX_MACHINE_TYPES`] machine types.
    #[error("more than {MAX_MACHINE_TYPES} machine types")]
    TooManyMachineTypes,
    /// The inventory breaks a rule.
    #[error(transparent)]
    Inventory(#[from] InventoryError),
    /// No machine type has this name.
    #[error("no machine type `{0}`")]
    UnknownMachineType(String),
}

/// Inventories of hosts by name, and machine types by name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GpuInventory {
    hosts: BTreeMap<String, HostRecord>,
    machine_types: BTreeMap<String, Arc<HostInventory>>,
    /// The name of the machine type of hosts without an inventory of their own.
    default: Option<String>,
}

/// Whether a text is valid as a host's name in every rendered file: hosts choose their own names.
pub(crate) fn is_host_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=MAX_NAME).contains(&text.len())
        && text.bytes().all(plain)
        && text.as_bytes()[0].is_ascii_alphanumeric()
}

/// The name, if it is valid as a host's name.
fn checked_name(name: &str) -> Result<String, HostError> {
    match is_host_name(name) {
        true => Ok(name.to_owned()),
        false => Err(HostError::Name(name.chars().take(MAX_NAME).collect())),
    }
}

impl GpuInventory {
    /// Creates an inventory without hosts and machine types.
    pub fn new() -> GpuInventory {
        GpuInventory::default()
    }

    /// Adds or replaces the inventory that a host reported itself at time `seen`.
    ///
    /// # Errors
    /// The name or the inventory breaks a rule; nothing changes then.
    pub fn insert(
        &mut self,
        name: &str,
        inventory: HostInventory,
        seen: u64,
    ) -> Result<(), HostError> {
        self.insert_shared(name, Arc::new(inventory), seen)
    }

    /// Adds or replaces an inventory as [`GpuInventory::insert`] does, without a copy of it.
    ///
    /// # Errors
    /// The errors of [`GpuInventory::insert`].
    pub fn insert_shared(
        &mut self,
        name: &str,
        inventory: Arc<HostInventory>,
        seen: u64,
    ) -> Result<(), HostError> {
        self.may_insert(std::iter::once((name, &*inventory)))?;
        let record = HostRecord {
            inventory,
            origin: HostOrigin::Own,
            seen,
        };
        self.hosts.insert(name.to_owned(), record);
        Ok(())
    }

    /// Whether [`GpuInventory::insert`] accepts all of these hosts, whose names are distinct.
    ///
    /// # Errors
    /// A name or an inventory breaks a rule, or there are too many hosts; the first error is
    /// returned.
    pub fn may_insert<'a>(
        &self,
        hosts: impl Iterator<Item = (&'a str, &'a HostInventory)>,
    ) -> Result<(), HostError> {
        let mut count = self.hosts.len();
        for (name, inventory) in hosts {
            checked_name(name)?;
            inventory.check()?;
            count += usize::from(!self.hosts.contains_key(name));
        }
        match count > MAX_HOSTS && count > self.hosts.len() {
            true => Err(HostError::TooManyHosts),
            false => Ok(()),
        }
    }

    /// Records that a host still had its inventory at time `seen`. Ignores an unknown host.
    pub fn saw(&mut self, name: &str, seen: u64) {
        if let Some(record) = self.hosts.get_mut(name) {
            record.seen = seen;
        }
    }

    /// Removes a host; returns whether it was known.
    pub fn remove(&mut self, name: &str) -> bool {
        self.hosts.remove(name).is_some()
    }

    /// Adds or replaces a machine type, derived from one host's inventory.
    ///
    /// # Errors
    /// The errors of [`GpuInventory::insert`].
    pub fn insert_machine_type(
        &mut self,
        name: &str,
        inventory: &HostInventory,
    ) -> Result<(), HostError> {
        let name = checked_name(name)?;
        inventory.check()?;
        if self.machine_types.len() >= MAX_MACHINE_TYPES && !self.machine_types.contains_key(&name)
        {
            return Err(HostError::TooManyMachineTypes);
        }
        self.machine_types
            .insert(name, Arc::new(inventory.as_machine_type()));
        Ok(())
    }

    /// Removes a machine type; returns whether it was known. If it was the default, hosts without
    /// an inventory of their own no longer have one.
    pub fn remove_machine_type(&mut self, name: &str) -> bool {
        self.default.take_if(|default| default == name);
        self.machine_types.remove(name).is_some()
    }

    /// Sets the machine type of hosts without an inventory of their own; `None` for no type.
    ///
    /// # Errors
    /// No machine type has this name.
    pub fn set_default(&mut self, machine_type: Option<&str>) -> Result<(), HostError> {
        if let Some(name) = machine_type
            && !self.machine_types.contains_key(name)
        {
            return Err(HostError::UnknownMachineType(
                name.chars().take(MAX_NAME).collect(),
            ));
        }
        self.default = machine_type.map(str::to_owned);
        Ok(())
    }

    /// The machine type of hosts without an inventory of their own; `None` if none is set.
    pub fn default_machine_type(&self) -> Option<&str> {
        self.default.as_deref()
    }

    /// The hosts with inventories of their own, by name.
    pub fn hosts(&self) -> &BTreeMap<String, HostRecord> {
        &self.hosts
    }

    /// The machine types, by name.
    pub fn machine_types(&self) -> &BTreeMap<String, Arc<HostInventory>> {
        &self.machine_types
    }

    /// All hosts by name: hosts with inventories of their own, and hosts of the fabric, present or
    /// absent, whose devices match the default machine type.
    pub(super) fn all(&self, fabric: Option<&GpuFabric>) -> Vec<(String, HostRecord)> {
        let mut all: BTreeMap<&str, HostRecord> = self
            .hosts
            .iter()
            .map(|(name, record)| (name.as_str(), record.clone()))
            .collect();
        let machine = self
            .default
            .as_ref()
            .and_then(|name| self.machine_types.get(name));
        if let (Some(machine), Some(fabric)) = (machine, fabric) {
            let own: BTreeSet<&str> = self
                .hosts
                .keys()
                .filter_map(|name| fabric.described_host(name))
                .collect();
            let here = fabric.hosts().filter(|(_, devices)| {
                is_of_machine_type(machine, |device| devices.contains_key(device))
            });
            let gone = fabric
                .absent
                .iter()
                .filter(|(_, absent)| {
                    is_of_machine_type(machine, |device| absent.devices.contains_key(device))
                })
                .map(|(name, _)| name.as_str());
            for name in here.map(|(name, _)| name).chain(gone) {
                if is_host_name(name) && !own.contains(name) {
                    all.entry(name).or_insert_with(|| HostRecord {
                        inventory: Arc::clone(machine),
                        origin: HostOrigin::MachineType,
                        seen: 0,
                    });
                }
            }
        }
        all.into_iter()
            .map(|(name, record)| (name.to_owned(), record))
            .collect()
    }
}

/// Whether a host has enough devices of a machine type to be of that type: at least half of the
/// devices that can be InfiniBand. A storage server with one or two adapters does not match a
/// machine with eight.
fn is_of_machine_type(machine: &HostInventory, has: impl Fn(&str) -> bool) -> bool {
    let devices = machine
        .hca_ports
        .iter()
        .filter(|port| port.may_be_infiniband())
        .filter_map(|port| port.device.as_deref());
    let (mut there, mut all) = (0usize, 0usize);
    for device in devices {
        all += 1;
        there += usize::from(has(device));
    }
    there > 0 && there * 2 >= all
}
