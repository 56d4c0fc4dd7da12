//! Telling a switch that forgot its tables from one that did not.

use rsm_ids::Lid;
use rsm_mad::wire::attr::{PortInfo, SwitchInfo};

/// Whether a switch whose port 0 answered `before` and now answers `now` has lost its LID, and with
/// it its tables.
///
/// It tells where LinearFDBTop does not, because that was set again in the meantime.
pub(super) fn forgot_lid(before: Option<&PortInfo>, now: &PortInfo) -> bool {
    now.lid() == Lid::NONE && before.is_some_and(|before| before.lid() != Lid::NONE)
}

/// Whether a switch that answered `before` and now answers `now` has lost its forwarding tables.
///
/// LinearFDBTop is written by the subnet manager only, and survives everything but a reset.
pub(super) fn forgot_tables(before: &SwitchInfo, now: &SwitchInfo) -> bool {
    before.linear_fdb_top() != now.linear_fdb_top()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_different_top_counts() {
        let mut before = SwitchInfo::default();
        before.set_linear_fdb_top(Lid(100));
        let mut now = before;
        now.set_port_state_change(true);
        assert!(!forgot_tables(&before, &now));
        now.set_linear_fdb_top(Lid(0));
        assert!(forgot_tables(&before, &now));
    }
}
