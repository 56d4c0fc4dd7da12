use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use rsm_ids::{Guid, Lmc};
use rsm_routing::engine::EngineKind;

/// Everything an operator can set. What a field means, its range and its unit are also in
/// [`Config::sample`], which is made from the same table that reads a file.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Config {
    /// Who this subnet manager is on the wire.
    pub sm: SmConfig,
    /// How the fabric is asked.
    pub sweep: SweepConfig,
    /// How LIDs are given out.
    pub lids: LidConfig,
    /// What every port is set to.
    pub links: LinkConfig,
    /// How routes are computed.
    pub routing: RoutingConfig,
    /// Who may talk to whom.
    pub partitions: PartitionConfig,
    /// When a link that comes and goes is left alone.
    pub flap: FlapConfig,
    /// How this daemon is asked.
    pub api: ApiConfig,
    /// What is written after each convergence.
    pub dump: DumpConfig,
    /// What survives a restart.
    pub state: StateConfig,
}

/// Section `sm`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmConfig {
    /// SMInfo.Priority, 0 to 15; the highest becomes master (IBA 14.4.1).
    pub priority: u8,
    /// The local port to run on; `None`: the first active one.
    pub guid: Option<Guid>,
    /// The upper 64 bits of every GID of the subnet.
    pub subnet_prefix: u64,
    /// M_Key set on every port; 0 is none (IBA 14.2.4).
    pub m_key: u64,
    /// M_KeyProtectBits, 0 to 3 (IBA 14.2.4.1).
    pub m_key_protection_level: u8,
    /// M_KeyLeasePeriod in seconds; 0 never expires.
    pub m_key_lease_period_s: u16,
    /// SM_Key shown to other subnet managers (IBA 14.4.5).
    pub sm_key: u64,
    /// The service level on which nodes reach the SM, 0 to 15.
    pub sm_sl: u8,
    /// Which forwarding tables count that another manager left in switches.
    pub takeover: Takeover,
}

/// Which forwarding tables are written anew where another manager may have left others in force than those read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Takeover {
    /// Those of switches that route adaptively.
    #[default]
    Auto,
    /// Those, and those of all switches whose last manager was another.
    Rewrite,
    /// None.
    Trust,
}

impl Takeover {
    /// All there are.
    pub const ALL: [Takeover; 3] = [Takeover::Auto, Takeover::Rewrite, Takeover::Trust];

    /// As the configuration writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Takeover::Auto => "auto",
            Takeover::Rewrite => "rewrite",
            Takeover::Trust => "trust",
        }
    }
}

impl Default for SmConfig {
    fn default() -> SmConfig {
        SmConfig {
            priority: 0,
            guid: None,
            subnet_prefix: 0xfe80_0000_0000_0000,
            m_key: 0,
            m_key_protection_level: 0,
            m_key_lease_period_s: 0,
            sm_key: 1,
            sm_sl: 0,
            takeover: Takeover::Auto,
        }
    }
}

/// Section `sweep`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SweepConfig {
    /// Milliseconds between two light sweeps; 0 turns them off.
    pub light_interval_ms: u32,
    /// The shortest wait for an answer.
    pub timeout_floor_ms: u32,
    /// The wait for the first answers, before any round trip was measured.
    pub timeout_initial_ms: u32,
    /// The longest wait for an answer.
    pub timeout_ceiling_ms: u32,
    /// The most requests outstanding in the whole fabric. ibsim stops for good at some 160.
    pub window: u32,
    /// The most requests outstanding to one node.
    pub per_target: u16,
    /// How often a request is repeated before its target counts as silent.
    pub retries: u8,
}

impl Default for SweepConfig {
    fn default() -> SweepConfig {
        SweepConfig {
            light_interval_ms: 10_000,
            timeout_floor_ms: 25,
            timeout_initial_ms: 100,
            timeout_ceiling_ms: 1_000,
            window: 96,
            per_target: 2,
            retries: 6,
        }
    }
}

/// Section `lids`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LidConfig {
    /// Each end port gets 2^LMC LIDs.
    pub lmc: Lmc,
    /// Whether enhanced switch ports 0 do too.
    pub lmc_esp0: bool,
}

/// Section `links`. What is `None` is left as the hardware has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkConfig {
    /// PortInfo.SubnetTimeOut, 0 to 31: 4.096 µs × 2^n.
    pub subnet_timeout: u8,
    /// PortInfo.HOQLife of ports between switches, 0 to 31: 4.096 µs × 2^n, above 19 unlimited.
    pub hoq_life: u8,
    /// HOQLife of switch ports that lead to a CA or router.
    pub leaf_hoq_life: u8,
    /// PortInfo.VLStallCount of ports between switches, 1 to 7.
    pub vl_stall_count: u8,
    /// VLStallCount of switch ports that lead to a CA or router.
    pub leaf_vl_stall_count: u8,
    /// The most data VLs, coded as PortInfo.OperationalVLs: 1 to 5 for 1, 2, 4, 8, 15.
    pub max_op_vls: u8,
    /// PortInfo.LocalPhyErrors, 0 to 15.
    pub phy_error_threshold: u8,
    /// PortInfo.OverrunErrors, 0 to 15.
    pub overrun_error_threshold: u8,
    /// SwitchInfo.LifeTimeValue, 0 to 31: 4.096 µs × 2^n, above 19 unlimited.
    pub packet_life_time: u8,
    /// PortInfo.LinkWidthEnabled of switch ports.
    pub force_width: Option<u8>,
    /// PortInfo.LinkSpeedEnabled of switch ports.
    pub force_speed: Option<u8>,
    /// PortInfo.LinkSpeedExtEnabled of switch ports.
    pub force_speed_ext: Option<u8>,
    /// Whether links are bounced to get another MTU or number of VLs.
    pub bounce: bool,
}

impl Default for LinkConfig {
    fn default() -> LinkConfig {
        LinkConfig {
            subnet_timeout: 18,
            hoq_life: 0x12,
            leaf_hoq_life: 0x10,
            vl_stall_count: 7,
            leaf_vl_stall_count: 7,
            max_op_vls: 5,
            phy_error_threshold: 8,
            overrun_error_threshold: 8,
            packet_life_time: 0x12,
            force_width: None,
            force_speed: None,
            force_speed_ext: None,
            bounce: false,
        }
    }
}

/// Section `routing`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutingConfig {
    /// What computes the routes.
    pub engine: EngineKind,
    /// The switches at the top of an up*/down* ranking; `None`: found from the graph.
    pub root_guid_file: Option<PathBuf>,
    /// The tables that the engine `file` takes.
    pub tables_file: Option<PathBuf>,
    /// How many lanes `nue` spreads destinations over, 1 to 8.
    pub nue_vls: u8,
    /// What ports are for, where it is not what is usual for their kind.
    pub categories_file: Option<PathBuf>,
    /// Whether the ports of hosts that have several are spread in the order of hosts and rails.
    pub rails: bool,
    /// Load is taken off the fullest links when a fault has stayed for so long without another change, in milliseconds; 0: never.
    pub rebalance_after_ms: u32,
    /// How many blocks of tables one step of that may write.
    pub rebalance_blocks: u32,
}

impl Default for RoutingConfig {
    fn default() -> Self {
        RoutingConfig {
            engine: EngineKind::default(),
            root_guid_file: None,
            tables_file: None,
            nue_vls: 1,
            categories_file: None,
            rails: true,
            rebalance_after_ms: 30_000,
            rebalance_blocks: 256,
        }
    }
}

/// Section `partitions`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PartitionConfig {
    /// The file that defines them, as OpenSM has it; `None`: everybody is a full member of the default partition.
    pub file: Option<PathBuf>,
    /// Whether it is as well if there is no such file: OpenSM writes the name of one into every configuration.
    pub file_may_be_missing: bool,
    /// Where switches check the P_Keys of packets.
    pub enforcement: Enforcement,
    /// Whether a port can hold the full and the limited key of one partition.
    pub allow_both: bool,
}

/// At which side of its ports that lead to a CA or router a switch drops packets whose P_Key the port does not have (IBA
/// 14.2.5.6). It does not where every port is a full member of the default partition and of no other: nothing would be
/// dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Enforcement {
    /// What comes in and what goes out.
    #[default]
    Both,
    /// What comes in.
    In,
    /// What goes out.
    Out,
    /// Nothing.
    Off,
}

impl Enforcement {
    /// All there are.
    pub const ALL: [Enforcement; 4] = [
        Enforcement::Both,
        Enforcement::In,
        Enforcement::Out,
        Enforcement::Off,
    ];

    /// As the configuration writes it, and OpenSM's.
    pub const fn name(self) -> &'static str {
        match self {
            Enforcement::Both => "both",
            Enforcement::In => "in",
            Enforcement::Out => "out",
            Enforcement::Off => "off",
        }
    }

    /// Whether what comes in is checked.
    pub const fn inbound(self) -> bool {
        matches!(self, Enforcement::Both | Enforcement::In)
    }

    /// Whether what goes out is checked.
    pub const fn outbound(self) -> bool {
        matches!(self, Enforcement::Both | Enforcement::Out)
    }
}

impl fmt::Display for Enforcement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Section `flap`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlapConfig {
    /// So many changes of one link within the window damp it; 0 turns damping off.
    pub threshold: u32,
    /// The window, in milliseconds.
    pub window_ms: u32,
    /// A damped link is used again after so long without a change, in milliseconds.
    pub hold_ms: u32,
}

impl Default for FlapConfig {
    fn default() -> FlapConfig {
        FlapConfig {
            threshold: 6,
            window_ms: 60_000,
            hold_ms: 30_000,
        }
    }
}

/// Section `api`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiConfig {
    /// Where reading is served over TCP; `None`: nowhere.
    pub listen: Option<SocketAddr>,
    /// The Unix socket that serves everything; `None`: `rsm.sock` in the folder of `--state-dir`, or where that is not given
    /// in the first of [`socket_directories`](rsm_api::client::socket_directories) that can be written to.
    pub socket: Option<PathBuf>,
    /// Whether TCP serves everything, too.
    pub insecure_admin: bool,
}

impl Default for ApiConfig {
    fn default() -> ApiConfig {
        ApiConfig {
            listen: Some(SocketAddr::from(([127, 0, 0, 1], 50_051))),
            socket: None,
            insecure_admin: false,
        }
    }
}

/// Section `dump`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct DumpConfig {
    /// Where OpenSM-format files go; `None`: none are written.
    pub dir: Option<PathBuf>,
}

/// Section `state`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateConfig {
    /// The directory of the store; one daemon's own.
    pub dir: PathBuf,
}

impl Default for StateConfig {
    fn default() -> StateConfig {
        StateConfig {
            dir: PathBuf::from("/var/lib/rsm"),
        }
    }
}
