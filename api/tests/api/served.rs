use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use rsm_api::access::Gate;
use rsm_api::access::tls::ServerTls;
use rsm_api::client::{Endpoint, connect};
use rsm_api::limits::ConnectionLimits;
use rsm_api::{Backend, Listen, ServeError, Server};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tonic::transport::Channel;

use crate::fake::Fake;

/// A server that runs for a test's time.
pub(crate) struct Served {
    pub(crate) fake: Arc<Fake>,
    pub(crate) gpus: Arc<crate::gpu::Memory>,
    pub(crate) socket: PathBuf,
    pub(crate) tcp: SocketAddr,
    runtime: Runtime,
    /// None after the request to stop.
    stop: Option<oneshot::Sender<()>>,
    server: JoinHandle<Result<(), ServeError>>,
    _directory: TempDir,
}

/// Options of the server under test.
#[derive(Default)]
pub(crate) struct Wanted {
    pub(crate) hardware: bool,
    pub insecure_admin: bool,
    /// There is no SA.
    pub(crate) unmanaged: bool,
    /// The connection limits, where the default will not do.
    pub(crate) limits: Option<ConnectionLimits>,
    /// TLS of the TCP address.
    pub(crate) tls: Option<Arc<ServerTls>>,
    /// The gate, where the default will not do.
    pub(crate) gate: Option<Arc<Gate>>,
    /// The TCP address is bound only after the server has started.
    pub(crate) late_tcp: bool,
}

/// The identity of the tests at the Unix socket.
pub(crate) fn own_identity() -> String {
    format!("uid:{}", std::fs::metadata("/proc/self").unwrap().uid())
}

impl Served {
    /// Serves `fake` as a simulated fabric.
    pub(crate) fn start(fake: Fake) -> Served {
        Served::start_as(fake, Wanted::default())
    }

    pub(crate) fn start_as(fake: Fake, wanted: Wanted) -> Served {
        let runtime = Runtime::new().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let fake = Arc::new(fake);
        let listen = Listen {
            socket: Some(directory.path().join("rsm.sock")),
            tcp: Some("127.0.0.1:0".parse().unwrap()),
            insecure_admin: wanted.insecure_admin,
            tls: wanted.tls,
        };
        let bind = |listen| runtime.block_on(Server::bind(listen)).unwrap();
        let (late, bound) = oneshot::channel();
        let server = match wanted.late_tcp {
            true => bind(Listen {
                tcp: None,
                ..listen.clone()
            })
            .with_late_tcp(bound),
            false => bind(listen.clone()),
        };
        let server = match wanted.limits {
            Some(limits) => server.with_limits(limits),
            None => server,
        };
        let server = match wanted.gate {
            Some(gate) => server.with_gate(gate),
            None => server,
        };
        let (socket, tcp) = (server.socket().unwrap().to_owned(), server.tcp());
        let gpus = Arc::new(crate::gpu::Memory::default());
        let backend = Backend {
            subnet: fake.clone(),
            control: fake.clone(),
            routing: fake.clone(),
            sa: (!wanted.unmanaged).then(|| fake.clone() as _),
            counters: None,
            simulation: (!wanted.hardware).then(|| fake.clone() as _),
            gpus: Some(gpus.clone()),
            history: None,
            reports: (!wanted.unmanaged).then(|| fake.clone() as _),
            judge: (!wanted.unmanaged).then(|| fake.clone() as _),
            actions: None,
        };
        let (stop, stopped) = oneshot::channel();
        let server = runtime.spawn(server.run(backend, async {
            stopped.await.unwrap();
        }));
        let tcp = tcp.unwrap_or_else(|| {
            let server = bind(Listen {
                socket: None,
                ..listen
            });
            let address = server.tcp().unwrap();
            late.send(server).unwrap();
            address
        });
        Served {
            fake,
            gpus,
            socket,
            tcp,
            runtime,
            stop: Some(stop),
            server,
            _directory: directory,
        }
    }

    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// A connection through the Unix socket.
    pub(crate) fn unix(&self) -> Channel {
        let endpoint = Endpoint::Unix(self.socket.clone());
        self.block_on(connect(&endpoint)).unwrap()
    }

    /// The same, within the runtime.
    pub(crate) async fn unix_channel(&self) -> Channel {
        let endpoint = Endpoint::Unix(self.socket.clone());
        connect(&endpoint).await.unwrap()
    }

    /// A connection over TCP.
    pub(crate) fn tcp(&self) -> Channel {
        let endpoint = Endpoint::Http(format!("http://{}", self.tcp));
        self.block_on(connect(&endpoint)).unwrap()
    }

    /// Asks the server to stop. Connections of the test live on, so that it can read the last
    /// messages.
    pub(crate) fn ask_to_stop(&mut self) {
        self.stop.take().expect("asked once").send(()).unwrap();
    }

    /// Waits until the server has stopped.
    pub(crate) fn wait(self) -> Result<(), ServeError> {
        self.runtime.block_on(self.server).unwrap()
    }
}

/// All items of a list that comes in pages of two.
macro_rules! walk {
    ($served:expr, $client:ident . $method:ident, $request:expr, $items:ident) => {{
        let (mut items, mut page_token) = (Vec::new(), String::new());
        loop {
            let mut request = $request;
            request.page_token = page_token;
            let page = $served.block_on($client.$method(request)).unwrap();
            let page = page.into_inner();
            assert!(page.$items.len() <= 2, "pages are of two");
            items.extend(page.$items);
            page_token = page.next_page_token;
            if page_token.is_empty() {
                break items;
            }
        }
    }};
}

pub(crate) use walk;
