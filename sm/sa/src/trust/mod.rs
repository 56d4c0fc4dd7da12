//! Trust in requesters: which keys and records they see, and whose registrations they may change.
//!
//! A port may join and leave groups, and register services and alias GUIDs, for its own GIDs, and
//! for the other ports and virtual ports of its adapter. Requesters with the key of the SA, and the
//! operator's proxies, may act for any port.
//!
//! A partition may have its own treatment of requests about its members, and of requests for its
//! MGIDs and alias GUIDs.

mod offences;

use std::collections::BTreeSet;
use std::sync::Arc;

use rsm_config::{KNOWN_KEY, TrustMode};
use rsm_ids::Guid;
use rsm_mad::transport::RemoteAddress;
use rsm_mad::wire::attr::{NodeType, PortInfo};
use rsm_mad::wire::header::Method;
use rsm_mad::wire::sa::{GuidInfoRecord, McMemberRecord, Record as _, SaHeader, ServiceRecord};

pub use self::offences::Offence;
pub(crate) use self::offences::Offences;
use super::directory::Directory;
use super::ends::EndIx;

/// The operator's rules for requests in the name of another port.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TrustRules {
    /// Treatment of requests in the name of another port.
    pub mode: TrustMode,
    /// GUIDs of ports that may make such requests without the key of the SA.
    pub proxies: Arc<BTreeSet<Guid>>,
}

/// The trust in a requester, determined by the SM_Key of its request (IBA 15.4.1) and by its port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trust {
    /// The requester showed the key: it sees keys and records reserved for trusted requesters, and
    /// may change records of all ports.
    Trusted,
    /// The requester's port is a proxy of the operator: it may change records of all ports, and
    /// keys read as 0.
    Proxy,
    /// The requester showed no key: keys read as 0.
    Untrusted,
}

impl Trust {
    /// The trust that the key `shown` in a request gives; `None` for a wrong key, whose request is
    /// discarded. `sa_key` is the SA's key, 0 if the SA has none.
    ///
    /// The publicly known key gives no trust, but a request with it is not discarded, because tools
    /// made for OpenSM show it by default. If the SA has no key, no request is discarded, because
    /// there is no key to find by trial.
    pub fn of(shown: u64, sa_key: u64) -> Option<Trust> {
        match (shown, sa_key) {
            (0 | KNOWN_KEY, _) | (_, 0) => Some(Trust::Untrusted),
            (shown, own) if shown == own => Some(Trust::Trusted),
            _ => None,
        }
    }

    /// The trust in a request to change records from the port with this GUID.
    pub(crate) fn to_change(self, rules: &TrustRules, port: Guid) -> Trust {
        match self {
            Trust::Untrusted if rules.proxies.contains(&port) => Trust::Proxy,
            trust => trust,
        }
    }

    /// Whether the requester may change records of any port.
    pub(crate) fn acts_for_all(self) -> bool {
        matches!(self, Trust::Trusted | Trust::Proxy)
    }

    /// Whether the requester may see keys.
    pub fn is_trusted(self) -> bool {
        self == Trust::Trusted
    }

    /// Hides the M_Key of `info` from an untrusted requester. The caller does this before the
    /// record is compared, so that no query can find the key by trial.
    pub(crate) fn conceal(self, info: &mut PortInfo) {
        if !self.is_trusted() {
            info.set_m_key(0);
        }
    }
}

impl TrustRules {
    /// The treatment of requests about a port: the strictest treatment that any of its partitions
    /// states, or [`TrustRules::mode`] if no partition states one.
    pub(crate) fn of_port(&self, directory: &Directory, port: EndIx) -> TrustMode {
        let protections = &directory.plan.policy.partitions.protections;
        let keys = directory.p_keys(port).iter();
        let own = keys.filter_map(|&key| protections.trust(key)).max();
        own.unwrap_or(self.mode)
    }
}

/// Whether a request from `requester` shows a GID in its global route header that another port or
/// no port has. Always false for a router, which forwards requests from other subnets.
pub(crate) fn shows_foreign_gid(
    directory: &Directory,
    requester: EndIx,
    address: &RemoteAddress,
) -> bool {
    let Some(grh) = address.grh else {
        return false;
    };
    let at = directory.end(requester).at;
    let is_own = |ix: EndIx| directory.end(ix).at == at;
    !directory.by_gid(grh.gid).is_some_and(is_own)
        && directory.port(requester).0.kind() != NodeType::Router
}

/// The offence of a request to change a record of a port for which the requester may not act, and
/// that port. `None` if the requester may act for the port, or if the request names no port of the
/// subnet.
pub(crate) fn offence(
    directory: &Directory,
    requester: EndIx,
    (header, data): (&SaHeader, &[u8]),
) -> Option<(Offence, EndIx)> {
    let method = header.mad().method();
    let (subject, offence) = match header.mad().attribute() {
        McMemberRecord::ID => {
            let port = McMemberRecord::from_prefix(data)?.port_gid();
            let offence = match method {
                Method::SET => Offence::Join,
                _ => Offence::Leave,
            };
            (directory.by_gid(port)?, offence)
        }
        ServiceRecord::ID => {
            let gid = ServiceRecord::from_prefix(data)?.service_gid();
            // A service of a multicast group belongs to no port.
            let subject =
                (!gid.is_multicast()).then(|| directory.by_guid_or_alias(gid.guid()))??;
            (subject, Offence::Service)
        }
        GuidInfoRecord::ID => {
            let lid = GuidInfoRecord::from_prefix(data)?.lid();
            (directory.by_lid(lid)?, Offence::AliasGuid)
        }
        _ => return None,
    };
    (!acts_for(directory, requester, subject)).then_some((offence, subject))
}

/// Whether the requester may act for `subject`: for the same end or, if the requester is a physical
/// port, for the other ports and virtual ports of its adapter. A virtual port belongs to a guest,
/// which may act only for that virtual port.
fn acts_for(directory: &Directory, requester: EndIx, subject: EndIx) -> bool {
    let [from, of] = [requester, subject].map(|ix| directory.end(ix));
    requester == subject || from.vport.is_none() && from.at.node == of.at.node
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
    fn publicly_known_key_gives_no_trust_and_is_not_discarded() {
        for own in [0, 1, 7] {
            assert_eq!(Trust::of(0, own), Some(Trust::Untrusted));
            assert_eq!(Trust::of(1, own), Some(Trust::Untrusted));
        }
    }

    #[test]
    fn without_a_key_of_the_sa_every_request_is_untrusted() {
        for shown in [0, 1, 7, u64::MAX] {
            assert_eq!(Trust::of(shown, 0), Some(Trust::Untrusted));
        }
    }

    #[test]
    fn m_key_is_hidden_from_untrusted_requesters() {
        let mut info = PortInfo::default();
        info.set_m_key(9);
        Trust::Trusted.conceal(&mut info);
        assert_eq!(info.m_key(), 9);
        Trust::Untrusted.conceal(&mut info);
        assert_eq!(info.m_key(), 0);
    }
}
