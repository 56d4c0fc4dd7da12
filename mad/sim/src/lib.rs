//! A simulated InfiniBand fabric: SM agents, links, faults, in virtual time.
//!
//! [`Sim`] is the hardware that a subnet manager looks after: switches, channel adapters and
//! routers with their agents, cables, and everything that can go wrong with them. It forwards by
//! what was programmed into it, so that a wrong table is a lost packet. It has no clock, no thread
//! and no socket: who uses it says what time it is. A run is a function of the netlist, the
//! configuration, the seed, and the calls.
//!
//! [`live`] runs one in real time, behind the same [`Transport`](rsm_mad::transport::Transport) as
//! hardware.
//!
//! # What is modelled
//!
//! * Agents: NodeInfo, NodeDescription, SwitchInfo, PortInfo, GUIDInfo, P_KeyTable,
//!   SLtoVLMappingTable, VLArbitrationTable, LinearForwardingTable, MulticastForwardingTable, with
//!   the statuses of IBA 13.4.7; M_Key protection with its lease (IBA 14.2.4). SMInfo, and whatever
//!   else no agent answers, goes to the client at the port.
//! * Ways: directed routes hop by hop, by each node's agent; LID routes by the linear tables,
//!   multicast by the multicast tables; VL15 wherever a link is up, data over Active links only.
//!   Each agent has a buffer and takes its time. General service datagrams go from client to client
//!   as data does, and are lost where the P_Key that they left with is none of the port's.
//! * Adaptive routing of NVIDIA switches as far as a manager meets it that has none: ARInfo, and a
//!   table in force that is not the one read back ([`Sim::set_adaptive_routing`]).
//! * Links: training, Down, Init, Armed, Active at both ends; unplugging, reboots, power;
//!   PortStateChange and traps.
//! * Devices: what agents do in their own way, by [`Personality`], of single nodes or of all
//!   ([`Devices`]).
//! * Faults: loss, doubled and late answers, BUSY, silence.
//!
//! # What is not
//!
//! * Random forwarding tables, congestion and performance management are not there.
//! * Directed routes with LID-routed parts are refused.
//! * Partitions are enforced by end ports only, not by switches.
//! * There are no global route headers.
//! * Links have no bandwidth: packets do not queue for them.

mod adaptive;
mod agent;
mod config;
mod control;
mod counters;
mod directed;
mod error;
mod fabric;
mod fault;
mod journal;
mod link;
pub mod live;
mod multicast;
mod packet;
mod personality;
mod probe;
mod queue;
mod rng;
mod route;
mod sim;
mod state;
mod transit;
mod trap;
mod wheel;

pub use adaptive::LinearWrites;
pub use config::SimConfig;
pub use counters::{Counters, DropReason};
pub use error::SimError;
pub use fabric::Silence;
pub use journal::{Journal, JournalEntry};
pub use multicast::MulticastProbe;
pub use personality::{
    Devices, DevicesError, HABITS, Habit, HabitInfo, MODELS, Model, NodeKinds, Personality,
    PortField, PortFields,
};
pub use probe::Probe;
pub use sim::{AttachId, Sim};
