//! SLtoVLMappingTableRecord: the VL on which packets of each service level leave.
//!
//! If routes need several VLs, switches answer with the planned tables. Otherwise, and at adapters
//! and routers, the answers contain the tables of section `qos` of the configuration, if the
//! section is on. If the section is off, devices keep their tables, which rsm does not read: the
//! answers then map all service levels to VL 0, which every link has.

use std::sync::Arc;

use rsm_ids::PortNum;
use rsm_mad::wire::attr::SlToVlMapping;
use rsm_mad::wire::sa::{ComponentMask, SlToVlMappingTableRecord};

use super::{Query, of_each_end};
use crate::ends::EndIx;

/// Components that the template does not compare: any LID of a port's range matches, and port
/// numbers count only on switches.
pub(super) const NOT_COMPARED: ComponentMask = SlToVlMappingTableRecord::LID
    .with(SlToVlMappingTableRecord::INPUT_PORT_NUM)
    .with(SlToVlMappingTableRecord::OUTPUT_PORT_NUM);

/// The records of all tables; `None` for a table that does not match.
pub(super) fn candidates(
    query: Query<SlToVlMappingTableRecord>,
) -> impl Iterator<Item = Option<SlToVlMappingTableRecord>> + Send + 'static {
    let ends = query.ends(SlToVlMappingTableRecord::LID, query.record.lid());
    of_each_end(query, ends, |query, ix| {
        let query = Arc::clone(query);
        let ports = query.port_numbers(ix);
        // A switch has one table for each output and input; a CA or router has only one.
        ports.clone().flat_map(move |output| {
            let query = Arc::clone(&query);
            ports
                .clone()
                .map(move |input| query.table(ix, PortNum(input), PortNum(output)))
        })
    })
}

impl Query<SlToVlMappingTableRecord> {
    /// The planned VL by SL, from an input of a switch to an output, or at the port of a CA or
    /// router. `None` if no VLs are planned.
    fn planned(&self, ix: EndIx, input: PortNum, output: PortNum) -> Option<[u8; 16]> {
        let plan = &self.directory.plan;
        let (node, _) = self.directory.port(ix);
        let lanes = &plan.routing.lanes;
        if let Some(switch) = plan.topology.switch_by_guid(node.guid)
            && !lanes.is_single()
        {
            return lanes.row(switch, input, output).copied();
        }
        // No packet leaves by the port by which it arrived.
        let is_turn = self.is_switch(ix) && input == output && input != PortNum::ZERO;
        let tables = self.tables_of(ix, output).filter(|_| !is_turn)?;
        Some(tables.row())
    }

    /// The record of a table; `None` if the record does not match the query.
    fn table(
        &self,
        ix: EndIx,
        input: PortNum,
        output: PortNum,
    ) -> Option<SlToVlMappingTableRecord> {
        let is_wanted = |component, wanted: PortNum, port: PortNum| {
            !self.is_switch(ix) || !self.mask.contains(component) || wanted == port
        };
        let wanted = &self.record;
        let matches = is_wanted(
            SlToVlMappingTableRecord::INPUT_PORT_NUM,
            wanted.input_port_num(),
            input,
        ) && is_wanted(
            SlToVlMappingTableRecord::OUTPUT_PORT_NUM,
            wanted.output_port_num(),
            output,
        );
        let mut record = SlToVlMappingTableRecord::default();
        record
            .set_lid(self.directory.end(ix).lid)
            .set_input_port_num(input)
            .set_output_port_num(output);
        if let Some(row) = self.planned(ix, input, output) {
            let mut mapping = SlToVlMapping::default();
            mapping.set_vls(row);
            record.set_mapping(&mapping);
        }
        matches.then_some(record)
    }
}
