//! Links that carry less than they could, by one rule for findings, for lists of the API and for
//! the colors of the web page.
//!
//! A link is slow if its width or speed is below a value that both its ends support and have
//! enabled. A cable between switches is also slow if most of its siblings in the plan in force are
//! faster ([`Topology::slow_cables`](rsm_routing::topology::Topology::slow_cables)). A host's link
//! is also slow if the links of most adapters of its type are faster ([`peers`]).

mod peers;
mod rates;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rsm_ids::{LinkSpeed, LinkWidth, PortKey};
use rsm_mad::wire::attr::ActiveRate;
use rsm_routing::topology::SlowCable;

use self::peers::SlowHosts;
use self::rates::{best_speed, best_width};
use crate::fabric::{Fabric, Node};
use crate::findings::{Finding, FindingKind, Severity, Subject};

/// Maximum number of slow links with separate findings; one more finding counts all others.
const FINDINGS_MAX: usize = 16;

/// A link below the rate that both its ends support.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BelowEnds {
    /// The higher end of the link.
    peer: PortKey,
    /// Width and speed in use.
    rate: ActiveRate,
    /// The best width that both ends support.
    pub width: LinkWidth,
    /// The best speed that both ends support.
    pub speed: LinkSpeed,
}

/// A cable below the rate of most of its siblings: between switches, or of a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BelowSiblings {
    /// The higher end of the cable.
    peer: PortKey,
    /// Data rate of the cable in megabits per second.
    mbps: u32,
    /// Data rate of most sibling cables in megabits per second.
    pub siblings_mbps: u32,
}

/// The rates that a slow link falls short of; at least one of the two is present.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlowLink {
    /// The rate that both its ends support; `None` if the link reaches it.
    pub ends: Option<BelowEnds>,
    /// The rate of most sibling cables; `None` if the link reaches it.
    pub siblings: Option<BelowSiblings>,
}

/// The slow links, each by its lower end. Clones share them.
#[derive(Clone, Default, Debug)]
pub struct SlowLinks {
    /// Links below the rate that both their ends support.
    ends: Arc<BTreeMap<PortKey, BelowEnds>>,
    /// Cables between switches that are slower than most of their siblings.
    siblings: Arc<BTreeMap<PortKey, BelowSiblings>>,
    /// Links of hosts that are slower than those of most adapters of the same type.
    hosts: SlowHosts,
}

impl SlowLinks {
    /// Follows the fabric from `before` to `now`. Reads only nodes that the two do not share.
    pub fn follow(&mut self, before: &Fabric, now: &Fabric) {
        self.hosts.follow(before, now);
        let mut links: BTreeMap<PortKey, Option<BelowEnds>> = BTreeMap::new();
        for (old, new) in before.differing(now) {
            let cables = [old, new].into_iter().flatten().flat_map(Node::cables);
            for (here, there) in cables {
                let low = here.min(there);
                links.entry(low).or_insert_with(|| below_ends(now, low));
            }
        }
        for (low, link) in links {
            if self.ends.get(&low) == link.as_ref() {
                continue;
            }
            let links = Arc::make_mut(&mut self.ends);
            match link {
                Some(link) => links.insert(low, link),
                None => links.remove(&low),
            };
        }
    }

    /// Replaces the cables that are slower than most of their siblings by the slow cables of a new
    /// plan.
    pub fn set_siblings(&mut self, cables: &[SlowCable]) {
        let cables = cables.iter().map(|slow| {
            let ends = [slow.cable.a, slow.cable.b];
            let [a, b] = ends.map(|(node, port)| PortKey { node, port });
            let below = BelowSiblings {
                peer: a.max(b),
                mbps: slow.rate,
                siblings_mbps: slow.beside,
            };
            (a.min(b), below)
        });
        let cables: BTreeMap<PortKey, BelowSiblings> = cables.collect();
        if *self.siblings != cables {
            self.siblings = Arc::new(cables);
        }
    }

    /// The slow links without the comparison of switches' cables, which is valid only while a plan
    /// is in force.
    pub fn without_siblings(&self) -> SlowLinks {
        SlowLinks {
            siblings: Arc::default(),
            ..self.clone()
        }
    }

    /// The rates that the link from `low` to its higher end `high` falls short of; `None` if the
    /// link is not slow.
    pub fn get(&self, low: PortKey, high: PortKey) -> Option<SlowLink> {
        let ends = self.ends.get(&low).filter(|link| link.peer == high);
        let of_switches = self.siblings.get(&low).filter(|link| link.peer == high);
        let of_hosts = self.hosts.slow.get(&low).filter(|link| link.peer == high);
        let siblings = of_switches.or(of_hosts);
        (ends.is_some() || siblings.is_some()).then_some(SlowLink {
            ends: ends.copied(),
            siblings: siblings.copied(),
        })
    }

    /// The lower ends of links whose slowness differs between `self` and `other`.
    pub fn differing(&self, other: &SlowLinks) -> BTreeSet<PortKey> {
        let mut ends = differing(&self.ends, &other.ends);
        ends.append(&mut differing(&self.siblings, &other.siblings));
        ends.append(&mut differing(&self.hosts.slow, &other.hosts.slow));
        ends
    }

    /// Findings about slow links: one for each of the first [`FINDINGS_MAX`] links, beginning with
    /// links between switches, and one that counts all others.
    pub fn findings(&self, fabric: &Fabric) -> Vec<Finding> {
        // A cable that has just vanished stays in the plan until the next plan.
        let is_there = |low, high| {
            let at = fabric.find_port(low);
            at.is_some_and(|at| fabric.port(at).peer == Some(high))
        };
        let siblings = self.siblings.iter();
        let siblings = siblings.filter(|(low, link)| is_there(**low, link.peer));
        let siblings = siblings.map(|(&low, link)| (low, link as &dyn Below));
        let is_sibling = |low: &PortKey, high| {
            let sibling = self.siblings.get(low);
            sibling.is_some_and(|link| link.peer == high)
        };
        let others = self.ends.iter();
        let others = others.filter(|(low, link)| !is_sibling(low, link.peer));
        let others = others.map(|(&low, link)| (low, link as &dyn Below));
        let hosts = self.hosts.slow.iter();
        let hosts = hosts.filter(|(low, _)| !self.ends.contains_key(low));
        let hosts = hosts.map(|(&low, link)| (low, link as &dyn Below));
        let mut all = siblings.chain(others).chain(hosts);
        let named = all.by_ref().take(FINDINGS_MAX);
        let named = named.map(|(low, link)| {
            let (kind, subject) = (FindingKind::LinkSlow, Subject::Port(low));
            Finding::new(kind, subject, Severity::Warning, link.text(low, fabric))
        });
        let mut findings: Vec<Finding> = named.collect();
        let more = all.count();
        if more > 0 {
            let text = format!(
                "{more} more links are below the rate of most of their siblings, or below the one that \
                 both ends could have: `rsmctl slow` lists them"
            );
            let kind = FindingKind::LinkSlow;
            findings.push(Finding::new(kind, Subject::Subnet, Severity::Warning, text));
        }
        findings
    }
}

/// A rate that a link falls short of, worded for a finding.
trait Below {
    /// The text about the link whose lower end is `low`.
    fn text(&self, low: PortKey, fabric: &Fabric) -> String;
}

impl Below for BelowEnds {
    fn text(&self, low: PortKey, fabric: &Fabric) -> String {
        let advice = match self.rate.lanes < self.width.lanes() {
            true => "lanes are dead: clean or replace the cable, or train the link again",
            false => "use a cable for that speed, or train the link again",
        };
        format!(
            "the link between {} and {} runs at {}x {}, both ends could do {}x {}: it carries less than it could; {advice}",
            fabric.port_name(low),
            fabric.port_name(self.peer),
            self.rate.lanes,
            self.rate.speed,
            self.width.lanes(),
            self.speed
        )
    }
}

impl Below for BelowSiblings {
    fn text(&self, low: PortKey, fabric: &Fabric) -> String {
        let gbps = |mbps: u32| f64::from(mbps) / 1000.0;
        let ends = [low, self.peer];
        if ends.into_iter().any(|end| !fabric.is_switch(end.node)) {
            return format!(
                "the link between {} and {} carries {} Gb/s, most adapters of this type have {} Gb/s: the \
                 host sends and receives less than its peers; see whether a lane is dead, or the cable or \
                 the port's settings are for less",
                fabric.port_name(low),
                fabric.port_name(self.peer),
                gbps(self.mbps),
                gbps(self.siblings_mbps)
            );
        }
        format!(
            "the cable between {} and {} carries {} Gb/s, most of its siblings {} Gb/s: routes give it less \
             by its rate, and the switches have less bandwidth; see whether a lane is dead or the cable is \
             for a lower speed, or train the link again",
            fabric.port_name(low),
            fabric.port_name(self.peer),
            gbps(self.mbps),
            gbps(self.siblings_mbps)
        )
    }
}

/// The ends whose links differ; empty, at no cost, if `one` and `other` share their map.
fn differing<T: PartialEq>(
    one: &Arc<BTreeMap<PortKey, T>>,
    other: &Arc<BTreeMap<PortKey, T>>,
) -> BTreeSet<PortKey> {
    if Arc::ptr_eq(one, other) {
        return BTreeSet::new();
    }
    let ends = one.keys().chain(other.keys()).copied();
    ends.filter(|end| one.get(end) != other.get(end)).collect()
}

/// The shortfall of the link whose lower end is `low`; `None` unless the link is up and below the
/// best rate of both ends.
fn below_ends(fabric: &Fabric, low: PortKey) -> Option<BelowEnds> {
    let port = |key: PortKey| {
        let port = fabric.port(fabric.find_port(key)?);
        Some(port).filter(|port| port.up)
    };
    let near = port(low)?;
    // A port that was the lower end of its cable before may be the higher one now.
    let peer = near.peer.filter(|&peer| low <= peer)?;
    let (one, other) = (near.info.as_ref()?, port(peer)?.info.as_ref()?);
    let rate = one.link_rate()?;
    let width = best_width(one, other)?;
    let speed = best_speed(one, other)?;
    let is_slow = rate.lanes < width.lanes() || rate.speed.data_kbps() < speed.data_kbps();
    is_slow.then_some(BelowEnds {
        peer,
        rate,
        width,
        speed,
    })
}
