use std::fmt;

use zerocopy::byteorder::network_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{ComponentMask, Record, SaStatus};
use crate::ids::Tid;
use crate::wire::header::{AttrId, BASE_VERSION, Class, MadHeader, Method, Status};
use crate::wire::rmpp::RmppHeader;
use crate::wire::{MAD_LEN, MadBytes, bits};

/// The class version of the SA (IBA 15.2.1).
pub const CLASS_VERSION: u8 = 2;

/// The number of bytes of a message before its data.
pub const SA_HEADER_LEN: usize = 56;

/// The number of data bytes in one datagram.
pub const SA_DATA_LEN: usize = MAD_LEN - SA_HEADER_LEN;

/// The header of every datagram of the SA (IBA 15.2.1.1).
///
/// ```text
/// byte  7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0
///    0  common MAD header, 24 bytes
///   24  RMPP header, 12 bytes
///   36  SM_Key
///   44  AttributeOffset                   | -
///   48  ComponentMask
///   56  data, 200 bytes
/// ```
#[derive(
    Clone, Copy, PartialEq, Eq, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct SaHeader {
    mad: MadHeader,
    rmpp: RmppHeader,
    sm_key: U64,
    attribute_offset: U16,
    reserved: U16,
    component_mask: U64,
}

const _: () = assert!(size_of::<SaHeader>() == SA_HEADER_LEN);

bits! { SaHeader {
    /// The key of a trusted requester; 0 for other requesters.
    sm_key, set_sm_key: u64 = sm_key;
    /// The distance from one record to the next in a table, in units of 8 bytes.
    attribute_offset, set_attribute_offset: u16 = attribute_offset;
    /// The components of the record that a query compares.
    component_mask, set_component_mask: ComponentMask = component_mask;
} }

impl SaHeader {
    /// The header of a request for `R`, with an empty mask.
    pub fn request<R: Record>(method: Method, tid: Tid) -> SaHeader {
        let mut header = SaHeader::default();
        header
            .mad
            .set_base_version(BASE_VERSION)
            .set_class(Class::SUBNET_ADMINISTRATION)
            .set_class_version(CLASS_VERSION)
            .set_method(method)
            .set_tid(tid)
            .set_attribute(R::ID);
        header
    }

    /// The header of `message` and the data that follow it; `None` if the message is too short for
    /// a header.
    #[inline]
    pub fn split(message: &[u8]) -> Option<(&SaHeader, &[u8])> {
        SaHeader::ref_from_prefix(message).ok()
    }

    /// The bytes of the header.
    pub fn as_bytes(&self) -> &[u8; SA_HEADER_LEN] {
        zerocopy::transmute_ref!(self)
    }

    /// The common header of all management datagrams.
    pub fn mad(&self) -> &MadHeader {
        &self.mad
    }

    /// The common header of all management datagrams, mutable in place.
    pub fn mad_mut(&mut self) -> &mut MadHeader {
        &mut self.mad
    }

    /// The RMPP header.
    pub fn rmpp(&self) -> &RmppHeader {
        &self.rmpp
    }

    /// The RMPP header, mutable in place.
    pub fn rmpp_mut(&mut self) -> &mut RmppHeader {
        &mut self.rmpp
    }

    /// Whether the message is a request that gets an answer. A Send has no answer by definition,
    /// and TrapRepress is itself an answer. A Trap gets no answer because the class has no traps
    /// (IBA 15.2.2); OpenSM does not answer it either.
    pub fn expects_answer(&self) -> bool {
        let unanswered = [Method::SEND, Method::TRAP, Method::TRAP_REPRESS];
        let method = self.mad.method();
        !method.is_response() && !unanswered.contains(&method)
    }

    /// The header of the response to this request: the method's answer with `status`, and an empty
    /// RMPP header. Its SM_Key is zero, because requesters without the key may read the answer.
    pub fn response(&self, status: Status) -> SaHeader {
        let method = self.mad.method();
        // TrapRepress is excluded: it answers traps, and the SA receives none.
        let answer = method
            .response()
            .filter(|answer| answer.is_response())
            .unwrap_or(Method(method.0 | Method::RESPONSE_BIT));
        let mut header = *self;
        header
            .mad
            .set_base_version(BASE_VERSION)
            .set_method(answer)
            .set_status(status);
        header.rmpp = RmppHeader::default();
        header.set_sm_key(0).set_attribute_offset(0);
        header
    }

    /// The name of the attribute in this class; the number if it has none.
    pub fn attribute_name(&self) -> impl fmt::Display {
        AttributeName(self.mad.attribute())
    }
}

impl fmt::Debug for SaHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} {} modifier {:#010x} mask {} tid {} status {}",
            self.mad.class(),
            self.mad.method(),
            self.attribute_name(),
            self.mad.modifier(),
            self.component_mask(),
            self.mad.tid(),
            SaStatus::name(self.mad.status()),
        )
    }
}

struct AttributeName(AttrId);

impl fmt::Display for AttributeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match crate::wire::fields::of_record(self.0) {
            Some(layout) => f.pad(layout.name),
            None => write!(f, "{:#06x}", self.0.0),
        }
    }
}

/// A datagram of the SA: a whole message, or a segment of a longer message.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct SaMad {
    /// The headers of the datagram.
    pub header: SaHeader,
    /// The data after the headers.
    pub data: [u8; SA_DATA_LEN],
}

const _: () = assert!(size_of::<SaMad>() == MAD_LEN);

impl SaMad {
    /// A request with `record`, of which the SA compares the components in `mask`.
    pub fn request<R: Record>(method: Method, tid: Tid, mask: ComponentMask, record: &R) -> SaMad {
        let mut header = SaHeader::request::<R>(method, tid);
        header.set_component_mask(mask);
        let mut data = [0; SA_DATA_LEN];
        data[..R::LEN].copy_from_slice(record.as_bytes());
        SaMad { header, data }
    }

    /// The datagram in `bytes`.
    pub fn from_bytes(bytes: &MadBytes) -> &SaMad {
        zerocopy::transmute_ref!(bytes)
    }

    /// The datagram in `bytes`, mutable in place.
    pub fn from_bytes_mut(bytes: &mut MadBytes) -> &mut SaMad {
        zerocopy::transmute_mut!(bytes)
    }

    /// The bytes of the datagram.
    pub fn as_bytes(&self) -> &MadBytes {
        zerocopy::transmute_ref!(self)
    }
}

impl fmt::Debug for SaMad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.header.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::sa::NodeRecord;

    #[test]
    fn a_request_has_the_bytes_of_the_figure() {
        let mut record = NodeRecord::default();
        record.set_lid(rsm_ids::Lid(0x1234));
        let mut mad = SaMad::request(Method::GET_TABLE, Tid(0x11223344), NodeRecord::LID, &record);
        mad.header.set_sm_key(0xAABB);
        let bytes = mad.as_bytes();
        assert_eq!(bytes[..4], [1, 3, 2, 0x12]);
        assert_eq!(bytes[8..18], [0, 0, 0, 0, 0x11, 0x22, 0x33, 0x44, 0, 0x11]);
        assert_eq!(bytes[36..44], [0, 0, 0, 0, 0, 0, 0xAA, 0xBB]);
        assert_eq!(bytes[48..58], [0, 0, 0, 0, 0, 0, 0, 1, 0x12, 0x34]);
    }

    #[test]
    fn a_response_answers_the_method_and_hides_the_key() {
        let mut request = SaHeader::request::<NodeRecord>(Method::GET_TRACE_TABLE, Tid(7));
        request.set_sm_key(5).set_component_mask(NodeRecord::LID);
        request.rmpp_mut().set_version(1).set_segment_number(1);
        let response = request.response(SaStatus::NO_RECORDS);
        assert_eq!(response.mad().method(), Method::GET_TABLE_RESPONSE);
        assert_eq!(response.mad().status(), Status(0x0300));
        assert_eq!(response.sm_key(), 0);
        assert_eq!(*response.rmpp(), RmppHeader::default());
        assert_eq!(response.component_mask(), NodeRecord::LID);
        assert_eq!(response.mad().tid(), Tid(7));
    }

    #[test]
    fn bytes_shorter_than_a_header_are_not_split() {
        assert!(SaHeader::split(&[0; SA_HEADER_LEN - 1]).is_none());
        let (_, data) = SaHeader::split(&[0; SA_HEADER_LEN]).unwrap();
        assert!(data.is_empty());
    }
}
