use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::attribute;

/// NodeDescription (IBA 14.2.5.2): a text for people, UTF-8 by the specification and any bytes in
/// practice.
///
/// ```text
/// byte 0 .. 63  NodeString, padded with NUL; not terminated when all 64 bytes are used
/// ```
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct NodeDescription {
    node_string: [u8; 64],
}

attribute!(NodeDescription, NODE_DESCRIPTION, "NodeDescription");

impl NodeDescription {
    /// A description of the first 64 bytes of `text`.
    pub fn new(text: &[u8]) -> NodeDescription {
        let mut description = NodeDescription::default();
        for (slot, &byte) in description.node_string.iter_mut().zip(text) {
            *slot = byte;
        }
        description
    }

    /// The bytes up to the first NUL.
    pub fn text(&self) -> &[u8] {
        let end = self.node_string.iter().position(|&byte| byte == 0);
        &self.node_string[..end.unwrap_or(self.node_string.len())]
    }
}
