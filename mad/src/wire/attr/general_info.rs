use zerocopy::byteorder::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::attribute;

/// NVIDIA GeneralInfo, attribute 0xFF17, with [`GeneralInfo::CAPABILITIES`]: the vendor's
/// attributes and features that an agent knows.
///
/// ```text
/// byte
///    0  capabilities 31 to 0, the most significant bit first
///    4  capabilities 63 to 32
///    8  capabilities 95 to 64
///   12  capabilities 127 to 96
///   16  - to byte 63
/// ```
///
/// Layout: `ib_types.h` of OpenSM 5.24.0.MLNX20250722.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct GeneralInfo {
    words: [U32; 4],
    reserved: [u8; 48],
}

attribute!(GeneralInfo, GENERAL_INFO, "GeneralInfo");

impl GeneralInfo {
    /// The attribute modifier of the capabilities. Modifiers 0 to 3 show hardware, firmware and
    /// software.
    pub const CAPABILITIES: u32 = 4;

    /// The capabilities that the device announces.
    pub fn capabilities(&self) -> Capabilities {
        Capabilities(self.words.map(U32::get))
    }

    /// Sets [`Self::capabilities`].
    pub fn set_capabilities(&mut self, capabilities: Capabilities) -> &mut Self {
        self.words = capabilities.0.map(U32::new);
        self
    }
}

/// The capabilities of an agent in [`GeneralInfo`]: number *n* is bit *n* mod 32 of word *n* / 32.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Capabilities(pub [u32; 4]);

impl Capabilities {
    /// The empty set, for a device that was not queried or does not support GeneralInfo.
    pub const NONE: Capabilities = Capabilities([0; 4]);

    /// Whether the agent has `capability`.
    pub const fn has(self, capability: Capability) -> bool {
        let number = capability as usize;
        self.0[number / 32] >> (number % 32) & 1 != 0
    }

    /// The set with `capability` added.
    #[must_use]
    pub const fn with(mut self, capability: Capability) -> Capabilities {
        let number = capability as usize;
        self.0[number / 32] |= 1 << (number % 32);
        self
    }

    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self == Capabilities::NONE
    }

    /// The capabilities that have a name, in the order of their numbers.
    pub fn named(self) -> impl Iterator<Item = Capability> {
        let all = Capability::ALL.iter().copied();
        all.filter(move |&capability| self.has(capability))
    }

    /// The numbers of the capabilities that have no name, in order.
    pub fn unnamed(self) -> impl Iterator<Item = u8> {
        (0..128u8).filter(move |&number| {
            let is_set = self.0[usize::from(number) / 32] >> (number % 32) & 1 != 0;
            is_set && !Capability::ALL.iter().any(|&named| named as u8 == number)
        })
    }
}

/// Defines the capabilities that have a name, each with its number and its text.
macro_rules! capabilities {
    ($($(#[$doc:meta])* $name:ident = $number:literal $text:literal,)*) => {
        /// A capability in [`GeneralInfo`]; its code is its number there.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum Capability {
            $($(#[$doc])* $name = $number,)*
        }

        impl Capability {
            /// Every capability with a name, in the order of their numbers.
            pub const ALL: &'static [Capability] = &[$(Capability::$name,)*];

            /// The name of the capability.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Capability::$name => $text,)*
                }
            }
        }
    };
}

capabilities! {
    /// The switch has several forwarding tables, chosen by the port of arrival and the SL.
    PrivateLft = 0 "private LFTs",
    /// The switch has adaptive routing with ARLinearForwardingTable 0xFF22.
    AdaptiveRoutingRev0 = 1 "adaptive routing, revision 0",
    /// The switch has adaptive routing with ARLinearForwardingTable 0xFF23.
    AdaptiveRouting = 2 "adaptive routing",
    /// The device reports temperatures.
    TemperatureSensing = 4 "temperature sensing",
    /// The device reports data of cables.
    CableInfo = 6 "cable info",
    /// The device has ExtendedPortInfo 0xFF90.
    ExtendedPortInfo = 9 "ExtendedPortInfo",
    /// The device gives access to its registers.
    AccessRegister = 10 "AccessRegister",
    /// The switch chooses the private LFT by port and SL.
    PortSlToPrivateLft = 12 "port and SL to private LFT",
    /// The device has ExtendedNodeInfo 0xFF91.
    ExtendedNodeInfo = 13 "ExtendedNodeInfo",
    /// The device has virtual ports.
    Virtualization = 15 "virtual ports",
    /// The switch has aggregation nodes (SHARP).
    SharpAggregationNode = 18 "aggregation node",
    /// The device supports passwords of cables.
    CableInfoPassword = 19 "cable info with password",
    /// The switch maps VLs to VLs by switch ID.
    VlToVlPerSwid = 20 "VL to VL by SWID",
    /// The device marks special ports in ExtendedPortInfo.
    SpecialPortMarking = 21 "special ports marked",
    /// The device has VPortGUIDInfo, the GUIDs of virtual ports.
    VPortGuidInfo = 22 "VPortGUIDInfo",
    /// The switch can force sub group 0 for each private LFT.
    ForceSubGroup0 = 23 "sub-group 0 forced by private LFT",
    /// The ports have a QoSConfigSL, with limits of rates.
    QosSlRateLimit = 24 "rate limits by SL",
    /// The virtual ports have a QoSConfigSL, with limits of rates.
    QosSlVPortRateLimit = 25 "rate limits of virtual ports by SL",
    /// The device sends trap 128 with more detail.
    EnhancedTrap128 = 28 "enhanced trap 128",
    /// The adapter reorders packets that arrive out of order.
    OutOfOrder = 30 "packets out of order",
    /// The device supports the banks of cables.
    CableInfoBank = 43 "cable info with banks",
    /// The device has the vendor's congestion control (DCQCN).
    CongestionControl = 44 "congestion control",
    /// The device has adaptive time-outs of the transport.
    AdaptiveTimeout = 45 "adaptive time-outs",
    /// The device supports the LIDs of routers.
    RouterLid = 48 "router LIDs",
    /// The switch supports a split forwarding table.
    LftSplit = 49 "split LFT",
    /// The device has QoSConfigVL.
    QosConfigVl = 51 "QoSConfigVL",
    /// The switch acts on faults without a request from the manager.
    FastRecovery = 52 "fast recovery",
    /// The device has the watchdog of credits.
    CreditWatchdog = 53 "credit watchdog",
    /// The device has RailFilterConfig.
    RailFilter = 56 "rail filter",
    /// The device has hash-based forwarding of NVLink.
    NvlHbf = 57 "NVLink HBF",
    /// The ports can be contained and drained.
    ContainAndDrain = 59 "contain and drain",
    /// The device has ProfilesConfig.
    ProfilesConfig = 60 "profiles",
    /// The device has BERConfig.
    BerConfig = 61 "bit error configuration",
    /// The second version of [`Capability::OutOfOrder`].
    OutOfOrderV2 = 62 "packets out of order, version 2",
    /// The device has weights of buffers for each VL.
    VlBufferWeight = 63 "buffer weights by VL",
    /// The device has EndPortPlaneFilterConfig.
    EndPortPlaneFilter = 64 "plane filter of end ports",
    /// The device has EntryPlaneFilter.
    EntryPlaneFilter = 65 "plane filter at entry",
    /// The device fills in UsedBandwidth of ExtendedPortInfo.
    BandwidthUtilization = 66 "bandwidth utilisation",
    /// The switch has ExtendedSwitchInfo 0xFF92.
    ExtendedSwitchInfo = 67 "ExtendedSwitchInfo",
    /// The device fills in UnhealthyReason of ExtendedPortInfo.
    UnhealthyReason = 69 "unhealthy reason",
    /// The switch has private LFTs for multicast.
    MulticastPrivateLft = 70 "private multicast LFTs",
    /// The switch has the second part of private LFTs for multicast.
    MulticastPrivateLftMap = 71 "private multicast LFT maps",
    /// The switch supports in-service firmware updates.
    Issu = 74 "in-service update",
    /// The device has PortRecoveryPolicyConfig.
    PortRecoveryPolicy = 76 "port recovery policy",
    /// The planes of a port may differ.
    PlaneAsymmetry = 78 "asymmetric planes",
    /// Links retrain without a request from the manager.
    AutoRetrain = 81 "automatic retraining",
}
