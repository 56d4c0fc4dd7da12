//! The operator's layout of a torus or mesh: the order of its dimensions, the direction that counts
//! as up in each, and the place of the dateline in each.
//!
//! The graph alone determines none of them: a torus looks the same from each of its switches, along
//! each of its dimensions of one size, and in both directions. [`TorusLayout::to_layout`]
//! transforms coordinates that were found on the graph into coordinates of the layout.

use rsm_ids::Guid;

use super::{Coordinates, RowCables};

/// The size of a ring that, as a graph, equals two dimensions of two.
const SQUARE: u16 = 4;

/// A dimension of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayoutDimension {
    /// The number of switches in a row; 1 means that the dimension does not exist.
    pub size: u16,
    /// Whether the last switch of a row is connected to the first.
    pub wraps: bool,
}

/// A cable of the switch of a [`LayoutSeed`], with its direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeedLink {
    /// The dimension, an index into [`TorusLayout::dimensions`].
    pub dimension: usize,
    /// Whether the other switch is the next one (true) or the previous one.
    pub is_up: bool,
    /// The switch at the other end.
    pub to: Guid,
}

/// A switch with a known position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutSeed {
    /// The GUID of the switch.
    pub switch: Guid,
    /// Cables of the switch, at most two for each dimension.
    pub links: Vec<SeedLink>,
    /// For each dimension, the distance from the switch to the origin, in switches. The dateline of
    /// a dimension lies between its last position and its first.
    pub datelines: Vec<i32>,
}

/// A layout of a torus or mesh, as the operator gives it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TorusLayout {
    /// The dimensions; packets take them in this order.
    pub dimensions: Vec<LayoutDimension>,
    /// Switches with known positions; the first one that is in the fabric counts.
    pub seeds: Vec<LayoutSeed>,
}

/// The reason why a layout does not fit the coordinates of switches.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutMisfit {
    /// The cables form dimensions of sizes that differ from the layout.
    #[error("it describes a {expected}, and the cables show a {found}")]
    Dimensions {
        /// The dimensions of the layout.
        expected: String,
        /// The dimensions of the fabric.
        found: String,
    },
    /// No seed has all of its switches in the fabric, so that no position is known.
    #[error("none of its seeds has all its switches in the fabric")]
    NoSeed,
    /// A switch that a seed names is no neighbour of the seed's switch.
    #[error("switches {from} and {to} are no neighbours")]
    NoNeighbours {
        /// The switch of the seed.
        from: Guid,
        /// The switch that a link of the seed names.
        to: Guid,
    },
    /// A cable of a seed points in another direction than the seed states.
    #[error(
        "the cable from switch {from} to {to} points along another dimension, or the other way"
    )]
    Direction {
        /// The switch of the seed.
        from: Guid,
        /// The switch that a link of the seed names.
        to: Guid,
    },
    /// A further seed places the dateline elsewhere than the first seed does.
    #[error("the dateline that the seed at switch {switch} gives is not that of the seed before")]
    Dateline {
        /// The switch of the further seed.
        switch: Guid,
    },
}

/// The dimension of the found coordinates that corresponds to one dimension of the layout, or to
/// one of the two dimensions of a ring of four.
#[derive(Clone, Copy)]
struct MatchedDimension {
    /// The index of the dimension in the found coordinates.
    found: usize,
    /// Whether the layout counts in the opposite direction.
    is_turned: bool,
}

impl LayoutDimension {
    /// The dimensions of found coordinates that correspond to this dimension, each with its size
    /// and the cables of its rows.
    fn expected_rows(self) -> Vec<(u16, RowCables)> {
        match (self.size, self.wraps) {
            (0 | 1, _) => Vec::new(),
            // Two switches count as neighbours once, however many cables connect them.
            (2, _) => vec![(2, RowCables::Line)],
            (SQUARE, true) => vec![(2, RowCables::Line); 2],
            (size, true) => vec![(size, RowCables::Ring)],
            (size, false) => vec![(size, RowCables::Line)],
        }
    }
}

impl TorusLayout {
    /// Transforms `found` into the terms of this layout: neighbours stay neighbours, and
    /// dimensions, directions and origins become the layout's. A ring of four stays two dimensions
    /// of two, which need no dateline.
    ///
    /// # Errors
    /// The cables show another shape, no seed is in the fabric, or the first seed in the fabric
    /// contradicts its cables. [`TorusLayout::check`] checks the other seeds.
    pub fn to_layout(&self, found: &Coordinates) -> Result<Coordinates, LayoutMisfit> {
        self.check_dimensions(found)?;
        let seed = self.seed(found)?;
        let matches = self.matches(found, seed)?;
        Ok(self.transformed(found, seed, &matches))
    }

    /// Checks that `places` are coordinates of this layout.
    ///
    /// # Errors
    /// The errors of [`TorusLayout::to_layout`], or any seed in the fabric contradicts the
    /// coordinates.
    pub fn check(&self, places: &Coordinates) -> Result<(), LayoutMisfit> {
        self.check_dimensions(places)?;
        self.seed(places)?;
        self.check_seeds(places)
    }

    /// Checks that the layout and the coordinates have the same dimensions, in any order.
    fn check_dimensions(&self, found: &Coordinates) -> Result<(), LayoutMisfit> {
        let mut expected = Vec::new();
        for dimension in &self.dimensions {
            expected.extend(dimension.expected_rows());
        }
        let mut actual: Vec<_> = sizes(found).collect();
        expected.sort_unstable();
        actual.sort_unstable();
        if expected == actual {
            return Ok(());
        }
        Err(LayoutMisfit::Dimensions {
            expected: self.name(),
            found: found.name(),
        })
    }

    /// The layout as text, such as `torus 5x4x6` or `mesh 3x3`.
    fn name(&self) -> String {
        let is_torus = self.dimensions.iter().any(|dimension| dimension.wraps);
        let sizes: Vec<String> = self
            .dimensions
            .iter()
            .map(|dimension| dimension.size)
            .filter(|&size| size > 1)
            .map(|size| size.to_string())
            .collect();
        format!(
            "{} {}",
            if is_torus { "torus" } else { "mesh" },
            sizes.join("x")
        )
    }

    /// The first seed whose switches all have coordinates; `None` if the layout has no seeds. Fails
    /// if every seed has a switch without coordinates.
    fn seed(&self, places: &Coordinates) -> Result<Option<&LayoutSeed>, LayoutMisfit> {
        if self.seeds.is_empty() {
            return Ok(None);
        }
        let seed = self.seeds.iter().find(|seed| seed.is_known(places));
        seed.map(Some).ok_or(LayoutMisfit::NoSeed)
    }

    /// For each dimension of the layout, the found dimensions that correspond to it.
    fn matches(
        &self,
        found: &Coordinates,
        seed: Option<&LayoutSeed>,
    ) -> Result<Vec<Vec<MatchedDimension>>, LayoutMisfit> {
        let mut matches: Vec<Vec<MatchedDimension>> = vec![Vec::new(); self.dimensions.len()];
        for link in seed.map_or(&[][..], |seed| &seed.links) {
            let from = seed.map_or(Guid(0), |seed| seed.switch);
            let to = link.to;
            let (at, is_up) =
                step(found, from, to).ok_or(LayoutMisfit::NoNeighbours { from, to })?;
            let dimension = self.dimensions[link.dimension];
            let matched = MatchedDimension {
                found: at,
                // Both cables of a ring of four lead upwards, each in its own dimension of two.
                is_turned: is_up != (link.is_up || dimension.expected_rows().len() == 2),
            };
            let misfit = LayoutMisfit::Direction { from, to };
            let own = &mut matches[link.dimension];
            match own.iter().find(|matched| matched.found == at) {
                Some(known) if known.is_turned == matched.is_turned => continue,
                Some(_) => return Err(misfit),
                None => {}
            }
            own.push(matched);
            let size = sizes(found).nth(at);
            let fits = size.is_some_and(|size| dimension.expected_rows().contains(&size));
            let count = own.len();
            let is_taken = matches
                .iter()
                .flatten()
                .filter(|matched| matched.found == at)
                .count()
                > 1;
            if !fits || is_taken || count > dimension.expected_rows().len() {
                return Err(misfit);
            }
        }
        self.fill(found, &mut matches);
        Ok(matches)
    }

    /// Assigns the remaining found dimensions of matching size to dimensions for which the seed has
    /// no cable.
    fn fill(&self, found: &Coordinates, matches: &mut [Vec<MatchedDimension>]) {
        for (number, dimension) in self.dimensions.iter().enumerate() {
            let expected = dimension.expected_rows();
            for at in 0..found.sizes.len() {
                let is_free = !matches.iter().flatten().any(|matched| matched.found == at);
                let fits = sizes(found).nth(at) == expected.first().copied();
                if matches[number].len() < expected.len() && is_free && fits {
                    let is_turned = false;
                    matches[number].push(MatchedDimension {
                        found: at,
                        is_turned,
                    });
                }
            }
        }
    }

    /// Transforms coordinates to the dimensions, directions and origins of the layout.
    fn transformed(
        &self,
        found: &Coordinates,
        seed: Option<&LayoutSeed>,
        matches: &[Vec<MatchedDimension>],
    ) -> Coordinates {
        let origin = seed.and_then(|seed| found.places.get(&seed.switch));
        // For each dimension of the result, its part, the found position that becomes 0, and the
        // size.
        let mut transforms = Vec::with_capacity(found.sizes.len());
        for (number, matches) in matches.iter().enumerate() {
            for &matched in matches {
                let size = i32::from(found.sizes[matched.found]);
                let here = origin.map_or(0, |origin| matched.place(found, origin));
                let moved = seed.map_or(0, |seed| seed.datelines[number]);
                let zero = match found.rows[matched.found] {
                    RowCables::Ring if origin.is_some() => {
                        (i32::from(here) + moved).rem_euclid(size)
                    }
                    _ => 0,
                };
                transforms.push((matched, zero, size));
            }
        }
        let place = |old: &Vec<u16>| {
            let new = transforms.iter().map(|&(matched, zero, size)| {
                (i32::from(matched.place(found, old)) - zero).rem_euclid(size) as u16
            });
            new.collect()
        };
        Coordinates {
            sizes: transforms
                .iter()
                .map(|(matched, ..)| found.sizes[matched.found])
                .collect(),
            rows: transforms
                .iter()
                .map(|(matched, ..)| found.rows[matched.found])
                .collect(),
            places: found
                .places
                .iter()
                .map(|(&guid, old)| (guid, place(old)))
                .collect(),
        }
    }

    /// Checks that all seeds in the fabric agree with the coordinates.
    fn check_seeds(&self, places: &Coordinates) -> Result<(), LayoutMisfit> {
        let mut first = Vec::with_capacity(self.dimensions.len());
        let mut next = 0;
        for dimension in &self.dimensions {
            first.push(next);
            next += dimension.expected_rows().len();
        }
        if self
            .dimensions
            .iter()
            .flat_map(|dimension| dimension.expected_rows())
            .ne(sizes(places))
        {
            return Err(LayoutMisfit::Dimensions {
                expected: self.name(),
                found: places.name(),
            });
        }
        for seed in self.seeds.iter().filter(|seed| seed.is_known(places)) {
            for link in &seed.links {
                self.check_link(places, seed.switch, link, first[link.dimension])?;
            }
            for (number, dimension) in self.dimensions.iter().enumerate() {
                if dimension.expected_rows().first() != Some(&(dimension.size, RowCables::Ring)) {
                    continue;
                }
                let size = i32::from(dimension.size);
                let place = i32::from(places.places[&seed.switch][first[number]]);
                if (place + seed.datelines[number]).rem_euclid(size) != 0 {
                    let switch = seed.switch;
                    return Err(LayoutMisfit::Dateline { switch });
                }
            }
        }
        Ok(())
    }

    /// Checks that a cable of a seed has the dimension and direction that the seed states. `first`
    /// is the first index of that dimension in the coordinates.
    fn check_link(
        &self,
        places: &Coordinates,
        from: Guid,
        link: &SeedLink,
        first: usize,
    ) -> Result<(), LayoutMisfit> {
        let to = link.to;
        let (at, is_up) = step(places, from, to).ok_or(LayoutMisfit::NoNeighbours { from, to })?;
        let matches = self.dimensions[link.dimension].expected_rows().len();
        let is_right = match matches {
            1 => at == first && (is_up == link.is_up || places.sizes[at] == 2),
            _ => (first..first + matches).contains(&at),
        };
        is_right
            .then_some(())
            .ok_or(LayoutMisfit::Direction { from, to })
    }
}

impl LayoutSeed {
    /// Whether all switches of the seed have coordinates.
    fn is_known(&self, places: &Coordinates) -> bool {
        let is_known = |guid: &Guid| places.places.contains_key(guid);
        is_known(&self.switch) && self.links.iter().all(|link| is_known(&link.to))
    }
}

impl MatchedDimension {
    /// The position in this dimension, counted in the direction of the layout; `old` is the found
    /// position of the switch, in all dimensions.
    fn place(self, found: &Coordinates, old: &[u16]) -> u16 {
        let (at, size) = (old[self.found], found.sizes[self.found]);
        match (self.is_turned, found.rows[self.found]) {
            (false, _) => at,
            (true, RowCables::Ring) => (size - at) % size,
            (true, RowCables::Line | RowCables::Full) => size - 1 - at,
        }
    }
}

/// For each dimension, its size and the cables of its rows; a full row of three counts as a ring.
fn sizes(places: &Coordinates) -> impl Iterator<Item = (u16, RowCables)> {
    let rows = places.sizes.iter().zip(&places.rows);
    rows.map(|(&size, &cables)| match (size, cables) {
        (3, RowCables::Full) => (3, RowCables::Ring),
        row => row,
    })
}

/// The dimension in which two switches are neighbours, and whether the second switch is the next
/// one; `None` if they are not neighbours.
fn step(places: &Coordinates, from: Guid, to: Guid) -> Option<(usize, bool)> {
    let [from, to] = [from, to].map(|guid| places.places.get(&guid));
    places.step(from?, to?)
}
