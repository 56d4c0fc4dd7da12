//! What the operator decides, as far as planning depends on it.

use std::sync::Arc;
use std::time::Duration;

use rsm_ids::{Guid, Lmc};
use rsm_routing::engine::{Categories, EngineKind};
use rsm_routing::lfts::Dump;

use crate::config::{Enforcement, Partitions};

/// Decisions that go into every plan; from the configuration file.
#[derive(Clone, PartialEq, Debug)]
pub struct Policy {
    /// LID mask control of channel adapter and router ports.
    pub lmc: Lmc,
    /// Whether enhanced switch port 0 gets [`Policy::lmc`] as well; base port 0 always has one LID.
    pub lmc_enhanced_port0: bool,
    /// What ports are told.
    pub ports: PortPolicy,
    /// Which engine routes.
    pub engine: EngineKind,
    /// GUIDs of the switches that up*/down* ranks from; empty: found from the fabric.
    pub root_guids: Vec<Guid>,
    /// The tables that the engine `file` takes.
    pub tables: Option<Arc<Dump>>,
    /// How many lanes `nue` spreads destinations over.
    pub nue_vls: u8,
    /// What ports are for, where it is not what is usual for their kind, by port GUID.
    pub categories: Arc<Categories>,
    /// Whether the ports of hosts that have several are spread in the order of hosts and rails.
    pub rails: bool,
    /// Who may talk to whom.
    pub partitions: Arc<Partitions>,
    /// Where switches check that.
    pub enforcement: Enforcement,
    /// Accept routes whose channel dependency graph has cycles. Dangerous: the fabric can deadlock.
    pub accept_credit_loops: bool,
}

/// What is written to PortInfo and SwitchInfo (IBA 14.2.5.4, 14.2.5.6).
#[derive(Clone, PartialEq, Debug)]
pub struct PortPolicy {
    /// Upper half of every GID.
    pub subnet_prefix: u64,
    /// Guards end ports against other managers; 0: unprotected.
    pub m_key: u64,
    /// M_KeyProtectBits, 0 to 3.
    pub m_key_protect: u8,
    /// Seconds until a port gives up a lost manager's M_Key; 0: never.
    pub m_key_lease_s: u16,
    /// Service level for packets to the subnet manager.
    pub sm_sl: u8,
    /// SubnetTimeOut: 4.096 µs × 2^n, 0 to 31.
    pub subnet_timeout: u8,
    /// Head-of-queue lifetime of ports between switches: 4.096 µs × 2^n; above 19: unlimited.
    pub hoq_life: u8,
    /// The same of switch ports that lead to an end port.
    pub leaf_hoq_life: u8,
    /// Packets dropped in sequence before a VL stalls, between switches.
    pub vl_stall_count: u8,
    /// The same of switch ports that lead to an end port.
    pub leaf_vl_stall_count: u8,
    /// Most data VLs to use, as OperationalVLs has it: 1: VL0; 2: 0–1; 3: 0–3; 4: 0–7; 5: 0–14.
    pub max_operational_vls: u8,
    /// Threshold of LocalPhyErrors, 0 to 15.
    pub local_phy_errors: u8,
    /// Threshold of OverrunErrors, 0 to 15.
    pub overrun_errors: u8,
    /// LifeTimeValue of switches: 4.096 µs × 2^n.
    pub packet_life_time: u8,
    /// LinkWidthEnabled to force; `None` leaves it as it is.
    pub force_link_width: Option<u8>,
    /// LinkSpeedEnabled to force; `None` leaves it as it is.
    pub force_link_speed: Option<u8>,
    /// LinkSpeedExtEnabled to force; `None` leaves it as it is.
    pub force_link_speed_ext: Option<u8>,
    /// Whether a link is taken down for a moment where its MTU or VLs differ while it is Active.
    pub bounce: bool,
}

impl Default for PortPolicy {
    fn default() -> Self {
        PortPolicy {
            subnet_prefix: 0xfe80_0000_0000_0000,
            m_key: 0,
            m_key_protect: 0,
            m_key_lease_s: 0,
            sm_sl: 0,
            subnet_timeout: 18,
            hoq_life: 0x12,
            leaf_hoq_life: 0x10,
            vl_stall_count: 7,
            leaf_vl_stall_count: 7,
            max_operational_vls: 5,
            local_phy_errors: 8,
            overrun_errors: 8,
            packet_life_time: 0x12,
            force_link_width: None,
            force_link_speed: None,
            force_link_speed_ext: None,
            bounce: false,
        }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            lmc: Lmc::ZERO,
            lmc_enhanced_port0: false,
            ports: PortPolicy::default(),
            engine: EngineKind::Auto,
            root_guids: Vec::new(),
            tables: None,
            nue_vls: 1,
            categories: Arc::default(),
            rails: true,
            partitions: Arc::default(),
            enforcement: Enforcement::default(),
            accept_credit_loops: false,
        }
    }
}

/// How link flaps are damped.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DampingPolicy {
    /// Changes of state within the window that take a link out of the routes; 0: none do.
    pub threshold: u32,
    /// The window.
    pub window: Duration,
    /// How long the link has to be quiet before it is used again.
    pub hold: Duration,
}

impl Default for DampingPolicy {
    fn default() -> Self {
        DampingPolicy {
            threshold: 6,
            window: Duration::from_secs(60),
            hold: Duration::from_secs(30),
        }
    }
}

/// How load is taken off the fullest links while a fault stays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RebalancePolicy {
    /// For how long nothing has to change before it begins; zero: it never does.
    pub after: Duration,
    /// How many blocks of forwarding tables, and so SMPs, one step may write.
    pub blocks: usize,
}

impl Default for RebalancePolicy {
    fn default() -> Self {
        RebalancePolicy {
            after: Duration::from_secs(30),
            blocks: 256,
        }
    }
}
