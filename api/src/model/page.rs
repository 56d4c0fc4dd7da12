/// A part of a list; all items come from one snapshot.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    /// The generation of the snapshot from which the items come.
    pub generation: u64,
    /// The items, in ascending order of the key of their kind.
    pub items: Vec<T>,
}

/// A message of a list, with its sort key.
#[derive(Debug, Clone, PartialEq)]
pub struct Keyed<K, M> {
    /// The key.
    pub key: K,
    /// The message.
    pub message: M,
}
