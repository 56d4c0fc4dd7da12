//! Passes requests to the core, and its answers to the callers that wait for them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use rsm_api::model::{
    DrainQuestion, GivenUp, PartitionChange, PartitionChanged, PortAction, PortCommand, Selector,
    SubnetState, WhenCutOff,
};
use rsm_api::resolve::resolve_host_or_part;
use rsm_api::{BoxFuture, Control, ControlError, LookupError, v1};
use rsm_config::overlay::{Action, ChangeError};
use rsm_ids::{Guid, Lid, PortKey, PortNum};
use rsm_model::expected::Accept;
use rsm_plan::avoid::{Drained, NodeOrCable, Reason};
use rsm_routing::engine::UnknownEngine;
use rsm_routing::netlist::host_of;
use rsm_state::{ChangeEffect, Command, Convergence, Role, Ticket};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use super::api_view::api_key;
use super::published::Published;
use super::status::{given_up_parts, management_keys};
use super::unwritten::Concern;
use super::view::View;
use super::{cables, drained, isolation, overlay, port_command};

/// Maximum number of callers that wait at the same time. The operators and scripts of one site stay
/// below this number; a script in an endless loop soon reaches it. One sweep answers all waiting
/// callers.
pub const MAX_WAITING: usize = 64;

/// Maximum number of waiting callers of all tenants together. The other half of [`MAX_WAITING`] is
/// reserved for operators, who may have to disable the port of a tenant.
pub const MAX_TENANTS_WAITING: usize = MAX_WAITING / 2;

/// Maximum number of callers that wait with the identity of one tenant.
pub const MAX_TENANT_WAITING: usize = 8;

/// Sends a command to the core, or returns the reason why it cannot.
type Commands = Box<dyn Fn(Command) -> Result<(), ControlError> + Send + Sync>;

type Answer = Result<v1::Convergence, ControlError>;

/// Passes requests to the core, and its answers back to callers.
///
/// The daemon calls [`Controller::request_done`] on `Effect::Done`, after it has passed the
/// snapshot published before it to the [`View`]; [`Controller::recheck`] after every other change
/// of the view; and [`Controller::stop`] when it ends. A resweep has no time limit, because it may
/// take long in a huge fabric: a caller that gives up drops the future.
pub struct Controller {
    commands: Commands,
    view: Arc<View>,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    last: Ticket,
    callers: BTreeMap<Ticket, WaitingCaller>,
    /// Effects of partition changes, by the tickets of waiting callers.
    effects: BTreeMap<Ticket, ChangeEffect>,
    stopping: bool,
}

impl Waiting {
    /// Whether a further caller with this identity would exceed the limit of one tenant or of all
    /// tenants; `false` for callers that are no tenants.
    fn is_beyond_share(&self, tenant: Option<&str>) -> bool {
        let Some(tenant) = tenant else {
            return false;
        };
        let tenants = self
            .callers
            .values()
            .filter_map(|caller| caller.tenant.as_deref());
        let (mut all, mut own) = (0, 0);
        for one in tenants {
            all += 1;
            own += usize::from(one == tenant);
        }
        all >= MAX_TENANTS_WAITING || own >= MAX_TENANT_WAITING
    }
}

/// A caller that waits for an answer, and the hardware that must hold the result of its request.
struct WaitingCaller {
    answer: oneshot::Sender<Answer>,
    concern: Concern,
    /// The identity of the tenant; `None` for callers that are no tenants.
    tenant: Option<String>,
}

impl WaitingCaller {
    fn reply(self, answer: Answer) {
        // A caller that leaves at this moment needs no answer.
        let _ = self.answer.send(answer);
    }
}

impl Controller {
    /// Creates a controller that sends commands to the core through `events`. A full channel
    /// refuses commands; no caller waits for room.
    pub fn new<E: From<Command> + Send + 'static>(
        events: mpsc::Sender<E>,
        view: Arc<View>,
    ) -> Controller {
        Controller {
            commands: Box::new(move |command| events.try_send(command.into()).map_err(unsent)),
            view,
            waiting: Mutex::default(),
        }
    }

    /// Answers the caller of `ticket` after the pass `convergence` has carried out its request. The
    /// answer is the record of the pass, or [`ControlError::Unwritten`] if the hardware that the
    /// request concerns does not hold the result. Tickets of callers that have left are ignored.
    pub fn request_done(&self, ticket: Ticket, convergence: &Arc<Convergence>) {
        let Some(caller) = self.waiting.lock().callers.remove(&ticket) else {
            return;
        };
        let shown = self.view.convergence(convergence);
        let shown = shown.ok_or_else(|| ControlError::Failed {
            reason: "its record is no longer kept".to_owned(),
        });
        let published = self.view.published();
        let held = caller.concern.check(convergence, published.fabric());
        caller.reply(held.and(shown));
    }

    /// Refuses the request of `ticket`, which the core does not carry out, for `reason`. Tickets of
    /// callers that have left are ignored.
    pub fn request_declined(&self, ticket: Ticket, reason: String) {
        if let Some(caller) = self.waiting.lock().callers.remove(&ticket) {
            caller.reply(Err(ControlError::Refused { reason }));
        }
    }

    /// Refuses the request of `ticket`, which would cut off `ports` ports, for `reason`. Tickets of
    /// callers that have left are ignored.
    pub fn cut_off(&self, ticket: Ticket, ports: usize, reason: String) {
        if let Some(caller) = self.waiting.lock().callers.remove(&ticket) {
            let ports = ports as u64;
            let reason = format!("refused, and everything stays as it was: {reason}");
            caller.reply(Err(ControlError::CutOff { ports, reason }));
        }
    }

    /// Refuses the request of `ticket`, which would end this `order` of another operator. Tickets
    /// of callers that have left are ignored.
    pub fn of_another(&self, ticket: Ticket, order: &Drained) {
        if let Some(caller) = self.waiting.lock().callers.remove(&ticket) {
            let reason = port_command::disabled_by_another(order);
            caller.reply(Err(ControlError::OfAnother { reason }));
        }
    }

    /// Records that the core has accepted the partition change of `ticket`, with this effect.
    pub fn partition_taken(&self, ticket: Ticket, effect: ChangeEffect) {
        let mut waiting = self.waiting.lock();
        if let Some(caller) = waiting.callers.get_mut(&ticket) {
            if let Concern::PKeys(guids) = &mut caller.concern {
                guids.clone_from(&effect.concerned);
            }
            waiting.effects.insert(ticket, effect);
        }
    }

    /// Refuses the partition change of `ticket`, which the core does not make. Tickets of callers
    /// that have left are ignored.
    pub fn partition_refused(&self, ticket: Ticket, error: &ChangeError) {
        if let Some(caller) = self.waiting.lock().callers.remove(&ticket) {
            caller.reply(Err(overlay::refusal(error)));
        }
    }

    /// Refuses all waiting callers if the snapshot in force makes their requests impossible.
    pub fn recheck(&self) {
        if let Err(error) = self.check() {
            self.refuse_all(&error);
        }
    }

    /// Refuses all callers, waiting and later ones, because the subnet manager is stopping.
    pub fn stop(&self) {
        self.waiting.lock().stopping = true;
        self.refuse_all(&ControlError::Stopping);
    }

    /// Number of waiting callers.
    pub fn waiting(&self) -> usize {
        self.waiting.lock().callers.len()
    }

    fn refuse_all(&self, error: &ControlError) {
        let callers = std::mem::take(&mut self.waiting.lock().callers);
        for caller in callers.into_values() {
            caller.reply(Err(error.clone()));
        }
    }

    /// Checks that this manager may change the subnet: it is attached and does not stand by.
    fn check(&self) -> Result<(), ControlError> {
        let published = self.view.published();
        match (published.state, &published.snapshot.role) {
            (SubnetState::NotActive, _) => Err(ControlError::NotAttached {
                reason: published.reason.clone(),
            }),
            (SubnetState::Standby, Role::Standby { master }) => {
                Err(ControlError::Standby { master: master.lid })
            }
            (SubnetState::Standby, _) => Err(ControlError::Standby { master: Lid::NONE }),
            _ => Ok(()),
        }
    }

    /// Disables, in one plan, the switch ports at the cables of host ports. The text with each host
    /// port says how the host acts against the subnet. Returns the result for each host port, in
    /// any order: whether this call disabled its switch port; `false` if the switch port was
    /// disabled already.
    ///
    /// # Errors
    /// For one host port: the port belongs to no host or to this manager, or other ports would be
    /// cut off with it. For all remaining host ports: the core did not carry out the plan.
    pub async fn isolate(
        &self,
        hosts: &[(PortKey, &str)],
    ) -> Vec<(PortKey, Result<bool, ControlError>)> {
        let mut results = Vec::new();
        let mut disabled = Vec::new();
        let mut parts = BTreeMap::new();
        let now = self.view.unix_ms();
        let published = self.view.published();
        for &(host, why) in hosts {
            let target = self
                .check()
                .and_then(|()| isolation::target(&published, host, why, now));
            match target {
                Ok(Some((port, reason))) => {
                    parts.insert(NodeOrCable::Port(port), reason);
                    disabled.push(host);
                }
                Ok(None) => results.push((host, Ok(false))),
                Err(error) => results.push((host, Err(error))),
            }
        }
        if parts.is_empty() {
            return results;
        }
        let ports = parts.keys().filter_map(|part| match *part {
            NodeOrCable::Port(port) => Some(port),
            NodeOrCable::Node(_) => None,
        });
        let concern = Concern::Links(ports.collect(), PortAction::Disable);
        let caller = self.submit(concern, |ticket| Command::Drain {
            parts,
            forced: true,
            ticket,
        });
        let done = match caller {
            Ok(mut caller) => caller.answer().await.map(|_| true),
            Err(error) => Err(error),
        };
        results.extend(disabled.into_iter().map(|host| (host, done.clone())));
        results
    }

    /// Parts to drain, each with its reason.
    fn parts_to_drain(
        &self,
        request: &DrainQuestion,
    ) -> Result<BTreeMap<NodeOrCable, Reason>, ControlError> {
        self.check()?;
        let published = self.view.published();
        let since_unix_ms = self.view.unix_ms();
        let mut parts = BTreeMap::new();
        for name in &request.parts {
            let selector = name;
            for (part, name, peer) in drained::named_parts(&published, selector)? {
                if let NodeOrCable::Port(key) = part
                    && !part.is_there(published.fabric())
                {
                    let reason = cables::no_cable(&published, key, selector);
                    return Err(ControlError::Refused { reason });
                }
                let drained = Drained {
                    note: request.note.clone(),
                    forced: request.force,
                    name,
                    peer,
                    ..Drained::new(port_command::operator(&request.by), since_unix_ms)
                };
                parts.insert(part, Reason::Drained(drained));
            }
        }
        Ok(parts)
    }

    fn submit(
        &self,
        concern: Concern,
        command: impl FnOnce(Ticket) -> Command,
    ) -> Result<Caller<'_>, ControlError> {
        self.submit_for(None, concern, command)
    }

    /// Sends a command to the core for the tenant with this identity; `None` for other callers.
    /// Fails if this manager may not change the subnet, if the controller stops, or if too many
    /// callers or commands wait.
    fn submit_for(
        &self,
        tenant: Option<String>,
        concern: Concern,
        command: impl FnOnce(Ticket) -> Command,
    ) -> Result<Caller<'_>, ControlError> {
        self.check()?;
        let mut waiting = self.waiting.lock();
        if waiting.stopping {
            return Err(ControlError::Stopping);
        }
        if waiting.callers.len() >= MAX_WAITING || waiting.is_beyond_share(tenant.as_deref()) {
            return Err(ControlError::Busy);
        }
        waiting.last += 1;
        let ticket = waiting.last;
        // The lock is held, so that the ticket is entered before the core can answer it.
        (self.commands)(command(ticket))?;
        let (sender, answer) = oneshot::channel();
        let caller = WaitingCaller {
            answer: sender,
            concern,
            tenant,
        };
        waiting.callers.insert(ticket, caller);
        Ok(Caller {
            controller: self,
            ticket,
            answer,
        })
    }
}

impl Control for Controller {
    fn activity(&self) -> v1::Activity {
        v1::Activity {
            callers: u32::try_from(self.waiting()).unwrap_or(u32::MAX),
            ..self.view.activity()
        }
    }

    fn resweep(&self, full: bool) -> BoxFuture<'_, Result<v1::Convergence, ControlError>> {
        Box::pin(async move {
            let command = |ticket| Command::Resweep { full, ticket };
            self.submit(Concern::Everything, command)?.answer().await
        })
    }

    fn rewrite(&self) -> BoxFuture<'_, Result<v1::Convergence, ControlError>> {
        Box::pin(async move {
            let command = |ticket| Command::Rewrite { ticket };
            self.submit(Concern::Everything, command)?.answer().await
        })
    }

    fn accept_missing(&self, given_up: GivenUp) -> Result<v1::MissingParts, ControlError> {
        self.check()?;
        let published = self.view.published();
        let (expected, fabric) = (&published.snapshot.expected, published.fabric());
        let accepts = match &given_up {
            GivenUp::Missing => vec![Accept::Missing],
            GivenUp::Exchanged => vec![Accept::Exchanged],
            GivenUp::Named(name) => missing_at(&published, name)?,
        };
        // The published snapshot provides the counts. The core applies the command to its own
        // state when it arrives.
        let counts = expected.given_up(&accepts, fabric);
        let parts = given_up_parts(&counts);
        if parts.total() == 0 {
            let is_exchanged = |accept: &Accept| match *accept {
                Accept::Node(node) => expected.has_exchanged_at(node, fabric),
                Accept::Missing => expected.counts(fabric).exchanged_cables > 0,
                Accept::Port(_) | Accept::Exchanged => false,
            };
            let reason = match accepts.iter().any(is_exchanged) {
                true => {
                    "only exchanged cables are there: name a port of one to expect them where they are"
                }
                false => "nothing is missing there",
            };
            return Err(ControlError::Refused {
                reason: reason.to_owned(),
            });
        }
        (self.commands)(Command::Accept(accepts))?;
        Ok(parts)
    }

    fn drain(
        &self,
        request: DrainQuestion,
    ) -> BoxFuture<'_, Result<Vec<v1::DrainedPart>, ControlError>> {
        Box::pin(async move {
            let parts = self.parts_to_drain(&request)?;
            let wanted = parts.keys().copied().collect();
            let forced = request.force;
            let mut caller = self.submit(Concern::InAnswer, |ticket| Command::Drain {
                parts,
                forced,
                ticket,
            })?;
            caller.answer().await?;
            Ok(drained::shown_of(&self.view.published(), &wanted))
        })
    }

    fn undrain(
        &self,
        parts: Vec<Selector>,
    ) -> BoxFuture<'_, Result<(Vec<String>, v1::Convergence), ControlError>> {
        Box::pin(async move {
            self.check()?;
            let published = self.view.published();
            let parts = parts
                .iter()
                .map(|name| drained::drained_parts(&published, name));
            let parts: Vec<Vec<NodeOrCable>> = parts.collect::<Result<_, _>>()?;
            let parts: BTreeSet<NodeOrCable> = parts.into_iter().flatten().collect();
            let drained = published.snapshot.avoid.drained();
            let ended = drained.filter(|(part, _)| parts.contains(part));
            let names: Vec<String> = ended.map(|(_, drained)| drained.name.clone()).collect();
            let mut caller =
                self.submit(Concern::Tables, |ticket| Command::Undrain { parts, ticket })?;
            Ok((names, caller.answer().await?))
        })
    }

    fn operate_port(
        &self,
        command: PortCommand,
    ) -> BoxFuture<'_, Result<v1::OperatePortResponse, ControlError>> {
        Box::pin(async move {
            self.check()?;
            let published = self.view.published();
            let target = port_command::target(&published, &command.port)?;
            let port = target.port;
            let concern = Concern::Links(BTreeSet::from([port]), command.action);
            let mut caller = match command.action {
                PortAction::Disable => {
                    port_command::check(&published, &target, &command)?;
                    let drained = target.disabled(&command, self.view.unix_ms());
                    let parts =
                        BTreeMap::from([(NodeOrCable::Port(port), Reason::Drained(drained))]);
                    self.submit(concern, |ticket| Command::Drain {
                        parts,
                        forced: command.accept_cut_off,
                        ticket,
                    })?
                }
                PortAction::Enable => {
                    port_command::check_enable(&published, &target)?;
                    self.submit(concern, |ticket| Command::EnablePort {
                        port,
                        by: port_command::operator(&command.by),
                        accepts_other: command.accept_other_operator,
                        ticket,
                    })?
                }
                PortAction::Reset | PortAction::Unspecified => {
                    port_command::check_reset(&published, &target)?;
                    port_command::check(&published, &target, &command)?;
                    self.submit(concern, |ticket| Command::ResetPort { port, ticket })?
                }
            };
            Ok(v1::OperatePortResponse {
                port: Some(api_key(port).into()),
                description: published.fabric().name(port.node),
                named_port: Some(api_key(target.named).into()),
                named_description: published.fabric().name(target.named.node),
                convergence: Some(caller.answer().await.map_err(|error| match error {
                    ControlError::OfAnother { reason } => ControlError::OfAnother {
                        reason: format!("{}: {reason}", target.asked),
                    },
                    error => error,
                })?),
            })
        })
    }

    fn rotate_m_keys(
        &self,
        force: bool,
    ) -> BoxFuture<'_, Result<(v1::ManagementKeys, v1::Convergence), ControlError>> {
        Box::pin(async move {
            let forced = force;
            let command = |ticket| Command::RotateMKeys { forced, ticket };
            let mut caller = self.submit(Concern::InAnswer, command)?;
            let convergence = caller.answer().await?;
            let keys = self.view.published().snapshot.m_keys;
            Ok((management_keys(&keys), convergence))
        })
    }

    fn change_partition(
        &self,
        change: PartitionChange,
    ) -> BoxFuture<'_, Result<PartitionChanged, ControlError>> {
        Box::pin(async move {
            self.check()?;
            let published = self.view.published();
            let change = overlay::change(&published, change, self.view.unix_ms())?;
            let tenant = change.is_of_tenant().then(|| change.by.clone());
            let change = Box::new(change);
            let concern = match change.action {
                Action::LimitDefault(_) => Concern::Everything,
                // The core reports the concerned ports with `partition_taken`.
                _ => Concern::PKeys(BTreeSet::new()),
            };
            let command = |ticket| Command::Partition { change, ticket };
            let mut caller = self.submit_for(tenant, concern, command)?;
            let convergence = caller.answer().await?;
            let effect = self.waiting.lock().effects.remove(&caller.ticket);
            let effect = effect.ok_or_else(|| ControlError::Failed {
                reason: "the effect of the change is not known".to_owned(),
            })?;
            Ok(overlay::changed(effect, convergence))
        })
    }

    fn set_engine(
        &self,
        name: String,
        cut_off: WhenCutOff,
    ) -> BoxFuture<'_, Result<v1::Convergence, ControlError>> {
        Box::pin(async move {
            let when_cut_off = overlay::when_cut_off(cut_off);
            let engine = name.parse().map_err(|error: UnknownEngine| {
                let message = error.to_string();
                ControlError::UnknownEngine { message }
            })?;
            let mut caller = self.submit(Concern::Tables, |ticket| Command::Engine {
                engine,
                when_cut_off,
                ticket,
            })?;
            caller.answer().await
        })
    }
}

fn unsent<E>(error: TrySendError<E>) -> ControlError {
    match error {
        TrySendError::Full(_) => ControlError::Busy,
        TrySendError::Closed(_) => ControlError::Stopping,
    }
}

/// Finds the missing nodes or cables that `name` refers to. The name of a present node refers to
/// all parts missing at that node; the name of a host to all its adapters, present or missing.
fn missing_at(published: &Published, name: &Selector) -> Result<Vec<Accept>, ControlError> {
    let missing = published.snapshot.expected.nodes();
    let missing = missing.filter(|(_, node)| match name {
        Selector::Description(text) => host_of(&node.description) == Some(text),
        _ => false,
    });
    let missing: Vec<Guid> = missing.map(|(guid, _)| guid).collect();
    let found = match published.names.find_gone(name) {
        Some(found) => vec![found],
        None => match resolve_host_or_part(&published.names, name) {
            // The name is part of the name of a missing node, and of no present node.
            Err(LookupError::Gone { node, port, .. }) => vec![(node, port)],
            Err(LookupError::HostGone { nodes, .. }) => {
                nodes.into_iter().map(|node| (node, None)).collect()
            }
            Err(error) if missing.is_empty() => return Err(error.into()),
            found => found.unwrap_or_default(),
        },
    };
    let found = found.into_iter().map(|(node, port)| match port {
        None | Some(PortNum::ZERO) => Accept::Node(node),
        Some(port) => Accept::Port(PortKey::new(node, port)),
    });
    let mut accepts: Vec<Accept> = found.collect();
    for accept in missing.into_iter().map(Accept::Node) {
        if !accepts.contains(&accept) {
            accepts.push(accept);
        }
    }
    Ok(accepts)
}

/// The entry of a caller in the table of waiting callers. Dropping it removes the entry; before the
/// answer, it also withdraws the request from the core.
struct Caller<'a> {
    controller: &'a Controller,
    ticket: Ticket,
    answer: oneshot::Receiver<Answer>,
}

impl Caller<'_> {
    async fn answer(&mut self) -> Answer {
        // Only the end of the controller drops the sender without an answer.
        (&mut self.answer)
            .await
            .unwrap_or(Err(ControlError::Stopping))
    }
}

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        let mut waiting = self.controller.waiting.lock();
        waiting.effects.remove(&self.ticket);
        let waited = waiting.callers.remove(&self.ticket).is_some();
        drop(waiting);
        if waited {
            let ticket = self.ticket;
            // If the channel has no room, the core carries out a request whose caller has left.
            let _ = (self.controller.commands)(Command::Withdraw { ticket });
        }
    }
}
