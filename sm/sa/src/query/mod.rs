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
use super::directory::Directory;
use super::ends::EndIx;
use super::path;
pub(super) use super::query_context::SaQueryContext;
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

/// Answers a Get, GetTable, GetTraceTable or GetMulti.
///
/// # Errors
/// Fails with the status for the answer.
pub(super) fn answer(context: &SaQueryContext<'_>) -> Result<Body, Status> {
    const MULTI_PATH: (AttrId, Method) = (MultiPathRecord::ID, Method::GET_MULTI);
    const CAPABILITIES: (AttrId, Method) = (ClassPortInfo::ID, Method::GET);

    let mad = context.header.mad();
    match (mad.attribute(), mad.method()) {
        CAPABILITIES => return Ok(Body::record(&class_port_info::record(context.directory))),
        MULTI_PATH => return path::multi::answer(context),
        // The request contains a PathRecord and the response TraceRecords, so that requesters use
        // either attribute.
        (PathRecord::ID | TraceRecord::ID, Method::GET_TRACE_TABLE) => {
            return path::trace::answer(context);
        }
        (_, Method::GET | Method::GET_TABLE) => {}
        _ => return Err(Status::UNSUPPORTED_METHOD_ATTRIBUTE),
    }
    match mad.attribute() {
        NodeRecord::ID => context.read(node::candidates(Query::new(context, NodeRecord::LID)?)),
        PortInfoRecord::ID => {
            let query = Query::new(context, port_info::not_compared(mad.modifier()))?;
            context.read(port_info::candidates(query))
        }
        SlToVlMappingTableRecord::ID => {
            let query = Query::new(context, sl_to_vl_mapping::NOT_COMPARED)?;
            context.read(sl_to_vl_mapping::candidates(query))
        }
        VlArbitrationTableRecord::ID => {
            let query = Query::new(context, vl_arbitration::NOT_COMPARED)?;
            context.read(vl_arbitration::candidates(query))
        }
        MulticastForwardingTableRecord::ID => {
            let query = Query::new(context, MulticastForwardingTableRecord::LID)?;
            context.read(multicast_forwarding_table::candidates(
                query,
                context.view.clone(),
            ))
        }
        McMemberRecord::ID => mc_member::read(context),
        ServiceRecord::ID => service::read(context),
        SwitchInfoRecord::ID => {
            let query = Query::new(context, SwitchInfoRecord::LID)?;
            context.read(switch_info::candidates(query))
        }
        LinearForwardingTableRecord::ID => {
            let query = Query::new(context, LinearForwardingTableRecord::LID)?;
            context.read(linear_forwarding_table::candidates(query))
        }
        SmInfoRecord::ID => {
            let query = Query::new(context, SmInfoRecord::LID)?;
            context.read(sm_info::candidates(query))
        }
        LinkRecord::ID => {
            let query = Query::new(context, link::NOT_COMPARED)?;
            context.read(link::candidates(query))
        }
        GuidInfoRecord::ID => {
            let query = Query::new(context, GuidInfoRecord::LID)?;
            context.read(guid_info::candidates(query))
        }
        PKeyTableRecord::ID => {
            // Only trusted requesters may see which partitions exist.
            if !context.trust.is_trusted() {
                return Err(SaStatus::REQ_INVALID);
            }
            let query = Query::new(context, p_key_table::NOT_COMPARED)?;
            context.read(p_key_table::candidates(query))
        }
        PathRecord::ID => path::answer(context),
        InformInfoRecord::ID => inform_info::read(context),
        _ => Err(Status::UNSUPPORTED_METHOD_ATTRIBUTE),
    }
}

impl SaQueryContext<'_> {
    /// The record in the request.
    ///
    /// # Errors
    /// ERR_REQ_INVALID if the record is truncated.
    pub(super) fn record<R: Record>(&self) -> Result<R, Status> {
        R::from_prefix(self.data)
            .copied()
            .ok_or(SaStatus::REQ_INVALID)
    }

    /// The answer with the records among `candidates`, in which `None` stands for an examined end
    /// without a match. A Get must have exactly one match; a table may be empty.
    ///
    /// # Errors
    /// For a Get, ERR_NO_RECORDS or ERR_TOO_MANY_RECORDS if a short search already shows that.
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
    /// The record in the request.
    record: R,
    /// The attribute modifier of the request.
    modifier: u32,
    template: Template,
    trust: Trust,
    requester: EndIx,
    /// Whether tables include virtual ports.
    lists_vports: bool,
    /// ActCount in answers about SMInfo.
    act_count: u32,
}

/// Indices of the ends that a query examines: a range, followed by single ends.
type EndIndices = std::iter::Chain<Range<u32>, std::vec::IntoIter<u32>>;

/// The single end, or no end.
fn single_end(end: Option<EndIx>) -> EndIndices {
    let run = end.map_or(0..0, |EndIx(ix)| ix..ix + 1);
    run.chain(Vec::new())
}

/// The indices of `ends`.
fn indices_of(ends: impl IntoIterator<Item = EndIx>) -> EndIndices {
    let ends: Vec<u32> = ends.into_iter().map(|EndIx(ix)| ix).collect();
    (0..0).chain(ends)
}

impl<R: Record> Query<R> {
    /// The query in `context`, whose template does not compare the components in `not_compared`.
    fn new(context: &SaQueryContext<'_>, not_compared: ComponentMask) -> Result<Query<R>, Status> {
        let record = context.record::<R>()?;
        let mask = context.header.component_mask();
        Ok(Query {
            directory: context.directory.clone(),
            mask,
            record,
            modifier: context.header.mad().modifier(),
            template: Template::new(&record, mask, not_compared)?,
            trust: context.trust,
            requester: context.requester,
            lists_vports: context.lists_vports,
            act_count: context.act_count,
        })
    }

    /// The physical ports to examine: the port with `lid` in its LID range if the query has
    /// `component`, otherwise all ports. Serves records that virtual ports lack.
    fn ends(&self, component: ComponentMask, lid: Lid) -> Range<u32> {
        if !self.mask.contains(component) {
            return 0..self.directory.ports();
        }
        match self.directory.by_lid(lid) {
            Some(EndIx(ix)) if ix < self.directory.ports() => ix..ix + 1,
            _ => 0..0,
        }
    }

    /// The ends to examine: the end with `lid` in its LID range if the query has `component`,
    /// otherwise the [`listed`](Query::listed) ends. Serves records that virtual ports have as
    /// well.
    fn ends_and_vports(&self, component: ComponentMask, lid: Lid) -> EndIndices {
        if self.mask.contains(component) {
            let holder = self.directory.by_lid(lid);
            return single_end(holder.filter(|&ix| self.directory.has_records(ix)));
        }
        self.listed()
    }

    /// The ends with records and this port GUID; may include other ends as well. Alias GUIDs are
    /// not considered.
    fn ends_with_guid(&self, guid: Guid) -> EndIndices {
        let directory = &self.directory;
        let found = directory.by_guid(guid);
        let found = found.filter(|&ix| directory.has_records(ix));
        if directory.guids_are_unique() {
            return single_end(found);
        }
        let vport = found.filter(|&ix| directory.vport(ix).is_some());
        let vport: Vec<u32> = vport.into_iter().map(|EndIx(ix)| ix).collect();
        (0..directory.ports()).chain(vport)
    }

    /// The ends in a table if the request names no end: all physical ports, and virtual ports if
    /// tables include them.
    fn listed(&self) -> EndIndices {
        let ports = self.directory.ports();
        let all = self.directory.len() as u32;
        let last = if self.lists_vports { all } else { ports };
        (0..last).chain(Vec::new())
    }

    /// Returns `record` if it matches the query; `None` otherwise.
    fn if_matching(&self, record: R) -> Option<R> {
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

    /// The port numbers in records of port tables: all ports of a switch from 0 on; for a CA or
    /// router only 0, because the field is reserved there.
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

/// The candidates of each of `ends` that has records and that the requester may see, one end after
/// the other. Each end yields one more `None`.
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
        let shown = is_shown.then(|| of_end(&query, ix));
        // Each examined end counts as a step, even if the end is hidden or has no such record.
        std::iter::once(None).chain(shown.into_iter().flatten())
    })
}
