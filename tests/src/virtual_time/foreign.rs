//! A foreign subnet manager, which manages nothing but takes part in SMInfo, and forged Sets from a
//! host.

use std::time::Duration;

use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::ids::{DirectedPath, Tid};
use rsm_mad::transport::{Datagram, Inbound, RemoteAddress};
use rsm_mad::wire::attr::{Attribute, SmControl, SmInfo, SmState};
use rsm_mad::wire::header::{AttrId, Method, Status};
use rsm_mad::wire::smp::{Smp, SmpRequest};

use super::world::World;

/// A subnet manager that answers only SMInfo.
#[derive(Clone, Debug)]
pub struct ForeignManager {
    /// The GUID in its answers.
    pub guid: Guid,
    /// The priority, 0 to 15; the higher priority wins.
    pub priority: u8,
    /// The SMState in its answers.
    pub state: SmState,
    /// The SM_Key in its answers.
    pub sm_key: u64,
    /// Whether the manager becomes master on HANDOVER; otherwise it refuses.
    pub takes_over: bool,
    /// Whether the manager's process is stopped: IsSM is set at its port, but it answers nothing.
    pub is_frozen: bool,
    /// The received controls, in order.
    pub orders: Vec<SmControl>,
    /// The status of the answers to the manager's own controls, in order.
    pub answers: Vec<Status>,
}

impl ForeignManager {
    /// Creates a manager without an SM_Key that takes over on HANDOVER.
    #[must_use]
    pub fn new(guid: Guid, priority: u8, state: SmState) -> ForeignManager {
        ForeignManager {
            guid,
            priority,
            state,
            sm_key: 0,
            takes_over: true,
            is_frozen: false,
            orders: Vec::new(),
            answers: Vec::new(),
        }
    }

    /// A SubnSet(SMInfo) with a control for the subnet manager at `lid`.
    pub(super) fn order(&self, lid: Lid, control: SmControl) -> Datagram {
        let smp = Smp::lid_routed(&SmpRequest {
            method: Method::SET,
            attribute: AttrId::SM_INFO,
            modifier: control.0,
            tid: Tid(u64::from(control.0)),
            m_key: 0,
            data: *self.info().as_data(),
        });
        Datagram {
            mad: *smp.as_bytes(),
            remote: RemoteAddress::smi(lid),
        }
    }

    /// The answer to `inbound`; `None` if the manager sends none.
    pub(super) fn answer(&mut self, inbound: &Inbound) -> Option<Datagram> {
        let Inbound::Mad(received) = inbound else {
            return None;
        };
        let mut reply = *received;
        let smp = Smp::from_bytes_mut(&mut reply.mad);
        if smp.header().attribute() != SmInfo::ID || self.is_frozen {
            return None;
        }
        let status = match smp.header().method() {
            Method::GET => Status::OK,
            Method::SET => {
                let control = SmControl(smp.header().modifier());
                self.orders.push(control);
                match control {
                    SmControl::HANDOVER if !self.takes_over => Status::INVALID_FIELD,
                    SmControl::HANDOVER => {
                        self.state = SmState::Master;
                        Status::OK
                    }
                    _ => Status::OK,
                }
            }
            Method::GET_RESPONSE => {
                self.answers.push(smp.status());
                return None;
            }
            _ => return None,
        };
        *smp.data_mut() = *self.info().as_data();
        smp.make_response(status);
        Some(reply)
    }

    /// The SMInfo of the manager.
    fn info(&self) -> SmInfo {
        let mut info = SmInfo::default();
        info.set_guid(self.guid)
            .set_sm_key(self.sm_key)
            .set_priority(self.priority)
            .set_sm_state(self.state);
        info
    }
}

impl World {
    /// Sends a node a SubnSet without an M_Key, as a host that is not a subnet manager can, and
    /// advances the time by a millisecond.
    ///
    /// # Panics
    ///
    /// The node does not exist, or a program is at the port from which the SubnSet is sent: port 0
    /// of a switch, port 1 of another node.
    pub fn forge(&mut self, node: Guid, attribute: AttrId, modifier: u32, data: &[u8; 64]) {
        let is_switch = self.sim.switch_info(node).is_ok();
        let port = PortNum(u8::from(!is_switch));
        let attach = self.sim.attach(node, port).expect("the port is free");
        let smp = Smp::directed(
            &DirectedPath::new(),
            &SmpRequest {
                method: Method::SET,
                attribute,
                modifier,
                tid: Tid(1),
                m_key: 0,
                data: *data,
            },
        );
        let datagram = Datagram {
            mad: *smp.as_bytes(),
            remote: RemoteAddress::directed(),
        };
        self.sim.send(attach, &datagram, self.now);
        self.run_for(Duration::from_millis(1));
        self.sim.detach(attach);
    }
}
