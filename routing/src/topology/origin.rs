//! The topology that another one was made from, and the switches at which the two differ.

use std::sync::Arc;

use rsm_ids::Guid;

use super::Topology;

/// The identity of a topology: its clones share it, and two topologies that were made apart do not,
/// alike or not.
#[derive(Clone, Debug, Default)]
pub struct TopologyId(Arc<()>);

impl TopologyId {
    fn is(&self, other: &TopologyId) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// The origin of a topology. It does not affect the topology: all origins are equal.
#[derive(Clone, Debug, Default)]
pub(super) struct Origin {
    id: TopologyId,
    /// The topology that it was made from, and the switches that were replaced, added or taken out,
    /// sorted.
    earlier: Option<(TopologyId, Arc<[Guid]>)>,
}

impl PartialEq for Origin {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Origin {}

impl Origin {
    /// That of a topology made from `earlier` by a change of `switches`, which are sorted.
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

    /// The GUIDs, sorted, of all switches that `earlier` does not have like this, or that it alone
    /// has: switches with other cables, other end ports, or another description. `None` where that
    /// is not known: where this topology was not made from that one.
    pub fn changes_since(&self, earlier: &TopologyId) -> Option<&[Guid]> {
        if self.origin.id.is(earlier) {
            return Some(&[]);
        }
        let (id, switches) = self.origin.earlier.as_ref()?;
        id.is(earlier).then_some(&**switches)
    }
}
