//! Master trees: multicast for routes that follow no order of the switches, such as routes that
//! need several VLs to be free of credit loops.
//!
//! Such routes give links no direction up or down, so that each tree needs a proof of its own. A
//! master tree spans all switches and closes no cycle of (link, VL) with the unicast routes and the
//! other master trees. The tree of a group is the part of a master tree that connects the group's
//! members: it needs no further proof, and no join changes the tree of another group. Packets use
//! the VLs of their service level. Levels that switches map to different VLs have different master
//! trees.
//!
//! In a grid, the trees have the form of the trees of OpenSM's torus-2QoS: a spine along the last
//! dimension, ribs along the previous dimension, and so on. Packets reach the spine as unicast
//! packets do, one dimension after the other. Turns away from the spine, which unicast packets make
//! only around faults, lead to a separate VL. Each line is cut where unicast packets of the same VL
//! do not pass: at the dateline, or opposite to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::grow::{UpLink, grow};
use super::plan::{Job, Site, find_sites};
use super::reach::{FAR, Reach};
use super::{Group, PortMask, Tree};
use crate::engine::Coordinates;
use crate::lanes::Lanes;
use crate::topology::{Group as PortGroup, SwitchIdx};
use crate::verify::LaneDependencies;

/// The maximum number of switches of an island that are tried as the root of a master tree. Each
/// attempt costs a proof; if that many fail, others rarely succeed.
const ROOTS_TRIED: usize = 16;

/// The key of the groups that share a master tree: their service levels as a bit mask, and the
/// class of their multicast LIDs.
type Key = (u16, usize);

/// A master tree for each of some islands.
struct Master {
    /// For each switch, the hops from the root, or [`FAR`] if the tree does not reach it.
    depth: Vec<u16>,
    /// For each switch, the link to its parent; `None` for roots and switches outside the tree.
    ups: Vec<Option<UpLink>>,
    /// The root on each island.
    roots: BTreeMap<u32, SwitchIdx>,
}

/// Plans a tree for each of `groups`. A member whose switch no master tree reaches belongs to none
/// of [`Tree::parts`].
pub(super) fn plan(job: &Job<'_>, groups: &[Arc<Group>]) -> Vec<Tree> {
    let alike = job.routing.lanes.alike();
    let sites: Vec<(Key, &Arc<Group>, Vec<Site>)> = groups
        .iter()
        .map(|group| {
            let sites = find_sites(job, group);
            let class = sites.first().map_or(0, |site| site.class);
            ((representatives(&alike, group.levels), class), group, sites)
        })
        .collect();
    let mut islands: BTreeMap<Key, BTreeSet<u32>> = BTreeMap::new();
    for (key, _, sites) in sites.iter().filter(|(_, _, sites)| !sites.is_empty()) {
        let sites = sites.iter().map(|site| site.island);
        islands.entry(*key).or_default().extend(sites);
    }
    let masters = masters(job, &islands);
    let tree = |(key, group, sites): (Key, &Arc<Group>, Vec<Site>)| {
        let mut tree = Tree {
            group: group.clone(),
            masks: Vec::new(),
            parts: Vec::new(),
            is_oriented: false,
        };
        for site in sites {
            if let Some(master) = masters.get(&key) {
                master.add_members(site, &mut tree);
            }
        }
        tree
    };
    sites.into_iter().map(tree).collect()
}

/// Replaces each level in the set `levels` by the lowest level that switches map to the same VLs.
fn representatives(alike: &[u8], levels: u16) -> u16 {
    let own = alike
        .iter()
        .enumerate()
        .filter(|(level, _)| levels >> level & 1 == 1);
    own.fold(0, |mask, (_, &low)| mask | 1 << low)
}

/// Computes the master trees for the islands of each key.
fn masters(job: &Job<'_>, islands: &BTreeMap<Key, BTreeSet<u32>>) -> BTreeMap<Key, Master> {
    if islands.is_empty() {
        return BTreeMap::new();
    }
    let lanes: &Lanes = &job.routing.lanes;
    let mut needs = LaneDependencies::of(job.topology, &[&job.routing.tables], lanes);
    // Routes with a credit loop even without multicast are the operator's decision. Trees are then
    // planned without a proof.
    let is_unsound_anyway = !needs.is_sound();
    let mut masters = BTreeMap::new();
    for (&(levels, class), islands) in islands {
        let reach = job.basis.reach(job.topology, class);
        let mut master = Master {
            depth: vec![FAR; job.topology.switch_count()],
            ups: vec![None; job.topology.switch_count()],
            roots: BTreeMap::new(),
        };
        for &island in islands {
            let search = Search {
                job,
                reach,
                island,
                levels,
                positions: positions(job),
                is_unsound_anyway,
            };
            if let Some(growth) = search.find(&needs) {
                master.add_island(island, &growth);
                needs = growth.needs;
            }
        }
        masters.insert((levels, class), master);
    }
    masters
}

impl Master {
    /// Adds the tree of an island.
    fn add_island(&mut self, island: u32, growth: &Growth<'_, '_>) {
        for &switch in &growth.reached {
            self.depth[switch.index()] = growth.depth[switch.index()];
            self.ups[switch.index()] = growth.ups[switch.index()];
        }
        self.roots.insert(island, growth.reached[0]);
    }

    /// Adds to a group's tree the part of the master tree that connects the members of a site.
    fn add_members(&self, site: Site, tree: &mut Tree) {
        let Some(&root) = self.roots.get(&site.island) else {
            return;
        };
        let mut members = site.members;
        members.retain(|member| self.depth[member.switch.index()] != FAR);
        if members.is_empty() {
            return;
        }
        let up = |switch: SwitchIdx| self.ups[switch.index()];
        tree.masks.extend(grow(&members, root, &self.depth, up));
        tree.parts.push(members);
    }
}

/// The coordinates of a grid, and the position of each switch; `None` if the fabric is no grid.
type GridPositions<'a> = Option<(&'a Coordinates, Vec<Vec<u16>>)>;

/// The coordinates and positions, if the routing has coordinates.
fn positions<'a>(job: &Job<'a>) -> GridPositions<'a> {
    let coordinates = job.routing.coordinates.as_deref()?;
    Some((coordinates, coordinates.by_switch(job.topology)))
}

/// The search for the master tree of an island.
struct Search<'a, 'j> {
    job: &'j Job<'a>,
    reach: &'j Reach,
    island: u32,
    levels: u16,
    positions: GridPositions<'a>,
    is_unsound_anyway: bool,
}

impl<'a> Search<'a, '_> {
    /// Returns the first tree that reaches all switches of the island, else the tree that reaches
    /// most; `None` if the island has no switches.
    fn find(&self, needs: &LaneDependencies<'a>) -> Option<Growth<'a, '_>> {
        let switches = self.switches().count();
        let mut best: Option<Growth<'a, '_>> = None;
        for root in self.roots().into_iter().take(ROOTS_TRIED) {
            let mut all = Growth::new(self, needs, root);
            all.spread(false);
            all.add_at_once();
            let growth = if self.is_unsound_anyway || all.needs.is_sound() {
                all
            } else {
                let mut proved = Growth::new(self, needs, root);
                proved.spread(true);
                proved
            };
            let reached = growth.reached.len();
            if best
                .as_ref()
                .is_none_or(|best| best.reached.len() < reached)
            {
                best = Some(growth);
            }
            if reached == switches {
                break;
            }
        }
        best
    }

    /// The switches of the island that can multicast, the highest first.
    fn switches(&self) -> impl Iterator<Item = SwitchIdx> {
        let switches = self.job.basis.orientation().highest_first().iter();
        switches.copied().filter(|&switch| {
            self.reach.is_capable(switch)
                && self.reach.island(self.job.topology, switch) == self.island
        })
    }

    /// The switches in the order in which they are tried as roots. In a grid, the first roots are
    /// switches for which the two arms of the tree in each ring end where unicast packets of the
    /// same VL do not pass.
    fn roots(&self) -> Vec<SwitchIdx> {
        let mut roots: Vec<SwitchIdx> = self.switches().collect();
        if let Some((coordinates, positions)) = &self.positions {
            let lowest = self.levels.trailing_zeros();
            let bits = coordinates.level_bits().into_iter();
            let place: Vec<u16> = bits
                .zip(&coordinates.sizes)
                .map(|(bit, size)| match bit {
                    Some(bit) if lowest >> bit & 1 == 1 => 0,
                    _ => size / 2,
                })
                .collect();
            roots.sort_by_key(|root| coordinates.distance(&positions[root.index()], &place));
        }
        roots
    }

    /// The dimensions along which a tree spreads, one after the other; the last phase, `None`,
    /// spreads along all links.
    fn phases(&self) -> Vec<Option<usize>> {
        let dimensions = self
            .positions
            .as_ref()
            .map_or(0, |(coordinates, _)| coordinates.sizes.len());
        (0..dimensions)
            .rev()
            .map(Some)
            .chain(std::iter::once(None))
            .collect()
    }

    /// The dimension of a link between two switches; `None` outside a grid.
    fn dimension(&self, from: SwitchIdx, to: SwitchIdx) -> Option<usize> {
        let (coordinates, positions) = self.positions.as_ref()?;
        let (dimension, _) = coordinates.step(&positions[from.index()], &positions[to.index()])?;
        Some(dimension)
    }
}

/// A master tree that grows from its root.
struct Growth<'a, 's> {
    search: &'s Search<'a, 's>,
    /// The dependencies of all other packets, and of the tree as far as it has grown.
    needs: LaneDependencies<'a>,
    /// For each switch, the ports that belong to the tree.
    masks: Vec<PortMask>,
    depth: Vec<u16>,
    ups: Vec<Option<UpLink>>,
    /// The switches of the tree, each after its parent.
    reached: Vec<SwitchIdx>,
}

impl<'a, 's> Growth<'a, 's> {
    fn new(
        search: &'s Search<'a, 's>,
        needs: &LaneDependencies<'a>,
        root: SwitchIdx,
    ) -> Growth<'a, 's> {
        let count = search.job.topology.switch_count();
        let mut growth = Growth {
            search,
            needs: needs.clone(),
            masks: vec![PortMask::EMPTY; count],
            depth: vec![FAR; count],
            ups: vec![None; count],
            reached: vec![root],
        };
        growth.depth[root.index()] = 0;
        growth
    }

    /// Spreads along one dimension after the other, and attaches each switch to the nearest switch
    /// of the tree. With `is_proved`, uses only links that close no cycle with the dependencies
    /// before.
    fn spread(&mut self, is_proved: bool) {
        let topology = self.search.job.topology;
        for phase in self.search.phases() {
            let mut done = 0;
            while let Some(&switch) = self.reached.get(done) {
                done += 1;
                for group in topology.groups(switch) {
                    let next = group.neighbour;
                    let is_new = self.depth[next.index()] == FAR
                        && self.search.reach.is_capable(next)
                        && (phase.is_none() || phase == self.search.dimension(switch, next));
                    if is_new {
                        self.attach(switch, &group, is_proved);
                    }
                }
            }
        }
    }

    /// Attaches the neighbour of a port group to `switch` by the first permitted link between them.
    fn attach(&mut self, switch: SwitchIdx, group: &PortGroup<'_>, is_proved: bool) {
        let next = group.neighbour;
        for link in group.links {
            let before = (self.masks[switch.index()], self.masks[next.index()]);
            self.masks[switch.index()].insert(link.port);
            self.masks[next.index()].insert(link.peer_port);
            if is_proved && !self.closes_no_cycle(switch) {
                (self.masks[switch.index()], self.masks[next.index()]) = before;
                continue;
            }
            self.depth[next.index()] = self.depth[switch.index()] + 1;
            self.ups[next.index()] = Some(UpLink {
                port: link.peer_port,
                parent: switch,
                parent_port: link.port,
            });
            self.reached.push(next);
            return;
        }
    }

    /// Whether the last link added at `switch` closes no cycle; if so, adds its dependencies.
    fn closes_no_cycle(&mut self, switch: SwitchIdx) -> bool {
        let topology = self.search.job.topology;
        // Through the new link, packets also enter the channels of the other links, possibly on
        // other VLs.
        let senders: Vec<_> = self.masks[switch.index()]
            .ports()
            .filter_map(|port| Some((port, topology.peer(switch, port)?)))
            .flat_map(|(port, peer)| [(switch, port), peer])
            .collect();
        let masks = &self.masks;
        let mask_of = |switch: SwitchIdx| masks[switch.index()];
        self.needs.try_add(&senders, &mask_of, self.search.levels)
    }

    /// Adds the dependencies of the whole tree, without a check.
    fn add_at_once(&mut self) {
        let topology = self.search.job.topology;
        let masks: Vec<_> = topology
            .indices()
            .map(|switch| (switch, self.masks[switch.index()]))
            .collect();
        self.needs.add_multicast(&masks, self.search.levels);
    }
}
