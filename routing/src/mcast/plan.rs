//! Plans the trees of all groups.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fixedbitset::FixedBitSet;
use rayon::prelude::*;
use rsm_ids::Lid;

use super::basis::offset;
use super::grow::{UpLink, grow};
use super::reach::Reach;
use super::span::{self, UnservedMembers};
use super::{Group, Member, MulticastBasis, PortMask, Tree, Trees, masters};
use crate::engine::Routing;
use crate::topology::{SwitchIdx, Topology};

/// Returns the ports by which a switch forwards packets to a multicast LID at present, as far as
/// known. Trees keep these branches if they can.
pub type Held<'a> = dyn Fn(SwitchIdx, Lid) -> PortMask + Sync + 'a;

/// All inputs for planning trees.
pub struct Job<'a> {
    /// The fabric in which to plan.
    pub topology: &'a Topology,
    /// The unicast routes.
    pub routing: &'a Routing,
    /// The basis of this topology and these routes.
    pub basis: &'a MulticastBasis,
    /// The groups, sorted by multicast LID and without duplicates.
    pub groups: &'a [Arc<Group>],
    /// The masks that switches hold.
    pub held: &'a Held<'a>,
}

/// Members of a group on one island, which the island's switches can connect.
pub(super) struct Site {
    /// The class of the group's multicast LID; see [`MulticastBasis::class_of`].
    pub(super) class: usize,
    /// The number of the island; see [`Reach::island`].
    pub(super) island: u32,
    pub(super) members: Vec<Member>,
}

/// Finds a tree for each group.
///
/// Trees follow the basis's orientation if all groups have common tops and the unicast routes
/// follow it too. If not, [`plan`] tries other trees, and keeps them only if they close no credit
/// loop with the unicast routes, or if the unicast routes alone close one; otherwise all groups get
/// parts of master trees. Members that no tree serves belong to none of [`Tree::parts`].
pub fn plan(job: &Job<'_>) -> Trees {
    let follows = job.basis.unicast_follows;
    let oriented = (follows || job.routing.lanes.is_single()).then(|| {
        let groups: Vec<&Arc<Group>> = job.groups.iter().collect();
        let (mut trees, unserved) = plan_oriented(job, &groups);
        let is_safe = (follows && unserved.is_empty())
            || span::add_unoriented_trees(job, &mut trees, unserved);
        is_safe.then_some(trees)
    });
    let trees = oriented
        .flatten()
        .unwrap_or_else(|| masters::plan(job, job.groups))
        .into_iter()
        .map(|tree| Arc::new(sorted(tree)));
    Trees {
        by_mlid: trees.map(|tree| (tree.group.mlid, tree)).collect(),
    }
}

/// Plans a tree for each of `groups` that follows the basis's orientation. Also returns the members
/// without a common top.
pub(super) fn plan_oriented(
    job: &Job<'_>,
    groups: &[&Arc<Group>],
) -> (Vec<Tree>, Vec<UnservedMembers>) {
    let sites: Vec<(usize, Site, Option<SwitchIdx>)> = groups
        .par_iter()
        .enumerate()
        .flat_map_iter(|(index, group)| {
            let sites = find_sites(job, group).into_iter();
            sites.map(move |site| {
                let reach = job.basis.reach(job.topology, site.class);
                let top = find_top(job, reach, group.mlid, &site.members);
                (index, site, top)
            })
        })
        .collect();
    let tops: BTreeSet<(usize, SwitchIdx)> = sites
        .iter()
        .filter_map(|(_, site, top)| Some((site.class, (*top)?)))
        .collect();
    let depths: BTreeMap<(usize, SwitchIdx), Vec<u16>> = tops
        .into_par_iter()
        .map(|(class, top)| {
            let reach = job.basis.reach(job.topology, class);
            let depths = reach.depths(job.topology, job.basis.orientation(), top);
            ((class, top), depths)
        })
        .collect();
    let masks: Vec<Vec<(SwitchIdx, PortMask)>> = sites
        .par_iter()
        .map(|(index, site, top)| match *top {
            Some(top) => {
                let depth = &depths[&(site.class, top)];
                let mlid = groups[*index].mlid;
                grow(&site.members, top, depth, |switch| {
                    link_up(job, mlid, depth, switch)
                })
            }
            None => Vec::new(),
        })
        .collect();

    let mut trees: Vec<Tree> = groups
        .iter()
        .map(|&group| Tree {
            group: group.clone(),
            masks: Vec::new(),
            parts: Vec::new(),
            is_oriented: true,
        })
        .collect();
    let mut unserved = Vec::new();
    for ((index, site, top), masks) in sites.into_iter().zip(masks) {
        if top.is_some() {
            trees[index].masks.extend(masks);
            trees[index].parts.push(site.members);
        } else {
            unserved.push(UnservedMembers {
                index,
                class: site.class,
                members: site.members,
            });
        }
    }
    (trees, unserved)
}

/// Sorts the parts and masks of a tree.
pub(super) fn sorted(mut tree: Tree) -> Tree {
    tree.masks.sort_unstable_by_key(|&(switch, _)| switch);
    tree.parts.sort_unstable();
    tree
}

/// The members of a group, as one site for each island. Members whose switch cannot multicast are
/// left out.
pub(super) fn find_sites(job: &Job<'_>, group: &Group) -> Vec<Site> {
    if !group.mlid.is_multicast() {
        return Vec::new();
    }
    let Some(class) = job.basis.class_of(group.mlid) else {
        return Vec::new();
    };
    let reach = job.basis.reach(job.topology, class);
    let mut islands: BTreeMap<u32, Vec<Member>> = BTreeMap::new();
    for &member in &group.members {
        if reach.is_capable(member.switch) {
            let island = reach.island(job.topology, member.switch);
            islands.entry(island).or_default().push(member);
        }
    }
    let site = |(island, members)| Site {
        class,
        island,
        members,
    };
    islands.into_iter().map(site).collect()
}

/// The top for some members: the held top of most members if paths down from that top lead to all
/// members; else one of the lowest switches with paths down to all members, chosen by the multicast
/// LID. `None` if no switch has such paths.
fn find_top(job: &Job<'_>, reach: &Reach, mlid: Lid, members: &[Member]) -> Option<SwitchIdx> {
    let mut switches = FixedBitSet::new();
    let mut found: BTreeMap<SwitchIdx, SwitchIdx> = BTreeMap::new();
    let mut votes: BTreeMap<SwitchIdx, usize> = BTreeMap::new();
    for at in members.chunk_by(|a, b| a.switch == b.switch) {
        let switch = at[0].switch;
        switches.grow_and_insert(job.basis.slot(switch));
        let top = held_top(job, reach, mlid, switch, &mut found);
        *votes.entry(top).or_default() += 1;
    }
    let kept = votes
        .into_iter()
        .filter(|&(top, _)| !held(job, top, mlid).is_empty() && reach.covers(top, &switches))
        .max_by_key(|&(top, votes)| (votes, std::cmp::Reverse(top)));
    if let Some((top, _)) = kept {
        return Some(top);
    }
    let tops = reach.tops(job.topology, &switches);
    (!tops.is_empty()).then(|| tops[usize::from(offset(mlid)) % tops.len()])
}

/// The mask that a switch holds; empty if trees have to be proved together. Trees would otherwise
/// depend on earlier attempts, and repeated planning might never end in the same trees.
fn held(job: &Job<'_>, switch: SwitchIdx, mlid: Lid) -> PortMask {
    if job.basis.unicast_follows {
        (job.held)(switch, mlid)
    } else {
        PortMask::EMPTY
    }
}

/// The switch that is reached from a switch by going up along held links as far as possible; the
/// switch itself if no held link leads up from it. `found` keeps results for other members.
fn held_top(
    job: &Job<'_>,
    reach: &Reach,
    mlid: Lid,
    from: SwitchIdx,
    found: &mut BTreeMap<SwitchIdx, SwitchIdx>,
) -> SwitchIdx {
    let mut passed = Vec::new();
    let mut switch = from;
    let top = loop {
        if let Some(&top) = found.get(&switch) {
            break top;
        }
        passed.push(switch);
        let own = held(job, switch, mlid);
        let mut ups = ups(job, switch).filter(|up| reach.is_capable(up.parent));
        match ups.find(|up| is_link_held(job, mlid, own, up)) {
            Some(up) => switch = up.parent,
            None => break switch,
        }
    };
    found.extend(passed.into_iter().map(|switch| (switch, top)));
    top
}

/// The links of a switch that lead up.
fn ups<'a>(job: &'a Job<'_>, switch: SwitchIdx) -> impl Iterator<Item = UpLink> + 'a {
    let orientation = job.basis.orientation();
    job.topology
        .groups(switch)
        .filter(move |group| orientation.is_above(group.neighbour, switch))
        .flat_map(|group| {
            group.links.iter().map(move |link| UpLink {
                port: link.port,
                parent: group.neighbour,
                parent_port: link.peer_port,
            })
        })
}

/// Whether packets to the multicast LID cross a link in either direction by the held masks; `own`
/// is the mask of the link's lower end.
fn is_link_held(job: &Job<'_>, mlid: Lid, own: PortMask, up: &UpLink) -> bool {
    own.contains(up.port) || held(job, up.parent, mlid).contains(up.parent_port)
}

/// The link from a switch to a parent that is one hop nearer to the top: a held link if there is
/// one, else a link that the multicast LID chooses, in the same way for all switches with equal
/// choices. `None` at the top.
fn link_up(job: &Job<'_>, mlid: Lid, depth: &[u16], switch: SwitchIdx) -> Option<UpLink> {
    let nearer = depth[switch.index()].checked_sub(1)?;
    let candidates = || ups(job, switch).filter(|up| depth[up.parent.index()] == nearer);
    let own = held(job, switch, mlid);
    if let Some(kept) = candidates().find(|up| is_link_held(job, mlid, own, up)) {
        return Some(kept);
    }
    let mut parents: Vec<SwitchIdx> = candidates().map(|up| up.parent).collect();
    parents.dedup();
    let choice = usize::from(offset(mlid));
    let parent = *parents.get(choice % parents.len().max(1))?;
    let links: Vec<UpLink> = candidates().filter(|up| up.parent == parent).collect();
    links
        .get(choice / parents.len() % links.len().max(1))
        .copied()
}
