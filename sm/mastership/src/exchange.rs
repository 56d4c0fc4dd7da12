//! The exchange of SMInfo between subnet managers: SubnGet and SubnSet(SMInfo), in both directions
//! (IBA 14.4.1).

use rsm_ids::PortKey;
use rsm_mad::Time;
use rsm_mad::client::{Request, Routes};
use rsm_mad::ids::Tid;
use rsm_mad::transport::{Datagram, RemoteAddress};
use rsm_mad::wire::attr::{
    Attribute, LocalChange, LocalChanges, Notice, NoticeType, ProducerType, SmControl, SmInfo,
    SmState, Trap,
};
use rsm_mad::wire::header::{AttrId, Method, Status};
use rsm_mad::wire::smp::{Smp, SmpRequest};
use rsm_plan::Plan;
use rsm_state::{Other, Role};

use crate::Mastership;
use crate::action::{Action, MastershipRequest};
use crate::handover::HandingOver;
use crate::inquiry::Suspicion;
use crate::orders::{LimitedOrder, Refusal};
use crate::role;
use crate::view::{StageView, View};

impl Mastership {
    /// Answers SubnGet(SMInfo) or SubnSet(SMInfo) of another manager; a permitted Set is an order,
    /// which this manager carries out.
    pub fn on_sm_info(&mut self, datagram: &Datagram, view: &mut View<'_>, now: Time) {
        let request = Smp::from_bytes(&datagram.mad);
        let has_key = view
            .inventory
            .accepts_m_key(view.inventory.hardware.local, request.m_key());
        let is_order = request.header().method() == Method::SET;
        if !is_order && self.may_be_replaced() {
            // `defer` drops a request beyond its limit; the sender of that request repeats it.
            self.doubts.defer(datagram);
            return;
        }
        let control = SmControl(request.header().modifier());
        if is_order && !has_key {
            // A Set without the right M_Key gets no answer (IBA 14.2.4.2).
            return self.record_refused_order(datagram, control, view, now);
        }
        let sender = *SmInfo::from_data(request.data());
        let status = match is_order {
            false => Status::OK,
            true if !self.may_order(control, &sender) => {
                self.record_refused_order(datagram, control, view, now);
                Status::INVALID_FIELD
            }
            true if !self.admits_order(control, now) => {
                self.record_refusal(datagram, Refusal::TooManyHandovers, view, now);
                Status::BUSY
            }
            true => Status::OK,
        };
        let mut own_info = self.sm_info(view);
        if !has_key {
            own_info.set_sm_key(0);
        }
        let mut reply = *datagram;
        let smp = Smp::from_bytes_mut(&mut reply.mad);
        *smp.data_mut() = *own_info.as_data();
        smp.make_response(status);
        self.queue_action(Action::Reply(Box::new(reply)));
        if !is_order {
            return;
        }
        if status.is_ok() {
            self.carry_out_order(control, &sender, view);
        } else if status == Status::INVALID_FIELD
            && sender.sm_state() == SmState::Master
            && self.counts(sender.guid(), sender.sm_key())
            && self.election.orders.admit(LimitedOrder::Inquiry, now)
        {
            self.doubts.suspicion = Some(Suspicion { lid: None });
        }
    }

    /// Records a refused order for a finding, unless the order is a handover or an acknowledgement,
    /// which may come from a manager with another SM_Key (IBA 14.4.1). A conforming manager gives a
    /// master no other order.
    fn record_refused_order(
        &mut self,
        datagram: &Datagram,
        control: SmControl,
        view: &View<'_>,
        now: Time,
    ) {
        let may_be_legitimate = [SmControl::HANDOVER, SmControl::ACKNOWLEDGE].contains(&control);
        if !may_be_legitimate && !self.policy.ignores_others {
            self.record_refusal(datagram, Refusal::NotAllowed, view, now);
        }
    }

    /// Records a refused order for a finding, if this manager is master and no inquiry is open.
    fn record_refusal(
        &mut self,
        datagram: &Datagram,
        refusal: Refusal,
        view: &View<'_>,
        now: Time,
    ) {
        let from = Plan::holder(view.plan, &view.inventory.hardware, datagram.remote.lid);
        if self.is_undoubted_master() && self.election.orders.record_refusal(from, refusal, now) {
            self.publish();
        }
    }

    /// Whether this manager is master and no inquiry is open.
    fn is_undoubted_master(&self) -> bool {
        self.is_master() && !self.is_inquiring()
    }

    /// Whether the rate limit permits an order now. Limited are the orders that make this manager
    /// read the whole subnet: a handover to a master, and DISCOVER to a standby.
    fn admits_order(&mut self, control: SmControl, now: Time) -> bool {
        let is_undoubted_master = self.is_undoubted_master();
        let orders = &mut self.election.orders;
        match control {
            SmControl::HANDOVER if is_undoubted_master => orders.admit(LimitedOrder::Handover, now),
            SmControl::DISCOVER => orders.admit(LimitedOrder::Discovery, now),
            _ => true,
        }
    }

    /// Whether `sender` may give the order `control` to this manager in its present role (IBA
    /// 14.4.1).
    fn may_order(&self, control: SmControl, sender: &SmInfo) -> bool {
        let required_state = match control {
            SmControl::ACKNOWLEDGE => SmState::Standby,
            _ => SmState::Master,
        };
        let role = &self.election.role;
        let fits_role = !self.policy.ignores_others
            && match control {
                SmControl::HANDOVER => *role != Role::NotActive,
                SmControl::ACKNOWLEDGE => matches!(role, Role::Standby { .. } | Role::Master),
                // Only the master for which this manager stands by may give these orders.
                SmControl::DISABLE | SmControl::DISCOVER => {
                    matches!(role, Role::Standby { master } if master.guid == sender.guid())
                }
                SmControl::STANDBY => *role == Role::NotActive,
                _ => false,
            };
        fits_role
            && sender.sm_state() == required_state
            && self.counts(sender.guid(), sender.sm_key())
    }

    /// Carries out a permitted order of `sender` (IBA 14.4.1).
    fn carry_out_order(&mut self, control: SmControl, sender: &SmInfo, view: &View<'_>) {
        let sender = sender.guid();
        match control {
            SmControl::HANDOVER => {
                let mut others = role::others(view.inventory).into_iter();
                let known_sender = others.find(|other| other.guid == sender);
                let name = known_sender
                    .as_ref()
                    .map_or_else(|| sender.to_string(), |other| other.name.clone());
                // The handover answers the inquiry: the sender gives the subnet to this manager.
                let was_inquiring = self.is_inquiring();
                self.drop_inquiry();
                if was_inquiring {
                    self.election.role = Role::Discovering;
                    self.queue_action(Action::ForgetForeignWrites);
                    self.epoch.require_new_claim();
                } else if !self.is_master() {
                    // The acknowledgement is sent before the role changes, because it must come
                    // from a standby.
                    if let Some(other) = &known_sender {
                        self.acknowledge(other, view);
                    }
                    self.election.role = Role::Discovering;
                }
                self.election.predecessor = Some(sender);
                self.sweep_everything(true, format!("{name} handed the subnet over"));
            }
            SmControl::DISABLE => {
                self.release_epoch();
                self.election.role = Role::NotActive;
                self.publish();
            }
            SmControl::STANDBY | SmControl::DISCOVER => {
                // The sweep finds the master that gave the order, and ends in standby.
                self.election.role = Role::Discovering;
                self.sweep_everything(false, "ordered by the master subnet manager");
            }
            _ => {}
        }
    }

    /// Offers the subnet to the manager `to`, unless `to` refused it a short time ago or no path
    /// leads to `to`. Returns whether this manager makes the offer.
    pub(crate) fn hand_over(&mut self, to: Other, view: &mut View<'_>, now: Time) -> bool {
        if self.election.has_refused(to.guid, now) {
            return false;
        }
        let Some(request) = self.order(&to, SmControl::HANDOVER, MastershipRequest::HandOver, view)
        else {
            return false;
        };
        view.stage = StageView::HandingOver;
        self.queue_action(Action::HandOver(Box::new(HandingOver::new(to))));
        self.queue_action(Action::Ask(Box::new(request)));
        true
    }

    /// Handles the end of the handover to `to`. `accepted` says whether that manager takes the
    /// subnet.
    pub fn end_hand_over(&mut self, to: Other, accepted: bool, now: Time) {
        // If the other manager is master already, stand by even if it refused: it has precedence,
        // and two masters would undo each other's work.
        if accepted || to.state == SmState::Master {
            self.stand_by(to, now);
        } else {
            self.election.record_refusal(to.guid, now);
            self.plan_again(format!("{} did not take the subnet over", to.name));
        }
    }

    /// Sends trap 144 to the manager `master`, if it is master, counts in the election, and has
    /// lower precedence: a master learns of a priority change only by this trap (IBA 14.4.1).
    pub(crate) fn send_priority_trap(&mut self, master: &Other, view: &View<'_>) {
        let own_info = view.inventory.own_info();
        let Some(own_info) = own_info.filter(|_| {
            master.state == SmState::Master
                && self.counts(master.guid, master.sm_key)
                && role::precedes(self.identity(), view.inventory.own_guid(), master)
        }) else {
            return;
        };
        let mut change = LocalChange::default();
        change
            .set_lid(own_info.lid())
            .set_other_local_changes(true)
            .set_capability_mask(own_info.capability_mask())
            .set_changes(LocalChanges::SM_PRIORITY);
        let notice = Notice::generic(
            NoticeType::Informational,
            ProducerType::CA,
            Trap::LOCAL_CHANGE,
            own_info.lid(),
            &change,
        );
        let trap = Smp::lid_routed(&SmpRequest {
            method: Method::TRAP,
            attribute: AttrId::NOTICE,
            modifier: 0,
            tid: Tid(self.election.next_trap()),
            m_key: 0,
            data: *notice.as_data(),
        });
        self.queue_action(Action::Reply(Box::new(Datagram {
            mad: *trap.as_bytes(),
            remote: RemoteAddress::smi(master.lid),
        })));
    }

    /// The SubnSet(SMInfo) that gives the order `control` to `other`; `None` if there is no path to
    /// `other`.
    fn order(
        &self,
        other: &Other,
        control: SmControl,
        kind: MastershipRequest,
        view: &View<'_>,
    ) -> Option<Request<MastershipRequest>> {
        let (path, alternate) = view.inventory.hardware.paths_to(other.port)?;
        let routes = Routes::to_agent(None, path, alternate);
        let data = *self.sm_info(view).as_data();
        let PortKey { node, .. } = other.port;
        Some(Request {
            m_keys: view.inventory.m_keys_to(other.port),
            ..Request::set(node.0, routes, SmInfo::ID, control.0, data, kind)
        })
    }

    /// Acknowledges the handover of another manager. The answer to the acknowledgement has no
    /// effect.
    fn acknowledge(&mut self, other: &Other, view: &View<'_>) {
        let request = self.order(
            other,
            SmControl::ACKNOWLEDGE,
            MastershipRequest::Announcement,
            view,
        );
        if let Some(request) = request {
            self.queue_action(Action::Ask(Box::new(request)));
        }
    }

    /// The SMInfo of this manager, as other managers see it.
    fn sm_info(&self, view: &View<'_>) -> SmInfo {
        let own_guid = view.inventory.own_guid();
        role::sm_info(
            &self.election.role,
            self.identity(),
            own_guid,
            view.act_count,
        )
    }
}
