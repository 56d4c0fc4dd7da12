use std::fmt;
use std::str::FromStr;

/// The pattern of a job's traffic, the same on every rail.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Pattern {
    /// Each host sends to the next host.
    Ring,
    /// A binary tree: children send up in one step, then parents send down.
    Tree,
    /// In step k, hosts whose numbers differ only in bit k exchange data.
    RecursiveDoubling,
    /// In step k, each host sends to the k-th host after it.
    AllToAll,
}

impl Pattern {
    /// All patterns.
    pub const ALL: [Pattern; 4] = [
        Pattern::Ring,
        Pattern::Tree,
        Pattern::RecursiveDoubling,
        Pattern::AllToAll,
    ];

    /// The name of the pattern on command lines.
    pub const fn name(self) -> &'static str {
        match self {
            Pattern::Ring => "ring",
            Pattern::Tree => "tree",
            Pattern::RecursiveDoubling => "recursive-doubling",
            Pattern::AllToAll => "all-to-all",
        }
    }

    /// The number of steps for `hosts` hosts; the flows of one step run at the same time.
    pub(super) fn steps(self, hosts: usize) -> usize {
        match self {
            _ if hosts < 2 => 0,
            Pattern::Ring => 1,
            Pattern::Tree => 2,
            Pattern::RecursiveDoubling => (hosts - 1).ilog2() as usize + 1,
            Pattern::AllToAll => hosts - 1,
        }
    }

    /// The hosts to which host `from` of `hosts` sends in a step.
    pub(super) fn targets(
        self,
        hosts: usize,
        step: usize,
        from: usize,
    ) -> impl Iterator<Item = usize> {
        let [one, other] = match self {
            Pattern::Ring => [Some((from + 1) % hosts), None],
            Pattern::Tree if step == 0 => [from.checked_sub(1).map(|below| below / 2), None],
            Pattern::Tree => {
                [2 * from + 1, 2 * from + 2].map(|child| (child < hosts).then_some(child))
            }
            Pattern::RecursiveDoubling => {
                let peer = from ^ (1 << step);
                [(peer < hosts).then_some(peer), None]
            }
            Pattern::AllToAll => [Some((from + step + 1) % hosts), None],
        };
        one.into_iter().chain(other)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The error for a text that names no pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a pattern: expected ring, tree, recursive-doubling or all-to-all")]
pub struct ParsePatternError(pub String);

impl FromStr for Pattern {
    type Err = ParsePatternError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Pattern::ALL
            .into_iter()
            .find(|pattern| pattern.name() == text)
            .ok_or_else(|| ParsePatternError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flows(pattern: Pattern, hosts: usize) -> Vec<Vec<(usize, usize)>> {
        let step = |step| {
            let from = |from| pattern.targets(hosts, step, from).map(move |to| (from, to));
            (0..hosts).flat_map(from).collect()
        };
        (0..pattern.steps(hosts)).map(step).collect()
    }

    #[test]
    fn each_pattern_has_the_flows_of_its_name() {
        assert_eq!(flows(Pattern::Ring, 3), [[(0, 1), (1, 2), (2, 0)]]);
        assert_eq!(
            flows(Pattern::Tree, 4),
            [[(1, 0), (2, 0), (3, 1)], [(0, 1), (0, 2), (1, 3)]]
        );
        let doubling = flows(Pattern::RecursiveDoubling, 3);
        assert_eq!(doubling, [vec![(0, 1), (1, 0)], vec![(0, 2), (2, 0)]]);
        let all: Vec<_> = flows(Pattern::AllToAll, 5).into_iter().flatten().collect();
        assert_eq!(all.len(), 20);
        assert!(
            Pattern::ALL
                .iter()
                .all(|pattern| flows(*pattern, 1).is_empty())
        );
    }
}
