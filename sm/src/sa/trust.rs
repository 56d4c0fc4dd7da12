//! Trust in requesters: which keys and records they see.

use rsm_mad::wire::attr::PortInfo;

/// The trust in a requester, by the SM_Key of its request (IBA 15.4.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trust {
    /// It showed the key: it sees keys, and records that are for trusted requesters only.
    Trusted,
    /// It showed none: keys read as 0.
    Untrusted,
}

impl Trust {
    /// The trust that `shown` gives if `sm_key` is the right key; `None` for a wrong key, whose
    /// request is discarded. If `sm_key` is 0, no requester is trusted.
    pub fn of(shown: u64, sm_key: u64) -> Option<Trust> {
        match shown {
            0 => Some(Trust::Untrusted),
            key if key == sm_key => Some(Trust::Trusted),
            _ => None,
        }
    }

    /// Whether the requester may see keys.
    pub fn is_trusted(self) -> bool {
        self == Trust::Trusted
    }

    /// Hides the M_Key of `info` from an untrusted requester, before the record is matched, so that
    /// no query can find the key out.
    pub fn conceal(self, info: &mut PortInfo) {
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
        assert_eq!(Trust::of(0, 0), Some(Trust::Untrusted));
        assert_eq!(Trust::of(1, 0), None);
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
