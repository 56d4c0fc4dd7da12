//! Tests of tag matching in hardware, as UCX decides about it.
//!
//! The rules are those of UCX 1.20 (`ucs/config/parser.c`, `rc_mlx5_iface.c`, `dc_mlx5.c`): the
//! transport's own variable overrides the one of all reliable transports, an adapter without tag
//! matching ignores both, and two ends of which only one matches tags do not reach each other.

use rsm_gdr::hosts::GpuInventory;
use rsm_gdr::inventory::{HostInventory, Tier};
use rsm_gdr::render::ucx_script;
use rsm_gdr::{Analysis, AnalysisConfig};

use super::after_all;
use super::nccl::far_port;

/// Firmware of ConnectX-4, which cannot match tags.
const CONNECT_X4: &str = "12.28.2006";
/// Firmware of ConnectX-5, which can match tags.
const CONNECT_X5: &str = "16.35.4030";
/// Firmware of ConnectX-7, which can match tags.
const CONNECT_X7: &str = "28.39.1002";

/// The variable of all reliable transports, the variable of RC, and the variable of DC.
const VARIABLES: [&str; 3] = [
    "UCX_RC_TM_ENABLE",
    "UCX_RC_MLX5_TM_ENABLE",
    "UCX_DC_MLX5_TM_ENABLE",
];

fn with_firmware(firmware: Option<&str>) -> HostInventory {
    let mut host = far_port(Tier::Pix, true);
    for port in &mut host.hca_ports {
        port.firmware = firmware.map(str::to_owned);
    }
    host
}

/// Whether RC and DC of a process match tags in hardware.
fn matches(script: &str, job: &[(&str, &str)], firmware: Option<&str>) -> [bool; 2] {
    let mut launcher = vec![("LOCAL_RANK", "0")];
    launcher.extend_from_slice(job);
    let values = after_all(script, &VARIABLES, &launcher);
    let can = !firmware.is_some_and(|firmware| firmware.starts_with("12."));
    [1, 2].map(|own| {
        let of_transport = &values[own];
        let value = match of_transport.is_empty() {
            true => &values[0],
            false => of_transport,
        };
        can && value == "y"
    })
}

/// Whether the processes of a fleet match tags, host by host.
fn fleet(firmware: &[Option<&str>], job: &[(&str, &str)]) -> Vec<[bool; 2]> {
    let mut inventory = GpuInventory::new();
    let names: Vec<String> = (0..firmware.len())
        .map(|place| format!("h{place}"))
        .collect();
    for (name, &firmware) in names.iter().zip(firmware) {
        let inserted = inventory.insert(name, with_firmware(firmware), 0);
        inserted.expect("a plain host");
    }
    let analysis = Analysis::new(&inventory, None, AnalysisConfig::default());
    let of_host = |(name, &firmware): (&String, &Option<&str>)| {
        let script = ucx_script(&analysis, name).expect("devices with names");
        matches(&script, job, firmware)
    };
    names.iter().zip(firmware).map(of_host).collect()
}

#[test]
fn with_different_adapters_no_host_matches_tags_even_if_the_job_asks_for_it() {
    for asked in VARIABLES {
        let all = fleet(&[Some(CONNECT_X4), Some(CONNECT_X7), None], &[(asked, "y")]);
        assert_eq!(all, [[false; 2]; 3], "{asked}");
    }
    assert_eq!(
        fleet(&[Some(CONNECT_X4), Some(CONNECT_X7)], &[]),
        [[false; 2]; 2]
    );
}

#[test]
fn if_all_adapters_can_match_tags_the_job_decides() {
    let alike = [Some(CONNECT_X5), Some(CONNECT_X7)];
    assert_eq!(fleet(&alike, &[]), [[false; 2]; 2]);
    assert_eq!(
        fleet(&alike, &[("UCX_RC_MLX5_TM_ENABLE", "y")]),
        [[true, false]; 2]
    );
    assert_eq!(fleet(&alike, &[("UCX_RC_TM_ENABLE", "y")]), [[true; 2]; 2]);
    // If no adapter can match tags, all hosts reach each other.
    assert_eq!(
        fleet(&[Some(CONNECT_X4); 2], &[("UCX_RC_TM_ENABLE", "y")]),
        [[false; 2]; 2]
    );
}
