//! The steps from inventories and fabric to an [`Analysis`].

use std::collections::BTreeMap;

use rayon::prelude::*;

use super::analysis::Analysis;
use super::config::AnalysisConfig;
use super::fabric::GpuFabric;
use super::hosts::GpuInventory;
use super::survey::Survey;
use super::{diagnosis, hints};

impl Analysis {
    /// Matches the hosts' inventories with the fabric; without a fabric, uses the inventories only.
    pub fn new(
        inventory: &GpuInventory,
        fabric: Option<GpuFabric>,
        config: AnalysisConfig,
    ) -> Analysis {
        let Survey {
            hosts,
            rails,
            peers,
            faults,
        } = Survey::new(inventory, fabric.as_ref(), &config);
        let hints = hosts
            .par_iter()
            .enumerate()
            .map(|(place, host)| {
                hints::hints(host, place, fabric.as_ref().map(|fabric| (fabric, &rails)))
            })
            .collect();
        let mut analysis = Analysis {
            fabric,
            config,
            hosts,
            rails,
            hints,
            findings: Vec::new(),
            of_host: BTreeMap::new(),
        };
        analysis.findings = diagnosis::find(&analysis, &peers, &faults);
        for (place, finding) in analysis.findings.iter().enumerate() {
            for host in finding.hosts() {
                let of_host = analysis.of_host.entry(host.to_owned()).or_default();
                of_host.push(place);
            }
        }
        analysis
    }
}
