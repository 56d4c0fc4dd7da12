//! The notices that a subscription requests (IBA 13.4.8.3).

use rsm_ids::Lid;
use rsm_mad::ids::Gid;
use rsm_mad::wire::sa::{InformInfo, SaNotice};

/// The ports whose notices a subscription matches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sources {
    /// All ports.
    All,
    /// The port with this GID.
    Port(Gid),
    /// Ports with LIDs in this range, both ends included.
    Lids(Lid, Lid),
}

/// The notices that a subscription matches. Two requests with the same meaning are equal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interest {
    /// Ports that issue the notices.
    pub sources: Sources,
    /// Whether the notices are generic notices; otherwise, they are a vendor's notices.
    pub generic: bool,
    /// Type of the notices; `None` for all types.
    pub notice_type: Option<u16>,
    /// TrapNumber of generic notices, or DeviceID of a vendor's notices; `None` for all.
    pub trap_or_device: Option<u16>,
    /// ProducerType of generic notices, or VendorID of a vendor's notices; 24 bits; `None` for all.
    pub producer_or_vendor: Option<u32>,
}

impl Interest {
    /// Interprets a request. `None` if no notice can ever match: a LID that no port can have, a
    /// range that ends before it begins, or a flag other than 0 and 1. The range from LID 0 to LID
    /// 0, which osmtest sends, is valid and matches no port.
    pub fn of(info: &InformInfo) -> Option<Interest> {
        let sources = if info.gid() != Gid(0) {
            Sources::Port(info.gid())
        } else if info.lid_range_begin() == InformInfo::LID_RANGE_ALL {
            Sources::All
        } else {
            let first = info.lid_range_begin();
            let last = match info.lid_range_end() {
                Lid(0) => first,
                last => Lid(last.0.min(Lid::UNICAST_LAST.0)),
            };
            let matches_no_port = first == Lid::NONE && last == Lid::NONE;
            if !matches_no_port && (!first.is_unicast() || last < first) {
                return None;
            }
            Sources::Lids(first, last)
        };
        if info.is_generic() > 1 || info.subscribe() > 1 {
            return None;
        }
        let unless_all = |value| (value != InformInfo::ALL).then_some(value);
        let producer = info.vendor_id();
        Some(Interest {
            sources,
            generic: info.is_generic() == 1,
            notice_type: unless_all(info.notice_type()),
            trap_or_device: unless_all(info.device_id()),
            producer_or_vendor: (producer != InformInfo::ALL_PRODUCERS).then_some(producer),
        })
    }

    /// Whether the subscription requests `notice`.
    pub fn includes(&self, notice: &SaNotice) -> bool {
        let issuer_gid = notice.issuer_gid();
        let notice = notice.notice();
        let source_matches = match self.sources {
            Sources::All => true,
            Sources::Port(gid) => gid == issuer_gid,
            Sources::Lids(first, last) => (first..=last).contains(&notice.issuer_lid()),
        };
        let matches = |wanted: Option<u32>, value: u32| wanted.is_none_or(|one| one == value);
        let notice_type = u32::from(notice.notice_type().code());
        source_matches
            && self.generic == notice.is_generic()
            && matches(self.notice_type.map(u32::from), notice_type)
            && matches(
                self.trap_or_device.map(u32::from),
                notice.device_id().into(),
            )
            && matches(self.producer_or_vendor, notice.vendor_id())
    }
}
