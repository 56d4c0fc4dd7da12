//! The operator's layout of a torus: the order of its dimensions, directions and datelines.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use rsm_ids::Guid;
use rsm_routing::engine::{
    Coordinates, EngineKind, LayoutDimension, LayoutMisfit, LayoutSeed, Options, Routing,
    RowCables, SeedLink, TorusLayout, route,
};
use rsm_routing::topology::Topology;

use crate::common::{Fabric, assert_sound_on_lanes};

/// The size of a dimension, and whether it is a ring.
type Shape = [(usize, bool); 3];

/// The coordinates of the switch `number` of a grid, with the last dimension running fastest.
fn coordinates(shape: &Shape, number: usize) -> [usize; 3] {
    let [_, (y, _), (z, _)] = *shape;
    [number / z / y, number / z % y, number % z]
}

fn number(shape: &Shape, coordinates: [usize; 3]) -> usize {
    let [_, (y, _), (z, _)] = *shape;
    (coordinates[0] * y + coordinates[1]) * z + coordinates[2]
}

fn count(shape: &Shape) -> usize {
    shape.iter().map(|(size, _)| size).product()
}

/// A grid whose switches have the GUIDs `guid` of their numbers, a host each, without `missing`.
fn grid(shape: &Shape, guid: impl Fn(usize) -> Guid, missing: &[usize]) -> Topology {
    let mut fabric = Fabric::new();
    let is_there = |number: usize| !missing.contains(&number);
    let numbers = 0..count(shape);
    let switches: Vec<Option<usize>> = numbers
        .clone()
        .map(|number| is_there(number).then(|| fabric.switch_with_guid(guid(number))))
        .collect();
    for switch in switches.iter().flatten() {
        fabric.host(*switch);
    }
    for from in numbers {
        for (dimension, &(size, wraps)) in shape.iter().enumerate() {
            let mut next = coordinates(shape, from);
            next[dimension] += 1;
            if next[dimension] == size && !(wraps && size > 2) {
                continue;
            }
            next[dimension] %= size;
            if let (Some(a), Some(b)) = (switches[from], switches[number(shape, next)]) {
                fabric.link(a, b);
            }
        }
    }
    fabric.build()
}

/// The neighbour of a switch in a dimension; `None` at the end of a row.
fn neighbour(shape: &Shape, from: usize, dimension: usize, is_up: bool) -> Option<usize> {
    let (size, wraps) = shape[dimension];
    let mut at = coordinates(shape, from);
    let end = if is_up { size - 1 } else { 0 };
    if size == 1 || (at[dimension] == end && !(wraps && size > 2)) {
        return None;
    }
    at[dimension] = (at[dimension] + if is_up { 1 } else { size - 1 }) % size;
    Some(number(shape, at))
}

/// The dimensions of `shape` in the order of `axes`, which says of each whether its direction is
/// kept.
fn dimensions(shape: &Shape, axes: [(usize, bool); 3]) -> Vec<LayoutDimension> {
    let dimension_of = |(axis, _): (usize, bool)| LayoutDimension {
        size: shape[axis].0 as u16,
        wraps: shape[axis].1,
    };
    axes.into_iter().map(dimension_of).collect()
}

/// A seed at `switch` with a cable in every dimension it has one in, both for a ring of four.
fn seed(
    shape: &Shape,
    guid: impl Fn(usize) -> Guid,
    axes: [(usize, bool); 3],
    switch: usize,
    datelines: [i32; 3],
) -> LayoutSeed {
    let mut links = Vec::new();
    for (dimension, (axis, keeps)) in axes.into_iter().enumerate() {
        let both =
            [true, false].map(|is_up| (is_up, neighbour(shape, switch, axis, is_up == keeps)));
        let present = both
            .into_iter()
            .filter_map(|(is_up, to)| Some((is_up, to?)));
        let most = if shape[axis] == (4, true) { 2 } else { 1 };
        links.extend(present.take(most).map(|(is_up, to)| SeedLink {
            dimension,
            is_up,
            to: guid(to),
        }));
    }
    LayoutSeed {
        switch: guid(switch),
        links,
        datelines: datelines.to_vec(),
    }
}

fn routed(topology: &Topology, layout: &TorusLayout, before: Option<&Routing>) -> Routing {
    let options = Options {
        layout: Some(Arc::new(layout.clone())),
        previous_coordinates: before.and_then(|before| before.coordinates.clone()),
        ..Options::default()
    };
    let routing = route(EngineKind::Torus, topology, &options, None).unwrap();
    assert_sound_on_lanes(topology, &routing);
    routing
}

fn places(routing: &Routing) -> &BTreeMap<Guid, Vec<u16>> {
    &routing.coordinates.as_ref().unwrap().places
}

/// The GUID of a switch, in another order than the numbers.
fn guid_of(number: usize) -> Guid {
    Guid(0x1000 + (number as u64 * 7919) % 10_007)
}

const FLAT: Shape = [(1, true), (5, true), (6, true)];

/// X is the last dimension of [`FLAT`], against its direction; Y the one before, with it.
const TURNED: [(usize, bool); 3] = [(2, false), (1, true), (0, true)];

fn layout_at(switch: [usize; 3], datelines: [i32; 3]) -> TorusLayout {
    let switch = number(&FLAT, switch);
    TorusLayout {
        dimensions: dimensions(&FLAT, TURNED),
        seeds: vec![seed(&FLAT, guid_of, TURNED, switch, datelines)],
    }
}

#[test]
fn layout_decides_order_directions_and_datelines() {
    let topology = grid(&FLAT, guid_of, &[]);
    let routing = routed(&topology, &layout_at([0, 2, 3], [-1, 2, 0]), None);
    assert!(
        routing
            .reason
            .contains("torus 6x5, laid out as its file says"),
        "{}",
        routing.reason
    );
    for switch in 0..count(&FLAT) {
        let [_, y, x] = coordinates(&FLAT, switch);
        // X falls from the seed on, and its origin is one before it; that of Y is two further on.
        let x = (3 - x as i32 + 1).rem_euclid(6) as u16;
        let y = (y as i32 - 2 - 2).rem_euclid(5) as u16;
        assert_eq!(places(&routing)[&guid_of(switch)], [x, y], "{switch}");
    }
    // Each of the two datelines is a bit of the service level, that of X the first.
    let index = |at: [usize; 3]| topology.switch_by_guid(guid_of(number(&FLAT, at))).unwrap();
    let level = |from, to| routing.lanes.level(index(from), index(to));
    // Places of X: 5 and 0 (numbers 5 and 4 of the grid); of Y: 4 and 0 (numbers 3 and 4).
    assert_eq!(level([0, 0, 5], [0, 0, 4]), Some(0b01));
    assert_eq!(level([0, 3, 0], [0, 4, 0]), Some(0b10));
    assert_eq!(level([0, 3, 5], [0, 4, 4]), Some(0b11));
    assert_eq!(level([0, 0, 4], [0, 0, 3]), Some(0));
}

#[test]
fn every_seed_of_a_layout_gives_the_same_places() {
    let first = layout_at([0, 2, 3], [0, 0, 0]);
    let topology = grid(&FLAT, guid_of, &[]);
    let before = routed(&topology, &first, None);
    // At X 3 - 5 = 4 (modulo 6) and Y 4 - 2 = 2 of the first seed: as far the other way back.
    let second = number(&FLAT, [0, 4, 5]);
    let mut both = first.clone();
    both.seeds
        .push(seed(&FLAT, guid_of, TURNED, second, [-4, -2, 0]));
    let without_first = grid(&FLAT, guid_of, &[number(&FLAT, [0, 2, 3])]);
    let after = routed(&without_first, &both, None);
    for (switch, coordinates) in places(&after) {
        assert_eq!(Some(coordinates), places(&before).get(switch));
    }
    assert!(
        after.reason.contains("laid out as its file says"),
        "{}",
        after.reason
    );
}

#[test]
fn a_seed_that_contradicts_the_first_is_named() {
    let mut layout = layout_at([0, 2, 3], [0, 0, 0]);
    let switch = number(&FLAT, [0, 4, 5]);
    layout
        .seeds
        .push(seed(&FLAT, guid_of, TURNED, switch, [-4, -1, 0]));
    let topology = grid(&FLAT, guid_of, &[]);
    let routing = routed(&topology, &layout, None);
    let misfit = layout.check(routing.coordinates.as_ref().unwrap());
    let expected = LayoutMisfit::Dateline {
        switch: guid_of(switch),
    };
    assert_eq!(misfit, Err(expected));
}

#[test]
fn misfits_are_named_and_the_fabric_is_routed_by_its_cables() {
    let topology = grid(&FLAT, guid_of, &[]);
    let good = layout_at([0, 2, 3], [0, 0, 0]);
    let changed = |change: &dyn Fn(&mut TorusLayout)| {
        let mut layout = good.clone();
        change(&mut layout);
        layout
    };
    let far = guid_of(number(&FLAT, [0, 0, 0]));
    for (layout, expected) in [
        (
            changed(&|layout| layout.dimensions[1].size = 6),
            "it describes a torus 6x6, and the cables show a torus 6x5",
        ),
        (
            changed(&|layout| layout.dimensions[1].wraps = false),
            "it describes a torus 6x5, and the cables show a torus 6x5",
        ),
        (
            changed(&|layout| layout.seeds[0].switch = Guid(7)),
            "none of its seeds has all its switches in the fabric",
        ),
        (
            changed(&|layout| layout.seeds[0].links[0].to = far),
            "are no neighbours",
        ),
        (
            changed(&|layout| layout.seeds[0].links[0].dimension = 1),
            "points along another dimension, or the other way",
        ),
    ] {
        let routing = routed(&topology, &layout, None);
        let reason = &routing.reason;
        assert!(reason.contains("not laid out by its file: "), "{reason}");
        assert!(reason.contains(expected), "{reason}");
        let check = layout.check(routing.coordinates.as_ref().unwrap());
        assert!(
            check.unwrap_err().to_string().contains(expected),
            "{reason}"
        );
    }
}

/// `torus-2QoS.conf(5)` has this example: switch 0x200000 + 5y + z, two seeds.
#[test]
fn the_rings_of_four_of_the_manual_have_two_dimensions_and_fit() {
    let shape: Shape = [(1, true), (4, true), (5, true)];
    let guid = |number: usize| Guid(0x20_0000 + number as u64);
    let axes = [(0, true), (1, true), (2, true)];
    let layout = TorusLayout {
        dimensions: dimensions(&shape, axes),
        seeds: vec![
            seed(&shape, guid, axes, 0, [0, 0, 0]),
            seed(&shape, guid, axes, 11, [0, -2, -1]),
        ],
    };
    let routing = routed(&grid(&shape, guid, &[]), &layout, None);
    assert!(
        routing.reason.contains("laid out as its file says"),
        "{}",
        routing.reason
    );
    let Coordinates { sizes, rows, .. } = &**routing.coordinates.as_ref().unwrap();
    let (line, ring) = (RowCables::Line, RowCables::Ring);
    assert_eq!(
        (&sizes[..], &rows[..]),
        (&[2, 2, 5][..], &[line, line, ring][..])
    );
    for number in 0..20 {
        let z = places(&routing)[&guid(number)][2];
        assert_eq!(usize::from(z), number % 5);
    }
}

#[test]
fn places_in_use_outlive_the_switches_of_the_seed_and_another_file_begins_anew() {
    let topology = grid(&FLAT, guid_of, &[]);
    let layout = layout_at([0, 2, 3], [1, 2, 0]);
    let before = routed(&topology, &layout, None);
    let broken = grid(&FLAT, guid_of, &[number(&FLAT, [0, 2, 3])]);
    let during = routed(&broken, &layout, Some(&before));
    assert_eq!(places(&during), places(&before));
    for from in broken.indices() {
        for to in broken.indices() {
            let [a, b] = [from, to].map(|switch| broken.switch(switch).guid);
            let [a, b] = [a, b].map(|guid| topology.switch_by_guid(guid).unwrap());
            assert_eq!(during.lanes.level(from, to), before.lanes.level(a, b));
        }
    }
    // Without the earlier places, a layout with another order of dimensions gives others.
    let straight = TorusLayout {
        dimensions: dimensions(&FLAT, [(0, true), (1, true), (2, true)]),
        seeds: Vec::new(),
    };
    let anew = routed(&topology, &straight, None);
    assert_eq!(anew.coordinates.as_ref().unwrap().sizes, [5, 6]);
    assert_eq!(before.coordinates.as_ref().unwrap().sizes, [6, 5]);
}

fn shapes() -> impl Strategy<Value = Shape> {
    let size = prop_oneof![Just(1usize), 3usize..7];
    let dimension = || (size.clone(), any::<bool>());
    (dimension(), dimension(), dimension()).prop_map(|(a, b, c)| [a, b, c])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Coordinates follow the layout, independent of the GUIDs of the switches.
    #[test]
    fn places_follow_the_layout_alone(
        shape in shapes(),
        order in Just([0usize, 1, 2]).prop_shuffle(),
        keeps in any::<[bool; 3]>(),
        at in any::<prop::sample::Index>(),
        datelines in proptest::array::uniform3(-7i32..8),
        salt in 1u64..9000,
    ) {
        let guid = |number: usize| Guid(0x1000 + (number as u64 * 7919 + salt) % 10_007);
        let axes = [0, 1, 2].map(|index| (order[index], keeps[index]));
        prop_assume!(count(&shape) > 1);
        let switch = at.index(count(&shape));
        let layout = TorusLayout {
            dimensions: dimensions(&shape, axes),
            seeds: vec![seed(&shape, guid, axes, switch, datelines)],
        };
        let routing = routed(&grid(&shape, guid, &[]), &layout, None);
        prop_assert!(routing.reason.contains("laid out as its file says"), "{}", routing.reason);
        let origin = coordinates(&shape, switch);
        for number in 0..count(&shape) {
            let here = coordinates(&shape, number);
            let found = &places(&routing)[&guid(number)];
            let mut next = 0;
            for (dimension, (axis, keeps)) in axes.into_iter().enumerate() {
                let (size, wraps) = shape[axis];
                match (size, wraps) {
                    (1, _) => continue,
                    // Two dimensions of two.
                    (4, true) => next += 2,
                    (_, true) => {
                        let distance = here[axis] as i32 - origin[axis] as i32;
                        let distance = if keeps { distance } else { -distance };
                        let expected = (distance - datelines[dimension]).rem_euclid(size as i32);
                        prop_assert_eq!(i32::from(found[next]), expected);
                        next += 1;
                    }
                    (_, false) => {
                        let expected = if keeps { here[axis] } else { size - 1 - here[axis] };
                        prop_assert_eq!(usize::from(found[next]), expected);
                        next += 1;
                    }
                }
            }
            prop_assert_eq!(found.len(), next);
        }
    }
}
