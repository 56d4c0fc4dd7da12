//! Files for Kubernetes schedulers and topograph.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde::Serialize;

use super::RenderError;
use super::groups::{Group, domains, fnv, units, units_with_others};
use crate::Analysis;

/// The maximum length of a DNS label, of the value of a label of Kubernetes, and of a driver's name.
pub(super) const MAX_LABEL: usize = 63;

/// The graph, with the names of topograph's format.
#[derive(Serialize)]
struct Graph<'a> {
    instances: Vec<Instance<'a>>,
}

/// A host in the graph.
#[derive(Serialize)]
struct Instance<'a> {
    id: &'a str,
    /// The names of the groups that contain the host, smallest first.
    network_layers: Vec<String>,
    labels: BTreeMap<&'static str, String>,
}

/// Writes the graph that topograph's `graph` engine returns: every host, with or without GPUs, with
/// its unit or leaf, the pods above it, and its part of the fabric.
///
/// # Errors
/// There is no fabric, or no host in it.
pub fn topograph_graph(analysis: &Analysis) -> Result<String, RenderError> {
    let domain = domain_of(analysis);
    let units = units_with_others(analysis)?;
    let mut instances = Vec::new();
    for unit in &units {
        for &id in &unit.hosts {
            let label = domain
                .get(id)
                .map(|name| ("nvidia.com/gpu.clique", name.clone()));
            instances.push(Instance {
                id,
                network_layers: layers(unit).map(str::to_owned).collect(),
                labels: label.into_iter().collect(),
            });
        }
    }
    // Serialising text and lists of text cannot fail.
    Ok(serde_json::to_string_pretty(&Graph { instances }).unwrap_or_default() + "\n")
}

/// Writes the labels of each node as kubectl commands. `prefix` is the domain of the tiers' labels:
/// `fabric.topograph.run` for schedulers that follow topograph.
///
/// # Errors
/// There is no fabric, no host in it, or Kubernetes does not accept the name of a host or the
/// prefix.
pub fn kubernetes_labels(analysis: &Analysis, prefix: &str) -> Result<String, RenderError> {
    subdomain(prefix)?;
    let domain = domain_of(analysis);
    let mut out = String::new();
    for unit in units(analysis)? {
        for host in &unit.hosts {
            subdomain(host)?;
            let _ = write!(out, "kubectl label node --overwrite {host}");
            for (tier, name) in layers(&unit).enumerate() {
                let _ = write!(out, " {prefix}/tier-{tier}={}", label(name));
            }
            if let Some(domain) = domain.get(*host) {
                let value = label(domain);
                let _ = write!(
                    out,
                    " accelerator.topograph.run/domain={value} nvidia.com/gpu.clique={value}"
                );
            }
            out.push('\n');
        }
    }
    Ok(out)
}

/// Writes Volcano's HyperNodes, with tier names for jobs that state `highestTierName`. If hosts
/// have NVLink domains, the part of a domain within a unit is tier 1; units, pods (if there are
/// any), and the connected parts of the fabric follow.
///
/// # Errors
/// There is no fabric, no host in it, or Kubernetes does not accept the name of a host.
pub fn volcano_hypernodes(analysis: &Analysis) -> Result<String, RenderError> {
    let units = units(analysis)?;
    let domains = domains(analysis);
    let mut out = String::new();
    let of_unit = usize::from(!domains.is_empty()) + 1;
    for unit in &units {
        let parts = parts_by_domain(unit, &domains);
        for (name, hosts) in &parts {
            let hosts = hosts.iter().copied();
            hypernode(&mut out, name, (1, "nvlink-domain"), "Node", hosts)?;
        }
        let tier = (of_unit, "unit");
        match parts.is_empty() {
            true => hypernode(
                &mut out,
                &unit.name,
                tier,
                "Node",
                unit.hosts.iter().copied(),
            )?,
            false => {
                let members = parts.keys().map(String::as_str);
                hypernode(&mut out, &unit.name, tier, "HyperNode", members)?;
            }
        }
    }
    // For each (tier, name): the names of the groups one tier below.
    let mut above: BTreeMap<(usize, &str), BTreeSet<&str>> = BTreeMap::new();
    for unit in &units {
        let names: Vec<&str> = layers(unit).collect();
        for (tier, pair) in (of_unit + 1..).zip(names.windows(2)) {
            above.entry((tier, pair[1])).or_default().insert(pair[0]);
        }
    }
    let highest = above
        .keys()
        .map(|(tier, _)| *tier)
        .max()
        .unwrap_or(of_unit + 1);
    for ((tier, name), members) in above {
        let tier_name = tier_name(tier - of_unit, highest - of_unit);
        let members = members.into_iter();
        hypernode(&mut out, name, (tier, &tier_name), "HyperNode", members)?;
    }
    Ok(out)
}

/// The hosts of a unit by NVLink domain, with one more part for hosts without a domain; empty if no
/// host of the fabric has a domain. A domain across several units has a part in each, named after
/// both.
fn parts_by_domain<'a>(
    unit: &Group<'a>,
    domains: &[Group<'_>],
) -> BTreeMap<String, BTreeSet<&'a str>> {
    let mut parts: BTreeMap<String, BTreeSet<&'a str>> = BTreeMap::new();
    if domains.is_empty() {
        return parts;
    }
    let of_unit: BTreeSet<&str> = unit.hosts.iter().copied().collect();
    for &host in &unit.hosts {
        let domain = domains.iter().find(|domain| domain.hosts.contains(&host));
        let name = match domain {
            Some(domain) if domain.hosts.iter().all(|host| of_unit.contains(host)) => {
                domain.name.to_ascii_lowercase()
            }
            Some(domain) => format!("{}-{}", domain.name.to_ascii_lowercase(), unit.name),
            None => format!("{}-others", unit.name),
        };
        parts.entry(name).or_default().insert(host);
    }
    parts
}

/// The names of a unit and of the groups around it, smallest first.
fn layers<'a>(unit: &'a Group<'_>) -> impl Iterator<Item = &'a str> {
    let around = unit.within.iter().map(String::as_str);
    std::iter::once(unit.name.as_str()).chain(around)
}

/// The name of a tier of switches, by its number above units, from 1 to `highest`.
pub(super) fn tier_name(above: usize, highest: usize) -> String {
    match above {
        above if above == highest => "fabric".to_owned(),
        1 => "pod".to_owned(),
        above => format!("pod{above}"),
    }
}

/// Writes a HyperNode with its members, which are nodes or HyperNodes by `kind`.
///
/// # Errors
/// Kubernetes does not accept the name of a member.
fn hypernode<'a>(
    out: &mut String,
    name: &str,
    (tier, tier_name): (usize, &str),
    kind: &str,
    members: impl Iterator<Item = &'a str>,
) -> Result<(), RenderError> {
    if !out.is_empty() {
        out.push_str("---\n");
    }
    let _ = write!(
        out,
        "apiVersion: topology.volcano.sh/v1alpha1\nkind: HyperNode\nmetadata:\n  name: {name}\nspec:\n  tier: {tier}\n  tierName: {tier_name}\n  members:\n"
    );
    for member in members {
        subdomain(member)?;
        // The name is quoted, because YAML reads digits without quotes as a number.
        let _ = write!(
            out,
            "  - type: {kind}\n    selector:\n      exactMatch:\n        name: \"{member}\"\n"
        );
    }
    Ok(())
}

/// The NVLink domain of each host that has one.
fn domain_of(analysis: &Analysis) -> BTreeMap<&str, String> {
    let of_group = |group: Group<'_>| {
        (
            group.what,
            group
                .hosts
                .into_iter()
                .map(str::to_owned)
                .collect::<Vec<_>>(),
        )
    };
    let named: BTreeMap<String, String> = domains(analysis)
        .into_iter()
        .map(of_group)
        .flat_map(|(what, hosts)| hosts.into_iter().map(move |host| (host, what.clone())))
        .collect();
    let hosts = analysis.hosts.iter();
    hosts
        .filter_map(|host| Some((host.name.as_str(), named.get(&host.name)?.clone())))
        .collect()
}

/// Checks that Kubernetes accepts a name for a node (RFC 1123).
pub(super) fn subdomain(name: &str) -> Result<(), RenderError> {
    let part = |part: &str| {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        (1..=MAX_LABEL).contains(&part.len())
            && part.bytes().all(plain)
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    match name.split('.').all(part) && name.len() <= 253 {
        true => Ok(()),
        false => Err(RenderError::Name {
            name: name.to_owned(),
            format: "Kubernetes",
            rule: "lower-case letters, digits, `-` and `.`, a letter or digit at both ends of each part, at most 63 characters in each part and 253 in all",
        }),
    }
}

/// Converts text into a permitted label value: other text becomes `x` and its FNV-1a hash, as in
/// topograph.
fn label(value: &str) -> String {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let ends = |at: Option<&u8>| at.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = value.as_bytes();
    let fits = bytes.len() <= MAX_LABEL && bytes.iter().all(|&byte| inner(byte));
    if fits && ends(bytes.first()) && ends(bytes.last()) {
        return value.to_owned();
    }
    let hash = fnv(bytes);
    format!("x{hash:016x}")
}
