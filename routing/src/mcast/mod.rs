//! Multicast: one tree of switches for each multicast LID.
//!
//! A switch forwards a multicast packet by every port of its mask but the one that it came in by
//! (IBA 18.2.4.3.4), so that only masks that form a tree deliver each packet once. A tree here
//! hangs from one switch and goes down from there by the same [`Orientation`] that the unicast
//! routes follow: packets climb towards the top and come down from it, never up again, and the
//! links of all trees and of all unicast routes together cannot form a credit loop. Where that is
//! impossible (routes without an orientation, members without a common top), [`plan`] tries other
//! trees and keeps them only where the dependencies prove acyclic together; else all groups of a
//! service level have parts of one master tree, which is proved on its lanes.
//!
//! A tree that changes keeps every branch that switches hold already, as long as it is among the
//! shortest: a join adds a branch, a leave removes one, a broken link moves the members behind it.
//! So planning would not change a tree that switches hold and that no difference of the fabric
//! concerns: [`follow`] gives the result of [`plan`], and looks at the other trees only.

mod delta;
mod follow;
mod ground;
mod grow;
mod masters;
mod plan;
mod reach;
mod span;

pub use delta::GroundDelta;
pub use follow::{Earlier, Followed, follow};
pub use ground::Ground;
pub use plan::{Held, Job, plan};

pub use crate::tables::{BLOCK_MLIDS, Group, Member, Mft, POSITION_PORTS, PortMask, Tree, Trees};
pub use crate::topology::Orientation;
