use rsm_ids::{LinkSpeed, PortNum};
use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::attribute;
use crate::wire::bits::bits;
use crate::wire::codes::{bit_mask, code_enum};

bit_mask! {
    /// The capabilities in [`PortInfoExtended`].
    PortInfoExtendedCapabilities(u32) {
        /// The modes of forward error correction are valid.
        IS_FEC_MODE_SUPPORTED = 0x0000_0001 "IsFECModeSupported",
    }
}

code_enum! {
    /// The forward error correction of a link, FECModeActive.
    FecMode {
        /// The link has no error correction.
        None = 0 "none",
        /// The link uses a fire code.
        FireCode = 1 "fire code",
        /// The link uses a Reed-Solomon code.
        ReedSolomon = 2 "RS",
        /// The link uses a Reed-Solomon code of low latency.
        LowLatencyReedSolomon = 3 "low-latency RS",
    }
}

/// PortInfoExtended, attribute 0x33: forward error correction. Each pair of masks has a bit for
/// each mode.
///
/// ```text
/// byte  15                          0 | 15                          0
///    0  CapabilityMask
///    4  FECModeActive                 | FDRFECModeSupported
///    8  FDRFECModeEnabled             | EDRFECModeSupported
///   12  EDRFECModeEnabled             | HDRFECModeSupported
///   16  HDRFECModeEnabled             | NDRFECModeSupported
///   20  NDRFECModeEnabled             | - to byte 63
/// ```
///
/// Layout: `ib_types.h` of OpenSM up to HDR; libibmad's table of fields for NDR.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct PortInfoExtended {
    capability_mask: U32,
    fec_mode_active: U16,
    fdr_supported: U16,
    fdr_enabled: U16,
    edr_supported: U16,
    edr_enabled: U16,
    hdr_supported: U16,
    hdr_enabled: U16,
    ndr_supported: U16,
    ndr_enabled: U16,
    reserved: [u8; 42],
}

attribute!(PortInfoExtended, PORT_INFO_EXTENDED, "PortInfoExtended");

bits! { PortInfoExtended {
    /// The capabilities, which show the valid fields.
    capability_mask, set_capability_mask: PortInfoExtendedCapabilities = capability_mask;
    /// The code of the active mode; [`Self::fec_mode`] decodes it.
    fec_mode_active, set_fec_mode_active: u16 = fec_mode_active;
    /// The modes that the port supports at FDR.
    fdr_fec_mode_supported, set_fdr_fec_mode_supported: u16 = fdr_supported;
    /// The modes that the port is allowed to use at FDR.
    fdr_fec_mode_enabled, set_fdr_fec_mode_enabled: u16 = fdr_enabled;
    /// The modes that the port supports at EDR.
    edr_fec_mode_supported, set_edr_fec_mode_supported: u16 = edr_supported;
    /// The modes that the port is allowed to use at EDR.
    edr_fec_mode_enabled, set_edr_fec_mode_enabled: u16 = edr_enabled;
    /// The modes that the port supports at HDR.
    hdr_fec_mode_supported, set_hdr_fec_mode_supported: u16 = hdr_supported;
    /// The modes that the port is allowed to use at HDR.
    hdr_fec_mode_enabled, set_hdr_fec_mode_enabled: u16 = hdr_enabled;
    /// The modes that the port supports at NDR.
    ndr_fec_mode_supported, set_ndr_fec_mode_supported: u16 = ndr_supported;
    /// The modes that the port is allowed to use at NDR.
    ndr_fec_mode_enabled, set_ndr_fec_mode_enabled: u16 = ndr_enabled;
} }

impl PortInfoExtended {
    /// The attribute modifier for `port`.
    pub const fn modifier(port: PortNum) -> u32 {
        port.0 as u32
    }

    /// The active mode; `None` if the port does not report a mode.
    pub fn fec_mode(&self) -> Option<FecMode> {
        let valid = PortInfoExtendedCapabilities::IS_FEC_MODE_SUPPORTED;
        let code = u8::try_from(self.fec_mode_active()).ok()?;
        self.capability_mask()
            .contains(valid)
            .then(|| FecMode::from_code(code))
    }

    /// The masks of supported and enabled modes at `speed`; `None` if the attribute has no masks
    /// for the speed.
    pub fn fec_modes(&self, speed: LinkSpeed) -> Option<(u16, u16)> {
        Some(match speed {
            LinkSpeed::Fdr => (self.fdr_fec_mode_supported(), self.fdr_fec_mode_enabled()),
            LinkSpeed::Edr => (self.edr_fec_mode_supported(), self.edr_fec_mode_enabled()),
            LinkSpeed::Hdr => (self.hdr_fec_mode_supported(), self.hdr_fec_mode_enabled()),
            LinkSpeed::Ndr => (self.ndr_fec_mode_supported(), self.ndr_fec_mode_enabled()),
            _ => return None,
        })
    }
}
