//! Serves a simulated fabric to programs that were started with the shim.
//!
//! One thread waits for everything: connections, datagrams from the simulation, time-outs. It hands
//! datagrams to the simulation's thread, which never waits for it.

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

/// What is served, and where.
#[derive(Debug, Clone)]
pub struct Options {
    /// The path of the socket.
    pub socket: PathBuf,
    /// The node that programs run on that do not say.
    pub node: Guid,
}

/// A fabric cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Another server answers at this path.
    #[error("{path} is served already")]
    Taken {
        /// The path.
        path: PathBuf,
    },
    /// The socket could not be made.
    #[error("cannot listen at {path}")]
    Listen {
        /// The path.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The directory for what stands in for sysfs could not be made.
    #[error("cannot make the directory {path}")]
    Directory {
        /// The path.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The thread could not be started.
    #[error("cannot start the thread that serves")]
    Thread(#[source] io::Error),
}

/// A fabric that is served, until this is dropped.
#[derive(Debug)]
pub struct Server {
    wake: Arc<Wake>,
    thread: Option<JoinHandle<()>>,
    socket: PathBuf,
    directory: PathBuf,
}

/// Serves the fabric behind `sim`.
///
/// # Errors
/// [`ServerError`].
pub fn serve(sim: SimHandle, options: &Options) -> Result<Server, ServerError> {
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
        // What a server left behind that was killed.
        std::fs::remove_file(socket).map_err(listen)?;
    }
    let directory = directory_beside(socket);
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
    Ok(Server {
        wake,
        thread: Some(thread),
        socket: socket.clone(),
        directory,
    })
}

/// One that nobody else has: the path of the socket with the number of this process.
fn directory_beside(socket: &Path) -> PathBuf {
    let mut path = socket.as_os_str().to_owned();
    path.push(format!(".{}", std::process::id()));
    path.into()
}

impl Server {
    /// The path of the socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Whether it still serves: not after the simulation or the thread has failed.
    pub fn is_running(&self) -> bool {
        self.thread
            .as_ref()
            .is_some_and(|thread| !thread.is_finished())
    }
}

impl Drop for Server {
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
