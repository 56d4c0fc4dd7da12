//! What differs between the SLtoVLMappingTables that routes need and those that switches hold.

use rsm_ids::PortNum;
use rsm_routing::lanes::Row;

use crate::plan::Plan;
use crate::sweep::inventory::NodeRecord;
use crate::sweep::lanes::pairs;

/// One SLtoVLMappingTable of a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaneRow {
    /// The port that packets come in by; 0 for the switch's own.
    pub input: PortNum,
    /// The port that they leave by.
    pub output: PortNum,
    /// The lane of each service level.
    pub row: Row,
}

/// The tables of a switch that `plan` wants otherwise; none where its routes stand on one lane.
pub(super) fn diff(plan: &Plan, node: &NodeRecord) -> Vec<LaneRow> {
    let lanes = &plan.routing.lanes;
    let Some(record) = node.switch.as_ref().filter(|_| !lanes.is_single()) else {
        return Vec::new();
    };
    let Some(switch) = plan.topology.switch_by_guid(node.info.node_guid()) else {
        return Vec::new();
    };
    pairs(node)
        .into_iter()
        .filter_map(|(input, output)| {
            let row = *lanes.row(switch, input, output)?;
            Some(LaneRow { input, output, row })
        })
        .filter(|wanted| !record.lanes.holds(wanted.input, wanted.output, &wanted.row))
        .collect()
}
