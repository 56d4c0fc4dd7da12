//! Serves a simulated fabric to programs started with the shim.
//!
//! One thread waits for connections, datagrams from the simulation, and time-outs. It passes
//! datagrams to the simulation's thread, which never waits for this thread.

mod calls;
mod connection;
mod device;
mod event_loop;
mod opening;
mod packet;
mod port;
mod tree;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use rsm_ids::Guid;
use rsm_sim::live::SimHandle;
use rustix::net::SocketAddrUnix;

use event_loop::EventLoop;
use packet::Wake;

/// The options of a server.
#[derive(Debug, Clone)]
pub struct HostServerOptions {
    /// The path of the socket.
    pub socket: PathBuf,
    /// The node of programs that do not choose one.
    pub node: Guid,
}

/// The reason why a fabric cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Another server answers at the path of the socket.
    #[error("another server already listens at {path}")]
    Taken {
        /// The path of the socket.
        path: PathBuf,
    },
    /// The socket could not be created.
    #[error("cannot listen at {path}")]
    Listen {
        /// The path of the socket.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The directory that replaces sysfs could not be created.
    #[error("cannot create the directory {path}")]
    Directory {
        /// The path of the directory.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The thread could not be started.
    #[error("cannot start the thread of the server")]
    Thread(#[source] io::Error),
}

/// A running server; dropping it stops it.
#[derive(Debug)]
pub struct HostServer {
    wake: Arc<Wake>,
    thread: Option<JoinHandle<()>>,
    socket: PathBuf,
    directory: PathBuf,
}

/// Serves the fabric behind `sim`.
///
/// # Errors
/// A [`ServerError`] if the socket, the directory or the thread cannot be created.
pub fn serve(sim: SimHandle, options: &HostServerOptions) -> Result<HostServer, ServerError> {
    let socket = &options.socket;
    let listen = |source: io::Error| ServerError::Listen {
        path: socket.clone(),
        source,
    };
    let address = SocketAddrUnix::new(socket).map_err(|error| listen(error.into()))?;
    if socket.exists() {
        let probe = packet::socket().map_err(listen)?;
        if rustix::net::connect(&probe, &address).is_ok() {
            return Err(ServerError::Taken {
                path: socket.clone(),
            });
        }
        // The socket file is left over from a server that was killed.
        std::fs::remove_file(socket).map_err(listen)?;
    }
    // Programs read sysfs from directories of their own.
    let directory = directory_beside(&std::path::absolute(socket).map_err(listen)?);
    std::fs::create_dir_all(&directory).map_err(|source| ServerError::Directory {
        path: directory.clone(),
        source,
    })?;
    let listener = packet::listen(&address).map_err(listen)?;
    let wake = Arc::new(Wake::new().map_err(listen)?);
    let event_loop = EventLoop::new(
        sim,
        listener,
        Arc::clone(&wake),
        directory.clone(),
        options.node,
    )
    .map_err(listen)?;
    let thread = std::thread::Builder::new()
        .name("umad-server".to_owned())
        .spawn(move || event_loop.run())
        .map_err(ServerError::Thread)?;
    Ok(HostServer {
        wake,
        thread: Some(thread),
        socket: socket.clone(),
        directory,
    })
}

/// A path that no other server uses: the path of the socket and the number of this process.
fn directory_beside(socket: &Path) -> PathBuf {
    let mut path = socket.as_os_str().to_owned();
    path.push(format!(".{}", std::process::id()));
    path.into()
}

impl HostServer {
    /// The path of the socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Whether the server is still running: it stops when the simulation or the server's thread has
    /// failed.
    pub fn is_running(&self) -> bool {
        self.thread
            .as_ref()
            .is_some_and(|thread| !thread.is_finished())
    }
}

impl Drop for HostServer {
    fn drop(&mut self) {
        self.wake.stop();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that serves the simulated fabric panicked");
        }
        for error in [
            std::fs::remove_file(&self.socket),
            std::fs::remove_dir_all(&self.directory),
        ]
        .into_iter()
        .filter_map(Result::err)
        {
            tracing::warn!(%error, "cannot clean up after the simulated fabric");
        }
    }
}
