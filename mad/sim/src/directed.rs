//! The processing of a directed-route SMP at one node (IBA 14.2.2).
//!
//! A request can go by LID to the node where its directed part starts (DrSLID set), as requests of
//! `ibportstate` and `smpquery -c` do; its answer then goes by LID to DrSLID. A LID-routed part
//! after the directed part (DrDLID set) is refused as [`DropReason::MixedRoute`], because no known
//! program sends such a request.

use rsm_ids::{Lid, PortNum};
use rsm_mad::wire::smp::Smp;

use crate::counters::DropReason;

/// The next step of the packet at this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The SMP leaves the node through this port.
    Exit(PortNum),
    /// The SMP is for this node.
    Here,
    /// The SMP continues by LID: a request to the start of its directed part, an answer to DrSLID.
    ByLid,
    /// The SMP is lost.
    Discard(DropReason),
}

/// The highest valid HopCount: the paths have 64 entries and entry 0 is not used.
const MAX_HOPS: u8 = 63;

/// Whether a LID-routed part precedes the directed part.
pub(crate) fn starts_by_lid(smp: &Smp) -> bool {
    smp.dr_slid() != Lid::PERMISSIVE
}

/// Advances a packet that starts at this node: a request (D clear) or an answer (D set).
pub(crate) fn originate(smp: &mut Smp) -> Step {
    if let Some(reason) = refusal(smp) {
        return Step::Discard(reason);
    }
    let (pointer, count) = (smp.hop_pointer(), smp.hop_count());
    if smp.is_returning() {
        if pointer != count + 1 {
            return Step::Discard(DropReason::BadPath);
        }
        smp.set_hop_pointer(count);
        match count {
            0 => Step::Here,
            _ => exit(smp.return_path()[usize::from(count)]),
        }
    } else {
        if pointer != 0 {
            return Step::Discard(DropReason::BadPath);
        }
        if starts_by_lid(smp) {
            return Step::ByLid;
        }
        smp.set_hop_pointer(1);
        match count {
            0 => Step::Here,
            _ => exit(smp.initial_path()[1]),
        }
    }
}

/// Whether an arriving packet is on its last hop. Call this before [`arrive`], which advances the
/// packet.
pub(crate) fn ends_here(smp: &Smp) -> bool {
    if smp.is_returning() {
        smp.hop_pointer() <= u8::from(!starts_by_lid(smp))
    } else {
        smp.hop_pointer() >= smp.hop_count()
    }
}

/// Advances a packet that entered the node through the port `entry`.
pub(crate) fn arrive(smp: &mut Smp, entry: PortNum, is_switch: bool) -> Step {
    if let Some(reason) = refusal(smp) {
        return Step::Discard(reason);
    }
    let (pointer, count) = (smp.hop_pointer(), smp.hop_count());
    if smp.is_returning() {
        match pointer {
            0 if starts_by_lid(smp) => Step::Here,
            1 => {
                smp.set_hop_pointer(0);
                if starts_by_lid(smp) {
                    Step::ByLid
                } else {
                    Step::Here
                }
            }
            2.. if pointer <= count && is_switch => {
                smp.set_hop_pointer(pointer - 1);
                exit(smp.return_path()[usize::from(pointer - 1)])
            }
            _ => Step::Discard(DropReason::BadPath),
        }
    } else {
        match pointer {
            // The directed part starts here. An adapter's port acts as a separate node.
            0 if count > 0 && starts_by_lid(smp) => {
                let first = smp.initial_path()[1];
                if !is_switch && first != entry.0 {
                    return Step::Discard(DropReason::BadPath);
                }
                smp.set_hop_pointer(1);
                exit(first)
            }
            1.. if pointer < count && is_switch => {
                smp.return_path_mut()[usize::from(pointer)] = entry.0;
                smp.set_hop_pointer(pointer + 1);
                exit(smp.initial_path()[usize::from(pointer + 1)])
            }
            1.. if pointer == count => {
                smp.return_path_mut()[usize::from(pointer)] = entry.0;
                smp.set_hop_pointer(pointer + 1);
                Step::Here
            }
            _ => Step::Discard(DropReason::BadPath),
        }
    }
}

/// The reason to refuse a packet at any node; `None` if nodes accept the packet.
fn refusal(smp: &Smp) -> Option<DropReason> {
    if smp.hop_count() > MAX_HOPS {
        Some(DropReason::BadPath)
    } else if smp.dr_dlid() != Lid::PERMISSIVE {
        Some(DropReason::MixedRoute)
    } else {
        None
    }
}

fn exit(port: u8) -> Step {
    // No packet leaves a node through port 0.
    match port {
        0 => Step::Discard(DropReason::BadPath),
        _ => Step::Exit(PortNum(port)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rsm_mad::ids::{DirectedPath, Tid};
    use rsm_mad::wire::header::{AttrId, Method, Status};
    use rsm_mad::wire::smp::SmpRequest;

    fn request(hops: &[u8]) -> Smp {
        let hops: Vec<_> = hops.iter().map(|&hop| PortNum(hop)).collect();
        Smp::directed(
            &DirectedPath::from_hops(&hops).unwrap(),
            &SmpRequest {
                method: Method::GET,
                attribute: AttrId::NODE_INFO,
                modifier: 0,
                tid: Tid(1),
                m_key: 0,
                data: [0; 64],
            },
        )
    }

    #[test]
    fn a_round_trip_over_two_switches_walks_both_paths_exactly() {
        let mut smp = request(&[1, 7, 9]);
        assert_eq!(originate(&mut smp), Step::Exit(PortNum(1)));
        assert_eq!(smp.hop_pointer(), 1);
        assert_eq!(arrive(&mut smp, PortNum(20), true), Step::Exit(PortNum(7)));
        assert_eq!(smp.hop_pointer(), 2);
        assert_eq!(arrive(&mut smp, PortNum(30), true), Step::Exit(PortNum(9)));
        assert!(ends_here(&smp));
        assert_eq!(arrive(&mut smp, PortNum(2), false), Step::Here);
        assert_eq!(smp.hop_pointer(), 4);
        assert_eq!(smp.return_path()[..5], [0, 20, 30, 2, 0]);

        smp.make_response(Status::OK);
        assert_eq!(originate(&mut smp), Step::Exit(PortNum(2)));
        assert_eq!(smp.hop_pointer(), 3);
        assert_eq!(arrive(&mut smp, PortNum(9), true), Step::Exit(PortNum(30)));
        assert_eq!(arrive(&mut smp, PortNum(7), true), Step::Exit(PortNum(20)));
        assert!(ends_here(&smp));
        assert_eq!(arrive(&mut smp, PortNum(1), false), Step::Here);
        assert_eq!(smp.hop_pointer(), 0);
    }

    #[test]
    fn a_path_without_hops_stays_at_its_node() {
        let mut smp = request(&[]);
        assert_eq!(originate(&mut smp), Step::Here);
        smp.make_response(Status::OK);
        assert_eq!(originate(&mut smp), Step::Here);
        assert_eq!(smp.hop_pointer(), 0);
    }

    #[test]
    fn adapters_do_not_forward() {
        let mut smp = request(&[1, 2]);
        originate(&mut smp);
        let step = arrive(&mut smp, PortNum(1), false);
        assert_eq!(step, Step::Discard(DropReason::BadPath));
    }

    #[test]
    fn a_lid_routed_part_after_the_directed_part_is_refused() {
        let mut smp = request(&[1]);
        smp.set_dr_dlid(Lid(4));
        let step = originate(&mut smp);
        assert_eq!(step, Step::Discard(DropReason::MixedRoute));
    }

    #[test]
    fn a_lid_routed_part_before_the_directed_part_works_in_both_directions() {
        let mut smp = request(&[7, 9]);
        smp.set_dr_slid(Lid(4));
        assert_eq!(originate(&mut smp), Step::ByLid);
        assert_eq!(smp.hop_pointer(), 0);
        assert!(!ends_here(&smp));
        assert_eq!(arrive(&mut smp, PortNum(0), true), Step::Exit(PortNum(7)));
        assert_eq!(arrive(&mut smp, PortNum(30), true), Step::Exit(PortNum(9)));
        assert!(ends_here(&smp));
        assert_eq!(arrive(&mut smp, PortNum(1), false), Step::Here);

        smp.make_response(Status::OK);
        assert_eq!(originate(&mut smp), Step::Exit(PortNum(1)));
        assert_eq!(arrive(&mut smp, PortNum(9), true), Step::Exit(PortNum(30)));
        assert!(!ends_here(&smp));
        assert_eq!(arrive(&mut smp, PortNum(7), true), Step::ByLid);
        assert!(ends_here(&smp));
        assert_eq!(arrive(&mut smp, PortNum(1), false), Step::Here);
    }

    proptest! {
        #[test]
        fn arbitrary_packets_cause_no_panic(
            bytes: [u8; 32],
            pointer: u8,
            count: u8,
            switch: bool,
            entry: u8,
        ) {
            let mut mad = [0; 256];
            for (index, byte) in mad.iter_mut().enumerate() {
                *byte = bytes[index % 32].wrapping_add(index as u8);
            }
            let smp = Smp::from_bytes_mut(&mut mad);
            smp.set_hop_pointer(pointer).set_hop_count(count);
            smp.set_dr_dlid(Lid::PERMISSIVE);
            let mut other = *smp;
            originate(&mut other);
            ends_here(smp);
            arrive(smp, PortNum(entry), switch);
        }
    }
}
