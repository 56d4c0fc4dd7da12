//! A simulated InfiniBand fabric: SM agents, links, faults, in virtual time.
//!
//! [`Sim`] is the hardware that a subnet manager manages: switches, channel adapters and routers
//! with their agents, cables, and faults. The hardware forwards by its programmed tables, so a
//! wrong table loses packets. The simulation has no clock, no thread and no socket: the caller
//! passes the time. A run is a function of the netlist, the configuration, the seed, and the calls.
//!
//! [`live`] runs a simulation in real time, behind the same
//! [`Transport`](rsm_mad::transport::Transport) as hardware.
//!
//! # What is modelled
//!
//! * Agents: NodeInfo, NodeDescription, SwitchInfo, PortInfo, GUIDInfo, P_KeyTable,
//!   SLtoVLMappingTable, VLArbitrationTable, LinearForwardingTable, MulticastForwardingTable, with
//!   the statuses of IBA 13.4.7; M_Key protection with its lease (IBA 14.2.4). Requests that no
//!   agent answers, SMInfo among them, go to the client at the port.
//! * Routes: directed routes hop by hop, by each node's agent; LID routes by the linear tables,
//!   multicast by the multicast tables; VL15 packets over every link that is up, data over Active
//!   links only. Each agent has a buffer and a service time. General service datagrams go from
//!   client to client like data, and are lost if the receiving port is no member of their
//!   partition.
//! * Performance management: PortCounters, PortCountersExtended, PortRcvErrorDetails,
//!   PortXmitDiscardDetails and PortExtendedSpeedsCounters of every port, which count general
//!   service datagrams, the packets of probes, lost links and drops, and errors at a rate that the
//!   caller sets ([`Sim::set_errors`]).
//! * Adaptive routing of NVIDIA switches: ARInfo, groups, and entries that name a group. For the
//!   packets of connections, the caller chooses whether a switch uses the worst port of a group or
//!   a random one ([`Sim::probe_choices`]). The table that a switch uses may differ from the table
//!   that a Get returns ([`Sim::set_adaptive_routing`]).
//! * Virtual ports of hosts' ports: their attributes, traps 1144 and 1146, and packets between
//!   them by LID and GUID ([`Sim::probe_vport`]).
//! * Links: training, Down, Init, Armed, Active at both ends; unplugging, reboots, power;
//!   PortStateChange and traps.
//! * Devices: the peculiarities of agents, by [`Personality`], of single nodes or of all
//!   ([`Devices`]).
//! * Faults: loss, duplicated and late answers, BUSY, silence.
//!
//! # What is not modelled
//!
//! * Random forwarding tables, and congestion: settings of congestion control are stored, but have
//!   no effect.
//! * Counters of SMPs, and samples of performance management.
//! * Directed routes with LID-routed parts are refused.
//! * Switches enforce partitions only for the packets of [`Sim::probe_partition`].
//! * There are no global route headers.
//! * Links have no bandwidth: packets do not queue for them.

mod adaptive;
mod agent;
mod causes;
mod choices;
mod config;
mod congestion;
mod congestion_agent;
mod control;
mod counters;
mod device;
mod directed;
mod error;
mod fabric;
mod fault;
mod journal;
mod link;
pub mod live;
mod multicast;
mod notice;
mod packet;
mod performance;
mod personality;
mod probe;
mod queue;
mod rng;
mod route;
mod sim;
mod specification;
mod state;
mod tally;
mod transit;
mod trap;
mod vports;

pub use choices::{Choices, Picks};
pub use config::{SimConfig, VPortLids, VPortsError};
pub use congestion_agent::CongestionAgent;
pub use control::ReportedGuids;
pub use counters::{DropReason, SimCounters};
pub use error::SimError;
pub use fabric::{LinearWrites, Silence};
pub use journal::{SetJournal, SetJournalEntry};
pub use multicast::MulticastProbe;
pub use personality::{
    Devices, DevicesError, HABITS, Habit, HabitInfo, MODELS, Model, NodeKinds, Personality,
    PortField, PortFields,
};
pub use probe::Probe;
pub use sim::{AttachId, Sim};
pub use vports::{VPortAt, VPortProbe, VPortView};
