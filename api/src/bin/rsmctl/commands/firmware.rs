use clap::Args;
use rsm_api::firmware::{FirmwareGroup, groups};
use rsm_proto::v1;

use crate::failure::Failure;
use crate::session::{Session, all_pages};
use crate::table::Rows;
use crate::text::{count, or_none};

/// The maximum number of node names in a row; `--all` prints all nodes.
const MAX_NAMES: usize = 4;

/// Which firmware is where, by type of device, and which nodes differ from most of their type
#[derive(Debug, Args)]
#[command(
    after_help = "rsm asks NVIDIA devices for GeneralInfo (class 0x0A), an hour apart, while it reads counters\n(`counters.enabled`). A device that does not answer, and one of another vendor, has the reason in its\nrow.\n\nExamples:\n  rsmctl firmware\n  rsmctl firmware --all --sort VERSION\n  rsmctl firmware --format json | jq '.[] | select(.version == \"\")'"
)]
pub(crate) struct FirmwareArguments {
    /// Each node by itself
    #[arg(long)]
    all: bool,
}

pub(crate) async fn run(
    arguments: FirmwareArguments,
    session: &mut Session,
) -> Result<(), Failure> {
    let request = v1::ListDeviceFirmwareRequest::default();
    let nodes = all_pages(request, async |request| {
        session.counters().list_device_firmware(request).await
    })
    .await?;
    if session.output.is_json() {
        return session.output.json_list(nodes);
    }
    let groups = groups(&nodes);
    session.output.line(&summary(&groups))?;
    session.output.only_table(match arguments.all {
        true => of_nodes(&groups),
        false => of_types(&groups),
    })
}

/// The line `1024 nodes: 2 differ from most of their type, 3 are not known`, with the number of
/// nodes that are the only ones of their type, if there are any.
fn summary(groups: &[FirmwareGroup<'_>]) -> String {
    let sum = |is_meant: &dyn Fn(&FirmwareGroup<'_>) -> bool| -> u64 {
        let meant = groups.iter().filter(|group| is_meant(group));
        meant.map(|group| group.nodes.len() as u64).sum()
    };
    let lone = match groups.iter().filter(|group| group.lone).count() {
        0 => String::new(),
        1 => ", 1 is the only one of its type".to_owned(),
        more => format!(", {more} are the only ones of their types"),
    };
    format!(
        "{}: {} from most of their type, {} not known{lone}",
        count(sum(&|_| true), "node", "nodes"),
        count(sum(&|group| group.differs), "differs", "differ"),
        count(sum(&|group| group.version.is_empty()), "is", "are")
    )
}

/// The text about a group in the column STATE.
fn remark(group: &FirmwareGroup<'_>) -> String {
    match (group.differs, group.reason) {
        (true, _) => "DIFFERS from most".to_owned(),
        (false, "") if group.lone => "ALONE of its type".to_owned(),
        (false, "") => "usual".to_owned(),
        (false, reason) => format!("not known: {reason}"),
    }
}

/// The table with a row for each group.
fn of_types(groups: &[FirmwareGroup<'_>]) -> Rows {
    let mut rows = Rows::new(&["TYPE", "VERSION", ">NODES", "STATE", "WHICH", "+PSID"]);
    for group in groups {
        let names = group.nodes.iter().take(MAX_NAMES);
        let mut names: Vec<String> = names.map(|node| node.description.clone()).collect();
        if let Some(more @ 1..) = group.nodes.len().checked_sub(MAX_NAMES) {
            names.push(format!("and {more} more"));
        }
        rows.add([
            group.device.to_owned(),
            or_none(group.version),
            group.nodes.len().to_string(),
            remark(group),
            names.join(", "),
            or_none(group.psid),
        ]);
    }
    rows
}

/// The table with a row for each node.
fn of_nodes(groups: &[FirmwareGroup<'_>]) -> Rows {
    let mut rows = Rows::new(&["NODE", "TYPE", "VERSION", "STATE", "+PSID", "+GUID"]);
    for group in groups {
        for node in &group.nodes {
            rows.add([
                node.description.clone(),
                group.device.to_owned(),
                or_none(group.version),
                remark(group),
                or_none(group.psid),
                node.node_guid.clone(),
            ]);
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_without_an_answer_has_the_reason_in_its_row() {
        let node = |name: &str, version: &str, reason: &str| v1::DeviceFirmware {
            description: name.to_owned(),
            device: "ConnectX-7".to_owned(),
            version: version.to_owned(),
            reason: reason.to_owned(),
            ..v1::DeviceFirmware::default()
        };
        let nodes = [
            node("host-1 mlx5_0", "28.39.1002", ""),
            node("host-2 mlx5_0", "28.39.1002", ""),
            node("host-3 mlx5_0", "28.38.1002", ""),
            node("host-4 mlx5_0", "", "it does not answer"),
        ];
        let groups = groups(&nodes);
        let expected = "4 nodes: 1 differs from most of their type, 1 is not known";
        assert_eq!(summary(&groups), expected);
        let lines = of_types(&groups).laid_out(120).lines;
        assert_eq!(lines.len(), 4, "{lines:#?}");
        for (row, parts) in [
            (1, ["usual", "host-1 mlx5_0, host-2 mlx5_0"]),
            (2, ["DIFFERS from most", "host-3 mlx5_0"]),
            (3, ["not known: it does not answer", "host-4 mlx5_0"]),
        ] {
            for part in parts {
                assert!(lines[row].contains(part), "{lines:#?}");
            }
        }
    }

    #[test]
    fn the_only_node_of_its_type_in_a_large_fabric_is_named() {
        let node = |at: usize| v1::DeviceFirmware {
            description: format!("leaf-{at}"),
            device: if at == 7 { "Quantum" } else { "Quantum-2" }.to_owned(),
            version: if at == 7 { "27.2010.1" } else { "31.2012.1" }.to_owned(),
            ..v1::DeviceFirmware::default()
        };
        let nodes: Vec<v1::DeviceFirmware> = (0..12).map(node).collect();
        let all = groups(&nodes);
        let expected = "12 nodes: 0 differ from most of their type, 0 are not known, 1 is the only one of its type";
        assert_eq!(summary(&all), expected);
        let lines = of_types(&all).laid_out(120).lines;
        let lone = lines.iter().find(|line| line.contains("ALONE of its type"));
        assert!(
            lone.is_some_and(|line| line.contains("leaf-7")),
            "{lines:#?}"
        );
        let few = groups(&nodes[6..9]);
        assert!(
            few.iter().all(|group| !group.lone),
            "a small fabric has each device once"
        );
    }
}
