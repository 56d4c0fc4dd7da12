//! Detects switches that were reset.

use rsm_ids::Lid;
use rsm_mad::wire::attr::{PortInfo, SwitchInfo};

/// Whether a switch has lost its LID, and therefore its tables, between two answers of its port 0.
///
/// This also detects a reset that [`forgot_tables`] misses because a Set has restored LinearFDBTop
/// since.
pub(super) fn forgot_lid(before: Option<&PortInfo>, now: &PortInfo) -> bool {
    now.lid() == Lid::NONE && before.is_some_and(|before| before.lid() != Lid::NONE)
}

/// Whether a switch has lost its forwarding tables between two answers.
///
/// Only the subnet manager writes LinearFDBTop, and only a reset clears it.
pub(super) fn forgot_tables(before: &SwitchInfo, now: &SwitchInfo) -> bool {
    before.linear_fdb_top() != now.linear_fdb_top()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_linear_fdb_top_shows_a_reset_and_port_state_change_does_not() {
        let mut before = SwitchInfo::default();
        before.set_linear_fdb_top(Lid(100));
        let mut now = before;
        now.set_port_state_change(true);
        assert!(!forgot_tables(&before, &now));
        now.set_linear_fdb_top(Lid(0));
        assert!(forgot_tables(&before, &now));
    }
}
