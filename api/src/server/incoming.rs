//! Incoming connections, with a limit, so that clients cannot take the descriptors that the rest of
//! the process needs.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::Connected;

/// The pause after a failed accept. The system is out of some resource then, most often
/// descriptors, and the connection still waits.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// The least interval of log lines about refusals; each has their number.
const SAID_EVERY: Duration = Duration::from_secs(10);

/// The connections of one listener.
#[derive(Debug)]
pub(super) struct Connections {
    name: &'static str,
    limit: usize,
    places: Arc<Semaphore>,
    refused: AtomicU64,
}

impl Connections {
    /// At most `limit` at once.
    pub(super) fn new(name: &'static str, limit: usize) -> Arc<Connections> {
        let limit = limit.min(Semaphore::MAX_PERMITS);
        Arc::new(Connections {
            name,
            limit,
            places: Arc::new(Semaphore::new(limit)),
            refused: AtomicU64::new(0),
        })
    }

    /// The limit of open connections.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Open connections.
    pub(super) fn open(&self) -> usize {
        self.limit - self.places.available_permits()
    }

    /// Connections beyond the limit, closed at once, since the start.
    pub(super) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

/// A listener of either kind.
pub(super) trait Listener: Send + 'static {
    type Io: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static;

    fn accept(&self) -> impl Future<Output = io::Result<Self::Io>> + Send;
}

impl Listener for UnixListener {
    type Io = UnixStream;

    async fn accept(&self) -> io::Result<UnixStream> {
        UnixListener::accept(self).await.map(|(stream, _)| stream)
    }
}

impl Listener for TcpListener {
    type Io = TcpStream;

    async fn accept(&self) -> io::Result<TcpStream> {
        let (stream, _) = TcpListener::accept(self).await?;
        // Clients wait for short answers. A stream for which this fails works, only slower.
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }
}

/// The connections of `listener` from now on, until the stream is dropped. Unlike tonic's own
/// streams it survives a temporary lack of descriptors.
pub(super) fn incoming<L: Listener>(
    listener: L,
    connections: Arc<Connections>,
) -> ReceiverStream<io::Result<Counted<L::Io>>> {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(accept_all(listener, connections, sender));
    ReceiverStream::new(receiver)
}

async fn accept_all<L: Listener>(
    listener: L,
    connections: Arc<Connections>,
    sender: mpsc::Sender<io::Result<Counted<L::Io>>>,
) {
    let mut report = Report::default();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = sender.closed() => return,
        };
        let stream = match accepted {
            Ok(stream) => stream,
            Err(error) => {
                tracing::warn!(
                    listener = connections.name,
                    error = &error as &dyn std::error::Error,
                    "a connection could not be accepted; tried again"
                );
                tokio::time::sleep(ACCEPT_AGAIN).await;
                continue;
            }
        };
        let Ok(place) = Arc::clone(&connections.places).try_acquire_owned() else {
            connections.refused.fetch_add(1, Ordering::Relaxed);
            report.refused(&connections);
            continue;
        };
        let counted = Counted {
            stream,
            _place: place,
        };
        if sender.send(Ok(counted)).await.is_err() {
            return;
        }
    }
}

/// The refusals logged so far.
#[derive(Default)]
struct Report {
    last: Option<Instant>,
    told: u64,
}

impl Report {
    fn refused(&mut self, connections: &Connections) {
        let now = Instant::now();
        if self.last.is_some_and(|last| now - last < SAID_EVERY) {
            return;
        }
        let refused = connections.refused();
        tracing::warn!(
            listener = connections.name,
            limit = connections.limit,
            refused = refused - self.told,
            "connections were refused, for as many are open as there is room for: end idle clients, or raise the limit of \
             open files (LimitNOFILE)"
        );
        (self.last, self.told) = (Some(now), refused);
    }
}

/// A connection with its share of the limit.
pub(super) struct Counted<S> {
    stream: S,
    _place: OwnedSemaphorePermit,
}

impl<S: Connected> Connected for Counted<S> {
    type ConnectInfo = S::ConnectInfo;

    fn connect_info(&self) -> S::ConnectInfo {
        self.stream.connect_info()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
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
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(context, parts)
    }
}
