//! Tests with arbitrary bytes: nothing panics, and taking a view changes nothing.

use std::fmt::Write;

use proptest::prelude::*;
use rsm_mad::wire::attr::*;
use rsm_mad::wire::header::{AttrId, MadHeader};
use rsm_mad::wire::sa::*;
use rsm_mad::wire::smp::Smp;
use rsm_mad::wire::{MAD_LEN, MadBytes, dissect};

fn any_mad() -> impl Strategy<Value = MadBytes> {
    // Some classes and attributes are from the specification, because random numbers rarely name an
    // existing attribute.
    let class = prop_oneof![Just(0x01u8), Just(0x81), Just(0x03), any::<u8>()];
    let attribute = prop_oneof![0x00u16..0x40, 0xFF10u16..0xFF93, Just(0x00F3), any::<u16>()];
    let trap = prop_oneof![Just(None), prop::sample::select(TRAPS).prop_map(Some)];
    let bytes = prop::collection::vec(any::<u8>(), MAD_LEN);
    (bytes, class, attribute, trap).prop_map(|(bytes, class, attribute, trap)| {
        let mut mad: MadBytes = bytes.try_into().unwrap();
        mad[1] = class;
        mad[16..18].copy_from_slice(&attribute.to_be_bytes());
        if let Some(trap) = trap {
            let id: u16 = AttrId::NOTICE.0;
            mad[16..18].copy_from_slice(&id.to_be_bytes());
            mad[64] |= 0x80;
            mad[68..70].copy_from_slice(&u16::to_be_bytes(trap));
        }
        mad
    })
}

/// Trap numbers of Notices with details that `wire` decodes.
const TRAPS: &[u16] = &[64, 66, 128, 129, 131, 144, 145, 256, 257, 258, 259, 260];

/// Takes a view of 64 bytes and converts it back, which must change nothing, and writes its text
/// form.
fn view<A: Attribute + std::fmt::Debug>(data: &[u8; 64], text: &mut String) {
    let view = A::from_data(data);
    assert_eq!(view.as_data(), data, "{}", A::NAME);
    write!(text, "{view:?}").unwrap();
}

/// Takes a record and converts it back, which must change nothing, and writes its text form.
fn view_record<R: Record + std::fmt::Debug>(data: &[u8], text: &mut String) {
    let record = R::from_prefix(data).unwrap();
    assert_eq!(record.as_bytes(), &data[..R::LEN], "{}", R::NAME);
    assert!(R::from_prefix(&data[..R::LEN - 1]).is_none());
    write!(text, "{record:?}").unwrap();
}

proptest! {
    #[test]
    fn any_record_round_trips_and_formats_without_panic(mad in any_mad()) {
        let mut text = String::new();
        let mad = SaMad::from_bytes(&mad);
        write!(text, "{mad:?}").unwrap();
        let data = &mad.data;
        view_record::<ClassPortInfo>(data, &mut text);
        view_record::<SaNotice>(data, &mut text);
        view_record::<InformInfo>(data, &mut text);
        view_record::<NodeRecord>(data, &mut text);
        view_record::<PortInfoRecord>(data, &mut text);
        view_record::<SlToVlMappingTableRecord>(data, &mut text);
        view_record::<SwitchInfoRecord>(data, &mut text);
        view_record::<LinearForwardingTableRecord>(data, &mut text);
        view_record::<MulticastForwardingTableRecord>(data, &mut text);
        view_record::<SmInfoRecord>(data, &mut text);
        view_record::<LinkRecord>(data, &mut text);
        view_record::<GuidInfoRecord>(data, &mut text);
        view_record::<ServiceRecord>(data, &mut text);
        view_record::<PKeyTableRecord>(data, &mut text);
        view_record::<PathRecord>(data, &mut text);
        view_record::<VlArbitrationTableRecord>(data, &mut text);
        view_record::<McMemberRecord>(data, &mut text);
        view_record::<TraceRecord>(data, &mut text);
        view_record::<MultiPathRecord>(data, &mut text);
        view_record::<InformInfoRecord>(data, &mut text);
        if let Some((sources, destinations)) = MultiPathRecord::from_prefix(data).unwrap().gids(data) {
            prop_assert!(24 + 16 * (sources.len() + destinations.len()) <= SA_DATA_LEN);
        }
        let response = mad.header.response(Default::default());
        prop_assert!(response.mad().method().is_response());
        prop_assert_eq!(response.sm_key(), 0);
    }

    #[test]
    fn any_attribute_round_trips_and_formats_without_panic(mad in any_mad()) {
        let mut text = String::new();
        let smp = Smp::from_bytes(&mad);
        prop_assert_eq!(smp.as_bytes(), &mad);
        write!(text, "{}{:?}{:?}", dissect(&mad), smp, MadHeader::of(&mad)).unwrap();
        prop_assert!(smp.path().len() <= 63);

        let data = smp.data();
        view::<NodeInfo>(data, &mut text);
        view::<NodeDescription>(data, &mut text);
        view::<SwitchInfo>(data, &mut text);
        view::<GuidInfo>(data, &mut text);
        view::<PortInfo>(data, &mut text);
        view::<PKeyTable>(data, &mut text);
        view::<SlToVlMapping>(data, &mut text);
        view::<VlArbitration>(data, &mut text);
        view::<LinearForwardingTable>(data, &mut text);
        view::<MulticastForwardingTable>(data, &mut text);
        view::<SmInfo>(data, &mut text);
        view::<Notice>(data, &mut text);
        view::<ArInfo>(data, &mut text);
        view::<ExtendedPortInfo>(data, &mut text);
        view::<ExtendedNodeInfo>(data, &mut text);
        view::<ExtendedSwitchInfo>(data, &mut text);
        view::<PortInfoExtended>(data, &mut text);
        view::<SwitchPortStateTable>(data, &mut text);
        view::<GeneralInfo>(data, &mut text);
        let capabilities = GeneralInfo::from_data(data).capabilities();
        let numbers = capabilities.named().count() + capabilities.unnamed().count();
        let bits: u32 = capabilities.0.iter().map(|word| word.count_ones()).sum();
        prop_assert_eq!(numbers, bits as usize);
        let _ = PortInfoExtended::from_data(data).fec_mode();
        view::<VirtualizationInfo>(data, &mut text);
        view::<VPortInfo>(data, &mut text);
        view::<VNodeInfo>(data, &mut text);
        view::<VPortState>(data, &mut text);
        view::<VNodeDescription>(data, &mut text);
        view::<VPortGuidInfo>(data, &mut text);
        view::<VPortPKeyTable>(data, &mut text);
        view::<QosConfigSl>(data, &mut text);
        view::<ArGroupTable>(data, &mut text);
        view::<ArLinearForwardingTable>(data, &mut text);
        write!(text, "{:?}", Notice::from_data(data).details()).unwrap();
        if let Some(rate) = PortInfo::from_data(data).link_rate() {
            prop_assert!(rate.data_mbps() > 0);
        }
    }

    #[test]
    fn a_response_changes_only_method_and_status(mut mad in any_mad(), status in any::<u16>()) {
        let before = mad;
        let smp = Smp::from_bytes_mut(&mut mad);
        smp.make_response(rsm_mad::wire::header::Status(status));
        prop_assert_eq!(smp.is_returning(), smp.is_directed() || status & 0x8000 != 0);
        // All bytes except method and status are unchanged.
        prop_assert_eq!(&mad[..3], &before[..3]);
        prop_assert_eq!(&mad[6..], &before[6..]);
    }

    #[test]
    fn any_modifier_decodes_within_the_bounds_of_its_tables(modifier in any::<u32>()) {
        let _ = PortInfo::modifier_port(modifier);
        let _ = VlArbitration::modifier_block(modifier);
        let _ = QosConfigSl::modifier_vport(modifier);
        prop_assert!(MulticastForwardingTable::modifier_block(modifier) < MulticastForwardingTable::BLOCKS);
        prop_assert!(MulticastForwardingTable::modifier_position(modifier) < MulticastForwardingTable::POSITIONS);
    }
}
