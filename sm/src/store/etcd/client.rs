//! Calls of etcd's API: endpoints in turn, TLS, user and password.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use rsm_proto::etcd::auth_client::AuthClient;
use rsm_proto::etcd::kv_client::KvClient;
use rsm_proto::etcd::{
    AuthenticateRequest, CompactionRequest, KeyValue, RangeRequest, TxnRequest, TxnResponse,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tonic::metadata::AsciiMetadataValue;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Code, Request, Status};
use tower::service_fn;

use crate::store::StoreError;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(1);

/// The largest answer that is read: [`RANGE_KEYS`] of the largest pages.
const ANSWER_MAX: usize = 160 << 20;

/// Keys that one request reads.
const RANGE_KEYS: i64 = 128;

/// Where etcd is, and how this manager shows itself to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EtcdOptions {
    /// Endpoints, `http://host:port` or `https://host:port`, tried in this order.
    pub endpoints: Vec<String>,
    /// The prefix of all keys: `/rsm` and the subnet prefix, without a slash at its end.
    pub prefix: String,
    /// Files for `https`.
    pub tls: TlsFiles,
    /// User and password, where etcd asks for them.
    pub user: Option<(String, String)>,
}

/// Files for TLS, all PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificates of the authorities that sign etcd's certificate.
    pub ca: Option<PathBuf>,
    /// This manager's certificate.
    pub certificate: Option<PathBuf>,
    /// Its private key.
    pub key: Option<PathBuf>,
}

/// Keys as they were at one revision.
#[derive(Default)]
pub(super) struct Ranged {
    /// The keys that were asked for.
    pub(super) pairs: Vec<KeyValue>,
    /// The revision.
    pub(super) revision: i64,
    /// How many keys the range has, whether or not they were asked for: etcd counts before it
    /// compares the revisions of keys.
    pub(super) count: u64,
}

/// A connection to one of the endpoints.
pub(super) struct Client {
    endpoints: Vec<Target>,
    /// The endpoint of `channel`, or the next one to try.
    present: usize,
    channel: Option<Channel>,
    user: Option<(String, String)>,
    token: Option<AsciiMetadataValue>,
    named: String,
}

struct Target {
    endpoint: Endpoint,
    host: String,
    port: u16,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

/// A TCP or TLS stream.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Client {
    /// A client that connects with its first call.
    ///
    /// # Errors
    /// [`StoreError::Setting`]: an endpoint or a file cannot be used.
    pub(super) fn new(options: &EtcdOptions) -> Result<Client, StoreError> {
        if options.endpoints.is_empty() {
            return Err(setting("store.endpoints names no endpoint"));
        }
        let tls = options
            .endpoints
            .iter()
            .any(|endpoint| endpoint.starts_with("https:"));
        let tls = tls.then(|| connector(&options.tls)).transpose()?;
        let targets = options.endpoints.iter();
        let endpoints = targets
            .map(|endpoint| Target::new(endpoint, tls.as_ref()))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Client {
            endpoints,
            present: 0,
            channel: None,
            user: options.user.clone(),
            token: None,
            named: options.endpoints.join(", "),
        })
    }

    /// All keys from `from` up to, without, `end` that changed at the revision `since` or later;
    /// with `since` 0 all keys.
    ///
    /// # Errors
    /// No endpoint answers within `within` a request, or etcd refuses this manager.
    pub(super) async fn range(
        &mut self,
        from: &[u8],
        end: &[u8],
        since: i64,
        within: Duration,
    ) -> Result<Ranged, StoreError> {
        let mut ranged = Ranged::default();
        let mut key = from.to_vec();
        loop {
            let is_first = ranged.revision == 0;
            let request = RangeRequest {
                key,
                range_end: end.to_vec(),
                limit: RANGE_KEYS,
                revision: ranged.revision,
                min_mod_revision: since,
                ..RangeRequest::default()
            };
            let answer = self
                .call(
                    within,
                    async |mut kv, request| kv.range(request).await,
                    request,
                )
                .await?;
            if is_first {
                ranged.revision = answer.header.map_or(0, |header| header.revision);
                ranged.count = u64::try_from(answer.count).unwrap_or(0);
            }
            ranged.pairs.extend(answer.kvs);
            let Some(last) = ranged.pairs.last().filter(|_| answer.more) else {
                return Ok(ranged);
            };
            // The smallest key after the last one.
            key = [&last.key[..], &[0]].concat();
        }
    }

    /// All keys from `from` up to, without, `end`, at `revision` and without their values.
    ///
    /// # Errors
    /// As [`Client::range`].
    pub(super) async fn names(
        &mut self,
        from: &[u8],
        end: &[u8],
        revision: i64,
        within: Duration,
    ) -> Result<Vec<KeyValue>, StoreError> {
        let request = RangeRequest {
            key: from.to_vec(),
            range_end: end.to_vec(),
            revision,
            keys_only: true,
            ..RangeRequest::default()
        };
        let send = async |mut kv: KvClient<Channel>, request| kv.range(request).await;
        Ok(self.call(within, send, request).await?.kvs)
    }

    /// Makes a transaction.
    ///
    /// # Errors
    /// As [`Client::range`]; the transaction may have been made all the same.
    pub(super) async fn txn(
        &mut self,
        request: TxnRequest,
        within: Duration,
    ) -> Result<TxnResponse, StoreError> {
        self.call(
            within,
            async |mut kv, request| kv.txn(request).await,
            request,
        )
        .await
    }

    /// Lets etcd drop what was replaced before `revision`.
    ///
    /// # Errors
    /// As [`Client::range`].
    pub(super) async fn compact(
        &mut self,
        revision: i64,
        within: Duration,
    ) -> Result<(), StoreError> {
        let request = CompactionRequest {
            revision,
            physical: false,
        };
        let done = async |mut kv: KvClient<Channel>, request| match kv.compact(request).await {
            // Another client has compacted as far already.
            Err(status) if status.code() == Code::OutOfRange => Ok(tonic::Response::new(())),
            answer => answer.map(|_| tonic::Response::new(())),
        };
        self.call(within, done, request).await
    }

    /// Calls the present endpoint, and the others in turn if it does not answer.
    async fn call<Q: Clone, A>(
        &mut self,
        within: Duration,
        send: impl AsyncFn(KvClient<Channel>, Request<Q>) -> Result<tonic::Response<A>, Status>,
        question: Q,
    ) -> Result<A, StoreError> {
        let mut reason = String::new();
        let mut renewed = false;
        let mut tries = 0;
        while tries < self.endpoints.len() {
            let channel = match self.connected(within).await {
                Ok(channel) => channel,
                Err(Failure::Refused(reason)) => return Err(self.refused(reason)),
                Err(Failure::Silent(why)) => {
                    reason = why;
                    tries += 1;
                    self.leave();
                    continue;
                }
            };
            let kv = KvClient::new(channel).max_decoding_message_size(ANSWER_MAX);
            let mut request = Request::new(question.clone());
            if let Some(token) = &self.token {
                request.metadata_mut().insert("token", token.clone());
            }
            let status = match timeout(within, send(kv, request)).await {
                Ok(Ok(answer)) => return Ok(answer.into_inner()),
                Ok(Err(status)) => status,
                Err(_) => Status::deadline_exceeded(format!("no answer within {within:?}")),
            };
            match status.code() {
                // A token ends with etcd's restart, and after some minutes.
                Code::Unauthenticated if self.user.is_some() && !renewed => {
                    renewed = true;
                    self.token = None;
                }
                Code::Unauthenticated | Code::PermissionDenied | Code::InvalidArgument => {
                    return Err(self.refused(status.message().to_owned()));
                }
                _ => {
                    reason = self.told(status.message());
                    tries += 1;
                    self.leave();
                }
            }
        }
        Err(StoreError::Unreachable {
            endpoints: self.named.clone(),
            reason,
        })
    }

    fn refused(&self, reason: String) -> StoreError {
        StoreError::Refused {
            endpoints: self.named.clone(),
            reason,
        }
    }

    /// `what` of the present endpoint.
    fn told(&self, what: &str) -> String {
        let Target { host, port, .. } = &self.endpoints[self.present];
        format!("{host}:{port}: {what}")
    }

    /// Turns to the next endpoint.
    fn leave(&mut self) {
        self.channel = None;
        self.present = (self.present + 1) % self.endpoints.len();
    }

    async fn connected(&mut self, within: Duration) -> Result<Channel, Failure> {
        let channel = match &self.channel {
            Some(channel) => channel.clone(),
            None => {
                let connected = timeout(CONNECT, self.endpoints[self.present].connect()).await;
                let connected = connected
                    .map_err(|_| self.told("no connection"))
                    .and_then(|connected| connected.map_err(|error| self.told(&chain(&error))));
                let channel = connected.map_err(Failure::Silent)?;
                self.channel = Some(channel.clone());
                channel
            }
        };
        if let (Some((name, password)), None) = (&self.user, &self.token) {
            let request = AuthenticateRequest {
                name: name.clone(),
                password: password.clone(),
            };
            let mut auth = AuthClient::new(channel.clone());
            let answer = timeout(within, auth.authenticate(request)).await;
            let answer = answer.map_err(|_| Failure::Silent(self.told("no answer")))?;
            let token = match answer {
                Ok(answer) => answer.into_inner().token,
                Err(status) if is_passing(status.code()) => {
                    return Err(Failure::Silent(self.told(status.message())));
                }
                Err(status) => return Err(Failure::Refused(status.message().to_owned())),
            };
            let token = token.parse();
            self.token =
                Some(token.map_err(|_| Failure::Refused("a token that is no text".to_owned()))?);
        }
        Ok(channel)
    }
}

/// Why there is no connection.
enum Failure {
    Silent(String),
    Refused(String),
}

fn is_passing(code: Code) -> bool {
    matches!(
        code,
        Code::Unavailable | Code::DeadlineExceeded | Code::Unknown | Code::Cancelled
    )
}

impl Target {
    fn new(endpoint: &str, tls: Option<&TlsConnector>) -> Result<Target, StoreError> {
        let wrong = || {
            setting(&format!(
                "store.endpoints: `{endpoint}` is not an endpoint: expected http://HOST:PORT or https://HOST:PORT"
            ))
        };
        let uri: Uri = endpoint.parse().map_err(|_| wrong())?;
        let host = uri.host().ok_or_else(wrong)?;
        let port = uri.port_u16().ok_or_else(wrong)?;
        let is_plain = matches!(uri.path(), "" | "/") && uri.query().is_none();
        let tls = match (uri.scheme_str(), tls) {
            (Some("http"), _) if is_plain => None,
            (Some("https"), Some(tls)) if is_plain => {
                let bare = host.trim_matches(['[', ']']).to_owned();
                Some((
                    tls.clone(),
                    ServerName::try_from(bare).map_err(|_| wrong())?,
                ))
            }
            _ => return Err(wrong()),
        };
        // The stream below does TLS, so that the channel sees a plain one.
        let plain = format!("http://{host}:{port}");
        let endpoint = Endpoint::from_shared(plain).map_err(|_| wrong())?;
        Ok(Target {
            endpoint: endpoint
                .http2_keep_alive_interval(Duration::from_secs(10))
                .keep_alive_timeout(Duration::from_secs(5)),
            host: host.trim_matches(['[', ']']).to_owned(),
            port,
            tls,
        })
    }

    async fn connect(&self) -> Result<Channel, tonic::transport::Error> {
        let (address, tls) = ((self.host.clone(), self.port), self.tls.clone());
        let connector = service_fn(move |_: Uri| {
            let (address, tls) = (address.clone(), tls.clone());
            async move {
                let tcp = TcpStream::connect(address).await?;
                tcp.set_nodelay(true)?;
                let stream: Box<dyn Stream> = match tls {
                    Some((connector, name)) => Box::new(connector.connect(name, tcp).await?),
                    None => Box::new(tcp),
                };
                Ok::<_, std::io::Error>(TokioIo::new(stream))
            }
        });
        self.endpoint.connect_with_connector(connector).await
    }
}

/// TLS with these files.
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

fn unusable(key: &str, file: &Path, error: &dyn std::error::Error) -> StoreError {
    setting(&format!(
        "{key}: {} cannot be used: {}",
        file.display(),
        chain(error)
    ))
}

fn setting(what: &str) -> StoreError {
    StoreError::Setting {
        what: what.to_owned(),
    }
}

/// An error with its causes, each named once.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(endpoints: &[&str]) -> String {
        let options = EtcdOptions {
            endpoints: endpoints.iter().map(|&endpoint| endpoint.into()).collect(),
            ..EtcdOptions::default()
        };
        Client::new(&options).err().expect("refused").to_string()
    }

    #[test]
    fn endpoints_that_are_none_are_refused_with_what_was_expected() {
        for wrong in [
            "",
            "10.0.0.1:2379",
            "http://10.0.0.1",
            "http://10.0.0.1:2379/v3",
            "ftp://10.0.0.1:2379",
            "http://10.0.0.1:99999",
        ] {
            let text = refusal(&["http://10.0.0.1:2379", wrong]);
            assert!(
                text.contains("expected http://HOST:PORT"),
                "{wrong}: {text}"
            );
        }
        assert!(refusal(&[]).contains("names no endpoint"));
        let text = refusal(&["https://10.0.0.1:2379"]);
        assert!(text.contains("store.ca_file"), "{text}");
    }
}
