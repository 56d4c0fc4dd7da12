//! Finds and connects to a server.

mod secure;

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Uri};
use tonic::{Request, Status};
use tower::service_fn;

pub use crate::access::tls::ClientTlsFiles;

/// The file name of the socket, in any of its directories.
pub const SOCKET_NAME: &str = "rsm.sock";

/// The directory of the socket if the server runs as a system service.
pub const RUN_DIR: &str = "/run/rsm";

/// The state directory of the server as a system service; it contains the socket if there is no
/// [`RUN_DIR`].
pub const STATE_DIR: &str = "/var/lib/rsm";

/// The default TCP address, which serves only reading.
pub const DEFAULT_TCP: &str = "127.0.0.1:50051";

/// The maximum time for connecting: longer than the retransmission of a lost packet takes.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The interval of keepalive pings on an idle connection.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);

/// The directories that may contain a socket, in the order of the search: [`RUN_DIR`],
/// `$XDG_RUNTIME_DIR/rsm`, [`STATE_DIR`], `$XDG_STATE_HOME/rsm`, `$HOME/.local/state/rsm`.
///
/// `variable` returns the value of an environment variable. A server uses the first directory to
/// which it may write.
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
    /// A URL that begins with `https://`, for TLS.
    Https(String),
}

/// The error of a text that names no server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not the address of a server: expected http://HOST:PORT, https://HOST:PORT or unix:/PATH"
)]
pub struct ParseEndpointError {
    text: String,
}

impl FromStr for Endpoint {
    type Err = ParseEndpointError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = || {
            Err(ParseEndpointError {
                text: text.to_owned(),
            })
        };
        if let Some(path) = text.strip_prefix("unix:") {
            // `unix:///run/…` is the same path written as a URL.
            let path = path.strip_prefix("//").unwrap_or(path);
            return if path.is_empty() {
                refuse()
            } else {
                Ok(Endpoint::Unix(PathBuf::from(path)))
            };
        }
        if text.starts_with('/') {
            return Ok(Endpoint::Unix(PathBuf::from(text)));
        }
        let url = if text.contains("://") {
            text.to_owned()
        } else {
            format!("http://{text}")
        };
        match url.parse::<Uri>() {
            Ok(uri) if uri.port().is_some() => match uri.scheme_str() {
                Some("http") => Ok(Endpoint::Http(url)),
                Some("https") => Ok(Endpoint::Https(url)),
                _ => refuse(),
            },
            _ => refuse(),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Unix(path) => write!(f, "unix:{}", path.display()),
            Endpoint::Http(url) | Endpoint::Https(url) => f.write_str(url),
        }
    }
}

/// The reason why a server could not be reached.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The socket does not lead to a server.
    #[error("cannot connect to {endpoint}")]
    Socket {
        /// The address of the server.
        endpoint: Endpoint,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The connection could not be made.
    #[error("cannot connect to {endpoint}")]
    Transport {
        /// The address of the server.
        endpoint: Endpoint,
        /// The transport's error.
        #[source]
        source: tonic::transport::Error,
    },
    /// The TLS handshake failed, or a file for it cannot be used.
    #[error("cannot connect to {endpoint}: {reason}")]
    Tls {
        /// The address of the server.
        endpoint: Endpoint,
        /// The reason, and the remedy.
        reason: String,
    },
    /// A token cannot be used.
    #[error("the token cannot be used: {reason}")]
    Token {
        /// The reason for the error.
        reason: &'static str,
    },
}

/// The proofs of a client's identity, the CAs that it trusts, and its operator's name.
#[derive(Debug, Clone, Default)]
pub struct Credentials {
    /// The CAs that the client trusts over TLS, and its certificate.
    pub tls: Option<ClientTlsFiles>,
    /// A bearer token; blanks around it are ignored.
    pub token: Option<String>,
    /// Name of the operator, which records of orders show beside the identity of the connection. A
    /// name that is not ASCII is left out.
    pub operator: Option<String>,
}

/// A connection whose requests say who sends them.
pub type Connection = InterceptedService<Channel, Sender>;

/// Adds the client's token and the operator's name to each request.
#[derive(Clone)]
pub struct Sender {
    token: Option<MetadataValue<Ascii>>,
    operator: Option<MetadataValue<Ascii>>,
}

impl Interceptor for Sender {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let metadata = request.metadata_mut();
        if let Some(token) = &self.token {
            metadata.insert("authorization", token.clone());
        }
        if let Some(operator) = &self.operator {
            metadata.insert(crate::access::OPERATOR_METADATA, operator.clone());
        }
        Ok(request)
    }
}

/// Connects to one server with credentials.
///
/// # Errors
/// The errors of [`connect`], or a file of the credentials cannot be used.
pub async fn connect_as(
    endpoint: &Endpoint,
    credentials: &Credentials,
) -> Result<Connection, ConnectError> {
    let token = credentials.token.as_deref().map(str::trim);
    let token = token.map(|token| {
        let value: Result<MetadataValue<Ascii>, _> = format!("Bearer {token}").parse();
        let reason = "it has characters that no token has";
        let mut value = value.map_err(|_| ConnectError::Token { reason })?;
        value.set_sensitive(true);
        Ok(value)
    });
    let operator = credentials.operator.as_deref().map(str::trim);
    let operator = operator.filter(|name| !name.is_empty());
    let sender = Sender {
        token: token.transpose()?,
        operator: operator.and_then(|name| name.parse().ok()),
    };
    let channel = match endpoint {
        Endpoint::Https(url) => secure::connect(url, credentials.tls.as_ref()).await?,
        endpoint => connect(endpoint).await?,
    };
    Ok(InterceptedService::new(channel, sender))
}

/// Connects to one server without credentials, which is impossible over TLS.
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
        Endpoint::Https(url) => return secure::connect(url, None).await,
        // The URI only determines the host header: the connector uses the socket.
        Endpoint::Unix(_) => "http://localhost".to_owned(),
    };
    let channel = channel(endpoint, url)?;
    let Endpoint::Unix(path) = endpoint else {
        return channel.connect().await.map_err(transport);
    };
    // A direct connection first finds the system's error: the transport only reports that it
    // failed.
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

/// The settings of a channel to `url`.
fn channel(endpoint: &Endpoint, url: String) -> Result<tonic::transport::Endpoint, ConnectError> {
    let channel = Channel::from_shared(url).map_err(|_| ConnectError::Socket {
        endpoint: endpoint.clone(),
        source: io::ErrorKind::InvalidInput.into(),
    })?;
    Ok(channel
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
        .keep_alive_while_idle(true))
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
        let https = Endpoint::Https("https://host:1".to_owned());
        assert_eq!("https://host:1".parse(), Ok(https));
        for text in [
            "",
            "unix:",
            "host",
            "https://host",
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
