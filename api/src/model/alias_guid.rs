use rsm_ids::Guid;

/// What tells alias GUIDs apart, in the order in which they are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AliasGuidKey {
    /// The GUID of the port.
    pub port: Guid,
    /// Its place in the port's GUIDInfo, from 1: at 0 is the port's own.
    pub index: u8,
}
