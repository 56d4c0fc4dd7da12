//! Decides when to report, so that hosts are spread and never report all at once.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

/// The delay after the first of several consecutive failures.
const FIRST: Duration = Duration::from_secs(1);

/// The maximum delay between two attempts.
const LONGEST: Duration = Duration::from_secs(300);

/// The delay of a host within `spread`, derived from its name: hosts that start together report one
/// after the other, and each host always with the same delay.
pub(crate) fn place(host: &str, spread: Duration) -> Duration {
    // FNV-1a. The final step mixes the low bits, in which numbered names differ, into the high
    // ones.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in host.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    part(spread, hash)
}

/// The delay before the next attempt after `failures` consecutive failures: a random share, between
/// half and all, of a time that doubles with each failure up to five minutes. Hosts that failed
/// together, for example when a manager restarted, try again at different times.
pub(crate) fn after(failures: u32) -> Duration {
    let doubled = FIRST.saturating_mul(1 << failures.saturating_sub(1).min(16));
    let whole = doubled.min(LONGEST);
    // Every `RandomState` has different keys.
    let random = RandomState::new().build_hasher().finish();
    whole / 2 + part(whole / 2, random)
}

/// The fraction of `whole` that `number` is of the range of its type.
fn part(whole: Duration, number: u64) -> Duration {
    let nanos = whole.as_nanos().saturating_mul(u128::from(number)) >> 64;
    // The product is less than `whole`.
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_with_consecutive_numbers_are_spread_evenly() {
        let spread = Duration::from_secs(60);
        let mut seconds = [0u32; 60];
        for number in 0..5_632 {
            let place = place(&format!("gpu-{number:04}"), spread);
            assert_eq!(place, super::place(&format!("gpu-{number:04}"), spread));
            seconds[place.as_secs() as usize] += 1;
        }
        let fullest = seconds.iter().max().expect("the period has seconds");
        assert!(*fullest < 3 * 5_632 / 60, "{seconds:?}");
        assert_eq!(place("gpu-1", Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn delays_grow_to_a_limit_and_differ() {
        for (failures, least, most) in [(1, 500, 1_000), (3, 2_000, 4_000), (40, 150_000, 300_000)]
        {
            let delays: Vec<u128> = (0..50).map(|_| after(failures).as_millis()).collect();
            let inside = |delay: &u128| (least..=most).contains(delay);
            assert!(delays.iter().all(inside), "{failures}: {delays:?}");
            let different: std::collections::BTreeSet<_> = delays.iter().collect();
            assert!(different.len() > 25, "{failures}: {delays:?}");
        }
    }
}
