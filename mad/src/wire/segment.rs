//! The datagrams of one message: the headers with the RMPP header, and a piece of the data (IBA
//! 13.6.2).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::header::{MadHeader, Method};
use super::rmpp::{RMPP_VERSION, RmppFlags, RmppHeader, RmppStatus, RmppType};
use super::sa::{SA_DATA_LEN, SA_HEADER_LEN};
use super::{MAD_LEN, MadBytes};

/// The number of bytes that PayloadLength counts in every segment besides the data: SM_Key,
/// AttributeOffset and ComponentMask (IBA 13.6.2.1).
pub(crate) const CLASS_HEADER_LEN: u32 = 20;

/// The highest PayloadLength of one segment.
pub(crate) const MAX_PAYLOAD: u32 = CLASS_HEADER_LEN + SA_DATA_LEN as u32;

/// The headers of a message, the RMPP header among them.
pub(crate) type Headers = [u8; SA_HEADER_LEN];

/// A datagram of the SA with its RMPP header.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Segment {
    pub(crate) header: MadHeader,
    pub(crate) rmpp: RmppHeader,
    pub(crate) class_header: [u8; CLASS_HEADER_LEN as usize],
    pub(crate) data: [u8; SA_DATA_LEN],
}

const _: () = assert!(size_of::<Segment>() == MAD_LEN);

impl Segment {
    pub(crate) fn of(mad: &MadBytes) -> &Segment {
        zerocopy::transmute_ref!(mad)
    }

    /// A packet without data, with the headers of a message.
    pub(crate) fn new(headers: &Headers) -> Segment {
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

    /// A packet without data, of a type other than DATA.
    pub(crate) fn control(headers: &Headers, kind: RmppType, status: RmppStatus) -> Segment {
        let mut segment = Segment::new(headers);
        segment.rmpp.set_rmpp_type(kind).set_status(status);
        segment
    }

    /// An acknowledgement of all segments up to `segment_number`, which opens the window up to
    /// `new_window_last`.
    pub(crate) fn ack(headers: &Headers, segment_number: u32, new_window_last: u32) -> Segment {
        let mut segment = Segment::control(headers, RmppType::Ack, RmppStatus::Normal);
        segment
            .rmpp
            .set_segment_number(segment_number)
            .set_new_window_last(new_window_last);
        segment
    }

    /// The DATA packet with the `number`th segment of a message that announces `announced` as the
    /// PayloadLength of all segments.
    pub(crate) fn data(
        headers: &Headers,
        number: u32,
        announced: u32,
        is_last: bool,
        data: &[u8],
    ) -> Segment {
        let mut segment = Segment::control(headers, RmppType::Data, RmppStatus::Normal);
        let mut flags = RmppFlags::ACTIVE;
        let mut payload = 0;
        if number == 1 {
            flags = flags | RmppFlags::FIRST;
            payload = announced;
        }
        if is_last {
            flags = flags | RmppFlags::LAST;
            payload = CLASS_HEADER_LEN + data.len() as u32;
        }
        segment
            .rmpp
            .set_flags(flags)
            .set_segment_number(number)
            .set_payload_length(payload);
        segment.data[..data.len()].copy_from_slice(data);
        segment
    }

    /// The headers of the segment.
    pub(crate) fn headers(&self) -> Headers {
        let mut headers = [0; SA_HEADER_LEN];
        headers.copy_from_slice(&self.as_bytes()[..SA_HEADER_LEN]);
        headers
    }

    /// The headers of a packet to the sender of this segment: the same transaction identifier, and
    /// the R bit inverted.
    pub(crate) fn headers_back(&self) -> Headers {
        let mut back = *self;
        let method = Method(self.header.method().0 ^ Method::RESPONSE_BIT);
        back.header.set_method(method);
        back.headers()
    }

    pub(crate) fn mad(&self) -> MadBytes {
        zerocopy::transmute!(*self)
    }

    pub(crate) fn is_first(&self) -> bool {
        self.rmpp.flags().contains(RmppFlags::FIRST)
    }

    pub(crate) fn is_last(&self) -> bool {
        self.rmpp.flags().contains(RmppFlags::LAST)
    }

    /// The error of the packet, regardless of the transfer: its version, its type, or a status that
    /// does not belong to its type; `None` for a correct packet.
    pub(crate) fn fault(&self) -> Option<RmppStatus> {
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

/// The segments of a message with RMPP, in sending order; empty if the headers are incomplete.
pub fn segments(message: &[u8]) -> impl Iterator<Item = MadBytes> + '_ {
    let headers = message.first_chunk::<SA_HEADER_LEN>();
    let data = message.get(SA_HEADER_LEN..).unwrap_or_default();
    let announced = payload_of_all(data.len() as u64);
    let count = data.len().div_ceil(SA_DATA_LEN).max(1);
    headers.into_iter().flat_map(move |headers| {
        (0..count).map(move |index| {
            let from = &data[index * SA_DATA_LEN..];
            let piece = &from[..from.len().min(SA_DATA_LEN)];
            let (number, is_last) = (index as u32 + 1, index + 1 == count);
            Segment::data(headers, number, announced, is_last, piece).mad()
        })
    })
}

/// Fills in the RMPP header of the first segment in a message, as if the message had only this
/// segment.
pub(crate) fn complete_header(message: &mut [u8]) {
    let first = segments(message).next();
    if let (Some(first), Some(headers)) = (first, message.first_chunk_mut::<SA_HEADER_LEN>()) {
        headers.copy_from_slice(&first[..SA_HEADER_LEN]);
    }
}

/// The total PayloadLength of the segments of `bytes` bytes of data; 0 if it does not fit the
/// field.
pub(crate) fn payload_of_all(bytes: u64) -> u32 {
    let segments = bytes.div_ceil(SA_DATA_LEN as u64).max(1);
    let payload = bytes.checked_add(segments * u64::from(CLASS_HEADER_LEN));
    payload
        .and_then(|payload| u32::try_from(payload).ok())
        .unwrap_or(0)
}

/// The number of bytes of data in segments whose PayloadLength is `payload` in total.
pub(crate) fn data_of(payload: u32) -> u64 {
    let segments = u64::from(payload.div_ceil(MAX_PAYLOAD));
    u64::from(payload).saturating_sub(segments * u64::from(CLASS_HEADER_LEN))
}
