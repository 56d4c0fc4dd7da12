//! Keeps a ranking from one topology to the next.

use std::collections::BTreeMap;

use rsm_ids::{Guid, Lid};

use super::super::nue::depth_first;
use super::super::{Prepared, Ranking};
use crate::topology::levels::{self, ANY_HOST};
use crate::topology::{Order, SwitchIdx, Topology};

/// The maximum number of switches that a ranking remembers, missing ones included: the number that
/// can have LIDs at once.
const MAX_REMEMBERED: usize = Lid::UNICAST_LAST.0 as usize;

/// An earlier ranking, fitted to a topology.
pub(super) struct Fitted {
    pub(super) order: Order,
    /// The number of switches that the ranking lacked and that `fit` placed by their distance from
    /// the hosts.
    pub(super) newcomers: usize,
}

/// The GUIDs of some switches.
fn guids(topology: &Topology, switches: &[SwitchIdx]) -> Vec<Guid> {
    switches
        .iter()
        .map(|&switch| topology.switch(switch).guid)
        .collect()
}

/// Fits an earlier ranking to a topology; `None` if it has none of the topology's switches, was
/// made from other roots, or is a depth-first ranking of `nue`.
pub(super) fn fit(topology: &Topology, roots: &[SwitchIdx], ranking: &Ranking) -> Option<Fitted> {
    if ranking.roots != guids(topology, roots) || depth_first::is_depth_first(ranking) {
        return None;
    }
    let mut levels: Vec<Option<u8>> = vec![None; topology.switch_count()];
    let mut listed: Vec<SwitchIdx> = Vec::with_capacity(topology.switch_count());
    for &(guid, level) in &ranking.switches {
        if let Some(switch) = topology.switch_by_guid(guid)
            && levels[switch.index()].is_none()
        {
            levels[switch.index()] = Some(level);
            listed.push(switch);
        }
    }
    if listed.is_empty() {
        return None;
    }
    let newcomers: Vec<SwitchIdx> = topology
        .indices()
        .filter(|switch| levels[switch.index()].is_none())
        .collect();
    let guessed = levels::from_edges(topology, ANY_HOST);
    let usual = usual_levels(&levels, &guessed);
    for &switch in &newcomers {
        let guess = guessed[switch.index()];
        let level = usual.get(&guess).copied().unwrap_or(guess);
        levels[switch.index()] = Some(level);
        // The new switch comes after the last switch of its level or a higher one. The order of
        // ranked switches stays.
        let place = listed
            .iter()
            .rposition(|other| levels[other.index()] <= Some(level))
            .map_or(0, |place| place + 1);
        listed.insert(place, switch);
    }
    let levels = levels.into_iter().map(Option::unwrap_or_default).collect();
    Some(Fitted {
        order: Order::listed(listed, levels),
        newcomers: newcomers.len(),
    })
}

/// For each guessed level, the most frequent actual level of the ranked switches with that guess.
fn usual_levels(known: &[Option<u8>], guessed: &[u8]) -> BTreeMap<u8, u8> {
    let mut votes: BTreeMap<u8, BTreeMap<u8, usize>> = BTreeMap::new();
    for (level, &guess) in known.iter().zip(guessed) {
        if let Some(level) = *level {
            *votes.entry(guess).or_default().entry(level).or_default() += 1;
        }
    }
    votes
        .into_iter()
        .filter_map(|(guess, votes)| {
            let most = votes
                .iter()
                .max_by_key(|(level, votes)| (**votes, std::cmp::Reverse(**level)))?;
            Some((guess, *most.0))
        })
        .collect()
}

/// Converts an order into a ranking for the next topology; `origin` explains the order. Switches of
/// the earlier ranking that are missing now keep their places, so that a switch that reboots
/// returns to its place.
pub(in super::super) fn remember(
    topology: &Topology,
    (order, origin): (&Order, &str),
    roots: &[SwitchIdx],
    earlier: Option<&Ranking>,
) -> Ranking {
    let levels = order.levels();
    let mut ranking = Ranking {
        switches: order
            .highest_first()
            .iter()
            .map(|&switch| (topology.switch(switch).guid, levels[switch.index()]))
            .collect(),
        follows: None,
        is_interim: false,
        roots: guids(topology, roots),
        reason: origin.to_owned(),
        known: None,
        prepared: Prepared::default(),
    };
    let Some(earlier) = earlier else {
        return ranking;
    };
    let is_gone = |guid: Guid| topology.switch_by_guid(guid).is_none();
    if !earlier.switches.iter().any(|&(guid, _)| is_gone(guid)) {
        return ranking;
    }
    // A missing switch stays right after the present one that it followed.
    let mut after: BTreeMap<Option<Guid>, Vec<(Guid, u8)>> = BTreeMap::new();
    let mut last = None;
    let mut room = MAX_REMEMBERED.saturating_sub(ranking.switches.len());
    for &(guid, level) in &earlier.switches {
        if !is_gone(guid) {
            last = Some(guid);
        } else if room > 0 {
            room -= 1;
            after.entry(last).or_default().push((guid, level));
        }
    }
    let mut switches = after.remove(&None).unwrap_or_default();
    for entry in ranking.switches {
        switches.push(entry);
        switches.extend(after.remove(&Some(entry.0)).unwrap_or_default());
    }
    ranking.switches = switches;
    ranking
}
