//! A whole subnet in virtual time: subnet managers, the simulated fabric that they manage, and
//! faults of both.
//!
//! * [`World`] moves datagrams and time between [`rsm_core::Core`] and [`rsm_sim::Sim`], on one
//!   thread. A run is a function of the netlist, the [`Settings`] and the calls, so a failing run
//!   can be repeated by its seed.
//! * [`expect`] makes assertions about a quiet subnet: ports are Active, pairs are reachable.
//! * [`partitions`] checks whether the hardware holds the planned P_Keys.
//! * [`hosts`] simulates hosts that query the SA, through faults.
//! * [`deliveries`] follows packets after every Set, and detects losses between one set of tables
//!   and the next.
//! * [`watch`] checks every state that was ever on the wire for credit loops and moved LIDs, and
//!   with `record` the messages that managers send and the states that they save.
//! * [`Walker`] follows packets between hosts with the switches' tables alone, and shows for how
//!   long pairs are lost.
//! * [`seeds`] runs a scenario for many seeds and prints the command to repeat a failing one.

pub mod deliveries;
mod dice;
pub mod expect;
mod foreign;
pub mod hosts;
mod ledger;
mod manager;
pub mod partitions;
mod record;
pub mod seeds;
mod settings;
mod shared;
mod walker;
pub mod watch;
mod world;

pub use dice::Dice;
pub use foreign::ForeignManager;
pub use ledger::Ledger;
pub use manager::{AfterStall, Manager, Memory};
pub use settings::Settings;
pub use walker::{Pairs, Walker};
pub use watch::BlockWrite;
pub use world::{World, first_host};
