//! Multicast: one tree of switches for each multicast LID.
//!
//! A switch forwards a multicast packet through every port of its mask except the one on which it
//! arrived (IBA 18.2.4.3.4), so that only masks that form a tree deliver each packet once. A tree
//! here has one switch as its top and follows the same [`Orientation`] as the unicast routes:
//! packets go up towards the top and then down, never up again, so that all trees and all unicast
//! routes together cannot form a credit loop. If that is impossible (routes without an orientation,
//! members without a common top), [`plan`] tries other trees, and keeps them only if all
//! dependencies together are proved acyclic; otherwise all groups of a service level get parts of
//! one master tree, which is proved on its VLs.
//!
//! A changed tree keeps every branch that switches hold, if the branch is still a shortest one: a
//! join adds a branch, a leave removes one, a broken link moves the members behind it. A new plan
//! would therefore not change a tree that no difference of the fabric concerns. [`follow`] returns
//! the result of [`plan`], but examines only the other trees.

mod basis;
mod delta;
mod follow;
mod grow;
mod masters;
mod plan;
mod reach;
mod span;

pub use basis::MulticastBasis;
pub use delta::BasisDelta;
pub use follow::{Earlier, Followed, follow};
pub use plan::{Held, Job, plan};

pub use crate::tables::{BLOCK_MLIDS, Group, Member, Mft, POSITION_PORTS, PortMask, Tree, Trees};
pub use crate::topology::Orientation;
