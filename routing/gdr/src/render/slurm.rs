use std::fmt::Write as _;

use super::RenderError;
use super::groups::{Group, domains, host_list, units, units_with_others};
use crate::Analysis;

/// Slurm's `topology.conf` for `topology/tree`: a unit is a switch, because a host may be under one
/// only, and the switches between units are one switch above. Hosts without GPUs are in it as well:
/// Slurm places no job on a host that the tree lacks, and only warns of one that it does not know.
///
/// # Errors
/// No fabric, or no host in it.
pub fn slurm_tree(analysis: &Analysis) -> Result<String, RenderError> {
    let units = units_with_others(analysis)?;
    let mut out = String::new();
    for (part, members) in parts(&units) {
        let names: Vec<&str> = members.iter().map(|unit| unit.name.as_str()).collect();
        // Not folded: GUIDs have sixteen digits.
        let _ = writeln!(out, "SwitchName={part} Switches={}", names.join(","));
    }
    for unit in &units {
        let _ = writeln!(out, "# {}: {}", unit.name, unit.what);
        let _ = writeln!(
            out,
            "SwitchName={} Nodes={}",
            unit.name,
            host_list(&unit.hosts)
        );
    }
    Ok(out)
}

/// Slurm's `topology.conf` for `topology/block`: NVLink domains are blocks, or units where no host
/// has a domain.
///
/// # Errors
/// No fabric or no host in it, where there is no domain either.
pub fn slurm_block(analysis: &Analysis) -> Result<String, RenderError> {
    let blocks = blocks(analysis)?;
    let mut out = String::new();
    for block in &blocks {
        let _ = writeln!(out, "# {}: {}", block.name, block.what);
        let _ = writeln!(
            out,
            "BlockName={} Nodes={}",
            block.name,
            host_list(&block.hosts)
        );
    }
    let sizes: Vec<String> = block_sizes(&blocks).iter().map(usize::to_string).collect();
    let _ = writeln!(out, "BlockSizes={}", sizes.join(","));
    Ok(out)
}

/// Slurm's `topology.yaml` with both: the tree as the default of the cluster, and the blocks.
///
/// # Errors
/// No fabric, or no host in it.
pub fn slurm_yaml(analysis: &Analysis) -> Result<String, RenderError> {
    let units = units_with_others(analysis)?;
    let blocks = blocks(analysis)?;
    let mut out =
        "- topology: fabric\n  cluster_default: true\n  tree:\n    switches:\n".to_owned();
    for (part, members) in parts(&units) {
        let names: Vec<&str> = members.iter().map(|unit| unit.name.as_str()).collect();
        let _ = writeln!(out, "      - switch: {part}");
        let _ = writeln!(out, "        children: \"{}\"", names.join(","));
    }
    for unit in &units {
        let _ = writeln!(out, "      - switch: {}", unit.name);
        let _ = writeln!(out, "        nodes: \"{}\"", host_list(&unit.hosts));
    }
    out.push_str("- topology: blocks\n  cluster_default: false\n  block:\n    block_sizes:\n");
    for size in block_sizes(&blocks) {
        let _ = writeln!(out, "      - {size}");
    }
    out.push_str("    blocks:\n");
    for block in &blocks {
        let _ = writeln!(out, "      - block: {}", block.name);
        let _ = writeln!(out, "        nodes: \"{}\"", host_list(&block.hosts));
    }
    Ok(out)
}

fn blocks(analysis: &Analysis) -> Result<Vec<Group<'_>>, RenderError> {
    match domains(analysis) {
        none if none.is_empty() => units(analysis),
        domains => Ok(domains),
    }
}

/// The connected parts of the fabric that hold more than one unit, each with its units.
fn parts<'a, 'b>(units: &'b [Group<'a>]) -> Vec<(&'b str, Vec<&'b Group<'a>>)> {
    let mut parts: std::collections::BTreeMap<&str, Vec<&Group<'_>>> = Default::default();
    for unit in units {
        parts.entry(&unit.part).or_default().push(unit);
    }
    parts
        .into_iter()
        .filter(|(_, members)| members.len() > 1)
        .collect()
}

/// The smallest block, and its doubles as long as the hosts fill two of them.
fn block_sizes(blocks: &[Group<'_>]) -> Vec<usize> {
    let hosts: usize = blocks.iter().map(|block| block.hosts.len()).sum();
    let least = blocks
        .iter()
        .map(|block| block.hosts.len())
        .min()
        .unwrap_or(1)
        .max(1);
    let doubles = std::iter::successors(Some(least), |size| Some(size * 2));
    doubles
        .take_while(|&size| size == least || size * 2 <= hosts)
        .collect()
}
