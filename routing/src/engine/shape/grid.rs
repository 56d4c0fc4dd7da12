//! Recognises meshes, tori and HyperX, and finds the coordinates of each switch.
//!
//! In a grid, opposite sides of a square of four switches belong to one dimension, and to one
//! position in it. Sides that squares connect form a *cut*: all links between two neighbouring
//! slices. Two links of a switch that are sides of one square belong to different dimensions; two
//! links that share no square belong to the same one. If the links of one dimension are removed,
//! each component is a slice, and the slices form a row or a ring.
//!
//! A ring of four is a square as well: it counts as two dimensions of two, which is the same graph,
//! and needs no dateline.

use std::collections::{BTreeMap, BTreeSet};

use rsm_ids::Guid;

use crate::topology::{SwitchIdx, Topology};

/// The maximum number of neighbours of a switch in rows and rings: two in each of six dimensions.
/// Even the smallest useful grid with more dimensions has too many LIDs. Neighbours that are
/// neighbours of each other do not count.
const MAX_NEIGHBOURS: usize = 12;

/// The maximum sum, over all switches, of the cube of the number of neighbours, which is the number
/// of look-ups of edges to find squares: at most a second of work. A HyperX of 12x12x12 stays
/// below.
const MAX_LOOKUPS: usize = 1 << 26;

/// A row is full if fewer than one in this many pairs of its positions are not neighbours.
const FULL_BUT_ONE_IN: usize = 4;

/// The cables of the rows of a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RowCables {
    /// From each switch to the next one.
    Line,
    /// From each switch to the next one, and from the last to the first.
    Ring,
    /// Between any two switches, as in a HyperX.
    Full,
}

/// The coordinates of each switch of a mesh, torus or HyperX. They are stored by GUID, so that they
/// outlive the topology on which they were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coordinates {
    /// The number of switches in a row of each dimension; the longest dimension first, or in the
    /// order of a [`TorusLayout`](super::TorusLayout).
    pub sizes: Vec<u16>,
    /// For each dimension, the cables of a row.
    pub rows: Vec<RowCables>,
    /// The coordinates of each switch, one for each dimension.
    pub places: BTreeMap<Guid, Vec<u16>>,
}

/// The reason why a fabric is no grid; follows "the fabric is no mesh, torus or HyperX: ".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoGrid {
    /// A switch has more neighbours than a mesh or torus can have.
    #[error("switch {switch} has {neighbours} neighbours, where there can be {MAX_NEIGHBOURS}")]
    TooManyNeighbours {
        /// The GUID of the switch.
        switch: Guid,
        /// The number of its neighbours that are not neighbours of each other.
        neighbours: usize,
    },
    /// The search for squares would take too long.
    #[error("it has too many cables to look for the squares of a grid")]
    TooLarge,
    /// Cables do not connect all switches, so the parts have no relative positions.
    #[error("switch {switch} has no connection with switch {first}")]
    Apart {
        /// A switch of one part.
        switch: Guid,
        /// A switch of the first part.
        first: Guid,
    },
    /// The slices of a dimension form neither a row nor a ring, and are not all neighbours.
    #[error("switch {switch} has {neighbours} neighbours in one row")]
    Branches {
        /// A switch in a slice with the wrong neighbours.
        switch: Guid,
        /// The number of neighbouring slices.
        neighbours: usize,
    },
    /// Two switches would have equal coordinates.
    #[error("switches {one} and {other} come to be at one place")]
    OnePlace {
        /// The GUID of the first switch.
        one: Guid,
        /// The GUID of the second switch.
        other: Guid,
    },
    /// A link connects switches that are not neighbours in the grid.
    #[error("the link between switches {one} and {other} joins no neighbours")]
    StrayLink {
        /// The switch at one end.
        one: Guid,
        /// The switch at the other end.
        other: Guid,
    },
}

impl Coordinates {
    /// Finds the coordinates of the switches of `topology`. Coordinates in `earlier` stay as long
    /// as every link fits them, so that a fault moves no switch; a new switch takes the free
    /// position that its links fit.
    ///
    /// # Errors
    /// The fabric is no mesh, torus or HyperX, or too much is missing to recognise one.
    pub fn find(topology: &Topology, earlier: Option<&Coordinates>) -> Result<Coordinates, NoGrid> {
        if let Some(kept) = earlier.and_then(|earlier| earlier.extended_to(topology)) {
            return Ok(kept);
        }
        let found = find(topology)?;
        found.check(topology)?;
        Ok(found)
    }

    /// The coordinates by switch number. Every switch of `topology` must have coordinates.
    pub(crate) fn by_switch(&self, topology: &Topology) -> Vec<Vec<u16>> {
        let place = |switch: &crate::topology::Switch| self.places.get(&switch.guid).cloned();
        let nowhere = || vec![0; self.sizes.len()];
        topology
            .switches()
            .iter()
            .map(|switch| place(switch).unwrap_or_else(nowhere))
            .collect()
    }

    /// For each dimension, the number of the bit of the service level that marks packets that cross
    /// the dateline of a ring; `None` if its rows are no rings.
    pub(crate) fn level_bits(&self) -> Vec<Option<u8>> {
        let mut rings = 0..;
        let bit = |&row: &RowCables| match row {
            RowCables::Ring => rings.next(),
            RowCables::Line | RowCables::Full => None,
        };
        self.rows.iter().map(bit).collect()
    }

    /// The number of hops between two positions, in the shorter direction in rings.
    pub(crate) fn distance(&self, from: &[u16], to: &[u16]) -> u32 {
        let dimensions = (0..self.sizes.len()).map(|dimension| {
            let straight = from[dimension].abs_diff(to[dimension]);
            let hops = match self.rows[dimension] {
                RowCables::Ring => straight.min(self.sizes[dimension] - straight),
                RowCables::Line => straight,
                RowCables::Full => straight.min(1),
            };
            u32::from(hops)
        });
        dimensions.sum()
    }

    /// The step between two neighbouring positions: the dimension, and whether the second position
    /// is the next (true) or the previous one; in a full row, whether it is any later one. In a row
    /// of two with one connection, position one is next to position zero. `None` if the positions
    /// are not neighbours.
    pub(crate) fn step(&self, from: &[u16], to: &[u16]) -> Option<(usize, bool)> {
        let mut differ =
            (0..self.sizes.len()).filter(|&dimension| from[dimension] != to[dimension]);
        let dimension = differ.next()?;
        if differ.next().is_some() {
            return None;
        }
        let (a, b, size) = (from[dimension], to[dimension], self.sizes[dimension]);
        if self.rows[dimension] == RowCables::Full {
            return Some((dimension, b > a));
        }
        let wraps = self.rows[dimension] == RowCables::Ring;
        if b == a + 1 || (wraps && a + 1 == size && b == 0) {
            Some((dimension, true))
        } else if a == b + 1 || (wraps && b + 1 == size && a == 0) {
            Some((dimension, false))
        } else {
            None
        }
    }

    /// Whether these coordinates contain all of `earlier`, perhaps with more switches.
    pub(in crate::engine) fn contains_all_of(&self, earlier: &Coordinates) -> bool {
        let is_kept = |(guid, place)| self.places.get(guid) == Some(place);
        self.sizes == earlier.sizes
            && self.rows == earlier.rows
            && earlier.places.iter().all(is_kept)
    }

    /// The grid as text, such as `torus 16x16x8`, `mesh 4x4` or `hyperx 8x8`.
    pub fn name(&self) -> String {
        let has = |row| self.rows.contains(&row);
        let kind = match (has(RowCables::Ring), has(RowCables::Full)) {
            (true, true) => "torus of full rows and rings",
            (true, false) => "torus",
            (false, true) => "hyperx",
            (false, false) => "mesh",
        };
        let sizes: Vec<String> = self.sizes.iter().map(u16::to_string).collect();
        format!("{kind} {}", sizes.join("x"))
    }

    /// These coordinates with those of new switches; `None` if a new switch has no unique position,
    /// or if the topology does not fit them.
    fn extended_to(&self, topology: &Topology) -> Option<Coordinates> {
        let mut kept = self.clone();
        let known = |switch: SwitchIdx| self.places.contains_key(&topology.switch(switch).guid);
        for switch in topology.indices().filter(|&switch| !known(switch)) {
            let place = kept.free_place(topology, switch)?;
            kept.places.insert(topology.switch(switch).guid, place);
        }
        kept.check(topology).ok()?;
        // Missing switches keep their coordinates, unless a new switch gets them.
        Some(kept)
    }

    /// The only position that is next to all known neighbours of a switch and that no present
    /// switch has; `None` if there is no such position or more than one.
    fn free_place(&self, topology: &Topology, switch: SwitchIdx) -> Option<Vec<u16>> {
        let place = |switch: SwitchIdx| self.places.get(&topology.switch(switch).guid);
        let neighbours: Vec<&Vec<u16>> = topology
            .groups(switch)
            .filter_map(|group| place(group.neighbour))
            .collect();
        let occupied: BTreeSet<&Vec<u16>> = topology.indices().filter_map(place).collect();
        let around = neighbours.first()?;
        let candidates = (0..self.sizes.len()).flat_map(|dimension| {
            (0..self.sizes[dimension]).map(move |at| {
                let mut place = (*around).clone();
                place[dimension] = at;
                place
            })
        });
        let fits = |place: &Vec<u16>| {
            !occupied.contains(place)
                && neighbours
                    .iter()
                    .all(|other| self.step(place, other).is_some())
        };
        let places: BTreeSet<Vec<u16>> = candidates.filter(fits).collect();
        let mut fitting = places.into_iter();
        fitting.next().filter(|_| fitting.next().is_none())
    }

    /// Checks that no two switches have the same coordinates and that all links connect neighbours.
    fn check(&self, topology: &Topology) -> Result<(), NoGrid> {
        let places = self.by_switch(topology);
        let mut at: BTreeMap<&[u16], Guid> = BTreeMap::new();
        for switch in topology.indices() {
            let guid = topology.switch(switch).guid;
            if let Some(one) = at.insert(&places[switch.index()], guid) {
                return Err(NoGrid::OnePlace { one, other: guid });
            }
            for group in topology.groups(switch) {
                let ends = [switch, group.neighbour];
                let [a, b] = ends.map(|end| &places[end.index()]);
                if self.step(a, b).is_none() {
                    let [one, other] = ends.map(|end| topology.switch(end).guid);
                    return Err(NoGrid::StrayLink { one, other });
                }
            }
        }
        Ok(())
    }
}

/// Disjoint sets of numbers (a disjoint-set forest).
struct DisjointSets(Vec<usize>);

impl DisjointSets {
    fn new(count: usize) -> DisjointSets {
        DisjointSets((0..count).collect())
    }

    /// The lowest member of a number's set.
    fn find(&mut self, mut member: usize) -> usize {
        while self.0[member] != member {
            self.0[member] = self.0[self.0[member]];
            member = self.0[member];
        }
        member
    }

    /// Joins the sets of two numbers.
    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.find(a), self.find(b));
        self.0[a.max(b)] = a.min(b);
    }
}

/// Pairs of neighbours, numbered as edges.
struct Edges {
    /// For each switch, pairs of (neighbour, edge), sorted by neighbour.
    by_switch: Vec<Vec<(usize, usize)>>,
    count: usize,
}

impl Edges {
    fn new(topology: &Topology) -> Edges {
        let mut by_switch: Vec<Vec<(usize, usize)>> = vec![Vec::new(); topology.switch_count()];
        let mut count = 0;
        for switch in topology.indices() {
            for group in topology
                .groups(switch)
                .filter(|group| group.neighbour > switch)
            {
                by_switch[switch.index()].push((group.neighbour.index(), count));
                by_switch[group.neighbour.index()].push((switch.index(), count));
                count += 1;
            }
        }
        by_switch.iter_mut().for_each(|edges| edges.sort_unstable());
        Edges { by_switch, count }
    }

    /// The edge between two switches; `None` if they are no neighbours.
    fn between(&self, a: usize, b: usize) -> Option<usize> {
        let edges = &self.by_switch[a];
        let place = edges
            .binary_search_by_key(&b, |&(neighbour, _)| neighbour)
            .ok()?;
        Some(edges[place].1)
    }

    /// The number of a switch's neighbours that are not next to any of its other neighbours.
    fn isolated_neighbours(&self, switch: usize) -> usize {
        let own = &self.by_switch[switch];
        let meets = |&&(one, _): &&(usize, usize)| {
            own.iter()
                .any(|&(other, _)| self.between(one, other).is_some())
        };
        own.len() - own.iter().filter(meets).count()
    }

    /// The squares with two edges of the switch `at`, to its neighbours `a` and `b`, as sides: for
    /// each square, the edge opposite to the first edge and the edge opposite to the second.
    fn squares(&self, at: usize, a: usize, b: usize) -> Vec<(usize, usize)> {
        if self.between(a, b).is_some() {
            return Vec::new();
        }
        let fourth = |&(corner, to_a): &(usize, usize)| {
            let to_b = self.between(corner, b)?;
            let is_square = corner != at && self.between(corner, at).is_none();
            is_square.then_some((to_b, to_a))
        };
        self.by_switch[a].iter().filter_map(fourth).collect()
    }
}

/// Finds coordinates from the graph alone, without a check of all links.
fn find(topology: &Topology) -> Result<Coordinates, NoGrid> {
    let guid = |switch: usize| topology.switch(SwitchIdx(switch as u32)).guid;
    let edges = Edges::new(topology);
    for (switch, own) in edges.by_switch.iter().enumerate() {
        let neighbours = edges.isolated_neighbours(switch);
        if own.len() > MAX_NEIGHBOURS && neighbours > MAX_NEIGHBOURS {
            let switch = guid(switch);
            return Err(NoGrid::TooManyNeighbours { switch, neighbours });
        }
    }
    let lookups = edges.by_switch.iter().map(|own| own.len().pow(3));
    if lookups.sum::<usize>() > MAX_LOOKUPS {
        return Err(NoGrid::TooLarge);
    }
    if let [first, other, ..] = topology.components() {
        let [first, switch] = [first, other].map(|part| topology.switch(part.switches[0]).guid);
        return Err(NoGrid::Apart { switch, first });
    }
    let dimension_of = dimensions(&edges);
    let mut dimensions: Vec<usize> = dimension_of.clone();
    dimensions.sort_unstable();
    dimensions.dedup();
    let mut rows = Vec::with_capacity(dimensions.len());
    for dimension in dimensions {
        rows.push(
            row(&edges, &dimension_of, dimension).map_err(|(switch, neighbours)| {
                let switch = guid(switch);
                NoGrid::Branches { switch, neighbours }
            })?,
        );
    }
    // The dimension with the longest rows comes first; ties are in the order of their lowest links.
    rows.sort_by_key(|row| std::cmp::Reverse(row.size));
    let place = |switch: usize| rows.iter().map(|row| row.place[switch]).collect();
    Ok(Coordinates {
        sizes: rows.iter().map(|row| row.size).collect(),
        rows: rows.iter().map(|row| row.cables).collect(),
        places: (0..topology.switch_count())
            .map(|switch| (guid(switch), place(switch)))
            .collect(),
    })
}

/// For each edge, a number that identifies its dimension.
fn dimensions(edges: &Edges) -> Vec<usize> {
    let mut cuts = DisjointSets::new(edges.count);
    // Triples of (edge, edge of the same switch, whether both are sides of a square).
    let mut corners = Vec::new();
    for (at, own) in edges.by_switch.iter().enumerate() {
        for (place, &(a, to_a)) in own.iter().enumerate() {
            for &(b, to_b) in &own[place + 1..] {
                let squares = edges.squares(at, a, b);
                corners.push((to_a, to_b, !squares.is_empty()));
                for (opposite_a, opposite_b) in squares {
                    cuts.join(to_a, opposite_a);
                    cuts.join(to_b, opposite_b);
                }
            }
        }
    }
    // For each pair of cuts that meet at a switch, the number of their corners that belong to a
    // square, and the number of their corners that do not.
    let mut votes: BTreeMap<(usize, usize), [usize; 2]> = BTreeMap::new();
    for &(a, b, is_square) in &corners {
        let (a, b) = (cuts.find(a), cuts.find(b));
        votes.entry((a.min(b), a.max(b))).or_default()[usize::from(!is_square)] += 1;
    }
    let any_square = corners.iter().any(|&(_, _, is_square)| is_square);
    // If a switch is missing, two cuts of different dimensions may meet only at one corner without
    // a square; consecutive cuts of one dimension meet at more corners.
    let least = if any_square { 2 } else { 1 };
    let mut dimensions = DisjointSets::new(edges.count);
    for edge in 0..edges.count {
        dimensions.join(edge, cuts.find(edge));
    }
    for ((a, b), [square, none]) in votes {
        if none > square && none >= least {
            dimensions.join(a, b);
        }
    }
    (0..edges.count).map(|edge| dimensions.find(edge)).collect()
}

/// The positions of all switches in one dimension.
struct Dimension {
    /// The number of positions.
    size: u16,
    cables: RowCables,
    /// The position of each switch.
    place: Vec<u16>,
}

/// Finds the order of the slices of a dimension. Fails with a switch and the number of its
/// neighbouring slices if they form neither a row nor a ring, and are not all neighbours.
fn row(
    edges: &Edges,
    dimension_of: &[usize],
    dimension: usize,
) -> Result<Dimension, (usize, usize)> {
    let count = edges.by_switch.len();
    let mut slices = DisjointSets::new(count);
    for (switch, own) in edges.by_switch.iter().enumerate() {
        for &(other, edge) in own {
            if dimension_of[edge] != dimension {
                slices.join(switch, other);
            }
        }
    }
    let slice: Vec<usize> = (0..count).map(|switch| slices.find(switch)).collect();
    let mut next: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for (switch, own) in edges.by_switch.iter().enumerate() {
        for &(other, edge) in own {
            if dimension_of[edge] == dimension {
                next.entry(slice[switch]).or_default().insert(slice[other]);
            }
        }
    }
    let (order, cables) = order_of_slices(&next)?;
    let mut place_of: BTreeMap<usize, u16> = BTreeMap::new();
    for (place, &slice) in (0u16..).zip(&order) {
        place_of.insert(slice, place);
    }
    let mut place = Vec::with_capacity(count);
    for (switch, slice) in slice.iter().enumerate() {
        match place_of.get(slice) {
            Some(&at) => place.push(at),
            None => return Err((switch, 0)),
        }
    }
    let size = order.len() as u16;
    Ok(Dimension {
        size,
        cables,
        place,
    })
}

/// The slices of a dimension in order; `next` holds the neighbours of each. Fails as [`row`] does.
fn order_of_slices(
    next: &BTreeMap<usize, BTreeSet<usize>>,
) -> Result<(Vec<usize>, RowCables), (usize, usize)> {
    let pairs = next.len() * next.len().saturating_sub(1);
    let joined: usize = next.values().map(BTreeSet::len).sum();
    let is_full = pairs.saturating_sub(joined) * FULL_BUT_ONE_IN < pairs;
    for (&slice, others) in next {
        if others.contains(&slice) || (others.len() > 2 && !is_full) {
            return Err((slice, others.len()));
        }
    }
    if next.values().any(|others| others.len() > 2) {
        return Ok((next.keys().copied().collect(), RowCables::Full));
    }
    let end = next.iter().find(|(_, others)| others.len() == 1);
    let cables = match end {
        Some(_) => RowCables::Line,
        None => RowCables::Ring,
    };
    // A row begins at its end with the lowest switch; a ring begins at its lowest switch.
    let Some(&start) = end.map(|(slice, _)| slice).or_else(|| next.keys().next()) else {
        return Err((0, 0));
    };
    let mut order = vec![start];
    let mut before = start;
    let mut at = start;
    while let Some(&after) = next[&at]
        .iter()
        .find(|&&other| other != before && other != start)
    {
        order.push(after);
        (before, at) = (at, after);
    }
    Ok((order, cables))
}
