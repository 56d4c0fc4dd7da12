//! Converts answers for the transport.

use rsm_mad::transport::{Filled, Message, Outgoing, Source, Streamed};
use rsm_sa::SaAnswer;

/// Converts an answer to a datagram, or to a table that is produced during sending. The answer must
/// no longer be [open](SaAnswer::is_open).
pub fn outgoing(answer: SaAnswer) -> Outgoing {
    let remote = answer.remote;
    match answer.datagram() {
        Some(mad) => Outgoing::Whole(Message {
            bytes: mad.to_vec(),
            remote,
        }),
        None => Outgoing::Streamed(Streamed {
            header: *answer.header().as_bytes(),
            data: Box::new(Table(answer)),
            remote,
        }),
    }
}

/// Records of an answer.
struct Table(SaAnswer);

impl Source for Table {
    fn fill(&mut self, room: &mut [u8]) -> Filled {
        let pulled = self.0.pull(room);
        Filled {
            bytes: pulled.bytes,
            ended: pulled.ended,
        }
    }

    /// The number of records is known only after the last one.
    fn remaining(&self) -> Option<u64> {
        None
    }
}
