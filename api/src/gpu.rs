//! The API's interface to the inventories of GPU hosts.

use std::sync::Arc;

use rsm_gdr::Analysis;
use rsm_gdr::hosts::HostError;
use rsm_gdr::inventory::HostInventory;
use tokio::sync::watch;

/// The subject of an inventory: a host or a machine type, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpuSubject<'a> {
    /// A host.
    Host(&'a str),
    /// A machine type, for hosts without an inventory of their own.
    MachineType(&'a str),
}

/// Why an import failed.
#[derive(Debug, thiserror::Error)]
pub enum GpuImportError {
    /// The inventory breaks a rule; nothing has changed.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The store could not write the inventory; nothing has changed.
    #[error("the inventory cannot be kept: {0}")]
    Kept(String),
}

/// The inventories of GPU hosts, and their join with the fabric.
///
/// Methods may take some hundred milliseconds and touch files: not for the threads of an event
/// loop.
pub trait Gpus: Send + Sync + 'static {
    /// Inventories joined with the snapshot in force.
    fn analysis(&self) -> Arc<Analysis>;

    /// Counts changes of inventories.
    fn changes(&self) -> watch::Receiver<u64>;

    /// Keeps an inventory, in place of an earlier one.
    fn import(&self, subject: GpuSubject<'_>, host: HostInventory) -> Result<(), GpuImportError>;

    /// Forgets an inventory. Returns whether there was one.
    fn forget(&self, subject: GpuSubject<'_>) -> Result<bool, GpuImportError>;
}
