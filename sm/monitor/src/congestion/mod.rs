//! Congestion control (IBA annex A10): how switches mark packets that wait, and how adapters slow
//! down in response.
//!
//! [`CongestionManager`] is a state machine without I/O. It reads the settings of every agent of
//! the class with general service datagrams, compares them with the
//! [`CongestionPolicy`](rsm_config::CongestionPolicy), and writes settings that differ. The core
//! owns the manager, and sends its datagrams only while the core may write to devices and has no
//! other work. While congestion control is off, no datagram of the class is sent, and devices keep
//! their settings.
//!
//! ```text
//! ClassPortInfo ─▶ CongestionInfo ─▶ CongestionKeyInfo ─▶ settings of a switch ─────────────▶ Set
//!      │ refused, silent                 (where rsm         settings of an adapter ─▶ table ─▶ Set
//!      ▼                                  gives keys)
//!   no agent: not asked again
//! ```
//!
//! An agent is read again when its port comes up, when a link of its switch comes up (the switch
//! may have been reset), and when the policy changes.

mod agent;
mod manager;

#[cfg(test)]
mod tests;

pub use self::manager::CongestionManager;
pub use crate::agent_window::Transmit;
