//! Answers of the SA: a status, one record, or a table that is produced while it is sent.

use std::fmt;

#[cfg(test)]
use rsm_mad::ids::Tid;
use rsm_mad::transport::RemoteAddress;
use rsm_mad::wire::MadBytes;
use rsm_mad::wire::header::{Method, Status};
#[cfg(test)]
use rsm_mad::wire::sa::NodeRecord;
use rsm_mad::wire::sa::{Record, SA_DATA_LEN, SaHeader, SaMad, SaStatus, TraceRecord};

/// Number of candidates that one [`SaAnswer::pull`] examines: few enough to take less than a
/// millisecond for any query, and enough to make the cost of the call negligible.
pub const WORK_PER_PULL: usize = 1024;

/// The answer to a request.
pub struct SaAnswer {
    /// Address of the requester.
    pub remote: RemoteAddress,
    /// Header, and the record if the answer is a single record that is found; otherwise zeros.
    mad: SaMad,
    /// Remaining work; `None` if `mad` is the whole answer.
    pending: Option<Box<Pending>>,
}

/// The part of an answer that is not yet produced.
enum Pending {
    Search(Search<Box<dyn RecordSource>>),
    Table(Table),
}

/// The data of an answer, after the SA header.
pub(super) enum Body {
    /// One record.
    Record([u8; SA_DATA_LEN]),
    /// One record that is not yet found.
    Search(Search<Box<dyn RecordSource>>),
    /// Any number of records, each produced when it is sent.
    Table(Table),
}

/// The search for the single record that answers a Get.
pub(super) struct Search<S> {
    source: S,
    wanted: Wanted,
    /// The first match so far, if it must be the only one.
    found: Option<[u8; SA_DATA_LEN]>,
}

/// The matching record that answers a Get.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wanted {
    /// The only matching record; a second match is ERR_TOO_MANY_RECORDS.
    Only,
    /// The first matching record.
    First,
}

/// The records of a table, and the record being sent.
pub(super) struct Table {
    /// Length of a record in units of 8 bytes.
    words: u16,
    source: Box<dyn RecordSource>,
    /// The record of which some bytes are unsent.
    record: [u8; SA_DATA_LEN],
    /// Range of the unsent bytes in `record`.
    range: std::ops::Range<usize>,
    /// Whether there are no more candidates.
    ended: bool,
}

/// The candidates for the records of an answer, which are examined one after the other.
pub(super) trait RecordSource: Send {
    /// Writes the next candidate's record into `out`, if the candidate belongs to the answer.
    fn examine_next(&mut self, out: &mut [u8; SA_DATA_LEN]) -> CandidateStep;
}

/// The result of the examination of one candidate.
pub(super) enum CandidateStep {
    /// The candidate belongs to the answer.
    Record,
    /// The candidate does not belong to the answer.
    NoMatch,
    /// There are no more candidates.
    End,
}

/// An iterator over candidates, whose items are `None` for candidates that do not match.
struct Candidates<I>(I);

impl<R: Record, I: Iterator<Item = Option<R>> + Send> RecordSource for Candidates<I> {
    fn examine_next(&mut self, out: &mut [u8; SA_DATA_LEN]) -> CandidateStep {
        match self.0.next() {
            Some(Some(record)) => {
                out[..R::LEN].copy_from_slice(record.as_bytes());
                CandidateStep::Record
            }
            Some(None) => CandidateStep::NoMatch,
            None => CandidateStep::End,
        }
    }
}

impl RecordSource for Box<dyn RecordSource> {
    fn examine_next(&mut self, out: &mut [u8; SA_DATA_LEN]) -> CandidateStep {
        (**self).examine_next(out)
    }
}

impl<S: RecordSource> Search<S> {
    /// Examines up to [`WORK_PER_PULL`] candidates. Returns the record or the error status; `None`
    /// if the search is not yet decided.
    fn continue_search(&mut self) -> Option<Result<[u8; SA_DATA_LEN], Status>> {
        for _ in 0..WORK_PER_PULL {
            let mut record = [0; SA_DATA_LEN];
            match self.source.examine_next(&mut record) {
                CandidateStep::NoMatch => {}
                CandidateStep::Record if self.wanted == Wanted::First => return Some(Ok(record)),
                CandidateStep::Record if self.found.is_some() => {
                    return Some(Err(SaStatus::TOO_MANY_RECORDS));
                }
                CandidateStep::Record => self.found = Some(record),
                CandidateStep::End => return Some(self.found.ok_or(SaStatus::NO_RECORDS)),
            }
        }
        None
    }
}

/// The result of one [`SaAnswer::pull`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pulled {
    /// Number of bytes written.
    pub bytes: usize,
    /// Whether the table has ended. If not, records or candidates are left, and the caller must
    /// call [`SaAnswer::pull`] again after other requests had their turn.
    pub ended: bool,
}

/// The error that a table is longer than the transport can carry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the answer has more than {limit} bytes")]
pub struct TooLong {
    /// Maximum length of a message on the transport, in bytes.
    pub limit: usize,
}

impl Body {
    /// The body with one record.
    pub(super) fn record<R: Record>(record: &R) -> Body {
        let mut data = [0; SA_DATA_LEN];
        data[..R::LEN].copy_from_slice(record.as_bytes());
        Body::Record(data)
    }

    /// The record; `None` for a table, and for a search that is not yet decided.
    pub(super) fn only<R: Record>(&self) -> Option<R> {
        match self {
            Body::Record(data) => R::from_prefix(data).copied(),
            Body::Search(_) | Body::Table(_) => None,
        }
    }

    /// Searches `candidates` for the `wanted` record. If the first [`WORK_PER_PULL`] candidates do
    /// not decide the search, it continues in [`SaAnswer::continue_search`].
    ///
    /// # Errors
    /// ERR_NO_RECORDS or ERR_TOO_MANY_RECORDS, if the first candidates decide the search.
    pub(super) fn search<R, I>(candidates: I, wanted: Wanted) -> Result<Body, Status>
    where
        R: Record,
        I: Iterator<Item = Option<R>> + Send + 'static,
    {
        let mut search = Search {
            source: Candidates(candidates),
            wanted,
            found: None,
        };
        match search.continue_search() {
            Some(result) => result.map(Body::Record),
            None => Ok(Body::Search(Search {
                source: Box::new(search.source),
                wanted,
                found: search.found,
            })),
        }
    }

    /// A table of the records among `candidates`, in this order. Candidates that are `None` are
    /// skipped.
    pub(super) fn table<R, I>(candidates: I) -> Body
    where
        R: Record,
        I: Iterator<Item = Option<R>> + Send + 'static,
    {
        Body::Table(Table {
            words: R::WORDS,
            source: Box::new(Candidates(candidates)),
            record: [0; SA_DATA_LEN],
            range: 0..0,
            ended: false,
        })
    }
}

impl Table {
    fn pull(&mut self, out: &mut [u8]) -> Pulled {
        let len = usize::from(self.words) * 8;
        let mut written = 0;
        let mut work = 0;
        while !self.ended && written < out.len() && work < WORK_PER_PULL {
            if self.range.is_empty() {
                work += 1;
                match self.source.examine_next(&mut self.record) {
                    CandidateStep::Record => self.range = 0..len,
                    CandidateStep::NoMatch => {}
                    CandidateStep::End => self.ended = true,
                }
                continue;
            }
            let count = self.range.len().min(out.len() - written);
            let from = self.range.start;
            out[written..written + count].copy_from_slice(&self.record[from..from + count]);
            written += count;
            self.range.start += count;
        }
        Pulled {
            bytes: written,
            ended: self.ended,
        }
    }
}

impl SaAnswer {
    pub(super) fn new(remote: RemoteAddress, request: &SaHeader, body: Body) -> SaAnswer {
        let mut header = request.response(Status::OK);
        let (data, pending) = match body {
            Body::Record(data) => (data, None),
            Body::Search(search) => ([0; SA_DATA_LEN], Some(Pending::Search(search))),
            Body::Table(table) => {
                header.set_attribute_offset(table.words);
                ([0; SA_DATA_LEN], Some(Pending::Table(table)))
            }
        };
        if request.mad().method() == Method::GET_TRACE_TABLE {
            // The request contains a PathRecord, the answer TraceRecords.
            header.mad_mut().set_attribute(TraceRecord::ID);
        }
        SaAnswer {
            remote,
            mad: SaMad { header, data },
            pending: pending.map(Box::new),
        }
    }

    /// An answer with a status and no record.
    pub(super) fn refusal(remote: RemoteAddress, request: &SaHeader, status: Status) -> SaAnswer {
        SaAnswer::without_record(remote, request.response(status))
    }

    fn without_record(remote: RemoteAddress, header: SaHeader) -> SaAnswer {
        let data = [0; SA_DATA_LEN];
        SaAnswer {
            remote,
            mad: SaMad { header, data },
            pending: None,
        }
    }

    /// The SA header. The transport fills in the RMPP fields of a table.
    pub fn header(&self) -> &SaHeader {
        &self.mad.header
    }

    /// The status, which may change while the answer is [open](SaAnswer::is_open).
    pub fn status(&self) -> Status {
        self.header().mad().status()
    }

    /// Whether the search for the record continues: the caller must call
    /// [`Sa::continue_search`](super::Sa::go_on) after other requests had their turn.
    pub fn is_open(&self) -> bool {
        matches!(self.pending.as_deref(), Some(Pending::Search(_)))
    }

    /// Examines [`WORK_PER_PULL`] more candidates. Returns whether the search has ended.
    pub(super) fn continue_search(&mut self) -> bool {
        let Some(Pending::Search(search)) = self.pending.as_deref_mut() else {
            return true;
        };
        let Some(result) = search.continue_search() else {
            return false;
        };
        match result {
            Ok(record) => self.mad.data = record,
            Err(status) => {
                self.mad.header.mad_mut().set_status(status);
            }
        }
        self.pending = None;
        true
    }

    /// The whole answer, if it fits one datagram without RMPP. `None` for a table, and while the
    /// answer is [open](SaAnswer::is_open).
    pub fn datagram(&self) -> Option<&MadBytes> {
        self.pending.is_none().then(|| self.mad.as_bytes())
    }

    /// Produces the next bytes of a table, without its header. Records follow each other without
    /// gaps and may be cut anywhere. Examines at most [`WORK_PER_PULL`] candidates. An answer that
    /// is not a table ends at once.
    pub fn pull(&mut self, out: &mut [u8]) -> Pulled {
        match self.pending.as_deref_mut() {
            Some(Pending::Table(table)) => table.pull(out),
            Some(Pending::Search(_)) | None => Pulled {
                bytes: 0,
                ended: true,
            },
        }
    }

    /// The whole message, header and data, for a transport that cannot send it in parts.
    ///
    /// # Errors
    /// [`TooLong`] as soon as the message is longer than `limit` bytes; see [`SaAnswer::too_long`].
    pub fn into_message(mut self, limit: usize) -> Result<Vec<u8>, TooLong> {
        const CHUNK: usize = 64 * 1024;
        while !self.continue_search() {}
        if let Some(mad) = self.datagram() {
            return Ok(mad.to_vec());
        }
        let mut message = self.header().as_bytes().to_vec();
        loop {
            let filled = message.len();
            message.resize(filled + CHUNK, 0);
            let pulled = self.pull(&mut message[filled..]);
            message.truncate(filled + pulled.bytes);
            if message.len() > limit {
                return Err(TooLong { limit });
            }
            if pulled.ended {
                return Ok(message);
            }
        }
    }

    /// The answer that replaces a table that is too long for the transport: status ERR_NO_RESOURCES
    /// without records.
    pub fn too_long(remote: RemoteAddress, mut header: SaHeader) -> SaAnswer {
        header.mad_mut().set_status(SaStatus::NO_RESOURCES);
        header.set_attribute_offset(0);
        SaAnswer::without_record(remote, header)
    }
}

impl fmt::Debug for SaAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} to {:?}", self.header(), self.remote)
    }
}

#[cfg(test)]
impl SaAnswer {
    /// An answer to a Get whose search examines this many candidates without a match.
    pub(crate) fn searched(remote: RemoteAddress, tid: Tid, candidates: usize) -> SaAnswer {
        let request = SaHeader::request::<NodeRecord>(Method::GET, tid);
        let candidates = std::iter::repeat_n(None::<NodeRecord>, candidates);
        match Body::search(candidates, Wanted::Only) {
            Ok(body) => SaAnswer::new(remote, &request, body),
            Err(status) => SaAnswer::refusal(remote, &request, status),
        }
    }
}
