//! Messages of the SA, of any length, independent of the layer that does RMPP.

use std::fmt;

use zerocopy::FromBytes as _;

use super::{Datagram, RemoteAddress};
use crate::wire::header::MadHeader;
use crate::wire::rmpp::RmppHeader;
pub use crate::wire::sa::{SA_DATA_LEN, SA_HEADER_LEN};

/// One message of the SA and the address of its remote end.
///
/// A message consists of the headers of its first datagram and the data of all its datagrams: if
/// the kernel does RMPP, the Linux MAD layer reads and writes messages in this form. With the RMPP
/// flag ACTIVE set, the data may have any length, and the creator of the message fills in no other
/// field of the RMPP header. With ACTIVE clear, the message is a single datagram, and data shorter
/// than [`SA_DATA_LEN`] are padded with zeroes.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    /// The headers and the data, at least [`SA_HEADER_LEN`] bytes.
    pub bytes: Vec<u8>,
    /// The destination of an outgoing message, the source of an incoming one.
    pub remote: RemoteAddress,
}

impl Message {
    /// The message made of one datagram.
    pub fn of(datagram: &Datagram) -> Message {
        Message {
            bytes: datagram.mad.to_vec(),
            remote: datagram.remote,
        }
    }

    /// The common header; `None` if the message is shorter than a header.
    pub fn header(&self) -> Option<&MadHeader> {
        Some(MadHeader::ref_from_prefix(&self.bytes).ok()?.0)
    }

    /// Whether RMPP carries the message.
    pub fn is_rmpp(&self) -> bool {
        is_rmpp(&self.bytes)
    }

    /// The data that follow the headers.
    pub fn data(&self) -> &[u8] {
        self.bytes.get(SA_HEADER_LEN..).unwrap_or_default()
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.header() {
            Some(header) => write!(f, "{header:?}")?,
            None => write!(f, "no header")?,
        }
        write!(
            f,
            ", {} bytes of data, with {:?}",
            self.data().len(),
            self.remote
        )
    }
}

/// Whether the RMPP header in `bytes` has ACTIVE set. `bytes` begins with the common header.
pub(crate) fn is_rmpp(bytes: &[u8]) -> bool {
    bytes
        .get(size_of::<MadHeader>()..)
        .and_then(|rest| RmppHeader::ref_from_prefix(rest).ok())
        .is_some_and(|(rmpp, _)| rmpp.is_active())
}

/// A source of data that are generated while the message is sent, so that an answer of any length
/// takes the memory of one window.
pub trait Source: Send {
    /// Writes the next bytes into `room`, which is not empty. The source may write few or no bytes
    /// before the end of the data, so that other messages get their turn when a few bytes need much
    /// work.
    fn fill(&mut self, room: &mut [u8]) -> Filled;

    /// The number of remaining bytes; `None` if the number is not known before they are generated.
    fn remaining(&self) -> Option<u64>;
}

/// The result of a call of [`Source::fill`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Filled {
    /// The number of bytes written, from the front.
    pub bytes: usize,
    /// Whether these bytes were the last bytes of the data.
    pub ended: bool,
}

/// An iterator over records of one length, as the data of a message.
pub struct Records<I, const LEN: usize> {
    records: I,
    /// The current record, of which the first `used` bytes are used.
    current: [u8; LEN],
    used: usize,
}

impl<I: Iterator<Item = [u8; LEN]> + Send, const LEN: usize> Records<I, LEN> {
    /// A source of `records`, each `LEN` bytes long. AttributeOffset in the header has that length
    /// in units of 8 bytes.
    pub fn new(records: I) -> Records<I, LEN> {
        Records {
            records,
            current: [0; LEN],
            used: LEN,
        }
    }
}

impl<I: Iterator<Item = [u8; LEN]> + Send, const LEN: usize> Source for Records<I, LEN> {
    fn fill(&mut self, room: &mut [u8]) -> Filled {
        let mut filled = 0;
        let mut ended = false;
        while filled < room.len() {
            if self.used == LEN {
                let Some(next) = self.records.next() else {
                    ended = true;
                    break;
                };
                (self.current, self.used) = (next, 0);
            }
            let count = (LEN - self.used).min(room.len() - filled);
            let from = self.used..self.used + count;
            room[filled..filled + count].copy_from_slice(&self.current[from]);
            self.used += count;
            filled += count;
        }
        Filled {
            bytes: filled,
            ended,
        }
    }

    fn remaining(&self) -> Option<u64> {
        let (min, max) = self.records.size_hint();
        let rest = (LEN - self.used) as u64;
        (Some(min) == max).then(|| min as u64 * LEN as u64 + rest)
    }
}

/// The data of a message that is complete in memory.
pub(crate) struct Whole {
    bytes: Vec<u8>,
    used: usize,
}

impl Whole {
    /// A source of the bytes from `start` on.
    pub(crate) fn new(bytes: Vec<u8>, start: usize) -> Whole {
        Whole { bytes, used: start }
    }
}

impl Source for Whole {
    fn fill(&mut self, room: &mut [u8]) -> Filled {
        let rest = self.bytes.get(self.used..).unwrap_or_default();
        let count = rest.len().min(room.len());
        room[..count].copy_from_slice(&rest[..count]);
        self.used += count;
        Filled {
            bytes: count,
            ended: self.used >= self.bytes.len(),
        }
    }

    fn remaining(&self) -> Option<u64> {
        Some(self.bytes.len().saturating_sub(self.used) as u64)
    }
}

/// A message to send.
#[derive(Debug)]
pub enum Outgoing {
    /// A message that is complete in memory.
    Whole(Message),
    /// A message whose data are generated while it is sent.
    Streamed(Streamed),
}

impl Outgoing {
    /// The destination.
    pub fn remote(&self) -> &RemoteAddress {
        match self {
            Outgoing::Whole(message) => &message.remote,
            Outgoing::Streamed(streamed) => &streamed.remote,
        }
    }

    /// The common header; `None` if the message is shorter than a header.
    pub fn header(&self) -> Option<&MadHeader> {
        match self {
            Outgoing::Whole(message) => message.header(),
            Outgoing::Streamed(streamed) => {
                Some(MadHeader::ref_from_prefix(&streamed.header).ok()?.0)
            }
        }
    }
}

impl From<Message> for Outgoing {
    fn from(message: Message) -> Outgoing {
        Outgoing::Whole(message)
    }
}

/// A message whose data are generated while it is sent. RMPP carries the message even if its header
/// lacks ACTIVE.
pub struct Streamed {
    /// The headers.
    pub header: [u8; SA_HEADER_LEN],
    /// The source of the data.
    pub data: Box<dyn Source>,
    /// The destination.
    pub remote: RemoteAddress,
}

impl fmt::Debug for Streamed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Streamed")
            .field("remaining", &self.data.remaining())
            .field("remote", &self.remote)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_continue_in_the_next_call_of_fill() {
        let mut source = Records::new((0..4u8).map(|value| [value; 5]));
        let mut got = Vec::new();
        for size in [3, 0, 9, 7, 7] {
            assert_eq!(source.remaining(), Some(20 - got.len() as u64));
            let mut room = vec![0; size];
            let filled = source.fill(&mut room);
            got.extend_from_slice(&room[..filled.bytes]);
            assert_eq!(filled.ended, got.len() == 20);
        }
        let expected: Vec<u8> = (0..4).flat_map(|value| [value; 5]).collect();
        assert_eq!(got, expected);
        assert_eq!(source.remaining(), Some(0));
    }

    #[test]
    fn bytes_that_are_too_short_have_no_header() {
        let message = Message {
            bytes: vec![0; 23],
            remote: RemoteAddress::gsi(rsm_ids::Lid(1), 0),
        };
        assert!(message.header().is_none() && !message.is_rmpp());
        assert!(message.data().is_empty());
    }
}
