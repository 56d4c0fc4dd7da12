//! A connection that ends when its client stops reading.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use crate::limits::WRITE_TIMEOUT;

/// A stream whose writes fail after [`WRITE_TIMEOUT`] without progress.
pub(crate) struct WriteTimeoutStream<S> {
    stream: S,
    /// The deadline, set while a write waits.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<S> WriteTimeoutStream<S> {
    pub(crate) fn new(stream: S) -> WriteTimeoutStream<S> {
        WriteTimeoutStream {
            stream,
            deadline: None,
        }
    }

    /// Fails a write that has waited for too long.
    fn fail_if_overdue<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.deadline = None;
            return written;
        }
        let deadline = (self.deadline).get_or_insert_with(|| Box::pin(sleep(WRITE_TIMEOUT)));
        match deadline.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeoutStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeoutStream<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.fail_if_overdue(context, written)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.stream).poll_flush(context);
        this.fail_if_overdue(context, flushed)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(context, parts);
        this.fail_if_overdue(context, written)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;
    use tokio::time::timeout;

    use super::*;

    #[test]
    fn client_that_reads_nothing_loses_its_connection() {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_time().build().unwrap();
        runtime.block_on(async {
            let (ours, theirs) = tokio::io::duplex(16);
            let mut ours = WriteTimeoutStream::new(ours);
            // The test sets the deadline manually, because its own waiting time is short of the
            // limit.
            let waits = timeout(WRITE_TIMEOUT / 1000, ours.write_all(&[0; 64])).await;
            assert!(waits.is_err(), "it waits for the client");
            assert!(ours.deadline.is_some());
            ours.deadline = Some(Box::pin(sleep(WRITE_TIMEOUT / 1000)));
            let failed = ours.write_all(&[0; 64]).await.unwrap_err();
            assert_eq!(failed.kind(), io::ErrorKind::TimedOut);
            drop(theirs);
        });
    }
}
