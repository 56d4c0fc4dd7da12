//! The handling of congestion control requests at their destinations.

use rsm_ids::{Guid, PortNum};
use rsm_mad::wire::congestion::{CLASS_VERSION, CcMad, attribute};
use rsm_mad::wire::header::{Method, Status};

use crate::congestion_agent::{CongestionAgent, Request, empty_log};
use crate::counters::DropReason;
use crate::error::SimError;
use crate::personality::Habit;
use crate::sim::Sim;

/// The unit of an agent's clock, in nanoseconds.
const TICK_NS: u64 = 1024;

impl Sim {
    /// The agent of congestion control of an end port; `None` if the device has none, or if no
    /// request and no [`Sim::set_congestion_agent`] has reached it yet.
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

    /// Sets the settings of an agent of congestion control, as another manager would.
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

    /// Answers a congestion control request at its destination. The data of the answer replace the
    /// data of the request.
    pub(crate) fn answer_congestion(&mut self, index: u32) -> Result<(), CongestionRefusal> {
        let packet = self.packets.get(index);
        let address = self.fabric.address_port(packet.at);
        let node = self.fabric.node_of(address);
        let personality = node.personality;
        let switch_ports = node.is_switch().then_some(node.num_ports);
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
        // The clock of an agent has 32 bits and wraps.
        let time = (self.now.as_nanos() / TICK_NS) as u32;
        if header.attribute() == attribute::CONGESTION_LOG && !is_set {
            let log = empty_log(switch_ports.is_some(), time);
            *CcMad::from_bytes_mut(&mut self.packets.get_mut(index).mad).log_mut() = log;
            return Ok(());
        }
        let mut request = Request {
            method: header.method(),
            modifier: header.modifier(),
            switch_ports,
            time,
            drops: personality.has(Habit::DropsCongestionSets),
            data: &mut data,
        };
        agent.handle(header.attribute(), has_key, &mut request)?;
        let packet = self.packets.get_mut(index);
        *CcMad::from_bytes_mut(&mut packet.mad).data_mut() = data;
        Ok(())
    }
}

/// The reason why a request gets no data.
pub(crate) enum CongestionRefusal {
    /// The agent answers the request with a status.
    Answer(Status),
    /// The agent does not answer the request.
    Drop(DropReason),
}

impl From<Status> for CongestionRefusal {
    fn from(status: Status) -> CongestionRefusal {
        CongestionRefusal::Answer(status)
    }
}
