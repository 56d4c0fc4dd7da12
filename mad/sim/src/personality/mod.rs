//! The behaviour of devices that the specification does not describe, or that deviates from agents
//! without habits.
//!
//! A [`Personality`] is a set of [`Habit`]s and of PortInfo fields that a device mishandles. Every
//! node has a personality, which is empty by default. [`HABITS`] lists each habit with its source,
//! and [`Devices`] gives a whole fabric its personalities.

mod capabilities;
mod devices;
mod fields;
mod habits;

use std::ops::BitOr;

pub(crate) use capabilities::Role;
pub use devices::{Devices, DevicesError};
pub(crate) use fields::AcceptingPorts;
pub use fields::{PortField, PortFields};
pub use habits::{HABITS, Habit, HabitInfo, MODELS, Model, NodeKinds};

/// The peculiarities of a device. The default is an agent that follows the specification, without
/// delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Personality {
    /// The habits, each as the bit [`Habit::bit`].
    habits: u64,
    /// The fields whose old values an answer shows once; see [`Personality::shows_old_once`].
    old_once: PortFields,
    /// The fields whose old values every answer shows; see [`Personality::shows_old_always`].
    old_always: PortFields,
    /// The fields that a Set does not change; see [`Personality::drops`].
    dropped: PortFields,
}

impl Personality {
    /// The personality without habits.
    pub const POLITE: Personality = Personality {
        habits: 0,
        old_once: PortFields::NONE,
        old_always: PortFields::NONE,
        dropped: PortFields::NONE,
    };

    /// A device whose answer to a Set shows the old value of these fields once: for each port and
    /// field, in the first Set since power-on that changes the field. The device holds the new
    /// value.
    pub const fn shows_old_once(fields: PortFields) -> Personality {
        Personality {
            old_once: fields,
            ..Personality::POLITE
        }
    }

    /// A device whose answer to a Set always shows the old value of these fields. The device holds
    /// the new value, and a Get shows it.
    pub const fn shows_old_always(fields: PortFields) -> Personality {
        Personality {
            old_always: fields,
            ..Personality::POLITE
        }
    }

    /// A device that accepts a Set of these fields, but keeps their values.
    pub const fn drops(fields: PortFields) -> Personality {
        Personality {
            dropped: fields,
            ..Personality::POLITE
        }
    }

    /// Whether the device has this habit.
    pub const fn has(self, habit: Habit) -> bool {
        self.habits & habit.bit() != 0
    }

    /// The personality without the habits that a node of this kind cannot have.
    pub(crate) fn fitting(self, kind: rsm_routing::netlist::NodeKind) -> Personality {
        let habits = HABITS
            .iter()
            .filter(|info| info.nodes.contains(kind))
            .fold(0, |bits, info| bits | info.habit.bit());
        Personality {
            habits: self.habits & habits,
            ..self
        }
    }

    pub(crate) fn old_once(self) -> PortFields {
        self.old_once
    }

    pub(crate) fn old_always(self) -> PortFields {
        self.old_always
    }

    pub(crate) fn dropped(self) -> PortFields {
        self.dropped
    }
}

impl From<Habit> for Personality {
    fn from(habit: Habit) -> Personality {
        Personality {
            habits: habit.bit(),
            ..Personality::POLITE
        }
    }
}

impl<P: Into<Personality>> BitOr<P> for Personality {
    type Output = Personality;

    /// The union of the habits of both personalities.
    fn bitor(self, other: P) -> Personality {
        let other = other.into();
        Personality {
            habits: self.habits | other.habits,
            old_once: self.old_once | other.old_once,
            old_always: self.old_always | other.old_always,
            dropped: self.dropped | other.dropped,
        }
    }
}

impl BitOr for Habit {
    type Output = Personality;

    fn bitor(self, other: Habit) -> Personality {
        Personality::from(self) | other
    }
}
