//! The handling of datagrams that arrive at the port.

use rsm_mad::Time;
use rsm_mad::transport::{Datagram, RemoteAddress};
use rsm_mad::wire::header::{BASE_VERSION, Class, MadHeader, Method, Status};
use rsm_mad::wire::smp::Smp;
use rsm_mad::wire::{MAD_LEN, MadBytes};

use super::agents::{Agent, AgentId};
use super::rmpp::{Flags, RmppHeader};
use super::send::{Pending, SendKey};
use super::{MadLayer, class};
use crate::abi::UserMadHeader;

impl MadLayer {
    /// Handles an arriving datagram: delivers it to an agent, refuses it if it is a request without
    /// an agent, or drops it.
    pub fn receive(&mut self, datagram: &Datagram, now: Time) {
        let Datagram { mad, remote } = datagram;
        let header = MadHeader::of(mad);
        let is_queue_pair_of_class = (remote.qpn == 0) == header.class().is_subnet_management();
        if header.base_version() != BASE_VERSION || !is_queue_pair_of_class {
            return;
        }
        let Some((id, agent)) = self.agents.addressee(mad) else {
            return self.refuse(mad, *remote);
        };
        let is_segmented =
            class::has_rmpp(header.class()) && RmppHeader::of(mad).has(Flags::ACTIVE);
        if agent.uses_rmpp && is_segmented {
            if let Some(message) = self.segment_arrived(id, datagram, now) {
                self.complete(id, agent, datagram, &message);
            }
            return;
        }
        // A program that does RMPP itself gets all segments of a response, although the request is
        // pending only until the first segment.
        if is_segmented && class::is_response(header) && self.matching_send(id, datagram).is_none()
        {
            return self.deliver_message(agent, remote, mad);
        }
        self.complete(id, agent, datagram, mad);
    }

    /// Handles a message that has arrived completely. A response ends its waiting request; without
    /// such a request, the response is dropped.
    fn complete(&mut self, id: AgentId, agent: Agent, datagram: &Datagram, message: &[u8]) {
        if class::is_response(MadHeader::of(&datagram.mad)) {
            let Some(key) = self.matching_send(id, datagram) else {
                return;
            };
            self.finish(key);
        }
        self.deliver_message(agent, &datagram.remote, message);
    }

    /// Delivers a message to the device of an agent.
    fn deliver_message(&mut self, agent: Agent, remote: &RemoteAddress, message: &[u8]) {
        let header = UserMadHeader {
            id: agent.id,
            qpn: remote.qpn.into(),
            lid: remote.lid.0.into(),
            sl: remote.sl,
            path_bits: remote.path_bits,
            pkey_index: remote.pkey_index,
            ..UserMadHeader::default()
        };
        self.deliver(agent.file, header, message);
    }

    /// The pending send that `datagram` answers or acknowledges; `None` if there is no such send.
    pub(super) fn matching_send(&self, agent: AgentId, datagram: &Datagram) -> Option<SendKey> {
        let header = MadHeader::of(&datagram.mad);
        let response = class::is_response(header);
        let is_match = |pending: &Pending| {
            pending.class() == header.class()
                && (header.class() == Class::SUBNET_DIRECTED
                    || pending.is_response() != response
                        && (response || pending.remote.lid == datagram.remote.lid))
        };
        let mut sends = self.sends.range(SendKey::all_in(agent, header.tid().0));
        sends
            .find(|(_, pending)| is_match(pending))
            .map(|(key, _)| *key)
    }

    /// Answers a Get or a Set without an agent with an error status; drops other datagrams.
    fn refuse(&mut self, mad: &MadBytes, remote: RemoteAddress) {
        let method = MadHeader::of(mad).method();
        if !matches!(method, Method::GET | Method::SET) {
            return;
        }
        let mut answer: [u8; MAD_LEN] = *mad;
        Smp::from_bytes_mut(&mut answer).make_response(Status::UNSUPPORTED_METHOD_ATTRIBUTE);
        self.emit(answer, remote);
    }
}
