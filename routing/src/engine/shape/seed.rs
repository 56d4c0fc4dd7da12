//! The operator's description of a mesh or torus, as OpenSM's torus-2QoS has it: its sizes, and how
//! its axes lie.

use rsm_ids::Guid;

use super::Coordinates;

/// The axes x, y and z, and places to begin from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GridSeed {
    /// Along x, y and z.
    pub axes: [Axis; AXES],
    /// The first whose switches are all there counts.
    pub origins: Vec<Origin>,
}

/// x, y and z.
pub const AXES: usize = 3;

/// One axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Axis {
    /// How many switches there are in a row; 1: the grid has no such axis.
    pub size: u16,
    /// Whether the last is joined to the first.
    pub wraps: bool,
}

/// A switch, and the directions of links from there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The switch.
    pub switch: Guid,
    /// By axis: a neighbour, and whether it is the next one rather than the one before.
    pub neighbours: [Option<(Guid, bool)>; AXES],
    /// By axis: how far the dateline, where rows begin, is in front of the switch.
    pub datelines: [i32; AXES],
}

impl GridSeed {
    /// The coordinates with these axes; `None` where no origin's switches are all there, and
    /// nothing says how the axes lie.
    ///
    /// # Errors
    /// The grid is another one, to follow "the fabric is ".
    pub fn orient(&self, found: &Coordinates) -> Result<Option<Coordinates>, String> {
        let axes: Vec<usize> = (0..AXES).filter(|&axis| self.axes[axis].size > 1).collect();
        // A row of two is the same whether it closes or not.
        let shape = |size: u16, wraps: bool| (size, wraps && size > 2);
        let mut sizes: Vec<(u16, bool)> = axes
            .iter()
            .map(|&axis| shape(self.axes[axis].size, self.axes[axis].wraps))
            .collect();
        let wraps = found.wraps.iter().copied();
        let sizes_found = found.sizes.iter().copied().zip(wraps);
        let mut sizes_found: Vec<(u16, bool)> = sizes_found
            .map(|(size, wraps)| shape(size, wraps))
            .collect();
        sizes.sort_unstable();
        sizes_found.sort_unstable();
        if sizes != sizes_found {
            let sizes: Vec<String> = axes
                .iter()
                .map(|&axis| self.axes[axis])
                .map(|axis| format!("{}{}", axis.size, if axis.wraps { "t" } else { "m" }))
                .collect();
            return Err(format!(
                "a {}, and torus_config says {}",
                found.name(),
                sizes.join(" ")
            ));
        }
        let mut origins = self.origins.iter();
        let lies = origins.find_map(|origin| Some((origin, self.lie(found, origin, &axes)?)));
        let Some((origin, lies)) = lies else {
            return Ok(None);
        };
        for (&axis, &(dimension, _)) in axes.iter().zip(&lies) {
            let there = shape(found.sizes[dimension], found.wraps[dimension]);
            if there != shape(self.axes[axis].size, self.axes[axis].wraps) {
                return Err(format!(
                    "a {} with {} switches along {}, and torus_config says {}",
                    found.name(),
                    there.0,
                    ["x", "y", "z"][axis],
                    self.axes[axis].size
                ));
            }
        }
        Ok(Some(turned(found, origin, &axes, &lies)))
    }

    /// By axis of `axes`: the dimension of `found`, and whether it counts the same way. `None`
    /// where a switch is not there, or no neighbour.
    fn lie(
        &self,
        found: &Coordinates,
        origin: &Origin,
        axes: &[usize],
    ) -> Option<Vec<(usize, bool)>> {
        let from = found.places.get(&origin.switch)?;
        let mut lies: Vec<(usize, bool)> = Vec::new();
        for &axis in axes {
            let (neighbour, is_next) = origin.neighbours[axis]?;
            let (dimension, up) = found.step(from, found.places.get(&neighbour)?)?;
            if lies.iter().any(|&(other, _)| other == dimension) {
                return None;
            }
            lies.push((dimension, up == is_next));
        }
        Some(lies)
    }
}

/// `found` with the dimensions that `lies` names for `axes`, those of rings from the dateline on.
fn turned(
    found: &Coordinates,
    origin: &Origin,
    axes: &[usize],
    lies: &[(usize, bool)],
) -> Coordinates {
    let along = |place: &[u16], (dimension, same): (usize, bool)| {
        let size = found.sizes[dimension];
        if same {
            place[dimension]
        } else {
            size - 1 - place[dimension]
        }
    };
    let from = &found.places[&origin.switch];
    let place = |place: &Vec<u16>| -> Vec<u16> {
        let axes = axes.iter().zip(lies);
        let at = axes.map(|(&axis, &lie)| {
            let here = along(place, lie);
            if !found.wraps[lie.0] {
                return here;
            }
            let size = i32::from(found.sizes[lie.0]);
            let first = i32::from(along(from, lie)) + origin.datelines[axis];
            // Between 0 and the size.
            (i32::from(here) - first).rem_euclid(size) as u16
        });
        at.collect()
    };
    let places = found.places.iter().map(|(&guid, at)| (guid, place(at)));
    Coordinates {
        places: places.collect(),
        sizes: lies
            .iter()
            .map(|&(dimension, _)| found.sizes[dimension])
            .collect(),
        wraps: lies
            .iter()
            .map(|&(dimension, _)| found.wraps[dimension])
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A torus of 3 columns and a mesh row of 2: switch 10 * row + column.
    fn grid() -> Coordinates {
        let places = (0..2).flat_map(|row| (0..3).map(move |column| (row, column)));
        Coordinates {
            sizes: vec![3, 2],
            wraps: vec![true, false],
            places: places
                .map(|(row, column)| {
                    (
                        Guid(10 * u64::from(row) + u64::from(column)),
                        vec![column, row],
                    )
                })
                .collect(),
        }
    }

    fn axis(size: u16, wraps: bool) -> Axis {
        Axis { size, wraps }
    }

    fn seed() -> GridSeed {
        GridSeed {
            axes: [axis(2, false), axis(3, true), axis(1, false)],
            origins: vec![Origin {
                switch: Guid(11),
                neighbours: [Some((Guid(1), false)), Some((Guid(10), true)), None],
                datelines: [0, 1, 0],
            }],
        }
    }

    #[test]
    fn axes_lie_as_the_seed_says_and_rings_begin_at_the_dateline() {
        let turned = seed().orient(&grid()).unwrap().unwrap();
        assert_eq!(
            (turned.sizes, turned.wraps),
            (vec![2, 3], vec![false, true])
        );
        // Along y from 11: 10, 12. The ring begins one further than 11, at 10.
        for (switch, place) in [
            (11, [1, 2]),
            (10, [1, 0]),
            (12, [1, 1]),
            (1, [0, 2]),
            (0, [0, 0]),
        ] {
            assert_eq!(turned.places[&Guid(switch)], place, "{switch}");
        }
    }

    #[test]
    fn another_grid_is_refused_and_absent_switches_leave_the_axes_as_they_are() {
        let mut other = seed();
        other.axes[1].size = 4;
        let error = other.orient(&grid()).unwrap_err();
        assert_eq!(error, "a torus 3x2, and torus_config says 2m 4t");
        let mut mesh = seed();
        mesh.axes[1].wraps = false;
        assert!(mesh.orient(&grid()).is_err());
        let mut absent = seed();
        absent.origins[0].switch = Guid(99);
        assert_eq!(absent.orient(&grid()), Ok(None));
        // The next seed counts then.
        absent.origins.push(seed().origins.remove(0));
        assert!(absent.orient(&grid()).unwrap().is_some());
        let mut swapped = seed();
        swapped.axes.swap(0, 1);
        let error = swapped.orient(&grid()).unwrap_err();
        assert!(error.contains("with 2 switches along x"), "{error}");
        let mut stray = seed();
        stray.origins[0].neighbours[0] = Some((Guid(10), true));
        assert_eq!(stray.orient(&grid()), Ok(None), "two axes along one row");
    }
}
