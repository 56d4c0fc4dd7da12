use std::fmt;

use rsm_ids::PortNum;
use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::attribute;
use crate::wire::bits::newtype_fields;

/// A partition key (IBA 10.9.1): 15 bits that identify the partition, and a bit for full
/// membership.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PKey(pub u16);

impl PKey {
    /// An entry that holds no key.
    pub const INVALID: PKey = PKey(0);
    /// The P_Key of full membership in the default partition.
    pub const DEFAULT_FULL: PKey = PKey(0xFFFF);
    /// The P_Key of limited membership in the default partition.
    pub const DEFAULT_LIMITED: PKey = PKey(0x7FFF);

    const FULL: u16 = 0x8000;

    /// The key without its membership bit, which identifies the partition.
    pub const fn base(self) -> u16 {
        self.0 & !Self::FULL
    }

    /// Whether the key means full membership. Limited members cannot communicate with each other.
    pub const fn is_full(self) -> bool {
        self.0 & Self::FULL != 0
    }

    /// Whether the key is valid: the keys of partition 0 are invalid.
    pub const fn is_valid(self) -> bool {
        self.base() != 0
    }
}

newtype_fields!(PKey: u16);

impl fmt::Display for PKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#06x}", self.0)
    }
}

impl fmt::Debug for PKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// One block of a port's P_KeyTable (IBA 14.2.5.7): 32 partition keys.
///
/// ```text
/// byte 2 × i .. 2 × i + 1  P_Key 32 × block + i
/// ```
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct PKeyTable {
    p_keys: [U16; Self::ENTRIES],
}

attribute!(PKeyTable, P_KEY_TABLE, "P_KeyTable");

impl PKeyTable {
    /// The number of entries in a block.
    pub const ENTRIES: usize = 32;

    /// The attribute modifier for `block` of `port`: an external port of a switch, or 0 for switch
    /// port 0 and for the port of a CA or router that receives the request.
    pub const fn modifier(port: PortNum, block: u16) -> u32 {
        (port.0 as u32) << 16 | block as u32
    }

    /// The port that a modifier names.
    pub const fn modifier_port(modifier: u32) -> PortNum {
        PortNum((modifier >> 16) as u8)
    }

    /// The block that a modifier names.
    pub const fn modifier_block(modifier: u32) -> u16 {
        modifier as u16
    }

    /// The key at `index` in the block; `None` from [`Self::ENTRIES`] on.
    pub fn p_key(&self, index: usize) -> Option<PKey> {
        self.p_keys.get(index).map(|key| PKey(key.get()))
    }

    /// All entries, in order.
    pub fn p_keys(&self) -> [PKey; Self::ENTRIES] {
        self.p_keys.map(|key| PKey(key.get()))
    }

    /// Replaces all entries.
    pub fn set_p_keys(&mut self, p_keys: [PKey; Self::ENTRIES]) -> &mut Self {
        self.p_keys = p_keys.map(|key| U16::new(key.0));
        self
    }
}
