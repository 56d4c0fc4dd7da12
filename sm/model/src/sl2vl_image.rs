//! The SLtoVLMappingTables of a switch as the hardware holds them.

use std::collections::BTreeMap;

use rsm_ids::PortNum;
use rsm_mad::wire::attr::SlToVlMapping;

use super::image::{BlockTable, Image};

/// VL of each service level.
pub(crate) type VlBySl = [u8; SlToVlMapping::ENTRIES];

/// The SLtoVLMappingTables of one switch by (input, output) port, as far as they were read or
/// written. Most fabrics need none.
pub(crate) type SlToVlImage = Image<BTreeMap<(PortNum, PortNum), VlBySl>>;

impl BlockTable for BTreeMap<(PortNum, PortNum), VlBySl> {
    type Place = (PortNum, PortNum);
    type Block = VlBySl;

    fn has_block(&self, ports: (PortNum, PortNum), row: &VlBySl) -> bool {
        self.get(&ports) == Some(row)
    }

    fn set_block(&mut self, ports: (PortNum, PortNum), row: &VlBySl) {
        self.insert(ports, *row);
    }
}
