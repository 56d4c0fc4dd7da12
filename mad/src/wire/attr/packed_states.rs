//! Port states of four bits each: a byte contains two states, the first in its upper half.

use super::PortState;

/// The state at `index`; `None` if the index is beyond the last state.
pub(super) fn state(states: &[u8], index: usize) -> Option<PortState> {
    let byte = *states.get(index / 2)?;
    let code = if index.is_multiple_of(2) {
        byte >> 4
    } else {
        byte & 0xF
    };
    Some(PortState::from_code(code))
}

/// Sets the state at `index`. An index beyond the last state changes nothing.
pub(super) fn set_state(states: &mut [u8], index: usize, state: PortState) {
    if let Some(byte) = states.get_mut(index / 2) {
        let code = state.code() & 0xF;
        *byte = if index.is_multiple_of(2) {
            *byte & 0xF | code << 4
        } else {
            *byte & 0xF0 | code
        };
    }
}
