//! Sentences for operators about faults that a proof found.

use rsm_ids::{Guid, PortNum};
use rsm_routing::verify::{LaneChannel, MulticastReport, MulticastWitness, Witness};

/// A fault in forwarding tables, as one sentence.
pub fn unicast(witness: &Witness) -> String {
    match witness {
        Witness::Dropped { switch, lid, port } => match port {
            Some(port) => {
                format!(
                    "switch {switch} sends packets to LID {lid} to port {port}, which leads nowhere"
                )
            }
            None => format!("switch {switch} has no path to LID {lid}"),
        },
        Witness::Loop { lid, hops } => {
            format!("packets to LID {lid} go round in a loop: {}", path(hops))
        }
        Witness::CreditLoop { channels } => {
            format!(
                "links wait for each other in a credit loop: {}",
                path(channels)
            )
        }
        Witness::CreditLoopOnLanes { channels } => loop_on_lanes(channels),
        Witness::AbsentGroup { switch, lid, group } => format!(
            "switch {switch} sends packets to LID {lid} to the ports of group {group}, which it does not hold"
        ),
        Witness::OffLanes { channel } => off_lanes(channel),
    }
}

/// The faults that a proof of multicast trees found, separated by semicolons. A credit loop that
/// trees and unicast routes close together has no witness; only a flag of the report shows it.
pub(crate) fn multicast_faults(report: &MulticastReport) -> String {
    let mut faults: Vec<String> = report.witnesses.iter().map(multicast).collect();
    if !report.credit_loop_free {
        let loop_of_both = "trees and unicast routes close a credit loop together: use an engine with one order \
                            of the switches, such as updn, or set routing.multicast = false";
        faults.push(loop_of_both.to_owned());
    }
    faults.join("; ")
}

/// A fault in multicast trees, as one sentence.
fn multicast(witness: &MulticastWitness) -> String {
    match witness {
        MulticastWitness::Loop { mlid, switch, port } => format!(
            "the tree of multicast LID {mlid:#x} has a loop through {}",
            place(*switch, *port),
            mlid = mlid.0
        ),
        MulticastWitness::Missing { mlid, switch, port } => format!(
            "multicast LID {mlid:#x} does not reach {}",
            place(*switch, *port),
            mlid = mlid.0
        ),
        MulticastWitness::Stray { mlid, switch, port } => format!(
            "multicast LID {mlid:#x} leaves by {}, where no member is",
            place(*switch, *port),
            mlid = mlid.0
        ),
        MulticastWitness::CreditLoopOnLanes { channels } => loop_on_lanes(channels),
        MulticastWitness::OffLanes { channel } => off_lanes(channel),
    }
}

/// Text about a credit loop over several VLs.
fn loop_on_lanes(channels: &[LaneChannel]) -> String {
    let named: Vec<String> = channels
        .iter()
        .map(|channel| format!("{} VL {}", place(channel.switch, channel.port), channel.vl))
        .collect();
    format!(
        "links wait for each other in a credit loop: {}",
        named.join(" -> ")
    )
}

/// Text about packets on an unplanned VL.
fn off_lanes(channel: &LaneChannel) -> String {
    format!(
        "packets at {} are on VL {}, which the routes do not use",
        place(channel.switch, channel.port),
        channel.vl
    )
}

/// A port as `rsmctl` accepts it: `0x0002c90300001234:7`.
fn place(switch: Guid, port: PortNum) -> String {
    format!("{switch}:{port}")
}

/// The ports of a path, in order.
fn path(hops: &[(Guid, PortNum)]) -> String {
    let named: Vec<String> = hops
        .iter()
        .map(|&(switch, port)| place(switch, port))
        .collect();
    named.join(" -> ")
}

#[cfg(test)]
mod tests {
    use rsm_ids::Lid;

    use super::*;

    #[test]
    fn faults_name_ports_in_the_form_that_rsmctl_accepts() {
        let (one, two) = ((Guid(1), PortNum(2)), (Guid(3), PortNum(4)));
        let names = "0x0000000000000001:2 -> 0x0000000000000003:4";
        let forwarding_loop = Witness::Loop {
            lid: Lid(7),
            hops: vec![one, two],
        };
        let expected = format!("packets to LID 7 go round in a loop: {names}");
        assert_eq!(unicast(&forwarding_loop), expected);
        let credit_loop = Witness::CreditLoop {
            channels: vec![one, two],
        };
        assert!(unicast(&credit_loop).ends_with(names));
        let dropped = Witness::Dropped {
            switch: Guid(1),
            lid: Lid(7),
            port: None,
        };
        let expected = "switch 0x0000000000000001 has no path to LID 7";
        assert_eq!(unicast(&dropped), expected);
        let missing = MulticastWitness::Missing {
            mlid: Lid(0xc001),
            switch: Guid(1),
            port: PortNum(2),
        };
        let expected = "multicast LID 0xc001 does not reach 0x0000000000000001:2";
        assert_eq!(multicast(&missing), expected);
    }

    #[test]
    fn a_refusal_of_trees_always_has_a_reason() {
        let report = MulticastReport {
            credit_loop_free: false,
            ..MulticastReport::default()
        };
        assert!(
            multicast_faults(&report).starts_with("trees and unicast routes close a credit loop")
        );
        let report = MulticastReport {
            credit_loop_free: true,
            witnesses: vec![MulticastWitness::Missing {
                mlid: Lid(0xC001),
                switch: Guid(1),
                port: PortNum(2),
            }],
            ..MulticastReport::default()
        };
        let text = "multicast LID 0xc001 does not reach 0x0000000000000001:2";
        assert_eq!(multicast_faults(&report), text);
        let channel = LaneChannel {
            switch: Guid(1),
            port: PortNum(2),
            vl: 1,
        };
        let report = MulticastReport {
            credit_loop_free: false,
            witnesses: vec![MulticastWitness::CreditLoopOnLanes {
                channels: vec![channel; 2],
            }],
            ..MulticastReport::default()
        };
        let text = "credit loop: 0x0000000000000001:2 VL 1 -> 0x0000000000000001:2 VL 1; trees";
        let faults = multicast_faults(&report);
        assert!(faults.contains(text), "{faults}");
    }
}
