//! The round-robin lists by which destinations are distributed over ports. Each element of a list
//! is a slot; a faster port has more slots.

use crate::topology::Group;

/// The number of parts into which the fastest rate is divided. A port has slots in proportion to
/// the number of full parts in its rate, so that no port takes longer for its share than the
/// fastest port; finer parts make longer lists without a visible effect on balance. A port slower
/// than one part gets no slot: with one destination of a list, it would take longer than the other
/// ports with all other destinations.
const RATE_PARTS: u64 = 16;

/// The maximum length of a list, unless a slow link would get no slot. Results for longer lists are
/// not shared between switches.
const MAX_SLOTS: usize = 254;

/// Whether a link with this rate gets no slot if the fastest link has the rate `fastest`.
pub(super) fn is_negligible(rate: u32, fastest: u32) -> bool {
    u64::from(rate) * RATE_PARTS < u64::from(fastest)
}

/// The rule by which the rates of links determine their slots.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rates {
    /// Links get slots in proportion to their rates.
    Proportional,
    /// Links at least half as fast as the fastest link get as many slots. On a tree with enough
    /// links, packets of a shift then share no link, and one packet on a slow link is no slower
    /// than two packets on a link twice as fast.
    HalfIsEqual,
}

impl Rates {
    /// Whether links with these slowest and fastest rates get equally many slots.
    fn are_equal(self, slowest: u32, fastest: u32) -> bool {
        match self {
            Rates::Proportional => slowest == fastest,
            Rates::HalfIsEqual => u64::from(slowest) * 2 >= u64::from(fastest),
        }
    }
}

/// Writes the round-robin list of the ports of `groups` to `slots`: neighbours alternate, the links
/// to one neighbour get its slots in rotation, and slower ports have fewer slots. Ports far slower
/// than the fastest get none.
pub(super) fn fill<'a>(
    slots: &mut Vec<u8>,
    groups: impl Iterator<Item = Group<'a>> + Clone,
    rates: Rates,
) {
    slots.clear();
    let mut first = groups.clone();
    if let (Some(only), None) = (first.next(), first.next())
        && let [link] = only.links
    {
        // A single port, as on most switches on the way down, needs no rotation.
        slots.push(link.port.0);
        return;
    }
    let links = || groups.clone().flat_map(|group| group.links);
    let fastest = links().map(|link| link.weight).max().unwrap_or(1);
    let slowest = links().map(|link| link.weight).min().unwrap_or(1);
    let are_equal = rates.are_equal(slowest, fastest);
    let first = groups.clone().next().map_or(0, |group| group.links.len());
    if are_equal && groups.clone().all(|group| group.links.len() == first) {
        // The case of nearly every switch: equal links to equal neighbours.
        for link in 0..first {
            slots.extend(groups.clone().map(|group| group.links[link].port.0));
        }
        return;
    }
    let order = alternating(groups, fastest);
    if are_equal {
        slots.extend(order.iter().map(|&(port, _)| port));
    } else {
        rounds(slots, &order);
    }
}

/// Lists the port of every link that gets slots once, with the number of full sixteenths of the
/// fastest rate in its rate. Neighbours alternate, each as often as it has links.
fn alternating<'a>(groups: impl Iterator<Item = Group<'a>>, fastest: u32) -> Vec<(u8, usize)> {
    let mut queue = Vec::new();
    for (number, group) in groups.enumerate() {
        let usable: Vec<_> = group
            .links
            .iter()
            .filter(|link| !is_negligible(link.weight, fastest))
            .collect();
        let count = usable.len() as u64;
        let positions = (0..count).map(|slot| SlotPosition::of(slot, count));
        queue.extend(positions.zip(usable).map(|(position, link)| {
            let parts = u64::from(link.weight) * RATE_PARTS / u64::from(fastest);
            // The number is at most 16.
            (position, number, link.port.0, parts as usize)
        }));
    }
    queue.sort();
    let order = queue.into_iter();
    order.map(|(_, _, port, parts)| (port, parts)).collect()
}

/// Writes several rounds of one order, in which some slots of slower links go to faster links.
/// Switches with different slow links still agree on most destinations, so that few packets to
/// neighbouring destinations meet later.
fn rounds(slots: &mut Vec<u8>, order: &[(u8, usize)]) {
    let count = order.len();
    let total: usize = order.iter().map(|&(_, parts)| parts).sum();
    let exact = order
        .iter()
        .fold(total, |common, &(_, parts)| gcd(common, count * parts));
    let slowest = order.iter().map(|&(_, parts)| parts).min().unwrap_or(1);
    let enough = (MAX_SLOTS / count).max(total.div_ceil(count * slowest));
    let rounds = (total / exact).min(enough);
    // For each link, the number of its slots in all rounds, rounded down. The remainder goes to the
    // faster links.
    let shares = order
        .iter()
        .map(|&(_, parts)| rounds * count * parts / total);
    let share: Vec<usize> = shares.collect();
    let slow = share.iter().filter(|&&share| share < rounds).count();
    let mut freed = Vec::new();
    for round in 0..rounds {
        let mut slower = 0;
        for (number, &(port, _)) in order.iter().enumerate() {
            if share[number] < rounds {
                // Slow links skip different rounds.
                let phase = slower * rounds / slow;
                slower += 1;
                let kept = |round: usize| (2 * (round + phase) + 1) * share[number] / (2 * rounds);
                if kept(round + 1) == kept(round) {
                    freed.push(slots.len());
                }
            }
            slots.push(port);
        }
    }
    // A freed slot goes to the faster link that lacks the most slots.
    let mut granted = vec![0; count];
    for (done, &slot) in (1..).zip(&freed) {
        let fast = (0..count).filter(|&number| share[number] >= rounds);
        // The number of slots is far below 2^63.
        let lacks = |number: usize| {
            ((share[number] - rounds) * done) as i64 - (granted[number] * freed.len()) as i64
        };
        if let Some(most) = fast.max_by_key(|&number| lacks(number)) {
            granted[most] += 1;
            slots[slot] = order[most].0;
        }
    }
}

/// The greatest common divisor.
fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The position of a slot within a round of slots of equal length, as a fraction: the middle of the
/// slot.
#[derive(Clone, Copy, PartialEq, Eq)]
struct SlotPosition {
    numerator: u64,
    denominator: u64,
}

impl SlotPosition {
    fn of(slot: u64, count: u64) -> SlotPosition {
        SlotPosition {
            numerator: 2 * slot + 1,
            denominator: 2 * count,
        }
    }
}

impl Ord for SlotPosition {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.numerator * other.denominator).cmp(&(other.numerator * self.denominator))
    }
}

impl PartialOrd for SlotPosition {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use rsm_ids::PortNum;

    use super::*;
    use crate::topology::{HalfLink, SwitchIdx};

    fn slots_of(neighbours: &[&[(u8, u32)]]) -> Vec<u8> {
        slots_by(Rates::Proportional, neighbours)
    }

    fn slots_by(rates: Rates, neighbours: &[&[(u8, u32)]]) -> Vec<u8> {
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
        fill(&mut slots, groups, rates);
        slots
    }

    #[test]
    fn equal_neighbours_alternate_and_parallel_links_rotate() {
        let slots = slots_of(&[&[(1, 4), (2, 4)], &[(3, 4), (4, 4)], &[(5, 4), (6, 4)]]);
        assert_eq!(slots, [1, 3, 5, 2, 4, 6]);
    }

    #[test]
    fn neighbour_with_more_links_has_more_slots() {
        let slots = slots_of(&[&[(1, 4), (2, 4)], &[(3, 4)]]);
        assert_eq!(slots, [1, 3, 2]);
    }

    #[test]
    fn slots_are_proportional_to_the_full_sixteenths_of_a_rate() {
        let slots = slots_of(&[&[(1, 400)], &[(2, 100)]]);
        assert_eq!(slots.iter().filter(|&&port| port == 1).count(), 8);
        assert_eq!(slots.iter().filter(|&&port| port == 2).count(), 2);
        // The slow link takes no longer for its slots than the fast one.
        let slots = slots_of(&[&[(1, 400)], &[(2, 320)]]);
        assert_eq!(slots.iter().filter(|&&port| port == 1).count(), 8);
        assert_eq!(slots.iter().filter(|&&port| port == 2).count(), 6);
    }

    #[test]
    fn links_half_as_fast_as_the_fastest_may_count_as_equally_fast() {
        let half: [&[(u8, u32)]; 3] = [&[(1, 400)], &[(2, 200)], &[(3, 390)]];
        assert_eq!(slots_by(Rates::HalfIsEqual, &half), [1, 2, 3]);
        let less: [&[(u8, u32)]; 2] = [&[(1, 400)], &[(2, 199)]];
        assert_eq!(slots_by(Rates::HalfIsEqual, &less), slots_of(&less));
    }

    #[test]
    fn slow_links_change_few_slots_of_the_list() {
        let rates = |slow: &[usize]| -> Vec<(u8, u32)> {
            let rate = |number| if slow.contains(&number) { 200 } else { 400 };
            // Each list has twelve ports.
            (0..12)
                .map(|number| (number as u8 + 1, rate(number)))
                .collect()
        };
        let slots_with = |slow: &[usize]| {
            let rates = rates(slow);
            slots_of(&rates.iter().map(std::slice::from_ref).collect::<Vec<_>>())
        };
        let (one, other) = (
            slots_with(&[0, 2, 4, 6, 8, 10]),
            slots_with(&[1, 2, 5, 6, 9, 10]),
        );
        assert_eq!((one.len(), other.len()), (36, 36));
        let same = one.iter().zip(&other).filter(|(one, other)| one == other);
        // In each list of 36 slots, six slow links give away a third of theirs.
        assert!(same.count() >= 36 - 2 * 6);
        for port in 1..=12 {
            let count = one.iter().filter(|&&other| other == port).count();
            assert_eq!(count, if port % 2 == 1 { 2 } else { 4 });
        }
    }

    #[test]
    fn link_below_a_sixteenth_has_slots_only_without_faster_links() {
        assert_eq!(slots_of(&[&[(1, 1_000_000)], &[(2, 1)]]), [1]);
        assert_eq!(slots_of(&[&[(1, 160), (2, 9)], &[(3, 160)]]), [1, 3]);
        assert_eq!(slots_of(&[&[(1, 160), (2, 10)], &[(3, 160)]]).len(), 33);
        assert_eq!(slots_of(&[&[(2, 1)]]), [2]);
    }

    #[test]
    fn no_groups_give_no_slots() {
        assert!(slots_of(&[]).is_empty());
    }
}
