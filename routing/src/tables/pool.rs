//! Shares equal pages between tables.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Lft, PAGE_LIDS, Page, page};
use crate::digest::digest;

/// The number of locks among which pages are distributed: enough that threads seldom wait for each
/// other.
const SHARDS: usize = 16;

/// Pages of the tables that are being computed; equal pages are kept once. In a tree, switches of
/// one rank and one subtree forward to most LIDs in the same way. Sharing does not affect the
/// tables' content.
#[derive(Default)]
pub(crate) struct Pool {
    /// The pages by digest, distributed over the locks by digest.
    shards: [Mutex<HashMap<u64, Vec<Arc<Page>>>>; SHARDS],
}

impl Pool {
    /// Creates a table with these entries, from LID 0 on.
    pub(crate) fn table(&self, entries: &[u8]) -> Lft {
        let pages = entries.chunks(PAGE_LIDS);
        Lft::from_pages(pages.map(|entries| self.page(entries)).collect())
    }

    /// The page with these entries, shared if it was made before.
    fn page(&self, entries: &[u8]) -> Arc<Page> {
        let Ok(whole) = <&Page>::try_from(entries) else {
            return page(entries);
        };
        let digest = digest(whole);
        let shard = &self.shards[digest as usize % SHARDS];
        let known = |pages: &Vec<Arc<Page>>| pages.iter().find(|page| ***page == *whole).cloned();
        if let Some(found) = shard.lock().get(&digest).and_then(known) {
            return found;
        }
        // Allocating memory takes the most time, and happens without the lock.
        let made = page(entries);
        let mut held = shard.lock();
        held.entry(digest).or_default().push(made.clone());
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_pages_are_kept_once() {
        let pool = Pool::default();
        let mut entries: Vec<u8> = (0..9000).map(|lid| (lid % 251) as u8).collect();
        let before = pool.table(&entries);
        entries[5000] = 1;
        let after = pool.table(&entries);
        assert_eq!(
            before.iter().take(9000).filter(|&port| port == 1).count() + 1,
            after.iter().take(9000).filter(|&port| port == 1).count()
        );
        assert!(before.shares_page(&after, 0) && !before.shares_page(&after, 1));
        assert_eq!(before.entry(rsm_ids::Lid(8999)), (8999 % 251) as u8);
        assert_eq!(before.entry(rsm_ids::Lid(9000)), super::super::NO_PATH);
    }
}
