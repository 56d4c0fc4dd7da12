//! The REST interface of UFM, as far as clients that manage partitions need it.
//!
//! Paths below `/ufmRest`, `/ufmRestV2` and `/ufmRestV3` are equivalent. Every request needs an
//! identity, passes the gate of gRPC (role, rate, audit log), and ends in calls of
//! [`rsm_api::Control`] and [`rsm_api::Subnet`]: the interface has no other access to the fabric.

mod body;
mod inventory;
mod jobs;
mod route;
mod show;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use axum::body::{Body, Bytes, to_bytes};
use axum::http::header::{AUTHORIZATION, HeaderValue, WWW_AUTHENTICATE};
use axum::http::{Request, StatusCode};
use rsm_api::access::{Caller, Gate, Peer, digest_of};
use rsm_api::model::{
    EmptyPartition, ExistingPartition, MemberName, PartitionAction, PartitionChange, WhenCutOff,
};
use rsm_api::{
    ActionRecorder, Control, ControlError, Outcome, PartitionRefusal, Reason, Subnet, blocking, v1,
};
use tokio::sync::Semaphore;
use tonic::{Code, Status};

use self::body::{Members, Settings};
use self::jobs::Jobs;
use self::route::{Change, Reading, Route};
use crate::limits::{MAX_UFM_BODY_BYTES, MAX_UFM_LISTS};
use crate::reply::{self, Reply, failure};

/// The prefixes of all paths.
const PREFIXES: [&str; 3] = ["/ufmRestV3", "/ufmRestV2", "/ufmRest"];

/// The settings of the interface.
#[derive(Debug, Clone)]
pub struct UfmSettings {
    /// The gate that decides on requests.
    pub gate: Arc<Gate>,
    /// Whether a partition stays when its last member leaves.
    pub keeps_empty: bool,
    /// The configuration of the subnet manager that clients check.
    pub conf: SmConf,
}

/// The configuration of the subnet manager, as far as clients check it. The interface never shows
/// keys: clients only check whether keys have their default values.
#[derive(Debug, Clone, Copy, Default)]
pub struct SmConf {
    /// The upper half of every GID.
    pub subnet_prefix: u64,
    /// Whether ports have an M_Key.
    pub has_m_key: bool,
    /// Whether each port has a different M_Key.
    pub m_key_per_port: bool,
    /// Whether the SM_Key differs from 1.
    pub has_own_sm_key: bool,
    /// Whether the SA has a key; otherwise it trusts no request.
    pub has_own_sa_key: bool,
}

/// The interface, with the parts of the subnet manager that it uses.
pub(crate) struct Ufm {
    settings: UfmSettings,
    subnet: Arc<dyn Subnet>,
    control: Arc<dyn Control>,
    actions: ActionRecorder,
    /// The permits for requests that examine all ports or members.
    lists: Arc<Semaphore>,
    jobs: Jobs,
}

/// Whether a path belongs to the interface.
pub(crate) fn is_path(path: &str) -> bool {
    below(path).is_some()
}

/// The part of a path after the prefix; `None` for a path outside the interface.
fn below(path: &str) -> Option<&str> {
    let mut rests = PREFIXES
        .iter()
        .filter_map(|prefix| path.strip_prefix(prefix));
    rests.find(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The maximum number of characters of a call in the journal.
const MAX_CALL_CHARS: usize = 128;

/// The HTTP status and the text of a refusal.
type Refused = (StatusCode, String);

/// The ports that a change cut off, in a few words for the logs. The interface has no field for
/// these ports, and its clients cannot confirm the loss in advance.
type CutOffText = String;

fn bad(text: impl Into<String>) -> Refused {
    (StatusCode::BAD_REQUEST, text.into())
}

impl Ufm {
    pub(crate) fn new(settings: UfmSettings, backend: &rsm_api::Backend) -> Ufm {
        Ufm {
            settings,
            subnet: Arc::clone(&backend.subnet),
            control: Arc::clone(&backend.control),
            actions: ActionRecorder::new(backend.actions.clone()),
            lists: Arc::new(Semaphore::new(MAX_UFM_LISTS)),
            jobs: Jobs::default(),
        }
    }

    /// Answers a request of the interface.
    pub(crate) async fn answer(&self, request: Request<Body>) -> Reply {
        let peer = request.extensions().get::<Peer>();
        let peer = peer.cloned().unwrap_or(Peer::Unknown);
        let call = format!("{} {}", request.method(), request.uri().path());
        let gate = &self.settings.gate;
        let authorization = request.headers().get(AUTHORIZATION);
        let caller = match gate.identify_rest(&peer, authorization.map(HeaderValue::as_bytes)) {
            Ok(caller) => caller,
            Err(status) => {
                gate.refused(None, &peer, &call, &status);
                return refusal(&status);
            }
        };
        let path = below(request.uri().path()).unwrap_or_default();
        let query = request.uri().query().unwrap_or_default();
        let route = match Route::of(request.method(), path, query) {
            Ok(route) => route,
            Err((code, text)) => {
                gate.refused(
                    Some(&caller),
                    &peer,
                    &call,
                    &rsm_api::refusal(Reason::NoSuchCall, &text),
                );
                return failure(code, &text);
            }
        };
        if let Err(status) = gate.admit(&caller, &peer, &call, route.need()) {
            gate.refused(Some(&caller), &peer, &call, &status);
            return refusal(&status);
        }
        match route {
            Route::Read(reading) => self.read(&caller, reading).await,
            Route::Change(change) => {
                let made = self.make_change(&caller, &peer, &call, change, request.into_body());
                match made.await {
                    Ok(reply) => reply,
                    Err((code, text)) => failure(code, &text),
                }
            }
        }
    }

    /// Makes a change, and answers with a job if UFM has jobs for such changes, else with an empty
    /// object.
    async fn make_change(
        &self,
        caller: &Caller,
        peer: &Peer,
        call: &str,
        change: Change,
        body: Body,
    ) -> Result<Reply, Refused> {
        let body = to_bytes(body, MAX_UFM_BODY_BYTES).await;
        let body = body.map_err(|_too_large| {
            let text =
                format!("a body of more than {MAX_UFM_BODY_BYTES} bytes: send several requests");
            (StatusCode::PAYLOAD_TOO_LARGE, text)
        })?;
        let adds_hosts = matches!(change, Change::AddHosts);
        self.change(caller, peer, call, change, body.clone())
            .await?;
        if !adds_hosts {
            return Ok(reply::json(&serde_json::Map::new()));
        }
        let (p_key, hosts, _) = body::hosts(&body)?;
        Ok(self.jobs.completed(p_key, hosts.len(), &caller.name))
    }

    async fn read(&self, caller: &Caller, reading: Reading) -> Reply {
        match reading {
            Reading::Version => reply::json(&show::version()),
            Reading::Conf => reply::json(&show::conf(&self.settings.conf)),
            Reading::Ports(filter) => {
                let subnet = Arc::clone(&self.subnet);
                self.list(move || show::ports(&*subnet, &filter)).await
            }
            Reading::Links(of) => {
                let subnet = Arc::clone(&self.subnet);
                self.list(move || Ok(inventory::links(&*subnet, of.as_deref())))
                    .await
            }
            Reading::Systems(kind) => {
                let subnet = Arc::clone(&self.subnet);
                self.list(move || Ok(inventory::systems(&*subnet, kind)))
                    .await
            }
            Reading::UnhealthyPorts => {
                let subnet = Arc::clone(&self.subnet);
                self.list(move || Ok(inventory::unhealthy_ports(&*subnet)))
                    .await
            }
            Reading::Events => {
                let subnet = Arc::clone(&self.subnet);
                self.list(move || Ok(inventory::events(&*subnet))).await
            }
            Reading::Jobs(of) => match self.jobs.shown(&caller.grant, of) {
                Ok(jobs) => reply::json(&jobs),
                Err((code, text)) => failure(code, &text),
            },
            Reading::Pkeys { of, shown } => {
                let (subnet, grant) = (Arc::clone(&self.subnet), caller.grant.clone());
                self.list(move || show::pkeys(&*subnet, &grant, of, shown))
                    .await
            }
        }
    }

    /// Computes an answer that examines all ports or members, on a thread for blocking work. The
    /// work keeps its permit until it ends, even if the client leaves.
    async fn list(
        &self,
        make: impl FnOnce() -> Result<serde_json::Value, Refused> + Send + 'static,
    ) -> Reply {
        let Ok(place) = Arc::clone(&self.lists).acquire_owned().await else {
            return failure(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping");
        };
        match blocking::holding(place, make).await {
            Ok((_, Ok(answer))) => reply::json(&answer),
            Ok((_, Err((code, text)))) => failure(code, &text),
            Err(error) => failure(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        }
    }

    /// Carries out a change, and records it in the audit log and the journal.
    async fn change(
        &self,
        caller: &Caller,
        peer: &Peer,
        call: &str,
        change: Change,
        body: Bytes,
    ) -> Result<CutOffText, Refused> {
        let followed = self
            .settings
            .gate
            .follow(caller, peer, call, Arc::clone(&self.subnet));
        followed.begun(digest_of(&body));
        let operator = format!("{} at {peer}", caller.name);
        let shown: String = call.chars().take(MAX_CALL_CHARS).collect();
        let mut action = self.actions.begin_of(operator, "ufm-rest", shown);
        let outcome = self.carry_out(caller, change, &body).await;
        let ended = outcome.as_ref().map(String::as_str);
        let ended = ended.map_err(|(_, text)| text.as_str());
        followed.ended(ended);
        action.add(ended.unwrap_or_default());
        action.close(Outcome::of(&ended));
        outcome
    }

    async fn carry_out(
        &self,
        caller: &Caller,
        change: Change,
        body: &[u8],
    ) -> Result<CutOffText, Refused> {
        let empty = match self.settings.keeps_empty {
            true => EmptyPartition::Keep,
            false => EmptyPartition::Delete,
        };
        match change {
            Change::Add | Change::Replace => {
                let (p_key, members, settings) = body::membership(body)?;
                let wanted = members.wanted_members()?;
                let create = PartitionAction::Create {
                    settings: settings.of_new(p_key)?,
                    members: wanted.clone(),
                    existing: ExistingPartition::Extend,
                };
                if matches!(change, Change::Replace) {
                    let replace = PartitionAction::Replace(wanted, empty);
                    match self.ask(caller, p_key, replace).await {
                        Err((StatusCode::NOT_FOUND, _)) => {}
                        answered => return answered,
                    }
                }
                self.ask(caller, p_key, create).await
            }
            Change::AddEmpty => {
                let (p_key, _, settings) = body::membership(body)?;
                let action = PartitionAction::Create {
                    settings: settings.of_new(p_key)?,
                    members: Vec::new(),
                    existing: ExistingPartition::Refuse,
                };
                let made = self.ask(caller, p_key, action).await;
                // Clients look for this status, and for the word `exist` in the text.
                made.map_err(|(code, text)| match self.partition(p_key) {
                    Some(_) if code == StatusCode::CONFLICT => bad(text),
                    _ => (code, text),
                })
            }
            Change::AddHosts => {
                let (p_key, hosts, settings) = body::hosts(body)?;
                let action = PartitionAction::Create {
                    settings: settings.of_new(p_key)?,
                    members: hosts,
                    existing: ExistingPartition::Extend,
                };
                self.ask(caller, p_key, action).await
            }
            Change::RemoveGuids => {
                let (p_key, members, _) = body::membership(body)?;
                self.remove(caller, p_key, members.names()?, empty).await
            }
            Change::RemoveGuidsOf(p_key, guids) => {
                let names = Members::of_list(&guids).names()?;
                self.remove(caller, p_key, names, empty).await
            }
            Change::RemoveHostsOf(p_key, hosts) => {
                let hosts = body::host_names(&hosts)?;
                self.remove(caller, p_key, hosts, empty).await
            }
            Change::Delete(p_key) => self.ask(caller, p_key, PartitionAction::Delete).await,
            Change::Qos => {
                let (p_key, settings) = body::qos(body)?;
                let action = PartitionAction::Configure(self.with_qos(p_key, &settings)?);
                self.ask(caller, p_key, action).await
            }
        }
    }

    /// Removes members. If all members are named by GUID, a partition that does not exist is no
    /// error: a partition is deleted with its last member, and clients repeat requests.
    async fn remove(
        &self,
        caller: &Caller,
        p_key: u16,
        names: Vec<MemberName>,
        empty: EmptyPartition,
    ) -> Result<CutOffText, Refused> {
        if names.is_empty() {
            return Err(bad("guids: expected at least one"));
        }
        let by_guid = names.iter().all(|name| matches!(name, MemberName::Guid(_)));
        let action = PartitionAction::Remove(names, empty);
        match self.ask(caller, p_key, action).await {
            Err((StatusCode::NOT_FOUND, _)) if by_guid => Ok(CutOffText::new()),
            answered => answered,
        }
    }

    /// The settings of a partition with another quality of service.
    fn with_qos(
        &self,
        p_key: u16,
        qos: &Settings,
    ) -> Result<rsm_api::model::PartitionSettings, Refused> {
        let found = self.partition(p_key);
        let found = found.ok_or_else(|| {
            let text = format!("no partition has the P_Key {p_key:#x}");
            (StatusCode::NOT_FOUND, text)
        })?;
        qos.of_existing(&found)
    }

    /// The partition with this P_Key; `None` if it does not exist.
    fn partition(&self, p_key: u16) -> Option<v1::Partition> {
        let before = p_key.checked_sub(1);
        let found = self.subnet.partitions(before, 1).items.into_iter().next();
        let found = found.filter(|found| found.key == p_key)?;
        Some(found.message)
    }

    async fn ask(
        &self,
        caller: &Caller,
        p_key: u16,
        action: PartitionAction,
    ) -> Result<CutOffText, Refused> {
        if !caller.grant.changes(p_key) {
            let text = format!(
                "{} may not change the partition {p_key:#x}: it has {}",
                caller.name, caller.grant
            );
            return Err((StatusCode::FORBIDDEN, text));
        }
        let change = PartitionChange {
            p_key,
            action,
            by: caller.name.clone(),
            grant: caller.grant.clone(),
            cut_off: WhenCutOff::Accept,
        };
        let changed = self.control.change_partition(change).await;
        changed
            .map(|changed| changed.cut_off_in_words())
            .map_err(|error| (status_of(&error), error.to_string()))
    }
}

/// The status that a UFM client expects.
fn status_of(error: &ControlError) -> StatusCode {
    match error {
        ControlError::Lookup(_) => StatusCode::NOT_FOUND,
        ControlError::Standby { .. }
        | ControlError::NotAttached { .. }
        | ControlError::Unwritten { .. }
        | ControlError::Stopping => StatusCode::SERVICE_UNAVAILABLE,
        ControlError::Busy => StatusCode::TOO_MANY_REQUESTS,
        ControlError::Partition { refusal, .. } => match refusal {
            PartitionRefusal::NotFound => StatusCode::NOT_FOUND,
            PartitionRefusal::Exists | PartitionRefusal::Refused => StatusCode::CONFLICT,
            PartitionRefusal::Invalid | PartitionRefusal::Full => StatusCode::BAD_REQUEST,
            PartitionRefusal::NotAllowed => StatusCode::FORBIDDEN,
        },
        ControlError::UnknownEngine { .. }
        | ControlError::OfAnother { .. }
        | ControlError::Refused { .. }
        | ControlError::CutOff { .. } => StatusCode::CONFLICT,
        ControlError::Failed { .. } => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// The answer for a refusal by the gate.
fn refusal(status: &Status) -> Reply {
    if status.code() != Code::Unauthenticated {
        return reply::refusal(status);
    }
    let mut reply = failure(StatusCode::UNAUTHORIZED, status.message());
    let challenge = HeaderValue::from_static("Basic realm=\"rsm\"");
    reply.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    reply
}
