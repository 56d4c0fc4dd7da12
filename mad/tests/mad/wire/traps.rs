use rsm_ids::{Lid, PortNum};
use rsm_mad::wire::attr::*;
use rsm_mad::wire::fields;

use crate::wire::accessor::{accessors, check, check_layout};

const LEN: usize = Notice::DETAILS_LEN;

macro_rules! details_test {
    ($test:ident, $view:ident, $($trap:literal)|+; $($accessors:tt)*) => {
        #[test]
        fn $test() {
            for trap in [$($trap),+] {
                let table = fields::of_trap(Trap(trap)).unwrap();
                check_layout(LEN, table);
                check(LEN, table, &accessors!($view, $view::from_details, $view::as_details; $($accessors)*));

                let mut notice = Notice::default();
                notice.set_is_generic(true).set_trap_number(Trap(trap));
                assert!(matches!(notice.details(), TrapDetails::$view(_)), "trap {trap}");
                notice.set_is_generic(false);
                assert!(matches!(notice.details(), TrapDetails::Other(_)), "trap {trap}");
            }
        }
    };
}

details_test! { gid_change_matches_its_table, GidChange, 64 | 65 | 66 | 67;
    "GIDADDR": gid, set_gid;
}

details_test! { link_state_change_matches_its_table, LinkStateChange, 128;
    "LIDADDR": lid, set_lid;
}

details_test! { port_threshold_matches_its_table, PortThreshold, 129 | 130 | 131;
    "LIDADDR": lid, set_lid;
    "PORTNO": port_num, set_port_num;
}

details_test! { local_change_matches_its_table, LocalChange, 144;
    "LIDADDR": lid, set_lid;
    "OtherLocalChanges": other_local_changes, set_other_local_changes;
    "CAPABILITYMASK": capability_mask, set_capability_mask;
    "LocalChanges": changes, set_changes;
    "CAPABILITYMASK2": capability_mask2, set_capability_mask2;
}

details_test! { system_image_guid_change_matches_its_table, SystemImageGuidChange, 145;
    "LIDADDR": lid, set_lid;
    "SYSTEMIMAGEGUID": system_image_guid, set_system_image_guid;
}

details_test! { bad_m_key_matches_its_table, BadMKey, 256;
    "LIDADDR": lid, set_lid;
    "DRSLID": dr_slid, set_dr_slid;
    "METHOD": method, set_method;
    "ATTRIBUTEID": attribute, set_attribute;
    "ATTRIBUTEMODIFIER": modifier, set_modifier;
    "M_KEY": m_key, set_m_key;
    "DRNotice": dr_notice, set_dr_notice;
    "DRPathTruncated": dr_path_truncated, set_dr_path_truncated;
    "DRHopCount": dr_hop_count, set_dr_hop_count;
}

details_test! { bad_keys_matches_its_table, BadKeys, 257 | 258;
    "LIDADDR1": lid1, set_lid1;
    "LIDADDR2": lid2, set_lid2;
    "KEY": key, set_key;
    "SL": sl, set_sl;
    "QP1": qp1, set_qp1;
    "QP2": qp2, set_qp2;
    "GIDADDR1": gid1, set_gid1;
    "GIDADDR2": gid2, set_gid2;
}

details_test! { bad_p_key_at_switch_matches_its_table, BadPKeyAtSwitch, 259;
    "DataValid": data_valid, set_data_valid;
    "LIDADDR1": lid1, set_lid1;
    "LIDADDR2": lid2, set_lid2;
    "P_KEY": p_key, set_p_key;
    "SL": sl, set_sl;
    "QP1": qp1, set_qp1;
    "QP2": qp2, set_qp2;
    "GIDADDR1": gid1, set_gid1;
    "GIDADDR2": gid2, set_gid2;
    "SWLIDADDR": switch_lid, set_switch_lid;
    "PORTNO": port_num, set_port_num;
}

#[test]
fn the_return_path_of_trap_256_is_its_last_30_bytes() {
    let bytes = std::array::from_fn(|index| index as u8);
    let details = BadMKey::from_details(&bytes);
    assert_eq!(details.return_path()[..], bytes[24..]);
}

#[test]
fn an_unknown_trap_keeps_its_bytes() {
    let mut notice = Notice::default();
    notice.set_is_generic(true).set_trap_number(Trap(1234));
    notice.data_details_mut()[53] = 7;
    let TrapDetails::Other(bytes) = notice.details() else {
        panic!("{notice:?}");
    };
    assert_eq!(bytes[53], 7);
}

#[test]
fn link_state_trap_has_the_bytes_of_the_figure() {
    let mut details = LinkStateChange::default();
    details.set_lid(Lid(0x1234));
    let notice = Notice::generic(
        NoticeType::Urgent,
        ProducerType::SWITCH,
        Trap::LINK_STATE_CHANGED,
        Lid(0x1234),
        &details,
    );
    let head = [0x81, 0, 0, 2, 0, 128, 0x12, 0x34, 0, 0, 0x12, 0x34];
    assert_eq!(notice.as_data()[..12], head);
    assert_eq!(notice.as_data()[12..], [0; 52]);
    assert_eq!(notice.details(), TrapDetails::LinkStateChange(&details));
}

#[test]
fn threshold_trap_names_its_port() {
    let mut details = PortThreshold::default();
    details.set_lid(Lid(9)).set_port_num(PortNum(36));
    let notice = Notice::generic(
        NoticeType::Urgent,
        ProducerType::SWITCH,
        Trap::LINK_INTEGRITY,
        Lid(9),
        &details,
    );
    assert_eq!(notice.as_data()[10..16], [0, 0, 0, 9, 36, 0]);
}

macro_rules! nvidia_test {
    ($test:ident, $view:ident, $trap:expr; $($accessors:tt)*) => {
        #[test]
        fn $test() {
            let table = fields::of_nvidia_trap($trap).unwrap();
            check_layout(LEN, table);
            check(LEN, table, &accessors!($view, $view::from_details, $view::as_details; $($accessors)*));

            let mut details = $view::default();
            details.set_trap($trap).set_lid(Lid(7));
            let notice = Notice::nvidia(NoticeType::Urgent, 0x101b, Lid(9), &details);
            assert_eq!(notice.nvidia_trap(), Some($trap));
            assert!(matches!(notice.details(), TrapDetails::$view(of) if of.lid() == Lid(7)));
            let mut generic = notice;
            generic.set_is_generic(true);
            assert_eq!(generic.nvidia_trap(), None);
            let mut other = notice;
            other.set_vendor_id(0x0011_75);
            assert!(matches!(other.details(), TrapDetails::Other(_)));
        }
    };
}

nvidia_test! { vport_state_change_matches_its_table, VPortStateChange, VPORT_STATE_CHANGE;
    "LIDADDR": lid, set_lid;
    "TrapNumber": trap, set_trap;
}

nvidia_test! { vport_local_change_matches_its_table, VPortLocalChange, VPORT_LOCAL_CHANGE;
    "LIDADDR": lid, set_lid;
    "OtherLocalChanges": other_local_changes, set_other_local_changes;
    "CapabilityMask": capability_mask, set_capability_mask;
    "LocalChanges": changes, set_changes;
    "VPortIndex": vport_index, set_vport_index;
    "TrapNumber": trap, set_trap;
}
