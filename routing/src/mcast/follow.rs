//! Derives trees from earlier trees and the changes since.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rsm_ids::Lid;

use super::plan::{plan_oriented, sorted};
use super::{BasisDelta, Group, Job, Member, Mft, PortMask, Tree, Trees};
use crate::topology::SwitchIdx;

/// The earlier trees, with the numbers of the present switches.
///
/// Members, masks and tables of absent switches are left out.
#[derive(Clone, Debug)]
pub struct Earlier {
    /// The trees. They share memory with the planned trees if no switch number has changed.
    pub trees: Trees,
    /// The table of each switch, derived from the trees.
    pub tables: Vec<Arc<Mft>>,
    /// The multicast LIDs that absent switches forwarded.
    cut_mlids: BTreeSet<Lid>,
}

impl Earlier {
    /// Reduces `trees`, and the `tables` derived from them, to the switches that remain after
    /// `delta`.
    pub fn new(trees: &Trees, tables: &[Arc<Mft>], delta: &BasisDelta) -> Earlier {
        if !delta.is_renumbered() {
            return Earlier {
                trees: trees.clone(),
                tables: tables.to_vec(),
                cut_mlids: BTreeSet::new(),
            };
        }
        let removed_tables = delta.gone.iter().map(|old| &tables[old.index()]);
        let cut_mlids = removed_tables.flat_map(|table| table.entries().map(|(mlid, _)| mlid));
        let switches = tables.len() - delta.gone.len() + delta.added.len();
        // There are fewer switches than LIDs.
        let switches = (0..switches as u32).map(SwitchIdx);
        let earlier = switches.map(|switch| delta.earlier(switch));
        let trees = trees.by_mlid.iter();
        Earlier {
            cut_mlids: cut_mlids.collect(),
            tables: earlier
                .map(|old| old.map_or_else(Arc::default, |old| tables[old.index()].clone()))
                .collect(),
            trees: Trees {
                by_mlid: trees
                    .map(|(&mlid, tree)| (mlid, Arc::new(renumbered(tree, delta))))
                    .collect(),
            },
        }
    }
}

/// Renumbers the switches of a tree. Numbers follow GUIDs before and after, so that sorted lists
/// stay sorted.
fn renumbered(tree: &Tree, delta: &BasisDelta) -> Tree {
    let members = |members: &[Member]| -> Vec<Member> {
        let kept = members.iter().filter_map(|member| {
            let switch = delta.number(member.switch)?;
            Some(Member { switch, ..*member })
        });
        kept.collect()
    };
    let masks = tree
        .masks
        .iter()
        .filter_map(|&(switch, mask)| Some((delta.number(switch)?, mask)));
    Tree {
        group: Arc::new(Group {
            mlid: tree.group.mlid,
            members: members(&tree.group.members),
            levels: tree.group.levels,
        }),
        masks: masks.collect(),
        parts: tree.parts.iter().map(|part| members(part)).collect(),
        is_oriented: tree.is_oriented,
    }
}

/// The result of [`plan`](super::plan) for a job, derived from the earlier trees and the changes.
#[derive(Debug)]
pub struct Followed {
    /// The trees. Trees that no change concerns are shared with [`Earlier`].
    pub trees: Trees,
    /// The tables of [`Trees::tables`]; unchanged tables share memory with the earlier ones.
    pub tables: Vec<Arc<Mft>>,
    /// The multicast LIDs whose trees were planned again, or that no longer have a tree.
    pub concerned: BTreeSet<Lid>,
}

/// Computes the result of [`plan`](super::plan) for `job`. Trees that no change concerns stay; all
/// other trees are planned again.
///
/// `delta` is the difference from the fabric of `earlier` to the fabric of the job; the default if
/// fabric and orientation are unchanged. `earlier` must have been planned for routes that follow an
/// order. `held_otherwise` holds the multicast LIDs whose masks in some switch differ from
/// `earlier`.
///
/// # Errors
/// The reason, in a few words, why the result cannot be derived from the changes.
pub fn follow(
    job: &Job<'_>,
    delta: &BasisDelta,
    earlier: Earlier,
    held_otherwise: &BTreeSet<Lid>,
) -> Result<Followed, &'static str> {
    if !job.basis.unicast_follows {
        return Err("the routes follow no order");
    }
    let known = &earlier.trees.by_mlid;
    if known.values().any(|tree| !tree.is_oriented) {
        return Err("a tree follows no order");
    }
    let cut_mlids = with_changed_links(delta, &earlier);
    let stays = |group: &Group| {
        let tree = known.get(&group.mlid)?;
        let stays = !cut_mlids.contains(&group.mlid)
            && !held_otherwise.contains(&group.mlid)
            && tree.is_simple()
            && *tree.group == *group
            && !is_shortened(job, delta, tree);
        stays.then_some(())
    };
    let to_plan: Vec<&Arc<Group>> = job
        .groups
        .iter()
        .filter(|group| stays(group).is_none())
        .collect();
    let (trees, unserved) = plan_oriented(job, &to_plan);
    if !unserved.is_empty() {
        return Err("members have no common top");
    }
    Ok(merge(job.groups, earlier, trees))
}

/// The multicast LIDs whose trees contain a changed link.
fn with_changed_links(delta: &BasisDelta, earlier: &Earlier) -> BTreeSet<Lid> {
    let mut cut_mlids = earlier.cut_mlids.clone();
    for (switch, ports) in &delta.ports {
        let entries = earlier.tables[switch.index()].entries();
        let forwarded = entries.filter(|(_, mask)| mask.intersects(ports));
        cut_mlids.extend(forwarded.map(|(mlid, _)| mlid));
    }
    cut_mlids
}

impl Tree {
    /// Whether the masks connect all members, so that the tree itself shows the paths.
    fn is_simple(&self) -> bool {
        self.parts.len() == 1 && self.unserved() == 0 && !self.masks.is_empty()
    }
}

/// Whether the path down from the top of `tree` to one of its switches may have become shorter.
fn is_shortened(job: &Job<'_>, delta: &BasisDelta, tree: &Tree) -> bool {
    let Some(class) = job.basis.class_of(tree.group.mlid) else {
        return false;
    };
    let Some(shortened) = delta
        .shortened
        .get(class)
        .filter(|shortened| !shortened.is_empty())
    else {
        return false;
    };
    let switches = || tree.masks.iter().map(|&(switch, _)| switch);
    let top = switches().min_by_key(|&switch| job.basis.orientation().place(switch));
    let Some(lows) = top.and_then(|top| shortened.get(&top)) else {
        return false;
    };
    let reach = job.basis.reach(job.topology, class);
    let slots = || switches().map(|switch| job.basis.slot(switch));
    lows.iter()
        .any(|&low| slots().any(|slot| reach.is_below(slot, low)))
}

/// Replaces earlier trees by `planned`, and removes trees whose multicast LID no group has any
/// more.
fn merge(groups: &[Arc<Group>], earlier: Earlier, planned: Vec<Tree>) -> Followed {
    let Earlier {
        mut trees,
        mut tables,
        ..
    } = earlier;
    let is_wanted = |mlid: &Lid| {
        groups
            .binary_search_by_key(mlid, |group| group.mlid)
            .is_ok()
    };
    let unwanted: Vec<Lid> = trees
        .by_mlid
        .keys()
        .copied()
        .filter(|mlid| !is_wanted(mlid))
        .collect();
    let mut concerned = BTreeSet::new();
    for mlid in unwanted {
        concerned.insert(mlid);
        if let Some(tree) = trees.by_mlid.remove(&mlid) {
            replace_masks(&mut tables, mlid, &tree.masks, &[]);
        }
    }
    for tree in planned {
        let (mlid, tree) = (tree.group.mlid, sorted(tree));
        concerned.insert(mlid);
        let known = trees.by_mlid.get(&mlid);
        if known.is_some_and(|known| **known == tree) {
            continue;
        }
        let before = known.map_or(&[][..], |known| &known.masks);
        replace_masks(&mut tables, mlid, before, &tree.masks);
        trees.by_mlid.insert(mlid, Arc::new(tree));
    }
    Followed {
        trees,
        tables,
        concerned,
    }
}

/// Changes the masks of a multicast LID from `before` to `after` in the tables of switches. Both
/// lists are sorted.
fn replace_masks(
    tables: &mut [Arc<Mft>],
    mlid: Lid,
    before: &[(SwitchIdx, PortMask)],
    after: &[(SwitchIdx, PortMask)],
) {
    let mut masks: BTreeMap<SwitchIdx, PortMask> = before
        .iter()
        .map(|&(switch, _)| (switch, PortMask::EMPTY))
        .collect();
    masks.extend(after.iter().copied());
    for (switch, mask) in masks {
        let table = &mut tables[switch.index()];
        if table.mask(mlid) != mask {
            Arc::make_mut(table).set(mlid, mask);
        }
    }
}
