//! Iterates over the paths from any port of one set to any port of another set.

use std::ops::Range;

use rsm_ids::Lid;
use rsm_mad::wire::sa::PathRecord;

use super::Finder;
use crate::ends::EndIx;

/// The ports at one end of paths, and their LID if the query states it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct EndRange {
    pub(super) range: Range<u32>,
    /// LID that the paths must use; `None` for all LIDs of each port.
    pub(super) lid: Option<Lid>,
}

/// Preference of a path that shares no LID with an earlier path.
const FIRST_CHOICE: u8 = 0;

/// Preference of all other paths.
const OTHER_CHOICE: u8 = 2;

/// Examines pairs of ports, with all sources for each destination, and pairs of their LIDs.
///
/// The first path between ports on rails is the path of their rails. The first paths between two
/// ports share no LID, so that a host that uses several paths has redundancy at both ends; all
/// other paths follow. Each step examines one pair of LIDs, and therefore takes a bounded time.
pub(super) struct Pairs {
    finder: Finder,
    from: EndRange,
    to: EndRange,
    /// Maximum number of paths between two ports; `None` if the number is not limited.
    max_paths: Option<usize>,
    /// Pair of ports under examination.
    current: Option<Pair>,
    /// Indices of the source and the destination of the next pair of ports.
    next: (u32, u32),
}

/// A pair of ports under examination.
struct Pair {
    from: EndIx,
    to: EndIx,
    slids: Lids,
    dlids: Lids,
    /// Number of pairs of LIDs examined so far, including skipped pairs.
    examined: usize,
    /// Number of paths found so far.
    found: usize,
}

/// Consecutive LIDs of a port, which may begin with any of its LIDs and wrap around.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Lids {
    base: Lid,
    count: usize,
    /// Offset of the first LID from `base`.
    first: usize,
}

impl Lids {
    /// The LID at a position in this order; `None` if `index` is not below `count`.
    fn get(self, index: usize) -> Option<Lid> {
        let offset = (self.first + index) % self.count;
        (index < self.count).then(|| Lid(self.base.0 + offset as u16))
    }
}

impl Pairs {
    pub(super) fn new(
        finder: Finder,
        from: EndRange,
        to: EndRange,
        max_paths: Option<usize>,
    ) -> Pairs {
        let next = (from.range.start, to.range.start);
        Pairs {
            finder,
            from,
            to,
            max_paths,
            current: None,
            next,
        }
    }

    /// Moves to the next pair of ports; `None` after the last pair.
    fn advance(&mut self) -> Option<(EndIx, EndIx)> {
        let (from, to) = self.next;
        if !self.from.range.contains(&from) || !self.to.range.contains(&to) {
            return None;
        }
        self.next = if to + 1 < self.to.range.end {
            (from, to + 1)
        } else {
            (from + 1, self.to.range.start)
        };
        Some((EndIx(from), EndIx(to)))
    }

    fn pair(&self, from: EndIx, to: EndIx) -> Pair {
        let directory = &self.finder.directory;
        let lids = |ix, only: Option<Lid>, from| {
            let end = directory.end(ix);
            let count = only.map_or(usize::from(end.lmc.lids()), |_| 1);
            Lids {
                base: only.unwrap_or(end.lid),
                count,
                // Both ends get the same path.
                first: directory.first_lid_index(from, ix, count),
            }
        };
        Pair {
            from,
            to,
            slids: lids(from, self.from.lid, to),
            dlids: lids(to, self.to.lid, from),
            examined: 0,
            found: 0,
        }
    }
}

impl Pair {
    /// The next pair of LIDs and its preference; `None` after the last pair.
    fn lids(&mut self) -> Option<(Lid, Lid, u8)> {
        loop {
            let examined = self.examined;
            self.examined += 1;
            if let Some(first) = self.slids.get(examined).zip(self.dlids.get(examined)) {
                return Some((first.0, first.1, FIRST_CHOICE));
            }
            let columns = self.dlids.count;
            let remaining = examined - self.slids.count.min(columns);
            let (row, column) = (remaining / columns, remaining % columns);
            let (slid, dlid) = (self.slids.get(row)?, self.dlids.get(column)?);
            if row != column {
                return Some((slid, dlid, OTHER_CHOICE));
            }
        }
    }
}

impl Iterator for Pairs {
    /// A path, or `None` for an examined pair without a path.
    type Item = Option<PathRecord>;
    fn next(&mut self) -> Option<Self::Item> {
        let Some(pair) = &mut self.current else {
            let (from, to) = self.advance()?;
            if self.max_paths != Some(0) && self.finder.may_pair(from, to) {
                self.current = Some(self.pair(from, to));
            }
            return Some(None);
        };
        let enough = self
            .max_paths
            .is_some_and(|max_paths| pair.found >= max_paths);
        let Some((slid, dlid, preference)) = pair.lids().filter(|_| !enough) else {
            self.current = None;
            return Some(None);
        };
        let ends = ((pair.from, slid), (pair.to, dlid));
        let path = self.finder.path(ends.0, ends.1, preference).ok();
        pair.found += usize::from(path.is_some());
        Some(path)
    }
}
