//! What the operator decides, as far as planning depends on it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use rsm_ids::{Guid, Lmc};
use rsm_routing::engine::{Categories, EngineKind, EngineOptions};
use rsm_routing::lfts::Dump;

use crate::config::{Enforcement, LinkConfig, Partitions};

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
    /// What the engines declare themselves.
    pub engine_options: EngineOptions,
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

impl Policy {
    /// The ports, by GUID, of whose partitions `self` says something else than `before`; `None`
    /// where the two differ in anything but rules that name a port.
    pub fn changed_members(&self, before: &Policy) -> Option<BTreeSet<Guid>> {
        let partitions = before.partitions.clone();
        let changed = self.partitions.changed_members(&partitions)?;
        let with_those_of_before = Policy {
            partitions,
            ..self.clone()
        };
        (with_those_of_before == *before).then_some(changed)
    }
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
    /// Section `links` of the configuration.
    pub links: LinkConfig,
}

impl Default for PortPolicy {
    fn default() -> Self {
        PortPolicy {
            subnet_prefix: 0xfe80_0000_0000_0000,
            m_key: 0,
            m_key_protect: 0,
            m_key_lease_s: 0,
            sm_sl: 0,
            links: LinkConfig::default(),
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
            engine_options: EngineOptions::default(),
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
