//! Turns of ports: the order in which ports take destinations.

use crate::topology::Group;

/// The turns of the fastest of some ports. A slower port gets as many of 16 turns as its rate is
/// full sixteenths of the fastest, so that no port takes longer for its share than the fastest one;
/// finer steps make longer lists for no visible balance. A port slower than one sixteenth gets no
/// turn: one destination in so many would already take longer there than all the others elsewhere.
const TURNS: u64 = 16;

/// Whether a link with this rate gets no turn beside one with the rate `fastest`.
pub(super) fn is_negligible(rate: u32, fastest: u32) -> bool {
    u64::from(rate) * TURNS < u64::from(fastest)
}

/// Writes the turns of every port of `groups` to `slots`: neighbours alternate, each with as many
/// turns as its links are fast, and the links to one neighbour take its turns in rotation. Ports
/// far slower than the fastest have none.
pub(super) fn fill<'a>(slots: &mut Vec<u8>, groups: impl Iterator<Item = Group<'a>> + Clone) {
    slots.clear();
    let mut first = groups.clone();
    if let (Some(only), None) = (first.next(), first.next())
        && let [link] = only.links
    {
        // No choice at all: most switches on the way down.
        slots.push(link.port.0);
        return;
    }
    let links = || groups.clone().flat_map(|group| group.links);
    let fastest = links().map(|link| link.weight).max().unwrap_or(1);
    let slowest = links().map(|link| link.weight).min().unwrap_or(1);
    let first = groups.clone().next().map_or(0, |group| group.links.len());
    if fastest == slowest && groups.clone().all(|group| group.links.len() == first) {
        // The case of nearly every switch: equal links to equal neighbours.
        for link in 0..first {
            slots.extend(groups.clone().map(|group| group.links[link].port.0));
        }
        return;
    }
    let turns = |weight: u32| u64::from(weight) * TURNS / u64::from(fastest);
    let common = links().fold(0, |common, link| gcd(common, turns(link.weight)));
    let mut queue: Vec<(Moment, usize, u8)> = Vec::new();
    for (number, group) in groups.clone().enumerate() {
        let mut own: Vec<(Moment, u8)> = Vec::new();
        for link in group.links {
            let count = turns(link.weight) / common;
            own.extend((0..count).map(|turn| (Moment::of(turn, count), link.port.0)));
        }
        own.sort();
        let count = own.len() as u64;
        let moments = (0..count).map(|turn| Moment::of(turn, count));
        queue.extend(
            moments
                .zip(own)
                .map(|(moment, (_, port))| (moment, number, port)),
        );
    }
    queue.sort();
    slots.extend(queue.into_iter().map(|(_, _, port)| port));
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The middle of turn `turn` of `count`, as a fraction of the round.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Moment {
    numerator: u64,
    denominator: u64,
}

impl Moment {
    fn of(turn: u64, count: u64) -> Moment {
        Moment {
            numerator: 2 * turn + 1,
            denominator: 2 * count,
        }
    }
}

impl Ord for Moment {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.numerator * other.denominator).cmp(&(other.numerator * self.denominator))
    }
}

impl PartialOrd for Moment {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use rsm_ids::PortNum;

    use super::*;
    use crate::topology::{HalfLink, SwitchIdx};

    fn turns(neighbours: &[&[(u8, u32)]]) -> Vec<u8> {
        let links: Vec<Vec<HalfLink>> = neighbours
            .iter()
            .map(|links| {
                let half = |&(port, weight)| HalfLink {
                    port: PortNum(port),
                    peer_port: PortNum(1),
                    weight,
                };
                links.iter().map(half).collect()
            })
            .collect();
        let groups = links.iter().enumerate().map(|(number, links)| Group {
            neighbour: SwitchIdx(number as u32),
            links,
        });
        let mut slots = Vec::new();
        fill(&mut slots, groups);
        slots
    }

    #[test]
    fn equal_neighbours_alternate_and_parallel_links_rotate() {
        let slots = turns(&[&[(1, 4), (2, 4)], &[(3, 4), (4, 4)], &[(5, 4), (6, 4)]]);
        assert_eq!(slots, [1, 3, 5, 2, 4, 6]);
    }

    #[test]
    fn a_neighbour_with_more_links_has_more_turns() {
        let slots = turns(&[&[(1, 4), (2, 4)], &[(3, 4)]]);
        assert_eq!(slots, [1, 3, 2]);
    }

    #[test]
    fn a_slow_link_has_fewer_turns() {
        let slots = turns(&[&[(1, 400)], &[(2, 100)]]);
        assert_eq!(slots.iter().filter(|&&port| port == 1).count(), 4);
        assert_eq!(slots.iter().filter(|&&port| port == 2).count(), 1);
        // The slow link takes no longer for its turns than the fast one.
        let slots = turns(&[&[(1, 400)], &[(2, 320)]]);
        assert_eq!(slots.iter().filter(|&&port| port == 1).count(), 4);
        assert_eq!(slots.iter().filter(|&&port| port == 2).count(), 3);
    }

    #[test]
    fn a_link_below_a_sixteenth_has_turns_only_where_no_faster_one_is() {
        assert_eq!(turns(&[&[(1, 1_000_000)], &[(2, 1)]]), [1]);
        assert_eq!(turns(&[&[(1, 160), (2, 9)], &[(3, 160)]]), [1, 3]);
        assert_eq!(turns(&[&[(1, 160), (2, 10)], &[(3, 160)]]).len(), 33);
        assert_eq!(turns(&[&[(2, 1)]]), [2]);
    }

    #[test]
    fn no_groups_give_no_turns() {
        assert!(turns(&[]).is_empty());
    }
}
