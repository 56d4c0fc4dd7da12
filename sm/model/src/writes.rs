//! A log of the switches that were written, in order.

use std::collections::{BTreeMap, HashMap};

use rsm_ids::Guid;

/// A position between two writes in the log. The default is before the first write.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Mark(u64);

/// Switches in the order of their last writes.
///
/// Each reader keeps its own [`Mark`], so that a result derived from all switches costs only the
/// switches written since.
#[derive(Clone, Default, Debug)]
pub(super) struct Writes {
    /// Number of writes so far.
    count: u64,
    /// Switches by the number of their last write.
    order: BTreeMap<u64, Guid>,
    /// Number of the last write of each switch.
    last: HashMap<Guid, u64>,
}

impl Writes {
    /// Records that `guid` was written, found or dropped.
    pub(super) fn record(&mut self, guid: Guid) {
        self.count += 1;
        if let Some(before) = self.last.insert(guid, self.count) {
            self.order.remove(&before);
        }
        self.order.insert(self.count, guid);
    }

    /// The present position in the log.
    pub(super) fn mark(&self) -> Mark {
        Mark(self.count)
    }

    /// The switches recorded after `mark`, each once.
    pub(super) fn since(&self, mark: Mark) -> impl Iterator<Item = Guid> + '_ {
        self.order.range(mark.0 + 1..).map(|(_, &guid)| guid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reader_sees_every_write_after_its_mark_once() {
        let mut writes = Writes::default();
        let since =
            |writes: &Writes, mark| writes.since(mark).map(|guid| guid.0).collect::<Vec<_>>();
        for guid in [1, 2, 1] {
            writes.record(Guid(guid));
        }
        assert_eq!(since(&writes, Mark::default()), [2, 1]);
        let early = writes.mark();
        assert_eq!(since(&writes, early), Vec::<u64>::new());
        writes.record(Guid(2));
        let late = writes.mark();
        writes.record(Guid(3));
        writes.record(Guid(3));
        assert_eq!(since(&writes, early), [2, 3]);
        assert_eq!(since(&writes, late), [3]);
    }
}
