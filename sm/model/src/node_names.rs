//! The operator's names of nodes.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use rsm_ids::Guid;

/// The operator's names of nodes, by node GUID.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeNames {
    by_guid: BTreeMap<Guid, String>,
}

impl NodeNames {
    /// Names a node, unless it has a name already. Returns whether it had none.
    pub fn insert(&mut self, node: Guid, name: &str) -> bool {
        match self.by_guid.entry(node) {
            Entry::Occupied(_) => false,
            Entry::Vacant(free) => {
                free.insert(name.to_owned());
                true
            }
        }
    }

    /// The operator's name of a node; `None` if it has none.
    pub fn get(&self, node: Guid) -> Option<&str> {
        self.by_guid.get(&node).map(String::as_str)
    }

    /// Number of named nodes.
    pub fn len(&self) -> usize {
        self.by_guid.len()
    }

    /// Whether no node has a name.
    pub fn is_empty(&self) -> bool {
        self.by_guid.is_empty()
    }

    /// The nodes whose names differ between the two, or that only one of them names.
    pub fn differing<'a>(&'a self, other: &'a NodeNames) -> impl Iterator<Item = Guid> + 'a {
        let here = self.by_guid.keys();
        let there = other.by_guid.keys();
        let there = there.filter(|guid| !self.by_guid.contains_key(guid));
        let all = here.chain(there).copied();
        all.filter(|&guid| self.get(guid) != other.get(guid))
    }
}
