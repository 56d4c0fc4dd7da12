//! Compares the SLtoVLMappingTables that routes need with the tables that switches hold.

use rsm_ids::PortNum;
use rsm_model::InventoryNode;
use rsm_plan::Plan;
use rsm_routing::lanes::Row;

use crate::sweep::sl2vl::pairs;

/// One SLtoVLMappingTable of a switch, from one input to one output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlToVlRow {
    /// Input port; 0 for the switch's own port.
    pub input: PortNum,
    /// The output port.
    pub output: PortNum,
    /// VL of each service level.
    pub row: Row,
}

/// The tables that `node` needs by `plan` and does not hold, by input and output. Empty if the
/// routes need only one VL, or `node` is not a switch of the plan.
pub(super) fn diff(plan: &Plan, node: &InventoryNode) -> Vec<SlToVlRow> {
    let sl2vl = &plan.routing.lanes;
    let Some(held) = node.switch.as_ref().filter(|_| !sl2vl.is_single()) else {
        return Vec::new();
    };
    let Some(switch) = plan.topology.switch_by_guid(node.info.node_guid()) else {
        return Vec::new();
    };
    pairs(node)
        .into_iter()
        .filter_map(|(input, output)| {
            let row = *sl2vl.row(switch, input, output)?;
            Some(SlToVlRow { input, output, row })
        })
        .filter(|planned| {
            let ports = (planned.input, planned.output);
            !held.sl2vl.holds(ports, &planned.row)
        })
        .collect()
}
