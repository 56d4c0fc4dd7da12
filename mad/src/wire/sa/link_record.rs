use rsm_ids::{Lid, PortNum};
use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{components, record};
use crate::wire::bits::bits;

/// LinkRecord (IBA 15.2.5.13): a cable, seen from one of its ends.
///
/// ```text
/// byte  0  FromLID         | FromPort | ToPort
///       4  ToLID           | -
/// ```
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct LinkRecord {
    from_lid: U16,
    from_port: u8,
    to_port: u8,
    to_lid: U16,
    reserved: [u8; 2],
}

record!(LinkRecord, 0x0020, "LinkRecord");

bits! { LinkRecord {
    /// The base LID of one end; for a switch the base LID of its port 0.
    from_lid, set_from_lid: Lid = from_lid;
    /// The number of the port at that end.
    from_port, set_from_port: PortNum = from_port;
    /// The port at the other end.
    to_port, set_to_port: PortNum = to_port;
    /// The base LID of the other end; for a switch the base LID of its port 0.
    to_lid, set_to_lid: Lid = to_lid;
} }

components! { LinkRecord {
    0 FROM_LID = "FromLID" at 0, 16;
    1 FROM_PORT = "FromPort" at 16, 8;
    2 TO_PORT = "ToPort" at 24, 8;
    3 TO_LID = "ToLID" at 32, 16;
} }
