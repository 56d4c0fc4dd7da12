use std::fmt::Write as _;

use super::why::missing_ports;
use crate::Analysis;
use crate::hints::GpuHint;
use crate::host::Host;
use crate::inventory::LinkShape;

/// Describes one host for the operator: its GPUs, links, ports, the matrix of tiers, and the hints.
///
/// `None` if the host is unknown.
pub fn describe(analysis: &Analysis, host: &str) -> Option<String> {
    let place = analysis.place(host)?;
    let mut out = String::new();
    let host = &analysis.hosts[place];
    // Writing to a string cannot fail.
    let _ = head(&mut out, host);
    let _ = ports(&mut out, host);
    let _ = matrix(&mut out, host);
    let _ = hints(&mut out, host, &analysis.hints[place]);
    if analysis.fabric.is_some() {
        let _ = missing_ports(&mut out, analysis, host);
    }
    let findings: Vec<_> = analysis.findings_of(&host.name).collect();
    if !findings.is_empty() {
        let _ = writeln!(out, "\nfindings");
        for finding in findings {
            let gpus: Vec<String> = finding.gpus.iter().map(|gpu| format!("GPU{gpu}")).collect();
            let _ = writeln!(
                out,
                "  {}: {} [{}]",
                finding.kind,
                finding.evidence,
                gpus.join(" ")
            );
            let _ = writeln!(out, "    {}", finding.kind.advice());
        }
    }
    Some(out)
}

/// Writes the name of the host, its numbers of devices, and the kind of its links.
fn head(out: &mut String, host: &Host) -> std::fmt::Result {
    let inventory = &host.inventory;
    write!(out, "{} ({}", host.name, inventory.source.name())?;
    if let Some(machine) = &inventory.machine {
        write!(out, ", {}", machine.escape_debug())?;
    }
    writeln!(
        out,
        "): {} GPUs, {} ports",
        inventory.gpus.len(),
        inventory.hca_ports.len()
    )?;
    match inventory.link_shape() {
        LinkShape::None if !inventory.nvlinks_known => writeln!(out, "links: not told")?,
        shape => writeln!(out, "links: {}, {shape}", inventory.link_family)?,
    }
    if let Some(domain) = &inventory.domain {
        writeln!(out, "NVLink domain: {domain}")?;
    }
    Ok(())
}

/// Writes the table of ports with their roles.
fn ports(out: &mut String, host: &Host) -> std::fmt::Result {
    if host.inventory.hca_ports.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\n{:<14} {:<13} {:>4} {:>6} {:<11} reason",
        "port", "pci", "numa", "Gb/s", "role"
    )?;
    for (port, (role, reason)) in host.inventory.hca_ports.iter().zip(&host.roles) {
        let pci = port.pci.map_or("-".to_owned(), |pci| pci.to_string());
        let numa = port.numa.map_or("-".to_owned(), |numa| numa.to_string());
        let rate = port.gbps.map_or("-".to_owned(), |rate| rate.to_string());
        let label = port.label();
        writeln!(
            out,
            "{label:<14} {pci:<13} {numa:>4} {rate:>6} {:<11} {}",
            role.name(),
            reason.text()
        )?;
    }
    Ok(())
}

/// Writes the tier of each GPU to each port, and the links between GPUs if they are known.
fn matrix(out: &mut String, host: &Host) -> std::fmt::Result {
    let inventory = &host.inventory;
    if inventory.gpus.is_empty() {
        return Ok(());
    }
    let widths: Vec<usize> = inventory
        .hca_ports
        .iter()
        .map(|port| port.label().len().max(4))
        .collect();
    write!(out, "\n{:<6} {:<13} {:>4}", "gpu", "pci", "numa")?;
    for port in &inventory.hca_ports {
        write!(out, " {:<4}", port.label())?;
    }
    writeln!(out)?;
    for (gpu, entry) in inventory.gpus.iter().enumerate() {
        let pci = entry.pci.map_or("-".to_owned(), |pci| pci.to_string());
        let numa = entry.numa.map_or("-".to_owned(), |numa| numa.to_string());
        write!(
            out,
            "{:<6} {pci:<13} {numa:>4}",
            format!("GPU{}", entry.index)
        )?;
        for (port, width) in widths.iter().enumerate() {
            let tier = inventory.tier(gpu, port).map_or("-", |tier| tier.name());
            write!(out, " {tier:<width$}")?;
        }
        let end = out.trim_end().len();
        out.truncate(end);
        writeln!(out)?;
    }
    if inventory.nvlinks_known {
        links(out, host)?;
    }
    Ok(())
}

/// Writes the number of links between each two GPUs.
fn links(out: &mut String, host: &Host) -> std::fmt::Result {
    let inventory = &host.inventory;
    writeln!(out, "\nlinks between GPUs")?;
    for (gpu, entry) in inventory.gpus.iter().enumerate() {
        write!(out, "{:<6}", format!("GPU{}", entry.index))?;
        for peer in 0..inventory.gpus.len() {
            match (gpu == peer, inventory.links_between(gpu, peer)) {
                (true, _) => write!(out, "  X")?,
                (_, 0) => write!(out, "  -")?,
                (_, links) => write!(out, " {links:>2}")?,
            }
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Writes the table of hints, one row for each GPU.
fn hints(out: &mut String, host: &Host, hints: &[GpuHint]) -> std::fmt::Result {
    if hints.is_empty() {
        return Ok(());
    }
    let label = |port: &usize| host.inventory.hca_ports[*port].label();
    let list = |ports: &[usize]| match ports.is_empty() {
        true => "-".to_owned(),
        false => ports.iter().map(label).collect::<Vec<_>>().join(","),
    };
    let rows: Vec<[String; 7]> = hints
        .iter()
        .map(|hint| {
            [
                format!("GPU{}", host.inventory.gpus[hint.gpu].index),
                list(&hint.ports),
                hint.tier.map_or("-".to_owned(), |tier| tier.to_string()),
                hint.rail.map_or("-".to_owned(), |rail| rail.to_string()),
                hint.gdr.text().to_owned(),
                list(&hint.fallbacks),
                hint.reason.text().to_owned(),
            ]
        })
        .collect();
    let heads = ["gpu", "use", "tier", "rail", "GPUDirect", "else", "why"];
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].len());
        cells.chain([heads[column].len()]).max().unwrap_or(0)
    };
    writeln!(out, "\nhints")?;
    for row in std::iter::once(heads.map(str::to_owned)).chain(rows.iter().cloned()) {
        let cells = row
            .iter()
            .enumerate()
            .map(|(column, cell)| format!("{cell:<w$}", w = width(column)));
        let line = cells.collect::<Vec<_>>().join("  ");
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}
