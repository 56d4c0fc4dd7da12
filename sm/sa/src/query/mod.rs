//! Answers to queries, by attribute.

mod class_port_info;
pub(super) mod guid_info;
pub(super) mod inform_info;
mod linear_forwarding_table;
mod link;
pub(super) mod mc_member;
mod multicast_forwarding_table;
mod node;
mod p_key_table;
mod port_info;
pub(super) mod service;
mod sl_to_vl_mapping;
mod sm_info;
mod switch_info;
mod vl_arbitration;
mod vport;

use std::ops::Range;
use std::sync::Arc;

use rsm_ids::{Guid, Lid, PortKey, PortNum};
use rsm_mad::wire::header::{AttrId, Method, Status};
use rsm_mad::wire::sa::{
    ClassPortInfo, ComponentMask, GuidInfoRecord, InformInfo, InformInfoRecord,
    LinearForwardingTableRecord, LinkRecord, McMemberRecord, MultiPathRecord,
    MulticastForwardingTableRecord, NodeRecord, PKeyTableRecord, PathRecord, PortInfoRecord,
    Record, SaStatus, ServiceRecord, SlToVlMappingTableRecord, SmInfoRecord, SwitchInfoRecord,
    TraceRecord, VlArbitrationTableRecord,
};
use rsm_model::fabric::PortRef;
use rsm_plan::qos::PortTables;

use super::answer::{Body, Wanted};
pub(super) use super::asked::Asked;
use super::directory::Directory;
use super::ends::EndIx;
use super::path;
use super::template::Template;
use super::trust::Trust;

/// Every attribute that the SA answers.
pub(super) const ATTRIBUTES: [AttrId; 19] = [
    ClassPortInfo::ID,
    InformInfo::ID,
    NodeRecord::ID,
    PortInfoRecord::ID,
    SlToVlMappingTableRecord::ID,
    SwitchInfoRecord::ID,
    LinearForwardingTableRecord::ID,
    MulticastForwardingTableRecord::ID,
    SmInfoRecord::ID,
    LinkRecord::ID,
    GuidInfoRecord::ID,
    ServiceRecord::ID,
    PKeyTableRecord::ID,
    PathRecord::ID,
    VlArbitrationTableRecord::ID,
    McMemberRecord::ID,
    TraceRecord::ID,
    MultiPathRecord::ID,
    InformInfoRecord::ID,
];

/// Every method that is a request to the SA.
pub(super) const METHODS: [Method; 6] = [
    Method::GET,
    Method::SET,
    Method::GET_TABLE,
    Method::GET_TRACE_TABLE,
    Method::GET_MULTI,
    Method::DELETE,
];

/// Whether the SA answers the attribute.
pub(super) fn is_attribute(attribute: AttrId) -> bool {
    ATTRIBUTES.contains(&attribute)
}

/// Whether the method is a request to the SA.
pub(super) fn is_method(method: Method) -> bool {
    METHODS.contains(&method)
}

/// Answers a request.
///
/// # Errors
/// The status to answer with.
pub(super) fn answer(asked: &Asked<'_>) -> Result<Body, Status> {
    const MULTI_PATH: (AttrId, Method) = (MultiPathRecord::ID, Method::GET_MULTI);
    const CAPABILITIES: (AttrId, Method) = (ClassPortInfo::ID, Method::GET);

    let mad = asked.header.mad();
    match (mad.attribute(), mad.method()) {
        CAPABILITIES => return Ok(Body::record(&class_port_info::record(asked.directory))),
        MULTI_PATH => return path::multi::answer(asked),
        // The request contains a PathRecord, the response TraceRecords. Requesters set either
        // attribute.
        (PathRecord::ID | TraceRecord::ID, Method::GET_TRACE_TABLE) => {
            return path::trace::answer(asked);
        }
        (_, Method::GET | Method::GET_TABLE) => {}
        _ => return Err(Status::UNSUPPORTED_METHOD_ATTRIBUTE),
    }
    match mad.attribute() {
        NodeRecord::ID => asked.read(node::candidates(Query::new(asked, NodeRecord::LID)?)),
        PortInfoRecord::ID => {
            let query = Query::new(asked, port_info::not_compared(mad.modifier()))?;
            asked.read(port_info::candidates(query))
        }
        SlToVlMappingTableRecord::ID => {
            let query = Query::new(asked, sl_to_vl_mapping::NOT_COMPARED)?;
            asked.read(sl_to_vl_mapping::candidates(query))
        }
        VlArbitrationTableRecord::ID => {
            let query = Query::new(asked, vl_arbitration::NOT_COMPARED)?;
            asked.read(vl_arbitration::candidates(query))
        }
        MulticastForwardingTableRecord::ID => {
            let query = Query::new(asked, MulticastForwardingTableRecord::LID)?;
            asked.read(multicast_forwarding_table::candidates(
                query,
                asked.view.clone(),
            ))
        }
        McMemberRecord::ID => mc_member::read(asked),
        ServiceRecord::ID => service::read(asked),
        SwitchInfoRecord::ID => {
            let query = Query::new(asked, SwitchInfoRecord::LID)?;
            asked.read(switch_info::candidates(query))
        }
        LinearForwardingTableRecord::ID => {
            let query = Query::new(asked, LinearForwardingTableRecord::LID)?;
            asked.read(linear_forwarding_table::candidates(query))
        }
        SmInfoRecord::ID => {
            let query = Query::new(asked, SmInfoRecord::LID)?;
            asked.read(sm_info::candidates(query))
        }
        LinkRecord::ID => {
            let query = Query::new(asked, link::NOT_COMPARED)?;
            asked.read(link::candidates(query))
        }
        GuidInfoRecord::ID => {
            let query = Query::new(asked, GuidInfoRecord::LID)?;
            asked.read(guid_info::candidates(query))
        }
        PKeyTableRecord::ID => {
            // Only trusted requesters may see which partitions exist.
            if !asked.trust.is_trusted() {
                return Err(SaStatus::REQ_INVALID);
            }
            let query = Query::new(asked, p_key_table::NOT_COMPARED)?;
            asked.read(p_key_table::candidates(query))
        }
        PathRecord::ID => path::answer(asked),
        InformInfoRecord::ID => inform_info::read(asked),
        _ => Err(Status::UNSUPPORTED_METHOD_ATTRIBUTE),
    }
}

impl Asked<'_> {
    /// The record in the request.
    ///
    /// # Errors
    /// ERR_REQ_INVALID if the record is truncated.
    pub(super) fn record<R: Record>(&self) -> Result<R, Status> {
        R::from_prefix(self.data)
            .copied()
            .ok_or(SaStatus::REQ_INVALID)
    }

    /// The answer with those `candidates` that match; for a Get, the only match.
    ///
    /// # Errors
    /// For a Get, ERR_NO_RECORDS or ERR_TOO_MANY_RECORDS if that is known at once; a table may be
    /// empty.
    pub(super) fn read<R, I>(&self, candidates: I) -> Result<Body, Status>
    where
        R: Record,
        I: Iterator<Item = Option<R>> + Send + 'static,
    {
        if self.header.mad().method() != Method::GET {
            return Ok(Body::table(candidates));
        }
        Body::search(candidates, Wanted::Only)
    }
}

/// A query for records of one kind.
struct Query<R> {
    directory: Arc<Directory>,
    mask: ComponentMask,
    record: R,
    modifier: u32,
    template: Template,
    trust: Trust,
    requester: EndIx,
    lists_vports: bool,
    act_count: u32,
}

/// The ends that a query examines: a range, followed by single ends.
type Ends = std::iter::Chain<Range<u32>, std::vec::IntoIter<u32>>;

/// The single end, or no end.
fn only(end: Option<EndIx>) -> Ends {
    let run = end.map_or(0..0, |EndIx(ix)| ix..ix + 1);
    run.chain(Vec::new())
}

fn these(ends: impl IntoIterator<Item = EndIx>) -> Ends {
    let ends: Vec<u32> = ends.into_iter().map(|EndIx(ix)| ix).collect();
    (0..0).chain(ends)
}

impl<R: Record> Query<R> {
    /// The query in `asked`. The caller matches the components in `not_compared`.
    fn new(asked: &Asked<'_>, not_compared: ComponentMask) -> Result<Query<R>, Status> {
        let record = asked.record::<R>()?;
        let mask = asked.header.component_mask();
        Ok(Query {
            directory: asked.directory.clone(),
            mask,
            record,
            modifier: asked.header.mad().modifier(),
            template: Template::new(&record, mask, not_compared)?,
            trust: asked.trust,
            requester: asked.requester,
            lists_vports: asked.lists_vports,
            act_count: asked.act_count,
        })
    }

    /// The ports to examine if `component` is their LID: the port with `lid`, which may be any LID
    /// of its range, or all ports. For records that virtual ports lack.
    fn ends(&self, component: ComponentMask, lid: Lid) -> Range<u32> {
        if !self.mask.contains(component) {
            return 0..self.directory.ports();
        }
        match self.directory.by_lid(lid) {
            Some(EndIx(ix)) if ix < self.directory.ports() => ix..ix + 1,
            _ => 0..0,
        }
    }

    /// The ends to examine if `component` is their LID: the end with `lid`, which may be any LID of
    /// its range, or all ends in tables. For records that virtual ports have as well.
    fn ends_and_vports(&self, component: ComponentMask, lid: Lid) -> Ends {
        if self.mask.contains(component) {
            let holder = self.directory.by_lid(lid);
            return only(holder.filter(|&ix| self.directory.has_records(ix)));
        }
        self.listed()
    }

    /// The ends with records that have this GUID, which is no alias GUID; may include further ends.
    fn ends_with_guid(&self, guid: Guid) -> Ends {
        let directory = &self.directory;
        let found = directory.by_guid(guid);
        let found = found.filter(|&ix| directory.has_records(ix));
        if directory.guids_are_unique() {
            return only(found);
        }
        let vport = found.filter(|&ix| directory.vport(ix).is_some());
        let vport: Vec<u32> = vport.into_iter().map(|EndIx(ix)| ix).collect();
        (0..directory.ports()).chain(vport)
    }

    /// The ends in tables if the request names no end.
    fn listed(&self) -> Ends {
        let ports = self.directory.ports();
        let all = self.directory.len() as u32;
        let last = if self.lists_vports { all } else { ports };
        (0..last).chain(Vec::new())
    }

    /// `record`, if it matches.
    fn keep(&self, record: R) -> Option<R> {
        self.template.matches(&record).then_some(record)
    }

    /// Whether the requester may know about this port.
    fn may_see(&self, ix: EndIx) -> bool {
        self.trust.is_trusted() || self.directory.may_see(self.requester, ix)
    }

    fn is_switch(&self, ix: EndIx) -> bool {
        self.directory.port(ix).0.is_switch()
    }

    /// The operator's QoS tables of a port. `None` if section `qos` is off, for ports without a
    /// link, and for base ports 0, which send no data packets.
    fn tables_of(&self, ix: EndIx, port: PortNum) -> Option<PortTables<'_>> {
        let qos = self.directory.plan.policy.qos.as_deref()?;
        let fabric = &*self.directory.fabric;
        let (node, _) = self.directory.port(ix);
        let number = if node.is_switch() {
            port
        } else {
            self.directory.end(ix).at.port
        };
        let switch = node.switch.as_ref();
        let is_base = switch.is_some_and(|switch| !switch.enhanced_port0());
        if number == PortNum::ZERO && is_base {
            return None;
        }
        PortTables::of(qos, fabric, PortKey::new(node.guid, number))
    }

    /// The port numbers in records of port tables: all ports of a switch; for a CA or router only
    /// 0, because the number is reserved there.
    fn port_numbers(&self, ix: EndIx) -> impl Iterator<Item = u8> + Clone + use<R> {
        let (node, _) = self.directory.port(ix);
        let last = if node.is_switch() {
            node.info.num_ports()
        } else {
            0
        };
        0..=last
    }

    /// The ports with records under this end: all ports of a switch, otherwise the port itself.
    fn ports(&self, ix: EndIx) -> impl Iterator<Item = PortRef> + use<R> {
        let at = self.directory.end(ix).at;
        let node = self.directory.fabric.node(at.node);
        let numbers = if node.is_switch() {
            0..node.ports.len()
        } else {
            at.port.index()..at.port.index() + 1
        };
        numbers.map(move |number| PortRef {
            node: at.node,
            port: PortNum(number as u8),
        })
    }
}

/// The candidates of each of `ends`, one end after the other.
fn of_each_end<R, I>(
    query: Query<R>,
    ends: impl Iterator<Item = u32> + Send + 'static,
    of_end: impl Fn(&Arc<Query<R>>, EndIx) -> I + Send + 'static,
) -> impl Iterator<Item = Option<R>> + Send + 'static
where
    R: Record + Send + Sync + 'static,
    I: Iterator<Item = Option<R>> + Send + 'static,
{
    let query = Arc::new(query);
    ends.map(EndIx).flat_map(move |ix| {
        let is_shown = query.directory.has_records(ix) && query.may_see(ix);
        let seen = is_shown.then(|| of_end(&query, ix));
        // Examining a port takes time, even if the port is hidden or has no such record.
        std::iter::once(None).chain(seen.into_iter().flatten())
    })
}
