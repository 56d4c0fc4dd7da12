//! Properties of the class and the header of a datagram.

use rsm_mad::wire::MadBytes;
use rsm_mad::wire::header::{Class, MadHeader, Method};

/// The length in bytes of the common header of all datagrams (IBA 13.4.3).
pub(super) const MAD_HEADER_LEN: usize = 24;

/// The length in bytes of the common header and the RMPP header, in classes with RMPP (IBA 13.6.2).
pub(super) const RMPP_HEADER_LEN: usize = 36;

/// Whether datagrams of the class have an RMPP header: device management, the SA, boot management
/// and the second range of vendor classes (IBA 13.6.1).
pub(super) fn has_rmpp(class: Class) -> bool {
    const BOOT_MANAGEMENT: Class = Class(0x12);
    matches!(
        class,
        Class::SUBNET_ADMINISTRATION | Class::DEVICE | BOOT_MANAGEMENT
    ) || has_oui(class)
}

/// Whether the class is in the second range of vendor classes, whose datagrams contain an OUI (IBA
/// 16.5).
pub(super) fn has_oui(class: Class) -> bool {
    (0x30..=0x4F).contains(&class.0)
}

/// The offset in bytes at which the data of a segment begin: after all headers of the class.
pub(super) fn data_offset(class: Class) -> usize {
    const SA: usize = 56;
    const DEVICE: usize = 64;
    const VENDOR: usize = 40;
    match class {
        Class::SUBNET_ADMINISTRATION => SA,
        // The classes of device management, the SA for devices, and boot management.
        Class(0x06 | 0x10 | 0x12) => DEVICE,
        _ if has_oui(class) => VENDOR,
        _ => MAD_HEADER_LEN,
    }
}

/// The OUI in a datagram of the second vendor range.
pub(super) fn oui(mad: &MadBytes) -> [u8; 3] {
    [mad[37], mad[38], mad[39]]
}

/// Whether Linux treats a datagram as an answer: the datagram has the R bit, its method is
/// TrapRepress, or its class is baseboard management and it has the response bit of that class.
pub(super) fn is_response(header: &MadHeader) -> bool {
    header.method().is_response()
        || header.method() == Method::TRAP_REPRESS
        || header.class() == Class::BASEBOARD && header.modifier() & 1 != 0
}
