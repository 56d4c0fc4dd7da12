//! Agents of congestion control (IBA annex A10). They keep their settings; nothing is marked and
//! nothing slows down.

use std::collections::HashMap;

use rsm_ids::{Guid, PortNum};
use rsm_mad::wire::congestion::{
    CC_DATA_LEN, CLASS_VERSION, CaCongestionSetting, CcAttribute, CcMad, CongestionControlTable,
    CongestionInfo, CongestionKeyInfo, SwitchCongestionSetting, SwitchControlMap, attribute,
};
use rsm_mad::wire::header::{Method, Status};
use rsm_mad::wire::sa::{ClassPortInfo, Record};

use crate::counters::DropReason;
use crate::error::SimError;
use crate::personality::Habit;
use crate::sim::Sim;

/// The number of blocks of the table of an adapter: that of ConnectX.
const TABLE_BLOCKS: u8 = 2;

/// The settings of an agent of congestion control, and what reached it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CongestionAgent {
    /// Its key.
    pub key: CongestionKeyInfo,
    /// Of a switch.
    pub switch: SwitchCongestionSetting,
    /// Of an adapter.
    pub adapter: CaCongestionSetting,
    /// The blocks of an adapter's table.
    pub table: [CongestionControlTable; TABLE_BLOCKS as usize],
    /// Gets that reached it.
    pub gets: u64,
    /// Sets that reached it.
    pub sets: u64,
}

/// The agents by the index of their port: end ports that a request or an operator has met.
pub(crate) type CongestionAgents = HashMap<u32, CongestionAgent>;

/// A request on its way through an agent.
struct Request<'a> {
    method: Method,
    modifier: u32,
    is_switch: bool,
    /// Whether Sets are acknowledged and change nothing.
    drops: bool,
    data: &'a mut [u8; CC_DATA_LEN],
}

impl Request<'_> {
    /// Answers with the setting, after `change` has taken the new one in a Set.
    fn answer<A: CcAttribute>(&mut self, held: &mut A, change: impl FnOnce(&mut A, A)) {
        if self.method == Method::SET && !self.drops {
            change(held, A::of(self.data));
        }
        *self.data = held.to_data();
    }
}

impl CongestionAgent {
    /// Answers a request whose key is right, or whose key does not matter.
    fn handle(
        &mut self,
        attribute: rsm_mad::wire::header::AttrId,
        has_key: bool,
        request: &mut Request<'_>,
    ) -> Result<(), Status> {
        let is_set = request.method == Method::SET;
        let refused = Err(Status::UNSUPPORTED_METHOD_ATTRIBUTE);
        match attribute {
            attribute::CLASS_PORT_INFO if !is_set => {
                request.data.fill(0);
                let info = ClassPortInfo::from_prefix_mut(request.data);
                let info = info.expect("the data are longer");
                info.set_base_version(1).set_class_version(CLASS_VERSION);
            }
            attribute::CONGESTION_INFO if !is_set => {
                let mut info = CongestionInfo::default();
                if !request.is_switch {
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
            attribute::SWITCH_CONGESTION_SETTING if request.is_switch => {
                request.answer(&mut self.switch, take_switch_setting);
            }
            attribute::CA_CONGESTION_SETTING if !request.is_switch => {
                request.answer(&mut self.adapter, take_adapter_setting);
            }
            attribute::CONGESTION_CONTROL_TABLE if !request.is_switch => {
                let block = self.table.get_mut(request.modifier as usize);
                let block = block.ok_or(Status::INVALID_FIELD)?;
                request.answer(block, |held, new| *held = new);
                let limit = block.ccti_limit();
                self.table.iter_mut().for_each(|block| {
                    block.set_ccti_limit(limit);
                });
            }
            _ => return refused,
        }
        Ok(())
    }
}

/// Takes the fields of Control_Map.
fn take_switch_setting(held: &mut SwitchCongestionSetting, new: SwitchCongestionSetting) {
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

/// Takes the service levels of Control_Map.
fn take_adapter_setting(held: &mut CaCongestionSetting, new: CaCongestionSetting) {
    let map = new.control_map();
    held.set_port_control(new.port_control())
        .set_control_map(map);
    for (level, entry) in held.entries.iter_mut().enumerate() {
        if map & (1 << level) != 0 {
            *entry = new.entries[level];
        }
    }
}

impl Sim {
    /// The agent of congestion control of an end port; `None` where the device has none, or no
    /// request and no operator has met it.
    ///
    /// # Errors
    /// There is no such end port.
    pub fn congestion_agent(
        &self,
        node: Guid,
        port: PortNum,
    ) -> Result<Option<&CongestionAgent>, SimError> {
        let at = self.fabric.find_end_port(node, port)?;
        Ok(self.congestion.get(&at))
    }

    /// Gives an agent of congestion control its settings, as another manager would.
    ///
    /// # Errors
    /// There is no such end port.
    pub fn set_congestion_agent(
        &mut self,
        node: Guid,
        port: PortNum,
        agent: CongestionAgent,
    ) -> Result<(), SimError> {
        let at = self.fabric.find_end_port(node, port)?;
        self.congestion.insert(at, agent);
        Ok(())
    }

    /// Answers a request of congestion control at its destination: data replace those of the
    /// request.
    pub(crate) fn answer_congestion(&mut self, index: u32) -> Result<(), CongestionRefusal> {
        let packet = self.packets.get(index);
        let address = self.fabric.address_port(packet.at);
        let node = self.fabric.node_of(address);
        let (personality, is_switch) = (node.personality, node.is_switch());
        if personality.has(Habit::DeafToCongestionControl) {
            return Err(CongestionRefusal::Drop(DropReason::Silent));
        }
        if !personality.has(Habit::CongestionControl) {
            return Err(Status::UNSUPPORTED_METHOD_ATTRIBUTE.into());
        }
        let header = *packet.header();
        if header.class_version() != CLASS_VERSION {
            return Err(Status::BAD_VERSION.into());
        }
        let (key, mut data) = {
            let mad = CcMad::from_bytes(&packet.mad);
            (mad.cc_key(), *mad.data())
        };
        let agent = self.congestion.entry(address).or_default();
        let is_set = header.method() == Method::SET;
        agent.gets += u64::from(!is_set);
        agent.sets += u64::from(is_set);
        let own = agent.key.cc_key();
        let has_key = own == 0 || own == key;
        let needs_key = is_set || agent.key.protect_bit();
        if !has_key && needs_key && header.attribute() != attribute::CLASS_PORT_INFO {
            let violations = agent.key.violations().saturating_add(1);
            agent.key.set_violations(violations);
            return Err(CongestionRefusal::Drop(DropReason::CcKey));
        }
        if is_set && personality.has(Habit::RefusesCongestionSets) {
            return Err(Status::INVALID_FIELD.into());
        }
        let mut request = Request {
            method: header.method(),
            modifier: header.modifier(),
            is_switch,
            drops: personality.has(Habit::DropsCongestionSets),
            data: &mut data,
        };
        agent.handle(header.attribute(), has_key, &mut request)?;
        let packet = self.packets.get_mut(index);
        *CcMad::from_bytes_mut(&mut packet.mad).data_mut() = data;
        Ok(())
    }
}

/// Why a request has no data.
pub(crate) enum CongestionRefusal {
    /// It is answered with a status.
    Answer(Status),
    /// It is not answered.
    Drop(DropReason),
}

impl From<Status> for CongestionRefusal {
    fn from(status: Status) -> CongestionRefusal {
        CongestionRefusal::Answer(status)
    }
}
