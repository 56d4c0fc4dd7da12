use std::fmt;

/// The M_Keys of a request: one key, or several of which the target holds one. Each attempt uses
/// the next key in turn. `Debug` hides the keys.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct MKeys {
    keys: [u64; MKeys::MAX],
    len: u8,
}

impl MKeys {
    /// The maximum number of keys: the usual number of attempts of a request suffices to try every
    /// key.
    pub const MAX: usize = 4;

    /// The set without an M_Key.
    pub const NONE: MKeys = MKeys::one(0);

    /// The set of only this key; 0 means no key.
    pub const fn one(key: u64) -> MKeys {
        MKeys {
            keys: [key; MKeys::MAX],
            len: 1,
        }
    }

    /// The first [`MKeys::MAX`] of `keys` in their order; without any, no key.
    pub fn several(keys: impl IntoIterator<Item = u64>) -> MKeys {
        let mut several = MKeys::NONE;
        let mut len = 0;
        for (slot, key) in several.keys.iter_mut().zip(keys) {
            *slot = key;
            len += 1;
        }
        several.len = len.max(1);
        several
    }

    /// The key of the first attempt.
    pub const fn first(&self) -> u64 {
        self.keys[0]
    }

    /// The keys in the order of attempts; never empty.
    pub fn as_slice(&self) -> &[u64] {
        &self.keys[..usize::from(self.len)]
    }

    /// Whether a missing answer may be due to a wrong key, so that it says nothing about losses.
    pub(super) const fn is_guess(&self) -> bool {
        self.len > 1
    }

    /// The number of keys, at least 1.
    pub(super) const fn count(&self) -> u8 {
        self.len
    }

    /// The key of attempt number `attempt`, from 0.
    pub(super) fn of_attempt(&self, attempt: u8) -> u64 {
        self.keys[usize::from(attempt % self.len)]
    }
}

impl Default for MKeys {
    fn default() -> MKeys {
        MKeys::NONE
    }
}

impl From<u64> for MKeys {
    fn from(key: u64) -> MKeys {
        MKeys::one(key)
    }
}

impl fmt::Debug for MKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} M_Keys", self.len)
    }
}
