//! `rsmctl blame` against stories of slow jobs whose truth is known: half of them with a fault of
//! the fabric, half without.

#![expect(
    clippy::print_stdout,
    reason = "the table of a run is read with --nocapture"
)]

use rsm_tests::stories;
use rsm_tests::virtual_time::seeds;

/// The seed of the stories, unless `RSM_SEED` names another one.
const SEED: u64 = 1;

/// The number of stories in the suite: two on each fabric.
const STORIES: usize = 6;

/// Tells stories; 95 % of the answers have to be right, and none may blame a good part.
fn assert_judged(count: usize) {
    let table = stories::tell(count, seeds::number("RSM_SEED").unwrap_or(SEED));
    println!("{table}");
    assert_eq!(table.count(), count);
    assert!(table.right() * 100 >= count * 95, "{table}");
    assert_eq!(table.good_parts_blamed(), 0, "{table}");
}

#[test]
fn blame_tells_faults_of_the_fabric_from_other_causes() {
    assert_judged(STORIES);
}

#[test]
#[ignore = "tells as many stories as RSM_SEEDS says, or 200: ten minutes"]
fn blame_is_right_about_many_stories() {
    let count = seeds::number("RSM_SEEDS").unwrap_or(200);
    assert_judged(usize::try_from(count).expect("a number of stories"));
}
