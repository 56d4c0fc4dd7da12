//! MultiPathRecord: paths from any of several ports to any of several other ports.

use rsm_mad::wire::header::Status;
use rsm_mad::wire::sa::{ComponentMask, MultiPathRecord, PathRecord, Record, SaStatus};

use super::constraints::PathConstraints;
use super::pairs::{EndRange, Pairs};
use super::{Body, Finder};
use crate::ends::EndIx;
use crate::query_context::SaQueryContext;

/// Maximum number of paths if the query states none (IBA 15.2.5.20): the maximum of NumbPath.
const NUMB_PATH_MAX: u8 = 127;

/// The components that MultiPathRecord and PathRecord share, each with the masks of both.
const SHARED: [(ComponentMask, ComponentMask); 17] = [
    (MultiPathRecord::RAW_TRAFFIC, PathRecord::RAW_TRAFFIC),
    (MultiPathRecord::FLOW_LABEL, PathRecord::FLOW_LABEL),
    (MultiPathRecord::HOP_LIMIT, PathRecord::HOP_LIMIT),
    (MultiPathRecord::T_CLASS, PathRecord::T_CLASS),
    (MultiPathRecord::REVERSIBLE, PathRecord::REVERSIBLE),
    (MultiPathRecord::NUMB_PATH, PathRecord::NUMB_PATH),
    (MultiPathRecord::P_KEY, PathRecord::P_KEY),
    (MultiPathRecord::QOS_CLASS, PathRecord::QOS_CLASS),
    (MultiPathRecord::SL, PathRecord::SL),
    (MultiPathRecord::MTU_SELECTOR, PathRecord::MTU_SELECTOR),
    (MultiPathRecord::MTU, PathRecord::MTU),
    (MultiPathRecord::RATE_SELECTOR, PathRecord::RATE_SELECTOR),
    (MultiPathRecord::RATE, PathRecord::RATE),
    (
        MultiPathRecord::PACKET_LIFE_TIME_SELECTOR,
        PathRecord::PACKET_LIFE_TIME_SELECTOR,
    ),
    (
        MultiPathRecord::PACKET_LIFE_TIME,
        PathRecord::PACKET_LIFE_TIME,
    ),
    (
        MultiPathRecord::SERVICE_ID_8_MSB,
        PathRecord::SERVICE_ID_8_MSB,
    ),
    (
        MultiPathRecord::SERVICE_ID_56_LSB,
        PathRecord::SERVICE_ID_56_LSB,
    ),
];

/// Answers a GetMulti with a table of PathRecords, at most NumbPath of them.
///
/// # Errors
/// ERR_REQ_INSUFFICIENT_COMPONENTS if the numbers of GIDs are missing or zero, ERR_REQ_INVALID if
/// the request contains fewer GIDs than it states or unknown components, ERR_REQ_INVALID_GID for a
/// GID that no port has.
pub(crate) fn answer(context: &SaQueryContext<'_>) -> Result<Body, Status> {
    const COUNTS: ComponentMask = MultiPathRecord::SGID_COUNT.with(MultiPathRecord::DGID_COUNT);

    let record: MultiPathRecord = context.record()?;
    let mask = context.header.component_mask();
    if !mask.contains(COUNTS) || record.sgid_count() == 0 || record.dgid_count() == 0 {
        return Err(SaStatus::REQ_INSUFFICIENT_COMPONENTS);
    }
    let last = MultiPathRecord::COMPONENTS
        .last()
        .map_or(0, |last| last.mask.0);
    if mask.0 > last | last.wrapping_sub(1) {
        return Err(SaStatus::REQ_INVALID);
    }
    let (sources, destinations) = record.gids(context.data).ok_or(SaStatus::REQ_INVALID)?;
    let find = |gid| {
        context
            .directory
            .by_gid(gid)
            .ok_or(SaStatus::REQ_INVALID_GID)
    };
    let sources: Vec<EndIx> = sources.map(find).collect::<Result<_, _>>()?;
    let destinations: Vec<EndIx> = destinations.map(find).collect::<Result<_, _>>()?;
    let (path, path_mask) = as_path(&record, mask);
    let constraints = PathConstraints::of(&path, path_mask)?;
    let finder = Finder {
        directory: context.directory.clone(),
        viewer: (!context.trust.is_trusted()).then_some(context.requester),
        constraints,
        echoed_gids: (None, None),
    };
    let mut paths_left = usize::from(constraints.numb_path.unwrap_or(NUMB_PATH_MAX));
    let paths = disjoint_first(sources, destinations)
        .flat_map(move |(from, to)| {
            Pairs::new(finder.clone(), single_end(from), single_end(to), None)
        })
        .map_while(move |path: Option<PathRecord>| {
            let is_wanted = paths_left > 0;
            paths_left -= usize::from(is_wanted && path.is_some());
            is_wanted.then_some(path)
        });
    Ok(Body::table(paths))
}

/// The single end `ix`, with all its LIDs.
fn single_end(EndIx(ix): EndIx) -> EndRange {
    EndRange {
        range: ix..ix + 1,
        lid: None,
    }
}

/// Every pair of a source and a destination. The first pairs have no end in common, so that a host
/// can switch from a failed path to an independent path.
fn disjoint_first(
    sources: Vec<EndIx>,
    destinations: Vec<EndIx>,
) -> impl Iterator<Item = (EndIx, EndIx)> + Send + 'static {
    let (rows, columns) = (sources.len(), destinations.len());
    // The two numbers of GIDs have eight bits, so the copies are small.
    (0..rows.max(columns)).flat_map(move |shift| {
        let (sources, destinations) = (sources.clone(), destinations.clone());
        (0..rows.min(columns)).map(move |index| {
            if rows <= columns {
                (sources[index], destinations[(index + shift) % columns])
            } else {
                (sources[(index + shift) % rows], destinations[index])
            }
        })
    })
}

/// Converts the constraints of a MultiPathRecord into a PathRecord and its component mask.
fn as_path(record: &MultiPathRecord, mask: ComponentMask) -> (PathRecord, ComponentMask) {
    let mut path = PathRecord::default();
    path.set_service_id(u64::from(record.service_id_8_msb()) << 56 | record.service_id_56_lsb())
        .set_raw_traffic(record.raw_traffic())
        .set_flow_label(record.flow_label())
        .set_hop_limit(record.hop_limit())
        .set_t_class(record.t_class())
        .set_reversible(record.reversible())
        .set_numb_path(record.numb_path())
        .set_p_key(record.p_key())
        .set_qos_class(record.qos_class())
        .set_sl(record.sl())
        .set_mtu_selector(record.mtu_selector())
        .set_mtu(record.mtu())
        .set_rate_selector(record.rate_selector())
        .set_rate(record.rate())
        .set_packet_life_time_selector(record.packet_life_time_selector())
        .set_packet_life_time(record.packet_life_time());
    let present = SHARED.iter().filter(|&&(multi, _)| mask.intersects(multi));
    let path_mask = present.fold(ComponentMask::NONE, |mask, &(_, path)| mask | path);
    (path, path_mask)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_pair_comes_once_and_pairs_without_common_ends_come_first() {
        for (rows, columns) in [(1, 1), (2, 2), (2, 3), (3, 2), (1, 4)] {
            let sources = (0..rows).map(EndIx).collect();
            let destinations = (10..10 + columns).map(EndIx).collect();
            let pairs: Vec<_> = disjoint_first(sources, destinations).collect();
            let different: BTreeSet<_> = pairs.iter().collect();
            assert_eq!(pairs.len(), (rows * columns) as usize);
            assert_eq!(different.len(), pairs.len());
            let first = &pairs[..rows.min(columns) as usize];
            let ends: BTreeSet<_> = first.iter().flat_map(|&(a, b)| [a, b]).collect();
            assert_eq!(ends.len(), 2 * first.len());
        }
    }
}
