//! TLS of the client: the files of certificates and keys, which each connection reads again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rsm_proto::with_causes;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsConnector;

use super::client::setting;
use crate::StoreError;

/// PEM files for TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificates of the authorities that sign etcd's certificate.
    pub ca: Option<PathBuf>,
    /// This manager's certificate.
    pub certificate: Option<PathBuf>,
    /// Private key of the certificate.
    pub key: Option<PathBuf>,
}

/// TLS settings that follow their files.
pub(super) struct ClientTls {
    files: TlsFiles,
    /// Connector from the last files that could be used.
    latest: Mutex<TlsConnector>,
}

impl ClientTls {
    /// Reads the files for the first time.
    ///
    /// # Errors
    /// [`StoreError::Setting`] if a file is not named or cannot be used.
    pub(super) fn new(files: &TlsFiles) -> Result<ClientTls, StoreError> {
        Ok(ClientTls {
            files: files.clone(),
            latest: Mutex::new(connector(files)?),
        })
    }

    /// Reads the files again, and returns a connector for the next connection. Files that cannot
    /// be used, as in the midst of a renewal, leave the earlier ones in force.
    pub(super) fn connector(&self) -> TlsConnector {
        let mut latest = self.latest.lock();
        match connector(&self.files) {
            Ok(renewed) => *latest = renewed,
            Err(error) => tracing::warn!("{error}: the earlier certificates and key stay in force"),
        }
        latest.clone()
    }
}

/// Builds the TLS connector from these files.
fn connector(files: &TlsFiles) -> Result<TlsConnector, StoreError> {
    let Some(ca) = &files.ca else {
        return Err(setting(
            "store.endpoints has an https endpoint: store.ca_file must name the certificates of its authority",
        ));
    };
    let mut roots = rustls::RootCertStore::empty();
    for certificate in certificates("store.ca_file", ca)? {
        let added = roots.add(certificate);
        added.map_err(|error| unusable("store.ca_file", ca, &error))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| setting(&format!("TLS cannot be used: {error}")))?
        .with_root_certificates(roots);
    let mut config = match (&files.certificate, &files.key) {
        (Some(certificate), Some(key)) => {
            let chain = certificates("store.cert_file", certificate)?;
            let private = PrivateKeyDer::from_pem_file(key)
                .map_err(|error| unusable("store.key_file", key, &error))?;
            config
                .with_client_auth_cert(chain, private)
                .map_err(|error| unusable("store.cert_file", certificate, &error))?
        }
        (None, None) => config.with_no_client_auth(),
        _ => {
            return Err(setting(
                "store.cert_file and store.key_file belong together: one of them is not set",
            ));
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Reads the certificates in `file`, which the configuration key `key` names.
fn certificates(key: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>, StoreError> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let read = read.map_err(|error| unusable(key, file, &error))?;
    if read.is_empty() {
        return Err(setting(&format!(
            "{key}: {} has no certificate",
            file.display()
        )));
    }
    Ok(read)
}

/// The error about a file that cannot be used, which the configuration key `key` names.
pub(super) fn unusable(key: &str, file: &Path, error: &dyn std::error::Error) -> StoreError {
    setting(&format!(
        "{key}: {} cannot be used: {}",
        file.display(),
        with_causes(error)
    ))
}
