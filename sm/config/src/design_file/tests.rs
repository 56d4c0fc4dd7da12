use proptest::prelude::*;

use super::*;

fn read(text: &str) -> (Vec<String>, Vec<String>) {
    let (design, findings) = parse_design(Path::new("design.csv"), text);
    let cables = design.cables.iter().map(|cable| {
        let [a, b] = cable.ends.each_ref().map(|end| {
            let port = end
                .port
                .map_or_else(|| "*".to_owned(), |port| port.to_string());
            format!("{}:{port}", end.node)
        });
        format!("{} {a} {b}", cable.line)
    });
    let findings = findings.iter().map(ToString::to_string);
    (cables.collect(), findings.collect())
}

#[test]
fn cabling_files_of_other_programs_are_read() {
    let ndt = "rack #,U height,#Fields:StartDevice,StartPort,StartDeviceLocation,EndDevice,EndPort,LinkType,State\n\
               ,,leaf-01,Port 21,A,spine-01,Port 3,Data,Active\n\
               ,,leaf-01,Port 22,A,pdu-1,Port 1,Power,Active\n\
               ,,leaf-01,Port 23,A,,,Data,Disabled\n";
    let (cables, findings) = read(ndt);
    assert_eq!(cables, ["2 leaf-01:21 spine-01:3"]);
    assert_eq!(
        findings,
        [
            "design.csv:3:1: note: 2 lines of other links, or of ports without another end: they are left out"
        ]
    );
    let tool = "A-Node Name;A-Type;A-Port;Z-Node Name;Z-Type;Z-Port\nhost-1;Host;mlx5_0/P1;leaf-01;Switch;P7\n\
                host-2;Host;mlx5_1;leaf-01;Switch;p8\n";
    let (cables, findings) = read(tool);
    assert_eq!(findings, [] as [String; 0]);
    assert_eq!(
        cables,
        ["2 host-1 mlx5_0:1 leaf-01:7", "3 host-2 mlx5_1:1 leaf-01:8"]
    );
    let links = "source_port_node_description\tsource_port\tdestination_port_node_description\tdestination_port\n\
                 leaf-01\t1\tspine-01\t2\nspine-01\t2\tleaf-01\t1\n";
    let (cables, findings) = read(links);
    assert_eq!((cables.len(), findings.len()), (1, 0), "{findings:?}");
    let hub = "SRC_NAME,SRC_HCA_PORT,DST_NAME,DST_PORT,Protocol\na,1,b,2,ib\na,2,b,3,ethernet\n";
    assert_eq!(read(hub).0, ["2 a:1 b:2"]);
}

#[test]
fn byte_order_marks_carriage_returns_quotes_and_comments_are_read() {
    let text = "\u{feff}# the hall; see \"A; B; C; D\r\n\r\n\"Start Device\", Start Port ,EndDevice,\"EndPort\",Remark\r\n\
                \"MF0;leaf, \"\"A\"\":MQM9700/U1\" ,1, spine-01 , Port 2,\"two\r\nlines\"\r\n\
                # leaf-02,1,spine-01,3,\r\n,,,,\r\n\
                leaf-02,*,host-*,1,";
    let (cables, findings) = read(text);
    assert_eq!(findings, [] as [String; 0]);
    assert_eq!(
        cables,
        [
            "4 MF0;leaf, \"A\":MQM9700/U1:1 spine-01:2",
            "8 leaf-02:* host-*:1"
        ]
    );
}

#[test]
fn every_mistake_is_reported_with_its_line_and_the_expected_form() {
    const HEAD: &str = "StartDevice,StartPort,EndDevice,EndPort\n";
    for (rows, expected) in [
        (
            "a,1,b\n",
            "design.csv:2:1: error: 3 fields: field 4: expected the number of a port",
        ),
        (
            "a,1,,2\n",
            "design.csv:2:5: error: ``: expected the name of a node",
        ),
        (
            "a,0,b,2\n",
            "design.csv:2:3: error: `0`: expected the number of a port, 1 to 254",
        ),
        (
            "a,1,b,255\n",
            "design.csv:2:7: error: `255`: expected the number of a port",
        ),
        (
            "a,1/2,b,2\n",
            "design.csv:2:3: error: `1/2`: expected the number of a port",
        ),
        (
            "a,+1,b,2\n",
            "design.csv:2:3: error: `+1`: expected the number of a port",
        ),
        (
            "a,*,b,*\n",
            "design.csv:2:1: error: `a` port * to `b` port *: expected the number of a port at one end",
        ),
        (
            "a,1,a,1\n",
            "design.csv:2:1: error: `a` port 1 to `a` port 1: expected two different ports",
        ),
        (
            "a,1,b,2\nc,3,a,1\n",
            "design.csv:3:1: error: `c` port 3 to `a` port 1: line 2 cables `a` port 1 to `b` port 2",
        ),
        (
            "a,1,b,2\na,1,b,2\n",
            "design.csv:3:1: warning: `a` port 1 to `b` port 2: line 2 has the same cable",
        ),
        (
            "\"a,1,b,2\nc,1,d,2\n",
            "design.csv:2:1: error: `\"a,1,b,2`: expected a closing double quote",
        ),
        (
            "\"a\"b,1,c,2\n",
            "design.csv:2:4: error: `b,1,c,2`: expected `,` or the end of the line behind a closed quote",
        ),
    ] {
        let (_, findings) = read(&format!("{HEAD}{rows}"));
        assert!(
            findings.iter().any(|one| one.starts_with(expected)),
            "{rows:?}: {findings:?}"
        );
    }
    // An invalid line does not change the line numbers of valid lines.
    let (cables, findings) = read(&format!("{HEAD}a,x,b,2\nc,1,d,2\n"));
    assert_eq!((cables, findings.len()), (vec!["3 c:1 d:2".to_owned()], 1));
}

#[test]
fn files_without_required_columns_are_refused_at_their_first_line() {
    let (_, findings) = read("leaf-01,1,spine-01,2\n");
    assert_eq!(
        findings,
        [
            "design.csv:1:1: error: `leaf-01,1,spine-01,2` has no column like `startdevice`: expected a line of column \
          names with node and port of both ends, such as `StartDevice,StartPort,EndDevice,EndPort`"
        ]
    );
    let (_, findings) = read("# cabling\nStartDevice,StartPort,EndDevice\na,1,b\n");
    assert!(
        findings[0].starts_with("design.csv:2:1: error: "),
        "{findings:?}"
    );
    assert!(
        findings[0].contains("no column like `endport`"),
        "{findings:?}"
    );
    let (_, findings) = read("StartDevice,StartPort,EndDevice,EndPort,Source Node\n");
    assert!(
        findings[0].contains("`Source Node` is the second column like `startdevice`"),
        "{findings:?}"
    );
    for empty in [
        "",
        "\u{feff}",
        "\n\n",
        "StartDevice,StartPort,EndDevice,EndPort\n",
    ] {
        let (cables, findings) = read(empty);
        assert!(
            cables.is_empty() && findings.len() == 1,
            "{empty:?}: {findings:?}"
        );
        assert!(findings[0].contains("warning: no cable"), "{findings:?}");
    }
}

proptest! {
    #[test]
    fn any_text_yields_cables_or_findings(text in "(StartDevice,StartPort,EndDevice,EndPort\n)?[a,\"\n\r;\t *1é#]{0,60}") {
        let (design, findings) = parse_design(Path::new("design.csv"), &text);
        prop_assert!(!design.cables.is_empty() || !findings.is_empty());
        for finding in findings {
            prop_assert!(finding.line >= 1 && finding.line <= text.matches('\n').count() + 1);
        }
    }

    #[test]
    fn quoted_names_are_read_back_unchanged(names in prop::collection::vec("[a-z,;\" ()é]{1,12}", 2)) {
        let names: Vec<&str> = names.iter().map(|name| name.trim()).collect();
        prop_assume!(names.iter().all(|name| !name.is_empty()));
        let quoted: Vec<String> = names.iter().map(|name| format!("\"{}\"", name.replace('"', "\"\""))).collect();
        let text = format!("StartDevice,StartPort,EndDevice,EndPort\n{},Port 1,{},Port 2\n", quoted[0], quoted[1]);
        let (cables, findings) = read(&text);
        prop_assert_eq!(findings, [] as [String; 0]);
        prop_assert_eq!(&cables, &[format!("2 {}:1 {}:2", names[0], names[1])]);
    }
}
