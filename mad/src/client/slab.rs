/// The value of an index field that stands for no index.
pub(super) const NONE: u32 = u32::MAX;

/// Values at small, stable indices. The index that was freed last is reused first, so that in a
/// steady state the values stay in the cache.
#[derive(Debug)]
pub(super) struct Slab<T> {
    values: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(super) fn new() -> Slab<T> {
        Slab {
            values: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Stores `value` and returns its index. The caller limits the number of values to far below
    /// `u32::MAX`.
    pub(super) fn insert(&mut self, value: T) -> u32 {
        match self.free.pop() {
            Some(index) => {
                self.values[index as usize] = Some(value);
                index
            }
            None => {
                self.values.push(Some(value));
                (self.values.len() - 1) as u32
            }
        }
    }

    /// Removes and returns the value at `index`.
    ///
    /// # Panics
    /// There is no value at `index`: the caller used the index after the value was removed.
    pub(super) fn remove(&mut self, index: u32) -> T {
        let value = self.values[index as usize].take();
        self.free.push(index);
        value.expect("the index still has its value")
    }

    pub(super) fn len(&self) -> usize {
        self.values.len() - self.free.len()
    }

    /// One past the highest index ever used.
    pub(super) fn end(&self) -> u32 {
        self.values.len() as u32
    }

    pub(super) fn get(&self, index: u32) -> Option<&T> {
        self.values.get(index as usize)?.as_ref()
    }
}

impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, index: u32) -> &T {
        self.values[index as usize]
            .as_ref()
            .expect("the index still has its value")
    }
}

impl<T> std::ops::IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, index: u32) -> &mut T {
        self.values[index as usize]
            .as_mut()
            .expect("the index still has its value")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_are_reused_last_freed_first() {
        let mut slab = Slab::new();
        let indices: Vec<u32> = ["a", "b", "c"].map(|v| slab.insert(v)).to_vec();
        assert_eq!(indices, [0, 1, 2]);
        assert_eq!(slab.remove(0), "a");
        assert_eq!(slab.remove(2), "c");
        assert_eq!(slab.len(), 1);
        assert_eq!(slab.insert("d"), 2);
        assert_eq!(slab.insert("e"), 0);
        assert_eq!((slab[0], slab[1], slab[2]), ("e", "b", "d"));
        assert_eq!(slab.end(), 3);
    }
}
