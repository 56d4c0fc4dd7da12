//! Proposes rankings, and chooses the best one.

use super::super::Ranking;
use super::super::fabric_tree::{Apexes, MAX_DETOURS};
use super::super::paths;
use super::connect_roots::{best_leaf, with_connected_roots};
use super::score::{Population, Reach, Score, reach, score_of};
use super::{Columns, Ranked, by_index, kept};
use crate::topology::levels::{self, ANY_HOST, FEW_HOSTS, HALF};
use crate::topology::{Order, SwitchIdx, Topology};

/// The factor by which the maximum link load of a kept ranking may exceed that of the best ranking,
/// if there are new switches.
const KEPT_LOAD: f64 = 1.2;

/// The engine's remedy for pairs that a ranking by levels leaves without a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Unreached {
    /// The engine ranks some switches above all others, which connects the roots.
    Joined,
    /// The engine adds detours around an apex, if the ranking has one.
    Mended,
}

impl Unreached {
    /// The apexes whose detours complete an order; `None` if the order has to connect all pairs
    /// itself, because the engine takes no detours, they would be too many, or there is no apex.
    pub(in super::super) fn mending(self, topology: &Topology, order: &Order) -> Option<Apexes> {
        if self == Unreached::Joined {
            return None;
        }
        // A switch with end ports and other switches below it, such as a top switch with a host or
        // an aggregation node, may need detours to and from each switch.
        let carries = |switch: SwitchIdx| topology.destinations_of(switch).len() > 1;
        let has_below = |switch: SwitchIdx| {
            let mut groups = topology.groups(switch);
            groups.any(|group| order.is_above(switch, group.neighbour))
        };
        let above = topology
            .indices()
            .filter(|&switch| carries(switch) && has_below(switch));
        if above.count() * topology.switch_count() * 2 > MAX_DETOURS {
            return None;
        }
        Apexes::of(topology, order)
    }
}

/// If more than one in this many pairs of hosts take detours under the best ranking, that ranking
/// is compared with the ranking from the switches farthest from hosts.
const DETOURS_ONE_IN: u64 = 16;

/// The factor by which the maximum link load of the ranking from the farthest switches may exceed
/// the load of the ranking with detours. The latter load is an underestimate, because it leaves out
/// some links that detours share.
const DETOURED_LOAD: f64 = 4.0;

/// A ranking to be scored.
struct Candidate {
    order: Order,
    /// The apexes whose detours complete the order, if any do.
    mending: Option<Apexes>,
    /// The explanation of how the order was made: "ranked …".
    origin: String,
}

/// Chooses the ranking for the routes: the earlier one if it has the same roots, connects all pairs
/// and, with new switches, is about as good; else the best of several.
pub(super) fn choose(
    topology: &Topology,
    roots: &[SwitchIdx],
    earlier: Option<&Ranking>,
    unreached: Unreached,
    columns: Columns<'_>,
) -> Ranked {
    let population = Population::new(topology);
    let kept = earlier.and_then(|ranking| {
        kept_ranking(topology, roots, ranking, &population, unreached, columns)
    });
    match kept {
        Some((kept, 0)) => kept,
        Some((kept, _)) => {
            let levels = kept.order.levels();
            let mending = kept.mending.as_ref();
            let score = score_of(topology, &kept.costs, &population, levels, mending);
            let (best, best_score) = best(topology, roots, &population, unreached, columns);
            if score.peak_load <= best_score.peak_load * KEPT_LOAD {
                kept
            } else {
                best
            }
        }
        None => best(topology, roots, &population, unreached, columns).0,
    }
}

/// The earlier ranking, and the number of switches that it lacked; `None` if it leaves a pair with
/// an end port without a path.
fn kept_ranking(
    topology: &Topology,
    roots: &[SwitchIdx],
    ranking: &Ranking,
    population: &Population,
    unreached: Unreached,
    columns: Columns<'_>,
) -> Option<(Ranked, usize)> {
    let fitted = kept::fit(topology, roots, ranking)?;
    let costs = paths::up_down(topology, &fitted.order, columns(&fitted.order));
    let reach = reach(topology, &costs, population);
    let mending = unreached.mending(topology, &fitted.order);
    (reach.unreached == 0 || mending.is_some()).then(|| {
        let ranked = Ranked {
            reason: format!(
                "{} (kept)",
                sentence(topology, &fitted.order, &ranking.reason, &reach, true)
            ),
            origin: ranking.reason.clone(),
            order: fitted.order,
            mending,
            costs,
            unreached: 0,
        };
        (ranked, fitted.newcomers)
    })
}

/// Chooses the ranking by distance from the hosts; if that does not connect all pairs, the best of
/// all candidates.
pub(super) fn choose_by_hosts(topology: &Topology, earlier: Option<&Ranking>) -> Ranked {
    let population = Population::new(topology);
    let columns = by_index(topology);
    // A ranking of another engine is no ranking by hosts.
    let kept = earlier
        .filter(|ranking| ranking.reason.starts_with(BY_HOSTS))
        .and_then(|ranking| {
            kept_ranking(
                topology,
                &[],
                ranking,
                &population,
                Unreached::Joined,
                &columns,
            )
        });
    if let Some((kept, 0)) = kept {
        return kept;
    }
    let levels = levels::from_edges(topology, ANY_HOST);
    let by_hosts = candidates_of(topology, levels, BY_HOSTS.to_owned(), Unreached::Joined);
    let (ranked, _) = best_of(topology, by_hosts, &population, &columns);
    if ranked.unreached == 0 {
        ranked
    } else {
        best(topology, &[], &population, Unreached::Joined, &columns).0
    }
}

/// The explanation of the ranking of `dnup`.
const BY_HOSTS: &str = "ranked by distance from the hosts alone";

/// The best of all candidates, with its score.
fn best(
    topology: &Topology,
    roots: &[SwitchIdx],
    population: &Population,
    unreached: Unreached,
    columns: Columns<'_>,
) -> (Ranked, Score) {
    let candidates = candidates(topology, roots, unreached);
    let best = best_of(topology, candidates, population, columns);
    let pairs: u64 = population.host_pairs();
    if !roots.is_empty() || best.1.reach.hosts_unreached * DETOURS_ONE_IN <= pairs {
        return best;
    }
    // In this ranking, leaves that are farther from the top are below other leaves.
    let Some(farthest) = from_farthest(topology, unreached) else {
        return best;
    };
    let farthest = best_of(topology, farthest, population, columns);
    let (score, other) = (&farthest.1, &best.1);
    let has_room = score.peak_load <= other.peak_load * DETOURED_LOAD;
    match score.unreached() == 0 && score.reach.hosts_unreached == 0 && has_room {
        true => farthest,
        false => best,
    }
}

/// The rankings by distance from the switches farthest from hosts; `None` if these are half of all
/// switches or more.
fn from_farthest(topology: &Topology, unreached: Unreached) -> Option<Vec<Candidate>> {
    let by_hosts = levels::from_edges(topology, ANY_HOST);
    let tops = levels::farthest_from_leaves(topology, &by_hosts)?;
    let count = tops.len();
    let origin = format!("ranked by distance from the {count} switches farthest from hosts");
    let levels = levels::from_roots(topology, &tops);
    Some(candidates_of(topology, levels, origin, unreached))
}

/// The best of some candidates, with its score; the first good candidate ends the search.
fn best_of(
    topology: &Topology,
    candidates: Vec<Candidate>,
    population: &Population,
    columns: Columns<'_>,
) -> (Ranked, Score) {
    let mut best: Option<(Ranked, Score)> = None;
    let mut tried: Vec<Order> = Vec::new();
    for candidate in candidates {
        if tried.contains(&candidate.order) {
            continue;
        }
        let costs = paths::up_down(topology, &candidate.order, columns(&candidate.order));
        let mending = candidate.mending.as_ref();
        let levels = candidate.order.levels();
        let score = score_of(topology, &costs, population, levels, mending);
        if best.as_ref().is_none_or(|(_, best)| score.beats(best)) {
            let ranked = Ranked {
                reason: sentence(
                    topology,
                    &candidate.order,
                    &candidate.origin,
                    &score.reach,
                    score.is_mended,
                ),
                order: candidate.order.clone(),
                mending: candidate.mending,
                origin: candidate.origin,
                costs,
                unreached: score.unreached(),
            };
            let is_good = score.is_good();
            best = Some((ranked, score));
            if is_good {
                break;
            }
        }
        tried.push(candidate.order);
    }
    best.expect("there is always a candidate: the search for a centre needs no switch")
}

/// The rankings to score, the most promising first. The last one connects all pairs on any fabric.
fn candidates(topology: &Topology, roots: &[SwitchIdx], unreached: Unreached) -> Vec<Candidate> {
    if !roots.is_empty() {
        let levels = levels::from_roots(topology, roots);
        let origin = format!("ranked from the {} given root switches", roots.len());
        return candidates_of(topology, levels, origin, unreached);
    }
    let mut found = Vec::new();
    let with_any = levels::edges(topology, ANY_HOST);
    let mut leaves = vec![with_any.clone()];
    leaves.extend(levels::leaf_candidates(topology));
    leaves.extend([FEW_HOSTS, HALF].map(|share| levels::edges(topology, share)));
    for (number, leaves) in leaves.iter().enumerate() {
        if !leaves.is_empty() && (number == 0 || *leaves != with_any) {
            let which = match number {
                0 => "hosts",
                _ => "most of the hosts",
            };
            let count = leaves.len();
            let origin = format!("ranked by distance from the {count} switches with {which}");
            let levels = levels::from_leaves(topology, leaves);
            found.extend(candidates_of(topology, levels, origin, unreached));
        }
    }
    let by_hosts = Order::new(topology, levels::from_edges(topology, ANY_HOST), &[]);
    let leaves = topology
        .components()
        .iter()
        .map(|component| best_leaf(topology, &by_hosts, &component.switches));
    let tops = [
        (levels::centres(topology), "in the middle"),
        (leaves.collect(), "at the edge"),
    ];
    for (tops, which) in tops {
        let by_distance = Order::new(topology, levels::from_roots(topology, &tops), &[]);
        found.push(Candidate {
            // The levels, which spread the traffic, come from the hosts; any switch may be on top.
            order: Order::listed(
                by_distance.highest_first().to_vec(),
                by_hosts.levels().to_vec(),
            ),
            mending: None,
            origin: format!("ranked by distance from one switch {which}"),
        });
    }
    found
}

/// The candidates with these levels. If detours complete the ranking by level, that ranking is the
/// only candidate. Otherwise, if the ranking has several peaks, the ranking with connected roots
/// comes first: it is usually as good for hosts, and connects more pairs.
fn candidates_of(
    topology: &Topology,
    levels: Vec<u8>,
    origin: String,
    unreached: Unreached,
) -> Vec<Candidate> {
    let plain = Order::new(topology, levels, &[]);
    let mending = unreached.mending(topology, &plain);
    if mending.is_some() {
        return vec![Candidate {
            order: plain,
            mending,
            origin,
        }];
    }
    let connected = with_connected_roots(topology, &plain).map(|(order, lifted)| Candidate {
        order,
        mending: None,
        origin: format!(
            "{origin}, {lifted} of all switches lifted above the rest to join the roots"
        ),
    });
    let plain = Candidate {
        order: plain,
        mending: None,
        origin,
    };
    connected.into_iter().chain([plain]).collect()
}

/// The sentence for the operator about an order that is kept from the previous plan.
pub(in super::super) fn kept_sentence(topology: &Topology, order: &Order, origin: &str) -> String {
    let (depth, peaks) = (depth(order), order.peaks(topology).len());
    format!("{origin}: {depth} levels, {peaks} at the top (kept)")
}

/// The number of levels.
fn depth(order: &Order) -> usize {
    let deepest = order.levels().iter().max();
    deepest.map_or(0, |deepest| usize::from(*deepest) + 1)
}

/// The sentence about an order and the pairs that it reaches, for the operator.
fn sentence(
    topology: &Topology,
    order: &Order,
    origin: &str,
    reach: &Reach,
    is_mended: bool,
) -> String {
    let depth = depth(order);
    let peaks = order.peaks(topology).len();
    let reached = match (reach.unreached, reach.switches_unreached) {
        (0, 0) => "every connected pair is reached".to_owned(),
        (0, pairs) => {
            format!("every connected pair is reached but {pairs} of two switches themselves")
        }
        (pairs, _) if is_mended => {
            format!("every connected pair is reached, {pairs} of them by detours")
        }
        (pairs, _) => format!("{pairs} connected pairs are not reached"),
    };
    format!("{origin}: {depth} levels, {peaks} at the top, {reached}")
}
