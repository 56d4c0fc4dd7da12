//! Stories of slow jobs: a fabric, a job, what happened to them, and whose fault it was.
//!
//! A story knows the truth from what it did to the simulated fabric, and asks `rsmctl blame` for
//! its verdict as an operator does. Several stories with disjoint hosts share a round of about 80
//! seconds on one fabric; the faults of a story touch no path of another story's job. What earlier
//! rounds did to the fabric is over before T, the time that `--since` states.
//!
//! * [`site`] runs rsm on a simulated fabric, and walks the tables of the switches.
//! * [`kind`] lists the kinds of stories, and [`plot`] draws what happens in a story.
//! * [`round`] tells stories, [`judge`] compares the answers with the truth.

mod judge;
mod kind;
mod plot;
mod round;
mod site;

use std::thread;

pub use judge::Table;

use crate::virtual_time::Dice;
use kind::Kind;
use site::{FABRICS, Site};

/// Tells `count` stories on three fabrics at once, half of them with a fault of the fabric that
/// slows the job.
///
/// # Panics
///
/// A fabric or a program cannot be started, or a command of rsmctl fails.
#[must_use]
pub fn tell(count: usize, seed: u64) -> Table {
    let mut shares: [Vec<Kind>; FABRICS.len()] = Default::default();
    for (number, kind) in kinds(count, seed).into_iter().enumerate() {
        shares[number % FABRICS.len()].push(kind);
    }
    thread::scope(|scope| {
        let tellers: Vec<_> = FABRICS
            .iter()
            .zip(shares)
            .enumerate()
            .map(|(number, (fabric, kinds))| {
                let dice = Dice::new(seed * 16 + number as u64);
                scope.spawn(move || round::tell_all(&Site::start(fabric), kinds, dice))
            })
            .collect();
        let mut table = Table::default();
        for teller in tellers {
            table.extend(teller.join().expect("the stories of a fabric are told"));
        }
        table
    })
}

/// The kinds of `count` stories: half of them guilty, each kind as often as the others of its
/// half.
fn kinds(count: usize, seed: u64) -> Vec<Kind> {
    let mut dice = Dice::new(seed);
    let (guilty, innocent): (Vec<Kind>, Vec<Kind>) =
        Kind::ALL.into_iter().partition(|kind| kind.is_guilty());
    let mut chosen = Vec::with_capacity(count);
    let (mut of_guilty, mut of_innocent) = (Vec::new(), Vec::new());
    for number in 0..count {
        let (half, rest) = match number % 2 {
            0 => (&guilty, &mut of_guilty),
            _ => (&innocent, &mut of_innocent),
        };
        if rest.is_empty() {
            rest.clone_from(half);
        }
        chosen.push(rest.swap_remove(dice.below(rest.len())));
    }
    chosen
}
