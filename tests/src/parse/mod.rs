//! Parsers for the output of foreign programs.
//!
//! The parsers share no code with rsm, so that their results are independent evidence.

pub mod ibdmchk;
pub mod iblinkinfo;
pub mod ibroute;
pub mod ibtracert;
pub mod pkeys;
pub mod saquery;
pub mod sminfo;

/// Parses a hexadecimal number, with or without `0x`.
fn hex(text: &str) -> Option<u64> {
    let text = text.trim();
    u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}
