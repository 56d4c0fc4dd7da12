//! Trust in requesters: which keys and records they see, and which of other hosts' registrations
//! they may change.

use rsm_config::KNOWN_KEY;
use rsm_mad::wire::attr::PortInfo;

/// Trust in a requester, by the SM_Key of its request (IBA 15.4.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trust {
    /// The requester showed the key: it sees keys, and records for trusted requesters only.
    Trusted,
    /// The requester showed no key: keys read as 0.
    Untrusted,
}

impl Trust {
    /// The trust given by the key `shown`, if `sa_key` is the SA's key, or 0 if it has none. `None`
    /// for a wrong key, whose request is discarded.
    ///
    /// The key that every host knows gives no trust, and causes no discard: tools at OpenSM's sites
    /// show it unasked. If the SA has no key, there is none to find out, and no request is
    /// discarded.
    pub fn of(shown: u64, sa_key: u64) -> Option<Trust> {
        match (shown, sa_key) {
            (0 | KNOWN_KEY, _) | (_, 0) => Some(Trust::Untrusted),
            (shown, own) if shown == own => Some(Trust::Trusted),
            _ => None,
        }
    }

    /// Whether the requester may see keys.
    pub fn is_trusted(self) -> bool {
        self == Trust::Trusted
    }

    /// Hides the M_Key of `info` from an untrusted requester, before the record is matched, so that
    /// no query can find the key out.
    pub(crate) fn conceal(self, info: &mut PortInfo) {
        if !self.is_trusted() {
            info.set_m_key(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_with_a_wrong_key_are_discarded() {
        assert_eq!(Trust::of(0, 7), Some(Trust::Untrusted));
        assert_eq!(Trust::of(7, 7), Some(Trust::Trusted));
        assert_eq!(Trust::of(8, 7), None);
    }

    #[test]
    fn a_key_that_everybody_knows_opens_and_closes_nothing() {
        for own in [0, 1, 7] {
            assert_eq!(Trust::of(0, own), Some(Trust::Untrusted));
            assert_eq!(Trust::of(1, own), Some(Trust::Untrusted));
        }
    }

    #[test]
    fn without_an_own_key_every_request_is_untrusted() {
        for shown in [0, 1, 7, u64::MAX] {
            assert_eq!(Trust::of(shown, 0), Some(Trust::Untrusted));
        }
    }

    #[test]
    fn only_the_trusted_see_the_m_key() {
        let mut info = PortInfo::default();
        info.set_m_key(9);
        Trust::Trusted.conceal(&mut info);
        assert_eq!(info.m_key(), 9);
        Trust::Untrusted.conceal(&mut info);
        assert_eq!(info.m_key(), 0);
    }
}
