//! A subnet manager that does nothing but say what it is.

use rsm_ids::Guid;
use rsm_mad::transport::{Datagram, Inbound};
use rsm_mad::wire::attr::{Attribute, SmInfo, SmState};
use rsm_mad::wire::header::{Method, Status};
use rsm_mad::wire::smp::Smp;

/// Answers SMInfo, and nothing else.
#[derive(Clone, Copy, Debug)]
pub struct ForeignManager {
    /// The GUID it gives as its own.
    pub guid: Guid,
    /// 0 to 15; the higher one has precedence.
    pub priority: u8,
    /// What it says that it is.
    pub state: SmState,
}

impl ForeignManager {
    /// The answer to what reached it, if it has one.
    pub(super) fn answer(&self, inbound: &Inbound) -> Option<Datagram> {
        let Inbound::Mad(request) = inbound else {
            return None;
        };
        let mut reply = *request;
        let smp = Smp::from_bytes_mut(&mut reply.mad);
        let asked = smp.header().method() == Method::GET && smp.header().attribute() == SmInfo::ID;
        if !asked {
            return None;
        }
        let mut info = SmInfo::default();
        info.set_guid(self.guid);
        info.set_priority(self.priority);
        info.set_sm_state(self.state);
        *smp.data_mut() = *info.as_data();
        smp.make_response(Status::OK);
        Some(reply)
    }
}
