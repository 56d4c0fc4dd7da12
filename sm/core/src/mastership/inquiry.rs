//! The inquiry whether this subnet manager is still the master, after a sign of another master.
//!
//! ```text
//!          it did not run for a while,
//!          MasterSMLID of another, an order by another master
//! Master ──────────────────────────────────────────────────▶ Master, in doubt ──no other master──▶ Master
//!                                                              sets nothing │
//!                                                                           │ another master
//!                                                                           ▼
//!                                                       Standby, HANDOVER, or Master: role::decide
//! ```
//!
//! A master in doubt withdraws every Set, sent or not. It asks its own port, whose MasterSMLID
//! shows the manager that wrote it last, and every port that shows a subnet manager (IsSM). After a
//! pause, any other master has taken the subnet over: this manager stands by. If it also has
//! precedence as a standby, it sends its successor trap 144, after which that hands over (IBA
//! 14.4.1). Until the outcome is known, requests for its SMInfo wait: if it showed itself as a
//! master, a successor over which it only has precedence as a master would hand the subnet over.
//! Sweeps and plans continue meanwhile; they change no hardware.
//!
//! If a store is shared, the inquiry after a pause also waits for the answer of the store, at most
//! one second, and then asks managers again whose answers are too old. The check shows a sign of
//! life and compares in one transaction, so that no claim comes between the two.

use std::collections::BTreeSet;
use std::time::Duration;

use rsm_hardware::sweep::Query;
use rsm_hardware::sweep::inventory::Inventory;
use rsm_ids::{Guid, Lid, PortKey, PortNum};
use rsm_mad::Time;
use rsm_mad::client::{Priority, Request, RequestFailure, Response};
use rsm_mad::wire::attr::{Attribute, CapabilityMask, PortInfo, SmInfo, SmState};
use rsm_mad::wire::header::AttrId;
use rsm_state::{Other, Role};

use super::epoch::{CHECK_LIMIT, Holding};
use super::role::{self, ElectionOutcome};
use crate::requests::{Context, routes};
use crate::stage::Stage;
use crate::trials::Answers;
use crate::{Core, Mode};

/// Time until a master asks again, if no manager and not even its own port has answered.
const ASK_AGAIN: Duration = Duration::from_millis(250);

/// Time for which a standby's answer proves that it is still one: it takes over after three polls,
/// 100 ms apart, that this manager leaves unanswered.
const FRESH: Duration = Duration::from_millis(100);

/// Why this subnet manager may no longer be the only master.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum MastershipDoubt {
    /// Another master appeared, while this one ran all the time: precedence decides.
    Rival,
    /// This process was paused: another master has taken over.
    Paused,
}

/// A query of the inquiry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Question {
    /// PortInfo of the own port.
    OwnPort(PortKey),
    /// SMInfo of the manager behind a port.
    Manager(PortKey),
    /// SMInfo of the manager at a LID that a MasterSMLID shows.
    Lid(Lid),
}

/// A sign that another manager acts as master.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Suspicion {
    /// LID of the other manager; `None` if it is not known.
    pub(crate) lid: Option<Lid>,
}

/// The queries and their answers so far.
#[derive(Debug)]
pub(crate) struct Inquiry {
    doubt: MastershipDoubt,
    /// Time of the queries; `None` once those that were answered were repeated.
    asked: Option<Time>,
    /// Number of queries without an answer.
    waiting: usize,
    /// Ports whose manager has answered.
    heard: BTreeSet<PortKey>,
    /// LID of another master that no known port has.
    unknown_master: Option<Lid>,
    /// Whether another manager has written the own port since the last reading.
    overwritten: bool,
    own_port_silent: bool,
    /// Time at which the inquiry repeats all queries, because the own port did not answer.
    again_at: Option<Time>,
    /// Time until which the inquiry waits for the answer whether this manager still holds the
    /// epoch.
    pub(crate) epoch_until: Option<Time>,
    /// Whether another manager holds the epoch: unless another master is found, this one discovers
    /// again.
    pub(crate) is_deposed: bool,
}

impl Inquiry {
    /// Time at which [`Core::inquire_again`] has something to do; `None` if never.
    pub(crate) fn deadline(&self) -> Option<Time> {
        [self.again_at, self.epoch_until]
            .into_iter()
            .flatten()
            .min()
    }
}

/// Ports with a subnet manager, by IsSM or an earlier answer, in their order; without the own port.
pub(crate) fn manager_ports(inventory: &Inventory) -> impl Iterator<Item = PortKey> + '_ {
    inventory.nodes().flat_map(move |(guid, node)| {
        let end_ports = if node.is_switch() {
            0..1
        } else {
            1..node.ports.len()
        };
        let shows = |info: &PortInfo| info.capability_mask().contains(CapabilityMask::IS_SM);
        end_ports
            .map(move |number| {
                (
                    PortKey::new(guid, PortNum(number as u8)),
                    &node.ports[number],
                )
            })
            .filter(move |(key, port)| {
                inventory.manager(*key).is_some() || port.info.as_ref().is_some_and(shows)
            })
            .map(|(key, _)| key)
            .filter(move |&key| inventory.local != Some(key))
    })
}

impl Core {
    /// Whether this manager may write hardware now: it is master, and no inquiry is open.
    pub(crate) fn may_set(&self) -> bool {
        self.config.mode == Mode::Manage
            && self.election.role == Role::Master
            && self.election.inquiry.is_none()
            && self.epoch.permits()
    }

    /// Whether another manager may have taken the subnet over from this master, which an inquiry
    /// shall find out.
    pub(crate) fn may_be_replaced(&self) -> bool {
        let inquiry = self.election.inquiry.as_ref();
        inquiry.is_some_and(|inquiry| inquiry.doubt == MastershipDoubt::Paused)
    }

    /// Handles a pause of this process that was so long that another manager may have taken the
    /// subnet over.
    ///
    /// Silence across a pause proves nothing: the client repeats the open Gets, but no Sets. An
    /// epoch that this manager does not yet hold as master proves nothing either, nor does a claim
    /// whose answer comes after the pause.
    pub(crate) fn on_pause(&mut self, now: Time) {
        self.halt_push();
        self.forget_silence();
        // A manager that handed over before the pause may be master again.
        self.election.predecessor = None;
        if self.election.role != Role::Master
            && matches!(self.epoch.holding, Holding::Claimed(_) | Holding::Held(_))
        {
            self.release_epoch();
        }
        match self.election.role {
            Role::NotActive => {}
            Role::Discovering => {
                self.drop_stage();
                self.work
                    .sweep_everything(true, "this process did not run for a while");
            }
            Role::Standby { .. } => {
                self.drop_stage();
                self.work.poll_master();
            }
            Role::Master => {
                if matches!(self.stage, Stage::HandingOver(_)) {
                    self.drop_stage();
                }
                let questions = self
                    .client
                    .withdraw(|context| matches!(context, Context::Sweep(_)));
                for question in questions {
                    self.submit(question.request);
                }
                self.inquire(MastershipDoubt::Paused, None, now);
            }
        }
    }

    /// Suspects another master, if a PortInfo read by a sweep shows a new MasterSMLID in place of
    /// this manager's.
    pub(crate) fn suspect_another_master(&mut self, query: Query, data: &[u8; 64]) {
        let Query::Port(key) = query else { return };
        let Some(own) = self.local_port().map(|info| info.lid()) else {
            return;
        };
        let known = self.inventory.port(key).and_then(|port| port.info.as_ref());
        let followed = known.is_some_and(|info| info.master_sm_lid() == own);
        let master = PortInfo::from_data(data).master_sm_lid();
        if followed && master != own && master.is_unicast() {
            self.election.suspicion = Some(Suspicion { lid: Some(master) });
        }
    }

    /// Begins an inquiry after a sign of another master, and ends one whose answers suffice.
    pub(crate) fn settle_doubts(&mut self, now: Time) {
        if let Some(suspicion) = self.election.suspicion.take()
            && self.election.role == Role::Master
            && !self.config.ignores_others
            && self.election.inquiry.is_none()
            && !matches!(self.stage, Stage::HandingOver(_))
        {
            self.inquire(MastershipDoubt::Rival, suspicion.lid, now);
        }
        self.weigh(now);
        if !self.may_be_replaced() {
            for question in std::mem::take(&mut self.election.deferred) {
                self.on_sm_info(&question, now);
            }
        }
    }

    /// Sends all queries about another master; earlier answers no longer count.
    pub(crate) fn inquire(&mut self, doubt: MastershipDoubt, lid: Option<Lid>, now: Time) {
        let is_checked = doubt == MastershipDoubt::Paused && self.check_epoch();
        let Some(local) = self.inventory.local else {
            return;
        };
        self.halt_push();
        let is_deposed = (self.election.inquiry.as_ref()).is_some_and(|before| before.is_deposed);
        self.drop_inquiry();
        let mut questions: Vec<Question> = vec![Question::OwnPort(local)];
        questions.extend(manager_ports(&self.inventory).map(Question::Manager));
        questions.extend(lid.map(Question::Lid));
        self.election.inquiry = Some(Box::new(Inquiry {
            doubt,
            asked: Some(now),
            waiting: 0,
            heard: BTreeSet::new(),
            unknown_master: None,
            overwritten: false,
            own_port_silent: false,
            again_at: None,
            epoch_until: is_checked.then_some(now + CHECK_LIMIT),
            is_deposed,
        }));
        for question in questions {
            self.ask_urgently(question);
        }
    }

    /// Checks an epoch that was granted while the inquiry is open: the grant may be from before the
    /// pause.
    pub(crate) fn check_granted(&mut self, now: Time) {
        if self.may_be_replaced()
            && self.check_epoch()
            && let Some(inquiry) = &mut self.election.inquiry
        {
            inquiry.epoch_until = Some(now + CHECK_LIMIT);
        }
    }

    fn ask_urgently(&mut self, question: Question) {
        let (key, attribute, modifier): (_, AttrId, _) = match question {
            Question::OwnPort(key) => {
                (Some(key), PortInfo::ID, PortInfo::modifier(key.port, false))
            }
            Question::Manager(key) => (Some(key), SmInfo::ID, 0),
            Question::Lid(_) => (None, SmInfo::ID, 0),
        };
        let (target, ways) = match (question, key) {
            (Question::Lid(lid), _) => (u64::from(lid.0), lid.into()),
            (_, Some(key)) => {
                let Some((path, alternate)) = self.inventory.way_to(key) else {
                    return;
                };
                (key.node.0, routes(None, path, alternate))
            }
            (_, None) => return,
        };
        let holder = match question {
            Question::Lid(lid) => self.inventory.by_lid(lid),
            _ => key,
        };
        let m_keys = match holder {
            Some(holder) => self.inventory.m_keys_to_manager(holder, 0),
            None => self.config.policy.ports.m_keys.one.into(),
        };
        if let Some(inquiry) = &mut self.election.inquiry {
            inquiry.waiting += 1;
        }
        self.submit(Request {
            m_keys,
            priority: Priority::Urgent,
            ..Request::get(
                target,
                ways,
                attribute,
                modifier,
                Context::Inquiry(question),
            )
        });
    }

    /// Handles the answer to `question`, or its silence.
    pub(crate) fn on_inquiry(
        &mut self,
        question: Question,
        outcome: &Result<Response, RequestFailure>,
    ) {
        let Some(inquiry) = &mut self.election.inquiry else {
            return;
        };
        inquiry.waiting = inquiry.waiting.saturating_sub(1);
        let data = outcome
            .as_ref()
            .ok()
            .filter(|response| response.status.is_ok())
            .map(|response| &response.data);
        match (question, data) {
            (Question::OwnPort(key), Some(data)) => {
                self.on_own_port(key, PortInfo::from_data(data))
            }
            (Question::OwnPort(_), None) => inquiry.own_port_silent = true,
            (Question::Manager(key), data) => self.on_manager(key, data.map(SmInfo::from_data)),
            (Question::Lid(lid), Some(data)) => self.on_manager_at(lid, SmInfo::from_data(data)),
            (Question::Lid(_), None) => {}
        }
    }

    /// Handles PortInfo of the own port, whose MasterSMLID shows its master.
    fn on_own_port(&mut self, key: PortKey, info: &PortInfo) {
        let known = self.inventory.port(key).and_then(|port| port.info);
        let Some(known) = known else { return };
        let master = info.master_sm_lid();
        let follows_another = master.is_unicast() && master != info.lid() && master != known.lid();
        let is_changed = (known.master_sm_lid(), known.m_key(), known.lid())
            != (master, info.m_key(), info.lid());
        if let Some(inquiry) = &mut self.election.inquiry {
            inquiry.overwritten |= is_changed;
        }
        if follows_another {
            self.ask_urgently(Question::Lid(master));
        }
    }

    /// Handles SMInfo of the manager behind a port, or its silence.
    fn on_manager(&mut self, key: PortKey, info: Option<&SmInfo>) {
        self.inventory.put_manager(key, info.copied());
        if let Some(inquiry) = &mut self.election.inquiry {
            match info {
                Some(_) => inquiry.heard.insert(key),
                None => inquiry.heard.remove(&key),
            };
        }
    }

    fn on_manager_at(&mut self, lid: Lid, info: &SmInfo) {
        let is_other = info.guid() != self.own_guid() && self.counts(info.guid(), info.sm_key());
        match self.inventory.by_lid(lid) {
            Some(key) if self.inventory.local != Some(key) => self.on_manager(key, Some(info)),
            // LIDs were assigned anew: a discovery finds the port with this LID.
            _ if is_other && info.sm_state() == SmState::Master => {
                if let Some(inquiry) = &mut self.election.inquiry {
                    inquiry.unknown_master = Some(lid);
                }
            }
            _ => {}
        }
    }

    /// Decides as soon as the answers suffice: the first other master decides at once; silence
    /// needs the full time.
    fn weigh(&mut self, now: Time) {
        let Some(inquiry) = &self.election.inquiry else {
            return;
        };
        let mut others = self.other_managers();
        others.retain(|other| inquiry.heard.contains(&other.port));
        let shows_master = inquiry.unknown_master.is_some() || others.iter().any(Other::is_master);
        let is_open =
            inquiry.waiting > 0 || inquiry.again_at.is_some() || inquiry.epoch_until.is_some();
        if !shows_master && is_open {
            return;
        }
        if !shows_master && inquiry.own_port_silent {
            // Without answers of its own port, this manager can neither decide nor set.
            if let Some(inquiry) = &mut self.election.inquiry {
                inquiry.again_at = Some(now + ASK_AGAIN);
            }
            return;
        }
        let (doubt, unknown, overwritten) =
            (inquiry.doubt, inquiry.unknown_master, inquiry.overwritten);
        let is_old = inquiry.asked.is_some_and(|asked| now.since(asked) > FRESH);
        if doubt == MastershipDoubt::Paused && !shows_master && is_old {
            return self.ask_heard_again();
        }
        let is_deposed = inquiry.is_deposed;
        self.drop_inquiry();
        let rival = others
            .iter()
            .filter(|other| other.is_master())
            .max_by_key(|other| other.precedence())
            .cloned();
        match (doubt, rival, unknown) {
            (MastershipDoubt::Paused, Some(successor), _) => self.step_down(successor, now),
            (_, None, Some(lid)) => {
                let cause = format!("another subnet manager is master at LID {lid}");
                self.discover_again(cause, now);
            }
            (_, None, None) if is_deposed => {
                self.discover_again("another manager holds the epoch of the shared store", now);
            }
            (MastershipDoubt::Rival, Some(_), _) => self.face_rivals(&others, now),
            (_, None, None) => self.remain_master(overwritten),
        }
    }

    /// Asks the own port and the managers that have answered once more: another query, or the
    /// shared store, kept the inquiry open for so long that one of them may have taken over since.
    fn ask_heard_again(&mut self) {
        let Some(inquiry) = &mut self.election.inquiry else {
            return;
        };
        inquiry.asked = None;
        let heard = inquiry.heard.iter().copied().map(Question::Manager);
        let questions: Vec<Question> = heard.collect();
        let own = self.inventory.local.map(Question::OwnPort);
        for question in own.into_iter().chain(questions) {
            self.ask_urgently(question);
        }
    }

    /// Handles other masters that ran at the same time: precedence decides.
    fn face_rivals(&mut self, others: &[Other], now: Time) {
        let identity = self.identity();
        let verdict = role::decide(&self.election.role, others, identity, self.own_guid(), None);
        match verdict {
            ElectionOutcome::HandOver(heir) => {
                self.drop_stage();
                if !self.hand_over(heir.clone(), now) && heir.is_master() {
                    self.step_down(heir, now);
                }
            }
            ElectionOutcome::Be(Role::Standby { master }) => self.step_down(master, now),
            ElectionOutcome::Be(_) => {
                self.warn_rivals(others.to_vec(), None);
                self.remain_master(true);
            }
        }
    }

    /// Leaves the subnet to another master.
    fn step_down(&mut self, master: Other, now: Time) {
        self.drop_stage();
        let reason = "another subnet manager is master now";
        let policy = &mut self.config.policy;
        let trials = &mut self.trials;
        trials.abandon(
            reason,
            policy,
            &self.fabric,
            &mut Answers::to(&mut self.work, &mut self.outbox),
        );
        self.stand_by(master.clone(), now);
        // The trap states the priority of a standby: a master's priority gives no precedence over
        // its successor.
        self.draw_attention(&master);
    }

    /// Discovers the subnet again, because another manager is master and is not found at a known
    /// port.
    pub(crate) fn discover_again(&mut self, cause: impl Into<String>, now: Time) {
        self.drop_stage();
        self.election.role = Role::Discovering;
        self.foreign_writes.another_manager_wrote();
        self.work.sweep_everything(true, cause);
        self.publish(now);
    }

    /// Stays master: there is no other master, or this one has precedence. If another manager wrote
    /// meanwhile, sweeps everything and reads the tables back.
    fn remain_master(&mut self, overwritten: bool) {
        if overwritten {
            self.election.unsure.clear();
            self.work
                .sweep_everything(true, "another subnet manager wrote the subnet");
        } else if self.writing.is_open() {
            let cause = "the push was halted until no other master was found";
            for device in std::mem::take(&mut self.election.unsure) {
                self.work.look_at(device, cause);
            }
            self.work.plan_again(cause);
        }
    }

    /// Sends trap 144 to masters with lower precedence, so that they hand over, and keeps them for
    /// the operator.
    pub(crate) fn warn_rivals(&mut self, others: Vec<Other>, predecessor: Option<Guid>) {
        let mut rivals = others;
        rivals.retain(|other| other.is_master() && Some(other.guid) != predecessor);
        for rival in &rivals {
            self.draw_attention(rival);
        }
        self.election.rivals = rivals;
    }

    /// Other masters over which this one has precedence.
    pub(crate) fn rivals(&self) -> impl Iterator<Item = &Other> {
        let is_master = self.election.role == Role::Master;
        self.election.rivals.iter().filter(move |_| is_master)
    }

    /// Repeats all queries if that is due, and stops waiting for the store when its time is over.
    pub(crate) fn inquire_again(&mut self, now: Time) {
        if let Some(inquiry) = &mut self.election.inquiry {
            inquiry.epoch_until.take_if(|until| *until <= now);
        }
        let due = self
            .election
            .inquiry
            .as_ref()
            .filter(|inquiry| inquiry.again_at.is_some_and(|when| when <= now))
            .map(|inquiry| inquiry.doubt);
        if let Some(doubt) = due {
            self.inquire(doubt, None, now);
        }
    }

    /// Ends the inquiry without a decision, because another event has settled it.
    pub(crate) fn drop_inquiry(&mut self) {
        if self.election.inquiry.take().is_some() {
            self.client
                .withdraw(|context| matches!(context, Context::Inquiry(_)));
        }
    }

    /// Withdraws every Set of a push under way, including unanswered ones; the push ends at once.
    fn halt_push(&mut self) {
        let Stage::Pushing(push) = &mut self.stage else {
            return;
        };
        push.stop();
        let sets = self
            .client
            .withdraw(|context| matches!(context, Context::Push(_)));
        for set in sets {
            let Context::Push(task) = set.request.context else {
                continue;
            };
            if set.attempts == 0 {
                push.taken_back(1);
            } else {
                push.abandon(&mut self.inventory, task);
                self.election.unsure.insert(Guid(set.request.target));
            }
        }
    }

    /// Drops the stage under way, and its requests.
    pub(crate) fn drop_stage(&mut self) {
        self.halt_push();
        if matches!(self.stage, Stage::Pushing(_)) {
            self.writing.leave_open();
        }
        self.client
            .withdraw(|context| matches!(context, Context::Sweep(_) | Context::HandOver));
        self.stage = Stage::Idle;
        self.take_reading();
        self.meter.discard();
    }

    /// Asks managers that show IsSM and did not answer before. The sweep does not wait for them.
    pub(crate) fn ask_silent_managers(&mut self) {
        let silent: Vec<PortKey> = manager_ports(&self.inventory)
            .filter(|&key| self.inventory.manager(key).is_none())
            .collect();
        for key in silent {
            if let Some((path, alternate)) = self.inventory.way_to(key) {
                self.submit(Request::get(
                    key.node.0,
                    routes(None, path, alternate),
                    SmInfo::ID,
                    0,
                    Context::Manager(key),
                ));
            }
        }
    }

    /// Handles SMInfo of a manager that was silent before.
    pub(crate) fn on_silent_manager(
        &mut self,
        key: PortKey,
        outcome: &Result<Response, RequestFailure>,
    ) {
        self.election.silent.note(key, outcome.is_ok());
        let Ok(response) = outcome else { return };
        if !response.status.is_ok() {
            return;
        }
        let info = *SmInfo::from_data(&response.data);
        self.inventory.put_manager(key, Some(info));
        if info.sm_state() == SmState::Master && self.counts(info.guid(), info.sm_key()) {
            self.election.suspicion = Some(Suspicion { lid: None });
        }
    }
}
