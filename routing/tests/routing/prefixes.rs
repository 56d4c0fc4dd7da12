//! No loop and no credit loop, at any moment, while a fabric changes from one set of tables to
//! another, switch by switch and block by block, with answers in any order.

use crate::common;
use crate::random;

use common::{carries_nothing, pgft, without_switches};
use proptest::prelude::*;
use rsm_ids::{Lid, PortNum};
use rsm_routing::engine::{EngineKind, Options, Ranking, Routing, route};
use rsm_routing::mcast::Orientation;
use rsm_routing::tables::{Difference, NO_PATH, Tables};
use rsm_routing::topology::{SwitchIdx, Topology};
use rsm_routing::verify::{
    IdleLinks, LinkEnd, Stages, Unwritten, mixture_is_acyclic, stages, stages_along,
    stages_along_opening, verify,
};

fn routed(kind: EngineKind, topology: &Topology, earlier: Option<&Ranking>) -> Routing {
    let options = Options {
        previous_ranking: earlier.cloned(),
        ..Options::default()
    };
    route(kind, topology, &options, None).unwrap()
}

/// The tables that the switches of `after` hold before its first Set.
fn held(before: &Topology, tables: &Tables, after: &Topology) -> Tables {
    let lfts = after
        .switches()
        .iter()
        .map(|switch| match before.switch_by_guid(switch.guid) {
            Some(index) => tables.lft(index).clone(),
            None => Default::default(),
        })
        .collect();
    Tables { lfts }
}

/// Numbers that look random.
struct Random(u64);

impl Random {
    /// Xorshift, 64 bits.
    fn below(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below as u64) as usize
    }
}

/// Writes the blocks of every stage in a random order, and verifies the fabric now and then.
fn replay(topology: &Topology, old: &Tables, stages: &[Tables], seed: u64) {
    let mut random = Random(seed | 1);
    let mut now = old.clone();
    for stage in stages {
        let mut writes: Vec<(usize, usize)> = (0..stage.lfts.len())
            .flat_map(|switch| (0..stage.lfts[switch].blocks()).map(move |block| (switch, block)))
            .filter(|&(switch, block)| !stage.lfts[switch].block_eq(&now.lfts[switch], block))
            .collect();
        for index in (1..writes.len()).rev() {
            writes.swap(index, random.below(index + 1));
        }
        let every = writes.len() / 4 + 1;
        for (count, (switch, block)) in writes.into_iter().enumerate() {
            now.lfts[switch].set_block(block, stage.lfts[switch].block(block));
            if count % every == every / 2 {
                let report = verify(topology, &now);
                assert!(report.loop_free, "{:?}", report.witnesses);
                assert!(report.credit_loop_free, "{:?}", report.witnesses);
            }
        }
        assert_eq!(&now, stage);
    }
}

/// Checks that packets that arrived at first still arrive with any mixture of two consecutive
/// stages in the switches.
fn assert_delivery_kept(topology: &Topology, old: &Tables, stages: &[Tables], seed: u64) {
    let mut random = Random(seed | 1);
    let mut before = old;
    for stage in stages {
        for _ in 0..4 {
            let mut mixed = before.clone();
            for (lft, next) in mixed.lfts.iter_mut().zip(&stage.lfts) {
                for lid in lft.clone().differing(next) {
                    if random.below(2) == 0 {
                        lft.set_entry(lid, next.entry(lid));
                    }
                }
            }
            for from in topology.indices() {
                for to in topology.destinations() {
                    let arrives = |tables| path(topology, tables, from, to.lid).is_some();
                    if carries_nothing(topology, from, to) && !arrives(stages.last().unwrap()) {
                        continue;
                    }
                    assert!(!arrives(old) || arrives(&mixed), "{from:?} {to:?}");
                }
            }
        }
        before = stage;
    }
}

/// Checks the change to new tables, in all of its prefixes.
fn assert_safe_change(
    (before, old): (&Topology, &Routing),
    (after, new): (&Topology, &Routing),
    seed: u64,
) -> usize {
    let old_tables = held(before, &old.tables, after);
    let orientation = Orientation::of(after, new.ranking.as_ref().unwrap()).unwrap();
    let is_above = |high: SwitchIdx, low: SwitchIdx| orientation.is_above(high, low);
    let follows = rsm_routing::verify::Dependencies::of(after, &new.tables).follows(is_above);
    let idle = IdleLinks::default();
    let along = follows
        .then(|| {
            let difference = Difference::between(&old_tables, &new.tables);
            stages_along_opening(after, is_above, &idle, &Unwritten::default(), &difference)
        })
        .flatten();
    let keeps_delivering = along.as_ref().is_some_and(|stages| !stages.has_cut);
    let stages = match along {
        Some(Stages { tables, .. }) => tables,
        None => stages(after, &old_tables, &new.tables),
    };
    // Each stage but the first waits for one before it, up the order and down again.
    assert!(stages.len() <= 2 * after.switch_count());
    if keeps_delivering {
        assert_delivery_kept(after, &old_tables, &stages, seed);
    }
    let mut now = &old_tables;
    for stage in &stages {
        assert!(mixture_is_acyclic(after, now, stage));
        now = stage;
    }
    assert_eq!(now, &new.tables);
    replay(after, &old_tables, &stages, seed);
    stages.len()
}

#[test]
fn changes_are_safe_while_trees_lose_and_regain_links_and_switches() {
    for (m, w, p) in [
        ([4, 4, 4], [1, 4, 4], [1, 1, 1]),
        ([4, 4, 3], [1, 4, 2], [1, 1, 2]),
    ] {
        let whole = pgft(&m, &w, &p, 0);
        let first = routed(EngineKind::FabricTree, &whole, None);
        let cables = whole.cables();
        for seed in 1..40u64 {
            let gone: Vec<_> = (0..seed % 4 + 1)
                .map(|number| {
                    cables[((seed * 7919 + number * 104_729) % cables.len() as u64) as usize].a
                })
                .collect();
            let mut broken = whole.without_cables(&gone);
            if seed % 3 == 0 {
                let switch = SwitchIdx((seed % whole.switch_count() as u64) as u32);
                broken = without_switches(&broken, &[switch]);
            }
            let during = routed(EngineKind::FabricTree, &broken, first.ranking.as_ref());
            assert_safe_change((&whole, &first), (&broken, &during), seed);
            let other = whole.without_cables(&gone[..gone.len() / 2]);
            let between = routed(EngineKind::FabricTree, &other, during.ranking.as_ref());
            assert_safe_change((&broken, &during), (&other, &between), seed);
            let after = routed(EngineKind::FabricTree, &whole, between.ranking.as_ref());
            assert_safe_change((&other, &between), (&whole, &after), seed);
            assert_eq!(after.tables, first.tables);
        }
    }
}

#[test]
fn entries_of_host_paths_change_in_the_first_stage() {
    // Packets of hosts need no entry that has to wait: the first stage leads them around one broken
    // link.
    let whole = pgft(&[4, 4, 4], &[1, 4, 4], &[1, 1, 1], 0);
    let first = routed(EngineKind::FabricTree, &whole, None);
    let cables = whole.cables();
    let leaf = |cable: &&rsm_routing::topology::Cable| {
        whole.hosts(whole.switch_by_guid(cable.a.0).unwrap()) > 0
    };
    let cable = cables.iter().filter(leaf).nth(40).unwrap();
    let broken = whole.without_cables(&[cable.a]);
    let during = routed(EngineKind::FabricTree, &broken, first.ranking.as_ref());
    let orientation = Orientation::of(&broken, during.ranking.as_ref().unwrap()).unwrap();
    let stages = stages_along(
        &broken,
        |high, low| orientation.is_above(high, low),
        &first.tables,
        &during.tables,
    )
    .unwrap();
    for from in broken.indices().filter(|&from| broken.hosts(from) > 0) {
        for to in broken.destinations().iter().filter(|to| to.kind.is_host()) {
            let [first, last] = [&stages[0], &during.tables]
                .map(|tables| path(&broken, tables, from, to.lid).unwrap());
            assert_eq!(first, last, "{:?} {from:?} {to:?}", stages.len());
        }
    }
}

/// The switches that a packet passes; `None` when it does not arrive.
fn path(topology: &Topology, tables: &Tables, from: SwitchIdx, lid: Lid) -> Option<Vec<SwitchIdx>> {
    let destination = topology.destination_of(lid)?;
    let mut passed = vec![from];
    while passed.last() != Some(&destination.switch) {
        let &switch = passed.last()?;
        let port = tables.lft(switch).port(lid)?;
        passed.push(topology.peer(switch, port)?.0);
        assert!(passed.len() <= topology.switch_count());
    }
    Some(passed)
}

/// Checks the change to new tables, in all of its prefixes, while links become Active as soon as
/// they may.
fn assert_safe_opening(
    topology: &Topology,
    old: &Tables,
    new: &Routing,
    end: impl Fn(SwitchIdx, PortNum) -> LinkEnd,
    seed: u64,
) {
    let orientation = Orientation::of(topology, new.ranking.as_ref().unwrap()).unwrap();
    let is_above = |high: SwitchIdx, low: SwitchIdx| orientation.is_above(high, low);
    if !rsm_routing::verify::Dependencies::of(topology, &new.tables).follows(is_above) {
        return;
    }
    let ends = topology.indices().flat_map(|switch| {
        let ports = (0..topology.port_uses(switch).len()).map(|port| PortNum(port as u8));
        let ends: Vec<_> = ports
            .map(|port| (switch, port, end(switch, port)))
            .collect();
        ends
    });
    let idle = IdleLinks::of(topology, ends);
    let Some(stages) = stages_along_opening(
        topology,
        is_above,
        &idle,
        &Unwritten::default(),
        &Difference::between(old, &new.tables),
    ) else {
        return;
    };
    let mut random = Random(seed | 1);
    let cuts = usize::from(stages.has_cut);
    let (mut now, mut began_sound) = (old.clone(), true);
    for (number, stage) in stages.tables.iter().enumerate() {
        let mut writes: Vec<(usize, usize)> = (0..stage.lfts.len())
            .flat_map(|switch| (0..stage.lfts[switch].blocks()).map(move |block| (switch, block)))
            .filter(|&(switch, block)| !stage.lfts[switch].block_eq(&now.lfts[switch], block))
            .collect();
        // Switch by switch, so that some of them hold all of a stage while others hold none of it.
        let switch_order: Vec<usize> = topology.indices().map(|_| random.below(1 << 20)).collect();
        writes.sort_by_key(|&(switch, _)| switch_order[switch]);
        for at in 0..=writes.len() {
            if let Some((switch, block)) = at.checked_sub(1).map(|last| writes[last]) {
                now.lfts[switch].set_block(block, stage.lfts[switch].block(block));
            }
            let held_to = |switch: SwitchIdx| {
                let of_stage = writes[at..]
                    .iter()
                    .all(|&(unwritten, _)| unwritten != switch.index());
                number > cuts || number == cuts && of_stage
            };
            let lets_open = |switch: SwitchIdx| {
                if !stages.links_first {
                    return now.lft(switch) == new.tables.lft(switch);
                }
                let is_dark = idle.is_dark(switch);
                let waits = is_dark && (!held_to(switch) || stages.dark_last && number <= cuts);
                number >= cuts && !waits
            };
            let closed: Vec<_> = topology
                .cables()
                .iter()
                .filter(|cable| {
                    let ends = [cable.a, cable.b]
                        .map(|(guid, port)| (topology.switch_by_guid(guid).unwrap(), port));
                    let least = ends.iter().map(|&(switch, port)| end(switch, port)).min();
                    let opens = ends.iter().all(|&(switch, _)| lets_open(switch));
                    // Links with both ends Armed may be Active by themselves at any time.
                    least == Some(LinkEnd::Closed) && !opens
                })
                .map(|cable| cable.a)
                .collect();
            let open = topology.without_cables(&closed);
            let report = verify(&open, &now);
            let is_sound = report.loop_free && report.credit_loop_free;
            if number == 0 && at == 0 {
                began_sound = is_sound;
            }
            // A cycle of the first tables lasts until a stage cuts it.
            let is_excused = !began_sound && number < cuts;
            let state = (&report.witnesses, number, at);
            assert!(is_sound || is_excused, "{state:?}");
        }
    }
    assert_eq!(now, new.tables);
}

/// `new` with the entries that `silent` holds, and without those of its neighbours by which packets
/// turn up after going down together with one that it may hold.
fn around(
    topology: &Topology,
    is_above: impl Fn(SwitchIdx, SwitchIdx) -> bool,
    silent: SwitchIdx,
    (old, new): (&Tables, &Tables),
    others: &[(SwitchIdx, Lid, u8)],
) -> Tables {
    let next = |from: SwitchIdx, port: u8| topology.peer(from, PortNum(port)).map(|(to, _)| to);
    let mut reached = new.clone();
    reached.lfts[silent.index()] = old.lft(silent).clone();
    let held = old
        .lft(silent)
        .differing(new.lft(silent))
        .map(|lid| (lid, old.lft(silent).entry(lid)));
    let sent = others.iter().map(|&(_, lid, exit)| (lid, exit));
    for (lid, exit) in held.chain(sent).collect::<Vec<_>>() {
        let Some(to) = next(silent, exit) else {
            continue;
        };
        let turning: Vec<SwitchIdx> = if is_above(to, silent) {
            let above = topology
                .groups(silent)
                .map(|group| group.neighbour)
                .filter(|&above| is_above(above, silent));
            above
                .filter(|&above| next(above, reached.lft(above).entry(lid)) == Some(silent))
                .collect()
        } else {
            let onward = next(to, reached.lft(to).entry(lid));
            onward
                .filter(|&onward| is_above(onward, to))
                .map(|_| to)
                .into_iter()
                .collect()
        };
        for switch in turning {
            reached.lfts[switch.index()].set_entry(lid, NO_PATH);
        }
    }
    reached
}

/// A topology without the cables that `dead` selects; it must have one.
fn without_some(whole: &Topology, dead: &[prop::sample::Index]) -> Topology {
    let cables = whole.cables();
    let cable = |dead: &prop::sample::Index| cables[dead.index(cables.len())].a;
    let ends: Vec<_> = dead.iter().map(cable).collect();
    whole.without_cables(&ends)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    /// A switch fell silent while it was sent entries of one order; the planned tables follow
    /// another one.
    #[test]
    fn entries_sent_to_a_silent_switch_close_no_loop_with_tables_of_another_order(
        plan in random::any_fabric(),
        dead in any::<prop::sample::Index>(),
        silent in any::<prop::sample::Index>(),
        tree in any::<bool>(),
    ) {
        let (before, after) = match tree {
            true => (EngineKind::FabricTree, EngineKind::UpDn),
            false => (EngineKind::UpDn, EngineKind::FabricTree),
        };
        let whole = plan.build();
        let cables = whole.cables();
        prop_assume!(!cables.is_empty());
        let silent = SwitchIdx(silent.index(whole.switch_count()) as u32);
        let old = routed(before, &whole, None);
        let broken = whole.without_cables(&[cables[dead.index(cables.len())].a]);
        let interim = routed(before, &broken, old.ranking.as_ref());
        let sent = interim.tables.lft(silent);
        let others: Vec<_> = old.tables.lft(silent).differing(sent)
            .map(|lid| (silent, lid, sent.entry(lid)))
            .collect();
        let fixed = Unwritten { switches: vec![silent], others };
        let old = old.tables;
        prop_assume!(fixed.permit(&whole, &[&old]));
        let new = routed(after, &whole, None);
        let orientation = Orientation::of(&whole, new.ranking.as_ref().unwrap()).unwrap();
        let is_above = |high: SwitchIdx, low: SwitchIdx| orientation.is_above(high, low);
        prop_assume!(
            rsm_routing::verify::Dependencies::of(&whole, &new.tables).follows(is_above)
        );
        let reached = around(&whole, is_above, silent, (&old, &new.tables), &fixed.others);
        let idle = IdleLinks::default();
        let difference = Difference::between(&old, &reached);
        let stages = stages_along_opening(&whole, is_above, &idle, &fixed, &difference);
        let Some(stages) = stages else {
            return Ok(());
        };
        let steps: Vec<&Tables> = std::iter::once(&old).chain(&stages.tables).collect();
        prop_assert!(fixed.permit(&whole, &steps));
        prop_assert_eq!(stages.tables.last(), Some(&reached));
    }

    #[test]
    fn changes_are_safe_while_any_fabric_loses_and_regains_cables_and_switches(
        plan in random::any_fabric(),
        dead in prop::collection::vec(any::<prop::sample::Index>(), 1..5),
        switch in any::<Option<prop::sample::Index>>(),
        seed in any::<u64>(),
        tree in any::<bool>(),
    ) {
        let kind = if tree { EngineKind::FabricTree } else { EngineKind::UpDn };
        let whole = plan.build();
        prop_assume!(!whole.cables().is_empty());
        let first = routed(kind, &whole, None);
        let mut broken = without_some(&whole, &dead);
        if let Some(switch) = switch {
            let gone = SwitchIdx(switch.index(whole.switch_count()) as u32);
            broken = without_switches(&broken, &[gone]);
        }
        let during = routed(kind, &broken, first.ranking.as_ref());
        assert_safe_change((&whole, &first), (&broken, &during), seed);
        let after = routed(kind, &whole, during.ranking.as_ref());
        assert_safe_change((&broken, &during), (&whole, &after), seed);
    }

    #[test]
    fn stages_of_a_lid_do_not_depend_on_other_lids(
        plan in random::any_fabric(),
        dead in prop::collection::vec(any::<prop::sample::Index>(), 1..5),
        tree in any::<bool>(),
    ) {
        let kind = if tree { EngineKind::FabricTree } else { EngineKind::UpDn };
        let whole = plan.build();
        prop_assume!(!whole.cables().is_empty());
        let first = routed(kind, &whole, None);
        let broken = without_some(&whole, &dead);
        let during = routed(kind, &broken, first.ranking.as_ref());
        let after = routed(kind, &whole, during.ranking.as_ref());
        let orientation = Orientation::of(&whole, after.ranking.as_ref().unwrap()).unwrap();
        let is_above = |high: SwitchIdx, low: SwitchIdx| orientation.is_above(high, low);
        prop_assume!(
            rsm_routing::verify::Dependencies::of(&whole, &after.tables).follows(is_above)
        );
        let Some(all) = stages_along(&whole, is_above, &during.tables, &after.tables) else {
            return Ok(());
        };
        for lid in whole.destinations().iter().flat_map(|to| to.lids()) {
            let mut new = during.tables.clone();
            for (lft, after) in new.lfts.iter_mut().zip(&after.tables.lfts) {
                lft.set_entry(lid, after.entry(lid));
            }
            let alone = stages_along(&whole, is_above, &during.tables, &new).unwrap();
            prop_assert!(alone.len() <= all.len());
            for (number, stage) in all.iter().enumerate() {
                let alone = &alone[number.min(alone.len() - 1)];
                for switch in whole.indices() {
                    let entries = [alone, stage].map(|tables| tables.lft(switch).entry(lid));
                    prop_assert_eq!(entries[0], entries[1], "{:?} {:?} {}", lid, switch, number);
                }
            }
        }
    }

    #[test]
    fn changes_are_safe_while_links_become_active(
        plan in random::any_fabric(),
        idle in prop::collection::vec(any::<prop::sample::Index>(), 1..4),
        dark in prop::collection::vec(any::<prop::sample::Index>(), 0..3),
        armed in any::<u64>(),
        seed in any::<u64>(),
        tree in any::<bool>(),
    ) {
        let kind = if tree { EngineKind::FabricTree } else { EngineKind::UpDn };
        let whole = plan.build();
        let cables = whole.cables();
        prop_assume!(!cables.is_empty());
        let first = routed(kind, &whole, None);
        let dark: Vec<_> = dark
            .iter()
            .map(|dark| whole.switch(SwitchIdx(dark.index(whole.switch_count()) as u32)).guid)
            .collect();
        let back: Vec<_> = cables
            .iter()
            .enumerate()
            .filter(|&(number, cable)| {
                let chosen = idle.iter().any(|idle| idle.index(cables.len()) == number);
                chosen || dark.contains(&cable.a.0) || dark.contains(&cable.b.0)
            })
            .map(|(number, cable)| (*cable, armed >> (number % 64) & 3 == 0))
            .collect();
        let ends: Vec<_> = back.iter().map(|(cable, _)| cable.a).collect();
        let broken = whole.without_cables(&ends);
        let during = routed(kind, &broken, first.ranking.as_ref());
        // Switches that were cut off hold their earlier tables, or those of another ranking.
        let other = routed(EngineKind::UpDn, &whole, None);
        let mut old = held(&broken, &during.tables, &whole);
        for (number, guid) in dark.iter().enumerate() {
            let switch = whole.switch_by_guid(*guid).unwrap();
            let earlier = if number % 2 == 0 { &first } else { &other };
            old.lfts[switch.index()] = earlier.tables.lft(switch).clone();
        }
        let end = |switch: SwitchIdx, port: PortNum| {
            let here = (whole.switch(switch).guid, port);
            let link = back.iter().find(|(cable, _)| cable.a == here || cable.b == here);
            match link {
                Some((_, true)) => LinkEnd::Armed,
                Some((_, false)) => LinkEnd::Closed,
                None => LinkEnd::Active,
            }
        };
        let after = routed(kind, &whole, during.ranking.as_ref());
        assert_safe_opening(&whole, &old, &after, end, seed);
        assert_safe_opening(&whole, &old, &first, end, seed);
    }
}
