//! How well rsm's engines and OpenSM's spread traffic, and how long they take, on the same fabrics:
//! Markdown.
//!
//! `cargo bench -p rsm-tests --bench quality [-- [--net FILE | --spec SPEC] [--fabric PART]
//! [--faults PART] [--only ENGINE] [--limit SECONDS] [--rounds N] [--dumps DIRECTORY]]`. Without a
//! fabric: every real one of the collection with over 100 hosts that ibsim loads, a fat tree of
//! 3,456 hosts, irregular fabrics and such that are no trees; each intact and broken. `--fabric` and
//! `--faults` take those alone whose name contains the part. OpenSM routes on ibsim, and the code that measures rsm's
//! tables also measures its dump. OpenSM's time is from its log, from the start of routing until its
//! tables go to the sender; rsm's is the median of some rounds. On fabrics of up to
//! [`contest::IBDMCHK_HOSTS`] hosts ibdmchk checks the tables of every contender for lost pairs and
//! credit loops as well; the bench ends with an error where it contradicts the proof.
//!
//! Loads of patterns and the bisection are by rate (`rsm_routing::quality`): on fabrics whose cables
//! differ in speed, an even split would load slow cables more and look better by numbers of flows.
//!
//! The bench stops OpenSM after `--limit` seconds, and does not try an engine stopped on the intact
//! fabric on the broken ones; the table notes it. With `--dumps` a run keeps OpenSM's tables in a
//! directory, and a later run reads them: they are the same every time, and take most of the time.

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
use foreign::Foreign;
use options::Options;
use row::Row;

type AnyError = Box<dyn std::error::Error>;

/// The fabrics of the comparison beside real ones: a textbook's, oversubscribed and irregular trees
/// (hosts on spines and on middle switches, leaves with fewer hosts, cables of different speeds),
/// and fabrics that are no trees.
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

/// Real fabrics with fewer hosts show no differences.
const HOSTS: usize = 100;

/// Files of the collection that ibsim does not load, or duplicates of one that it loads.
const LEFT_OUT: [&str; 2] = ["superbench-faked-hdr-full.txt", "nvidia-dgx-ndr-p1.txt"];

/// The faults; the first breaks nothing.
const FAULTS: [(&str, &str); 5] = [
    ("intact", ""),
    ("1 link", "links=1,seed=1"),
    ("1 switch", "switches=1,seed=1"),
    ("1 % of links", "links=1%,seed=1"),
    ("5 % of links", "links=5%,seed=1"),
];

/// Longest OpenSM may take unless `--limit` says otherwise.
const LIMIT_S: u64 = 240;

fn main() -> Result<(), AnyError> {
    let options = Options::from_arguments(5)?;
    let mut out = std::io::stdout();
    let mut rows: Vec<(String, Vec<Row>)> = Vec::new();
    for (name, netlist) in fabrics(&options)? {
        let intact = numbered(&netlist)?;
        let known = Topology::from_netlist(&intact)?;
        let mut foreign = Foreign::new(&options, LIMIT_S)?;
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
                known: &known,
                case: format!("{name}, {title}"),
                netlist: &broken,
            };
            let found = contest.rows(&mut foreign)?;
            writeln!(out, "\n## {}\n\n{}", contest.case, row::HEADING)?;
            for row in &found {
                writeln!(out, "{row}")?;
            }
            out.flush()?;
            rows.push((contest.case, found));
        }
    }
    summary::write(&mut out, &rows)?;
    let all = rows
        .iter()
        .flat_map(|(case, rows)| rows.iter().map(|row| row.json(case)));
    let line = json!({ "bench": "quality", "rows": all.collect::<Vec<_>>() });
    writeln!(out, "\n<!-- {line} -->")?;
    let contradicted = rows.iter().flat_map(|(case, rows)| {
        let contradicted = rows.iter().filter(|row| row.is_contradicted());
        contradicted.map(move |row| format!("{case}: {}", row.engine))
    });
    let contradicted: Vec<String> = contradicted.collect();
    if contradicted.is_empty() {
        return Ok(());
    }
    Err(format!("ibdmchk contradicts the proof: {}", contradicted.join("; ")).into())
}

/// The fabrics to compare on, by name.
fn fabrics(options: &Options) -> Result<Vec<(String, Netlist)>, AnyError> {
    if let Some(spec) = options.given_spec() {
        return Ok(vec![(spec.to_owned(), generate::generate(spec)?)]);
    }
    let files = match options.file() {
        Some(file) => vec![file.to_owned()],
        None => fabrics::real_topologies()?,
    };
    let mut found = Vec::new();
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
            found.push((name, netlist));
        }
    }
    if options.file().is_none() {
        for spec in SPECS {
            found.push((spec.to_owned(), generate::generate(spec)?));
        }
    }
    found.retain(|(name, _)| options.has_fabric(name));
    Ok(found)
}

/// The fabric with the same numbers for all contenders, broken or not: the port GUIDs that ibsim
/// assigns against the file, unless two ports would share one, and a LID for every port.
fn numbered(netlist: &Netlist) -> Result<Netlist, AnyError> {
    Ok(fabrics::with_lids(fabrics::as_ibsim_numbers(netlist))?)
}
