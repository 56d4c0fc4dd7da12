//! Compares how well the engines of rsm and of OpenSM spread traffic on the same fabrics, and how
//! long they take. Prints Markdown.
//!
//! `cargo bench -p rsm-tests --bench quality [-- [--net FILE | --spec SPEC] [--fabric PART]
//! [--faults PART] [--only ENGINE] [--limit SECONDS] [--rounds N] [--dumps DIRECTORY]]`. Without
//! `--net` and `--spec`, the bench uses every real fabric of the collection with over 100 hosts
//! that ibsim loads, a fat tree of 3,456 hosts, irregular fabrics, and fabrics that are not trees;
//! each intact and broken. `--fabric` and `--faults` select the fabrics and faults whose names
//! contain the part. OpenSM routes on ibsim, and the code that measures rsm's tables also measures
//! OpenSM's dump. OpenSM's time comes from its log: it lasts from the start of routing until the
//! tables go to the sender. rsm's time is the median of the rounds. On fabrics of up to
//! [`contest::IBDMCHK_HOSTS`] hosts ibdmchk also checks the tables of every contender for lost
//! pairs and credit loops; the bench ends with an error if ibdmchk contradicts the proof.
//!
//! Loads of patterns and the bisection are by rate (`rsm_routing::quality`). On fabrics whose
//! cables differ in speed, an even split loads slow cables more, although it looks better by
//! numbers of flows.
//!
//! The bench stops OpenSM after `--limit` seconds. It does not try an engine that was stopped on
//! the intact fabric on its broken versions, and the table says so. With `--dumps`, a run keeps
//! OpenSM's tables in a directory, and a later run reads them: the tables are the same every time,
//! and take most of the time.

mod contest;
mod foreign;
mod row;
mod summary;

#[path = "../options/mod.rs"]
mod options;

use std::io::Write;

use rsm_routing::netlist::{Netlist, NodeKind};
use rsm_routing::topology::Topology;
use rsm_routing::{generate, ibnetdiscover};
use rsm_tests::fabrics;
use serde_json::json;

use contest::Contest;
use foreign::OpenSmRunner;
use options::Options;
use row::Row;

type AnyError = Box<dyn std::error::Error>;

/// The generated fabrics of the comparison: regular, oversubscribed and irregular trees (hosts on
/// spines and on middle switches, leaves with fewer hosts, cables of different speeds), and fabrics
/// that are not trees.
const SPECS: [&str; 25] = [
    "fat-tree:k=24,levels=3",
    "superpod:su=4",
    "superpod:su=4,management=1",
    "pgft:2;18,24;1,6;1,2",
    "pgft:2;18,24;1,12;1,1",
    "pgft:2;12,9;1,6;1,1,management=2",
    "pgft:2;20,12;1,10;1,1,hosts-on-spines=5x2",
    "pgft:2;20,12;1,10;1,1,hosts-on-spines=20x1",
    "pgft:3;20,7,8;1,10,7;1,2,2,hosts-on-spines=5x1",
    "pgft:2;18,24;1,12;1,1,uneven=60",
    "pgft:3;6,6,6;1,6,3;1,1,2,uneven=50,management=3",
    "pgft:2;18,24;1,12;1,1,slow=50",
    "pgft:2;18,18;1,18;1,1,slow=40",
    "pgft:3;6,6,6;1,6,6;1,1,1,slow=40",
    "pgft:2;18,24;1,6;1,2,narrow=3",
    "random:switches=60,degree=6,hosts=4",
    "random:switches=200,degree=8,hosts=4",
    "xpander:degree=8,size=6,hosts=4",
    "slim-fly:5,hosts=4",
    "dragonfly:groups=9,switches=4,hosts=4",
    "dragonfly+:groups=6,leaves=4,spines=4,hosts=4,links=2",
    "torus:6x6x6",
    "mesh:4x4x4",
    "mesh:2x2x2x2x2x2",
    "hyperx:4x4x4,hosts=2",
];

/// Real fabrics with at most this number of hosts are left out, because they show no differences.
const HOSTS: usize = 100;

/// The files of the collection that are left out, because ibsim does not load them or because they
/// are duplicates of another file.
const LEFT_OUT: [&str; 2] = ["superbench-faked-hdr-full.txt", "nvidia-dgx-ndr-p1.txt"];

/// The faults, each with its title and its specification. The first fault breaks nothing.
const FAULTS: [(&str, &str); 5] = [
    ("intact", ""),
    ("1 link", "links=1,seed=1"),
    ("1 switch", "switches=1,seed=1"),
    ("1 % of links", "links=1%,seed=1"),
    ("5 % of links", "links=5%,seed=1"),
];

/// The time limit for OpenSM in seconds, without `--limit`.
const LIMIT_S: u64 = 240;

fn main() -> Result<(), AnyError> {
    let options = Options::from_arguments(5)?;
    let mut out = std::io::stdout();
    let mut rows: Vec<(String, Vec<Row>)> = Vec::new();
    for (name, netlist) in fabrics(&options)? {
        let intact = numbered(&netlist)?;
        let intact_topology = Topology::from_netlist(&intact)?;
        let mut opensm = OpenSmRunner::new(&options, LIMIT_S)?;
        for (title, faults) in FAULTS {
            if !options.has_faults(title) {
                continue;
            }
            let broken = match faults {
                "" => intact.clone(),
                faults => generate::fail(intact.clone(), faults)?,
            };
            let contest = Contest {
                options: &options,
                intact_topology: &intact_topology,
                case: format!("{name}, {title}"),
                netlist: &broken,
            };
            let new_rows = contest.rows(&mut opensm)?;
            writeln!(out, "\n## {}\n\n{}", contest.case, row::HEADING)?;
            for row in &new_rows {
                writeln!(out, "{row}")?;
            }
            out.flush()?;
            rows.push((contest.case, new_rows));
        }
    }
    summary::write(&mut out, &rows)?;
    let json_rows = rows
        .iter()
        .flat_map(|(case, rows)| rows.iter().map(|row| row.json(case)));
    let line = json!({ "bench": "quality", "rows": json_rows.collect::<Vec<_>>() });
    writeln!(out, "\n<!-- {line} -->")?;
    let contradictions = rows.iter().flat_map(|(case, rows)| {
        let contradictions = rows.iter().filter(|row| row.is_contradicted());
        contradictions.map(move |row| format!("{case}: {}", row.engine))
    });
    let contradictions: Vec<String> = contradictions.collect();
    if contradictions.is_empty() {
        return Ok(());
    }
    Err(format!(
        "ibdmchk contradicts the proof: {}",
        contradictions.join("; ")
    )
    .into())
}

/// The fabrics of the comparison, each with its name.
fn fabrics(options: &Options) -> Result<Vec<(String, Netlist)>, AnyError> {
    if let Some(spec) = options.given_spec() {
        return Ok(vec![(spec.to_owned(), generate::generate(spec)?)]);
    }
    let files = match options.file() {
        Some(file) => vec![file.to_owned()],
        None => fabrics::real_topologies()?,
    };
    let mut fabrics = Vec::new();
    for file in &files {
        let name = file
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let netlist = ibnetdiscover::parse(&std::fs::read(file)?, &name)?.netlist;
        let hosts = netlist
            .nodes()
            .iter()
            .filter(|node| node.kind == NodeKind::Ca && !node.is_aggregation_node());
        if options.file().is_some() || (hosts.count() > HOSTS && !LEFT_OUT.contains(&name.as_str()))
        {
            fabrics.push((name, netlist));
        }
    }
    if options.file().is_none() {
        for spec in SPECS {
            fabrics.push((spec.to_owned(), generate::generate(spec)?));
        }
    }
    fabrics.retain(|(name, _)| options.has_fabric(name));
    Ok(fabrics)
}

/// The fabric with the same identifiers for all contenders, broken or not. Ports have the GUIDs
/// that ibsim assigns despite the file, unless two ports would share a GUID, and every port has a
/// LID.
fn numbered(netlist: &Netlist) -> Result<Netlist, AnyError> {
    Ok(fabrics::with_lids(fabrics::as_ibsim_numbers(netlist))?)
}
