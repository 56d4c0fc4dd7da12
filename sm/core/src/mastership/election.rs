//! SMInfo exchanged between subnet managers: SubnGet and SubnSet(SMInfo), in both directions (IBA
//! 14.4.1).
//!
//! ```text
//!               DISABLE                 HANDOVER, DISCOVER, silence of the master
//! NotActive ◀──────────── Standby ────────────────────────────────────────────▶ Discovering ─▶ Master
//!     └──── STANDBY ────────▶ ▲                                                        HANDOVER  │
//!                             └──────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A manager with another SM_Key does not count: it is not offered the subnet, its orders are
//! refused, and this manager does not stand by for it, even if it is the master for all hosts. If
//! this manager has an SM_Key, an SM_Key of 0 counts as another one, unless that manager shares
//! this one's store and its port hides the key; OpenSM shows its SM_Key in every answer. Two
//! masters undo each other's work, which is a finding until one of them ends.

use std::collections::BTreeSet;
use std::time::Duration;

use rsm_hardware::sweep::inventory::Inventory;
use rsm_ids::{Guid, PortKey};
use rsm_mad::Time;
use rsm_mad::client::{Request, RequestFailure, Response};
use rsm_mad::ids::Tid;
use rsm_mad::transport::{Datagram, RemoteAddress};
use rsm_mad::wire::attr::{
    Attribute, LocalChange, LocalChanges, Notice, NoticeType, PortInfo, ProducerType, SmControl,
    SmInfo, SmState, Trap,
};
use rsm_mad::wire::header::{AttrId, Method, Status};
use rsm_mad::wire::smp::{Smp, SmpRequest};
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_state::{Identity, Other, Role};

use super::inquiry::{Inquiry, Suspicion};
use super::orders::{Orders, Refusal};
use super::peer_polls::PeerPolls;
use super::role;
use super::silent_managers::SilentManagers;
use crate::Core;
use crate::requests::{Context, routes};
use crate::stage::Stage;

/// Time for which the subnet is not offered again to a manager that did not take it.
const REFUSED_FOR: Duration = Duration::from_secs(30);

/// Bound of the requests for SMInfo that wait for the end of an inquiry: one of each manager of a
/// subnet, with repetitions.
const DEFERRED_MAX: usize = 64;

/// Election state kept between sweeps.
#[derive(Debug)]
pub(crate) struct Election {
    /// The role of this manager.
    pub(crate) role: Role,
    /// The manager that has just handed over. Its earlier SMInfo does not count until the next
    /// sweep has read it again.
    pub(crate) predecessor: Option<Guid>,
    /// The manager that refused the subnet, and the time until which it is not offered again.
    refused: Option<(Guid, Time)>,
    /// Number of traps sent to masters, which is their transaction ID.
    traps: u64,
    /// The inquiry whether this manager is still the master; `None` unless one is under way.
    pub(crate) inquiry: Option<Box<Inquiry>>,
    /// Requests for SMInfo that wait until this manager knows whether it is still the master.
    pub(crate) deferred: Vec<Datagram>,
    /// A sign of another master since the last inquiry.
    pub(crate) suspicion: Option<Suspicion>,
    /// Devices with withdrawn Sets that may have arrived; a sweep reads them before the next push.
    pub(crate) unsure: BTreeSet<Guid>,
    /// Number of successive polls that the master has not answered.
    pub(crate) silent_polls: u32,
    /// Whether the first sweep ends with this manager not active.
    pub(crate) starts_inactive: bool,
    /// Other masters that have not handed over yet, although this one has precedence.
    pub(crate) rivals: Vec<Other>,
    /// Polls of a master that shares the store.
    pub(crate) peer_polls: PeerPolls,
    /// Managers that are visible (IsSM) and do not answer.
    pub(crate) silent: SilentManagers,
    /// Orders to this manager while it is the master.
    pub(crate) orders: Orders,
}

impl Election {
    pub(crate) fn new(starts_inactive: bool) -> Election {
        Election {
            role: Role::Discovering,
            predecessor: None,
            refused: None,
            traps: 0,
            inquiry: None,
            deferred: Vec::new(),
            suspicion: None,
            unsure: BTreeSet::new(),
            silent_polls: 0,
            starts_inactive,
            rivals: Vec::new(),
            peer_polls: PeerPolls::default(),
            silent: SilentManagers::default(),
            orders: Orders::default(),
        }
    }

    /// When the inquiry or a poll asks again, or a finding ends.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let inquiry = self.inquiry.as_ref().and_then(|inquiry| inquiry.deadline());
        [inquiry, self.peer_polls.deadline(), self.orders.deadline()]
            .into_iter()
            .flatten()
            .min()
    }
}

/// A handover of the subnet, under way.
#[derive(Debug)]
pub(crate) struct HandingOver {
    to: Other,
    /// Whether the other manager takes the subnet; `None` before its answer.
    accepted: Option<bool>,
}

impl HandingOver {
    /// Records the other manager's answer, or its silence.
    pub(crate) fn handle(&mut self, outcome: &Result<Response, RequestFailure>) {
        self.accepted = Some(matches!(outcome, Ok(response) if response.status.is_ok()));
    }
}

impl Core {
    /// Answers SubnGet(SMInfo), and SubnSet(SMInfo) from another manager.
    pub(crate) fn on_sm_info(&mut self, datagram: &Datagram, now: Time) {
        let request = Smp::from_bytes(&datagram.mad);
        let has_key = self
            .inventory
            .accepts_m_key(self.inventory.local, request.m_key());
        let is_order = request.header().method() == Method::SET;
        if !is_order && self.may_be_replaced() {
            // A request that is dropped is repeated by its sender.
            if self.election.deferred.len() < DEFERRED_MAX {
                self.election.deferred.push(*datagram);
            }
            return;
        }
        let control = SmControl(request.header().modifier());
        if is_order && !has_key {
            // A Set without the right M_Key gets no answer (IBA 14.2.4.2).
            return self.note_refused_order(datagram, control, now);
        }
        let sender = *SmInfo::from_data(request.data());
        let status = match is_order {
            false => Status::OK,
            true if !self.may_order(control, &sender) => {
                self.note_refused_order(datagram, control, now);
                Status::INVALID_FIELD
            }
            true if self.is_one_handover_too_many(control, now) => {
                self.note_refusal(datagram, Refusal::TooManyHandovers, now);
                Status::BUSY
            }
            true => Status::OK,
        };
        let mut shown = self.sm_info();
        if !has_key {
            shown.set_sm_key(0);
        }
        let mut reply = *datagram;
        let smp = Smp::from_bytes_mut(&mut reply.mad);
        *smp.data_mut() = *shown.as_data();
        smp.make_response(status);
        self.outbox.reply(reply);
        if !is_order {
            return;
        }
        if status.is_ok() {
            self.obey(control, &sender);
        } else if status == Status::INVALID_FIELD
            && sender.sm_state() == SmState::Master
            && sender.sm_key() == self.config.identity.sm_key
        {
            self.election.suspicion = Some(Suspicion { lid: None });
        }
    }

    /// Notes a refused order for a finding. Managers with other keys hand over and acknowledge
    /// (IBA 14.4.1), but none gives a master the other orders.
    fn note_refused_order(&mut self, datagram: &Datagram, control: SmControl, now: Time) {
        let is_of_managers = [SmControl::HANDOVER, SmControl::ACKNOWLEDGE].contains(&control);
        if !is_of_managers && !self.config.ignores_others {
            self.note_refusal(datagram, Refusal::NotAllowed, now);
        }
    }

    fn note_refusal(&mut self, datagram: &Datagram, why: Refusal, now: Time) {
        let from = self.holder(datagram.remote.lid);
        if self.is_undoubted_master() && self.election.orders.note_refused(from, why, now) {
            self.publish(now);
        }
    }

    /// Whether this manager is the master and does not doubt it.
    fn is_undoubted_master(&self) -> bool {
        self.election.role == Role::Master && self.election.inquiry.is_none()
    }

    /// Whether an order hands the subnet over to this manager, which is the master, more often than
    /// managers do.
    fn is_one_handover_too_many(&mut self, control: SmControl, now: Time) -> bool {
        control == SmControl::HANDOVER
            && self.is_undoubted_master()
            && !self.election.orders.admit_handover(now)
    }

    /// Whether `sender` may give the order `control`, and the role of this manager allows it.
    fn may_order(&self, control: SmControl, sender: &SmInfo) -> bool {
        let giver = match control {
            SmControl::ACKNOWLEDGE => SmState::Standby,
            _ => SmState::Master,
        };
        let fits = !self.config.ignores_others
            && match control {
                SmControl::HANDOVER => self.election.role != Role::NotActive,
                SmControl::ACKNOWLEDGE => {
                    matches!(self.election.role, Role::Standby { .. } | Role::Master)
                }
                SmControl::DISABLE | SmControl::DISCOVER => {
                    matches!(self.election.role, Role::Standby { .. })
                }
                SmControl::STANDBY => self.election.role == Role::NotActive,
                _ => false,
            };
        fits && sender.sm_state() == giver && self.counts(sender.guid(), sender.sm_key())
    }

    fn obey(&mut self, control: SmControl, sender: &SmInfo) {
        let sender = sender.guid();
        match control {
            SmControl::HANDOVER => {
                let known = self.find_other(sender);
                let name = known
                    .as_ref()
                    .map_or_else(|| sender.to_string(), |o| o.name.clone());
                // The handover settles the inquiry: the sender gives the subnet up to this manager.
                let in_doubt = self.election.inquiry.is_some();
                self.drop_inquiry();
                if in_doubt {
                    self.election.role = Role::Discovering;
                    self.foreign_writes.another_manager_wrote();
                    self.doubt_epoch();
                } else if self.election.role != Role::Master {
                    // The acknowledgement is sent before the role changes, because it must come
                    // from a standby.
                    if let Some(other) = &known {
                        self.tell(other, SmControl::ACKNOWLEDGE);
                    }
                    self.election.role = Role::Discovering;
                }
                self.election.predecessor = Some(sender);
                self.work
                    .sweep_everything(true, format!("{name} handed the subnet over"));
            }
            SmControl::DISABLE => self.election.role = Role::NotActive,
            SmControl::STANDBY | SmControl::DISCOVER => {
                // The sweep finds the master that gave the order, and ends in standby.
                self.election.role = Role::Discovering;
                self.work
                    .sweep_everything(false, "ordered by the master subnet manager");
            }
            _ => {}
        }
    }

    /// Offers the subnet to `to`, unless it refused a short time ago. Returns whether it did.
    pub(crate) fn hand_over(&mut self, to: Other, now: Time) -> bool {
        let refused = self
            .election
            .refused
            .is_some_and(|(guid, until)| guid == to.guid && now < until);
        if refused {
            return false;
        }
        let Some(request) = self.order(&to, SmControl::HANDOVER, Context::HandOver) else {
            return false;
        };
        let accepted = None;
        self.stage = Stage::HandingOver(Box::new(HandingOver { to, accepted }));
        self.submit(request);
        true
    }

    /// Ends the handover after the other manager's answer. Returns whether it has answered.
    pub(crate) fn end_hand_over(&mut self, now: Time) -> bool {
        let Stage::HandingOver(handing_over) = &self.stage else {
            return false;
        };
        let Some(accepted) = handing_over.accepted else {
            return false;
        };
        let to = handing_over.to.clone();
        self.stage = Stage::Idle;
        // Two masters would undo each other's work: the one with precedence stays.
        if accepted || to.state == SmState::Master {
            self.stand_by(to, now);
        } else {
            self.election.refused = Some((to.guid, now + REFUSED_FOR));
            self.work
                .plan_again(format!("{} did not take the subnet over", to.name));
        }
        true
    }

    pub(crate) fn stand_by(&mut self, master: Other, now: Time) {
        let role = Role::Standby { master };
        let is_news = self.election.role != role;
        self.release_epoch();
        self.election.role = role;
        // A takeover moves no LID.
        self.plans.keep_lids();
        self.foreign_writes.another_manager_wrote();
        self.election.orders = Orders::default();
        self.election.silent_polls = 0;
        self.work.poll_master_at(now + self.config.standby_poll);
        self.begin_peer_polls(now);
        if is_news {
            self.publish(now);
        }
    }

    /// Whether the standby polls the silent master once more before it takes the subnet over.
    pub(crate) fn waits_for_master(&mut self, now: Time) -> bool {
        self.election.silent_polls = self.election.silent_polls.saturating_add(1);
        let waits = self.election.silent_polls < self.config.poll_limit;
        if waits {
            self.meter.discard();
            self.work.poll_master_at(now + self.config.standby_poll);
        }
        waits
    }

    /// The other subnet managers that count in the election: none if the operator says so; else
    /// only those with this manager's SM_Key that the operator allows.
    pub(crate) fn other_managers(&self) -> Vec<Other> {
        if self.config.ignores_others {
            return Vec::new();
        }
        let mut others = role::others(&self.inventory);
        others.retain(|other| self.counts(other.guid, other.sm_key));
        others
    }

    /// Whether the manager with this GUID and SM_Key counts: it shows this manager's SM_Key; or it
    /// shares this manager's store, and hides its SM_Key from requests without its M_Key.
    pub(crate) fn counts(&self, manager: Guid, sm_key: u64) -> bool {
        let shares_store = self.epoch.configurations.contains_key(&manager);
        let has_key = sm_key == self.config.identity.sm_key || sm_key == 0 && shares_store;
        has_key && self.allows(manager)
    }

    /// Whether the operator allows the manager with this GUID.
    fn allows(&self, manager: Guid) -> bool {
        let allowed = &self.config.allowed_managers;
        allowed.is_empty() || allowed.contains(&manager)
    }

    /// How this manager identifies itself in its present role.
    pub(crate) fn identity(&self) -> Identity {
        let mut identity = self.config.identity;
        if self.election.role == Role::Master {
            identity.priority = identity.priority.max(self.config.master_priority);
        }
        identity
    }

    /// Findings about visible managers that do not count, because of their GUID or SM_Key.
    pub(crate) fn findings_of_strangers(&self) -> impl Iterator<Item = Finding> + '_ {
        let others = role::others(&self.inventory).into_iter();
        let strangers = others.filter(|other| !self.counts(other.guid, other.sm_key));
        strangers.map(|other| {
            let severity = match other.state {
                SmState::Master => Severity::Error,
                _ => Severity::Warning,
            };
            let subject = Subject::Node(other.port.node);
            let text = self.text_of_stranger(&other);
            Finding::new(FindingKind::ManagerNotAllowed, subject, severity, text)
        })
    }

    /// Why `other` does not count, what that means, and what to do. The text never shows a key.
    fn text_of_stranger(&self, other: &Other) -> String {
        let (why, join) = if !self.allows(other.guid) {
            (
                "that sm.allowed_sm_guids does not name",
                "add its GUID there",
            )
        } else if other.sm_key == 0 {
            (
                "that shows no SM_Key",
                "give both managers the same sm_key, and the same M_Key where ports have one",
            )
        } else {
            (
                "with another SM_Key than sm.sm_key",
                "give both managers the same sm_key",
            )
        };
        let harm = match other.state {
            SmState::Master => {
                "it is master, too: both write LIDs and routes, and undo each other's work"
            }
            _ => "rsm hands it nothing, follows no order of it, and does not stand by for it",
        };
        format!(
            "{} ({}, LID {}, priority {}), {}, runs a subnet manager {why}: {harm}; {join}, stop that \
             manager, or unplug this cable",
            other.name,
            other.guid,
            other.lid,
            other.priority,
            cable_of(&self.inventory, other.port)
        )
    }

    /// Sends trap 144 to a master with lower precedence, which learns of a priority change only by
    /// this trap (IBA 14.4.1).
    pub(crate) fn draw_attention(&mut self, master: &Other) {
        let own = self.local_port();
        let Some(own) = own.filter(|_| {
            master.state == SmState::Master
                && self.counts(master.guid, master.sm_key)
                && role::precedes(self.identity(), self.own_guid(), master)
        }) else {
            return;
        };
        let mut change = LocalChange::default();
        change
            .set_lid(own.lid())
            .set_other_local_changes(true)
            .set_capability_mask(own.capability_mask())
            .set_changes(LocalChanges::SM_PRIORITY);
        let notice = Notice::generic(
            NoticeType::Informational,
            ProducerType::CA,
            Trap::LOCAL_CHANGE,
            own.lid(),
            &change,
        );
        self.election.traps += 1;
        let trap = Smp::lid_routed(&SmpRequest {
            method: Method::TRAP,
            attribute: AttrId::NOTICE,
            modifier: 0,
            tid: Tid(self.election.traps),
            m_key: 0,
            data: *notice.as_data(),
        });
        self.outbox.reply(Datagram {
            mad: *trap.as_bytes(),
            remote: RemoteAddress::smi(master.lid),
        });
    }

    /// A SubnSet(SMInfo) to another manager; `None` if there is no path to it.
    fn order(
        &self,
        other: &Other,
        control: SmControl,
        context: Context,
    ) -> Option<Request<Context>> {
        let (path, alternate) = self.inventory.way_to(other.port)?;
        let routes = routes(None, path, alternate);
        let data = *self.sm_info().as_data();
        let PortKey { node, .. } = other.port;
        Some(Request {
            m_keys: self.inventory.m_keys_to(other.port),
            ..Request::set(node.0, routes, SmInfo::ID, control.0, data, context)
        })
    }

    /// Sends a SubnSet(SMInfo) to another manager, whose answer has no effect.
    fn tell(&mut self, other: &Other, control: SmControl) {
        if let Some(request) = self.order(other, control, Context::Announcement) {
            self.submit(request);
        }
    }

    fn sm_info(&self) -> SmInfo {
        role::sm_info(
            &self.election.role,
            self.identity(),
            self.own_guid(),
            self.act_count(),
        )
    }

    fn find_other(&self, guid: Guid) -> Option<Other> {
        role::others(&self.inventory)
            .into_iter()
            .find(|other| other.guid == guid)
    }

    pub(crate) fn local_port(&self) -> Option<PortInfo> {
        self.inventory.own_port()?.info
    }
}

/// Name of the port at the other end of the cable at `port`, for the operator.
pub(crate) fn cable_of(inventory: &Inventory, port: PortKey) -> String {
    let peer = inventory.port(port).and_then(|port| port.peer);
    match peer {
        Some(peer) => format!("at {}", inventory.port_name(peer)),
        None => format!("at its port {}", port.port),
    }
}
