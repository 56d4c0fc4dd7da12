//! Accepts connections up to a limit, so that clients cannot use up the descriptors that the rest
//! of the process needs.

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
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::Connected;

use super::unix_peer;
use crate::access::tls::{ServerTls, explain};
use crate::access::{Certificate, Gate, Peer};
use crate::refusal::{Reason, refusal};

/// The pause after a failed accept: the system lacks some resource, usually descriptors, and the
/// connection is still in the queue.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The minimum interval between two log lines about refused connections; each line has the number
/// of refusals since the previous one.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// The maximum time for a client's TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The name of a handshake in the audit log, in place of a call.
const HANDSHAKE: &str = "tls-handshake";

/// The connections of one listener.
#[derive(Debug)]
pub(super) struct Connections {
    /// The name of the listener in the log.
    name: &'static str,
    limit: usize,
    /// The permits of open connections.
    permits: Arc<Semaphore>,
    refused: AtomicU64,
}

impl Connections {
    /// Creates the state of a listener with at most `limit` open connections.
    pub(super) fn new(name: &'static str, limit: usize) -> Arc<Connections> {
        let limit = limit.min(Semaphore::MAX_PERMITS);
        Arc::new(Connections {
            name,
            limit,
            permits: Arc::new(Semaphore::new(limit)),
            refused: AtomicU64::new(0),
        })
    }

    /// The limit of open connections.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// The number of open connections.
    pub(super) fn open(&self) -> usize {
        self.limit - self.permits.available_permits()
    }

    /// The number of connections beyond the limit, closed at once, since the start.
    pub(super) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

/// The kinds of listeners.
pub(super) enum Listener {
    /// A listener on a Unix socket.
    Unix(UnixListener),
    /// A listener on a TCP address, with TLS if configured.
    Tcp(TcpListener, Option<Arc<ServerTls>>),
}

impl Listener {
    async fn accept(&self) -> io::Result<(Stream, Peer)> {
        match self {
            Listener::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                let peer = unix_peer::identify(&stream);
                Ok((Stream::Unix(stream), peer))
            }
            Listener::Tcp(listener, _) => {
                let (stream, address) = listener.accept().await?;
                // Clients wait for short answers. If the option cannot be set, the stream is only
                // slower.
                let _ = stream.set_nodelay(true);
                Ok((Stream::Tcp(stream), Peer::Tcp { address }))
            }
        }
    }

    fn tls(&self) -> Option<&Arc<ServerTls>> {
        match self {
            Listener::Unix(_) => None,
            Listener::Tcp(_, tls) => tls.as_ref(),
        }
    }
}

/// Accepts connections of `listener` until the stream is dropped. Unlike tonic's own streams, this
/// one survives a temporary lack of descriptors.
pub(super) fn incoming(
    listener: Listener,
    connections: Arc<Connections>,
    gate: Arc<Gate>,
) -> ReceiverStream<io::Result<Counted>> {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(accept_all(listener, connections, gate, sender));
    ReceiverStream::new(receiver)
}

async fn accept_all(
    listener: Listener,
    connections: Arc<Connections>,
    gate: Arc<Gate>,
    sender: mpsc::Sender<io::Result<Counted>>,
) {
    let mut refusals = RefusalLog::default();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = sender.closed() => return,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(
                    listener = connections.name,
                    error = &error as &dyn std::error::Error,
                    "a connection could not be accepted; tried again"
                );
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Ok(permit) = Arc::clone(&connections.permits).try_acquire_owned() else {
            connections.refused.fetch_add(1, Ordering::Relaxed);
            refusals.log(&connections);
            continue;
        };
        let counted = Counted {
            stream,
            peer,
            _permit: permit,
        };
        if let Some(tls) = listener.tls() {
            // A separate task keeps a slow client from delaying others.
            tokio::spawn(secure(counted, tls.clone(), gate.clone(), sender.clone()));
        } else if sender.send(Ok(counted)).await.is_err() {
            return;
        }
    }
}

/// Passes a connection on after its handshake, or refuses it with an entry in the audit log.
async fn secure(
    counted: Counted,
    tls: Arc<ServerTls>,
    gate: Arc<Gate>,
    sender: mpsc::Sender<io::Result<Counted>>,
) {
    let peer = counted.peer.clone();
    let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake(counted, &tls)).await;
    let reason = match handshake {
        Ok(Ok(counted)) => {
            // If no receiver is left, the server has stopped.
            drop(sender.send(Ok(counted)).await);
            return;
        }
        Ok(Err(reason)) => reason,
        Err(_elapsed) => "the client did not end its handshake in time".to_owned(),
    };
    gate.refused(
        None,
        &peer,
        HANDSHAKE,
        &refusal(Reason::InvalidProof, reason),
    );
}

async fn handshake(counted: Counted, tls: &ServerTls) -> Result<Counted, String> {
    let Some(config) = tls.config() else {
        return Err("this server has no usable certificate: see its findings".to_owned());
    };
    let (Stream::Tcp(stream), Peer::Tcp { address }) = (counted.stream, counted.peer) else {
        return Err("only TCP has TLS".to_owned());
    };
    let accepted = TlsAcceptor::from(config).accept(stream).await;
    let stream = accepted.map_err(|error| explain(&error, "client"))?;
    let certificates = stream.get_ref().1.peer_certificates();
    let leaf = certificates.and_then(<[_]>::first);
    let certificate = leaf.map(|leaf| Certificate::from_der(leaf)).transpose()?;
    Ok(Counted {
        stream: Stream::Tls(Box::new(stream)),
        peer: Peer::Tls {
            address,
            certificate: certificate.map(Arc::new),
        },
        _permit: counted._permit,
    })
}

/// The log lines about connections that one listener refused.
#[derive(Default)]
struct RefusalLog {
    /// The time of the last line; `None` before the first one.
    last: Option<Instant>,
    /// The number of refusals in all lines so far.
    logged: u64,
}

impl RefusalLog {
    /// Logs the refusals since the last line, unless that line is too recent.
    fn log(&mut self, connections: &Connections) {
        let now = Instant::now();
        if self.last.is_some_and(|last| now - last < LOG_INTERVAL) {
            return;
        }
        let refused = connections.refused();
        tracing::warn!(
            listener = connections.name,
            limit = connections.limit,
            refused = refused - self.logged,
            "connections were refused, for as many are open as there is room for: end idle clients, or raise the limit of \
             open files (LimitNOFILE)"
        );
        (self.last, self.logged) = (Some(now), refused);
    }
}

/// A connection of any kind.
enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Evaluates `$body` with `$stream` pinned, whichever kind it is.
macro_rules! each {
    ($self:expr, $stream:ident => $body:expr) => {
        match &mut $self.get_mut().stream {
            Stream::Unix(stream) => {
                let $stream = Pin::new(stream);
                $body
            }
            Stream::Tcp(stream) => {
                let $stream = Pin::new(stream);
                $body
            }
            Stream::Tls(stream) => {
                let $stream = Pin::new(&mut **stream);
                $body
            }
        }
    };
}

/// A connection that counts towards the limit, and its other end.
pub(super) struct Counted {
    stream: Stream,
    peer: Peer,
    _permit: OwnedSemaphorePermit,
}

impl Connected for Counted {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        each!(self, stream => stream.poll_read(context, buffer))
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        each!(self, stream => stream.poll_write(context, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => stream.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => stream.poll_shutdown(context))
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Unix(stream) => stream.is_write_vectored(),
            Stream::Tcp(stream) => stream.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        each!(self, stream => stream.poll_write_vectored(context, parts))
    }
}
