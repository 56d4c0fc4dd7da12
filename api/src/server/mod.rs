//! The gRPC server: a Unix socket and a TCP address, with a guard in front of the services of both.

mod acts;
mod blame;
mod convergence;
mod counters;
mod difference;
mod fabric;
mod gpu;
mod gpu_export;
mod gpu_import;
mod gpu_messages;
mod gpu_watch;
mod incoming;
mod maintenance;
mod multicast;
mod paging;
mod partition;
mod reader;
mod request;
mod routing;
mod sa;
mod simulation;
mod socket;
mod unix_peer;
mod watch;

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rsm_proto::v1::blame_service_server::BlameServiceServer;
use rsm_proto::v1::convergence_service_server::ConvergenceServiceServer;
use rsm_proto::v1::counters_service_server::CountersServiceServer;
use rsm_proto::v1::difference_service_server::DifferenceServiceServer;
use rsm_proto::v1::fabric_service_server::FabricServiceServer;
use rsm_proto::v1::gpu_service_server::GpuServiceServer;
use rsm_proto::v1::maintenance_service_server::MaintenanceServiceServer;
use rsm_proto::v1::multicast_service_server::MulticastServiceServer;
use rsm_proto::v1::partition_service_server::PartitionServiceServer;
use rsm_proto::v1::routing_service_server::RoutingServiceServer;
use rsm_proto::v1::sa_service_server::SaServiceServer;
use rsm_proto::v1::simulation_service_server::SimulationServiceServer;
use rsm_proto::v1::watch_service_server::WatchServiceServer;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{Semaphore, oneshot, watch as signal};
use tokio::task::JoinSet;
use tonic::transport::server::Router;
use tonic_health::server::{HealthReporter, health_reporter};
use tower::layer::util::{Identity, Stack};

pub use gpu_messages::current_status as gpu_status;
pub use reader::Reader;
pub use socket::SocketError;

use crate::access::tls::ServerTls;
use crate::access::{AccessPolicy, Anonymous, Gate, GuardLayer, NoAudit};
use crate::gpu::Gpus;
use crate::limits::{
    ConnectionLimits, MAX_ANALYSIS_READERS, MAX_FILE_READERS, MAX_GPU_REQUEST_BYTES,
    MAX_JOB_REQUEST_BYTES, MAX_PARTITION_REQUEST_BYTES, MAX_PAST_READERS, MAX_REQUEST_BYTES,
    MAX_REQUESTS_PER_CONNECTION, MAX_RESPONSE_BYTES, MAX_TOP_READERS, MAX_WATCHERS, SHUTDOWN_GRACE,
};
use crate::traits::{
    ActionLog, Control, CountersQueries, History, Judge, Reports, RoutingQueries, SaQueries,
    Simulation, Subnet,
};
pub use acts::{ActionRecorder, OpenAction, Outcome};
use incoming::{Connections, Listener, incoming};
use socket::Socket;

/// The interval of keepalive pings on a quiet connection, so that a watcher whose machine has gone
/// frees its permit.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);

/// The maximum time for the client to answer a ping.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// The parts of a subnet manager that the server serves.
#[derive(Clone)]
pub struct Backend {
    /// The queries about the subnet.
    pub subnet: Arc<dyn Subnet>,
    /// The actions on the subnet.
    pub control: Arc<dyn Control>,
    /// The measurement of routes.
    pub routing: Arc<dyn RoutingQueries>,
    /// The SA; `None` if no subnet is managed.
    pub sa: Option<Arc<dyn SaQueries>>,
    /// The performance counters; `None` if no subnet is managed.
    pub counters: Option<Arc<dyn CountersQueries>>,
    /// The actions on the fabric itself; `None` unless it is simulated.
    pub simulation: Option<Arc<dyn Simulation>>,
    /// The inventories of GPU hosts; `None` for a server that manages no subnet.
    pub gpus: Option<Arc<dyn Gpus>>,
    /// The history on the disk; `None` if none is kept.
    pub history: Option<Arc<dyn History>>,
    /// The source of reports; `None` if no subnet is managed.
    pub reports: Option<Arc<dyn Reports>>,
    /// The source of judgements on slow jobs; `None` if no subnet is managed.
    pub judge: Option<Arc<dyn Judge>>,
    /// The log of operators' requests; `None` if none is kept.
    pub actions: Option<Arc<dyn ActionLog>>,
}

/// The listeners of the server: at least one of socket and address should be given.
#[derive(Debug, Clone, Default)]
pub struct Listen {
    /// The path of the Unix socket, which its owner and group may use (mode 0660); `None` for no
    /// socket.
    pub socket: Option<PathBuf>,
    /// The TCP address; `None` for no TCP.
    pub tcp: Option<SocketAddr>,
    /// Whether clients over TCP without an identity have all rights except to secrets, rather than
    /// only the right to read.
    pub insecure_admin: bool,
    /// The TLS settings of the TCP address; `None` to serve without TLS.
    pub tls: Option<Arc<ServerTls>>,
}

/// The reason why the server could not start, or failed.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The Unix socket could not be bound.
    #[error("cannot serve on the Unix socket")]
    Socket(#[source] SocketError),
    /// The TCP address could not be bound.
    #[error("cannot listen on {address}: another server may be there; name another with --listen")]
    Tcp {
        /// The address of the listener.
        address: SocketAddr,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The server's own protocol descriptors do not fit together.
    #[error("cannot set up server reflection")]
    Reflection(#[source] tonic_reflection::server::Error),
    /// A listener failed while the server ran.
    #[error("the server failed")]
    Transport(#[source] tonic::transport::Error),
}

/// A server that is bound but does not serve yet.
#[derive(Debug)]
pub struct Server {
    unix: Option<(Socket, UnixListener)>,
    tcp: Option<(SocketAddr, TcpListener)>,
    tls: Option<Arc<ServerTls>>,
    gate: Arc<Gate>,
    limits: ConnectionLimits,
    /// The server whose TCP address is to be served as well, once it is bound.
    late_tcp: Option<oneshot::Receiver<Server>>,
}

impl Server {
    /// Binds the socket and the address. Replaces the socket of a server that has ended.
    ///
    /// # Errors
    /// Another server answers there, the path is of a file that is not a socket, or the system
    /// refuses.
    pub async fn bind(listen: Listen) -> Result<Server, ServeError> {
        let unix = match &listen.socket {
            Some(path) => Some(Socket::bind(path).map_err(ServeError::Socket)?),
            None => None,
        };
        let tcp = match listen.tcp {
            Some(address) => {
                let failed = |source| ServeError::Tcp { address, source };
                let listener = TcpListener::bind(address).await.map_err(failed)?;
                Some((listener.local_addr().map_err(failed)?, listener))
            }
            None => None,
        };
        let anonymous = match listen.insecure_admin {
            true => Anonymous::Everything,
            false => Anonymous::Reading,
        };
        let policy = AccessPolicy::without_files(anonymous);
        Ok(Server {
            unix,
            tcp,
            tls: listen.tls,
            gate: Arc::new(Gate::new(policy, Arc::new(NoAudit))),
            limits: ConnectionLimits::MOST,
            late_tcp: None,
        })
    }

    /// Also serves the TCP address of a server that is bound later, if this server has none. Its
    /// other settings do not count.
    #[must_use]
    pub fn with_late_tcp(self, bound: oneshot::Receiver<Server>) -> Server {
        Server {
            late_tcp: Some(bound),
            ..self
        }
    }

    /// Sets the limits of open connections, beyond which the server closes new ones. The default is
    /// [`ConnectionLimits::MOST`].
    #[must_use]
    pub fn with_limits(self, limits: ConnectionLimits) -> Server {
        Server { limits, ..self }
    }

    /// Sets the gate that decides on requests. The default grants everything at the Unix socket,
    /// and over TCP only reading unless [`Listen::insecure_admin`] is set.
    #[must_use]
    pub fn with_gate(self, gate: Arc<Gate>) -> Server {
        Server { gate, ..self }
    }

    /// The path of the bound socket, if there is one.
    pub fn socket(&self) -> Option<&Path> {
        self.unix.as_ref().map(|(socket, _)| socket.path())
    }

    /// The bound TCP address, with the port that the system chose for port 0.
    pub fn tcp(&self) -> Option<SocketAddr> {
        self.tcp.as_ref().map(|&(address, _)| address)
    }

    /// Whether the TCP address serves TLS.
    pub fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Serves until `shutdown` is done, then lets open requests end for at most [`SHUTDOWN_GRACE`].
    /// Watch streams end at once.
    ///
    /// # Errors
    /// A listener failed.
    pub async fn run(
        self,
        backend: Backend,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), ServeError> {
        let (stop, stopping) = signal::channel(false);
        let (health, health_service) = health_reporter();
        let unix = Connections::new("unix", self.limits.unix);
        let tcp = Connections::new("tcp", self.limits.tcp);
        let services = Services {
            backend,
            connections: [unix.clone(), tcp.clone()],
            permits: Permits::new(),
            stopping: stopping.clone(),
        };
        let guard = GuardLayer {
            gate: self.gate.clone(),
            subnet: services.backend.subnet.clone(),
            socket: self.socket().map(Path::to_owned),
        };
        let router = || {
            let router = services.router(guard.clone())?;
            Ok(router.add_service(health_service.clone()))
        };
        let stopped = || {
            let mut stopping = stopping.clone();
            async move {
                // An error means that the sender has been dropped: the server stops then, too.
                drop(stopping.wait_for(|stopping| *stopping).await);
            }
        };

        let mut listeners = JoinSet::new();
        // The socket is kept until the end, because dropping it removes the file.
        let _socket = match self.unix {
            Some((socket, listener)) => {
                let listener = Listener::Unix(listener);
                let incoming = incoming(listener, unix, self.gate.clone());
                let router = router()?;
                listeners.spawn(router.serve_with_incoming_shutdown(incoming, stopped()));
                Some(socket)
            }
            None => None,
        };
        if self.tcp.is_some() || self.late_tcp.is_some() {
            let bound = tcp_listener(self.tcp, self.late_tcp);
            let (tls, gate, router) = (self.tls, self.gate, router()?);
            let stopped = (stopped(), stopped());
            listeners.spawn(async move {
                let listener = tokio::select! {
                    listener = bound => Listener::Tcp(listener, tls),
                    () = stopped.0 => return Ok(()),
                };
                let incoming = incoming(listener, tcp, gate);
                (router.serve_with_incoming_shutdown(incoming, stopped.1)).await
            });
        }
        set_serving(&health).await;

        let failed = tokio::select! {
            () = shutdown => None,
            Some(ended) = listeners.join_next() => Some(ended),
        };
        drop(health);
        stop.send_replace(true);
        let outcome = failed.map_or(Ok(()), listener_outcome);
        finish(listeners, outcome).await
    }
}

/// Lets the open requests of all listeners end, for at most [`SHUTDOWN_GRACE`]. Returns `outcome`,
/// or the first failure after it.
async fn finish(
    mut listeners: JoinSet<Result<(), tonic::transport::Error>>,
    mut outcome: Result<(), ServeError>,
) -> Result<(), ServeError> {
    let drained = tokio::time::timeout(SHUTDOWN_GRACE, async {
        while let Some(ended) = listeners.join_next().await {
            let ended = listener_outcome(ended);
            if outcome.is_ok() {
                outcome = ended;
            }
        }
    })
    .await;
    if drained.is_err() {
        tracing::warn!(
            grace_ms = SHUTDOWN_GRACE.as_millis(),
            "open requests were cut off"
        );
        listeners.shutdown().await;
    }
    outcome
}

/// Binds and serves in one step: [`Server::bind`], then [`Server::run`].
///
/// # Errors
/// The errors of [`Server::bind`] and [`Server::run`].
pub async fn serve(
    listen: Listen,
    backend: Backend,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    Server::bind(listen).await?.run(backend, shutdown).await
}

/// The listener at the TCP address, which may be bound later. Never returns if none is bound.
async fn tcp_listener(
    bound: Option<(SocketAddr, TcpListener)>,
    later: Option<oneshot::Receiver<Server>>,
) -> TcpListener {
    if let Some((_, listener)) = bound {
        return listener;
    }
    let later = match later {
        Some(later) => later.await.ok().and_then(|server| server.tcp),
        None => None,
    };
    match later {
        Some((_, listener)) => listener,
        None => std::future::pending().await,
    }
}

/// The outcome of a listener's task. Only the server cancels such a task; a panic in it is
/// propagated.
fn listener_outcome(
    ended: Result<Result<(), tonic::transport::Error>, tokio::task::JoinError>,
) -> Result<(), ServeError> {
    match ended {
        Ok(served) => served.map_err(ServeError::Transport),
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_cancelled) => Ok(()),
    }
}

/// The permits for kinds of work whose number at the same time is limited, over all listeners.
struct Permits {
    /// Watchers of events, of ranked ports and of GPU hosts.
    watchers: Arc<Semaphore>,
    /// Answers from the past of the counters.
    past: Arc<Semaphore>,
    /// Answers that examine every port.
    top: Arc<Semaphore>,
    /// Answers from the analysis of GPU hosts.
    analyses: Arc<Semaphore>,
    /// Readers of files.
    files: Arc<Semaphore>,
}

impl Permits {
    fn new() -> Permits {
        let permits = |most| Arc::new(Semaphore::new(most));
        Permits {
            watchers: permits(MAX_WATCHERS),
            past: permits(MAX_PAST_READERS),
            top: permits(MAX_TOP_READERS),
            analyses: permits(MAX_ANALYSIS_READERS),
            files: permits(MAX_FILE_READERS),
        }
    }
}

/// The services that all listeners share.
struct Services {
    backend: Backend,
    /// The connections of the Unix socket, and the connections over TCP.
    connections: [Arc<Connections>; 2],
    permits: Permits,
    stopping: signal::Receiver<bool>,
}

/// Declares the services of rsm.v1, each with the maximum size of a request in bytes and the fields
/// of its implementation.
macro_rules! services {
    ($($name:ident: $server:ident<$service:ty>, $most:expr, |$all:ident| { $($fields:tt)* };)+) => {
        impl Services {
            $(fn $name(&self) -> $server<$service> {
                type Content = $service;
                let $all = self;
                $server::new(Content { $($fields)* })
                    .max_decoding_message_size($most)
                    .max_encoding_message_size(MAX_RESPONSE_BYTES)
            })+

            fn add_to<L>(&self, router: Router<L>) -> Router<L> {
                router$(.add_service(self.$name()))+
            }
        }

        /// Marks every service as serving for the server's lifetime; GetStatus reports the state of
        /// the subnet.
        async fn set_serving(health: &HealthReporter) {
            $(health.set_serving::<$server<$service>>().await;)+
        }
    };
}

services! {
    fabric: FabricServiceServer<fabric::Fabric>, MAX_REQUEST_BYTES, |all| {
        subnet: Arc::clone(&all.backend.subnet),
        reports: all.backend.reports.clone(),
        connections: Some(all.connections.clone()),
    };
    convergence: ConvergenceServiceServer<convergence::Convergences>, MAX_REQUEST_BYTES, |all| {
        subnet: Arc::clone(&all.backend.subnet),
        control: Arc::clone(&all.backend.control),
        history: all.backend.history.clone(),
        acts: all.acts(),
    };
    difference: DifferenceServiceServer<difference::Differences>, MAX_REQUEST_BYTES, |all| {
        subnet: Arc::clone(&all.backend.subnet),
        history: all.backend.history.clone(),
    };
    blame: BlameServiceServer<blame::Blame>, MAX_JOB_REQUEST_BYTES, |all| {
        judge: all.backend.judge.clone(),
    };
    partition: PartitionServiceServer<partition::Partitions>, MAX_PARTITION_REQUEST_BYTES, |all| {
        subnet: Arc::clone(&all.backend.subnet),
        control: Arc::clone(&all.backend.control),
        acts: all.acts(),
    };
    routing: RoutingServiceServer<routing::Routes>, MAX_REQUEST_BYTES, |all| {
        routing: Arc::clone(&all.backend.routing),
        control: Arc::clone(&all.backend.control),
        acts: all.acts(),
    };
    maintenance: MaintenanceServiceServer<maintenance::Maintenance>, MAX_REQUEST_BYTES, |all| {
        subnet: Arc::clone(&all.backend.subnet),
        control: Arc::clone(&all.backend.control),
        acts: all.acts(),
    };
    multicast: MulticastServiceServer<multicast::Multicast>, MAX_REQUEST_BYTES, |all| {
        subnet: Arc::clone(&all.backend.subnet),
        sa: all.backend.sa.clone(),
    };
    sa: SaServiceServer<sa::SaServer>, MAX_REQUEST_BYTES, |all| {
        subnet: Arc::clone(&all.backend.subnet),
        sa: all.backend.sa.clone(),
    };
    counters: CountersServiceServer<counters::Counters>, MAX_REQUEST_BYTES, |all| {
        counters: all.backend.counters.clone(),
        past_permits: Arc::clone(&all.permits.past),
        top_permits: Arc::clone(&all.permits.top),
        watchers: Arc::clone(&all.permits.watchers),
        stopping: all.stopping.clone(),
    };
    watch: WatchServiceServer<watch::Watch>, MAX_REQUEST_BYTES, |all| {
        subnet: Arc::clone(&all.backend.subnet),
        history: all.backend.history.clone(),
        watchers: Arc::clone(&all.permits.watchers),
        stopping: all.stopping.clone(),
    };
    simulation: SimulationServiceServer<simulation::Simulated>, MAX_REQUEST_BYTES, |all| {
        simulation: all.backend.simulation.clone(),
    };
    gpu: GpuServiceServer<gpu::GpuHints>, MAX_GPU_REQUEST_BYTES, |all| {
        gpus: all.backend.gpus.clone(),
        subnet: Arc::clone(&all.backend.subnet),
        watchers: Arc::clone(&all.permits.watchers),
        readers: Arc::clone(&all.permits.files),
        analyses: Arc::clone(&all.permits.analyses),
        stopping: all.stopping.clone(),
        acts: all.acts(),
    };
}

impl Services {
    fn acts(&self) -> ActionRecorder {
        ActionRecorder::new(self.backend.actions.clone())
    }

    fn router(&self, guard: GuardLayer) -> Result<Router<Stack<GuardLayer, Identity>>, ServeError> {
        let reflection = || {
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(rsm_proto::FILE_DESCRIPTOR_SET)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        };
        // Clients in the field use either version.
        let v1 = reflection().build_v1().map_err(ServeError::Reflection)?;
        let v1alpha = reflection()
            .build_v1alpha()
            .map_err(ServeError::Reflection)?;
        let router = tonic::transport::Server::builder()
            .layer(guard)
            .concurrency_limit_per_connection(MAX_REQUESTS_PER_CONNECTION)
            .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
            .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
            .add_service(v1)
            .add_service(v1alpha);
        Ok(self.add_to(router))
    }
}
