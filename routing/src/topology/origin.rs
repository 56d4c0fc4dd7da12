//! The topology from which another topology was derived, and the switches at which they differ.

use std::sync::Arc;

use rsm_ids::Guid;

use super::Topology;

/// The identity of a topology. Clones of a topology have the same identity; topologies that were
/// built separately have different identities, even if they are equal.
#[derive(Clone, Debug, Default)]
pub struct TopologyId(Arc<()>);

impl TopologyId {
    fn is(&self, other: &TopologyId) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// The origin of a topology. All origins compare as equal, so that they do not affect the
/// comparison of topologies.
#[derive(Clone, Debug, Default)]
pub(super) struct Origin {
    id: TopologyId,
    /// The topology from which this one was derived, and the GUIDs of the switches that were
    /// replaced, added or removed, sorted; `None` if it was built from parts.
    earlier: Option<(TopologyId, Arc<[Guid]>)>,
}

impl PartialEq for Origin {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Origin {}

impl Origin {
    /// The origin of a topology derived from `earlier` by a change of `switches`, which must be
    /// sorted.
    pub(super) fn after(earlier: &Topology, switches: Vec<Guid>) -> Origin {
        Origin {
            id: TopologyId::default(),
            earlier: Some((earlier.origin.id.clone(), switches.into())),
        }
    }
}

impl Topology {
    /// The identity of this topology and its clones.
    pub fn id(&self) -> &TopologyId {
        &self.origin.id
    }

    /// The GUIDs, sorted, of all switches that only one of this topology and `earlier` has, or that
    /// may differ in cables, end ports or their [`Switch`](super::Switch). `None` if this topology
    /// was not derived from `earlier`.
    pub fn changes_since(&self, earlier: &TopologyId) -> Option<&[Guid]> {
        if self.origin.id.is(earlier) {
            return Some(&[]);
        }
        let (id, switches) = self.origin.earlier.as_ref()?;
        id.is(earlier).then_some(&**switches)
    }
}
