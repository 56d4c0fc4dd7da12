//! Calls of etcd's API, with failover between endpoints, TLS, and user and password.

use std::future::poll_fn;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rsm_proto::etcd::auth_client::AuthClient;
use rsm_proto::etcd::kv_client::KvClient;
use rsm_proto::etcd::{
    AuthenticateRequest, CompactionRequest, KeyValue, RangeRequest, TxnRequest, TxnResponse,
};
use rsm_proto::with_causes;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{sleep_until, timeout};
use tonic::metadata::AsciiMetadataValue;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Code, Request, Status};
use tower::service_fn;

use super::tls::{ClientTls, TlsFiles, unusable};
use crate::{Deadline, StoreError};

/// Time limit of a connection attempt.
const CONNECT: Duration = Duration::from_secs(1);

/// Maximum size of an answer in bytes, enough for [`RANGE_KEYS`] of the largest pages.
const ANSWER_MAX: usize = 160 << 20;

/// Number of keys that one request reads.
const RANGE_KEYS: i64 = 128;

/// Addresses of etcd, and this manager's credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EtcdOptions {
    /// Endpoints, `http://host:port` or `https://host:port`, tried in this order.
    pub endpoints: Vec<String>,
    /// Prefix of all keys: `/rsm` and the subnet prefix, without a slash at the end.
    pub prefix: String,
    /// PEM files for `https`.
    pub tls: TlsFiles,
    /// User, and the file of the user's password; `None` if etcd requires none.
    pub user: Option<(String, PathBuf)>,
}

/// Keys of a range, all at one revision.
#[derive(Default)]
pub(super) struct Ranged {
    /// The keys that changed at the requested revision or later.
    pub(super) pairs: Vec<KeyValue>,
    /// Revision of the store at which the keys were read.
    pub(super) revision: i64,
    /// Number of keys in the range, including keys that did not change: etcd counts before it
    /// compares the revisions of keys.
    pub(super) count: u64,
}

/// Time limits of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Limits {
    /// Time after which the next endpoint is called as well, while the former ones may still
    /// answer. The first answer counts, so that a hanging member of etcd delays a call by at most
    /// this time.
    pub(super) until_next: Duration,
    /// Time limit of all endpoints together.
    pub(super) total: Duration,
}

/// Connections to all endpoints, and the index of the endpoint to ask first.
pub(super) struct Client {
    endpoints: Vec<Target>,
    /// Index of the endpoint that answered last, or of the endpoint to try next.
    current: usize,
    /// User, and the file of the user's password, which is read for each token.
    user: Option<(String, PathBuf)>,
    /// Token that etcd has issued for the user; `None` if there is none yet.
    token: Mutex<Option<AsciiMetadataValue>>,
    /// The endpoints as text, for errors.
    endpoint_list: String,
    deadline: Deadline,
}

/// An endpoint of etcd.
struct Target {
    endpoint: Endpoint,
    host: String,
    port: u16,
    /// TLS and name of the server; `None` for `http`.
    tls: Option<(Arc<ClientTls>, ServerName<'static>)>,
    /// The connection; `None` if there is none, or if a call through it failed.
    channel: Mutex<Option<Channel>>,
}

/// A call of one endpoint. Resolves to the endpoint's index and its answer.
type Attempt<'a, A> = Pin<Box<dyn Future<Output = (usize, Result<A, Failure>)> + 'a>>;

/// A TCP or TLS stream.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Client {
    /// Creates a client that connects with its first call, and whose calls end by `deadline`.
    ///
    /// # Errors
    /// [`StoreError::Setting`] if an endpoint or a file cannot be used.
    pub(super) fn new(options: &EtcdOptions, deadline: Deadline) -> Result<Client, StoreError> {
        if options.endpoints.is_empty() {
            return Err(setting("store.endpoints names no endpoint"));
        }
        let tls = options
            .endpoints
            .iter()
            .any(|endpoint| endpoint.starts_with("https:"));
        let tls = tls.then(|| ClientTls::new(&options.tls)).transpose()?;
        let tls = tls.map(Arc::new);
        if let Some((_, file)) = &options.user {
            read_password(file)?;
        }
        let targets = options.endpoints.iter();
        let endpoints = targets
            .map(|endpoint| Target::new(endpoint, tls.as_ref()))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Client {
            endpoints,
            current: 0,
            user: options.user.clone(),
            token: Mutex::default(),
            endpoint_list: options.endpoints.join(", "),
            deadline,
        })
    }

    /// Reads the keys of `from..end` that changed at revision `since` or later; all keys of the
    /// range if `since` is 0.
    ///
    /// # Errors
    /// Fails if no endpoint answers within the limits, or etcd refuses this manager.
    pub(super) async fn range(
        &mut self,
        from: &[u8],
        end: &[u8],
        since: i64,
        limits: Limits,
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
                    limits,
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

    /// Lists the keys of `from..end` at `revision`, without their values.
    ///
    /// # Errors
    /// Fails as [`Client::range`] does.
    pub(super) async fn list_keys(
        &mut self,
        from: &[u8],
        end: &[u8],
        revision: i64,
        limits: Limits,
    ) -> Result<Vec<KeyValue>, StoreError> {
        let request = RangeRequest {
            key: from.to_vec(),
            range_end: end.to_vec(),
            revision,
            keys_only: true,
            ..RangeRequest::default()
        };
        let send = async |mut kv: KvClient<Channel>, request| kv.range(request).await;
        Ok(self.call(limits, send, request).await?.kvs)
    }

    /// Runs a transaction.
    ///
    /// # Errors
    /// Fails as [`Client::range`] does. The transaction may have succeeded nevertheless.
    pub(super) async fn txn(
        &mut self,
        request: TxnRequest,
        limits: Limits,
    ) -> Result<TxnResponse, StoreError> {
        self.call(
            limits,
            async |mut kv, request| kv.txn(request).await,
            request,
        )
        .await
    }

    /// Compacts etcd: values that were replaced before `revision` are dropped.
    ///
    /// # Errors
    /// Fails as [`Client::range`] does.
    pub(super) async fn compact(
        &mut self,
        revision: i64,
        limits: Limits,
    ) -> Result<(), StoreError> {
        let request = CompactionRequest {
            revision,
            physical: false,
        };
        let send = async |mut kv: KvClient<Channel>, request| match kv.compact(request).await {
            // Another client has already compacted up to this revision.
            Err(status) if status.code() == Code::OutOfRange => Ok(tonic::Response::new(())),
            answer => answer.map(|_| tonic::Response::new(())),
        };
        self.call(limits, send, request).await
    }

    /// Calls the endpoint that answered last, and then the other endpoints in turn until one of
    /// them answers.
    ///
    /// # Errors
    /// [`StoreError::Refused`] if an endpoint refuses the call; [`StoreError::Unreachable`] if no
    /// endpoint answers within the limits.
    async fn call<Q: Clone + 'static, A: 'static>(
        &mut self,
        limits: Limits,
        send: impl AsyncFn(KvClient<Channel>, Request<Q>) -> Result<tonic::Response<A>, Status>,
        question: Q,
    ) -> Result<A, StoreError> {
        let count = self.endpoints.len();
        let order: Vec<usize> = (0..count).map(|at| (self.current + at) % count).collect();
        let mut not_called = order.iter().copied();
        let mut reason = "no answer".to_owned();
        let (begun, mut next) = (now(), now());
        let end = begun + limits.total;
        let mut attempts: Vec<Attempt<'_, A>> = Vec::new();
        let outcome = loop {
            if (attempts.is_empty() || next <= now())
                && let Some(number) = not_called.next()
            {
                let call = self.attempt(number, &send, question.clone());
                attempts.push(Box::pin(async move { (number, call.await) }));
                next = now() + limits.until_next;
            }
            if attempts.is_empty() {
                break None;
            }
            let has_more = not_called.len() > 0;
            tokio::select! {
                biased;
                (number, answer) = first_outcome(&mut attempts) => match answer {
                    Err(Failure::Silent(why)) => {
                        *self.endpoints[number].channel.lock() = None;
                        reason = why;
                    }
                    answer => break Some((number, answer)),
                },
                () = self.deadline.end_of_call(begun, end) => break None,
                () = sleep_until(next.into()), if has_more => {}
            }
        };
        let is_waiting = !attempts.is_empty();
        drop(attempts);
        match outcome {
            Some((number, answer)) => {
                // Endpoints that were asked earlier and have not answered may hang, so that their
                // connections are dropped.
                for &silent in order.iter().take_while(|&&silent| silent != number) {
                    *self.endpoints[silent].channel.lock() = None;
                }
                self.current = number;
                answer.map_err(|failure| StoreError::Refused {
                    endpoints: self.endpoint_list.clone(),
                    reason: failure.reason(),
                })
            }
            None => {
                for target in self.endpoints.iter().filter(|_| is_waiting) {
                    *target.channel.lock() = None;
                }
                self.current = (self.current + 1) % count;
                Err(StoreError::Unreachable {
                    endpoints: self.endpoint_list.clone(),
                    reason,
                })
            }
        }
    }

    /// Calls one endpoint. If etcd no longer accepts the token, gets a new token and calls again.
    async fn attempt<Q: Clone, A>(
        &self,
        number: usize,
        send: impl AsyncFn(KvClient<Channel>, Request<Q>) -> Result<tonic::Response<A>, Status>,
        question: Q,
    ) -> Result<A, Failure> {
        let target = &self.endpoints[number];
        let mut is_renewed = false;
        loop {
            let channel = self.connected(target).await?;
            let kv = KvClient::new(channel).max_decoding_message_size(ANSWER_MAX);
            let mut request = Request::new(question.clone());
            if let Some(token) = &*self.token.lock() {
                request.metadata_mut().insert("token", token.clone());
            }
            let status = match send(kv, request).await {
                Ok(answer) => return Ok(answer.into_inner()),
                Err(status) => status,
            };
            match status.code() {
                // A token is valid for some minutes, and at most until etcd restarts.
                Code::Unauthenticated if self.user.is_some() && !is_renewed => {
                    is_renewed = true;
                    *self.token.lock() = None;
                }
                Code::Unauthenticated | Code::PermissionDenied | Code::InvalidArgument => {
                    return Err(Failure::Refused(status.message().to_owned()));
                }
                _ => return Err(Failure::Silent(target.with_address(status.message()))),
            }
        }
    }

    /// Returns the connection to an endpoint. Connects if there is no connection, and requests a
    /// token for the user if there is none.
    async fn connected(&self, target: &Target) -> Result<Channel, Failure> {
        let channel = target.channel.lock().clone();
        let channel = match channel {
            Some(channel) => channel,
            None => {
                let connected = timeout(CONNECT, target.connect()).await;
                let connected = connected
                    .map_err(|_| target.with_address("no connection"))
                    .and_then(|connected| {
                        connected.map_err(|error| target.with_address(&with_causes(&error)))
                    });
                let channel = connected.map_err(Failure::Silent)?;
                *target.channel.lock() = Some(channel.clone());
                channel
            }
        };
        let has_token = self.token.lock().is_some();
        if let (Some((name, file)), false) = (&self.user, has_token) {
            let password =
                read_password(file).map_err(|error| Failure::Silent(error.to_string()))?;
            let request = AuthenticateRequest {
                name: name.clone(),
                password,
            };
            let mut auth = AuthClient::new(channel.clone());
            let token = match auth.authenticate(request).await {
                Ok(answer) => answer.into_inner().token,
                Err(status) if is_temporary(status.code()) => {
                    return Err(Failure::Silent(target.with_address(status.message())));
                }
                Err(status) => return Err(Failure::Refused(status.message().to_owned())),
            };
            let token = token.parse();
            let token =
                token.map_err(|_| Failure::Refused("a token that is no text".to_owned()))?;
            *self.token.lock() = Some(token);
        }
        Ok(channel)
    }
}

/// Waits for the first attempt that ends, and removes it from `attempts`.
async fn first_outcome<A>(attempts: &mut Vec<Attempt<'_, A>>) -> (usize, Result<A, Failure>) {
    poll_fn(|context| {
        for at in 0..attempts.len() {
            if let Poll::Ready(outcome) = attempts[at].as_mut().poll(context) {
                drop(attempts.swap_remove(at));
                return Poll::Ready(outcome);
            }
        }
        Poll::Pending
    })
    .await
}

#[expect(
    clippy::disallowed_methods,
    reason = "the client runs in real time, as etcd does"
)]
fn now() -> Instant {
    Instant::now()
}

/// Reason why an endpoint gave no answer.
enum Failure {
    /// The endpoint cannot be reached, or fails temporarily: another endpoint may answer.
    Silent(String),
    /// etcd refuses the call, as it would at every endpoint.
    Refused(String),
}

impl Failure {
    /// The reason as text.
    fn reason(self) -> String {
        let (Failure::Silent(reason) | Failure::Refused(reason)) = self;
        reason
    }
}

/// Whether a failed call may succeed later, or at another endpoint.
fn is_temporary(code: Code) -> bool {
    matches!(
        code,
        Code::Unavailable | Code::DeadlineExceeded | Code::Unknown | Code::Cancelled
    )
}

impl Target {
    /// The endpoint with this address, which is not connected yet.
    ///
    /// # Errors
    /// [`StoreError::Setting`] if `endpoint` is no address, or has a scheme without a connector.
    fn new(endpoint: &str, tls: Option<&Arc<ClientTls>>) -> Result<Target, StoreError> {
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
        // The stream below performs TLS, so that the channel uses plain HTTP.
        let plain = format!("http://{host}:{port}");
        let endpoint = Endpoint::from_shared(plain).map_err(|_| wrong())?;
        Ok(Target {
            endpoint: endpoint
                .http2_keep_alive_interval(Duration::from_secs(10))
                .keep_alive_timeout(Duration::from_secs(5)),
            host: host.trim_matches(['[', ']']).to_owned(),
            port,
            tls,
            channel: Mutex::default(),
        })
    }

    /// The text `what`, preceded by the address of this endpoint.
    fn with_address(&self, what: &str) -> String {
        format!("{}:{}: {what}", self.host, self.port)
    }

    /// Connects to the endpoint.
    async fn connect(&self) -> Result<Channel, tonic::transport::Error> {
        let (address, tls) = ((self.host.clone(), self.port), self.tls.clone());
        let connector = service_fn(move |_: Uri| {
            let (address, tls) = (address.clone(), tls.clone());
            async move {
                let tcp = TcpStream::connect(address).await?;
                tcp.set_nodelay(true)?;
                let stream: Box<dyn Stream> = match tls {
                    Some((tls, name)) => Box::new(tls.connector().connect(name, tcp).await?),
                    None => Box::new(tcp),
                };
                Ok::<_, std::io::Error>(TokioIo::new(stream))
            }
        });
        self.endpoint.connect_with_connector(connector).await
    }
}

/// Reads the file with a password, and removes line ends at its end.
///
/// # Errors
/// [`StoreError::Setting`] if the file cannot be read.
fn read_password(file: &Path) -> Result<String, StoreError> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| unusable("store.password_file", file, &error))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

/// The error about a setting, with the text `what`.
pub(super) fn setting(what: &str) -> StoreError {
    StoreError::Setting {
        what: what.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(endpoints: &[&str]) -> String {
        let options = EtcdOptions {
            endpoints: endpoints.iter().map(|&endpoint| endpoint.into()).collect(),
            ..EtcdOptions::default()
        };
        Client::new(&options, Deadline::default())
            .err()
            .expect("refused")
            .to_string()
    }

    #[test]
    fn invalid_endpoints_are_refused_with_the_expected_form() {
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
