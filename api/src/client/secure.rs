//! A connection over TLS.

use std::io;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::transport::{Channel, Uri};
use tower::service_fn;

use super::{CONNECT_TIMEOUT, ClientTlsFiles, ConnectError, Endpoint, channel};
use crate::access::tls::{client_config, explain};

/// The maximum time until the server's first bytes after the handshake.
const FIRST_BYTES: Duration = Duration::from_secs(5);

/// The server's address, and the settings to reach it.
#[derive(Clone)]
struct Target {
    host: String,
    port: u16,
    name: ServerName<'static>,
    connector: TlsConnector,
}

/// Connects to a URL that begins with `https://`.
pub(super) async fn connect(
    url: &str,
    files: Option<&ClientTlsFiles>,
) -> Result<Channel, ConnectError> {
    let endpoint = Endpoint::Https(url.to_owned());
    let failed = |reason: String| ConnectError::Tls {
        endpoint: endpoint.clone(),
        reason,
    };
    let files = files.ok_or_else(|| {
        failed("name the file of the CAs to trust, with --tls-ca or RSM_TLS_CA".to_owned())
    })?;
    let config = client_config(files).map_err(|error| failed(error.to_string()))?;
    let target = target(url, TlsConnector::from(config)).map_err(failed)?;
    // A direct connection is made first: the transport only reports that it failed, and a server
    // that refuses the client's certificate says so after the handshake.
    let probe = tokio::time::timeout(CONNECT_TIMEOUT, probe(&target)).await;
    let timed_out = |_| Err("the handshake took too long".to_owned());
    probe.unwrap_or_else(timed_out).map_err(failed)?;
    let connector = service_fn(move |_: Uri| {
        let target = target.clone();
        async move { Ok::<_, io::Error>(TokioIo::new(target.open().await?)) }
    });
    // The connector adds TLS; the URI only determines the host header.
    let plain = url.replacen("https://", "http://", 1);
    channel(&endpoint, plain)?
        .connect_with_connector(connector)
        .await
        .map_err(|source| ConnectError::Transport { endpoint, source })
}

fn target(url: &str, connector: TlsConnector) -> Result<Target, String> {
    let uri: Uri = url.parse().map_err(|_| "it is no URL".to_owned())?;
    let (Some(host), Some(port)) = (uri.host(), uri.port_u16()) else {
        return Err("it has no host and port".to_owned());
    };
    let host = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .to_owned();
    let name = ServerName::try_from(host.clone())
        .map_err(|_| format!("`{host}` is no name that a certificate can have"))?;
    Ok(Target {
        host,
        port,
        name,
        connector,
    })
}

impl Target {
    async fn open(&self) -> io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        // The server does the same.
        let _ = stream.set_nodelay(true);
        self.connector.connect(self.name.clone(), stream).await
    }
}

/// Opens a connection and waits for the first bytes, which an HTTP/2 server sends without a
/// request.
async fn probe(target: &Target) -> Result<(), String> {
    let mut stream = target
        .open()
        .await
        .map_err(|error| explain(&error, "server"))?;
    let mut first = [0];
    match tokio::time::timeout(FIRST_BYTES, stream.read(&mut first)).await {
        Ok(Ok(0)) => Err("the server closed the connection after the handshake".to_owned()),
        Ok(Ok(_)) | Err(_) => Ok(()),
        Ok(Err(error)) => Err(explain(&error, "server")),
    }
}
