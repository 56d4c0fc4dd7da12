use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::transport::{SA_DATA_LEN, SA_HEADER_LEN};
use crate::wire::header::{MadHeader, Method};
use crate::wire::rmpp::{RMPP_VERSION, RmppFlags, RmppHeader, RmppStatus, RmppType};
use crate::wire::{MAD_LEN, MadBytes};

/// What PayloadLength counts in every segment besides the data: SM_Key, AttributeOffset and ComponentMask (IBA 13.6.2.1).
pub(super) const CLASS_HEADER_LEN: u32 = 20;

/// The highest PayloadLength of one segment.
pub(super) const MAX_PAYLOAD: u32 = CLASS_HEADER_LEN + SA_DATA_LEN as u32;

/// Headers of a message, the RMPP header among them.
pub(super) type Headers = [u8; SA_HEADER_LEN];

/// A datagram of subnet administration as RMPP sees it.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Segment {
    pub(super) header: MadHeader,
    pub(super) rmpp: RmppHeader,
    pub(super) class_header: [u8; CLASS_HEADER_LEN as usize],
    pub(super) data: [u8; SA_DATA_LEN],
}

const _: () = assert!(size_of::<Segment>() == MAD_LEN);

impl Segment {
    pub(super) fn of(mad: &MadBytes) -> &Segment {
        zerocopy::transmute_ref!(mad)
    }

    /// A packet without data, with the headers of a message.
    pub(super) fn new(headers: &Headers) -> Segment {
        let mut mad: MadBytes = [0; MAD_LEN];
        mad[..SA_HEADER_LEN].copy_from_slice(headers);
        let mut segment: Segment = zerocopy::transmute!(mad);
        segment.rmpp = RmppHeader::default();
        segment
            .rmpp
            .set_version(RMPP_VERSION)
            .set_resp_time(RmppHeader::RESP_TIME_NONE)
            .set_flags(RmppFlags::ACTIVE);
        segment
    }

    /// A packet other than DATA.
    pub(super) fn control(headers: &Headers, kind: RmppType, status: RmppStatus) -> Segment {
        let mut segment = Segment::new(headers);
        segment.rmpp.set_rmpp_type(kind).set_status(status);
        segment
    }

    /// An acknowledgement of everything up to `segment_number`, which opens the window up to `new_window_last`.
    pub(super) fn ack(headers: &Headers, segment_number: u32, new_window_last: u32) -> Segment {
        let mut segment = Segment::control(headers, RmppType::Ack, RmppStatus::Normal);
        segment
            .rmpp
            .set_segment_number(segment_number)
            .set_new_window_last(new_window_last);
        segment
    }

    /// The headers.
    pub(super) fn headers(&self) -> Headers {
        let mut headers = [0; SA_HEADER_LEN];
        headers.copy_from_slice(&self.as_bytes()[..SA_HEADER_LEN]);
        headers
    }

    /// The headers of what goes back: the same transaction, with R turned round.
    pub(super) fn headers_back(&self) -> Headers {
        let mut back = *self;
        let method = Method(self.header.method().0 ^ Method::RESPONSE_BIT);
        back.header.set_method(method);
        back.headers()
    }

    pub(super) fn mad(&self) -> MadBytes {
        zerocopy::transmute!(*self)
    }

    pub(super) fn is_first(&self) -> bool {
        self.rmpp.flags().contains(RmppFlags::FIRST)
    }

    pub(super) fn is_last(&self) -> bool {
        self.rmpp.flags().contains(RmppFlags::LAST)
    }

    /// What is wrong with the packet by itself: its version, type, or a status that does not belong to its type.
    pub(super) fn fault(&self) -> Option<RmppStatus> {
        if self.rmpp.version() != RMPP_VERSION {
            return Some(RmppStatus::UnsupportedVersion);
        }
        let status = self.rmpp.status();
        let legal = match self.rmpp.rmpp_type() {
            RmppType::Data | RmppType::Ack => status == RmppStatus::Normal,
            RmppType::Stop => status == RmppStatus::ResourcesExhausted,
            RmppType::Abort => status.code() >= RmppStatus::TotalTimeTooLong.code(),
            RmppType::None | RmppType::Unknown(_) => return Some(RmppStatus::BadType),
        };
        (!legal).then_some(RmppStatus::IllegalStatus)
    }
}
