//! The inquiry: finds out whether this subnet manager is still the master.

use rsm_hardware::sweep::Query;
use rsm_hardware::sweep::inventory::Inventory;
use rsm_ids::{Lid, PortKey};
use rsm_mad::Time;
use rsm_mad::client::{Priority, Request, RequestFailure, Response, Routes};
use rsm_mad::wire::attr::{Attribute, PortInfo, SmInfo, SmState};
use rsm_mad::wire::header::AttrId;
use rsm_state::{Other, Role};

use crate::Mastership;
use crate::action::{Action, MastershipRequest, PassRequest};
use crate::epoch::CHECK_LIMIT;
use crate::inquiry::{
    ASK_AGAIN, FRESH, Inquiry, MastershipDoubt, Question, Suspicion, manager_ports,
};
use crate::role::{self, ElectionOutcome};
use crate::view::{StageView, View};

impl Mastership {
    /// Whether an inquiry after a pause is open: another manager may have taken the subnet over.
    pub(crate) fn may_be_replaced(&self) -> bool {
        let inquiry = self.doubts.inquiry.as_ref();
        inquiry.is_some_and(|inquiry| inquiry.doubt() == MastershipDoubt::Paused)
    }

    /// Handles a pause of this process that was long enough for another manager to take over.
    ///
    /// Silence during a pause proves nothing, so the client repeats the open Gets, but no Sets. A
    /// manager that is not master also gives up an epoch that it held or claimed: neither that
    /// epoch nor a later answer to the claim proves that this manager may write.
    pub fn on_pause(&mut self, view: &mut View<'_>, now: Time) {
        self.queue_action(Action::HaltPush);
        self.forget_silence();
        // A manager that handed over before the pause may be master again.
        self.election.predecessor = None;
        if !self.is_master() && self.epoch.is_claimed_or_held() {
            self.release_epoch();
        }
        match self.election.role {
            Role::NotActive => {}
            Role::Discovering => {
                self.drop_stage(view);
                self.sweep_everything(true, "this process did not run for a while");
            }
            Role::Standby { .. } => {
                self.drop_stage(view);
                self.poll_master();
            }
            Role::Master => {
                if view.stage == StageView::HandingOver {
                    self.drop_stage(view);
                }
                self.queue_action(Action::RepeatGets);
                self.inquire(MastershipDoubt::Paused, None, view, now);
            }
        }
    }

    /// Handles the coming up of the own port's link. If the store does not answer either, another
    /// manager may have taken over unnoticed, as in a pause of this process.
    pub fn on_port_up(&mut self, view: &mut View<'_>, now: Time) {
        if self.is_master() && self.epoch.is_silent {
            if view.stage == StageView::HandingOver {
                self.drop_stage(view);
            }
            self.inquire(MastershipDoubt::Paused, None, view, now);
        }
    }

    /// Suspects another master if `data`, the answer to the query `query` of a sweep, is a PortInfo
    /// whose MasterSMLID was this manager's LID and is another LID now.
    pub fn suspect_another_master(&mut self, query: Query, data: &[u8; 64], inventory: &Inventory) {
        let Query::Port(key) = query else { return };
        let Some(own) = inventory.own_info().map(|info| info.lid()) else {
            return;
        };
        let known = inventory
            .hardware
            .port(key)
            .and_then(|port| port.info.as_ref());
        let followed = known.is_some_and(|info| info.master_sm_lid() == own);
        let master = PortInfo::from_data(data).master_sm_lid();
        if followed && master != own && master.is_unicast() {
            self.doubts.suspicion = Some(Suspicion { lid: Some(master) });
        }
    }

    /// Whether [`Mastership::resolve_doubts`] has something to do.
    pub fn has_doubts(&self) -> bool {
        !self.doubts.is_settled()
    }

    /// Begins an inquiry after a sign of another master, or ends the inquiry under way if its
    /// answers suffice.
    pub fn resolve_doubts(&mut self, view: &mut View<'_>, now: Time) {
        if let Some(suspicion) = self.doubts.suspicion.take()
            && self.is_master()
            && !self.policy.ignores_others
            && !self.is_inquiring()
            && view.stage != StageView::HandingOver
        {
            self.inquire(MastershipDoubt::Rival, suspicion.lid, view, now);
        }
        self.try_conclude(view, now);
        if !self.may_be_replaced() {
            for question in self.doubts.take_deferred() {
                self.on_sm_info(&question, view, now);
            }
        }
    }

    /// Begins an inquiry: halts the push, and sends all queries about another master. Answers to an
    /// earlier inquiry no longer count. `lid` is the LID of a suspected master, if it is known.
    pub(crate) fn inquire(
        &mut self,
        doubt: MastershipDoubt,
        lid: Option<Lid>,
        view: &View<'_>,
        now: Time,
    ) {
        let is_checked = doubt == MastershipDoubt::Paused && self.check_epoch();
        let Some(local) = view.inventory.hardware.local else {
            return;
        };
        self.queue_action(Action::HaltPush);
        let before = self.doubts.inquiry.as_ref();
        let is_deposed = before.is_some_and(|before| before.is_deposed);
        self.drop_inquiry();
        let mut questions: Vec<Question> = vec![Question::OwnPort(local)];
        questions.extend(manager_ports(view.inventory).map(Question::Manager));
        questions.extend(lid.map(Question::Lid));
        let epoch_until = is_checked.then_some(now + CHECK_LIMIT);
        let inquiry = Inquiry::new(doubt, epoch_until, is_deposed, now);
        self.doubts.inquiry = Some(Box::new(inquiry));
        for question in questions {
            self.ask_urgently(question, view);
        }
    }

    /// Asks the store whether an epoch that was granted while the inquiry is open is still held:
    /// the grant may date from before the pause.
    pub(crate) fn check_granted(&mut self, now: Time) {
        if self.may_be_replaced()
            && self.check_epoch()
            && let Some(inquiry) = &mut self.doubts.inquiry
        {
            inquiry.epoch_until = Some(now + CHECK_LIMIT);
        }
    }

    /// Sends a question with urgent priority. A question to a port without a known path is dropped.
    fn ask_urgently(&mut self, question: Question, view: &View<'_>) {
        let inventory = &*view.inventory;
        let (key, attribute, modifier): (_, AttrId, _) = match question {
            Question::OwnPort(key) => {
                (Some(key), PortInfo::ID, PortInfo::modifier(key.port, false))
            }
            Question::Manager(key) => (Some(key), SmInfo::ID, 0),
            Question::Lid(_) => (None, SmInfo::ID, 0),
        };
        let holder = match question {
            Question::Lid(lid) => inventory.hardware.by_lid(lid),
            _ => key,
        };
        let paths = holder.and_then(|holder| inventory.hardware.paths_to(holder));
        let (target, routes) = match (question, key, paths) {
            // The port may hold another LID by now, so the LID comes first. On planar fabrics only
            // the directed routes arrive.
            (Question::Lid(lid), _, Some((path, alternate))) => {
                let routes = Routes::to_agent(Some(lid), path, alternate);
                (u64::from(lid.0), routes)
            }
            (Question::Lid(lid), _, None) => (u64::from(lid.0), lid.into()),
            (_, Some(key), Some((path, alternate))) => {
                (key.node.0, Routes::to_agent(None, path, alternate))
            }
            (_, _, _) => return,
        };
        let m_keys = match holder {
            Some(holder) => inventory.m_keys_to_manager(holder, 0),
            None => view.policy.ports.m_keys.one.into(),
        };
        if let Some(inquiry) = &mut self.doubts.inquiry {
            inquiry.count_query();
        }
        self.queue_action(Action::Ask(Box::new(Request {
            m_keys,
            priority: Priority::Urgent,
            ..Request::get(
                target,
                routes,
                attribute,
                modifier,
                MastershipRequest::Inquiry(question),
            )
        })));
    }

    /// Handles the answer to `question`, or the failure to get one.
    pub(crate) fn on_inquiry(
        &mut self,
        question: Question,
        outcome: &Result<Response, RequestFailure>,
        view: &mut View<'_>,
    ) {
        let Some(inquiry) = &mut self.doubts.inquiry else {
            return;
        };
        inquiry.count_end();
        let data = outcome
            .as_ref()
            .ok()
            .filter(|response| response.status.is_ok())
            .map(|response| &response.data);
        match (question, data) {
            (Question::OwnPort(key), Some(data)) => {
                self.on_own_port(key, PortInfo::from_data(data), view)
            }
            (Question::OwnPort(_), None) => inquiry.own_port_silent = true,
            (Question::Manager(key), data) => {
                self.on_manager(key, data.map(SmInfo::from_data), view)
            }
            (Question::Lid(lid), Some(data)) => {
                self.on_manager_at(lid, SmInfo::from_data(data), view)
            }
            (Question::Lid(_), None) => {}
        }
    }

    /// Handles PortInfo of the own port: asks the manager at MasterSMLID if that is another
    /// manager, and records whether another manager has written the port.
    fn on_own_port(&mut self, key: PortKey, info: &PortInfo, view: &View<'_>) {
        let known = view.inventory.hardware.port(key).and_then(|port| port.info);
        let Some(known) = known else { return };
        let master = info.master_sm_lid();
        let follows_another = master.is_unicast() && master != info.lid() && master != known.lid();
        let is_changed = (known.master_sm_lid(), known.m_key(), known.lid())
            != (master, info.m_key(), info.lid());
        if let Some(inquiry) = &mut self.doubts.inquiry {
            inquiry.overwritten |= is_changed;
        }
        if follows_another {
            self.ask_urgently(Question::Lid(master), view);
        }
    }

    /// Handles SMInfo of the manager behind a port, or its silence.
    fn on_manager(&mut self, key: PortKey, info: Option<&SmInfo>, view: &mut View<'_>) {
        view.inventory.hardware.put_manager(key, info.copied());
        if let Some(inquiry) = &mut self.doubts.inquiry {
            inquiry.record_manager(key, info.is_some());
        }
    }

    /// Handles SMInfo of the manager at `lid`.
    fn on_manager_at(&mut self, lid: Lid, info: &SmInfo, view: &mut View<'_>) {
        let is_other =
            info.guid() != view.inventory.own_guid() && self.counts(info.guid(), info.sm_key());
        match view.inventory.hardware.by_lid(lid) {
            Some(key) if view.inventory.hardware.local != Some(key) => {
                self.on_manager(key, Some(info), view);
            }
            // The LIDs have changed: a discovery finds the port with this LID.
            _ if is_other && info.sm_state() == SmState::Master => {
                if let Some(inquiry) = &mut self.doubts.inquiry {
                    inquiry.unknown_master = Some(lid);
                }
            }
            _ => {}
        }
    }

    /// Ends the inquiry as soon as its answers suffice. One answer of another master suffices.
    /// Otherwise, all queries and the check of the epoch must have ended, by answers or time-outs.
    fn try_conclude(&mut self, view: &mut View<'_>, now: Time) {
        let Some(inquiry) = &self.doubts.inquiry else {
            return;
        };
        let mut others = self.other_managers(view.inventory);
        others.retain(|other| inquiry.has_answered(other.port));
        let shows_master = inquiry.unknown_master.is_some() || others.iter().any(Other::is_master);
        if !shows_master && inquiry.is_open() {
            return;
        }
        if !shows_master && inquiry.own_port_silent {
            // Without answers of its own port, this manager can neither decide nor set.
            if let Some(inquiry) = &mut self.doubts.inquiry {
                inquiry.again_at = Some(now + ASK_AGAIN);
            }
            return;
        }
        let (doubt, unknown, overwritten) =
            (inquiry.doubt(), inquiry.unknown_master, inquiry.overwritten);
        let is_old = inquiry.asked.is_some_and(|asked| now.since(asked) > FRESH);
        if doubt == MastershipDoubt::Paused && !shows_master && is_old {
            return self.repeat_answered_queries(view);
        }
        let is_deposed = inquiry.is_deposed;
        self.drop_inquiry();
        let rival = others
            .iter()
            .filter(|other| other.is_master())
            .max_by_key(|other| other.precedence())
            .cloned();
        match (doubt, rival, unknown) {
            (MastershipDoubt::Paused, Some(successor), _) => self.step_down(successor, view, now),
            (_, None, Some(lid)) => {
                let cause = format!("another subnet manager is master at LID {lid}");
                self.discover_again(cause, view);
            }
            (_, None, None) if is_deposed => {
                self.discover_again("another manager holds the epoch of the shared store", view);
            }
            (MastershipDoubt::Rival, Some(_), _) => self.resolve_rivals(&others, view, now),
            (_, None, None) => self.remain_master(overwritten, view),
        }
    }

    /// Repeats the queries to the own port and to the managers that have answered. Another query,
    /// or the shared store, has kept the inquiry open for so long that one of these managers may
    /// have taken over since its answer.
    fn repeat_answered_queries(&mut self, view: &View<'_>) {
        let Some(inquiry) = &mut self.doubts.inquiry else {
            return;
        };
        inquiry.asked = None;
        let questions: Vec<Question> = inquiry.answered().map(Question::Manager).collect();
        let own = view.inventory.hardware.local.map(Question::OwnPort);
        for question in own.into_iter().chain(questions) {
            self.ask_urgently(question, view);
        }
    }

    /// Handles masters that ran at the same time as this manager: precedence decides.
    fn resolve_rivals(&mut self, others: &[Other], view: &mut View<'_>, now: Time) {
        let (role, identity) = (&self.election.role, self.identity());
        let verdict = role::decide(role, others, identity, view.inventory.own_guid(), None);
        match verdict {
            ElectionOutcome::HandOver(successor) => {
                self.drop_stage(view);
                if !self.hand_over(successor.clone(), view, now) && successor.is_master() {
                    self.step_down(successor, view, now);
                }
            }
            ElectionOutcome::Be(Role::Standby { master }) => self.step_down(master, view, now),
            ElectionOutcome::Be(_) => {
                self.warn_rivals(others.to_vec(), None, view);
                self.remain_master(true, view);
            }
        }
    }

    /// Leaves the subnet to another master.
    fn step_down(&mut self, master: Other, view: &mut View<'_>, now: Time) {
        self.drop_stage(view);
        self.stand_by(master.clone(), now);
        // The trap states this manager's priority as a standby: its priority as a master gives no
        // precedence over its successor.
        self.send_priority_trap(&master, view);
    }

    /// Discovers the subnet again: another manager is master, and its port is not known.
    pub(crate) fn discover_again(&mut self, cause: impl Into<String>, view: &mut View<'_>) {
        self.drop_stage(view);
        self.election.role = Role::Discovering;
        self.queue_action(Action::ForgetForeignWrites);
        self.sweep_everything(true, cause);
        self.publish();
    }

    /// Stays master: there is no other master, or this manager has precedence. If another one has
    /// written the subnet (`overwritten`), sweeps everything and reads the tables back. Otherwise,
    /// if a push was halted, plans again.
    fn remain_master(&mut self, overwritten: bool, view: &View<'_>) {
        if overwritten {
            self.take_unsure_devices();
            self.sweep_everything(true, "another subnet manager wrote the subnet");
        } else if view.is_push_open {
            let cause =
                "no other master was found: the push that had waited for the answer goes on";
            for device in self.take_unsure_devices() {
                self.queue_action(Action::Work(PassRequest::Switch(device, cause)));
            }
            self.plan_again(cause);
        }
    }

    /// Repeats the inquiry if that is due, and stops waiting for the store once its time limit has
    /// passed.
    pub(crate) fn inquire_again(&mut self, view: &View<'_>, now: Time) {
        let due = self.doubts.inquiry.as_mut().and_then(|inquiry| {
            inquiry.epoch_until.take_if(|until| *until <= now);
            let is_due = inquiry.again_at.is_some_and(|when| when <= now);
            is_due.then_some(inquiry.doubt())
        });
        if let Some(doubt) = due {
            self.inquire(doubt, None, view, now);
        }
    }

    /// Ends the inquiry, and withdraws its open queries.
    pub(crate) fn drop_inquiry(&mut self) {
        if self.doubts.inquiry.take().is_some() {
            let is_of_inquiry = |request| matches!(request, MastershipRequest::Inquiry(_));
            self.queue_action(Action::Withdraw(is_of_inquiry));
        }
    }

    /// Asks the managers at ports with IsSM whose SMInfo is not known. The sweep does not wait for
    /// the answers.
    pub fn ask_silent_managers(&mut self, view: &View<'_>) {
        let inventory = &*view.inventory;
        let silent =
            manager_ports(inventory).filter(|&key| inventory.hardware.manager(key).is_none());
        for key in silent {
            if let Some((path, alternate)) = inventory.hardware.paths_to(key) {
                self.queue_action(Action::Ask(Box::new(Request::get(
                    key.node.0,
                    Routes::to_agent(None, path, alternate),
                    SmInfo::ID,
                    0,
                    MastershipRequest::Manager(key),
                ))));
            }
        }
    }

    /// Handles the answer to [`Mastership::ask_silent_managers`].
    pub(crate) fn on_silent_manager(
        &mut self,
        key: PortKey,
        outcome: &Result<Response, RequestFailure>,
        view: &mut View<'_>,
    ) {
        self.election.silent.record(key, outcome.is_ok());
        let Ok(response) = outcome else { return };
        if !response.status.is_ok() {
            return;
        }
        let info = *SmInfo::from_data(&response.data);
        view.inventory.hardware.put_manager(key, Some(info));
        if info.sm_state() == SmState::Master && self.counts(info.guid(), info.sm_key()) {
            self.doubts.suspicion = Some(Suspicion { lid: None });
        }
    }
}
