//! Tests `rsm plan` as a process: measurements, comparisons, predictions and pictures.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Output};

use rsm_routing::engine::{EngineKind, Options, route};
use rsm_routing::generate::generate;
use rsm_routing::topology::Topology;
use serde_json::Value;

/// Output of `rsm plan` with these arguments.
fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rsm"));
    command.arg("plan").args(arguments).output().unwrap()
}

/// Standard output of a successful `rsm plan`, as JSON.
fn json(arguments: &[&str]) -> Value {
    let output = run(&[arguments, &["--format", "json"]].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Standard output of a successful `rsm plan`, as text.
fn text(arguments: &[&str]) -> String {
    let output = run(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn quality_is_reported_on_request() {
    let plain = json(&["superpod:su=1"]);
    assert!(plain.get("quality").is_none());
    let measured = json(&["superpod:su=1", "--quality"]);
    let quality = &measured["quality"];
    assert_eq!(quality["hosts"], 256);
    assert_eq!(quality["lost_pairs"], 0);
    assert_eq!(quality["shift"]["phases"], 255);
    // The fabric has eight rails of 32 hosts, each below its own leaf.
    assert_eq!(quality["rail_all_to_all"]["phases"], 31);
    assert_eq!(quality["rail_all_to_all"]["max"], 0);
    assert_eq!(quality["worst_links"].as_array().unwrap().len(), 10);
    let printed = text(&["superpod:su=1", "--quality"]);
    assert!(printed.contains("all-to-all risk") && printed.contains("rail all-to-all"));
}

#[test]
fn engines_are_compared_on_the_same_faults() {
    let fabric = "fat-tree:k=8,levels=2";
    let output = run(&[
        fabric,
        "--compare",
        "minhop,updn",
        "--fail",
        "links=10%,seed=7",
        "--format",
        "json",
    ]);
    let compared: Value = serde_json::from_slice(&output.stdout).unwrap();
    let engines = compared["engines"].as_array().unwrap();
    let names: Vec<_> = engines.iter().map(|engine| &engine["asked"]).collect();
    assert_eq!(names, ["minhop", "updn"]);
    for engine in engines {
        assert_eq!(engine["verify"]["unreachable_pairs"], 0);
        let spread = engine["quality"]["paths"]["max_over_mean"].as_f64();
        assert!(spread.unwrap() > 1.0);
    }
    let is_loop_free = |engine: &Value| engine["verify"]["credit_loop_free"] == true;
    assert!(is_loop_free(&engines[1]));
    assert_eq!(output.status.success(), engines.iter().all(is_loop_free));
    let intact = json(&[fabric]);
    assert!(compared["fabric"]["links"].as_u64() < intact["fabric"]["links"].as_u64());
    let refused = run(&["ring:6", "--fail", "links=7"]);
    let errors = String::from_utf8(refused.stderr).unwrap();
    assert!(
        errors.contains("7 cables between switches are to fail, and there are 6"),
        "{errors}"
    );
}

#[test]
fn tables_of_a_file_measure_as_those_of_the_engine_that_made_them() {
    let directory = tempfile::tempdir().unwrap();
    let net = directory.path().join("net.txt");
    let spec = "fat-tree:k=6,levels=3";
    let netlist = generate(spec).unwrap();
    let topology = Topology::from_netlist(&netlist).unwrap();
    let routing = route(EngineKind::UpDn, &topology, &Options::default(), None).unwrap();
    let mut dump = String::new();
    for (switch, lft) in topology.switches().iter().zip(&routing.tables.lfts) {
        writeln!(
            dump,
            "Unicast lids [0-{}] of switch Lid 0 guid {}:",
            topology.top_lid(),
            switch.guid
        )
        .unwrap();
        for destination in topology.destinations() {
            let port = lft.entry(destination.lid);
            writeln!(
                dump,
                "0x{:04x} {port:03} # Channel Adapter portguid {}: 'x'",
                destination.lid.0, destination.guid
            )
            .unwrap();
        }
    }
    let file = directory.path().join("tables.dump");
    std::fs::write(&file, dump).unwrap();
    let mut text = Vec::new();
    rsm_routing::ibnetdiscover::write(&netlist, &mut text).unwrap();
    std::fs::write(&net, text).unwrap();
    let [net, file] = [&net, &file].map(|path| path.to_str().unwrap());
    let compared = json(&[net, "--tables", file, "--compare", "updn"]);
    let engines = compared["engines"].as_array().unwrap();
    assert_eq!(engines[0]["asked"], "file");
    assert_eq!(
        engines[0]["verify"]["unreachable_pairs"], 0,
        "{}",
        engines[0]["reason"]
    );
    // rsm assigns LIDs in another order than the file, so ties are broken differently; the number
    // of hops is equal.
    assert_eq!(
        engines[0]["verify"]["average_hops"],
        engines[1]["verify"]["average_hops"]
    );
    assert_eq!(engines[0]["quality"]["hosts"], 54);
    let missing = run(&[net, "--tables", "nowhere"]);
    assert!(!missing.status.success());
    let errors = String::from_utf8(missing.stderr).unwrap();
    assert!(errors.contains("cannot read nowhere"), "{errors}");
}

#[test]
fn losses_of_named_parts_are_predicted() {
    let spec = "pgft:2;4,4;1,2;1,1";
    let whole = json(&[spec, "--quality"]);
    let link = &whole["quality"]["worst_links"][0]["from"];
    let name = format!(
        "unlink={}:{}",
        link["description"].as_str().unwrap(),
        link["port"]
    );
    let predicted = json(&[spec, "--whatif", &name]);
    assert_eq!(predicted["cut_off"].as_array().unwrap().len(), 0);
    assert_eq!(predicted["cables"].as_array().unwrap().len(), 1);
    assert!(predicted["smps"].as_u64().unwrap() > 0);
    assert!(predicted["refused"].is_null());
    // A host that the operator removes does not count as cut off; a host whose cable is removed
    // does.
    let host = json(&[spec, "--whatif", "remove=host-004 mlx5_0"]);
    assert_eq!(host["cut_off"].as_array().unwrap().len(), 0);
    let spine = json(&[spec, "--whatif", "remove=spine-01"]);
    assert_eq!(spine["cut_off"].as_array().unwrap().len(), 0);
    assert_eq!(spine["cables"].as_array().unwrap().len(), 4);
    let host = json(&[spec, "--whatif", "unlink=host-004 mlx5_0:1"]);
    assert_eq!(host["cut_off"].as_array().unwrap().len(), 1);
    let printed = text(&[spec, "--whatif", "unlink=host-004 mlx5_0:1"]);
    assert!(
        printed.contains("cut off  1 port: host-004 mlx5_0"),
        "{printed}"
    );
    for wrong in ["unlink", "burn=leaf-01:3"] {
        let refused = run(&[spec, "--whatif", wrong]);
        assert_eq!(refused.status.code(), Some(2));
        assert!(
            String::from_utf8(refused.stderr)
                .unwrap()
                .contains("unlink=NODE:PORT")
        );
    }
    let unknown = run(&[spec, "--whatif", "remove=nobody"]);
    assert!(
        String::from_utf8(unknown.stderr)
            .unwrap()
            .contains("nobody")
    );
}

#[test]
fn svg_option_writes_a_picture() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("fabric.svg");
    text(&["superpod:su=1", "--svg", file.to_str().unwrap()]);
    let picture = std::fs::read_to_string(Path::new(&file)).unwrap();
    assert!(picture.starts_with("<svg ") && picture.trim_end().ends_with("</svg>"));
    assert!(picture.contains("superpod:su=1") && picture.contains("links by load"));
}

#[test]
fn lenient_reading_leaves_out_a_node_and_names_its_line() {
    let directory = tempfile::tempdir().unwrap();
    let net = directory.path().join("net.txt");
    let mut text = Vec::new();
    rsm_routing::ibnetdiscover::write(&generate("ring:3,hosts=2").unwrap(), &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let header = text
        .lines()
        .position(|line| line.starts_with("Ca"))
        .unwrap();
    let damaged: String = text
        .lines()
        .enumerate()
        .map(|(index, line)| match index == header {
            true => line.replacen("\"H-e", "\"H-z", 1) + "\n",
            false => format!("{line}\n"),
        })
        .collect();
    std::fs::write(&net, damaged).unwrap();
    let net = net.to_str().unwrap();
    let refused = run(&[net]);
    assert!(!refused.status.success());
    let errors = String::from_utf8(refused.stderr).unwrap();
    assert!(
        errors.contains(&format!("{net}:{}: ", header + 1)),
        "{errors}"
    );
    let whole = json(&["ring:3,hosts=2"]);
    let rest = json(&[net, "--lenient"]);
    let cas = |plan: &Value| plan["fabric"]["cas"].as_u64().unwrap();
    assert_eq!(cas(&rest) + 1, cas(&whole));
    let warned = String::from_utf8(run(&[net, "--lenient"]).stderr).unwrap();
    assert!(
        warned.contains(&format!("line {}: ", header + 1)),
        "{warned}"
    );
}

#[test]
fn netlists_of_ibsim_are_planned() {
    let directory = tempfile::tempdir().unwrap();
    let net = directory.path().join("net");
    let text = "Switch 8 \"leaf\"\n[1] \"a\"[1]\n[2] \"b\"[1]\n\nHca 2 \"a\"\n[1] \"leaf\"[1]\n\nHca 2 \"b\"\n[1] \"leaf\"[2]\n";
    std::fs::write(&net, text).unwrap();
    let plan = json(&[net.to_str().unwrap()]);
    assert_eq!(plan["fabric"]["cas"], 2);
    // A port without a cable has no LID.
    assert_eq!(plan["fabric"]["lids"], 3);
    assert_eq!(plan["verify"]["unreachable_pairs"], 0);
}

#[test]
fn adaptive_routing_groups_are_planned_and_proved_without_a_switch() {
    let fabric = "fat-tree:k=8,levels=3";
    let planned = json(&[fabric, "--adaptive", "--quality"]);
    let adaptive = &planned["adaptive"];
    assert_eq!(adaptive["leaves"], 32);
    assert_eq!(adaptive["groups"], 32);
    assert_eq!(adaptive["fixed_entries"], 0);
    let verify = &adaptive["verify"];
    assert_eq!(
        verify["reachable_pairs"],
        planned["verify"]["reachable_pairs"]
    );
    assert_eq!(verify["unreachable_pairs"], 0);
    assert_eq!(verify["absent_groups"], 0);
    assert_eq!(
        (&verify["loop_free"], &verify["credit_loop_free"]),
        (&true.into(), &true.into())
    );
    assert_eq!(verify["max_hops"], 4);
    let shift = &adaptive["quality"]["shift"];
    assert_eq!(
        (&shift["fixed"], &shift["badly"]),
        (&1.0.into(), &16.0.into())
    );
    assert!(json(&[fabric]).get("adaptive").is_none());

    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("groups");
    json(&[
        fabric,
        "--adaptive",
        "--adaptive-file",
        file.to_str().unwrap(),
    ]);
    let groups = std::fs::read_to_string(&file).unwrap();
    assert_eq!(groups.matches("Switch 0x").count(), 80);
    // A leaf reaches remote hosts over any of four spines, and its own four hosts directly.
    assert!(groups.contains("\n0x0002 : 005 006 007 008\n"), "{groups}");

    // A broken link causes far fewer writes than empty switches, and changes the groups of few
    // leaves.
    let broken = json(&[fabric, "--adaptive", "--fail", "links=1,seed=3"]);
    let (first, fault) = (&adaptive["writes"], &broken["adaptive"]["writes"]);
    assert_eq!(
        (&first["after_faults"], &fault["after_faults"]),
        (&false.into(), &true.into())
    );
    let blocks = |writes: &Value| writes["group_blocks"].as_u64().unwrap();
    assert!(
        blocks(fault) > 0 && blocks(fault) * 4 < blocks(first),
        "{first} {fault}"
    );
    assert_eq!(broken["adaptive"]["verify"]["unreachable_pairs"], 0);

    // The table has room for fewer groups than there are leaves.
    let few = json(&[fabric, "--adaptive", "--adaptive-groups", "9"]);
    assert_eq!(few["adaptive"]["groups"], 8);
    assert_eq!(few["adaptive"]["verify"]["unreachable_pairs"], 0);
    assert!(few["adaptive"]["fixed_entries"].as_u64() > Some(0));

    let printed = text(&[fabric, "--adaptive", "--quality"]);
    assert!(printed.contains("32 groups for 32 leaves"), "{printed}");
    assert!(printed.contains("chosen badly"), "{printed}");
    for (fabric, engine, why) in [
        (
            "ring:6",
            "minhop",
            "minhop follows no order of the switches",
        ),
        (
            "random:switches=60,degree=6,hosts=4",
            "nue",
            "nue takes longer routes than the shortest",
        ),
    ] {
        let refused = run(&[fabric, "--engine", engine, "--adaptive"]);
        let errors = String::from_utf8(refused.stderr).unwrap();
        assert!(!refused.status.success());
        assert!(errors.contains(why), "{errors}");
    }
}
