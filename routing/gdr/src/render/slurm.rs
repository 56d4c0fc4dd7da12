use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::RenderError;
use super::groups::{Group, domains, host_list, units, units_with_others};
use crate::Analysis;

/// Writes Slurm's `topology.conf` for `topology/tree`. Each unit is one switch of the file, because
/// Slurm permits a host under one switch only. Each tier above that separates units adds a level of
/// switches. Hosts without GPUs are included: Slurm places no job on a host that the tree lacks,
/// and only warns about unknown hosts.
///
/// # Errors
/// There is no fabric, or no host in it.
pub fn slurm_tree(analysis: &Analysis) -> Result<String, RenderError> {
    let units = units_with_others(analysis)?;
    let mut out = String::new();
    for (name, members) in upper_switches(&units) {
        // The list is not folded, because GUIDs have sixteen digits.
        let _ = writeln!(out, "SwitchName={name} Switches={}", members.join(","));
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

/// Writes Slurm's `topology.conf` for `topology/block`: the blocks are NVLink domains, and units
/// for hosts without a domain.
///
/// # Errors
/// There is no fabric or no host in it, and there is no NVLink domain either.
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
    if let Some(comment) = small_block(&blocks) {
        let _ = writeln!(out, "{comment}");
    }
    let sizes: Vec<String> = block_sizes(&blocks).iter().map(usize::to_string).collect();
    let _ = writeln!(out, "BlockSizes={}", sizes.join(","));
    Ok(out)
}

/// Writes Slurm's `topology.yaml` with both topologies: the tree as the default of the cluster, and
/// the blocks.
///
/// # Errors
/// There is no fabric, or no host in it.
pub fn slurm_yaml(analysis: &Analysis) -> Result<String, RenderError> {
    let units = units_with_others(analysis)?;
    let blocks = blocks(analysis)?;
    let mut out =
        "- topology: fabric\n  cluster_default: true\n  tree:\n    switches:\n".to_owned();
    for (name, members) in upper_switches(&units) {
        let _ = writeln!(out, "      - switch: {name}");
        let _ = writeln!(out, "        children: \"{}\"", members.join(","));
    }
    for unit in &units {
        let _ = writeln!(out, "      - switch: {}", unit.name);
        let _ = writeln!(out, "        nodes: \"{}\"", host_list(&unit.hosts));
    }
    if let Some(comment) = small_block(&blocks) {
        let _ = writeln!(out, "{comment}");
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

/// The blocks, with near blocks next to each other, because Slurm joins each block with the blocks
/// after it. A block is an NVLink domain, or the hosts of a unit that have GPUs but no domain; a
/// host is in one block.
fn blocks(analysis: &Analysis) -> Result<Vec<Group<'_>>, RenderError> {
    let domains = domains(analysis);
    let units = match units(analysis) {
        Err(error) if domains.is_empty() => return Err(error),
        found => found.unwrap_or_default(),
    };
    let mut places: BTreeMap<&str, (Vec<String>, usize)> = BTreeMap::new();
    for (number, unit) in units.iter().enumerate() {
        let around = unit.within.iter().rev().cloned().collect();
        let place = (around, number);
        places.extend(unit.hosts.iter().map(|&host| (host, place.clone())));
    }
    let of_domain: BTreeSet<&str> = domains
        .iter()
        .flat_map(|domain| domain.hosts.clone())
        .collect();
    let rest = units.into_iter().filter_map(|mut unit| {
        unit.hosts.retain(|host| !of_domain.contains(host));
        (!unit.hosts.is_empty()).then_some(unit)
    });
    let mut blocks: Vec<Group<'_>> = domains.into_iter().chain(rest).collect();
    blocks.sort_by_cached_key(|block| {
        let place = block.hosts.first().and_then(|host| places.get(host));
        // Sort the cliques of a cluster by number: 2 before 10.
        let clique = block.what.rsplit_once('.');
        let number = clique.and_then(|(_, number)| number.parse::<u64>().ok());
        let cluster = clique.map_or("", |(cluster, _)| cluster).to_owned();
        let (around, unit) = place.cloned().unwrap_or((Vec::new(), usize::MAX));
        let is_rest = (block.hosts.first()).is_some_and(|host| !of_domain.contains(host));
        (around, unit, is_rest, cluster, number)
    });
    Ok(blocks)
}

/// The switches above the units, highest first, each with the switches one step below: pods, and
/// connected parts of the fabric with more than one group.
fn upper_switches<'b>(units: &'b [Group<'_>]) -> Vec<(&'b str, Vec<&'b str>)> {
    // For each switch, by its steps from the top and its name, the names one step below.
    let mut above: BTreeMap<(usize, &str), Vec<&str>> = BTreeMap::new();
    for unit in units {
        let mut below = unit.name.as_str();
        for (step, name) in unit.within.iter().enumerate() {
            let from_top = unit.within.len() - 1 - step;
            let members = above.entry((from_top, name)).or_default();
            if !members.contains(&below) {
                members.push(below);
            }
            below = name;
        }
    }
    above
        .into_iter()
        .filter(|((from_top, _), members)| *from_top > 0 || members.len() > 1)
        .map(|((_, name), members)| (name, members))
        .collect()
}

/// The maximum number of doublings of the smallest block that Slurm accepts.
const MAX_DOUBLINGS: u32 = 15;

/// The block sizes of the file, in hosts: the size of the smallest block, because Slurm refuses
/// smaller blocks, and its doublings up to the number of blocks, because each higher level of Slurm
/// has a power of two of blocks.
fn block_sizes(blocks: &[Group<'_>]) -> Vec<usize> {
    let least = blocks.iter().map(|block| block.hosts.len()).min();
    let doublings = blocks.len().checked_ilog2().unwrap_or(0).min(MAX_DOUBLINGS);
    (0..=doublings)
        .map(|doubling| least.unwrap_or(1).max(1) << doubling)
        .collect()
}

/// A comment for the file if the smallest block has fewer than half as many hosts as the median
/// block: Slurm then plans as if all blocks were that small.
fn small_block(blocks: &[Group<'_>]) -> Option<String> {
    let mut sizes: Vec<usize> = blocks.iter().map(|block| block.hosts.len()).collect();
    sizes.sort_unstable();
    let usual = *sizes.get(sizes.len() / 2)?;
    let smallest = blocks.iter().min_by_key(|block| block.hosts.len())?;
    (2 * smallest.hosts.len() < usual).then(|| {
        format!(
            "# {} has {} hosts where others have {usual}: Slurm plans with the size of the smallest block, and refuses \
             larger segments; without this block it would plan with the others'",
            smallest.name,
            smallest.hosts.len()
        )
    })
}
