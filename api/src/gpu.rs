//! The API's interface to the inventories of GPU hosts.

use std::sync::Arc;

use rsm_gdr::Analysis;
use rsm_gdr::hosts::HostError;
use rsm_gdr::inventory::HostInventory;
use rsm_gdr::render::host_list;
use tokio::sync::watch;

/// The subject of an inventory: a host or a machine type, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpuSubject<'a> {
    /// A host.
    Host(&'a str),
    /// A machine type, for hosts without an inventory of their own.
    MachineType(&'a str),
}

impl GpuSubject<'_> {
    /// The name of the host or the machine type.
    pub const fn name(&self) -> &str {
        match self {
            GpuSubject::Host(name) | GpuSubject::MachineType(name) => name,
        }
    }
}

/// The maximum number of bytes of a list of hosts in an error: gRPC sends errors in headers, of
/// which clients take 16 KiB.
const MAX_LIST_BYTES: usize = 2_000;

/// The hosts as a node list (`gpu-[001-100]`), for errors; a list that is too long is cut, and ends
/// with the number of the others.
pub(crate) fn listed(names: &[&str]) -> String {
    let whole = host_list(names);
    if whole.len() <= MAX_LIST_BYTES {
        return whole;
    }
    let mut bytes = 0;
    let fits = |name: &&&str| {
        bytes += name.len() + 1;
        bytes <= MAX_LIST_BYTES
    };
    let shown = names.iter().take_while(fits).count();
    let rest = names.len() - shown;
    format!("{} and {rest} more", host_list(&names[..shown]))
}

/// The SHA-256 of the content of an import.
pub type InventoryDigest = [u8; 32];

/// An inventory to import.
#[derive(Debug, Clone)]
pub struct GpuImport {
    /// The name of the host.
    pub host: String,
    /// The inventory of the host.
    pub inventory: HostInventory,
    /// The digest of the content from which it was read.
    pub digest: InventoryDigest,
}

/// The hosts with inventories of their own, and the ages of these inventories.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GpuAges {
    /// The age of each inventory in seconds, since it was imported or last checked, with the host;
    /// by ascending age.
    pub ages: Vec<(u64, String)>,
    /// The age in seconds after which an inventory is stale; `None` for no limit.
    pub max_age: Option<u64>,
    /// The host names under which a second machine has sent an inventory.
    pub names_taken_twice: Vec<String>,
}

/// The reason why an import failed.
#[derive(Debug, thiserror::Error)]
pub enum GpuImportError {
    /// The inventory breaks a rule; nothing has changed.
    #[error(transparent)]
    Host(#[from] HostError),
    /// Another machine has already sent its inventory under this name.
    #[error(
        "host `{host}` is another machine: of the {known} GUIDs of adapters in the inventory that \
         came {age} seconds ago, and the {new} of this one, only {common} are the same; two hosts \
         may have one name. If the machine or most of its adapters were exchanged, forget the host \
         `{host}` first"
    )]
    NameTaken {
        /// The name of the host.
        host: String,
        /// The age in seconds of the inventory under this name.
        age: u64,
        /// The number of GUIDs that both inventories have.
        common: usize,
        /// The number of GUIDs in the inventory under this name.
        known: usize,
        /// The number of GUIDs in the new inventory.
        new: usize,
    },
    /// The inventory names no port GUID; the stored inventory of the host does.
    #[error(
        "host `{host}`: this inventory has no GUID of an adapter, and would replace the one with \
         GUIDs that came {age} seconds ago. Import it together with a file that has them, as the \
         agent's (`rsm-agent --print`): files of one host are merged; or forget the host \
         `{host}` first"
    )]
    WithoutGuids {
        /// The name of the host.
        host: String,
        /// The age in seconds of the inventory under this name.
        age: u64,
    },
    /// Several hosts have an inventory that the new one must not replace; nothing has changed.
    #[error("no host is imported: {}", reasons(.without_guids, .other_machines))]
    Several {
        /// The hosts whose new inventory names no port GUID, unlike the stored one.
        without_guids: Vec<String>,
        /// The hosts under whose names other machines have sent inventories.
        other_machines: Vec<String>,
    },
    /// The store could not write the inventory; nothing has changed.
    #[error("the inventory cannot be kept: {0}")]
    Kept(String),
}

/// The reasons why several inventories are refused.
fn reasons(without_guids: &[String], other_machines: &[String]) -> String {
    let list = |names: &[String]| listed(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let mut out = Vec::new();
    if !without_guids.is_empty() {
        out.push(format!(
            "the inventories of {} have no GUID of an adapter, and would replace those with GUIDs. Import \
             each together with a file that has them, as the agent's (`rsm-agent --print`): files of one \
             host are merged; or forget these hosts first",
            list(without_guids)
        ));
    }
    if !other_machines.is_empty() {
        out.push(format!(
            "{} are other machines: fewer than half of the GUIDs of adapters are in the earlier \
             inventories of these names. If the machines or most of their adapters were exchanged, forget \
             these hosts first",
            list(other_machines)
        ));
    }
    out.join("\n")
}

/// The inventories of GPU hosts, and their match with the fabric.
///
/// Methods may take some hundred milliseconds and access files: they must not be called on the
/// threads of an event loop.
pub trait Gpus: Send + Sync + 'static {
    /// The inventories matched with the snapshot in force.
    fn analysis(&self) -> Arc<Analysis>;

    /// The number of changes to inventories so far, for waiting until the next change.
    fn changes(&self) -> watch::Receiver<u64>;

    /// Stores the inventory of a machine type, and replaces an earlier one.
    fn import_machine_type(&self, name: &str, host: HostInventory) -> Result<(), GpuImportError>;

    /// Stores the inventories of hosts, and replaces earlier ones; on an error, none is stored.
    /// Returns the number of inventories that have changed.
    fn import_hosts(&self, hosts: Vec<GpuImport>) -> Result<usize, GpuImportError>;

    /// Whether the host's inventory was imported with this digest. If so, it counts as just seen.
    fn check(&self, host: &str, digest: &InventoryDigest) -> bool;

    /// The ages of the hosts' own inventories.
    fn ages(&self) -> GpuAges;

    /// Removes inventories, all or none. Returns the names without an inventory; if there are any,
    /// nothing is removed.
    fn forget(&self, subjects: &[GpuSubject<'_>]) -> Vec<String>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_hosts_in_errors_are_folded_and_cut() {
        let names: Vec<String> = (1..=5000)
            .map(|number| format!("gpu-{number:04}"))
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(listed(&names), "gpu-[0001-5000]");
        let apart: Vec<String> = (1..=5000)
            .map(|number| format!("gpu-{number:04}-ib"))
            .collect();
        let apart: Vec<&str> = apart.iter().map(String::as_str).collect();
        let text = listed(&apart);
        assert!(text.len() < MAX_LIST_BYTES + 20, "{}", text.len());
        assert!(
            text.ends_with(" more") && text.starts_with("gpu-0001-ib,"),
            "{text}"
        );
    }
}
