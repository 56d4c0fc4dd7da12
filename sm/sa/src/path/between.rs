//! The paths between two ports that a host would get, for viewers of the subnet, or the reason why
//! a host would get no path.

use std::sync::Arc;

use rsm_ids::Lid;
use rsm_mad::wire::attr::PKey;
use rsm_mad::wire::sa::{PathRecord, TraceRecord};

use super::constraints::PathConstraints;
use super::pairs::{EndRange, Pairs};
use super::trace::trace;
use super::{Finder, NoPath};
use crate::directory::Directory;
use crate::ends::EndIx;
use crate::path_qos::SlReason;

/// One end of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathEnd {
    /// Index of the port.
    pub port: EndIx,
    /// LID that the path must use; `None` for any LID of the port.
    pub lid: Option<Lid>,
}

/// A query for the paths between two ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathQuery {
    /// End of the requester.
    pub from: PathEnd,
    /// Destination end.
    pub to: PathEnd,
    /// P_Key of the partition, with any membership bit; `None` for any partition.
    pub p_key: Option<PKey>,
    /// Service level; `None` for any service level.
    pub sl: Option<u8>,
    /// ServiceID, which rules of the QoS policy match; `None` if the query has none.
    pub service_id: Option<u64>,
    /// QoSClass of 12 bits, which rules of the QoS policy match; `None` if the query has none.
    pub qos_class: Option<u16>,
    /// Maximum number of paths.
    pub most: usize,
}

/// A path, and the nodes along it, including both ends.
#[derive(Clone, PartialEq, Debug)]
pub struct TracedPath {
    /// The record that a host would get.
    pub record: PathRecord,
    /// Reason for the service level of the path.
    pub sl_reason: SlReason,
    /// Nodes along the path, as GetTraceTable returns them.
    pub nodes: Vec<TraceRecord>,
}

impl PathEnd {
    /// The single end, with the LID that the path must use.
    fn ends(self) -> EndRange {
        let EndIx(ix) = self.port;
        EndRange {
            range: ix..ix + 1,
            lid: self.lid,
        }
    }

    /// The LID to examine first.
    fn first_lid(self, directory: &Directory) -> Lid {
        self.lid.unwrap_or(directory.end(self.port).lid)
    }
}

impl Directory {
    /// The paths that the port `from` would get from a query for paths to the port `to`, in the
    /// order of the answer.
    ///
    /// # Errors
    /// Fails with the reason if the port would get no path.
    ///
    /// # Panics
    /// Panics if a port's index belongs to another directory and is out of range.
    pub fn paths(self: &Arc<Self>, query: &PathQuery) -> Result<Vec<TracedPath>, NoPath> {
        let PathQuery {
            from,
            to,
            p_key,
            sl,
            service_id,
            qos_class,
            most,
        } = *query;
        // A host puts its own P_Key of the partition into the query.
        let held = |wanted: PKey| {
            let mut keys = self.p_keys(from.port).iter();
            keys.find(|key| key.base() == wanted.base())
                .map_or(wanted, |key| *key)
        };
        let mut constraints = PathConstraints::default();
        constraints.p_key = p_key.map(held);
        constraints.sl = sl;
        constraints.service_id = service_id;
        constraints.qos_class = qos_class;
        let finder = Finder {
            directory: self.clone(),
            viewer: Some(from.port),
            constraints,
            echoed_gids: (None, None),
        };
        let pairs = Pairs::new(finder.clone(), from.ends(), to.ends(), Some(most));
        let found: Vec<TracedPath> = pairs
            .flatten()
            .filter_map(|record| {
                let chosen = finder.chosen(from.port, to.port);
                let level = finder.level(from.port, to.port, record.p_key(), chosen);
                Some(TracedPath {
                    nodes: trace(self, from.port, to.port, record.dlid()).unwrap_or_default(),
                    sl_reason: level.ok()?.1,
                    record,
                })
            })
            .collect();
        if !found.is_empty() {
            return Ok(found);
        }
        if !finder.may_pair(from.port, to.port) {
            return Err(NoPath::NoPartition);
        }
        let first = |end: PathEnd| (end.port, end.first_lid(self));
        finder.path(first(from), first(to), 0).map(|_| Vec::new())
    }
}
