//! The SLtoVLMappingTables that a switch holds.

use std::collections::BTreeMap;

use rsm_ids::PortNum;
use rsm_mad::wire::attr::SlToVlMapping;

use super::inventory::BlockState;

/// The lane of each service level.
pub type VlBySl = [u8; SlToVlMapping::ENTRIES];

/// The SLtoVLMappingTables of one switch, by input and output port, as far as they were read or
/// written: most fabrics need none.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct SlToVlImage {
    rows: BTreeMap<(PortNum, PortNum), (BlockState, VlBySl)>,
}

impl SlToVlImage {
    /// The state of the table from `input` to `output`.
    pub fn state(&self, input: PortNum, output: PortNum) -> BlockState {
        let held = self.rows.get(&(input, output));
        held.map_or(BlockState::Unknown, |&(state, _)| state)
    }

    /// Whether the table from `input` to `output` is known to hold exactly `row`.
    pub fn holds(&self, input: PortNum, output: PortNum, row: &VlBySl) -> bool {
        self.rows.get(&(input, output)) == Some(&(BlockState::Known, *row))
    }

    /// Records that the hardware holds `row` from `input` to `output`.
    pub fn store(&mut self, input: PortNum, output: PortNum, row: VlBySl) {
        self.rows.insert((input, output), (BlockState::Known, row));
    }

    /// Records that the table may hold anything between its old and a new content.
    pub fn mark_dirty(&mut self, input: PortNum, output: PortNum) {
        if let Some((state, _)) = self.rows.get_mut(&(input, output)) {
            *state = BlockState::Dirty;
        }
    }

    /// Forgets all tables after a reset of the switch.
    pub fn forget(&mut self) {
        self.rows.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_held_from_store_until_doubted() {
        let [a, b] = [PortNum(1), PortNum(2)];
        let row: VlBySl = std::array::from_fn(|level| level as u8 % 2);
        let mut image = SlToVlImage::default();
        assert!(!image.holds(a, b, &row));
        image.mark_dirty(a, b);
        assert_eq!(image.state(a, b), BlockState::Unknown);
        image.store(a, b, row);
        assert!(image.holds(a, b, &row) && !image.holds(b, a, &row));
        assert!(!image.holds(a, b, &[0; 16]));
        image.mark_dirty(a, b);
        assert!(!image.holds(a, b, &row));
        assert_eq!(image.state(a, b), BlockState::Dirty);
        image.forget();
        assert_eq!(image, SlToVlImage::default());
    }
}
