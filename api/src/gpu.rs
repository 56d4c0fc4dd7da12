//! What the API asks of whoever keeps the inventories of GPU hosts.

use std::sync::Arc;

use rsm_gdr::Analysis;
use rsm_gdr::hosts::HostError;
use rsm_gdr::inventory::HostInventory;
use tokio::sync::watch;

/// What is imported: a host by its name, or a machine type by its.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpuSubject<'a> {
    /// A host.
    Host(&'a str),
    /// What hosts without an inventory of their own are like.
    MachineType(&'a str),
}

/// Why an inventory is not kept.
#[derive(Debug, thiserror::Error)]
pub enum GpuImportError {
    /// A rule is broken; nothing has changed.
    #[error(transparent)]
    Host(#[from] HostError),
    /// It could not be written to where it survives a restart; nothing has changed.
    #[error("the inventory cannot be kept: {0}")]
    Kept(String),
}

/// The inventories of GPU hosts, and what they make of the fabric.
///
/// Methods may take some hundred milliseconds and touch files: not for the threads of an event
/// loop.
pub trait Gpus: Send + Sync + 'static {
    /// Inventories joined with the snapshot in force.
    fn analysis(&self) -> Arc<Analysis>;

    /// Counts changes of inventories.
    fn changes(&self) -> watch::Receiver<u64>;

    /// Takes an inventory, in place of an earlier one.
    fn import(&self, subject: GpuSubject<'_>, host: HostInventory) -> Result<(), GpuImportError>;

    /// Forgets the inventory of a host. Whether there was one.
    fn forget(&self, host: &str) -> Result<bool, GpuImportError>;
}
