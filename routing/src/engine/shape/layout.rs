//! The operator's layout of a torus or mesh: the order of its dimensions, which way is up in each,
//! and the switch that its dateline lies before.
//!
//! The graph alone leaves all of that open: a torus looks the same from each of its switches, along
//! each of its dimensions of one size, and both ways round. [`TorusLayout::apply`] turns
//! coordinates that were found on the graph, so that they are those of the layout.

use rsm_ids::Guid;

use super::Coordinates;

/// The size of a ring that is the same graph as two dimensions of two.
const SQUARE: u16 = 4;

/// A dimension of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayoutDimension {
    /// How many switches there are in a row; 1 is no dimension.
    pub size: u16,
    /// Whether the last is joined to the first.
    pub wraps: bool,
}

/// A cable from the switch of a [`LayoutSeed`], and where it points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeedLink {
    /// The dimension, a number of [`TorusLayout::dimensions`].
    pub dimension: usize,
    /// Whether the other switch is the next one, rather than the one before.
    pub is_up: bool,
    /// The switch at the other end.
    pub to: Guid,
}

/// A switch with a known place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutSeed {
    /// The switch.
    pub switch: Guid,
    /// Cables from it, at most two to a dimension.
    pub links: Vec<SeedLink>,
    /// By dimension: how many switches further on the origin lies. The dateline of a dimension is
    /// between its last place and its first.
    pub datelines: Vec<i32>,
}

/// A layout; see the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TorusLayout {
    /// The dimensions; packets take them in this order.
    pub dimensions: Vec<LayoutDimension>,
    /// Switches with known places: the first one that is in the fabric counts.
    pub seeds: Vec<LayoutSeed>,
}

/// Why a layout does not fit the places of switches.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutMisfit {
    /// The cables show other dimensions.
    #[error("it describes a {expected}, and the cables show a {found}")]
    Dimensions {
        /// The dimensions of the layout.
        expected: String,
        /// The sizes of the fabric.
        found: String,
    },
    /// No seed has its switches in the fabric.
    #[error("none of its seeds has all its switches in the fabric")]
    NoSeed,
    /// Two switches of a seed are no neighbours.
    #[error("switches {from} and {to} are no neighbours")]
    NoNeighbours {
        /// The switch of the seed.
        from: Guid,
        /// The switch that a link of the seed names.
        to: Guid,
    },
    /// A cable of a seed points in another direction than the seed says.
    #[error(
        "the cable from switch {from} to {to} points along another dimension, or the other way"
    )]
    Direction {
        /// The switch of the seed.
        from: Guid,
        /// The switch that a link of the seed names.
        to: Guid,
    },
    /// A further seed has its dateline elsewhere than the first one.
    #[error("the dateline that the seed at switch {switch} gives is not that of the seed before")]
    Dateline {
        /// The switch of the further seed.
        switch: Guid,
    },
}

/// The dimension of the coordinates found that stands for one of the layout, or for half of a ring
/// of four.
#[derive(Clone, Copy)]
struct Part {
    found: usize,
    /// Whether up is down.
    is_turned: bool,
}

impl LayoutDimension {
    /// The dimensions of coordinates that stand for this one: size, and whether it wraps.
    fn parts(self) -> Vec<(u16, bool)> {
        match (self.size, self.wraps) {
            (0 | 1, _) => Vec::new(),
            // Two switches are neighbours once, however many cables join them.
            (2, _) => vec![(2, false)],
            (SQUARE, true) => vec![(2, false); 2],
            whole => vec![whole],
        }
    }
}

impl TorusLayout {
    /// `found` in the terms of this layout: the same switches next to each other, with the
    /// dimensions in its order, its directions and its origins. A ring of four stays two dimensions
    /// of two, which need no dateline.
    ///
    /// # Errors
    /// The cables show another shape, no seed is in the fabric, or the first one that is contradicts
    /// its cables. [`TorusLayout::check`] looks at the others.
    pub fn apply(&self, found: &Coordinates) -> Result<Coordinates, LayoutMisfit> {
        self.check_dimensions(found)?;
        let seed = self.seed(found)?;
        let parts = self.parts(found, seed)?;
        Ok(self.turned(found, seed, &parts))
    }

    /// Whether `places` are those of this layout.
    ///
    /// # Errors
    /// As those of [`TorusLayout::apply`], and where any seed that is in the fabric contradicts them.
    pub fn check(&self, places: &Coordinates) -> Result<(), LayoutMisfit> {
        self.check_dimensions(places)?;
        self.seed(places)?;
        self.check_seeds(places)
    }

    fn check_dimensions(&self, found: &Coordinates) -> Result<(), LayoutMisfit> {
        let mut expected = Vec::new();
        for dimension in &self.dimensions {
            expected.extend(dimension.parts());
        }
        let mut there: Vec<_> = sizes(found).collect();
        expected.sort_unstable();
        there.sort_unstable();
        if expected == there {
            return Ok(());
        }
        Err(LayoutMisfit::Dimensions {
            expected: self.name(),
            found: found.name(),
        })
    }

    /// As text: `torus 5x4x6`, `mesh 3x3`.
    fn name(&self) -> String {
        let is_torus = self.dimensions.iter().any(|dimension| dimension.wraps);
        let sizes = self.dimensions.iter().map(|dimension| dimension.size);
        let sizes: Vec<String> = sizes
            .filter(|&size| size > 1)
            .map(|size| size.to_string())
            .collect();
        format!(
            "{} {}",
            if is_torus { "torus" } else { "mesh" },
            sizes.join("x")
        )
    }

    /// The first seed whose switches are all known; `None` where the layout has no seeds.
    fn seed(&self, places: &Coordinates) -> Result<Option<&LayoutSeed>, LayoutMisfit> {
        if self.seeds.is_empty() {
            return Ok(None);
        }
        let seed = self.seeds.iter().find(|seed| seed.is_known(places));
        seed.map(Some).ok_or(LayoutMisfit::NoSeed)
    }

    /// By dimension of the layout: the dimensions found that stand for it.
    fn parts(
        &self,
        found: &Coordinates,
        seed: Option<&LayoutSeed>,
    ) -> Result<Vec<Vec<Part>>, LayoutMisfit> {
        let mut parts: Vec<Vec<Part>> = vec![Vec::new(); self.dimensions.len()];
        for link in seed.map_or(&[][..], |seed| &seed.links) {
            let from = seed.map_or(Guid(0), |seed| seed.switch);
            let to = link.to;
            let (at, is_up) =
                step(found, from, to).ok_or(LayoutMisfit::NoNeighbours { from, to })?;
            let dimension = self.dimensions[link.dimension];
            let part = Part {
                found: at,
                // Both ways out of a ring of four lead upwards, each in its half.
                is_turned: is_up != (link.is_up || dimension.parts().len() == 2),
            };
            let misfit = LayoutMisfit::Direction { from, to };
            let own = &mut parts[link.dimension];
            match own.iter().find(|part| part.found == at) {
                Some(known) if known.is_turned == part.is_turned => continue,
                Some(_) => return Err(misfit),
                None => {}
            }
            own.push(part);
            let size = sizes(found).nth(at);
            let fits = size.is_some_and(|size| dimension.parts().contains(&size));
            let count = own.len();
            let is_taken = parts
                .iter()
                .flatten()
                .filter(|part| part.found == at)
                .count()
                > 1;
            if !fits || is_taken || count > dimension.parts().len() {
                return Err(misfit);
            }
        }
        self.fill(found, &mut parts);
        Ok(parts)
    }

    /// Gives dimensions without a cable in the seed those of their size that are left.
    fn fill(&self, found: &Coordinates, parts: &mut [Vec<Part>]) {
        for (number, dimension) in self.dimensions.iter().enumerate() {
            let expected = dimension.parts();
            for at in 0..found.sizes.len() {
                let is_free = !parts.iter().flatten().any(|part| part.found == at);
                let fits = sizes(found).nth(at) == expected.first().copied();
                if parts[number].len() < expected.len() && is_free && fits {
                    let is_turned = false;
                    parts[number].push(Part {
                        found: at,
                        is_turned,
                    });
                }
            }
        }
    }

    fn turned(
        &self,
        found: &Coordinates,
        seed: Option<&LayoutSeed>,
        parts: &[Vec<Part>],
    ) -> Coordinates {
        let origin = seed.and_then(|seed| found.places.get(&seed.switch));
        // By dimension of the result: its part, and the place that its origin has among those found.
        let mut ways = Vec::with_capacity(found.sizes.len());
        for (number, parts) in parts.iter().enumerate() {
            for &part in parts {
                let size = i32::from(found.sizes[part.found]);
                let here = origin.map_or(0, |origin| part.place(found, origin));
                let moved = seed.map_or(0, |seed| seed.datelines[number]);
                let zero = match found.wraps[part.found] {
                    true if origin.is_some() => (i32::from(here) + moved).rem_euclid(size),
                    _ => 0,
                };
                ways.push((part, zero, size));
            }
        }
        let place = |old: &Vec<u16>| {
            let new = ways.iter().map(|&(part, zero, size)| {
                (i32::from(part.place(found, old)) - zero).rem_euclid(size) as u16
            });
            new.collect()
        };
        Coordinates {
            sizes: ways
                .iter()
                .map(|(part, ..)| found.sizes[part.found])
                .collect(),
            wraps: ways
                .iter()
                .map(|(part, ..)| found.wraps[part.found])
                .collect(),
            places: found
                .places
                .iter()
                .map(|(&guid, old)| (guid, place(old)))
                .collect(),
        }
    }

    /// Whether all seeds that are in the fabric agree with the places.
    fn check_seeds(&self, places: &Coordinates) -> Result<(), LayoutMisfit> {
        let mut first = Vec::with_capacity(self.dimensions.len());
        let mut next = 0;
        for dimension in &self.dimensions {
            first.push(next);
            next += dimension.parts().len();
        }
        if self
            .dimensions
            .iter()
            .flat_map(|dimension| dimension.parts())
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
                if dimension.parts().first() != Some(&(dimension.size, true)) {
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

    fn check_link(
        &self,
        places: &Coordinates,
        from: Guid,
        link: &SeedLink,
        first: usize,
    ) -> Result<(), LayoutMisfit> {
        let to = link.to;
        let (at, is_up) = step(places, from, to).ok_or(LayoutMisfit::NoNeighbours { from, to })?;
        let parts = self.dimensions[link.dimension].parts().len();
        let is_right = match parts {
            1 => at == first && (is_up == link.is_up || places.sizes[at] == 2),
            _ => (first..first + parts).contains(&at),
        };
        is_right
            .then_some(())
            .ok_or(LayoutMisfit::Direction { from, to })
    }
}

impl LayoutSeed {
    fn is_known(&self, places: &Coordinates) -> bool {
        let is_known = |guid: &Guid| places.places.contains_key(guid);
        is_known(&self.switch) && self.links.iter().all(|link| is_known(&link.to))
    }
}

impl Part {
    /// The place in this dimension, counted in the direction of the layout, from one found.
    fn place(self, found: &Coordinates, old: &[u16]) -> u16 {
        let (at, size) = (old[self.found], found.sizes[self.found]);
        match (self.is_turned, found.wraps[self.found]) {
            (false, _) => at,
            (true, false) => size - 1 - at,
            (true, true) => (size - at) % size,
        }
    }
}

fn sizes(places: &Coordinates) -> impl Iterator<Item = (u16, bool)> {
    places
        .sizes
        .iter()
        .copied()
        .zip(places.wraps.iter().copied())
}

/// The dimension in which two switches are neighbours, and whether the second is the next one.
fn step(places: &Coordinates, from: Guid, to: Guid) -> Option<(usize, bool)> {
    let [from, to] = [from, to].map(|guid| places.places.get(&guid));
    places.step(from?, to?)
}
