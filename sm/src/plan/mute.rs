//! Mute switches: they answer nothing while their links are up and their tables forward. The core
//! cannot write their planned tables, and other switches' tables do not wait for them.
//!
//! A mute switch keeps the table that it holds, or one that was sent to it last. All others get the
//! planned tables, except entries that make an illegal turn with an entry that the mute switch may
//! hold: those discard until it holds its planned table.

use std::collections::{BTreeMap, BTreeSet};

use rsm_ids::{Guid, Lid, PortNum};
use rsm_routing::tables::{Lft, NO_PATH, Tables};
use rsm_routing::topology::{SwitchIdx, Topology};

use super::transition::HeldTable;

/// The tables that can be reached without the mute switches.
#[derive(Default)]
pub(super) struct Around {
    /// The mute switches.
    pub(super) mute: BTreeSet<Guid>,
    /// Mute switches that a push writes to afterwards: they are no suspects, and none of their
    /// neighbours is mute.
    pub(super) tried: BTreeSet<Guid>,
    /// The tables to reach: of mute switches the held ones, of the others the planned ones with
    /// entries cut where necessary.
    pub(super) reached: Tables,
    /// Whether planned entries of other switches wait for the mute ones.
    pub(super) has_cut: bool,
}

fn is_mute(held: &HeldTable) -> bool {
    held.is_suspect || !held.sent.is_empty()
}

/// Whether a switch of `topology` is mute.
pub(super) fn is_any(topology: &Topology, held: &[HeldTable]) -> bool {
    held.iter()
        .any(|held| is_mute(held) && topology.switch_by_guid(held.switch).is_some())
}

/// `None` if no switch is mute. `old` and `planned` are in the order of `topology`; `planned`
/// follows the order of `is_above`.
pub(super) fn around(
    topology: &Topology,
    is_above: impl Fn(SwitchIdx, SwitchIdx) -> bool,
    held: &[HeldTable],
    (old, planned): (&Tables, &Tables),
) -> Option<Around> {
    let mute: BTreeMap<SwitchIdx, &HeldTable> = held
        .iter()
        .filter(|held| is_mute(held))
        .filter_map(|held| Some((topology.switch_by_guid(held.switch)?, held)))
        .collect();
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
    let tried = mute.iter().filter(|&(&switch, held)| {
        let mut neighbours = topology.groups(switch).map(|group| group.neighbour);
        !held.is_suspect && !neighbours.any(|neighbour| mute.contains_key(&neighbour))
    });
    Some(Around {
        tried: tried.map(|(_, held)| held.switch).collect(),
        mute: mute.values().map(|held| held.switch).collect(),
        reached,
        has_cut: !cuts.is_empty(),
    })
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
