//! An index from alias GUIDs to the ports that have them.

use std::collections::BTreeMap;
use std::sync::Arc;

use rsm_ids::Guid;
use rsm_model::alias_guids::AliasGuids;

/// The alias GUIDs of all ports at one moment.
#[derive(Clone, Default, Debug)]
pub struct AliasIndex {
    /// Alias GUIDs by port GUID and index.
    pub(super) aliases: Arc<AliasGuids>,
    /// Port GUID by alias GUID.
    pub(super) owners: Arc<BTreeMap<Guid, Guid>>,
}

impl AliasIndex {
    /// GUID of the port with this alias GUID; `None` if no port has it.
    pub fn owner(&self, alias: Guid) -> Option<Guid> {
        self.owners.get(&alias).copied()
    }

    /// The alias GUIDs of each port.
    pub fn aliases(&self) -> &Arc<AliasGuids> {
        &self.aliases
    }

    /// Number of alias GUIDs.
    pub(crate) fn len(&self) -> usize {
        self.owners.len()
    }

    /// Whether there are no alias GUIDs.
    pub fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }
}
