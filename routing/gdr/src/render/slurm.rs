use std::collections::{BTreeMap, BTreeSet};
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

/// Slurm's `topology.conf` for `topology/block`: NVLink domains are blocks, and so are units as far
/// as their hosts are in no domain.
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
    if let Some(comment) = small_block(&blocks) {
        let _ = writeln!(out, "{comment}");
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

/// The blocks in an order in which neighbours are near each other: Slurm joins each with those that
/// follow it. NVLink domains, and the hosts with GPUs that are in none by units; a host is in one
/// block.
fn blocks(analysis: &Analysis) -> Result<Vec<Group<'_>>, RenderError> {
    let domains = domains(analysis);
    let units = match units(analysis) {
        Err(error) if domains.is_empty() => return Err(error),
        found => found.unwrap_or_default(),
    };
    let mut places: BTreeMap<&str, (usize, String)> = BTreeMap::new();
    for (number, unit) in units.iter().enumerate() {
        let place = (number, unit.part.clone());
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
        // Cliques of a cluster by their numbers: 2 before 10.
        let clique = block.what.rsplit_once('.');
        let number = clique.and_then(|(_, number)| number.parse::<u64>().ok());
        let cluster = clique.map_or("", |(cluster, _)| cluster).to_owned();
        let (unit, part) = place.cloned().unwrap_or((usize::MAX, String::new()));
        let is_rest = (block.hosts.first()).is_some_and(|host| !of_domain.contains(host));
        (part, unit, is_rest, cluster, number)
    });
    Ok(blocks)
}

/// The connected parts of the fabric that hold more than one unit, each with its units.
fn parts<'a, 'b>(units: &'b [Group<'a>]) -> Vec<(&'b str, Vec<&'b Group<'a>>)> {
    let mut parts: BTreeMap<&str, Vec<&Group<'_>>> = Default::default();
    for unit in units {
        parts.entry(&unit.part).or_default().push(unit);
    }
    parts
        .into_iter()
        .filter(|(_, members)| members.len() > 1)
        .collect()
}

/// The most doublings of the smallest block that Slurm takes.
const MOST_DOUBLINGS: u32 = 15;

/// The size of the smallest block, which no block may be below, and its doubles as far as there are
/// blocks: Slurm counts higher levels in blocks, by powers of two.
fn block_sizes(blocks: &[Group<'_>]) -> Vec<usize> {
    let least = blocks.iter().map(|block| block.hosts.len()).min();
    let doublings = blocks
        .len()
        .checked_ilog2()
        .unwrap_or(0)
        .min(MOST_DOUBLINGS);
    (0..=doublings)
        .map(|doubling| least.unwrap_or(1).max(1) << doubling)
        .collect()
}

/// A comment where the smallest block has less than half of the hosts of most blocks: with it in
/// the file, all are planned as if they were as small.
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
