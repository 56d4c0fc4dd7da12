//! The agents that answer for the counters of ports (IBA 16.1).
//!
//! General service datagrams and the data packets of [probes](Sim::probe) count on each link that
//! they cross, and where they are lost; SMPs do not. A [symptom](Sim::set_errors) makes a counter
//! grow without traffic.

use rsm_ids::{Guid, PortNum};
use rsm_mad::Time;
use rsm_mad::wire::header::{Method, Status};
use rsm_mad::wire::perf::{
    ALL_PORTS, CLASS_VERSION, Counter, CounterSet, PERF_DATA_LEN, PerfCapabilityMask,
    PerfCapabilityMask2, PerfMad, PortCounterAttribute, PortCounters, PortCountersExtended,
    PortExtendedSpeedsCounters, PortRcvErrorDetails, PortXmitDiscardDetails, attribute,
};
use rsm_mad::wire::sa::{ClassPortInfo, Record, SaCapabilityMask, SaCapabilityMask2};
use rsm_mad::wire::vendor::{GENERAL_INFO, GeneralInfoMad};

use crate::causes::{CauseAttribute, PacketLoss};
use crate::device::usual_firmware;
use crate::error::SimError;
use crate::route::WalkResult;
use crate::sim::Sim;
use crate::tally::{Performance, PortCounts, Symptom};

/// The ports whose counters a request selects.
struct Selected {
    /// The selected ports: one port, or all external ports of a switch.
    ports: Vec<u32>,
    now: Time,
}

impl Selected {
    /// The sum of the counters of the selected ports.
    fn sum(&self, performance: &mut Performance) -> PortCounts {
        let mut sum = PortCounts::default();
        for &port in &self.ports {
            sum.add_all(performance.at(port, self.now));
        }
        sum
    }

    /// Calls `reset` for the counters of each selected port.
    fn reset(&self, performance: &mut Performance, reset: impl Fn(&mut PortCounts)) {
        for &port in &self.ports {
            reset(performance.at(port, self.now));
        }
    }
}

impl Sim {
    /// The counters of a port, which may be an external port of a switch or port 0.
    ///
    /// # Errors
    /// There is no such port.
    pub fn port_counters(&mut self, node: Guid, port: PortNum) -> Result<CounterSet, SimError> {
        let index = self.fabric.find_port(node, port)?;
        Ok(self.performance.at(index, self.now).counters)
    }

    /// Makes a counter of a port grow by `per_second` each second, as a symptom of damage; 0 ends
    /// the symptom.
    ///
    /// # Errors
    /// There is no such port, or the rate is negative or not a number.
    pub fn set_errors(
        &mut self,
        node: Guid,
        port: PortNum,
        counter: Counter,
        per_second: f64,
    ) -> Result<(), SimError> {
        let index = self.fabric.find_port(node, port)?;
        if !(per_second.is_finite() && per_second >= 0.0) {
            return Err(SimError::NotARate { per_second });
        }
        // The errors of the earlier symptom stay counted.
        self.performance.at(index, self.now);
        let symptom = Symptom {
            per_second,
            since: self.now,
            counted: 0,
        };
        if per_second == 0.0 {
            self.performance.symptoms.remove(&(index, counter));
        } else {
            self.performance.symptoms.insert((index, counter), symptom);
        }
        Ok(())
    }

    /// Counts a general service datagram that left nodes through the ports `crossed`, in this
    /// order.
    pub(crate) fn count_walk(&mut self, crossed: &[u32], walk_result: &WalkResult) {
        for &exit in crossed {
            self.performance.cross(exit, self.fabric.port(exit).peer);
        }
        if let Some(lost) = PacketLoss::of(&self.fabric, walk_result, crossed.last().copied()) {
            self.count_lost(&lost);
        }
    }

    /// Counts a general service datagram that is lost.
    pub(crate) fn count_lost(&mut self, lost: &PacketLoss) {
        let counts = self.performance.ports.entry(lost.port).or_default();
        counts.lose(lost);
    }

    /// Answers a request of performance management at its destination: the data of the answer
    /// replace the data of the request.
    pub(crate) fn answer_performance(&mut self, index: u32) -> Result<(), Status> {
        let packet = self.packets.get(index);
        let (entry, header) = (packet.at, *packet.header());
        if header.class_version() != CLASS_VERSION {
            return Err(Status::BAD_VERSION);
        }
        let is_set = match header.method() {
            Method::GET => false,
            Method::SET => true,
            _ => return Err(Status::UNSUPPORTED_METHOD),
        };
        let mut data = *PerfMad::from_bytes(&packet.mad).data();
        match header.attribute() {
            attribute::CLASS_PORT_INFO if !is_set => self.class_port_info(entry, &mut data),
            attribute::PORT_COUNTERS => {
                self.answer_counters::<PortCounters>(entry, is_set, &mut data)?
            }
            attribute::PORT_COUNTERS_EXTENDED => {
                self.answer_counters::<PortCountersExtended>(entry, is_set, &mut data)?
            }
            attribute::PORT_RCV_ERROR_DETAILS => {
                let details = PortRcvErrorDetails::from_data_mut(&mut data);
                self.answer_causes(entry, is_set, details.port_select(), details)?;
            }
            attribute::PORT_XMIT_DISCARD_DETAILS => {
                let details = PortXmitDiscardDetails::from_data_mut(&mut data);
                self.answer_causes(entry, is_set, details.port_select(), details)?;
            }
            attribute::PORT_EXTENDED_SPEEDS_COUNTERS => {
                let counters = PortExtendedSpeedsCounters::from_data_mut(&mut data);
                self.answer_causes(entry, is_set, counters.port_select(), counters)?;
            }
            _ => return Err(Status::UNSUPPORTED_METHOD_ATTRIBUTE),
        }
        let packet = self.packets.get_mut(index);
        *PerfMad::from_bytes_mut(&mut packet.mad).data_mut() = data;
        Ok(())
    }

    /// Answers a request of the vendor class of NVIDIA devices at its destination. The only
    /// supported attribute is GeneralInfo.
    pub(crate) fn answer_device(&mut self, index: u32) -> Result<(), Status> {
        let packet = self.packets.get(index);
        let node = self.fabric.node_of(self.fabric.address_port(packet.at));
        let (header, usual) = (packet.header(), usual_firmware(&node.info));
        let usual = usual
            .filter(|_| header.attribute() == GENERAL_INFO)
            .ok_or(Status::UNSUPPORTED_METHOD_ATTRIBUTE)?;
        if header.method() != Method::GET {
            return Err(Status::UNSUPPORTED_METHOD);
        }
        let own = self.firmware.get(&node.guid).copied();
        let packet = self.packets.get_mut(index);
        let mad = GeneralInfoMad::from_bytes_mut(&mut packet.mad);
        mad.set_firmware(own.unwrap_or(usual))
            .set_psid(b"MT_SIMULATED");
        Ok(())
    }

    fn class_port_info(&self, entry: u32, data: &mut [u8; PERF_DATA_LEN]) {
        let mut capabilities = PerfCapabilityMask::EXTENDED_WIDTH
            | PerfCapabilityMask::XMIT_WAIT
            | PerfCapabilityMask::RS_FEC_COUNTERS
            | PerfCapabilityMask::QP1_DROPPED;
        if self.fabric.node_of(entry).is_switch() {
            capabilities = capabilities | PerfCapabilityMask::ALL_PORT_SELECT;
        }
        data.fill(0);
        let info = ClassPortInfo::from_prefix_mut(data)
            .expect("the data area is longer than ClassPortInfo");
        info.set_base_version(1)
            .set_class_version(CLASS_VERSION)
            // The field is at the same place as in the SA's ClassPortInfo; the meaning of its bits
            // is defined by the class.
            .set_capability_mask(SaCapabilityMask(capabilities.0))
            // PortCountersExtended has all counters with 64 bits.
            .set_capability_mask2(SaCapabilityMask2(
                PerfCapabilityMask2::ADDITIONAL_COUNTERS.0,
            ));
    }

    /// Answers a request for an attribute that contains counters; a Set resets the counters that
    /// the request selects.
    fn answer_counters<A: PortCounterAttribute>(
        &mut self,
        entry: u32,
        is_set: bool,
        data: &mut [u8; PERF_DATA_LEN],
    ) -> Result<(), Status> {
        let request = *A::from_data(data);
        let selected = self.selected(entry, request.port_select())?;
        if is_set {
            selected.reset(&mut self.performance, |counts| {
                let all = Counter::ALL.into_iter();
                all.filter(|&counter| request.resets(counter))
                    .for_each(|counter| counts.counters[counter] = 0);
            });
        }
        let values = selected.sum(&mut self.performance).counters;
        A::from_data_mut(data).set_counters(&values);
        Ok(())
    }

    /// Answers a request for an attribute that counts losses by cause; a Set resets the counts.
    fn answer_causes(
        &mut self,
        entry: u32,
        is_set: bool,
        port_select: u8,
        details: &mut impl CauseAttribute,
    ) -> Result<(), Status> {
        let selected = self.selected(entry, port_select)?;
        if is_set {
            selected.reset(&mut self.performance, |counts| {
                details.reset(&mut counts.causes);
            });
        }
        details.show(&selected.sum(&mut self.performance).causes);
        Ok(())
    }

    /// The ports that a PortSelect selects at the node of `entry`: an adapter's agent answers only
    /// for the port through which the request entered.
    fn selected(&self, entry: u32, select: u8) -> Result<Selected, Status> {
        let node = self.fabric.node_of(entry);
        let ports = match select {
            ALL_PORTS if node.is_switch() => node.ports().collect(),
            number if node.is_switch() => node.port(number).into_iter().collect(),
            number if number == self.fabric.port(entry).number => vec![entry],
            _ => Vec::new(),
        };
        if ports.is_empty() {
            return Err(Status::INVALID_FIELD);
        }
        Ok(Selected {
            ports,
            now: self.now,
        })
    }
}
