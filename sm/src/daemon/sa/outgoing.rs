//! Converts answers for the transport.

use std::sync::atomic::Ordering;

use rsm_mad::transport::{Filled, Message, Outgoing, Source, Streamed};
use rsm_sa::SaAnswer;

use super::table_budget::Meter;

/// Form of an answer for the transport: a datagram, or a table that is produced during sending and
/// whose bytes `meter` counts. The answer must not be [open](SaAnswer::is_open) any more.
pub fn outgoing(answer: SaAnswer, meter: Meter) -> Outgoing {
    let remote = answer.remote;
    match answer.datagram() {
        Some(mad) => Outgoing::Whole(Message {
            bytes: mad.to_vec(),
            remote,
        }),
        None => Outgoing::Streamed(Streamed {
            header: *answer.header().as_bytes(),
            data: Box::new(Table { answer, meter }),
            remote,
        }),
    }
}

/// Answer whose records are produced during sending.
struct Table {
    answer: SaAnswer,
    meter: Meter,
}

impl Source for Table {
    fn fill(&mut self, room: &mut [u8]) -> Filled {
        let pulled = self.answer.pull(room);
        self.meter.fetch_add(pulled.bytes as u64, Ordering::Relaxed);
        Filled {
            bytes: pulled.bytes,
            ended: pulled.ended,
        }
    }

    /// The number of records is known only after the last record.
    fn remaining(&self) -> Option<u64> {
        None
    }
}
