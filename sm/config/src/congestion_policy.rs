//! The planned settings of congestion control of devices.

use rsm_ids::PortNum;
use rsm_mad::wire::congestion::{
    CaCongestionSetting, CongestionControlTable, CongestionControlTableEntry, CongestionKeyInfo,
    PortMask, SwitchCongestionSetting, SwitchControlMap, TABLE_BLOCK_LEN,
};

/// The protection of the CC_Key that rsm sets at agents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyPolicy {
    /// Whether agents hide the key from requests with another key.
    pub protects: bool,
    /// Seconds after which an agent gives up its protection once a request had a wrong key; zero
    /// for never.
    pub lease_s: u16,
}

/// The settings of congestion control.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CongestionPolicy {
    /// Whether settings are read and written.
    pub enabled: bool,
    /// CC_Key of all requests.
    pub key: u64,
    /// Protection with which agents get this key; `None` if they keep their own keys.
    pub gives_key: Option<KeyPolicy>,
    /// Maximum number of requests in flight, 1 or more; each agent has at most one.
    pub window: u32,
    /// The settings of switches. Fields outside Control_Map keep their values.
    pub switch: SwitchCongestionSetting,
    /// The settings of adapters. Entries outside Control_Map keep their values; if the map is
    /// empty, all settings do.
    pub adapter: CaCongestionSetting,
    /// The table of adapters. If it is empty, adapters keep their tables.
    pub table: Vec<CongestionControlTableEntry>,
}

impl Default for CongestionPolicy {
    fn default() -> CongestionPolicy {
        CongestionPolicy {
            enabled: false,
            key: 0,
            gives_key: None,
            window: CongestionPolicy::WINDOW,
            switch: SwitchCongestionSetting::default(),
            adapter: CaCongestionSetting::default(),
            table: Vec::new(),
        }
    }
}

impl CongestionPolicy {
    /// Default of [`CongestionPolicy::window`]: half of Linux's queue for general service datagrams
    /// of a port, so that answers to hosts have room.
    pub const WINDOW: u32 = 64;

    /// Whether the policy requires requests to switches.
    pub fn concerns_switches(&self) -> bool {
        self.gives_key.is_some() || self.sets_switches()
    }

    /// Whether the policy requires requests to adapters.
    pub fn concerns_adapters(&self) -> bool {
        self.gives_key.is_some() || self.sets_adapters() || !self.table.is_empty()
    }

    /// Whether the policy sets values at switches.
    pub fn sets_switches(&self) -> bool {
        !self.switch.control_map().is_empty()
    }

    /// Whether the policy sets values at adapters.
    pub fn sets_adapters(&self) -> bool {
        self.adapter.control_map() != 0
    }

    /// Number of blocks of the table.
    pub fn table_blocks(&self) -> u8 {
        // The configuration accepts at most 128 entries.
        self.table.len().div_ceil(TABLE_BLOCK_LEN) as u8
    }

    /// The content of a block of the table.
    pub fn table_block(&self, block: u8) -> CongestionControlTable {
        let mut wanted = CongestionControlTable::default();
        wanted.set_ccti_limit(self.table.len().saturating_sub(1) as u16);
        let first = usize::from(block) * TABLE_BLOCK_LEN;
        let entries = self.table.get(first..).unwrap_or_default();
        for (slot, entry) in wanted.entries.iter_mut().zip(entries) {
            *slot = *entry;
        }
        wanted
    }

    /// Whether a block of an adapter's table is as planned. Entries above the table's limit do not
    /// count.
    pub fn has_table_block(&self, block: u8, held: &CongestionControlTable) -> bool {
        let wanted = self.table_block(block);
        let first = usize::from(block) * TABLE_BLOCK_LEN;
        let used = self.table.len().saturating_sub(first).min(TABLE_BLOCK_LEN);
        held.ccti_limit() == wanted.ccti_limit() && held.entries[..used] == wanted.entries[..used]
    }

    /// Whether the key of an agent is as planned.
    pub fn has_key(&self, held: &CongestionKeyInfo) -> bool {
        self.gives_key.is_none_or(|wanted| {
            held.cc_key() == self.key
                && held.protect_bit() == wanted.protects
                && held.lease_period() == wanted.lease_s
        })
    }

    /// CongestionKeyInfo based on `held`, with the planned key.
    pub fn key_info(&self, held: &CongestionKeyInfo) -> CongestionKeyInfo {
        let mut wanted = *held;
        if let Some(policy) = self.gives_key {
            wanted
                .set_cc_key(self.key)
                .set_protect_bit(policy.protects)
                .set_lease_period(policy.lease_s);
        }
        wanted
    }

    /// The settings of a switch with these ports: its external ports, and port 0 if port 0 is
    /// enhanced.
    pub fn switch_setting(&self, ports: SwitchPorts) -> SwitchCongestionSetting {
        let mut wanted = self.switch;
        wanted.victim_mask = ports.of(&self.switch.victim_mask);
        wanted.credit_mask = ports.of(&self.switch.credit_mask);
        wanted
    }

    /// Whether the settings of a switch are as planned, in the fields of Control_Map.
    pub fn has_switch_setting(&self, ports: SwitchPorts, held: &SwitchCongestionSetting) -> bool {
        let wanted = self.switch_setting(ports);
        let map = wanted.control_map();
        let is_unmanaged = |fields| !map.contains(fields);
        (is_unmanaged(SwitchControlMap::VICTIM_MASK)
            || ports.of(&held.victim_mask) == wanted.victim_mask)
            && (is_unmanaged(SwitchControlMap::CREDIT_MASK)
                || ports.of(&held.credit_mask) == wanted.credit_mask)
            && (is_unmanaged(SwitchControlMap::THRESHOLD)
                || (held.threshold(), held.packet_size())
                    == (wanted.threshold(), wanted.packet_size()))
            && (is_unmanaged(SwitchControlMap::CREDIT_STARVATION)
                || (held.cs_threshold(), held.cs_return_delay)
                    == (wanted.cs_threshold(), wanted.cs_return_delay))
            && (is_unmanaged(SwitchControlMap::MARKING_RATE)
                || held.marking_rate() == wanted.marking_rate())
    }

    /// Whether the settings of an adapter are as planned, in the service levels of Control_Map.
    pub fn has_adapter_setting(&self, held: &CaCongestionSetting) -> bool {
        let map = self.adapter.control_map();
        let mut levels = self.adapter.entries.iter().zip(&held.entries).enumerate();
        held.port_control() == self.adapter.port_control()
            && levels.all(|(level, (wanted, held))| {
                let is_unmanaged = map & (1 << level) == 0;
                let values = |entry: &rsm_mad::wire::congestion::CaCongestionEntry| {
                    (
                        entry.ccti_timer(),
                        entry.ccti_increase(),
                        entry.trigger_threshold(),
                        entry.ccti_min(),
                    )
                };
                is_unmanaged || values(wanted) == values(held)
            })
    }
}

/// The ports of a switch that can mark packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SwitchPorts {
    /// Number of external ports.
    pub external: u8,
    /// Whether port 0 is an enhanced port.
    pub with_port_0: bool,
}

impl SwitchPorts {
    /// The bits of `mask` for ports that the switch has.
    fn of(self, mask: &PortMask) -> PortMask {
        let first = u8::from(!self.with_port_0);
        // Port number 255 denotes no port.
        (first..=self.external.min(254))
            .map(PortNum)
            .filter(|&port| mask.contains(port))
            .fold(PortMask::default(), PortMask::with)
    }
}
