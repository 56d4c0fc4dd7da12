use super::slab::NONE;

/// The ends of a list. Many lists share one [`Links`].
#[derive(Debug, Clone, Copy)]
pub(super) struct List {
    head: u32,
    tail: u32,
}

impl List {
    pub(super) const EMPTY: List = List {
        head: NONE,
        tail: NONE,
    };

    pub(super) fn is_empty(&self) -> bool {
        self.head == NONE
    }

    pub(super) fn head(&self) -> Option<u32> {
        (self.head != NONE).then_some(self.head)
    }
}

#[derive(Debug, Clone, Copy)]
struct Link {
    previous: u32,
    next: u32,
}

/// The links of any number of disjoint lists of small indices; an index is in at most one list.
#[derive(Debug, Default)]
pub(super) struct Links {
    links: Vec<Link>,
}

impl Links {
    /// Makes room for the links of `index`.
    fn reserve(&mut self, index: u32) {
        if self.links.len() <= index as usize {
            let unlinked = Link {
                previous: NONE,
                next: NONE,
            };
            self.links.resize(index as usize + 1, unlinked);
        }
    }

    pub(super) fn push_back(&mut self, list: &mut List, index: u32) {
        self.reserve(index);
        let previous = list.tail;
        self.links[index as usize] = Link {
            previous,
            next: NONE,
        };
        match previous {
            NONE => list.head = index,
            _ => self.links[previous as usize].next = index,
        }
        list.tail = index;
    }

    pub(super) fn push_front(&mut self, list: &mut List, index: u32) {
        self.reserve(index);
        let next = list.head;
        self.links[index as usize] = Link {
            previous: NONE,
            next,
        };
        match next {
            NONE => list.tail = index,
            _ => self.links[next as usize].previous = index,
        }
        list.head = index;
    }

    /// Removes `index` from `list`, which must contain it.
    pub(super) fn unlink(&mut self, list: &mut List, index: u32) {
        let Link { previous, next } = self.links[index as usize];
        match previous {
            NONE => list.head = next,
            _ => self.links[previous as usize].next = next,
        }
        match next {
            NONE => list.tail = previous,
            _ => self.links[next as usize].previous = previous,
        }
    }

    pub(super) fn pop_front(&mut self, list: &mut List) -> Option<u32> {
        let head = list.head()?;
        self.unlink(list, head);
        Some(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        /// Lists that share a set of links behave like separate deques.
        #[test]
        fn lists_behave_as_deques(steps in prop::collection::vec((0_u8..4, 0_usize..2, 0_u32..12), 0..200)) {
            let mut links = Links::default();
            let mut lists = [List::EMPTY; 2];
            let mut model = [VecDeque::new(), VecDeque::new()];
            for (action, which, index) in steps {
                let home = model.iter().position(|deque| deque.contains(&index));
                match (action, home) {
                    (0, None) => {
                        links.push_back(&mut lists[which], index);
                        model[which].push_back(index);
                    }
                    (1, None) => {
                        links.push_front(&mut lists[which], index);
                        model[which].push_front(index);
                    }
                    (2, Some(home)) => {
                        links.unlink(&mut lists[home], index);
                        model[home].retain(|&other| other != index);
                    }
                    (3, _) => prop_assert_eq!(links.pop_front(&mut lists[which]), model[which].pop_front()),
                    _ => {}
                }
                for (list, deque) in lists.iter().zip(&model) {
                    prop_assert_eq!(list.is_empty(), deque.is_empty());
                    prop_assert_eq!(list.head(), deque.front().copied());
                }
            }
        }
    }
}
