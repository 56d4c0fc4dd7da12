//! The requests of the collector, and the parsing of their answers.

use rsm_ids::{Lid, PortNum};
use rsm_mad::ids::{Gid, Tid};
use rsm_mad::transport::{Datagram, Grh, RemoteAddress};
use rsm_mad::wire::attr::PKey;
use rsm_mad::wire::header::{AttrId, Class, Method};
use rsm_mad::wire::perf::PortCounters as NarrowCounters;
use rsm_mad::wire::perf::{
    ALL_PORTS, Counter, PERF_DATA_LEN, PerfCapabilityMask, PerfCapabilityMask2, PerfMad,
    PortCounterAttribute, PortCountersExtended, attribute,
};
use rsm_mad::wire::sa::{ClassPortInfo, Record as _};
use rsm_mad::wire::vendor::{GENERAL_INFO, GeneralInfoMad};

use super::port::{CounterMask, Sample, TRAFFIC};

/// A request to an agent. The numbers are PortSelect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Request {
    /// ClassPortInfo.
    Capabilities,
    /// PortCountersExtended of a port, or of all ports together (AllPortSelect).
    Wide(u8),
    /// PortCounters of a port, or of all ports together (AllPortSelect).
    Narrow(u8),
    /// PortRcvErrorDetails.
    RcvCauses(u8),
    /// PortXmitDiscardDetails.
    XmitCauses(u8),
    /// PortExtendedSpeedsCounters.
    Corrections(u8),
    /// GeneralInfo of the vendor's class: the firmware.
    Firmware,
}

impl Request {
    /// The request for the sums of all ports.
    pub(super) fn sums(is_wide: bool) -> Request {
        match is_wide {
            true => Request::Wide(ALL_PORTS),
            false => Request::Narrow(ALL_PORTS),
        }
    }

    pub(super) fn attribute(self) -> AttrId {
        match self {
            Request::Capabilities => attribute::CLASS_PORT_INFO,
            Request::Wide(_) => attribute::PORT_COUNTERS_EXTENDED,
            Request::Narrow(_) => attribute::PORT_COUNTERS,
            Request::RcvCauses(_) => attribute::PORT_RCV_ERROR_DETAILS,
            Request::XmitCauses(_) => attribute::PORT_XMIT_DISCARD_DETAILS,
            Request::Corrections(_) => attribute::PORT_EXTENDED_SPEEDS_COUNTERS,
            Request::Firmware => GENERAL_INFO,
        }
    }

    pub(super) fn class(self) -> Class {
        match self {
            Request::Firmware => Class::VENDOR_DEVICE,
            _ => Class::PERFORMANCE,
        }
    }

    /// PortSelect, byte 1 of all attributes with counters; `None` for other attributes.
    pub(super) fn port_select(self) -> Option<u8> {
        match self {
            Request::Capabilities | Request::Firmware => None,
            Request::Wide(port)
            | Request::Narrow(port)
            | Request::RcvCauses(port)
            | Request::XmitCauses(port)
            | Request::Corrections(port) => Some(port),
        }
    }

    /// Whether the request is for the sums of all ports.
    pub(super) fn is_of_all_ports(self) -> bool {
        self.port_select() == Some(ALL_PORTS)
    }

    pub(super) fn datagram(self, tid: Tid, remote: RemoteAddress) -> Datagram {
        if self == Request::Firmware {
            let mad = *GeneralInfoMad::request(tid).as_bytes();
            return Datagram { mad, remote };
        }
        let mut data = [0; PERF_DATA_LEN];
        if let Some(port) = self.port_select() {
            data[1] = port;
        }
        let mad = PerfMad::request(Method::GET, self.attribute(), tid, &data);
        Datagram {
            mad: *mad.as_bytes(),
            remote,
        }
    }
}

/// The capabilities of an agent that the collector uses.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Capabilities {
    pub(super) mask: PerfCapabilityMask,
    pub(super) mask2: PerfCapabilityMask2,
}

impl Capabilities {
    fn has(self, bit: PerfCapabilityMask) -> bool {
        self.mask.contains(bit)
    }

    /// Whether the agent answers with the sums of all ports.
    pub(super) fn has_sums(self) -> bool {
        self.has(PerfCapabilityMask::ALL_PORT_SELECT)
    }

    /// Whether the agent has PortCountersExtended.
    pub(super) fn has_wide(self) -> bool {
        self.has(PerfCapabilityMask::EXTENDED_WIDTH)
            || self.has(PerfCapabilityMask::EXTENDED_WIDTH_WITHOUT_CAST)
    }

    /// Whether PortCountersExtended includes error and wait counters.
    pub(super) fn has_wide_errors(self) -> bool {
        self.has_wide()
            && self
                .mask2
                .contains(PerfCapabilityMask2::ADDITIONAL_COUNTERS)
    }

    /// Whether PortExtendedSpeedsCounters counts corrected blocks.
    pub(super) fn has_corrections(self) -> bool {
        self.has(PerfCapabilityMask::RS_FEC_COUNTERS)
    }

    /// The counters in an answer to `request`.
    fn present(self, request: Request) -> CounterMask {
        let is_wide = matches!(request, Request::Wide(_));
        let counts = |counter: &Counter| match counter {
            Counter::XmitWait => self.has(PerfCapabilityMask::XMIT_WAIT),
            Counter::Qp1Dropped => self.has(PerfCapabilityMask::QP1_DROPPED),
            Counter::UnicastXmitPkts
            | Counter::UnicastRcvPkts
            | Counter::MulticastXmitPkts
            | Counter::MulticastRcvPkts => self.has(PerfCapabilityMask::EXTENDED_WIDTH),
            _ => true,
        };
        let has_field = |counter: &Counter| match is_wide {
            true => {
                let is_traffic = TRAFFIC.contains(counter) && *counter != Counter::XmitWait;
                is_traffic || self.has_wide_errors()
            }
            false => counter.narrow_max().is_some(),
        };
        let all = Counter::ALL.into_iter();
        all.filter(counts).filter(has_field).collect()
    }

    /// Adds the counters of an answer to `sample`, except counters that `sample` already has.
    pub(super) fn read(self, request: Request, data: &[u8; PERF_DATA_LEN], sample: &mut Sample) {
        let present = self.present(request);
        let is_narrow = matches!(request, Request::Narrow(_));
        let value = |counter| match is_narrow {
            true => NarrowCounters::from_data(data).counter(counter),
            false => PortCountersExtended::from_data(data).counter(counter),
        };
        for counter in Counter::ALL {
            if present.has(counter)
                && !sample.present.has(counter)
                && let Some(value) = value(counter)
            {
                sample.values[counter] = value;
                sample.present.set(counter, true);
                sample.narrow.set(counter, is_narrow);
            }
        }
    }
}

/// Target to which an agent redirects requests (IBA 13.4.8.1, 13.5.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Redirect {
    pub(super) lid: Lid,
    pub(super) qpn: u32,
    pub(super) qkey: u32,
    pub(super) sl: u8,
    pub(super) p_key: PKey,
    pub(super) gid: Gid,
    pub(super) traffic_class: u8,
    pub(super) flow_label: u32,
}

/// The redirection in a ClassPortInfo.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Redirection {
    /// The agent does not redirect requests.
    None,
    /// The agent redirects requests to this target.
    To(Redirect),
    /// The agent redirects requests to a GID without a LID, or without a queue pair.
    Unusable,
}

/// Index of the partition of `key` in the local port's `table`, or of the default partition if
/// `key` is invalid. `None` if the port is not in that partition.
pub(super) fn p_key_index(table: &[PKey], key: PKey) -> Option<u16> {
    let base = |key: PKey| key.0 & 0x7FFF;
    let wanted = match base(key) {
        0 => base(PKey::DEFAULT_FULL),
        wanted => wanted,
    };
    if table.is_empty() && wanted == base(PKey::DEFAULT_FULL) {
        // An unknown table is assumed to be as after power-on (IBA 10.9.1.2).
        return Some(0);
    }
    let index = table.iter().position(|&held| base(held) == wanted)?;
    u16::try_from(index).ok()
}

impl Redirect {
    /// The address of the target, given the P_Key table of the local port. `None` if the local port
    /// is not in the partition of the redirection.
    pub(super) fn remote(&self, p_keys: &[PKey]) -> Option<RemoteAddress> {
        let grh = (self.gid != Gid::default()).then_some(Grh {
            gid: self.gid,
            gid_index: 0,
            hop_limit: 0xFF,
            traffic_class: self.traffic_class,
            flow_label: self.flow_label,
        });
        Some(RemoteAddress {
            lid: self.lid,
            qpn: self.qpn,
            qkey: self.qkey,
            sl: self.sl,
            pkey_index: p_key_index(p_keys, self.p_key)?,
            path_bits: 0,
            grh,
        })
    }
}

/// The capabilities and the redirection in a ClassPortInfo.
pub(super) fn class_port_info(data: &[u8; PERF_DATA_LEN]) -> (Capabilities, Redirection) {
    let mut bytes = *data;
    let info = match ClassPortInfo::from_prefix_mut(&mut bytes) {
        Some(info) => *info,
        None => return (Capabilities::default(), Redirection::None),
    };
    let capabilities = Capabilities {
        mask: PerfCapabilityMask(info.capability_mask().0),
        mask2: PerfCapabilityMask2(info.capability_mask2().0),
    };
    let (lid, qpn) = (info.redirect_lid(), info.redirect_qp());
    let gid = info.redirect_gid();
    let redirection = if !lid.is_unicast() {
        match gid == Gid::default() {
            true => Redirection::None,
            false => Redirection::Unusable,
        }
    } else if qpn == 0 {
        // QP 0 serves subnet management.
        Redirection::Unusable
    } else {
        Redirection::To(Redirect {
            lid,
            qpn,
            qkey: info.redirect_q_key(),
            sl: info.redirect_sl(),
            p_key: info.redirect_p_key(),
            // A GRH is needed only across routers; within the subnet, the LID suffices.
            gid: Gid::default(),
            traffic_class: info.redirect_tc(),
            flow_label: info.redirect_fl(),
        })
    };
    (capabilities, redirection)
}

/// PortSelect of an answer: byte 1 of each attribute with counters.
pub(super) fn answered_port(data: &[u8; PERF_DATA_LEN]) -> PortNum {
    PortNum(data[1])
}
