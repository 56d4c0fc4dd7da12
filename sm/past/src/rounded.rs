//! Counts rounded to six significant bits, as codes of 16 bits.

/// Counts below this number are exact; the code is the count.
const EXACT: u64 = 64;

/// Number of significant bits after the first one.
const MANTISSA: u32 = 5;

/// Code of the count closest to `value`: exact below 64, otherwise with an error of at most 1/64.
pub(crate) fn code(value: u64) -> u16 {
    if value < EXACT {
        return value as u16;
    }
    let half = 1u64 << (value.ilog2() - MANTISSA - 1);
    let rounded = value.saturating_add(half);
    let exponent = rounded.ilog2();
    let mantissa = (rounded >> (exponent - MANTISSA)) & ((1 << MANTISSA) - 1);
    // The result is at most 64 + 57 * 32 + 31.
    (EXACT + u64::from(exponent - 6) * (1 << MANTISSA) + mantissa) as u16
}

/// The count that a code stands for; the highest count for a code that [`code`] never returns.
pub(crate) fn value(code: u16) -> u64 {
    let code = u64::from(code);
    let Some(above) = code.checked_sub(EXACT) else {
        return code;
    };
    let (exponent, mantissa) = (above >> MANTISSA, above & ((1 << MANTISSA) - 1));
    match exponent {
        0..=57 => ((1 << MANTISSA) + mantissa) << (exponent + 1),
        _ => u64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn rounded_counts_keep_their_order_and_differ_by_at_most_a_64th(bits in 0u32..64, noise: u64, step in 0u64..99) {
            let count = (noise | 1 << 63) >> bits;
            let back = value(code(count));
            prop_assert!(back.abs_diff(count) <= count / 64, "{count} became {back}");
            prop_assert_eq!(value(code(back)), back);
            prop_assert!(code(count) <= code(count.saturating_add(step)));
        }
    }

    #[test]
    fn small_counts_are_exact_and_the_highest_has_a_code() {
        assert!((64..=128).all(|count: u64| value(code(count)).abs_diff(count) <= 1));
        assert!((0..64).all(|count| value(code(count)) == count));
        assert!(value(code(u64::MAX)) >= u64::MAX - u64::MAX / 64);
        assert_eq!(value(u16::MAX), u64::MAX);
    }
}
