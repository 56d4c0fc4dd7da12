//! SLtoVLMappingTable: the operator's VL of each SL.
//!
//! A switch holds one table for each input and output. Either the operator's settings or the routes
//! determine it, and each side keeps an image of the tables that it wrote: the managed blocks of
//! the output port, and the rows of the switch. A Set of one side makes the other side forget what
//! it knew of that table.

use rsm_ids::PortNum;
use rsm_mad::wire::attr::{Attribute, SlToVlMapping};

use super::{Managed, Origin};
use crate::habits::DeviceHabit;

/// Block number that stands for all inputs of a switch's output port.
pub const ALL_INPUTS: u16 = 0x100;

/// The only block of a port of a channel adapter or router.
pub const END_PORT: u16 = 0x200;

/// SLtoVLMappingTable (IBA 14.2.5.8). The port is the output; the block number is the input, or
/// [`ALL_INPUTS`].
pub(super) static SL_TO_VL: Managed = Managed {
    attribute: SlToVlMapping::ID,
    name: "SLtoVLMappingTable",
    reason: "VLs of SLs differ",
    origin: Origin::Qos,
    modifier: |key, block| match block {
        END_PORT => 0,
        ALL_INPUTS => SlToVlMapping::modifier_all_inputs(key.port),
        input => SlToVlMapping::modifier(PortNum(input as u8), key.port),
    },
    is_readable: |block| block != ALL_INPUTS,
    habit: |block| {
        Some(match block {
            ALL_INPUTS => DeviceHabit::RefusesOptimizedSlToVl,
            _ => DeviceHabit::RefusesSlToVl,
        })
    },
    agrees: |_, held, wanted| {
        let [held, wanted] = [held, wanted].map(|data| SlToVlMapping::from_data(data).vls());
        held == wanted
    },
};
