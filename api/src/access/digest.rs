use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes};
use http_body::{Frame, SizeHint};
use sha2::{Digest as _, Sha256};
use tonic::Status;
use tonic::body::Body;

/// The length of gRPC's prefix before a message, in bytes: a flag and the message's length.
const PREFIX: usize = 5;

/// Computes the SHA-256 of the message of a unary request, without gRPC's prefix.
pub(super) struct ArgumentDigest {
    hash: Sha256,
    /// The number of bytes of the prefix that are still to come.
    prefix: usize,
}

impl ArgumentDigest {
    fn new() -> ArgumentDigest {
        ArgumentDigest {
            hash: Sha256::new(),
            prefix: PREFIX,
        }
    }

    fn add(&mut self, data: &Bytes) {
        let skipped = self.prefix.min(data.len());
        self.prefix -= skipped;
        let mut data = data.clone();
        data.advance(skipped);
        self.hash.update(&data);
    }

    /// The digest in hexadecimal.
    pub(super) fn hex(self) -> String {
        hex::encode(self.hash.finalize())
    }
}

/// A body that passes its data through, and at its end hands the digest of its message to a
/// function.
pub(super) struct Digesting<F> {
    body: Body,
    /// The digest so far, and the function that receives it; `None` after the end.
    digest: Option<(ArgumentDigest, F)>,
}

impl<F: FnOnce(ArgumentDigest)> Digesting<F> {
    pub(super) fn new(body: Body, receive: F) -> Digesting<F> {
        Digesting {
            body,
            digest: Some((ArgumentDigest::new(), receive)),
        }
    }

    fn end(&mut self) {
        if let Some((digest, receive)) = self.digest.take() {
            receive(digest);
        }
    }
}

impl<F: FnOnce(ArgumentDigest) + Unpin> http_body::Body for Digesting<F> {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.body).poll_frame(context);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let (Some(data), Some((digest, _))) = (frame.data_ref(), &mut this.digest) {
                    digest.add(data);
                }
                if this.body.is_end_stream() {
                    this.end();
                }
            }
            Poll::Ready(None) => this.end(),
            Poll::Ready(Some(Err(_))) | Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The digest of the arguments of a request, for its audit entry: SHA-256 in hexadecimal.
pub fn digest_of(arguments: &[u8]) -> String {
    hex::encode(Sha256::digest(arguments))
}
