//! Runs the gRPC server beside the core.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use rsm_api::limits::ConnectionLimits;
use rsm_api::{Backend, Listen, ServeError, Server};
use rsm_store::StoreFabric;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::DaemonOptions;
use super::access::Access;
use super::addresses::Unbound;
use super::findings::{DaemonFindings, DaemonPart};

/// Running server.
pub(super) struct Serving {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// Serves `backend` on the Unix socket, and on TCP if the configuration enables it.
pub(super) async fn serve(
    options: &DaemonOptions,
    access: &Access,
    backend: Backend,
    findings: &DaemonFindings,
) -> anyhow::Result<Serving> {
    let api = &options.config.api;
    let listen = Listen {
        socket: socket(options).map_or_else(
            |folders| {
                findings.fail(DaemonPart::Socket, no_folder_text(&folders));
                None
            },
            Some,
        ),
        tcp: api.listen,
        insecure_admin: api.insecure_admin,
        tls: access.tls(),
    };
    let limits = ConnectionLimits::of_descriptors(descriptors());
    let server = bind(listen, findings)
        .await
        .context("cannot serve the API")?;
    let server = server.with_limits(limits).with_gate(access.gate());
    tracing::debug!(limits.unix, limits.tcp, "connections at once");
    tracing::info!("serving at {}", listeners(&server));
    let (stop, stopped) = oneshot::channel::<()>();
    let task = tokio::spawn(async move {
        let until = async move {
            // An error means that the sender was dropped, which also stops the server.
            let _ = stopped.await;
        };
        if let Err(error) = server.run(backend, until).await {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "the API is no longer served"
            );
        }
    });
    Ok(Serving { stop, task })
}

/// Binds the Unix socket, and the TCP address now or later: the subnet has a manager meanwhile.
async fn bind(listen: Listen, findings: &DaemonFindings) -> Result<Server, ServeError> {
    let error = match Server::bind(listen.clone()).await {
        Err(error @ ServeError::Tcp { .. }) => error,
        other => return other,
    };
    let unbound = Unbound::report(DaemonPart::Api, findings, &error);
    let (listener, bound) = oneshot::channel();
    let socket = Listen {
        tcp: None,
        ..listen.clone()
    };
    let server = Server::bind(socket).await?;
    // The task ends with the runtime.
    tokio::spawn(async move {
        let tcp = || {
            Server::bind(Listen {
                socket: None,
                ..listen.clone()
            })
        };
        let server = unbound.bind(tcp).await;
        tracing::info!("serving at {}", listeners(&server));
        // An error means that the server has stopped.
        drop(listener.send(server));
    });
    Ok(server.with_late_tcp(bound))
}

impl Serving {
    /// Stops the server after the current requests.
    pub(super) async fn stop(self) {
        drop(self.stop);
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the server panicked");
        }
    }
}

/// Number of descriptors for the largest number of API clients and for the rest of rsm.
const DESCRIPTORS: u64 = (ConnectionLimits::MOST.unix + ConnectionLimits::MOST.tcp) as u64
    + rsm_api::limits::RESERVED_DESCRIPTORS;

/// Raises the limit of descriptors as far as rsm needs, and returns the limit. The default limit is
/// often 1,024, far below the maximum, because of programs that use `select`.
fn descriptors() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let current = limit.current.unwrap_or(u64::MAX);
    let wanted = DESCRIPTORS.min(limit.maximum.unwrap_or(u64::MAX));
    if current >= wanted {
        return current;
    }
    let raised = Rlimit {
        current: Some(wanted),
        maximum: limit.maximum,
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => wanted,
        Err(error) => {
            tracing::warn!(%error, current, wanted, "the limit of open files cannot be raised");
            current
        }
    }
}

/// Formats the addresses as `rsmctl --server` accepts them: `unix:/run/rsm/rsm.sock and
/// http://127.0.0.1:50051`.
fn listeners(server: &Server) -> String {
    let socket = server.socket();
    let socket = socket.map(|path| format!("unix:{}", path.display()));
    let scheme = if server.has_tls() { "https" } else { "http" };
    let tcp = server.tcp().map(|address| format!("{scheme}://{address}"));
    let all: Vec<String> = socket.into_iter().chain(tcp).collect();
    match all.is_empty() {
        true => "no address".to_owned(),
        false => all.join(" and "),
    }
}

/// Folders of the host's own subnet manager. A simulation keeps its socket out of these folders,
/// because `rsmctl` would take the simulation for the site's manager.
const SITE_FOLDERS: [&str; 2] = [rsm_api::client::RUN_DIR, rsm_api::client::STATE_DIR];

/// Configured socket, otherwise a socket in the first of `rsmctl`'s folders that this process may
/// write to. If there is no such folder, the error holds the folders that were tried.
fn socket(options: &DaemonOptions) -> Result<PathBuf, Vec<PathBuf>> {
    if let Some(path) = &options.config.api.socket {
        return Ok(path.clone());
    }
    let folders = match &options.socket_dir {
        Some(dir) => vec![dir.clone()],
        None => {
            let mut all = rsm_api::client::socket_directories(|name| std::env::var_os(name));
            if options.store_fabric == StoreFabric::Simulation {
                all.retain(|dir| !SITE_FOLDERS.iter().any(|site| dir == Path::new(site)));
            }
            all
        }
    };
    match folders.iter().find(|dir| is_writable(dir)) {
        Some(dir) => Ok(dir.join(rsm_api::client::SOCKET_NAME)),
        None => Err(folders),
    }
}

/// Text of the finding if no folder accepts the socket.
fn no_folder_text(folders: &[PathBuf]) -> String {
    let named: Vec<String> = folders
        .iter()
        .map(|dir| dir.display().to_string())
        .collect();
    format!(
        "no folder for the socket of rsmctl can be written to, of {}: rsmctl reaches rsm over TCP only, the fabric is managed; \
         make one of them writable or name a socket with --socket, and start rsm again",
        named.join(", ")
    )
}

/// Whether this process can create files in `dir`. Creates `dir` if absent.
fn is_writable(dir: &Path) -> bool {
    let probe = dir.join(format!(".rsm-{}", std::process::id()));
    let written = std::fs::create_dir_all(dir).and_then(|()| std::fs::write(&probe, b""));
    written.and_then(|()| std::fs::remove_file(&probe)).is_ok()
}
