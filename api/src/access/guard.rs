//! The guard that admits or refuses every request before its handler.

use std::convert::Infallible;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::SystemTime;

use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use http::{Request, Response, header};
use parking_lot::{Mutex, RwLock};
use rsm_proto::printable;
use tonic::body::Body;
use tonic::{Code, Status};
use tower::{Layer, Service};

use super::api_tokens::ApiTokens;
use super::audit::{AuditEntry, AuditSink, reason};
use super::calls;
use super::digest::{ArgumentDigest, Digesting};
use super::identity::{Caller, Peer, Proof, StatedOperator};
use super::rates::{RateKey, RateKind, RateSettings, Rates};
use super::roles_file::RoleTable;
use super::token::TokenVerifier;
use crate::calendar::timestamp;
use crate::refusal::{Reason, of_protocol, refusal};
use crate::role::{Grant, Need, Role};
use crate::traits::Subnet;

/// The number of refusals of one identity per second that get audit entries of their own: a client
/// in a loop must not push everything else out of the log.
const REFUSALS_PER_S: std::num::NonZeroU32 = std::num::NonZeroU32::MIN;

/// The number of refusals of one identity that get audit entries of their own in a burst.
const REFUSALS_AT_ONCE: std::num::NonZeroU32 = match std::num::NonZeroU32::new(20) {
    Some(number) => number,
    None => std::num::NonZeroU32::MIN,
};

/// The maximum number of identities whose refusals are counted. At this number, identities without
/// recent refusals are forgotten; if there are none, no refusal gets an audit entry of its own.
const MAX_REFUSED: usize = 4096;

/// The beginning of the paths of rsm's own services. The services of gRPC itself have statuses of
/// their own protocols.
const OUR_PACKAGE: &str = "/rsm.v1.";

/// The maximum length of a call's path in an audit entry, in bytes.
const MAX_PATH_BYTES: usize = 128;

/// The rights of clients over TCP that prove no identity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Anonymous {
    /// All rights except to secrets.
    Everything,
    /// The right to read.
    Reading,
    /// No rights.
    Nothing,
}

/// The rules of access in force.
#[derive(Debug)]
pub struct AccessPolicy {
    /// The roles of identities.
    pub roles: RoleTable,
    /// Whether a process at the Unix socket that `roles` does not list has all rights except to
    /// secrets. User 0 has all rights in any case.
    pub socket_default: bool,
    /// The verifier of bearer tokens; `None` if no tokens are configured.
    pub tokens: Option<TokenVerifier>,
    /// The tokens of the REST interface.
    pub api_tokens: ApiTokens,
    /// The rights of clients over TCP without an identity.
    pub anonymous: Anonymous,
    /// The request rate of each identity.
    pub rates: RateSettings,
}

impl AccessPolicy {
    /// Creates a policy without role and key files: the Unix socket permits everything.
    pub fn without_files(anonymous: Anonymous) -> AccessPolicy {
        AccessPolicy {
            roles: RoleTable::default(),
            socket_default: true,
            tokens: None,
            api_tokens: ApiTokens::default(),
            anonymous,
            rates: RateSettings::default(),
        }
    }
}

/// Decides on requests by a policy that may change at run time, and writes the audit log.
pub struct Gate {
    rules: RwLock<Arc<Rules>>,
    audit: Arc<dyn AuditSink>,
    /// The number of the last request with an audit entry.
    requests: AtomicU64,
    refusals: Refusals,
}

struct Rules {
    policy: AccessPolicy,
    rates: Rates,
}

struct Refusals {
    /// Counts refusals by the keys of [`rate_key`].
    limiter: DefaultKeyedRateLimiter<RateKey>,
    /// The number of refusals without an audit entry since the last one with an entry.
    unaudited: AtomicU64,
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gate").finish_non_exhaustive()
    }
}

impl Gate {
    /// Creates a gate with this policy, which sends its audit entries to `audit`.
    pub fn new(policy: AccessPolicy, audit: Arc<dyn AuditSink>) -> Gate {
        let quota = Quota::per_second(REFUSALS_PER_S).allow_burst(REFUSALS_AT_ONCE);
        Gate {
            rules: RwLock::new(Arc::new(Rules::of(policy))),
            audit,
            requests: AtomicU64::new(0),
            refusals: Refusals {
                limiter: RateLimiter::keyed(quota),
                unaudited: AtomicU64::new(0),
            },
        }
    }

    /// Replaces the policy from the next request on; rate counts restart.
    pub fn replace(&self, policy: AccessPolicy) {
        *self.rules.write() = Arc::new(Rules::of(policy));
    }

    /// The identity of a request, from its connection and the value of its `authorization` header.
    ///
    /// # Errors
    /// A proof is given and wrong. No other identity replaces it.
    pub fn identify(&self, peer: &Peer, authorization: Option<&[u8]>) -> Result<Caller, Status> {
        let rules = self.rules.read().clone();
        match authorization {
            Some(value) => rules.by_token(peer, value),
            None => Ok(rules.by_connection(peer)),
        }
    }

    /// The identity of a user whom the operator's proxy has signed on, with the roles of the user
    /// and of the groups.
    pub fn identify_user(&self, user: &str, groups: &[&str]) -> Caller {
        let rules = self.rules.read().clone();
        let grant = rules.policy.roles.user(user, groups).unwrap_or_default();
        Caller::new(user, Proof::Proxy, grant)
    }

    /// The identity behind a request of the REST interface, which also accepts the tokens in its
    /// file.
    ///
    /// # Errors
    /// No identity is proved, or a proof is given and wrong.
    pub fn identify_rest(
        &self,
        peer: &Peer,
        authorization: Option<&[u8]>,
    ) -> Result<Caller, Status> {
        let rules = self.rules.read().clone();
        let caller = match authorization {
            Some(value) => rules.by_rest_token(peer, value)?,
            None => rules.by_connection(peer),
        };
        if caller.proof == Proof::None {
            return Err(refusal(
                Reason::NoIdentity,
                "this interface needs an identity: a token of http.ufm_tokens_file, a signed token, or a client certificate",
            ));
        }
        Ok(caller)
    }

    /// Admits a request that needs the right `need`, and counts it against the identity's rate.
    ///
    /// # Errors
    /// The identity lacks the role, or exceeds its rate. The message names the call `call`.
    pub fn admit(
        &self,
        caller: &Caller,
        peer: &Peer,
        call: &str,
        need: Need,
    ) -> Result<(), Status> {
        let rules = self.rules.read().clone();
        let key = rate_key(caller, peer);
        let kind = RateKind::of(need);
        if let Some(rate) = rules.rates.exceeded(&key, kind) {
            let kind = kind.name();
            return Err(refusal(
                Reason::RateExceeded,
                format!(
                    "{} sends more than {rate} requests a second: wait, or raise api.{kind}_per_s",
                    caller.name
                ),
            ));
        }
        if caller.grant.satisfies(need) {
            return Ok(());
        }
        Err(lacking(caller, call, need))
    }

    /// Writes the audit entry of a refused request, unless the identity has had too many refusals.
    pub fn refused(&self, caller: Option<&Caller>, peer: &Peer, call: &str, status: &Status) {
        let name = caller.map_or("unproved", |caller| caller.name.as_str());
        let key = match caller {
            Some(caller) => rate_key(caller, peer),
            None => RateKey::Address(address_of(peer)),
        };
        if self.refusals.limiter.len() >= MAX_REFUSED {
            self.refusals.limiter.retain_recent();
        }
        let is_audited = self.refusals.limiter.len() < MAX_REFUSED
            && self.refusals.limiter.check_key(&key).is_ok();
        if !is_audited {
            self.refusals.unaudited.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let proof = caller.map_or(Proof::None, |caller| caller.proof);
        let more_refused = self.refusals.unaudited.swap(0, Ordering::Relaxed);
        tracing::warn!(target: "rsm_api::audit", identity = name, %peer, call, more_refused, "refused: {}", printable(status.message()));
        self.audit.put(AuditEntry {
            verdict: "refused",
            reason: reason(status.message()),
            more_refused,
            ..self.entry(name, proof, peer, call)
        });
    }

    /// Creates the audit entry of a new request.
    fn entry(&self, name: &str, proof: Proof, peer: &Peer, call: &str) -> AuditEntry {
        let mut end = call.len().min(MAX_PATH_BYTES);
        while !call.is_char_boundary(end) {
            end -= 1;
        }
        AuditEntry {
            time: now(),
            request: self.requests.fetch_add(1, Ordering::Relaxed) + 1,
            identity: name.to_owned(),
            proof: proof.name(),
            peer: peer.to_string(),
            call: call[..end].trim_start_matches('/').to_owned(),
            digest: String::new(),
            verdict: "begun",
            reason: String::new(),
            generation_before: 0,
            generation_after: None,
            more_refused: 0,
        }
    }

    /// Follows a request that may change something until it ends; see [`Followed`].
    pub fn follow(
        self: &Arc<Gate>,
        caller: &Caller,
        peer: &Peer,
        call: &str,
        subnet: Arc<dyn Subnet>,
    ) -> Followed {
        let mut entry = self.entry(&caller.name, caller.proof, peer, call);
        entry.generation_before = subnet.generation();
        Followed {
            gate: self.clone(),
            subnet,
            under_way: Mutex::new(Some(UnderWay {
                entry,
                is_recorded: false,
            })),
        }
    }
}

fn now() -> String {
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// The user of a local process, or the IP address of a client.
fn address_of(peer: &Peer) -> String {
    match peer {
        Peer::Unix { uid, .. } => format!("uid:{uid}"),
        Peer::Tcp { address } | Peer::Tls { address, .. } => address.ip().to_string(),
        Peer::Unknown => "unknown".to_owned(),
    }
}

/// The key by which requests are counted: the identity, or [`address_of`] if no identity is proved.
fn rate_key(caller: &Caller, peer: &Peer) -> RateKey {
    match caller.proof {
        Proof::None => RateKey::Address(address_of(peer)),
        proof => RateKey::Identity(format!("{} {}", proof.name(), caller.name)),
    }
}

/// The refusal of a call for lack of a role.
fn lacking(caller: &Caller, call: &str, need: Need) -> Status {
    let name = call.rsplit('/').next().unwrap_or(call);
    let roles: Vec<&str> = need.roles().iter().map(|role| role.name()).collect();
    let roles = roles.join(" or ");
    if caller.proof == Proof::None {
        let text = format!(
            "{name} needs an identity with the role {roles}: use the Unix socket, or a client certificate or token with that role"
        );
        return refusal(Reason::NoIdentity, text);
    }
    refusal(
        Reason::RoleLacking,
        format!(
            "{} has {}, and {name} needs {roles}: give it the role in the file api.roles_file",
            caller.name, caller.grant
        ),
    )
}

impl Rules {
    fn of(policy: AccessPolicy) -> Rules {
        Rules {
            rates: Rates::new(policy.rates),
            policy,
        }
    }

    /// The identity that the connection proves; `anonymous` if it proves none.
    fn by_connection(&self, peer: &Peer) -> Caller {
        match peer {
            Peer::Unix { uid: 0, .. } => Caller::new("uid:0", Proof::UnixPeer, Grant::everything()),
            Peer::Unix { uid, gids, .. } => {
                let roles = &self.policy.roles;
                let granted = roles.unix(*uid, gids.as_deref().unwrap_or_default());
                // The line of an unknown group may grant less than the default.
                let may_be_listed = gids.is_none() && roles.names_gids();
                let default = match self.policy.socket_default && !may_be_listed {
                    true => all_but_secrets(),
                    false => Grant::NONE,
                };
                let grant = granted.unwrap_or(default);
                Caller::new(&format!("uid:{uid}"), Proof::UnixPeer, grant)
            }
            Peer::Tls {
                certificate: Some(certificate),
                ..
            } => {
                let mut grant = self.anonymous();
                if let Some(granted) = self.policy.roles.certificate(certificate) {
                    grant.add(&granted);
                }
                Caller::new(certificate.name(), Proof::Certificate, grant)
            }
            Peer::Tcp { .. } | Peer::Tls { .. } | Peer::Unknown => {
                Caller::new("anonymous", Proof::None, self.anonymous())
            }
        }
    }

    /// The identity of a token in a header of the REST interface: a token of its file, otherwise a
    /// signed token.
    fn by_rest_token(&self, peer: &Peer, value: &[u8]) -> Result<Caller, Status> {
        if !peer.is_private() {
            // The refusal of the token states its reason.
            return self.by_token(peer, value);
        }
        let now = SystemTime::UNIX_EPOCH
            .elapsed()
            .unwrap_or_default()
            .as_secs();
        let found = self.policy.api_tokens.find(value, now);
        match found.map_err(|text| refusal(Reason::InvalidProof, text))? {
            Some((name, grant)) => Ok(Caller::new(name, Proof::ApiToken, grant.clone())),
            None if self.policy.tokens.is_some() => self.by_token(peer, value),
            None => Err(refusal(
                Reason::InvalidProof,
                "no token of http.ufm_tokens_file is the one in the header authorization",
            )),
        }
    }

    /// The identity of a signed token in a header `authorization`.
    fn by_token(&self, peer: &Peer, value: &[u8]) -> Result<Caller, Status> {
        let refuse = |text: String| Err(refusal(Reason::InvalidProof, text));
        if !peer.is_private() {
            return refuse(
                "a token came over TCP without TLS, where others can read it: it is refused, and should be replaced"
                    .to_owned(),
            );
        }
        let text = std::str::from_utf8(value).ok();
        let token = text.and_then(|text| {
            let (scheme, token) = text.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
        });
        let Some(token) = token else {
            return refuse("authorization: expected `Bearer TOKEN`".to_owned());
        };
        let Some(verifier) = &self.policy.tokens else {
            return refuse(
                "a token came, and this server checks none: set api.jwks_file".to_owned(),
            );
        };
        let identity = match verifier.verify(token) {
            Ok(identity) => identity,
            Err(error) => return refuse(error.to_string()),
        };
        let grant = self.policy.roles.token(&identity.roles);
        let grant = grant.unwrap_or_default();
        Ok(Caller::new(&identity.subject, Proof::Token, grant))
    }

    fn anonymous(&self) -> Grant {
        match self.policy.anonymous {
            Anonymous::Everything => all_but_secrets(),
            Anonymous::Reading => Grant::of(&[Role::Read]),
            Anonymous::Nothing => Grant::NONE,
        }
    }
}

fn all_but_secrets() -> Grant {
    Grant::of(&[Role::Read, Role::Operate, Role::Admin])
}

/// A request under way that may change something. The audit log records its beginning and its end;
/// a request that is dropped before its end counts as cancelled.
pub struct Followed {
    gate: Arc<Gate>,
    subnet: Arc<dyn Subnet>,
    /// The request; `None` after its end.
    under_way: Mutex<Option<UnderWay>>,
}

struct UnderWay {
    entry: AuditEntry,
    /// Whether the audit log has the beginning of the request.
    is_recorded: bool,
}

impl Followed {
    /// Records that the message of the request has been read; `digest` is its SHA-256 in
    /// hexadecimal.
    pub fn begun(&self, digest: String) {
        let mut under_way = self.under_way.lock();
        if let Some(under_way) = under_way.as_mut() {
            under_way.entry.digest = digest;
            under_way.is_recorded = true;
            self.gate.audit.put(under_way.entry.clone());
        }
    }

    /// Records the end of the request: the effect beyond the requested one (often empty), or the
    /// reason for the failure.
    pub fn ended(&self, outcome: Result<&str, &str>) {
        match outcome {
            Ok(effect) => self.end("done", effect),
            Err(failure) => self.end("failed", failure),
        }
    }

    fn end(&self, verdict: &'static str, why: &str) {
        let Some(UnderWay { entry, is_recorded }) = self.under_way.lock().take() else {
            return;
        };
        // A stream may end before its last message: `begun` was not called, and there is no digest.
        if !is_recorded {
            self.gate.audit.put(entry.clone());
        }
        let entry = AuditEntry {
            time: now(),
            verdict,
            reason: reason(why),
            generation_after: Some(self.subnet.generation()),
            ..entry
        };
        tracing::info!(
            target: "rsm_api::audit",
            identity = entry.identity,
            peer = entry.peer,
            digest = entry.digest,
            "{} {verdict} {}",
            entry.call,
            printable(why)
        );
        self.gate.audit.put(entry);
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.end("cancelled", "the client left before the end");
    }
}

/// Puts a [`Guard`] before the services of a listener.
#[derive(Clone)]
pub(crate) struct GuardLayer {
    pub(crate) gate: Arc<Gate>,
    pub(crate) subnet: Arc<dyn Subnet>,
    /// The path of the Unix socket, which refusals suggest to clients that may only read.
    pub(crate) socket: Option<PathBuf>,
}

impl<S> Layer<S> for GuardLayer {
    type Service = Guard<S>;

    fn layer(&self, inner: S) -> Guard<S> {
        Guard {
            inner,
            layer: self.clone(),
        }
    }
}

/// Admits or refuses each request before `inner` receives it.
#[derive(Clone)]
pub(crate) struct Guard<S> {
    inner: S,
    layer: GuardLayer,
}

impl GuardLayer {
    /// Returns the identity and the need of an admitted request, or the refusal.
    fn decide(&self, request: &Request<Body>, peer: &Peer) -> Result<(Caller, Need), Status> {
        let path = request.uri().path();
        let authorization = request.headers().get(header::AUTHORIZATION);
        let authorization = authorization.map(http::HeaderValue::as_bytes);
        let caller = match self.gate.identify(peer, authorization) {
            Ok(caller) => caller,
            Err(status) => {
                self.gate.refused(None, peer, path, &status);
                return Err(status);
            }
        };
        let admitted = match calls::need(path) {
            Some(need) => (self.gate.admit(&caller, peer, path, need)).map(|()| need),
            None => Err(refusal(
                Reason::NoSuchCall,
                format!(
                    "{} is no call of this server: it may be older or newer than the client",
                    path.escape_debug()
                ),
            )),
        };
        match admitted {
            Ok(need) => Ok((caller, need)),
            Err(status) => {
                let status = self.with_advice(&caller, path, status);
                self.gate.refused(Some(&caller), peer, path, &status);
                Err(status)
            }
        }
    }

    /// Replaces the refusal of a client that may only read by one that says how to get more rights.
    fn with_advice(&self, caller: &Caller, path: &str, status: Status) -> Status {
        let may_read = caller.proof == Proof::None && caller.grant.satisfies(Need::Read);
        if !may_read || status.code() != Code::Unauthenticated {
            return status;
        }
        let way = match &self.socket {
            Some(path) => format!("use `--server unix:{}`", path.display()),
            None => "start the server with a Unix socket".to_owned(),
        };
        let method = path.rsplit('/').next().unwrap_or(path);
        refusal(
            Reason::RoleLacking,
            format!(
                "{method} acts on the fabric, and this TCP address serves reading only without an identity: \
             {way}, show a client certificate or a token, or start the server with --insecure-admin"
            ),
        )
    }
}

/// The response, with ErrorInfo if it is a refusal without one by a service of rsm: the protocol
/// layer makes such refusals of messages that it cannot read.
fn with_error_info(response: Response<Body>, is_ours: bool) -> Response<Body> {
    let status = match is_ours {
        true => Status::from_header_map(response.headers()),
        false => None,
    };
    let refused = status.filter(|status| status.code() != Code::Ok);
    match refused.as_ref().and_then(of_protocol) {
        Some(refusal) => refusal.into_http(),
        None => response,
    }
}

impl<S> Service<Request<Body>> for Guard<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let peer = request.extensions().get::<Peer>();
        let peer = peer.cloned().unwrap_or(Peer::Unknown);
        let (caller, need) = match self.layer.decide(&request, &peer) {
            Ok(decided) => decided,
            Err(status) => return Box::pin(async move { Ok(status.into_http()) }),
        };
        // Only the original was polled; the clone is ready only after its own `poll_ready`.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let path = request.uri().path().to_owned();
        let followed = need.changes().then(|| {
            let subnet = self.layer.subnet.clone();
            Arc::new(self.layer.gate.follow(&caller, &peer, &path, subnet))
        });
        if let Some(operator) = StatedOperator::of(request.headers()) {
            request.extensions_mut().insert(operator);
        }
        request.extensions_mut().insert(Arc::new(caller));
        let is_ours = path.starts_with(OUR_PACKAGE);
        let Some(followed) = followed else {
            let response = inner.call(request);
            return Box::pin(async move { Ok(with_error_info(response.await?, is_ours)) });
        };
        let request = request.map(|body| {
            let followed = Arc::downgrade(&followed);
            let record_begin = move |digest: ArgumentDigest| {
                if let Some(followed) = followed.upgrade() {
                    followed.begun(digest.hex());
                }
            };
            Body::new(Digesting::new(body, record_begin))
        });
        Box::pin(async move {
            let response = with_error_info(inner.call(request).await?, is_ours);
            let status = Status::from_header_map(response.headers());
            let failure = status.filter(|status| status.code() != Code::Ok);
            followed.ended(match &failure {
                None => Ok(""),
                Some(status) => Err(status.message()),
            });
            Ok(response)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rights of user 1001 with these groups, under a file of roles.
    fn rights(roles: &str, gids: Option<&[u32]>) -> String {
        let policy = AccessPolicy {
            roles: RoleTable::parse(roles).unwrap(),
            ..AccessPolicy::without_files(Anonymous::Nothing)
        };
        let gate = Gate::new(policy, Arc::new(crate::access::NoAudit));
        let peer = Peer::Unix {
            uid: 1001,
            gids: gids.map(Arc::from),
            pid: 7,
        };
        gate.identify(&peer, None).unwrap().grant.to_string()
    }

    #[test]
    fn unknown_groups_give_a_process_no_more_than_its_user_has() {
        let limited = "gid 2000 read\n";
        assert_eq!(rights(limited, Some(&[100, 2000])), "read");
        assert_eq!(rights(limited, Some(&[100])), "read operate admin");
        assert_eq!(rights(limited, None), "no role");
        let with_user = "gid 2000 read\nuid 1001 operate\n";
        assert_eq!(rights(with_user, None), "operate");
        // No line could limit a group.
        assert_eq!(rights("uid 1002 read\n", None), "read operate admin");
    }
}
