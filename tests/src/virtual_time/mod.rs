//! A whole subnet in virtual time: subnet managers, the simulated fabric under them, and what
//! happens to both.
//!
//! * [`World`] moves datagrams and time between [`rsm::core::Core`] and [`rsm_sim::Sim`], on one
//!   thread. A run is a function of the netlist, the [`Settings`] and the calls, so that a failing
//!   run can be repeated by its seed.
//! * [`expect`] says what has to hold once a subnet is quiet: ports Active, pairs reachable.
//! * [`partitions`] says whether the hardware holds the P_Keys that were planned.
//! * [`hosts`] has hosts ask the SA, through faults.
//! * [`deliveries`] follows packets after every Set: whether any is lost on the way from one set of
//!   tables to the next.
//! * [`watch`] looks at every state that was ever on the wire: credit loops, moved LIDs.
//! * [`seeds`] runs a scenario for many seeds and says how to repeat the one that fails.

pub mod deliveries;
mod dice;
pub mod expect;
mod foreign;
pub mod hosts;
mod ledger;
mod manager;
pub mod partitions;
pub mod seeds;
pub mod watch;
mod world;

pub use dice::Dice;
pub use foreign::ForeignManager;
pub use ledger::Ledger;
pub use manager::{Manager, Memory};
pub use world::{Settings, World, first_host};
