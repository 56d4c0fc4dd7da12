//! Prints figures about the quality of routes, as text or as JSON.

use std::io::{self, Write};

use rsm_ids::Guid;
use rsm_model::fabric::Fabric;
use rsm_routing::quality::{Contention, LinkUse, Quality};
use serde::Serialize;

/// Figures of [`Quality`].
#[derive(Serialize)]
pub(super) struct QualityPart {
    hosts: usize,
    links: usize,
    lost_pairs: u64,
    paths: PathsPart,
    all_to_all: u32,
    shift: ContentionPart,
    random: ContentionPart,
    bisection: BisectionPart,
    ring: ContentionPart,
    recursive_doubling: ContentionPart,
    double_tree: ContentionPart,
    rail_all_to_all: Option<ContentionPart>,
    worst_links: Vec<LinkPart>,
}

/// Number of paths over a link, of all pairs of hosts.
#[derive(Serialize)]
struct PathsPart {
    max: u64,
    mean: f64,
    max_over_mean: f64,
    rate_max_over_mean: f64,
}

/// Number of flows on the fullest link relative to its rate, over the phases of a pattern.
#[derive(Serialize, Clone, Copy)]
struct ContentionPart {
    max: u32,
    mean: f64,
    /// Number of measured phases.
    phases: usize,
    /// Number of phases of the pattern.
    of: usize,
}

/// Bandwidth of pairs across two halves, as a fraction of full bandwidth.
#[derive(Serialize)]
struct BisectionPart {
    mean: f64,
    min: f64,
    samples: usize,
}

/// One direction of a cable between two switches.
#[derive(Serialize)]
struct LinkPart {
    from: EndPart,
    to: EndPart,
    paths: u64,
    /// Number of hosts that send over the link.
    sources: u32,
    /// Number of hosts that receive over the link.
    destinations: u32,
}

/// Port of a switch.
#[derive(Serialize)]
struct EndPart {
    guid: String,
    description: String,
    port: u8,
}

impl From<&Contention> for ContentionPart {
    fn from(contention: &Contention) -> Self {
        ContentionPart {
            max: contention.max,
            mean: contention.mean,
            phases: contention.phases,
            of: contention.of,
        }
    }
}

impl EndPart {
    /// Describes a port of `fabric`.
    fn new(fabric: &Fabric, guid: Guid, port: rsm_ids::PortNum) -> EndPart {
        let node = fabric.find(guid).map(|node| fabric.node(node));
        EndPart {
            guid: guid.to_string(),
            description: node
                .map(|node| node.description.clone())
                .unwrap_or_default(),
            port: port.0,
        }
    }

    /// The name of the port for people: `leaf-03 port 7`.
    fn name(&self) -> String {
        let node = if self.description.is_empty() {
            &self.guid
        } else {
            &self.description
        };
        format!("{node} port {}", self.port)
    }
}

impl QualityPart {
    /// Converts the figures of routes on `fabric`.
    pub(super) fn new(quality: &Quality, fabric: &Fabric) -> QualityPart {
        let link = |link: &LinkUse| LinkPart {
            from: EndPart::new(fabric, link.switch, link.port),
            to: EndPart::new(fabric, link.peer, link.peer_port),
            paths: link.paths,
            sources: link.sources,
            destinations: link.destinations,
        };
        QualityPart {
            hosts: quality.hosts,
            links: quality.links,
            lost_pairs: quality.lost_pairs,
            paths: PathsPart {
                max: quality.paths.max,
                mean: quality.paths.mean,
                max_over_mean: quality.paths.max_over_mean(),
                rate_max_over_mean: quality.paths.rate_max_over_mean,
            },
            all_to_all: quality.all_to_all,
            shift: (&quality.shift).into(),
            random: (&quality.random).into(),
            bisection: BisectionPart {
                mean: quality.bisection.mean,
                min: quality.bisection.min,
                samples: quality.bisection.samples,
            },
            ring: (&quality.ring).into(),
            recursive_doubling: (&quality.recursive_doubling).into(),
            double_tree: (&quality.double_tree).into(),
            rail_all_to_all: quality.rail_all_to_all.as_ref().map(ContentionPart::from),
            worst_links: quality.worst.iter().map(link).collect(),
        }
    }

    /// Writes the figures as text.
    pub(super) fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        let paths = &self.paths;
        writeln!(
            out,
            "quality  {} hosts, {} links; the fullest link has {:.2} times the mean paths ({:.2} by rate); all-to-all risk {}",
            self.hosts, self.links, paths.max_over_mean, paths.rate_max_over_mean, self.all_to_all
        )?;
        if self.lost_pairs > 0 {
            writeln!(
                out,
                "         {} pairs of hosts are lost and count in nothing here",
                self.lost_pairs
            )?;
        }
        let patterns = [
            ("shift", Some(self.shift)),
            ("random", Some(self.random)),
            ("ring", Some(self.ring)),
            ("doubling", Some(self.recursive_doubling)),
            ("two trees", Some(self.double_tree)),
            ("rail all-to-all", self.rail_all_to_all),
        ];
        for (name, contention) in patterns {
            let Some(found) = contention else { continue };
            let phases = if found.phases == found.of {
                format!("{} phases", found.phases)
            } else {
                format!("{} of {} phases", found.phases, found.of)
            };
            writeln!(
                out,
                "         {name:<15} {:>4} flows by rate on the fullest link at most, {:.2} on average of {phases}",
                found.max, found.mean
            )?;
        }
        let half = &self.bisection;
        writeln!(
            out,
            "         {:<15} {:.0} % of full bandwidth on average of {}, {:.0} % at worst",
            "bisection",
            half.mean * 100.0,
            half.samples,
            half.min * 100.0
        )?;
        for link in &self.worst_links {
            writeln!(
                out,
                "         {:>10} paths, {} hosts to {}: {} -> {}",
                link.paths,
                link.sources,
                link.destinations,
                link.from.name(),
                link.to.name()
            )?;
        }
        Ok(())
    }
}
