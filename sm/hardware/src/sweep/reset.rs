//! Detects switches that were reset.

use rsm_ids::Lid;
use rsm_mad::wire::attr::{PortInfo, PortState, SwitchInfo};

/// Whether a switch has lost its LID, and therefore its tables, between two answers of its port 0.
///
/// This also detects a reset that [`forgot_tables`] misses because a Set has restored LinearFDBTop
/// since.
pub(super) fn forgot_lid(before: Option<&PortInfo>, now: &PortInfo) -> bool {
    now.lid() == Lid::NONE && before.is_some_and(|before| before.lid() != Lid::NONE)
}

/// Whether an external port of a switch has lost its settings between two answers: it was armed,
/// and is not, with another MTU or number of VLs.
///
/// A link that trains again keeps both, or only one end loses them. After a reset of the whole
/// switch, a Set under way may have restored its LID and LinearFDBTop, so that only such ports show
/// the reset.
pub(super) fn forgot_settings(before: Option<&PortInfo>, now: &PortInfo) -> bool {
    now.port_state() == PortState::Init
        && before.is_some_and(|before| {
            matches!(before.port_state(), PortState::Armed | PortState::Active)
                && (before.neighbor_mtu() != now.neighbor_mtu()
                    || before.operational_vls() != now.operational_vls())
        })
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
