//! Tests of importers with unusual, broken and hostile files.

mod amd;
mod matrix;
mod nccl;
mod sysfs;

use proptest::prelude::*;
use rsm_gdr::import::{ImportError, ImportReason, InventoryFormat, MAX_BYTES, import};
use rsm_gdr::inventory::{HostInventory, InventoryError, Tier};

use amd::ROCM;
use matrix::MATRIX;
use nccl::TOPOLOGY;
use sysfs::SYSFS;

/// The inventory in `text`, which must be valid.
pub(crate) fn read(format: InventoryFormat, text: &str) -> HostInventory {
    import(format, text.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The error for `text`, which must not be valid.
pub(crate) fn refused(format: InventoryFormat, text: &str) -> ImportError {
    import(format, text.as_bytes()).expect_err(text)
}

#[test]
fn formats_are_detected_by_content() {
    let cases = [
        (MATRIX, InventoryFormat::NvidiaSmi),
        (ROCM, InventoryFormat::AmdSmi),
        (TOPOLOGY, InventoryFormat::NcclXml),
        ("<?xml version=\"1.0\"?><topology/>", InventoryFormat::Hwloc),
        (SYSFS, InventoryFormat::Sysfs),
        ("{\"version\": 1}", InventoryFormat::Json),
    ];
    for (text, format) in cases {
        assert_eq!(InventoryFormat::detect(text.as_bytes()), format, "{text}");
    }
}

#[test]
fn json_with_unknown_or_invalid_members_is_refused() {
    let text = r#"{"version":1,"gpus":[{"index":0}],"hca_ports":[{"device":"mlx5_0","port":1}],"tiers":[["PIX"]]}"#;
    assert_eq!(
        read(InventoryFormat::Json, text).tier(0, 0),
        Some(Tier::Pix)
    );
    for (from, to, reason) in [
        ("\"version\":1", "\"version\":2", "version 2: expected 1"),
        (
            "\"tiers\"",
            "\"teirs\"",
            "beside host.teirs, which is not known",
        ),
        ("[[\"PIX\"]]", "[]", "a row for each GPU"),
        ("[[\"PIX\"]]", "[[\"NEAR\"]]", "`NEAR` as a PCIe tier"),
        ("\"port\":1", "\"port\":0", "port number 0"),
        ("mlx5_0", "mlx5 0", "name `mlx5 0`"),
    ] {
        let error = refused(InventoryFormat::Json, &text.replacen(from, to, 1));
        assert!(error.to_string().contains(reason), "{error}");
    }
    let links = r#","links":{"family":"NVLink","pairs":[[0,1,4]]}}"#;
    let error = refused(
        InventoryFormat::Json,
        &text.replacen("]]}", &format!("]]{links}"), 1),
    );
    assert!(error.to_string().contains("ends of a link"), "{error}");
}

#[test]
fn files_beyond_every_bound_are_refused() {
    let long = vec![b' '; MAX_BYTES + 1];
    for format in InventoryFormat::ALL {
        assert!(matches!(
            import(format, &long),
            Err(ImportError {
                reason: ImportReason::TooLong(_),
                ..
            })
        ));
        let error = import(format, b"ok\n\xff").expect_err("not text");
        assert_eq!((error.line, error.reason), (2, ImportReason::NotUtf8));
        assert_eq!(format.name().parse(), Ok(format));
    }
    let columns: String = (0..200).map(|gpu| format!(" GPU{gpu}")).collect();
    assert!(matches!(
        refused(InventoryFormat::NvidiaSmi, &columns).reason,
        ImportReason::TooMany { .. }
    ));
    let empty = refused(InventoryFormat::Json, r#"{"version":1}"#);
    assert_eq!(empty.reason, ImportReason::Inventory(InventoryError::Empty));
}

proptest! {
    #[test]
    fn no_bytes_make_an_importer_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        for format in InventoryFormat::ALL {
            if let Ok(host) = import(format, &bytes) {
                prop_assert!(host.check().is_ok());
            }
        }
    }

    #[test]
    fn no_damage_to_a_file_makes_an_importer_panic(
        which in 0..3usize,
        cuts in prop::collection::vec((any::<prop::sample::Index>(), 0..12usize, ".{0,6}"), 1..6),
    ) {
        let (format, text) = [
            (InventoryFormat::NvidiaSmi, MATRIX),
            (InventoryFormat::NcclXml, TOPOLOGY),
            (InventoryFormat::Sysfs, SYSFS),
        ][which];
        let mut chars: Vec<char> = text.chars().collect();
        for (at, length, new) in cuts {
            let start = at.index(chars.len());
            let end = (start + length).min(chars.len());
            chars.splice(start..end, new.chars());
            if chars.is_empty() {
                break;
            }
        }
        let damaged: String = chars.into_iter().collect();
        if let Ok(host) = import(format, damaged.as_bytes()) {
            prop_assert!(host.check().is_ok());
        }
    }
}
