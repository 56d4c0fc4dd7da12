use rsm_ids::Guid;

/// The key of an alias GUID, by which lists are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AliasGuidKey {
    /// The GUID of the port.
    pub port: Guid,
    /// The index in the port's GUIDInfo, from 1: index 0 is the port GUID.
    pub index: u8,
}
