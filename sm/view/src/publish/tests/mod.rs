//! Tests of the view over a core that manages a simulated fabric in virtual time.

mod acting;
mod avoided;
mod blame;
mod blame_stories;
mod changes;
mod ledgers;
mod missing;
mod multicast;
mod partitions;
mod port_commands;
mod reading;
mod registrations;
mod report;
mod reports;
mod sa;
mod services;
mod state_source;
mod states;
mod unwritten;
mod world;
