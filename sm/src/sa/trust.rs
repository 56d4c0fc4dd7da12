//! Who is shown what.

use rsm_mad::wire::attr::PortInfo;

/// How much a requester is shown, by the SM_Key of its request (IBA 15.4.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trust {
    /// It showed the key: keys are given out, and records that only the trusted may see.
    Trusted,
    /// It showed none: keys read as 0.
    Untrusted,
}

impl Trust {
    /// What `shown` is worth where `sm_key` is the right one; `None` for a wrong key, whose request
    /// is discarded. Where `sm_key` is 0 nobody is.
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

    /// Hides from the untrusted what `info` has for the trusted only: the M_Key. It is hidden
    /// before the record is matched, so that the key cannot be guessed by asking for it either.
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
    fn a_wrong_key_is_worse_than_none() {
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
