use rsm_ids::Lid;
use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{components, narrow, record, widen};
use crate::wire::attr::SmInfo;
use crate::wire::bits::bits;

/// SMInfoRecord (IBA 15.2.5.10): a subnet manager, the answering manager included.
///
/// ```text
/// byte  0  LID             | -
///       4  SMInfo, 21 bytes
///      25  - to byte 31
/// ```
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct SmInfoRecord {
    lid: U16,
    reserved_2: [u8; 2],
    sm_info: [u8; 21],
    reserved: [u8; 7],
}

record!(SmInfoRecord, 0x0018, "SMInfoRecord");

bits! { SmInfoRecord {
    /// The LID of the port behind which the manager runs.
    lid, set_lid: Lid = lid;
} }

components! { SmInfoRecord {
    0 LID = "LID" at 0, 16;
    2 GUID = "GUID" at 32, 64;
    3 SM_KEY = "SM_Key" at 96, 64;
    4 ACT_COUNT = "ActCount" at 160, 32;
    5 PRIORITY = "Priority" at 192, 4;
    6 SM_STATE = "SMState" at 196, 4;
} }

impl SmInfoRecord {
    /// The SMInfo of the manager.
    pub fn sm_info(&self) -> SmInfo {
        widen(&self.sm_info)
    }

    /// Sets [`Self::sm_info`].
    pub fn set_sm_info(&mut self, info: &SmInfo) -> &mut Self {
        self.sm_info = narrow(info);
        self
    }
}
