//! A specification that describes no fabric is refused with a position and a reason.

use proptest::prelude::*;

use crate::generate::generate;

/// The error for a specification.
fn message(spec: &str) -> String {
    match generate(spec) {
        Ok(netlist) => panic!("was generated: {} nodes", netlist.nodes().len()),
        Err(error) => error.to_string(),
    }
}

#[test]
fn refused_specifications_name_position_and_reason() {
    let cases = [
        (
            "clos",
            "`clos`, character 1: there is no generator `clos`, expected superpod, pgft, fat-tree, torus, mesh, hyperx, slim-fly, ring, dragonfly, dragonfly+, random, xpander",
        ),
        (
            "superpod:su=65",
            "`superpod:su=65`, character 13: `su` is 65, expected 1 to 64",
        ),
        (
            "superpod:su=four",
            "`superpod:su=four`, character 13: `four` cannot be understood, expected a number, 1 to 64",
        ),
        (
            "superpod:4",
            "`superpod:4`, character 10: `4` cannot be understood, expected an option out of su, hosts-on-spines, management, uneven, slow, narrow, speed, faults",
        ),
        (
            "superpod,4",
            "`superpod,4`, character 10: `4` cannot be understood, expected an option like `speed=HDR`",
        ),
        (
            "superpod:su=4,su=5",
            "`superpod:su=4,su=5`, character 15: `su` is given twice, expected each option once",
        ),
        (
            "ring:6,size=3",
            "`ring:6,size=3`, character 8: there is no option `size` here, expected an option out of hosts, hosts-on-spines, management, uneven, slow, narrow, speed, faults",
        ),
        (
            "ring",
            "`ring`, character 5: the ring's size is missing, expected a number of switches",
        ),
        (
            "ring:2",
            "`ring:2`, character 6: `size` is 2, expected 3 to 49151",
        ),
        (
            "ring:6,speed=fast",
            "`ring:6,speed=fast`, character 14: `fast` cannot be understood, expected SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR, XDR",
        ),
        (
            "torus:4x4x",
            "`torus:4x4x`, character 11: `` cannot be understood, expected a number, 1 to 49151",
        ),
        (
            "torus:1x1x1x1x1x1x1",
            "`torus:1x1x1x1x1x1x1`, character 7: the number of dimensions is 7, expected 1 to 6",
        ),
        (
            "torus:40x40x40",
            "`torus:40x40x40`, character 7: the fabric needs 128000 LIDs, expected at most 49151, one for each switch and host port",
        ),
        (
            "torus:4x4x4,hosts=254",
            "`torus:4x4x4,hosts=254`, character 7: a switch needs 260 ports, expected at most 254",
        ),
        (
            "fat-tree:k=36",
            "`fat-tree:k=36`, character 14: `levels` is missing, expected `levels=` and a number, 1 to 16",
        ),
        (
            "fat-tree:k=35,levels=2",
            "`fat-tree:k=35,levels=2`, character 10: `k` is 35, expected an even number of ports",
        ),
        (
            "fat-tree:k=254,levels=16",
            "`fat-tree:k=254,levels=16`, character 10: the fabric needs 18446744073709551615 LIDs, expected at most 49151, one for each switch and host port",
        ),
        (
            "pgft:2;18,36;1,18",
            "`pgft:2;18,36;1,18`, character 6: `2;18,36;1,18` cannot be understood, expected h;m1,..,mh;w1,..,wh;p1,..,ph like `2;18,36;1,18;1,1`",
        ),
        (
            "pgft:2;18,36;1;1,1",
            "`pgft:2;18,36;1;1,1`, character 14: the length of `w` is 1, expected 2 numbers, one for each level",
        ),
        (
            "pgft:2;18,x;1,1;1,1",
            "`pgft:2;18,x;1,1;1,1`, character 11: `x` cannot be understood, expected a number, 1 to 254",
        ),
        (
            "random:switches=3,degree=1",
            "`random:switches=3,degree=1`, character 26: `degree` is 1, expected 2 to 254",
        ),
        (
            "ring:6,faults=links:1.5",
            "`ring:6,faults=links:1.5`, character 21: `1.5` cannot be understood, expected a number, 0 to 4294967295",
        ),
        (
            "ring:6,faults=links:101%",
            "`ring:6,faults=links:101%`, character 21: `101%` cannot be understood, expected 0% to 100%, with up to three decimals",
        ),
        (
            "ring:6,faults=links:7",
            "`ring:6,faults=links:7`, character 21: 7 cables between switches are to fail, and there are 6, expected at most 6",
        ),
        (
            "ring:6,faults=hosts:1",
            "`ring:6,faults=hosts:1`, character 15: `hosts:1` cannot be understood, expected `links:3`, `links:1%`, `switches:2` or `seed=7`",
        ),
        (
            "ring:6,faults=links:1,links:2",
            "`ring:6,faults=links:1,links:2`, character 23: `links` is given twice, expected each of them once",
        ),
        (
            "ring:6,faults=links:1,speed=HDR",
            "`ring:6,faults=links:1,speed=HDR`, character 23: `speed=HDR` cannot be understood, expected `links:3`, `links:1%`, `switches:2` or `seed=7`",
        ),
        (
            "ring:6,größe=3,x",
            "`ring:6,größe=3,x`, character 16: `x` cannot be understood, expected an option like `speed=HDR`",
        ),
    ];
    for (spec, expected) in cases {
        assert_eq!(message(spec), expected);
    }
}

/// Specifications that are random sequences of words, numbers and separators.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "superpod",
        "pgft",
        "fat-tree",
        "torus",
        "ring",
        "dragonfly",
        "dragonfly+",
        "random",
        "xpander",
        ":",
        ",",
        ";",
        "=",
        "x",
        "%",
        ".",
        "faults",
        "links",
        "switches",
        "seed",
        "speed",
        "HDR",
        "k",
        "levels",
        "su",
        "hosts",
        "groups",
        "leaves",
        "spines",
        "degree",
        "size",
        "local",
        "0",
        "1",
        "2",
        "3",
        "7",
        "36",
        "254",
        "49151",
        "99999999999999999999",
        "ü",
    ]);
    prop::collection::vec(piece, 0..16).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_specification_generates_or_fails_with_a_column_within_it(spec in pieces()) {
        if let Err(error) = generate(&spec) {
            prop_assert!((1..=spec.chars().count() + 2).contains(&error.column), "{}", error);
        }
    }
}
