//! Formats times as text.

use rsm_ids::UnixMs;

/// Formats a time as RFC 3339 in UTC, to the millisecond.
pub fn timestamp(unix_ms: u64) -> String {
    UnixMs(unix_ms).to_string()
}
