use std::path::PathBuf;

use tonic::Status;

/// The access that a listener grants.
#[derive(Debug, Clone)]
pub(super) enum Access {
    /// Reading and acting.
    Everything,
    /// Reading only, for unknown clients.
    ReadOnly {
        /// The socket that serves everything, where there is one.
        socket: Option<PathBuf>,
    },
}

impl Access {
    /// Refuses the acting `method` on a listener that serves reading only.
    pub(super) fn require_everything(&self, method: &str) -> Result<(), Status> {
        let Access::ReadOnly { socket } = self else {
            return Ok(());
        };
        let way = match socket {
            Some(path) => format!("use `--server unix:{}`", path.display()),
            None => "start the server with a Unix socket".to_owned(),
        };
        Err(Status::permission_denied(format!(
            "{method} acts on the fabric, and this TCP address serves reading only: \
             {way}, or start the server with --insecure-admin"
        )))
    }
}
