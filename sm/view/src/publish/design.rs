//! The comparison of the fabric with its design, in the form of the API.

use rsm_api::model::Page;
use rsm_api::v1;
use rsm_model::design::{Cable, MoveKind, Spot};
use rsm_state::Snapshot;

use super::published::Published;

/// Maximum number of unmatched names in the status; findings list further names.
const NAMED: usize = 16;

/// Agreement of the fabric with its design; `None` if there is no design.
pub(super) fn state(snapshot: &Snapshot) -> Option<v1::DesignState> {
    let comparison = snapshot.expected.design();
    if comparison.is_empty() {
        return None;
    }
    let wrong = comparison.faults.iter().map(|fault| fault.wrong.len());
    let absent = comparison.absent.iter().take(NAMED);
    Some(v1::DesignState {
        designed: comparison.designed as u64,
        right: comparison.right as u64,
        unseen: comparison.unseen.len() as u64,
        unclear: comparison.unclear.len() as u64,
        wrong: wrong.sum::<usize>() as u64,
        moves: comparison.moves().count() as u64,
        absent: absent.map(|absent| absent.name.clone()).collect(),
        absent_names: comparison.absent.len() as u64,
    })
}

/// The moves with a number above `after`, at most `limit`.
pub(super) fn moves(
    published: &Published,
    after: Option<u64>,
    limit: usize,
) -> Page<v1::DesignMove> {
    let snapshot = &*published.snapshot;
    let name = |spot| port_label(snapshot, spot);
    let cable = |[a, b]: Cable| format!("{} - {}", name(a), name(b));
    let numbered = (1..).zip(snapshot.expected.design().moves());
    let rest = numbered.skip_while(|&(number, _)| after.is_some_and(|after| number <= after));
    let shown = rest.take(limit).map(|(number, one)| v1::DesignMove {
        number,
        kind: kind(one.kind).into(),
        first: name(one.first),
        second: name(one.second),
        makes: one.makes.map(cable).unwrap_or_default(),
        also_makes: one.also_makes.map(cable).unwrap_or_default(),
    });
    Page {
        items: shown.collect(),
        generation: published.generation,
    }
}

/// A port of the design, such as `leaf-03:7`.
pub(super) fn port_label(snapshot: &Snapshot, spot: Spot) -> String {
    let name = snapshot.expected.place_name(&snapshot.fabric, spot.place);
    format!("{name}:{}", spot.port)
}

fn kind(kind: MoveKind) -> v1::DesignMoveKind {
    match kind {
        MoveKind::Swap => v1::DesignMoveKind::Swap,
        MoveKind::Shift => v1::DesignMoveKind::Shift,
        MoveKind::Remove => v1::DesignMoveKind::Remove,
        MoveKind::Connect => v1::DesignMoveKind::Connect,
    }
}
