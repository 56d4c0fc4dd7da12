//! SLtoVLMappingTable: the operator's VL of each SL.
//!
//! A switch holds one table for each input and output. Either the operator's settings or the routes
//! determine it, and each side keeps an image of the tables that it wrote: the managed blocks of
//! the output port, and the rows of the switch. A Set of one side makes the other side forget what
//! it knew of that table.

use rsm_ids::{Guid, PortKey, PortNum};
use rsm_mad::wire::attr::{Attribute, SlToVlMapping};

use super::{BlockKey, BlockPlace, Managed, ManagedAttribute, Origin};
use crate::habits::DeviceHabit;
use crate::hardware::Hardware;

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

impl Hardware {
    /// Records that a Set of the operator's block `key` may have replaced the rows of an engine.
    pub fn forget_engine_rows(&mut self, key: BlockKey) {
        if key.place.attribute != ManagedAttribute::SlToVl {
            return;
        }
        let node = self.node(key.port.node);
        let Some(switch) = node.and_then(|node| node.switch.as_ref()) else {
            return;
        };
        let is_replaced = |&(input, output): &(PortNum, PortNum)| {
            let block = key.place.block;
            output == key.port.port && (block == ALL_INPUTS || block == u16::from(input.0))
        };
        let replaced: Vec<_> = switch.sl2vl.touched().filter(is_replaced).collect();
        if !replaced.is_empty()
            && let Some(switch) = self.switch_mut(key.port.node)
        {
            for ports in replaced {
                switch.sl2vl.forget_block(ports);
            }
        }
    }

    /// Records that a Set of an engine's row may have replaced the operator's table from `input` to
    /// `output` of a switch.
    pub fn forget_operator_row(&mut self, switch: Guid, input: PortNum, output: PortNum) {
        let key = PortKey::new(switch, output);
        let Some(port) = self.port_mut(key) else {
            return;
        };
        let blocks = [ALL_INPUTS, u16::from(input.0)];
        let places = blocks.map(|block| BlockPlace {
            attribute: ManagedAttribute::SlToVl,
            block,
        });
        let known = port.managed.touched().any(|place| places.contains(&place));
        if known {
            for place in places {
                port.managed.forget_block(place);
            }
            self.record_managed_write(key);
        }
    }
}
