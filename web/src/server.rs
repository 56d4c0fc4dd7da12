//! The listener: connections, their limits, and the routes.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use rsm_api::access::Peer;
use rsm_api::access::tls::ServerTls;
use rsm_api::{Backend, Reader};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tower::Service as _;

use crate::answer_cache::{CachedAnswer, SharedTexts};
use crate::connection::WriteTimeoutStream;
use crate::graph::GraphCache;
use crate::limits::{
    ANSWER_TIMEOUT, HANDSHAKE_TIMEOUT, HEAD_TIMEOUT, MAX_CONNECTIONS, MAX_CONNECTIONS_PER_CLIENT,
    MAX_FOLLOWERS, MAX_HEAD_BYTES, MAX_HEADERS, MAX_PORT_SCRAPES, SHUTDOWN_GRACE,
};
use crate::metrics::{Counted, Exporter};
use crate::places::{Place, Places};
use crate::reply::{self, Reply};
use crate::routes_state::Shared;
use crate::sign_on::SignOn;
use crate::ufm::{self, Ufm, UfmSettings};
use crate::{api, changes, guard, netq, page, scrape};

/// The pause after a failed accept, which happens when the system lacks a resource.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// The reason why the listener could not start.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot serve HTTP at {address}: another server may be there; name another address with --http"
)]
pub struct ServeError {
    address: SocketAddr,
    #[source]
    source: io::Error,
}

/// A listener that is bound but does not serve yet.
#[derive(Debug)]
pub struct HttpServer {
    address: SocketAddr,
    listener: TcpListener,
    names: Vec<String>,
    tls: Option<Arc<ServerTls>>,
    ufm: Option<UfmSettings>,
    sign_on: Option<SignOn>,
}

impl HttpServer {
    /// Binds the address. `names` are names of this machine under which clients may address it,
    /// besides IP addresses and names without a dot.
    ///
    /// # Errors
    /// The address is in use, or not one of this machine.
    pub async fn bind(address: SocketAddr, names: Vec<String>) -> Result<HttpServer, ServeError> {
        let failed = |source| ServeError { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        Ok(HttpServer {
            address: listener.local_addr().map_err(failed)?,
            listener,
            names: names.iter().map(|name| name.to_ascii_lowercase()).collect(),
            tls: None,
            ufm: None,
            sign_on: None,
        })
    }

    /// Serves only TLS.
    #[must_use]
    pub fn with_tls(self, tls: Arc<ServerTls>) -> HttpServer {
        HttpServer {
            tls: Some(tls),
            ..self
        }
    }

    /// Serves the REST interface of UFM as well.
    #[must_use]
    pub fn with_ufm(self, ufm: UfmSettings) -> HttpServer {
        HttpServer {
            ufm: Some(ufm),
            ..self
        }
    }

    /// Serves only clients with an identity, which proxies may state.
    #[must_use]
    pub fn with_sign_on(self, sign_on: SignOn) -> HttpServer {
        HttpServer {
            sign_on: Some(sign_on),
            ..self
        }
    }

    /// The bound address, with the port that the system chose for port 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown` is done, then waits at most [`SHUTDOWN_GRACE`] for open requests.
    pub async fn run(self, backend: Backend, shutdown: impl Future<Output = ()>) {
        let (stop, stopping) = watch::channel(false);
        let ufm = self.ufm.map(|settings| Ufm::new(settings, &backend));
        let counted = Counted::start(&backend.subnet, stopping.clone());
        let shared = Arc::new(Shared {
            reader: Reader::new(&backend, stopping.clone()),
            graphs: GraphCache::new(Arc::clone(&backend.subnet)),
            exporter: Exporter::new(&backend, counted),
            counters: backend.counters,
            subnet: backend.subnet,
            load: CachedAnswer::default(),
            sums: CachedAnswer::default(),
            sums_with_ports: CachedAnswer::default(),
            port_texts: SharedTexts::default(),
            port_scrapes: Arc::new(Semaphore::new(MAX_PORT_SCRAPES)),
            followers: Arc::new(Semaphore::new(MAX_FOLLOWERS)),
            stopping: stopping.clone(),
        });
        let host = Arc::new(Host {
            router: router(shared),
            address: self.address,
            names: self.names,
            tls: self.tls,
            ufm,
            sign_on: self.sign_on,
        });
        let places = Places::new(MAX_CONNECTIONS, MAX_CONNECTIONS_PER_CLIENT);
        let mut open = JoinSet::new();
        tokio::pin!(shutdown);
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                Some(_ended) = open.join_next() => continue,
                () = &mut shutdown => break,
            };
            match accepted {
                Ok((stream, address)) => {
                    // A connection beyond the limits is closed at once.
                    if let Some(place) = places.acquire(address.ip()) {
                        let host = Arc::clone(&host);
                        open.spawn(accept((stream, address), host, stopping.clone(), place));
                    }
                }
                Err(error) => {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "a connection for HTTP could not be accepted; tried again"
                    );
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                }
            }
        }
        stop.send_replace(true);
        let ended = async { while open.join_next().await.is_some() {} };
        if tokio::time::timeout(SHUTDOWN_GRACE, ended).await.is_err() {
            open.shutdown().await;
        }
    }
}

fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .merge(page::routes())
        .merge(api::routes())
        .merge(changes::routes())
        .merge(netq::routes())
        .merge(scrape::routes())
        .fallback(async || reply::failure(StatusCode::NOT_FOUND, "there is nothing at this path"))
        .with_state(shared)
}

/// The routes, and the names under which a request may address this server.
struct Host {
    router: Router,
    address: SocketAddr,
    names: Vec<String>,
    tls: Option<Arc<ServerTls>>,
    ufm: Option<Ufm>,
    sign_on: Option<SignOn>,
}

impl Host {
    async fn answer(&self, request: Request<hyper::body::Incoming>) -> Reply {
        let checked = guard::check(&request, self.address.ip(), &self.names)
            .and_then(|()| self.signed_on(request));
        let mut reply = match checked {
            Err(refused) => *refused,
            Ok(request) => {
                let request = request.map(Body::new);
                let call = async {
                    match &self.ufm {
                        Some(ufm) if ufm::is_path(request.uri().path()) => {
                            Ok(ufm.answer(request).await)
                        }
                        _ => self.router.clone().call(request).await,
                    }
                };
                match tokio::time::timeout(ANSWER_TIMEOUT, call).await {
                    Ok(Ok(reply)) => reply,
                    Ok(Err(never)) => match never {},
                    Err(_elapsed) => reply::failure(
                        StatusCode::SERVICE_UNAVAILABLE,
                        "the answer takes too long: ask rsmctl, which waits",
                    ),
                }
            }
        };
        reply::protect(reply.headers_mut());
        reply
    }

    /// Adds the identity of the caller to the request, if this server requires an identity; returns
    /// the answer to the caller if the identity does not suffice. UFM's interface checks identities
    /// itself.
    fn signed_on(
        &self,
        mut request: Request<hyper::body::Incoming>,
    ) -> Result<Request<hyper::body::Incoming>, Box<Reply>> {
        if let Some(sign_on) = &self.sign_on
            && !ufm::is_path(request.uri().path())
        {
            let caller = sign_on.admit(&request)?;
            request.extensions_mut().insert(caller);
        }
        Ok(request)
    }
}

/// Serves one connection, after its handshake if the listener has TLS.
async fn accept(
    (stream, address): (TcpStream, SocketAddr),
    host: Arc<Host>,
    stopping: watch::Receiver<bool>,
    _place: Place,
) {
    // If the option cannot be set, the stream is only slower.
    let _ = stream.set_nodelay(true);
    let Some(tls) = &host.tls else {
        return serve(stream, Peer::Tcp { address }, host, stopping).await;
    };
    let handshake = tls.accept_http1(stream, address);
    match tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake).await {
        Ok(Ok((stream, peer))) => serve(stream, peer, host, stopping).await,
        Ok(Err(reason)) => tracing::debug!(%address, reason, "no handshake of TLS"),
        Err(_elapsed) => tracing::debug!(%address, "the handshake of TLS did not end in time"),
    }
}

/// Serves one connection until the connection or the server ends.
async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    peer: Peer,
    host: Arc<Host>,
    mut stopping: watch::Receiver<bool>,
) {
    let answer = hyper::service::service_fn(move |mut request: Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(peer.clone());
        let host = Arc::clone(&host);
        async move { Ok::<_, std::convert::Infallible>(host.answer(request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .max_headers(MAX_HEADERS)
        .serve_connection(TokioIo::new(WriteTimeoutStream::new(stream)), answer);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = async { drop(stopping.wait_for(|stopping| *stopping).await) } => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        // The client has left, or has exceeded a limit and has got an answer about it.
        tracing::debug!(
            error = &error as &dyn std::error::Error,
            "a connection for HTTP has ended"
        );
    }
}
