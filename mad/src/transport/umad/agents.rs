use std::io;

use super::receiver::OpenPorts;
use crate::wire::header::{Class, Method};

/// A class to register for.
struct AgentSpec {
    class: Class,
    version: u8,
    /// 1 if the kernel does RMPP, that is, segments and reassembles messages, else 0.
    rmpp_version: u8,
    /// The methods of unsolicited datagrams to receive; the kernel allows only one agent of a port
    /// for each method. The SA leaves Report to subscribers on the same host: it sends reports, and
    /// their responses arrive by transaction identifier.
    methods: &'static [u8],
}

/// The methods of unsolicited SMPs to a subnet manager.
const MANAGER_METHODS: &[u8] = &[
    Method::GET.0,
    Method::SET.0,
    Method::TRAP.0,
    Method::REPORT.0,
    Method::TRAP_REPRESS.0,
];

/// The classes of a subnet manager. For performance management and congestion control, the manager
/// only sends requests.
const MANAGER_CLASSES: &[AgentSpec] = &[
    AgentSpec {
        class: Class::SUBNET_DIRECTED,
        version: 1,
        rmpp_version: 0,
        methods: MANAGER_METHODS,
    },
    AgentSpec {
        class: Class::SUBNET_LID_ROUTED,
        version: 1,
        rmpp_version: 0,
        methods: MANAGER_METHODS,
    },
    AgentSpec {
        class: Class::SUBNET_ADMINISTRATION,
        version: 2,
        rmpp_version: 1,
        methods: &[
            Method::GET.0,
            Method::SET.0,
            Method::GET_TABLE.0,
            Method::GET_TRACE_TABLE.0,
            Method::GET_MULTI.0,
            Method::DELETE.0,
        ],
    },
    AgentSpec {
        class: Class::PERFORMANCE,
        version: 1,
        rmpp_version: 0,
        methods: &[],
    },
    AgentSpec {
        class: Class::CONGESTION_CONTROL,
        version: 2,
        rmpp_version: 0,
        methods: &[],
    },
];

/// The classes of an observer, which only sends requests, because a subnet manager may have
/// registered for all methods of the port.
const OBSERVER_CLASSES: &[AgentSpec] = &[
    AgentSpec {
        class: Class::SUBNET_DIRECTED,
        version: 1,
        rmpp_version: 0,
        methods: &[],
    },
    AgentSpec {
        class: Class::SUBNET_LID_ROUTED,
        version: 1,
        rmpp_version: 0,
        methods: &[],
    },
];

/// A class in which a manager only sends requests. If the kernel refuses the registration, the
/// manager runs without the class.
const OPTIONAL_CLASS: AgentSpec = AgentSpec {
    class: Class::VENDOR_DEVICE,
    version: 1,
    rmpp_version: 0,
    methods: &[],
};

/// The purpose for which a port is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    /// A subnet manager: traps and requests of hosts and other managers arrive.
    Manager,
    /// A requester: only responses arrive.
    Observer,
}

/// The classes of `ibping` and `ibsysstat`. ibsim's client library crashes a process that receives
/// such a request without registering for its class; a kernel delivers nothing to an agent without
/// methods.
const TOOL_CLASSES: [u8; 2] = [0x32, 0x33];
const TOOL_OUI: [u8; 3] = [0x00, 0x14, 0x05];

/// A registration for a class was refused.
#[derive(Debug)]
pub(super) struct RegisterError {
    pub(super) class: Class,
    pub(super) source: io::Error,
}

/// The agents of an open port.
#[derive(Debug)]
pub(super) struct Agents {
    ids: Vec<(Class, u32)>,
}

impl Agents {
    /// Registers for all classes of `presence`.
    ///
    /// # Errors
    /// The kernel refuses a class that is not optional.
    pub(super) fn register(ports: &OpenPorts, presence: Presence) -> Result<Agents, RegisterError> {
        let specs = match presence {
            Presence::Manager => MANAGER_CLASSES,
            Presence::Observer => OBSERVER_CLASSES,
        };
        let mut ids = Vec::with_capacity(specs.len());
        for spec in specs {
            let id = ports
                .of_class(spec.class)
                .register(spec.class.0, spec.version, spec.rmpp_version, spec.methods)
                .map_err(|source| RegisterError {
                    class: spec.class,
                    source,
                })?;
            ids.push((spec.class, id));
        }
        if presence == Presence::Manager {
            let AgentSpec { class, version, .. } = OPTIONAL_CLASS;
            let port = ports.of_class(class);
            match port.register(
                class.0,
                version,
                OPTIONAL_CLASS.rmpp_version,
                OPTIONAL_CLASS.methods,
            ) {
                Ok(id) => ids.push((class, id)),
                Err(error) => {
                    tracing::debug!(%class, %error, "cannot register: no firmware is read");
                }
            }
        }
        for class in TOOL_CLASSES {
            let port = ports.of_class(Class(class));
            if let Err(error) = port.register_vendor(class, TOOL_OUI) {
                tracing::debug!(class, %error, "cannot register for the class of a diagnostic tool");
            }
        }
        Ok(Agents { ids })
    }

    /// The agent that sends datagrams of `class`; `None` if no agent is registered for the class.
    pub(super) fn for_class(&self, class: Class) -> Option<u32> {
        let found = self.ids.iter().find(|(other, _)| *other == class);
        found.map(|&(_, id)| id)
    }
}
