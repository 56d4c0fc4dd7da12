//! Parts of sentences for operators.

use std::fmt::Display;

/// A number with its noun: `1 port`, `2 ports`.
pub fn count<N: Display + PartialEq + From<u8>>(number: N, one: &str, many: &str) -> String {
    let noun = if number == N::from(1) { one } else { many };
    format!("{number} {noun}")
}
