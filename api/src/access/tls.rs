//! TLS: the server's certificate and its reloading, clients' certificates, and errors in plain
//! words.

use std::fs::File;
use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, Error as RustlsError, RootCertStore,
    ServerConfig,
};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::identity::{Certificate, Peer};

/// The maximum size of a file with certificates or a key, in bytes: four times the size of a bundle
/// of all public CAs.
pub const MAX_PEM_BYTES: u64 = 1 << 20;

/// The protocol of gRPC in the TLS handshake (ALPN).
const HTTP2: &[u8] = b"h2";

/// The protocol of the HTTP listener in the TLS handshake (ALPN).
const HTTP1: &[u8] = b"http/1.1";

/// The files for a server's TLS, all in PEM.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsFiles {
    /// The server's certificate, followed by the certificates of intermediate CAs.
    pub certificate: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
    /// The CAs of client certificates; `None` if no client certificate is requested.
    pub client_ca: Option<PathBuf>,
    /// The lists of revoked client certificates (CRLs), one list for each CA; `None` if no
    /// certificate is revoked.
    pub client_crl: Option<PathBuf>,
}

/// The error of a file of certificates or keys that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub struct TlsError {
    /// The path of the file.
    pub path: PathBuf,
    /// The description of the error.
    pub reason: String,
}

/// A server's TLS settings, which can change at run time.
#[derive(Debug)]
pub struct ServerTls {
    files: TlsFiles,
    config: RwLock<Option<Arc<ServerConfig>>>,
}

impl ServerTls {
    /// Creates settings from `files`. Every connection is refused until a [`ServerTls::reload`]
    /// succeeds.
    pub fn new(files: TlsFiles) -> ServerTls {
        ServerTls {
            files,
            config: RwLock::new(None),
        }
    }

    /// Reads the files again. New connections use them; open connections are unaffected. Returns
    /// the names and the expiry of the server's certificate.
    ///
    /// # Errors
    /// A file cannot be read or is incomplete, or key and certificate do not match. The previous
    /// settings stay in force.
    pub fn reload(&self) -> Result<Certificate, TlsError> {
        let (config, certificate) = server_config(&self.files)?;
        *self.config.write() = Some(Arc::new(config));
        Ok(certificate)
    }

    /// Completes the handshake of a client that must speak HTTP/1.1. Returns the connection and its
    /// other end.
    ///
    /// # Errors
    /// The handshake failed; the text says why.
    pub async fn accept_http1(
        &self,
        stream: TcpStream,
        address: SocketAddr,
    ) -> Result<(TlsStream<TcpStream>, Peer), String> {
        let Some(config) = self.config() else {
            return Err("this server has no usable certificate: see its findings".to_owned());
        };
        let mut config = ServerConfig::clone(&config);
        config.alpn_protocols = vec![HTTP1.to_vec()];
        let accepted = TlsAcceptor::from(Arc::new(config)).accept(stream).await;
        let stream = accepted.map_err(|error| explain(&error, "client"))?;
        let certificates = stream.get_ref().1.peer_certificates();
        let leaf = certificates.and_then(<[_]>::first);
        let certificate = leaf.map(|leaf| Certificate::from_der(leaf)).transpose()?;
        let certificate = certificate.map(Arc::new);
        let peer = Peer::Tls {
            address,
            certificate,
        };
        Ok((stream, peer))
    }

    /// The settings for the next connection; `None` before the first successful reload.
    pub(crate) fn config(&self) -> Option<Arc<ServerConfig>> {
        self.config.read().clone()
    }
}

fn failed(path: &Path, reason: impl ToString) -> TlsError {
    TlsError {
        path: path.to_owned(),
        reason: reason.to_string(),
    }
}

/// Reads a file, unless it is larger than [`MAX_PEM_BYTES`].
fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let file = File::open(path).map_err(|error| failed(path, error))?;
    let mut bytes = Vec::new();
    file.take(MAX_PEM_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| failed(path, error))?;
    if bytes.len() as u64 > MAX_PEM_BYTES {
        let reason =
            format!("it is longer than {MAX_PEM_BYTES} bytes, and no file of certificates is");
        return Err(failed(path, reason));
    }
    Ok(bytes)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let bytes = read(path)?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let certificates =
        read.map_err(|error| failed(path, format!("a certificate in it is not whole ({error})")))?;
    if certificates.is_empty() {
        return Err(failed(path, "there is no certificate in it (expected PEM)"));
    }
    Ok(certificates)
}

fn key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let bytes = read(path)?;
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| {
        failed(
            path,
            format!("there is no whole private key in it ({error})"),
        )
    })
}

fn roots(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots
            .add(certificate)
            .map_err(|error| failed(path, error))?;
    }
    Ok(roots)
}

/// The lists of revoked certificates in a file.
fn revocations(path: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    let bytes = read(path)?;
    let lists: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(&bytes).collect();
    let lists =
        lists.map_err(|error| failed(path, format!("a list in it is not whole ({error})")))?;
    if lists.is_empty() {
        let reason = "there is no list of revoked certificates in it (expected PEM, X509 CRL)";
        return Err(failed(path, reason));
    }
    Ok(lists)
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Reads the files of a server. Returns settings for HTTP/2, and the server's certificate.
fn server_config(files: &TlsFiles) -> Result<(ServerConfig, Certificate), TlsError> {
    let chain = certificates(&files.certificate)?;
    let certificate =
        Certificate::from_der(&chain[0]).map_err(|error| failed(&files.certificate, error))?;
    let key_der = key(&files.key)?;
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(&files.certificate, error))?;
    let builder = match &files.client_ca {
        Some(path) => {
            let mut verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots(path)?), provider())
                    // A client without a certificate may have a token, or only read.
                    .allow_unauthenticated();
            let revoked = files.client_crl.as_deref();
            if let Some(revoked) = revoked {
                // A certificate of a CA without a list is refused, because it may be revoked.
                verifier = verifier.with_crls(revocations(revoked)?);
            }
            let verifier = verifier
                .build()
                .map_err(|error| failed(revoked.unwrap_or(path), error))?;
            builder.with_client_cert_verifier(verifier)
        }
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_single_cert(chain, key_der).map_err(|error| {
        failed(
            &files.key,
            format!("it does not fit the certificate ({error})"),
        )
    })?;
    config.alpn_protocols = vec![HTTP2.to_vec()];
    Ok((config, certificate))
}

/// The TLS files of a client, all in PEM.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientTlsFiles {
    /// The CAs of the server's certificate.
    pub ca: PathBuf,
    /// The client's certificate, and its private key; `None` for a client without a certificate.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// The TLS settings of a client.
///
/// # Errors
/// A file cannot be read or is incomplete, or key and certificate do not match.
pub fn client_config(files: &ClientTlsFiles) -> Result<Arc<ClientConfig>, TlsError> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(&files.ca, error))?
        .with_root_certificates(roots(&files.ca)?);
    let mut config = match &files.identity {
        Some((certificate, key_file)) => builder
            .with_client_auth_cert(certificates(certificate)?, key(key_file)?)
            .map_err(|error| failed(key_file, error))?,
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![HTTP2.to_vec()];
    Ok(Arc::new(config))
}

/// Reads the first certificate of a file in PEM.
///
/// # Errors
/// The file cannot be read, or its first certificate is incomplete.
pub fn read_certificate(path: &Path) -> Result<Certificate, TlsError> {
    Certificate::from_der(&certificates(path)?[0]).map_err(|error| failed(path, error))
}

/// The reason why a handshake failed, for the side that sees `error`; `other` is the name of the
/// other side.
pub fn explain(error: &io::Error, other: &str) -> String {
    let inner = error.get_ref();
    let Some(error) = inner.and_then(|inner| inner.downcast_ref::<RustlsError>()) else {
        return match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
                format!("the {other} closed the connection in the handshake: does it speak TLS?")
            }
            _ => error.to_string(),
        };
    };
    match error {
        RustlsError::InvalidCertificate(reason) => certificate_refusal(reason, other),
        RustlsError::NoCertificatesPresented => format!("the {other} showed no certificate"),
        RustlsError::AlertReceived(alert) => alert_received(*alert, other),
        RustlsError::InvalidMessage(_) => format!("the {other} does not speak TLS"),
        error => error.to_string(),
    }
}

fn certificate_refusal(reason: &CertificateError, other: &str) -> String {
    match reason {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            format!("the certificate of the {other} has expired: it needs a new one")
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            format!("the certificate of the {other} is not valid yet: compare the clocks")
        }
        // A bad signature means that the issuer has the name of a trusted CA, but another key.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => format!(
            "the certificate of the {other} is from no CA that is trusted here: compare its issuer with the file of CAs"
        ),
        CertificateError::Revoked => {
            format!("the certificate of the {other} is revoked: it needs a new one")
        }
        CertificateError::UnknownRevocationStatus => format!(
            "the certificate of the {other} is of a CA whose list of revoked certificates is missing here"
        ),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!(
                "the certificate of the {other} does not have the name it was reached by ({reason})"
            )
        }
        reason => format!("the certificate of the {other} is refused ({reason})"),
    }
}

fn alert_received(alert: AlertDescription, other: &str) -> String {
    match alert {
        AlertDescription::CertificateExpired => {
            format!("the {other} refused the certificate shown to it: it has expired")
        }
        // A decryption error means that the issuer has the name of a trusted CA, but another key.
        AlertDescription::UnknownCA | AlertDescription::DecryptError => format!(
            "the {other} refused the certificate shown to it: it is from no CA that the {other} trusts"
        ),
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateUnknown
        | AlertDescription::AccessDenied
        | AlertDescription::CertificateRequired => {
            let name = alert_name(alert);
            format!("the {other} refused the certificate shown to it ({name})")
        }
        alert => format!("the {other} ended the handshake ({})", alert_name(alert)),
    }
}

/// The name of an alert in words, as in RFC 8446: `certificate revoked`.
fn alert_name(alert: AlertDescription) -> String {
    let mut name = String::new();
    for letter in format!("{alert:?}").chars() {
        if letter.is_uppercase() && name.ends_with(char::is_lowercase) {
            name.push(' ');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alerts_are_named_in_words() {
        for (alert, text) in [
            (
                AlertDescription::CertificateRevoked,
                "the server refused the certificate shown to it (certificate revoked)",
            ),
            (
                AlertDescription::NoApplicationProtocol,
                "the server ended the handshake (no application protocol)",
            ),
            (
                AlertDescription::HandshakeFailure,
                "the server ended the handshake (handshake failure)",
            ),
        ] {
            assert_eq!(alert_received(alert, "server"), text);
        }
    }
}
