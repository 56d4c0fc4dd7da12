//! The table of habits.

use rsm_routing::netlist::NodeKind;

use super::Personality;

/// The kinds of nodes that can have a habit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeKinds {
    /// Switches can have the habit.
    Switches,
    /// Channel adapters and routers can have the habit.
    Adapters,
    /// All nodes can have the habit.
    All,
}

impl NodeKinds {
    /// Whether a node of this kind can have the habit.
    pub fn contains(self, kind: NodeKind) -> bool {
        match self {
            NodeKinds::Switches => kind == NodeKind::Switch,
            NodeKinds::Adapters => kind != NodeKind::Switch,
            NodeKinds::All => true,
        }
    }
}

/// An entry of [`HABITS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HabitInfo {
    /// The habit that the row describes.
    pub habit: Habit,
    /// The name of the habit on the command line.
    pub name: &'static str,
    /// The kinds of nodes that can have the habit.
    pub nodes: NodeKinds,
    /// One in this many nodes of a mix has the habit; 0 means none.
    pub one_in: u64,
    /// The behaviour of the device.
    pub does: &'static str,
    /// The place where the habit was observed, or the reason why it is legal.
    pub source: &'static str,
}

macro_rules! habits {
    ($($habit:ident: $name:literal, $nodes:ident, $one_in:literal, $does:literal, $source:literal;)*) => {
        /// A peculiarity of a device.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Habit { $(
            #[doc = $does]
            $habit,
        )* }

        /// All habits, with their descriptions.
        pub const HABITS: &[HabitInfo] = &[$(HabitInfo {
            habit: Habit::$habit,
            name: $name,
            nodes: NodeKinds::$nodes,
            one_in: $one_in,
            does: $does,
            source: $source,
        }),*];
    };
}

habits! {
    NoExtendedSpeeds: "no-extended-speeds", All, 4,
        "has no speed above QDR and no IsExtendedSpeedsSupported, and refuses PortInfo with attribute-modifier bit 31 (status 0x1c).",
        "qib adapters; ibsim masks the bit";
    SelfActivating: "self-activating", All, 4,
        "takes its ports from Armed to Active by itself, 5 µs after both ends are Armed, so that Set(Active) is refused (status 0x1c).",
        "IBA 7.2.7: Armed becomes Active with the first packet; qib, keep-alive packets of HCAs";
    TrapOnFirstChange: "trap-on-first-change", Switches, 3,
        "sends trap 128 only when PortStateChange goes from 0 to 1.",
        "IBA 14.2.5.4: the bit stands for the report; InfiniScale";
    LftUpToTop: "lft-up-to-top", Switches, 3,
        "refuses Set(LinearForwardingTable) of blocks above LinearFDBTop (status 0x1c).",
        "IBA 14.2.5.10 leaves entries above LinearFDBTop undefined";
    ArmsAlone: "arms-alone", All, 4,
        "refuses a Set of PortInfo that moves PortState and changes another setting (status 0x1c).",
        "OpenSM never sends both together, so that firmware is not tested with it";
    ChecksRepress: "checks-repress", All, 3,
        "checks the M_Key of TrapRepress like that of a Set, and drops one with a wrong M_Key.",
        "IBA 14.2.4.1 exempts no method";
    OwnTrapFromLidZero: "own-trap-from-lid-0", All, 3,
        "sends traps to a manager behind the same port with source LID 0.",
        "ConnectX under umad: the packet never leaves the adapter; OpenSM takes LID 0 for its own";
    BlankBasePort0: "blank-base-port-0", Switches, 3,
        "reports PortState 0, PortPhysicalState 0 and zeros for widths, speeds, VLs and MTU at base port 0.",
        "ibdiagnet database of an NDR fabric: unmanaged Quantum-2 switches";
    EnhancedPort0: "enhanced-port-0", Switches, 4,
        "has an enhanced port 0: one VL, 4x SDR, an MTU that the manager sets.",
        "ibdiagnet database of an NDR fabric: a managed Quantum-2 switch";
    SleepsWhenDown: "sleeps-when-down", All, 0,
        "has LinkDownDefaultState Sleep after power-on: a link that went down stays down.",
        "IBA 14.2.5.6 leaves the default to the device";
    BareExternalPorts: "bare-external-ports", Switches, 3,
        "reports zeros for CapabilityMask, CapabilityMask2, GidPrefix and SubnetTimeOut at external ports.",
        "ibdiagnet database of an NDR fabric: Quantum-2; IBA 14.2.5.6 has them at port 0 alone";
    TwoVls: "two-vls", All, 6,
        "has VLCap 2 (VL0 and VL1) at all ports with a link.",
        "ibdiagnet database of an NDR fabric: aggregation nodes";
    FourVls: "four-vls", All, 4,
        "has VLCap 3 (VL0 to VL3) at all ports with a link.",
        "ibdiagnet database of an NDR fabric: ConnectX-7";
    LegacySpeed4: "legacy-speed-4", All, 3,
        "shows LinkSpeedActive 4 (QDR) on a link of an extended speed, where others show 0.",
        "ibdiagnet database of an NDR fabric: Quantum-2 and aggregation nodes";
    SlowProcessor: "slow-processor", All, 16,
        "takes 40 ms for each answer, one at a time; directed routes through it are passed on in time.",
        "management processors of unmanaged switches under load";
    Pauses: "pauses", All, 16,
        "stops for 3 s after every 17 s; requests that arrive meanwhile wait.",
        "firmware that writes its flash or reads a cable's EEPROM";
    SmallBuffer: "small-buffer", All, 8,
        "has room for 4 requests at once and drops the rest.",
        "IBA 7.6.4: VL15 has no flow control";
    Silent: "silent", All, 0,
        "answers nothing; directed routes through it are passed on.",
        "hung firmware behind a link that is up";
    LongResponseTime: "long-response-time", All, 0,
        "has RespTimeValue 20: an answer may take 4.3 s.",
        "ibdiagnet database of an NDR fabric: up to 19 on Quantum-2";
    DirectedOnly: "directed-only", All, 0,
        "drops SMPs that come by LID: Gets, Sets and TrapRepress, and traps to a manager behind its port.",
        "planar fabrics, where LID-routed SMPs are not valid (rdma-core pull request 1398)";
    DeafToRepress: "deaf-to-repress", All, 0,
        "repeats each trap to its last repetition, whatever TrapRepress arrives.",
        "OpenSM ignores a notice that came ten times in five seconds in spite of TrapRepress";
    NoVlArbitration: "no-vl-arbitration", All, 0,
        "refuses VLArbitrationTable (status 0x0c).",
        "IBA 7.6.9: optional for ports with one data VL, whose VLCap some agents overstate";
    NoSlToVl: "no-sl2vl", All, 0,
        "refuses SLtoVLMappingTable (status 0x0c) although IsSLMappingSupported is set.",
        "IBA 14.2.5.6 has a bit for it, which some agents set always";
    NoOptimizedSlToVl: "no-optimized-sl2vl", Switches, 0,
        "refuses SLtoVLMappingTable for all inputs (status 0x1c) although SwitchInfo says otherwise.",
        "IBA 14.2.5.4: OptimizedSLtoVLMappingProgramming is newer than the firmware of many switches";
    GeneralInfo: "general-info", All, 3,
        "answers GeneralInfo (0xFF17) with the capabilities of a Quantum-2 switch or ConnectX-7 adapter, as far as they are simulated.",
        "ibdiagnet database of an NDR fabric";
    DeafToGeneralInfo: "deaf-to-general-info", All, 0,
        "leaves GeneralInfo unanswered.",
        "manuals of old switches warn of time-outs on unknown vendor attributes";
    NonsenseGeneralInfo: "nonsense-general-info", All, 16,
        "answers GeneralInfo with every bit set.",
        "agents that answer an unknown attribute with what their buffer holds";
    PortStates: "port-states", Switches, 3,
        "has a SwitchPortStateTable (0x34).",
        "IBA 14.2.5.20; ibdiagnet database of an NDR fabric: Quantum-2";
    DeafToPortStates: "deaf-to-port-states", Switches, 0,
        "claims a SwitchPortStateTable and leaves it unanswered.",
        "as old switches do with unknown attributes";
    RefusesPortStates: "refuses-port-states", Switches, 8,
        "claims a SwitchPortStateTable and refuses it (status 0x0c).",
        "CapabilityMask2 copied between firmware of several ASICs";
    NonsensePortStates: "nonsense-port-states", Switches, 16,
        "fills its SwitchPortStateTable with states that do not exist.",
        "agents that answer an unknown attribute with what their buffer holds";
    FrozenPortStates: "frozen-port-states", Switches, 16,
        "answers every Get of SwitchPortStateTable with the states at the first Get.",
        "a cache that its agent does not renew";
    ForgetsPortStates: "forgets-port-states", Switches, 8,
        "has a SwitchPortStateTable until it loses power, and claims and refuses it from then on.",
        "a reboot into the older of two firmware images";
    ErrorCorrection: "error-correction", All, 0,
        "has PortInfoExtended (0x33): its links of EDR and more run with Reed-Solomon codes.",
        "OpenSM's ib_types.h: CapabilityMask2 of EDR devices claims it";
    DeafToErrorCorrection: "deaf-to-error-correction", All, 0,
        "claims PortInfoExtended and leaves it unanswered.",
        "as old devices do with unknown attributes";
    RefusesErrorCorrection: "refuses-error-correction", All, 0,
        "claims PortInfoExtended and refuses it (status 0x0c).",
        "CapabilityMask2 copied between firmware of several devices";
    Fdr10: "fdr10", All, 0,
        "shows its links of QDR as FDR10 in ExtendedPortInfo.",
        "SwitchX and ConnectX-3";
    RefusesFdr10: "refuses-fdr10", All, 0,
        "refuses Sets of ExtendedPortInfo (status 0x1c).",
        "firmware that shows the attribute and takes no Set of it";
    AggregationNode: "aggregation-node", Adapters, 0,
        "is an aggregation node: the switch marks the port to it as special in ExtendedPortInfo.",
        "ibdiagnet database of an NDR fabric: port 65 of Quantum-2";
    RefusesVPorts: "refuses-vports", Adapters, 0,
        "claims virtual ports and refuses all of their attributes (status 0x0c).",
        "CapabilityMask2 copied between firmware of several adapters";
    DeafToVPorts: "deaf-to-vports", Adapters, 0,
        "claims virtual ports and leaves all of their attributes unanswered.",
        "as old adapters do with unknown attributes";
    DeafToVPortSets: "deaf-to-vport-sets", Adapters, 0,
        "leaves Sets of attributes of virtual ports unanswered.",
        "firmware whose management of virtual ports hangs";
    NoVPortGuids: "no-vport-guids", Adapters, 0,
        "has virtual ports without VPortGUIDInfo, and without the capability of it.",
        "capability bit 22 of adapters of NVIDIA";
    RefusesVPortGuids: "refuses-vport-guids", Adapters, 0,
        "shows the capability of VPortGUIDInfo, and refuses it (status 0x0c).",
        "firmware that has the capability's bit and not the feature";
    DeafToVPortGuids: "deaf-to-vport-guids", Adapters, 0,
        "shows the capability of VPortGUIDInfo, and leaves it unanswered.",
        "as old adapters do with unknown attributes";
    ForeignVPortGuids: "foreign-vport-guids", Adapters, 0,
        "answers VPortGUIDInfo of every virtual port with the table of its physical function.",
        "an encoding of the attribute modifier that is not public";
    AdaptiveRouting: "adaptive-routing", Switches, 0,
        "has ARInfo, ARGroupTable and the adaptive linear forwarding table, and forwards to any port of a group where they are on.",
        "ibdiagnet database of an NDR fabric: Quantum-2";
    RefusesAdaptiveTables: "refuses-adaptive-tables", Switches, 0,
        "refuses ARGroupTable and the adaptive linear forwarding table (status 0x0c).",
        "firmware whose licence lacks the feature that its capabilities show";
    DeafToAdaptiveTables: "deaf-to-adaptive-tables", Switches, 0,
        "leaves ARGroupTable and the adaptive linear forwarding table unanswered.",
        "as old switches do with unknown attributes";
    IgnoresAdaptiveBlocks: "ignores-adaptive-blocks", Switches, 0,
        "treats every block of ARGroupTable as block 0.",
        "an encoding of the attribute modifier that is not public";
    NeedsOrder: "needs-order", Adapters, 0,
        "lacks the capability to accept packets out of order.",
        "adapters before ConnectX-5";
    RefusesExtendedPortSets: "refuses-extended-port-sets", All, 0,
        "refuses Sets of ExtendedPortInfo (status 0x1c).",
        "firmware that shows the attribute and sets it by other tools alone";
    CongestionControl: "congestion-control", All, 0,
        "has an agent of congestion control (class 0x21), with a table of two blocks at adapters.",
        "IBA annex A10";
    DeafToCongestionControl: "deaf-to-congestion-control", All, 0,
        "leaves congestion control unanswered.",
        "hosts without an agent of the class, whose driver drops its datagrams";
    RefusesCongestionSets: "refuses-congestion-sets", All, 0,
        "answers Gets of congestion control, and refuses its Sets (status 0x1c).",
        "firmware that has the class and not the feature";
    DropsCongestionSets: "drops-congestion-sets", All, 0,
        "acknowledges Sets of congestion control, and keeps its settings.",
        "firmware that has the class and not the feature";
    RateLimits: "rate-limits", Adapters, 0,
        "supports QoSConfigSL for its ports and virtual ports.",
        "capability bits 24 and 25 of adapters of NVIDIA";
    RefusesRateLimits: "refuses-rate-limits", Adapters, 0,
        "shows the capability of QoSConfigSL, and refuses it (status 0x0c).",
        "firmware that has the capability's bit and not the feature";
    RefusesRateLimitSets: "refuses-rate-limit-sets", Adapters, 0,
        "answers Gets of QoSConfigSL, and refuses its Sets (status 0x1c).",
        "firmware that leaves limits to its host";
    DropsRateLimits: "drops-rate-limits", Adapters, 0,
        "acknowledges Sets of QoSConfigSL, but keeps its former limits.",
        "firmware that has the attribute and not the feature";
    DeafToRateLimits: "deaf-to-rate-limits", Adapters, 0,
        "shows the capability of QoSConfigSL, and leaves it unanswered.",
        "as old agents do with unknown attributes";
}

impl Habit {
    pub(super) const fn bit(self) -> u64 {
        1 << self as u8
    }

    /// The entry of the habit in [`HABITS`].
    pub fn info(self) -> &'static HabitInfo {
        &HABITS[self as usize]
    }
}

/// A named set of habits: the personality of a real device, an entry of [`MODELS`].
#[derive(Debug, Clone, Copy)]
pub struct Model {
    /// The name of the model on the command line.
    pub name: &'static str,
    /// The description of the model.
    pub is: &'static str,
    habits: &'static [Habit],
}

impl Model {
    /// The personality of the model.
    pub fn personality(&self) -> Personality {
        let polite = Personality::POLITE;
        self.habits
            .iter()
            .fold(polite, |model, &habit| model | habit)
    }
}

/// The devices that have a name on the command line.
pub const MODELS: &[Model] = &[
    Model {
        name: "qib",
        is: "a QDR adapter of QLogic",
        habits: &[Habit::NoExtendedSpeeds, Habit::SelfActivating],
    },
    Model {
        name: "unmanaged",
        is: "an unmanaged Quantum-2 switch",
        habits: &[
            Habit::BlankBasePort0,
            Habit::BareExternalPorts,
            Habit::LegacySpeed4,
        ],
    },
    Model {
        name: "managed",
        is: "a managed Quantum-2 switch",
        habits: &[
            Habit::EnhancedPort0,
            Habit::BareExternalPorts,
            Habit::LegacySpeed4,
        ],
    },
    Model {
        name: "connectx-7",
        is: "a ConnectX-7 adapter",
        habits: &[Habit::FourVls, Habit::OwnTrapFromLidZero],
    },
    Model {
        name: "aggregation",
        is: "an aggregation node",
        habits: &[Habit::TwoVls, Habit::LegacySpeed4, Habit::AggregationNode],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_habit_finds_its_own_row() {
        for info in HABITS {
            assert_eq!(info.habit.info(), info);
        }
    }

    #[test]
    fn names_of_habits_and_models_are_unique() {
        let mut names: Vec<_> = HABITS.iter().map(|info| info.name).collect();
        names.extend(MODELS.iter().map(|model| model.name));
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
