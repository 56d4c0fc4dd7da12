//! Agents of a port, and the choice of the agent that receives an unsolicited datagram.

use std::collections::BTreeMap;

use rsm_mad::ids::Tid;
use rsm_mad::wire::MadBytes;
use rsm_mad::wire::header::{Class, MadHeader};
use rustix::io::Errno;

use super::{FileId, class};

/// The highest class version that an agent can register for (MAX_MGMT_VERSION).
const MAX_CLASS_VERSION: u8 = 0x82;
/// The highest class that an agent can register for, except directed-route subnet management
/// (MAX_MGMT_CLASS).
const MAX_CLASS: u8 = 0x4F;

/// A program's registration of an agent.
#[derive(Debug, Clone, Copy, Default)]
pub struct Registration {
    /// The number of the queue pair: 0 or 1.
    pub qpn: u32,
    /// The class of unsolicited datagrams; 0 for none.
    pub class: u8,
    /// The version of the class.
    pub version: u8,
    /// A bit for each method of unsolicited datagrams.
    pub methods: u128,
    /// The vendor, for classes that have one.
    pub oui: [u8; 3],
    /// The RMPP version: 1 if the layer does RMPP for the agent, else 0.
    pub rmpp_version: u8,
    /// Whether the program does RMPP itself.
    pub user_rmpp: bool,
}

/// The class and method of one kind of unsolicited datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Interest {
    version: u8,
    class: u8,
    oui: [u8; 3],
    method: u8,
}

/// A registered agent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Agent {
    pub(super) file: FileId,
    /// The number of the agent on the open device.
    pub(super) id: u32,
    /// Whether the layer does RMPP for the agent.
    pub(super) uses_rmpp: bool,
}

/// The number in the upper half of transaction identifiers.
pub(super) type AgentId = u32;

/// The agents of a port.
#[derive(Debug, Default)]
pub(super) struct Agents {
    agents: BTreeMap<AgentId, Agent>,
    /// The agent that receives each kind of unsolicited datagram.
    interests: BTreeMap<Interest, AgentId>,
    /// The number of the agent that was registered last.
    registered: u32,
}

impl Agents {
    /// A table without agents that continues the agent numbers after `registered` earlier agents.
    pub(super) fn after(registered: u32) -> Agents {
        Agents {
            registered,
            ..Agents::default()
        }
    }

    /// The number of agents that were ever registered, modulo 2^32.
    pub(super) fn registered(&self) -> u32 {
        self.registered
    }

    /// Registers an agent with number `id` on `file`.
    pub(super) fn register(
        &mut self,
        file: FileId,
        id: u32,
        wanted: &Registration,
    ) -> Result<AgentId, Errno> {
        check(wanted)?;
        let interests = || {
            let methods = if wanted.class == 0 { 0 } else { wanted.methods };
            (0..128u8)
                .filter(move |&method| methods >> method & 1 != 0)
                .map(|method| Interest {
                    version: wanted.version,
                    class: wanted.class,
                    oui: if class::has_oui(Class(wanted.class)) {
                        wanted.oui
                    } else {
                        [0; 3]
                    },
                    method,
                })
        };
        if interests().any(|interest| self.interests.contains_key(&interest)) {
            return Err(Errno::INVAL);
        }
        // Numbers are reused after four billion registrations, unless an agent still has them.
        let agent = loop {
            self.registered = self.registered.wrapping_add(1).max(1);
            if !self.agents.contains_key(&self.registered) {
                break self.registered;
            }
        };
        self.interests
            .extend(interests().map(|interest| (interest, agent)));
        let uses_rmpp = wanted.rmpp_version != 0 && !wanted.user_rmpp;
        self.agents.insert(
            agent,
            Agent {
                file,
                id,
                uses_rmpp,
            },
        );
        Ok(agent)
    }

    pub(super) fn unregister(&mut self, agent: AgentId) {
        self.agents.remove(&agent);
        self.interests.retain(|_, owner| *owner != agent);
    }

    pub(super) fn get(&self, agent: AgentId) -> Option<Agent> {
        self.agents.get(&agent).copied()
    }

    /// The agent that receives a datagram: for a response the agent that sent the request, else the
    /// agent that registered for the class and method.
    pub(super) fn addressee(&self, mad: &MadBytes) -> Option<(AgentId, Agent)> {
        let header = MadHeader::of(mad);
        let id = if class::is_response(header) {
            agent_of(header.tid())
        } else {
            let oui = if class::has_oui(header.class()) {
                class::oui(mad)
            } else {
                [0; 3]
            };
            *self.interests.get(&Interest {
                version: header.class_version(),
                class: header.class().0,
                oui,
                method: header.method().0,
            })?
        };
        Some((id, self.get(id)?))
    }
}

/// The agent that a transaction belongs to.
pub(super) fn agent_of(tid: Tid) -> AgentId {
    (tid.0 >> 32) as u32
}

/// Checks a registration as the kernel does; EINVAL if the kernel refuses it.
fn check(wanted: &Registration) -> Result<(), Errno> {
    let class = Class(wanted.class);
    let is_queue_pair_of_class = match wanted.qpn {
        0 => wanted.class == 0 || class.is_subnet_management(),
        1 => !class.is_subnet_management(),
        _ => false,
    };
    let valid = is_queue_pair_of_class
        && wanted.rmpp_version <= 1
        && (wanted.class == 0
            || (wanted.version <= MAX_CLASS_VERSION
                && (wanted.class <= MAX_CLASS || class == Class::SUBNET_DIRECTED)
                && (!class::has_oui(class) || wanted.oui != [0; 3])
                && (wanted.rmpp_version == 0 || class::has_rmpp(class))));
    if valid { Ok(()) } else { Err(Errno::INVAL) }
}
