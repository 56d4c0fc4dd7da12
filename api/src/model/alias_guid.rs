use rsm_ids::Guid;

/// The key of an alias GUID, in the order of lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AliasGuidKey {
    /// The GUID of the port.
    pub port: Guid,
    /// Its index in the port's GUIDInfo, from 1: index 0 is the port GUID.
    pub index: u8,
}
