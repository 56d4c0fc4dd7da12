//! Connections to servers, with TLS if the address requires it.

use std::io;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::settings::HttpTarget;

/// A stream of bytes to and from a server.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Connects to `target`. `alpn` is the protocol that TLS offers.
pub(super) async fn connect(target: &HttpTarget, alpn: &[u8]) -> io::Result<Box<dyn Stream>> {
    let tcp = TcpStream::connect((target.host.as_str(), target.port)).await?;
    tcp.set_nodelay(true)?;
    if !target.tls {
        return Ok(Box::new(tcp));
    }
    let name = ServerName::try_from(target.host.clone()).map_err(io::Error::other)?;
    let connector = connector(target, alpn)?;
    Ok(Box::new(connector.connect(name, tcp).await?))
}

/// TLS client that trusts the CAs of `target`.
fn connector(target: &HttpTarget, alpn: &[u8]) -> io::Result<TlsConnector> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    let mut config = config
        .with_root_certificates(roots(target)?)
        .with_no_client_auth();
    config.alpn_protocols = vec![alpn.to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Certificates of the CAs that `target` trusts.
fn roots(target: &HttpTarget) -> io::Result<RootCertStore> {
    let access = target.access.as_ref();
    let access = access.map_err(|why| io::Error::other(why.clone()))?;
    let mut roots = RootCertStore::empty();
    match &access.ca_pem {
        Some(pem) => {
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let certificate = certificate.map_err(io::Error::other)?;
                roots.add(certificate).map_err(io::Error::other)?;
            }
        }
        None => {
            let system = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(system.certs);
        }
    }
    match roots.is_empty() {
        true => Err(io::Error::other("no certificate of a CA is trusted")),
        false => Ok(roots),
    }
}
