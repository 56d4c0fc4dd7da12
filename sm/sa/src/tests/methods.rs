//! Tests of the answer to every pair of a method and an attribute. The pairs that IBA leaves
//! without an answer get none.

use rsm_mad::ids::Tid;
use rsm_mad::wire::header::{AttrId, Method, Status};
use rsm_mad::wire::sa::{ComponentMask, NodeRecord, SaMad};

use super::world::{SMALL, World};

const READ: &[Method] = &[Method::GET, Method::GET_TABLE];
const REGISTER: &[Method] = &[Method::GET, Method::GET_TABLE, Method::SET, Method::DELETE];

/// The attributes of the class by number, with the methods of each (IBA 15.2.5). Two optional
/// attributes have no method: no switch has a random forwarding table, and the SA has no service
/// associations.
const TABLE: [(u16, &[Method]); 21] = [
    (0x0001, &[Method::GET]), // ClassPortInfo
    (0x0003, &[Method::SET]), // InformInfo
    (0x0011, READ),           // NodeRecord
    (0x0012, READ),           // PortInfoRecord
    (0x0013, READ),           // SLtoVLMappingTableRecord
    (0x0014, READ),           // SwitchInfoRecord
    (0x0015, READ),           // LinearForwardingTableRecord
    (0x0016, &[]),            // RandomForwardingTableRecord
    (0x0017, READ),           // MulticastForwardingTableRecord
    (0x0018, READ),           // SMInfoRecord
    (0x0020, READ),           // LinkRecord
    (0x0030, REGISTER),       // GUIDInfoRecord
    (0x0031, REGISTER),       // ServiceRecord
    (0x0033, READ),           // P_KeyTableRecord
    (
        0x0035,
        &[Method::GET, Method::GET_TABLE, Method::GET_TRACE_TABLE],
    ), // PathRecord
    (0x0036, READ),           // VLArbitrationTableRecord
    (0x0038, REGISTER),       // MCMemberRecord
    (0x0039, &[Method::GET_TRACE_TABLE]), // TraceRecord
    (0x003A, &[Method::GET_MULTI]), // MultiPathRecord
    (0x003B, &[]),            // ServiceAssociationRecord
    (0x00F3, READ),           // InformInfoRecord
];

/// The requests of the class, each with the method of its answer (IBA 15.2.2).
const METHODS: [(Method, u8); 6] = [
    (Method::GET, 0x81),
    (Method::SET, 0x81),
    (Method::GET_TABLE, 0x92),
    (Method::GET_TRACE_TABLE, 0x92),
    (Method::GET_MULTI, 0x94),
    (Method::DELETE, 0x95),
];

/// Whether the SA does not answer messages with this method: responses, methods for which IBA
/// defines no response, and traps, which only the subnet manager represses.
fn is_unanswered(method: u8) -> bool {
    let silent = [Method::SEND, Method::TRAP, Method::TRAP_REPRESS];
    method & 0x80 != 0 || silent.contains(&Method(method))
}

#[test]
fn each_method_of_each_attribute_is_answered_as_specified() {
    let mut world = World::new(SMALL);
    let attributes = (0..=0x100).chain([0x1000, 0xFF90, 0xFFFF]);
    for (attribute, method) in attributes.flat_map(|attribute| {
        let methods = 0..=u8::MAX;
        methods.map(move |method| (attribute, method))
    }) {
        let mut mad = SaMad::request(
            Method(method),
            Tid(1),
            ComponentMask::NONE,
            &NodeRecord::default(),
        );
        mad.header.mad_mut().set_attribute(AttrId(attribute));
        let answer = world.handle(mad.as_bytes());
        let pair = format!("method {method:#04x} of attribute {attribute:#06x}");
        let Some(answer) = answer else {
            assert!(is_unanswered(method), "{pair} is not answered");
            continue;
        };
        assert!(!is_unanswered(method), "{pair} is answered");
        let status = answer.status();
        let request = METHODS.iter().find(|(known, _)| known.0 == method);
        let Some(&(request, response)) = request else {
            assert_eq!(status, Status::UNSUPPORTED_METHOD, "{pair}");
            continue;
        };
        let header = answer.header().mad();
        assert_eq!(header.method(), Method(response), "{pair}");
        let methods = TABLE.iter().find(|&&(known, _)| known == attribute);
        let is_supported = methods.is_some_and(|(_, methods)| methods.contains(&request));
        let refused = [
            Status::UNSUPPORTED_METHOD,
            Status::UNSUPPORTED_METHOD_ATTRIBUTE,
        ];
        if is_supported {
            // A record of zeroes is invalid for some attributes, and matches all records of others.
            assert!(!refused.contains(&status), "{pair}: {status}");
        } else {
            assert_eq!(status, Status::UNSUPPORTED_METHOD_ATTRIBUTE, "{pair}");
        }
    }
    // None of these requests has registered anything.
    let holdings = world.sa.holdings();
    assert_eq!(holdings.services.services().len(), 0);
    assert_eq!(holdings.subscriptions.iter().len(), 0);
    assert!(holdings.alias_guids.by_port.is_empty());
}
