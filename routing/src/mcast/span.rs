//! Trees where no orientation helps: any tree whose dependencies prove to close no cycle.

use std::collections::BTreeMap;

use super::grow::{Up, grow};
use super::plan::Job;
use super::reach::{FAR, Reach};
use super::{Member, PortMask, Tree};
use crate::topology::SwitchIdx;
use crate::verify::Dependencies;

/// How many switches of an island are tried as the top of a tree. Each costs a proof; where that
/// many highest switches do not do, others rarely would.
const TOPS_TRIED: usize = 16;

/// Members without a tree.
pub(super) struct Homeless {
    /// Of the group among the job's.
    pub(super) index: usize,
    pub(super) class: usize,
    pub(super) members: Vec<Member>,
}

/// Gives trees to members that have none, all of an island the same, if there is one that closes no
/// cycle with the unicast routes and the other trees.
///
/// Where the routes follow no orientation, the trees of `trees` are proved first. Returns whether
/// they stand, and none of their members is without one; if not, no tree of them is of use.
pub(super) fn settle(job: &Job<'_>, trees: &mut [Tree], homeless: Vec<Homeless>) -> bool {
    let mut needs = Dependencies::of(job.topology, &job.routing.tables);
    // Routes that can deadlock by themselves are the operator's decision; trees make it no worse.
    let nothing_to_lose = !needs.is_acyclic();
    for tree in trees.iter() {
        needs.add_multicast(&tree.masks);
    }
    let stands = nothing_to_lose
        || job.ground.unicast_follows
        || (homeless.is_empty() && needs.is_acyclic());
    if !stands {
        return false;
    }
    let mut by_island: BTreeMap<(usize, u32), Vec<Homeless>> = BTreeMap::new();
    for one in homeless {
        let reach = job.ground.reach(job.topology, one.class);
        if let Some(member) = one.members.first() {
            let island = reach.island(job.topology, member.switch);
            by_island.entry((one.class, island)).or_default().push(one);
        }
    }
    for ((class, island), homeless) in by_island {
        let reach = job.ground.reach(job.topology, class);
        let tops = job.ground.orientation().highest_first().iter().copied();
        let tops =
            tops.filter(|&top| reach.is_capable(top) && reach.island(job.topology, top) == island);
        for top in tops.take(TOPS_TRIED) {
            let masks = span(job, reach, top, &homeless);
            let mut with = needs.clone();
            for masks in &masks {
                with.add_multicast(masks);
            }
            if nothing_to_lose || with.is_acyclic() {
                needs = with;
                for (one, masks) in homeless.into_iter().zip(masks) {
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

/// For each of `homeless`, its part of the one tree of shortest ways from `top`.
fn span(
    job: &Job<'_>,
    reach: &Reach,
    top: SwitchIdx,
    homeless: &[Homeless],
) -> Vec<Vec<(SwitchIdx, PortMask)>> {
    let mut depth = vec![FAR; job.topology.switch_count()];
    let mut ups: Vec<Option<Up>> = vec![None; job.topology.switch_count()];
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
                ups[next.index()] = Some(Up {
                    port: link.peer_port,
                    parent: switch,
                    parent_port: link.port,
                });
                queue.push(next);
            }
        }
    }
    homeless
        .iter()
        .map(|one| grow(&one.members, top, &depth, |switch| ups[switch.index()]))
        .collect()
}
