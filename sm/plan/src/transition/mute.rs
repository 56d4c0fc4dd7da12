//! Mute switches, which answer no request while their links are up and they forward packets. The
//! core cannot write their planned tables, and the tables of other switches do not wait for them.
//!
//! A mute switch holds its former table, or the table that was last sent to it. All other switches
//! get the planned tables, except entries that make an illegal turn with an entry that the mute
//! switch may hold. The excepted entries discard packets until the mute switch holds its planned
//! table.
//!
//! Two adjacent mute switches can make an illegal turn together, and the routes of some engines
//! follow no order. In both cases the dependencies of all entries that mute switches may hold,
//! together with the dependencies of the other switches' tables, must be acyclic
//! ([`is_safe_beside`]). If the dependencies have a cycle, entries that change discard packets
//! first, and entries in the cycle discard packets until the mute switches answer ([`beside`]).

use std::collections::{BTreeMap, BTreeSet};

use rsm_ids::{Guid, Lid, PortNum};
use rsm_routing::mcast::PortMask;
use rsm_routing::tables::{Lft, NO_PATH, Tables};
use rsm_routing::topology::{SwitchIdx, Topology};
use rsm_routing::verify::Unwritten;

use super::{HeldTable, Transition};

/// The tables that the switches can reach while mute switches keep their tables.
#[derive(Default)]
pub(super) struct AroundMute {
    /// The mute switches.
    pub(super) mute: BTreeSet<Guid>,
    /// Mute switches that a push writes to afterwards: they answer other requests, and none of
    /// their neighbours is mute.
    pub(super) retried: BTreeSet<Guid>,
    /// The tables to reach: for mute switches the tables that they hold, and for all other switches
    /// the planned tables without the entries that must be cut.
    pub(super) reached: Tables,
    /// Whether planned entries of other switches wait for the mute switches.
    pub(super) has_cut: bool,
}

/// Whether a switch is mute: it does not answer, or has left a Set of its table unanswered.
fn is_unanswering(held: &HeldTable) -> bool {
    held.is_suspect || !held.sent.is_empty()
}

/// Whether a switch of `topology` is mute.
pub(super) fn has_mute_switch(topology: &Topology, held: &[HeldTable]) -> bool {
    held.iter()
        .any(|held| is_unanswering(held) && topology.switch_by_guid(held.switch).is_some())
}

/// Whether two mute switches are adjacent: entries that are cut elsewhere cannot remove an illegal
/// turn between their entries.
pub(super) fn are_neighbours(topology: &Topology, held: &[HeldTable]) -> bool {
    let mute = mute_switches(topology, held);
    mute.keys()
        .any(|&switch| has_neighbour_in(topology, switch, &mute))
}

/// The tables to reach along an order of the switches; `None` if no switch is mute. `old` and
/// `planned` are in the order of `topology`; `planned` follows the order of `is_above`.
pub(super) fn around(
    topology: &Topology,
    is_above: impl Fn(SwitchIdx, SwitchIdx) -> bool,
    held: &[HeldTable],
    (old, planned): (&Tables, &Tables),
) -> Option<AroundMute> {
    let mute = mute_switches(topology, held);
    if mute.is_empty() {
        return None;
    }
    let mut reached = planned.clone();
    for &switch in mute.keys() {
        reached.lfts[switch.index()] = old.lft(switch).clone();
    }
    let mut cuts: Vec<(SwitchIdx, Lid)> = Vec::new();
    for (&switch, held) in &mute {
        let above: Vec<SwitchIdx> = topology
            .groups(switch)
            .map(|group| group.neighbour)
            .filter(|&neighbour| is_above(neighbour, switch) && !mute.contains_key(&neighbour))
            .collect();
        let next =
            |from: SwitchIdx, entry: u8| topology.peer(from, PortNum(entry)).map(|(to, _)| to);
        let goes_up =
            |from: SwitchIdx, entry: u8| next(from, entry).is_some_and(|to| is_above(to, from));
        for (lid, exit) in unplanned(old.lft(switch), planned.lft(switch), held) {
            match next(switch, exit) {
                Some(to) if is_above(to, switch) => {
                    let senders = above.iter().filter(|&&sender| {
                        next(sender, reached.lft(sender).entry(lid)) == Some(switch)
                    });
                    cuts.extend(senders.map(|&sender| (sender, lid)));
                }
                Some(to) if !mute.contains_key(&to) && goes_up(to, reached.lft(to).entry(lid)) => {
                    cuts.push((to, lid));
                }
                _ => {}
            }
        }
    }
    for &(switch, lid) in &cuts {
        reached.lfts[switch.index()].set_entry(lid, NO_PATH);
    }
    Some(AroundMute {
        retried: retried(topology, &mute),
        mute: mute.values().map(|held| held.switch).collect(),
        reached,
        has_cut: !cuts.is_empty(),
    })
}

/// The tables to reach if no order of the switches helps: the planned tables without the entries
/// that could close a credit loop with an entry that a mute switch may hold. `None` if such a loop
/// contains no other entry that changes.
pub(super) fn beside(
    topology: &Topology,
    held: &[HeldTable],
    (old, planned): (&Tables, &Tables),
) -> Option<AroundMute> {
    let mute = mute_switches(topology, held);
    let retried = retried(topology, &mute);
    // A transition that leaves mute switches unwritten is better than no transition.
    let (reached, retried) = [retried, BTreeSet::new()].into_iter().find_map(|retried| {
        let unwritten = unwritten(&mute, &retried, (old, planned));
        let reached = unwritten.reachable(topology, old, planned)?;
        Some((reached, retried))
    })?;
    Some(AroundMute {
        retried,
        mute: mute.values().map(|held| held.switch).collect(),
        reached,
        has_cut: true,
    })
}

/// Whether no mixture of the tables in force and the first of `stages`, nor of any two successive
/// stages, closes a credit loop with the entries that mute switches may hold.
pub(super) fn is_safe_beside(
    topology: &Topology,
    held: &[HeldTable],
    around: &AroundMute,
    (old, planned): (&Tables, &Tables),
    stages: &[Tables],
) -> bool {
    let mute = mute_switches(topology, held);
    let unwritten = unwritten(&mute, &around.retried, (old, planned));
    let steps = steps_beside(&unwritten, old, stages);
    unwritten.permit(topology, &steps.iter().collect::<Vec<_>>())
}

/// The tables in force and after each of `stages`. A stage may contain other entries for mute
/// switches, which never get these entries.
fn steps_beside(mute: &Unwritten, old: &Tables, stages: &[Tables]) -> Vec<Tables> {
    let with_held = |stage: &Tables| {
        let mut tables = stage.clone();
        for &switch in &mute.switches {
            tables.lfts[switch.index()] = old.lft(switch).clone();
        }
        tables
    };
    let stages = stages.iter().map(with_held);
    std::iter::once(old.clone()).chain(stages).collect()
}

/// The masks of multicast tables, by multicast LID, and sorted by switch for each LID.
type Masks = BTreeMap<Lid, Vec<(SwitchIdx, PortMask)>>;

/// Whether no credit loop closes during `transition`, whose mute switches keep their entries and
/// masks, by unicast and multicast packets together. `masks` are the masks in force and the planned
/// masks.
pub(crate) fn is_safe_with_multicast(
    topology: &Topology,
    held: &[HeldTable],
    transition: &Transition,
    (old, planned): (&Tables, &Tables),
    masks: (&Masks, &Masks),
) -> bool {
    let mute = mute_switches(topology, held);
    let unwritten = unwritten(&mute, &transition.retried, (old, planned));
    let steps = steps_beside(&unwritten, old, &transition.interim);
    let beside_mute = masks_beside(topology, &unwritten.switches, masks);
    let is_sound = |tables: &[&Tables], masks: &Masks| {
        let dependencies = unwritten.dependencies(topology, tables);
        dependencies.is_some_and(|mut dependencies| {
            for masks in masks.values() {
                dependencies.add_multicast(masks);
            }
            dependencies.is_acyclic()
        })
    };
    // Switches lose masks during the first stage, and gain masks after the last one.
    let mixtures = steps.windows(2).enumerate().all(|(stage, mixed)| {
        let masks = if stage == 0 { masks.0 } else { &beside_mute };
        is_sound(&[&mixed[0], &mixed[1]], masks)
    });
    mixtures && is_sound(&[&steps[steps.len() - 1]], &beside_mute)
}

/// The masks that the switches reach while the `mute` switches keep theirs: where a mute switch
/// should lose links of a multicast LID, no other switch gains ports of that LID.
fn masks_beside(
    topology: &Topology,
    mute: &[SwitchIdx],
    (held, planned): (&Masks, &Masks),
) -> Masks {
    let lids: BTreeSet<Lid> = held.keys().chain(planned.keys()).copied().collect();
    let reached = lids.into_iter().map(|lid| {
        let (held, planned) = (by_switch(held, lid), by_switch(planned, lid));
        let mask = |masks: &BTreeMap<SwitchIdx, PortMask>, at: SwitchIdx| {
            masks.get(&at).copied().unwrap_or_default()
        };
        let kept = |at: SwitchIdx| mask(&held, at).intersection(mask(&planned, at));
        // Only a port that leads to a switch can be part of a loop.
        let loses = |at: SwitchIdx, port: PortNum| {
            !mask(&planned, at).contains(port) && topology.peer(at, port).is_some()
        };
        let is_withheld = mute
            .iter()
            .any(|&at| mask(&held, at).ports().any(|port| loses(at, port)));
        let of_switch = |at: SwitchIdx| match (mute.contains(&at), is_withheld) {
            (true, _) => mask(&held, at),
            (false, true) => kept(at),
            (false, false) => mask(&planned, at),
        };
        let switches: BTreeSet<SwitchIdx> = held.keys().chain(planned.keys()).copied().collect();
        let masks = switches.into_iter().map(|at| (at, of_switch(at)));
        (lid, masks.collect())
    });
    reached.collect()
}

/// The masks of one multicast LID, by switch.
fn by_switch(masks: &Masks, lid: Lid) -> BTreeMap<SwitchIdx, PortMask> {
    masks.get(&lid).into_iter().flatten().copied().collect()
}

/// The mute switches, by their numbers in `topology`.
fn mute_switches<'a>(
    topology: &Topology,
    held: &'a [HeldTable],
) -> BTreeMap<SwitchIdx, &'a HeldTable> {
    held.iter()
        .filter(|held| is_unanswering(held))
        .filter_map(|held| Some((topology.switch_by_guid(held.switch)?, held)))
        .collect()
}

/// Whether a neighbour of a switch is mute.
fn has_neighbour_in(
    topology: &Topology,
    switch: SwitchIdx,
    mute: &BTreeMap<SwitchIdx, &HeldTable>,
) -> bool {
    let mut neighbours = topology.groups(switch).map(|group| group.neighbour);
    neighbours.any(|neighbour| mute.contains_key(&neighbour))
}

/// The mute switches that a push writes to after all others.
fn retried(topology: &Topology, mute: &BTreeMap<SwitchIdx, &HeldTable>) -> BTreeSet<Guid> {
    let retried = mute
        .iter()
        .filter(|&(&switch, held)| !held.is_suspect && !has_neighbour_in(topology, switch, mute));
    retried.map(|(_, held)| held.switch).collect()
}

/// The mute switches, and the entries of unanswered Sets, which they may hold instead.
pub(super) fn fixed(topology: &Topology, held: &[HeldTable]) -> Unwritten {
    let mute = mute_switches(topology, held);
    Unwritten {
        others: sent(&mute),
        switches: mute.into_keys().collect(),
    }
}

/// The entries of unanswered Sets to mute switches.
fn sent(mute: &BTreeMap<SwitchIdx, &HeldTable>) -> Vec<(SwitchIdx, Lid, u8)> {
    let of_switch = |(&switch, held): (&SwitchIdx, &&HeldTable)| {
        let sent = held.sent.clone();
        sent.into_iter()
            .map(move |(lid, entry)| (switch, lid, entry))
    };
    mute.iter().flat_map(of_switch).collect()
}

/// The mute switches with the entries that they may hold in addition to the entries in `old`: sent
/// entries, and planned entries if a push writes to the switch.
fn unwritten(
    mute: &BTreeMap<SwitchIdx, &HeldTable>,
    retried: &BTreeSet<Guid>,
    (old, planned): (&Tables, &Tables),
) -> Unwritten {
    let mut others = sent(mute);
    for (&switch, held) in mute {
        if retried.contains(&held.switch) {
            let planned = planned.lft(switch);
            let changed = old.lft(switch).differing(planned);
            others.extend(changed.map(|lid| (switch, lid, planned.entry(lid))));
        }
    }
    Unwritten {
        switches: mute.keys().copied().collect(),
        others,
    }
}

/// The entries that a switch may hold and that are not planned.
fn unplanned<'a>(
    old: &'a Lft,
    planned: &'a Lft,
    held: &'a HeldTable,
) -> impl Iterator<Item = (Lid, u8)> + 'a {
    let old = old.differing(planned).map(|lid| (lid, old.entry(lid)));
    let sent = held.sent.iter().copied();
    old.chain(sent.filter(|&(lid, exit)| planned.entry(lid) != exit))
}
