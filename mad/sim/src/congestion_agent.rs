//! Agents of congestion control (IBA annex A10). The agents only store their settings: no packet is
//! marked, and no port slows down.

use std::collections::{BTreeMap, HashMap};

use rsm_mad::wire::congestion::{
    AdapterCongestionLog, CC_DATA_LEN, CC_LOG_LEN, CLASS_VERSION, CaCongestionSetting, CcAttribute,
    CongestionControlTable, CongestionInfo, CongestionKeyInfo, CongestionTimestamp, PORT_BLOCK_LEN,
    SwitchCongestionLog, SwitchCongestionSetting, SwitchControlMap, SwitchPortCongestionEntry,
    SwitchPortCongestionSetting, attribute,
};
use rsm_mad::wire::header::{Method, Status};
use rsm_mad::wire::sa::{ClassPortInfo, Record};

const UNSUPPORTED: Status = Status::UNSUPPORTED_METHOD_ATTRIBUTE;

/// The number of blocks of an adapter's table, 2 as in ConnectX adapters.
const TABLE_BLOCKS: u8 = 2;

/// The settings of an agent of congestion control, and the requests that reached it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CongestionAgent {
    /// The CC_Key of the agent, and the protection that it gives to the settings.
    pub key: CongestionKeyInfo,
    /// The setting of the agent of a switch.
    pub switch: SwitchCongestionSetting,
    /// The settings of single ports of a switch, by port number; other ports follow
    /// [`Self::switch`].
    pub ports: BTreeMap<u8, SwitchPortCongestionEntry>,
    /// The setting of the agent of an adapter.
    pub adapter: CaCongestionSetting,
    /// The blocks of an adapter's CongestionControlTable, by block number.
    pub table: [CongestionControlTable; TABLE_BLOCKS as usize],
    /// The number of Gets that reached the agent.
    pub gets: u64,
    /// The number of Sets that reached the agent.
    pub sets: u64,
}

/// The agents by the index of their port, for end ports that a request or an operator has reached.
pub(crate) type CongestionAgents = HashMap<u32, CongestionAgent>;

/// A request that an agent handles.
pub(crate) struct Request<'a> {
    pub(crate) method: Method,
    pub(crate) modifier: u32,
    /// The number of ports of a switch without its port 0; `None` at adapters.
    pub(crate) switch_ports: Option<u8>,
    /// The clock of the agent, in units of 1.024 µs.
    pub(crate) time: u32,
    /// Whether the agent acknowledges Sets without changing anything.
    pub(crate) drops: bool,
    pub(crate) data: &'a mut [u8; CC_DATA_LEN],
}

impl Request<'_> {
    fn is_switch(&self) -> bool {
        self.switch_ports.is_some()
    }

    /// Writes the setting `held` into the answer. If the request is a Set, `change` first updates
    /// `held` from the setting in the request.
    fn answer<A: CcAttribute>(&mut self, held: &mut A, change: impl FnOnce(&mut A, A)) {
        if self.method == Method::SET && !self.drops {
            change(held, A::of(self.data));
        }
        *self.data = held.to_data();
    }
}

impl CongestionAgent {
    /// Answers a request that passed the check of the CC_Key. Without `has_key`, the answer hides
    /// the agent's CC_Key. Fails if the device does not support the request, or if the modifier
    /// names no block.
    pub(crate) fn handle(
        &mut self,
        attribute: rsm_mad::wire::header::AttrId,
        has_key: bool,
        request: &mut Request<'_>,
    ) -> Result<(), Status> {
        let is_set = request.method == Method::SET;
        match attribute {
            attribute::CLASS_PORT_INFO if !is_set => {
                request.data.fill(0);
                let info = ClassPortInfo::from_prefix_mut(request.data)
                    .expect("the data area is longer than ClassPortInfo");
                info.set_base_version(1).set_class_version(CLASS_VERSION);
            }
            attribute::CONGESTION_INFO if !is_set => {
                let mut info = CongestionInfo::default();
                if !request.is_switch() {
                    info.set_control_table_cap(TABLE_BLOCKS);
                }
                *request.data = info.to_data();
            }
            attribute::CONGESTION_KEY_INFO => {
                let violations = self.key.violations();
                request.answer(&mut self.key, |held, new| {
                    *held = new;
                    held.set_violations(violations);
                });
                if !has_key {
                    let mut hidden = self.key;
                    *request.data = hidden.set_cc_key(0).to_data();
                }
            }
            attribute::SWITCH_CONGESTION_SETTING if request.is_switch() => {
                request.answer(&mut self.switch, copy_switch_setting);
            }
            attribute::SWITCH_PORT_CONGESTION_SETTING => {
                let last = request.switch_ports.ok_or(UNSUPPORTED)?;
                self.handle_ports(last, request)?;
            }
            attribute::CA_CONGESTION_SETTING if !request.is_switch() => {
                request.answer(&mut self.adapter, copy_adapter_setting);
            }
            attribute::CONGESTION_CONTROL_TABLE if !request.is_switch() => {
                let block = self
                    .table
                    .get_mut(request.modifier as usize)
                    .ok_or(Status::INVALID_FIELD)?;
                request.answer(block, |held, new| *held = new);
                let limit = block.ccti_limit();
                self.table.iter_mut().for_each(|block| {
                    block.set_ccti_limit(limit);
                });
            }
            attribute::TIMESTAMP if !is_set => {
                let mut stamp = CongestionTimestamp::default();
                *request.data = stamp.set_time(request.time).to_data();
            }
            _ => return Err(UNSUPPORTED),
        }
        Ok(())
    }

    /// Answers a request for a block of ports of a switch whose highest port is `last`. A Set
    /// changes the ports whose entries are valid.
    fn handle_ports(&mut self, last: u8, request: &mut Request<'_>) -> Result<(), Status> {
        let first = (request.modifier as usize)
            .checked_mul(PORT_BLOCK_LEN)
            .filter(|&first| first <= usize::from(last))
            .ok_or(Status::INVALID_FIELD)?;
        let ports = (first..=usize::from(last)).take(PORT_BLOCK_LEN);
        let mut block = SwitchPortCongestionSetting::default();
        for (port, entry) in ports.map(|port| port as u8).zip(&mut block.entries) {
            *entry = self.ports.get(&port).copied().unwrap_or_default();
        }
        request.answer(&mut block, |held, new| {
            let ports = (first..=usize::from(last)).take(PORT_BLOCK_LEN);
            for ((port, entry), new) in ports.zip(&mut held.entries).zip(new.entries) {
                if new.valid() {
                    *entry = new;
                    self.ports.insert(port as u8, new);
                }
            }
        });
        Ok(())
    }
}

/// The CongestionLog of an agent that never saw congestion.
pub(crate) fn empty_log(is_switch: bool, time: u32) -> [u8; CC_LOG_LEN] {
    match is_switch {
        true => SwitchCongestionLog::default()
            .set_current_time(time)
            .to_log(),
        false => AdapterCongestionLog::default()
            .set_current_time(time)
            .to_log(),
    }
}

/// Copies the fields that Control_Map selects.
fn copy_switch_setting(held: &mut SwitchCongestionSetting, new: SwitchCongestionSetting) {
    let map = new.control_map();
    held.set_control_map(map);
    if map.contains(SwitchControlMap::VICTIM_MASK) {
        held.victim_mask = new.victim_mask;
    }
    if map.contains(SwitchControlMap::CREDIT_MASK) {
        held.credit_mask = new.credit_mask;
    }
    if map.contains(SwitchControlMap::THRESHOLD) {
        held.set_threshold(new.threshold())
            .set_packet_size(new.packet_size());
    }
    if map.contains(SwitchControlMap::CREDIT_STARVATION) {
        held.set_cs_threshold(new.cs_threshold());
        held.cs_return_delay = new.cs_return_delay;
    }
    if map.contains(SwitchControlMap::MARKING_RATE) {
        held.set_marking_rate(new.marking_rate());
    }
}

/// Copies Port_Control, and the settings of the service levels that Control_Map selects.
fn copy_adapter_setting(held: &mut CaCongestionSetting, new: CaCongestionSetting) {
    let map = new.control_map();
    held.set_port_control(new.port_control())
        .set_control_map(map);
    for (level, entry) in held.entries.iter_mut().enumerate() {
        if map & (1 << level) != 0 {
            *entry = new.entries[level];
        }
    }
}
