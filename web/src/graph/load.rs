//! The use and errors of the links of a [`Graph`](super::Graph), from performance counters.

use rsm_api::CountersQueries;
use serde::Serialize;

use super::GraphJson;

/// The use and errors of links between switches: one value for each link of a graph of the same
/// shape, in the graph's order. Several cables between two switches have the value of the
/// worst cable.
#[derive(Debug, Default, Serialize, PartialEq)]
pub(crate) struct Load {
    /// The shape of the graph.
    shape: String,
    /// Whether counters are read.
    collecting: bool,
    /// The number of ports with a reading that is not stale.
    ports: u64,
    /// The busier direction as a share of the link's rate, in thousandths; -1 if unknown.
    #[serde(rename = "use")]
    used: Vec<i32>,
    /// The share of time in which data waited without being sent, in thousandths; -1 if unknown.
    wait: Vec<i32>,
    /// The errors per hour, rounded up.
    errors: Vec<u32>,
}

impl Load {
    /// Computes the current load of the links of `drawn`. Takes a few tenths of a second on the
    /// largest fabrics.
    pub(crate) fn of(drawn: &GraphJson, counters: &dyn CountersQueries) -> Load {
        let mut load = Load {
            shape: drawn.shape.clone(),
            collecting: counters.state().is_collecting,
            ports: 0,
            used: vec![-1; drawn.bundles],
            wait: vec![-1; drawn.bundles],
            errors: vec![0; drawn.bundles],
        };
        let thousandths = |share: f64| (share * 1e3).clamp(0.0, 1e6).round() as i32;
        let place_of = drawn.place_of();
        counters.each_port(&mut |port| {
            load.ports += 1;
            let Some(&place) = place_of.get(&port.port) else {
                return;
            };
            let place = place as usize;
            for (column, share) in [
                (&mut load.used, port.use_share),
                (&mut load.wait, port.wait_share),
            ] {
                let share = share.map_or(-1, thousandths);
                column[place] = column[place].max(share);
            }
            let errors = port.errors_sum.ceil() as u32;
            load.errors[place] = load.errors[place].max(errors);
        });
        load
    }
}
