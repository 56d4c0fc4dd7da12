//! Measures one phase of any traffic pattern: all hosts send at the same time.

use rsm_ids::Lid;

use crate::tables::{Lft, Tables};
use crate::topology::Topology;
use crate::verify::fabric::Fabric;

use super::order::Hosts;
use super::uses::Uses;

/// The maximum number of flows that are followed together, hop by hop: enough that their waits for
/// memory overlap, few enough to stay in the nearest cache.
const FLOWS_TOGETHER: usize = 512;

/// The inputs that all phases share.
pub(super) struct Carrier<'a> {
    pub(super) fabric: &'a Fabric<'a>,
    pub(super) tables: &'a Tables,
    /// The forwarding table of each switch.
    pub(super) rows: &'a [Lft],
    pub(super) hosts: &'a Hosts,
    pub(super) uses: &'a Uses,
    /// The factors of [`slowness`].
    pub(super) slowness: Option<&'a [f64]>,
}

/// Runs `measure` with the inputs that all phases share.
pub(super) fn with_carrier<T>(
    topology: &Topology,
    tables: &Tables,
    measure: impl FnOnce(&Carrier<'_>) -> T,
) -> T {
    let fabric = Fabric::new(topology);
    let rows = rows(&fabric, tables);
    let hosts = Hosts::of(topology);
    let uses = Uses::of(&fabric, tables, &hosts);
    let slowness = slowness(&fabric);
    measure(&Carrier {
        fabric: &fabric,
        tables,
        rows: &rows,
        hosts: &hosts,
        uses: &uses,
        slowness: slowness.as_deref(),
    })
}

/// For each channel, the ratio of the fastest rate between two switches to its own rate; `None` if
/// all channels have one rate.
pub(super) fn slowness(fabric: &Fabric<'_>) -> Option<Vec<f64>> {
    let topology = fabric.topology;
    let links = || {
        topology.indices().flat_map(|switch| {
            let links = topology.groups(switch).flat_map(|group| group.links);
            links.map(move |link| (fabric.channel(switch.index(), link.port.0), link.weight))
        })
    };
    let fastest = links().map(|(_, rate)| rate).max()?;
    if links().all(|(_, rate)| rate == fastest) {
        return None;
    }
    let mut slowness = vec![1.0; fabric.channels()];
    for (channel, rate) in links() {
        slowness[channel] = times_slower(fastest, rate);
    }
    Some(slowness)
}

/// A load on a channel relative to rate, given the [`slowness`] of channels.
pub(super) fn by_rate(slowness: Option<&[f64]>, channel: usize, load: f64) -> f64 {
    load * slowness.map_or(1.0, |slowness| slowness[channel])
}

/// The ratio of the rate `fastest` to `rate`, which is at least 1.
pub(super) fn times_slower(fastest: u32, rate: u32) -> f64 {
    f64::from(fastest) / f64::from(rate.max(1))
}

/// A flow that is being followed to its destination.
#[derive(Clone, Copy)]
struct Flow {
    /// The switch that the flow has reached.
    at: u16,
    lid: u16,
    /// The destination switch.
    root: u16,
}

/// The load of a phase on the links.
pub(super) struct Phase<'a> {
    carrier: &'a Carrier<'a>,
    /// The number of flows on each channel. Each host sends a handful of flows at most, so that
    /// this cannot overflow.
    load: Vec<u32>,
    flows: Vec<Flow>,
    /// The maximum channel load so far, relative to rate.
    fullest: f64,
}

impl<'a> Phase<'a> {
    pub(super) fn new(carrier: &'a Carrier<'a>) -> Phase<'a> {
        Phase {
            carrier,
            load: vec![0; carrier.fabric.channels()],
            flows: Vec::with_capacity(FLOWS_TOGETHER),
            fullest: 0.0,
        }
    }

    /// Clears the load.
    pub(super) fn clear(&mut self) {
        self.load.fill(0);
        self.fullest = 0.0;
    }

    /// The number of flows on the fullest link so far, relative to its rate.
    pub(super) fn fullest(&self) -> f64 {
        self.fullest
    }

    /// Adds a flow for each pair of (source host, destination host), by their indices in
    /// [`Hosts::all`]. Flows within a leaf cross no link, and flows that do not arrive are left
    /// out.
    pub(super) fn add(&mut self, pairs: impl IntoIterator<Item = (usize, usize)>) {
        for (from, to) in pairs {
            self.flows.extend(self.carrier.flow(from, to));
            if self.flows.len() == FLOWS_TOGETHER {
                self.carry();
            }
        }
        self.carry();
    }

    /// Follows the waiting flows to their ends, and adds them to the load.
    fn carry(&mut self) {
        let Carrier {
            fabric,
            rows,
            slowness,
            ..
        } = self.carrier;
        let mut flows = self.flows.len();
        while flows > 0 {
            let mut in_transit = 0;
            for index in 0..flows {
                let flow = self.flows[index];
                let at = usize::from(flow.at);
                let channel = fabric.channel(at, rows[at].entry(Lid(flow.lid)));
                self.load[channel] += 1;
                let load = by_rate(*slowness, channel, f64::from(self.load[channel]));
                self.fullest = self.fullest.max(load);
                // There are fewer switches than LIDs.
                let next = fabric.next(channel) as u16;
                self.flows[in_transit] = Flow { at: next, ..flow };
                in_transit += usize::from(next != flow.root);
            }
            flows = in_transit;
        }
        self.flows.clear();
    }
}

/// The forwarding tables, one for each switch; missing ones are empty.
pub(super) fn rows(fabric: &Fabric<'_>, tables: &Tables) -> Vec<Lft> {
    let row = |switch| tables.lfts.get(switch).cloned().unwrap_or_default();
    (0..fabric.switches).map(row).collect()
}

impl Carrier<'_> {
    /// The flow from one host to another; `None` if it stays within a leaf or does not arrive.
    fn flow(&self, from: usize, to: usize) -> Option<Flow> {
        let [at, root] = [from, to].map(|host| self.hosts.switches[host]);
        let passes_links = at != root && self.arrives(from, to);
        passes_links.then_some(Flow {
            at,
            lid: self.hosts.all[to].lid.0,
            root,
        })
    }

    /// The channels between switches from one host to another, in their order; empty for a flow
    /// that stays within a leaf or does not arrive.
    pub(super) fn channels(&self, from: usize, to: usize) -> Vec<usize> {
        let mut channels = Vec::new();
        let Some(flow) = self.flow(from, to) else {
            return channels;
        };
        let mut at = usize::from(flow.at);
        while at != usize::from(flow.root) {
            let port = self.rows[at].entry(Lid(flow.lid));
            channels.push(self.fabric.channel(at, port));
            at = self.fabric.next(self.fabric.channel(at, port));
        }
        channels
    }

    /// The share that a flow gets of the fullest link on its path, as a fraction of the fastest
    /// link's rate. `fullest` is the number of flows on that link, relative to its rate; 0 for a
    /// flow without links. The result is 1 for a flow within a leaf, and 0 for a flow that does not
    /// arrive.
    pub(super) fn share(&self, from: usize, to: usize, fullest: f64) -> f64 {
        match fullest {
            0.0 if self.is_local(from, to) => 1.0,
            0.0 => 0.0,
            flows => 1.0 / flows,
        }
    }

    /// Whether packets go from one host to another within their leaf.
    fn is_local(&self, from: usize, to: usize) -> bool {
        self.hosts.all[from].leaf == self.hosts.all[to].leaf && self.arrives(from, to)
    }

    /// Whether packets from one host arrive at another.
    pub(super) fn arrives(&self, from: usize, to: usize) -> bool {
        let lost = self.uses.lost[to].as_ref();
        lost.is_none_or(|leaves| !leaves.contains(self.hosts.all[from].leaf as usize))
    }
}
