//! Values that libibmad, an independent implementation, reads from blocks of random bytes. They are
//! from libibmad of rdma-core 44, and for XDR, which that version does not know, from libibmad of
//! August 2026.

use rsm_ids::Lid;
use rsm_mad::wire::attr::{Attribute, CapabilityMask, Details, LocalChange, Notice};
use rsm_mad::wire::fields;
use rsm_mad::wire::header::AttrId;

use crate::wire::captured::bytes;

/// An attribute, its 64 bytes, and the values that libibmad reads from its fields, by the names of
/// the specification.
struct Sample {
    attribute: AttrId,
    data: &'static str,
    values: &'static [(&'static str, u128)],
}

#[test]
fn field_tables_read_the_same_values_as_libibmad() {
    for sample in SAMPLES {
        let data: [u8; 64] = bytes(sample.data);
        let table = fields::of_attribute(sample.attribute).unwrap();
        for &(name, value) in sample.values {
            let field = table
                .iter()
                .find(|field| field.name == name)
                .unwrap_or_else(|| panic!("{name}"));
            assert_eq!(field.read(&data, 0), value, "{field:?}");
        }
    }
}

#[test]
fn details_of_trap_144_are_at_the_offsets_of_libibmad() {
    let notice = SAMPLES
        .iter()
        .find(|sample| sample.attribute == Notice::ID)
        .unwrap();
    let data: [u8; 64] = bytes(notice.data);
    let details = LocalChange::from_details(Notice::from_data(&data).data_details());
    assert_eq!(details.lid(), Lid(0xF361));
    assert_eq!(details.capability_mask(), CapabilityMask(0xEE0B_7BE5));
}

const SAMPLES: &[Sample] = &[
    Sample {
        attribute: AttrId::PORT_INFO,
        data: "0b02e536a14ed61ab049b856add63ffc7d556bc86d9a9c82edc1cd6969986c34\
               787fd0c073e7260c564894e02f9ac4ed41a81ee038492a4efd2a10306d86a02e",
        values: &[
            ("M_Key", 0xb02e536a14ed61a),
            ("GidPrefix", 0xb049b856add63ffc),
            ("LID", 0x7d55),
            ("MasterSMLID", 0x6bc8),
            ("CapabilityMask", 0x6d9a9c82),
            ("DiagCode", 0xedc1),
            ("M_KeyLeasePeriod", 0xcd69),
            ("LocalPortNum", 0x69),
            ("LinkWidthEnabled", 0x98),
            ("LinkWidthSupported", 0x6c),
            ("LinkWidthActive", 0x34),
            ("LinkSpeedSupported", 0x7),
            ("PortState", 0x8),
            ("PortPhysicalState", 0x7),
            ("LinkDownDefaultState", 0xf),
            ("M_KeyProtectBits", 0x3),
            ("LMC", 0),
            ("LinkSpeedActive", 0xc),
            ("LinkSpeedEnabled", 0),
            ("NeighborMTU", 0x7),
            ("MasterSMSL", 0x3),
            ("VLCap", 0xe),
            ("InitType", 0x7),
            ("VLHighLimit", 0x26),
            ("VLArbitrationHighCap", 0xc),
            ("VLArbitrationLowCap", 0x56),
            ("InitTypeReply", 0x4),
            ("MTUCap", 0x8),
            ("VLStallCount", 0x4),
            ("HOQLife", 0x14),
            ("OperationalVLs", 0xe),
            ("PartitionEnforcementInbound", 0),
            ("PartitionEnforcementOutbound", 0),
            ("FilterRawInbound", 0),
            ("FilterRawOutbound", 0),
            ("M_KeyViolations", 0x2f9a),
            ("P_KeyViolations", 0xc4ed),
            ("Q_KeyViolations", 0x41a8),
            ("GUIDCap", 0x1e),
            ("ClientReregister", 0x1),
            ("MulticastPKeyTrapSuppressionEnabled", 0x3),
            ("SubnetTimeOut", 0),
            ("RespTimeValue", 0x18),
            ("LocalPhyErrors", 0x4),
            ("OverrunErrors", 0x9),
            ("MaxCreditHint", 0x2a4e),
            ("LinkRoundTripLatency", 0x2a1030),
            ("CapabilityMask2", 0x6d86),
            ("LinkSpeedExtActive", 0xa),
            ("LinkSpeedExtSupported", 0),
            ("LinkSpeedExtEnabled", 0xe),
            ("LinkSpeedExtActive2", 0x3),
            ("LinkSpeedExtSupported2", 0x3),
            ("LinkSpeedExtEnabled2", 0x5),
        ],
    },
    Sample {
        attribute: AttrId::NODE_INFO,
        data: "633279d2fa78fb9c9e87ffc2adb31833d935355b2dc8f4718623a771b764ce50\
               bb85371ff65aebe97b77c3bb76f5390653f3ded05e6f214442be06d8e66cbeb3",
        values: &[
            ("BaseVersion", 0x63),
            ("ClassVersion", 0x32),
            ("NodeType", 0x79),
            ("NumPorts", 0xd2),
            ("SystemImageGUID", 0xfa78fb9c9e87ffc2),
            ("NodeGUID", 0xadb31833d935355b),
            ("PortGUID", 0x2dc8f4718623a771),
            ("PartitionCap", 0xb764),
            ("DeviceID", 0xce50),
            ("Revision", 0xbb85371f),
            ("LocalPortNum", 0xf6),
            ("VendorID", 0x5aebe9),
        ],
    },
    Sample {
        attribute: AttrId::SWITCH_INFO,
        data: "fe07b842b791fd4823bdee93b036dd38e73284772d83e535335575ac537be75f\
               419b15c5351810ebaab376fada0fed9ba9db677896bf3b09ade8ba41673983d9",
        values: &[
            ("LinearFDBCap", 0xfe07),
            ("RandomFDBCap", 0xb842),
            ("MulticastFDBCap", 0xb791),
            ("LinearFDBTop", 0xfd48),
            ("DefaultPort", 0x23),
            ("DefaultMulticastPrimaryPort", 0xbd),
            ("DefaultMulticastNotPrimaryPort", 0xee),
            ("LifeTimeValue", 0x12),
            ("PortStateChange", 0),
            ("OptimizedSLtoVLMappingProgramming", 0x3),
            ("LIDsPerPort", 0xb036),
            ("PartitionEnforcementCap", 0xdd38),
            ("InboundEnforcementCap", 0x1),
            ("OutboundEnforcementCap", 0x1),
            ("FilterRawInboundCap", 0x1),
            ("FilterRawOutboundCap", 0),
            ("EnhancedPort0", 0),
            ("MulticastFDBTop", 0x8477),
        ],
    },
    Sample {
        attribute: AttrId::SM_INFO,
        data: "91e133ca7d9ebb12f2d3b043c096d79782d437ff01e935130d2f64040996a61c\
               81202a8d43dd555726a69eb7a70b7df5f18991b18a9e66e7d0fe734606c31cda",
        values: &[
            ("GUID", 0x91e133ca7d9ebb12),
            ("SM_Key", 0xf2d3b043c096d797),
            ("ActCount", 0x82d437ff),
            ("Priority", 0),
            ("SMState", 0x1),
        ],
    },
    Sample {
        attribute: AttrId::NOTICE,
        data: "d8ce0f9e16a040097f47f80bf361b666ee0b7be5aaa9cdbc35ffd452500c1c5c\
               8ca3276e5ffcd8e849d2ca3ae73b93707726a99b092319e49b7779c84bd37e00",
        values: &[
            ("IsGeneric", 0x1),
            ("Type", 0x58),
            ("ProducerType/VendorID", 0xce0f9e),
            ("TrapNumber/DeviceID", 0x16a0),
            ("IssuerLID", 0x4009),
            ("NoticeToggle", 0),
            ("NoticeCount", 0x7f47),
        ],
    },
    Sample {
        attribute: AttrId::EXTENDED_PORT_INFO,
        data: "bb1362794c5774abcf137c0d522d52213ebf6638464e078c8dce75069b423daf\
               88adc3be9c3c3abd43a03729d1b959a9c5506a4104ee85b933bf6533957d6054",
        values: &[
            ("StateChangeEnable", 0x79),
            ("LinkSpeedSupported", 0xab),
            ("LinkSpeedEnabled", 0xd),
            ("LinkSpeedActive", 0x21),
        ],
    },
];
