//! Notices for subscribers, and the rule that decides which ports may receive a notice.
use std::sync::Arc;

use rsm_ids::Lid;
use rsm_mad::ids::Gid;
use rsm_mad::wire::attr::{GidChange, Notice, NoticeType, PKey, ProducerType, Trap};
use rsm_mad::wire::sa::SaNotice;

use crate::directory::Directory;
use crate::ends::EndIx;
use crate::partitions::can_talk;

/// A notice for subscribers, with the ports that may receive it.
#[derive(Clone, Debug)]
pub struct PublishedNotice {
    /// Notice in the form in which it is reported.
    pub notice: SaNotice,
    /// Ports that may receive the notice.
    pub audience: Audience,
}

/// The ports that may receive a notice (IBA o13-17.1.1): ports that share a partition with the
/// subject of the notice.
#[derive(Clone, Debug)]
pub enum Audience {
    /// The notice is about its issuer, a port with these P_Keys.
    Issuer(Arc<[PKey]>),
    /// The notice is issued by the subnet manager, about a port with these P_Keys.
    Port(Arc<[PKey]>),
    /// The notice is about a multicast group of this partition.
    Group(PKey),
}

impl Audience {
    /// Whether a port with these P_Keys may receive the notice.
    pub fn includes(&self, p_keys: &[PKey]) -> bool {
        match self {
            Audience::Issuer(theirs) | Audience::Port(theirs) => can_talk(p_keys, theirs),
            Audience::Group(group) => {
                let same = |mine: &PKey| mine.is_valid() && mine.base() == group.base();
                p_keys.iter().any(same)
            }
        }
    }
}

/// The subject of a notice. A subscriber needs only the last of several notices about one subject.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct NoticeSubject {
    generic: bool,
    trap_or_device: u16,
    issuer: Lid,
    details: [u8; Notice::DETAILS_LEN],
}

impl PublishedNotice {
    /// Trap 64 or 65: the port `ix` of `directory` came into service, or went out of service.
    pub fn of_port(directory: &Directory, ix: EndIx, in_service: bool) -> PublishedNotice {
        let trap = if in_service {
            Trap::GID_IN_SERVICE
        } else {
            Trap::GID_OUT_OF_SERVICE
        };
        let audience = Audience::Port(directory.p_keys(ix).into());
        PublishedNotice::of_gid(directory, trap, directory.gid(ix), audience)
    }

    /// Trap 66 or 67: a multicast group was created or deleted.
    pub fn of_group(
        directory: &Directory,
        mgid: Gid,
        p_key: PKey,
        exists: bool,
    ) -> PublishedNotice {
        let trap = if exists {
            Trap::GROUP_CREATED
        } else {
            Trap::GROUP_DELETED
        };
        PublishedNotice::of_gid(directory, trap, mgid, Audience::Group(p_key))
    }

    /// The notice of a trap that a port sent; `None` if no port has the issuer's LID.
    pub fn of_trap(directory: &Directory, notice: &Notice) -> Option<PublishedNotice> {
        let issuer = directory.by_lid(notice.issuer_lid())?;
        let mut forwarded = SaNotice::default();
        forwarded
            .set_notice(notice)
            .set_issuer_gid(directory.gid(issuer));
        Some(PublishedNotice {
            notice: forwarded,
            audience: Audience::Issuer(directory.p_keys(issuer).into()),
        })
    }

    /// A notice issued by the subnet manager itself, about a GID.
    fn of_gid(directory: &Directory, trap: Trap, gid: Gid, audience: Audience) -> PublishedNotice {
        let mut details = GidChange::default();
        details.set_gid(gid);
        let notice = Notice::generic(
            NoticeType::SubnetManagement,
            ProducerType::CLASS_MANAGER,
            trap,
            directory.plan.sm_lid,
            &details,
        );
        let mut reported = SaNotice::default();
        reported
            .set_notice(&notice)
            .set_issuer_gid(Gid::new(directory.prefix(), directory.own_guid));
        PublishedNotice {
            notice: reported,
            audience,
        }
    }

    /// The subject of the notice. Both traps about a GID, such as 64 and 65, have the same subject.
    pub fn subject(&self) -> NoticeSubject {
        let notice = self.notice.notice();
        let trap = match notice.trap_number() {
            trap if !notice.is_generic() => trap,
            Trap::GID_OUT_OF_SERVICE => Trap::GID_IN_SERVICE,
            Trap::GROUP_DELETED => Trap::GROUP_CREATED,
            trap => trap,
        };
        NoticeSubject {
            generic: notice.is_generic(),
            trap_or_device: trap.0,
            issuer: notice.issuer_lid(),
            details: *notice.data_details(),
        }
    }

    /// Whether only trusted subscribers may receive the notice (IBA C15-0.2-1.16): a notice about a
    /// wrong key has details that help to find the right key.
    pub(crate) fn is_security(&self) -> bool {
        let notice = self.notice.notice();
        notice.notice_type() == NoticeType::Security
            || notice.is_generic() && reports_wrong_key(notice.trap_number())
    }
}

/// Whether a generic trap reports a wrong key.
pub(super) fn reports_wrong_key(trap: Trap) -> bool {
    (Trap::BAD_M_KEY..=Trap::BAD_P_KEY_AT_SWITCH).contains(&trap)
}
