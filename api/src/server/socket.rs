//! The Unix socket: clients never see it unfinished, and it is removed with its server.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use tokio::net::UnixListener;

/// The file mode of the socket: owner and group may read and write. The operator adds users with
/// the right to act on the fabric to the group.
const MODE: u32 = 0o660;

/// The reason why the socket could not be bound.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Another server answers there.
    #[error("a server answers at {} already: stop it, or name another socket", path.display())]
    InUse {
        /// The path of the socket.
        path: PathBuf,
    },
    /// The path is not a socket.
    #[error("{} is there and is not a socket: move it away, or name another socket", path.display())]
    NotASocket {
        /// The path of the file.
        path: PathBuf,
    },
    /// The system refused.
    #[error("cannot {operation} {}", path.display())]
    Io {
        /// The failed operation.
        operation: &'static str,
        /// The file of the operation.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
}

/// A bound socket. Dropping it removes its file.
#[derive(Debug)]
pub(super) struct Socket {
    path: PathBuf,
    /// The device and inode of this socket file, which distinguish it from a file that another
    /// server has put in its place.
    identity: (u64, u64),
}

impl Socket {
    /// Binds `path`, creating its directory and replacing the socket of a server that has ended.
    ///
    /// Must be called within a tokio runtime.
    pub(super) fn bind(path: &Path) -> Result<(Socket, UnixListener), SocketError> {
        let failed = |operation, path: &Path| {
            let path = path.to_owned();
            move |source| SocketError::Io {
                operation,
                path,
                source,
            }
        };
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        fs::create_dir_all(directory).map_err(failed("create the directory", directory))?;
        refuse_unless_stale(path)?;

        // The socket is bound under another name, gets its mode, and is only then renamed into
        // place: clients see the old socket or the finished new one.
        let unfinished = directory.join(format!(".{}.sock", std::process::id()));
        match fs::remove_file(&unfinished) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed("remove", &unfinished)(error));
            }
            _ => {}
        }
        let listener = UnixListener::bind(&unfinished).map_err(failed("bind", &unfinished))?;
        let finished = fs::set_permissions(&unfinished, Permissions::from_mode(MODE))
            .and_then(|()| fs::metadata(&unfinished))
            .and_then(|metadata| {
                fs::rename(&unfinished, path)?;
                Ok((metadata.dev(), metadata.ino()))
            });
        match finished {
            Ok(identity) => Ok((
                Socket {
                    path: path.to_owned(),
                    identity,
                },
                listener,
            )),
            Err(source) => {
                // Only the first failure is reported, not one of the removal.
                drop(fs::remove_file(&unfinished));
                Err(failed("finish", path)(source))
            }
        }
    }

    /// The path of the socket.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.identity);
        if ours && let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "socket not removed");
        }
    }
}

/// Refuses to replace a file unless it is a stale socket, at which no server accepts connections.
fn refuse_unless_stale(path: &Path) -> Result<(), SocketError> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => {
            return Err(SocketError::Io {
                operation: "examine",
                path: path.to_owned(),
                source,
            });
        }
    };
    if !metadata.file_type().is_socket() {
        return Err(SocketError::NotASocket {
            path: path.to_owned(),
        });
    }
    match UnixStream::connect(path) {
        Ok(_connection) => Err(SocketError::InUse {
            path: path.to_owned(),
        }),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound
            ) =>
        {
            Ok(())
        }
        Err(source) => Err(SocketError::Io {
            operation: "find out whether a server answers at",
            path: path.to_owned(),
            source,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bind_creates_the_directory_and_drop_removes_the_socket() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run/rsm/rsm.sock");
        let (socket, _listener) = Socket::bind(&path).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, MODE);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        drop(socket);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn only_a_stale_socket_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rsm.sock");
        let (first, listener) = Socket::bind(&path).unwrap();
        assert!(matches!(
            Socket::bind(&path),
            Err(SocketError::InUse { .. })
        ));

        // The first server dies without removing its file.
        drop(listener);
        let (second, _listener) = Socket::bind(&path).unwrap();
        // Dropping the first socket late does not remove the new one.
        drop(first);
        assert!(path.exists());
        drop(second);

        fs::write(&path, "precious").unwrap();
        assert!(matches!(
            Socket::bind(&path),
            Err(SocketError::NotASocket { .. })
        ));
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }
}
