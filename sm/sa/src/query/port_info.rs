//! PortInfoRecord: the PortInfo of end ports and of external ports of switches.

use std::sync::Arc;

use rsm_mad::wire::attr::{LinkSpeeds, PortInfo};
use rsm_mad::wire::sa::{ComponentMask, PortInfoRecord};
use rsm_model::fabric::PortRef;

use super::{Query, of_each_end, vport};
use crate::ends::EndIx;

/// Both capability masks.
const CAPABILITIES: ComponentMask =
    PortInfoRecord::CAPABILITY_MASK.with(PortInfoRecord::CAPABILITY_MASK2);

/// Components that the template does not compare: any LID of a port's range matches, options choose
/// the form of the answer, and capability masks may have to be compared bit by bit.
pub(super) fn not_compared(modifier: u32) -> ComponentMask {
    let not_compared = PortInfoRecord::END_PORT_LID | PortInfoRecord::OPTIONS;
    if compares_bits(modifier) {
        not_compared | CAPABILITIES
    } else {
        not_compared
    }
}

/// Whether the attribute modifier requests that capability masks are compared bit by bit.
fn compares_bits(modifier: u32) -> bool {
    modifier & PortInfoRecord::CAPABILITY_MASK_MATCH != 0
}

/// The records of all ports; `None` for a port that does not match.
pub(super) fn candidates(
    query: Query<PortInfoRecord>,
) -> impl Iterator<Item = Option<PortInfoRecord>> + Send + 'static {
    let ends = query.ends_and_vports(PortInfoRecord::END_PORT_LID, query.record.end_port_lid());
    of_each_end(query, ends, |query, ix| {
        let query = Arc::clone(query);
        query.ports(ix).map(move |at| query.port(ix, at))
    })
}

impl Query<PortInfoRecord> {
    /// The record of `at`, a port of the node of `ix`; `None` if the record does not match the
    /// query, or if the PortInfo is unknown.
    fn port(&self, ix: EndIx, at: PortRef) -> Option<PortInfoRecord> {
        let end = self.directory.end(ix);
        let mut info = self.directory.fabric.port(at).info?;
        let mut number = at.port;
        if let Some(vport) = self.directory.vport(ix) {
            number = vport::number(vport, at.port);
            info = vport::port_info(&info, vport, end.lid, at.port);
        }
        if compares_bits(self.modifier) && !self.has_capabilities(&info) {
            return None;
        }
        info.set_local_port_num(number);
        self.trust.conceal(&mut info);
        if !self.knows_extended_speeds() {
            show_as_qdr(&mut info);
        }
        let mut record = PortInfoRecord::default();
        record
            .set_end_port_lid(end.lid)
            .set_port_num(number)
            .set_options(self.options());
        *record.port_info_mut() = info;
        self.if_matching(record)
    }

    /// The options of the query; 0 if the mask omits them.
    fn options(&self) -> u8 {
        let is_given = self.mask.contains(PortInfoRecord::OPTIONS);
        if is_given { self.record.options() } else { 0 }
    }

    fn knows_extended_speeds(&self) -> bool {
        self.options() & PortInfoRecord::EXTENDED_SPEEDS != 0
    }

    /// Whether `info` has every requested capability, possibly among other capabilities.
    fn has_capabilities(&self, info: &PortInfo) -> bool {
        let wanted = self.record.port_info();
        let first = !self.mask.contains(PortInfoRecord::CAPABILITY_MASK)
            || info.capability_mask().contains(wanted.capability_mask());
        let second = !self.mask.contains(PortInfoRecord::CAPABILITY_MASK2)
            || info.capability_mask2().contains(wanted.capability_mask2());
        first && second
    }
}

/// Shows a link at an extended speed as QDR, for requesters that do not know extended speeds.
/// Otherwise, the original speed fields would be empty (IBA 15.2.5.3).
fn show_as_qdr(info: &mut PortInfo) {
    let is_extended =
        !info.link_speed_ext_active().is_empty() || !info.link_speed_ext_active2().is_empty();
    if is_extended {
        let (supported, enabled, active) = (
            info.link_speed_supported(),
            info.link_speed_enabled(),
            info.link_speed_active(),
        );
        info.set_link_speed_supported(supported | LinkSpeeds::QDR)
            .set_link_speed_enabled(enabled | LinkSpeeds::QDR)
            .set_link_speed_active(active | LinkSpeeds::QDR);
    }
}
