//! Finding and reaching a server.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Uri};
use tower::service_fn;

/// The file name of the socket, in any of its directories.
pub const SOCKET_NAME: &str = "rsm.sock";

/// The directory of the socket where the server runs as a system service.
pub const RUN_DIR: &str = "/run/rsm";

/// The state directory of the server as a system service; it holds the socket without [`RUN_DIR`].
pub const STATE_DIR: &str = "/var/lib/rsm";

/// The default TCP address, which serves reading.
pub const DEFAULT_TCP: &str = "127.0.0.1:50051";

/// How long connecting may take: longer than a lost packet takes to be sent again.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The interval of keepalive pings on an idle connection.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);

/// The directories that a socket may be in, in the order of the search: [`RUN_DIR`],
/// `$XDG_RUNTIME_DIR/rsm`, [`STATE_DIR`], `$XDG_STATE_HOME/rsm`, `$HOME/.local/state/rsm`.
///
/// `variable` gives the value of an environment variable. A server picks the first that it may
/// write to.
pub fn socket_directories(variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let absolute = |name| {
        variable(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let mut directories = vec![PathBuf::from(RUN_DIR)];
    directories.extend(absolute("XDG_RUNTIME_DIR").map(|path| path.join("rsm")));
    directories.push(PathBuf::from(STATE_DIR));
    directories.extend(absolute("XDG_STATE_HOME").map(|path| path.join("rsm")));
    directories.extend(absolute("HOME").map(|path| path.join(".local/state/rsm")));
    directories
}

/// The default endpoints of a server, in the order of the search: the sockets of
/// [`socket_directories`], then [`DEFAULT_TCP`].
pub fn default_endpoints(variable: impl Fn(&str) -> Option<OsString>) -> Vec<Endpoint> {
    socket_directories(variable)
        .into_iter()
        .map(|directory| Endpoint::Unix(directory.join(SOCKET_NAME)))
        .chain([Endpoint::Http(format!("http://{DEFAULT_TCP}"))])
        .collect()
}

/// The address of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// A Unix socket.
    Unix(PathBuf),
    /// A URL that begins with `http://`.
    Http(String),
}

/// The text names no server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not the address of a server: expected http://HOST:PORT or unix:/PATH{hint}")]
pub struct ParseEndpointError {
    text: String,
    hint: &'static str,
}

impl FromStr for Endpoint {
    type Err = ParseEndpointError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = |hint| {
            Err(ParseEndpointError {
                text: text.to_owned(),
                hint,
            })
        };
        if let Some(path) = text.strip_prefix("unix:") {
            // `unix:///run/…` is the same path written as a URL.
            let path = path.strip_prefix("//").unwrap_or(path);
            return if path.is_empty() {
                refuse("")
            } else {
                Ok(Endpoint::Unix(PathBuf::from(path)))
            };
        }
        if text.starts_with('/') {
            return Ok(Endpoint::Unix(PathBuf::from(text)));
        }
        if text.starts_with("https:") {
            return refuse(" (TLS is not served)");
        }
        let url = if text.contains("://") {
            text.to_owned()
        } else {
            format!("http://{text}")
        };
        match url.parse::<Uri>() {
            Ok(uri) if uri.scheme_str() == Some("http") && uri.port().is_some() => {
                Ok(Endpoint::Http(url))
            }
            _ => refuse(""),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Unix(path) => write!(f, "unix:{}", path.display()),
            Endpoint::Http(url) => f.write_str(url),
        }
    }
}

/// A server could not be reached.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The socket does not lead to a server.
    #[error("cannot connect to {endpoint}")]
    Socket {
        /// Where.
        endpoint: Endpoint,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The connection could not be made.
    #[error("cannot connect to {endpoint}")]
    Transport {
        /// Where.
        endpoint: Endpoint,
        /// The transport's error.
        #[source]
        source: tonic::transport::Error,
    },
}

/// Connects to one server.
///
/// # Errors
/// No server answers there, or the system refuses.
pub async fn connect(endpoint: &Endpoint) -> Result<Channel, ConnectError> {
    let transport = |source| ConnectError::Transport {
        endpoint: endpoint.clone(),
        source,
    };
    let url = match endpoint {
        Endpoint::Http(url) => url.clone(),
        // The URI is for the host header only: the connector goes to the socket.
        Endpoint::Unix(_) => "http://localhost".to_owned(),
    };
    let channel = Channel::from_shared(url)
        .map_err(|_| ConnectError::Socket {
            endpoint: endpoint.clone(),
            source: io::ErrorKind::InvalidInput.into(),
        })?
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
        .keep_alive_while_idle(true);
    let Endpoint::Unix(path) = endpoint else {
        return channel.connect().await.map_err(transport);
    };
    // Connect once directly for the system's error: the transport only reports that it failed.
    UnixStream::connect(path)
        .await
        .map_err(|source| ConnectError::Socket {
            endpoint: endpoint.clone(),
            source,
        })?;
    let path = path.clone();
    let connector = service_fn(move |_: Uri| {
        let path = path.clone();
        async move { Ok::<_, io::Error>(TokioIo::new(UnixStream::connect(path).await?)) }
    });
    channel
        .connect_with_connector(connector)
        .await
        .map_err(transport)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_addresses_parse_and_others_are_refused() {
        let unix = Endpoint::Unix(PathBuf::from("/run/rsm/rsm.sock"));
        for text in [
            "unix:/run/rsm/rsm.sock",
            "unix:///run/rsm/rsm.sock",
            "/run/rsm/rsm.sock",
        ] {
            assert_eq!(text.parse(), Ok(unix.clone()), "{text}");
        }
        let http = Endpoint::Http("http://[::1]:50051".to_owned());
        assert_eq!("http://[::1]:50051".parse(), Ok(http.clone()));
        assert_eq!("[::1]:50051".parse(), Ok(http));
        for text in [
            "",
            "unix:",
            "host",
            "https://host:1",
            "ftp://host:1",
            "http://",
        ] {
            assert!(text.parse::<Endpoint>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn sockets_are_tried_before_tcp() {
        let variable = |name: &str| match name {
            "XDG_RUNTIME_DIR" => Some(OsString::from("/run/user/7")),
            "HOME" => Some(OsString::from("relative")),
            _ => None,
        };
        let tried: Vec<String> = default_endpoints(variable)
            .iter()
            .map(Endpoint::to_string)
            .collect();
        assert_eq!(
            tried,
            [
                "unix:/run/rsm/rsm.sock",
                "unix:/run/user/7/rsm/rsm.sock",
                "unix:/var/lib/rsm/rsm.sock",
                "http://127.0.0.1:50051",
            ]
        );
    }
}
