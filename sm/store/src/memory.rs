use super::{ChangeSet, LoadReport, Persisted, Store, StoreError};

/// A store in memory that ends with the process, for tests, simulations, and `--once` without a
/// state directory.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    state: Persisted,
    commits: u64,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }

    /// A store that contains `state`, as if an earlier process had committed it.
    pub fn with(state: Persisted) -> MemoryStore {
        MemoryStore { state, commits: 0 }
    }

    /// Number of commits that changed something.
    pub fn commits(&self) -> u64 {
        self.commits
    }
}

impl Store for MemoryStore {
    fn load(&mut self) -> Result<(Persisted, LoadReport), StoreError> {
        let report = LoadReport {
            generation: self.commits,
            ..LoadReport::default()
        };
        Ok((self.state.clone(), report))
    }

    fn commit(&mut self, changes: &ChangeSet) -> Result<(), StoreError> {
        if !changes.is_empty() {
            self.state.apply(changes);
            self.commits += 1;
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
}
