//! Plans trees without an orientation: any tree whose dependencies are proved to close no cycle.

use std::collections::BTreeMap;

use super::grow::{UpLink, grow};
use super::plan::Job;
use super::reach::{FAR, Reach};
use super::{Member, PortMask, Tree};
use crate::topology::SwitchIdx;
use crate::verify::Dependencies;

/// The maximum number of switches of an island that are tried as the top of a tree. Each attempt
/// costs a proof; if that many of the highest switches fail, others rarely succeed.
const TOPS_TRIED: usize = 16;

/// Members of a group that no tree serves yet.
pub(super) struct UnservedMembers {
    /// The index of the group among the job's groups.
    pub(super) index: usize,
    /// The class of the group's multicast LID.
    pub(super) class: usize,
    pub(super) members: Vec<Member>,
}

/// Adds trees for unserved members: the members of an island get parts of a single tree, if a tree
/// is found that closes no cycle with the unicast routes and the other trees.
///
/// If the routes follow no orientation, first proves `trees`, and adds none unless they are sound
/// and no member lacks a tree. Returns whether the trees may be used; if false, no tree may.
pub(super) fn add_unoriented_trees(
    job: &Job<'_>,
    trees: &mut [Tree],
    unserved: Vec<UnservedMembers>,
) -> bool {
    let mut needs = Dependencies::of(job.topology, &job.routing.tables);
    // Routes with a credit loop even without multicast are the operator's decision. Trees are then
    // planned without a proof.
    let is_unsound_anyway = !needs.is_acyclic();
    for tree in trees.iter() {
        needs.add_multicast(&tree.masks);
    }
    let are_usable = is_unsound_anyway
        || job.basis.unicast_follows
        || (unserved.is_empty() && needs.is_acyclic());
    if !are_usable {
        return false;
    }
    let mut by_island: BTreeMap<(usize, u32), Vec<UnservedMembers>> = BTreeMap::new();
    for members in unserved {
        let reach = job.basis.reach(job.topology, members.class);
        if let Some(member) = members.members.first() {
            let island = reach.island(job.topology, member.switch);
            by_island
                .entry((members.class, island))
                .or_default()
                .push(members);
        }
    }
    for ((class, island), unserved) in by_island {
        let reach = job.basis.reach(job.topology, class);
        let tops = job.basis.orientation().highest_first().iter().copied();
        let tops =
            tops.filter(|&top| reach.is_capable(top) && reach.island(job.topology, top) == island);
        for top in tops.take(TOPS_TRIED) {
            let masks = span(job, reach, top, &unserved);
            let mut extended = needs.clone();
            for masks in &masks {
                extended.add_multicast(masks);
            }
            if is_unsound_anyway || extended.is_acyclic() {
                needs = extended;
                for (one, masks) in unserved.into_iter().zip(masks) {
                    let tree = &mut trees[one.index];
                    tree.masks.extend(masks);
                    tree.parts.push(one.members);
                    tree.is_oriented = false;
                }
                break;
            }
        }
    }
    true
}

/// For each of `unserved`, the masks of its part of the tree of shortest paths from `top`.
fn span(
    job: &Job<'_>,
    reach: &Reach,
    top: SwitchIdx,
    unserved: &[UnservedMembers],
) -> Vec<Vec<(SwitchIdx, PortMask)>> {
    let mut depth = vec![FAR; job.topology.switch_count()];
    let mut ups: Vec<Option<UpLink>> = vec![None; job.topology.switch_count()];
    depth[top.index()] = 0;
    let mut queue = vec![top];
    let mut done = 0;
    while let Some(&switch) = queue.get(done) {
        done += 1;
        for group in job.topology.groups(switch) {
            let next = group.neighbour;
            if depth[next.index()] == FAR
                && reach.is_capable(next)
                && let Some(link) = group.links.first()
            {
                depth[next.index()] = depth[switch.index()] + 1;
                ups[next.index()] = Some(UpLink {
                    port: link.peer_port,
                    parent: switch,
                    parent_port: link.port,
                });
                queue.push(next);
            }
        }
    }
    unserved
        .iter()
        .map(|one| grow(&one.members, top, &depth, |switch| ups[switch.index()]))
        .collect()
}
