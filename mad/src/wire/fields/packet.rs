//! The fields around an attribute, at offsets from the start of the datagram.

use super::{FieldSpec, bytes, dec, hex, named};
use crate::wire::header::{AttrId, Class, Method, Status};
use crate::wire::rmpp::{RmppFlags, RmppStatus, RmppType};

/// The common MAD header (IBA 13.4.3).
pub const HEADER: &[FieldSpec] = &[
    dec("BaseVersion", 0, 8),
    named::<Class>("MgmtClass", 8, 8),
    dec("ClassVersion", 16, 8),
    named::<Method>("Method", 24, 8),
    named::<Status>("Status", 32, 16),
    hex("ClassSpecific", 48, 16),
    hex("TransactionID", 64, 64),
    named::<AttrId>("AttributeID", 128, 16),
    hex("AttributeModifier", 160, 32),
];

/// The fields that both kinds of SMP add (IBA 14.2.1.1).
pub const SMP: &[FieldSpec] = &[hex("M_Key", 192, 64)];

/// The fields that directed-route SMPs add (IBA 14.2.1.2). D and its 15-bit status share a word of
/// [`HEADER`].
pub const DIRECTED: &[FieldSpec] = &[
    dec("D", 32, 1),
    named::<Status>("DrStatus", 33, 15),
    dec("HopPointer", 48, 8),
    dec("HopCount", 56, 8),
    dec("DrSLID", 256, 16),
    dec("DrDLID", 272, 16),
    bytes("InitialPath", 1024, 512),
    bytes("ReturnPath", 1536, 512),
];

/// The fields that classes with multi-packet transactions add (IBA 13.6.2). NewWindowLast of an ACK
/// and PayloadLength of DATA share one position.
pub const RMPP: &[FieldSpec] = &[
    dec("RMPPVersion", 192, 8),
    named::<RmppType>("RMPPType", 200, 8),
    dec("RRespTime", 208, 5),
    named::<RmppFlags>("RMPPFlags", 213, 3),
    named::<RmppStatus>("RMPPStatus", 216, 8),
    dec("SegmentNumber", 224, 32),
    dec("PayloadLength/NewWindowLast", 256, 32),
];

/// The fields that the SA adds (IBA 15.2.1.1).
pub const SA: &[FieldSpec] = &[
    hex("SM_Key", 288, 64),
    dec("AttributeOffset", 352, 16),
    hex("ComponentMask", 384, 64),
];
