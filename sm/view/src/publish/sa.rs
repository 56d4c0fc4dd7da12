//! The SA in the form of the API.

use std::sync::Arc;

use rsm_api::model::{
    AliasGuidKey, GroupSelector, Keyed, MulticastGroupFilter, Page, PathQuestion, PortId,
    ServiceFilter, ServiceKey, SubscriptionKey,
};
use rsm_api::{BoxFuture, SaError, SaQueries, v1};
use rsm_ids::{Gid, Guid};
use rsm_mad::wire::fields;
use rsm_mad::wire::sa::SaStatus;
use rsm_sa::{Holdings, LatencyCounts, SaCounters, SaSnapshot};

use super::view::View;
use super::{aliases, multicast, paths, qos, services, subscriptions};

/// Source of the state of the SA, which runs on another thread.
pub trait SaStateSource: Send + Sync + 'static {
    /// Counters of the SA since the start.
    fn counters(&self) -> SaCounters;

    /// The snapshot from which the SA answers, or is about to answer.
    fn sa_snapshot(&self) -> SaSnapshot;

    /// Registrations of hosts, at the time of the call or a little later. The caller should drop
    /// the result soon.
    fn holdings(&self) -> BoxFuture<'_, Result<Holdings, SaError>>;
}

/// Answers readers from the state of the SA and the snapshot in force.
pub struct PublishedSa {
    view: Arc<View>,
    state_source: Arc<dyn SaStateSource>,
}

impl PublishedSa {
    /// Creates a view of the SA behind `state_source`, in the subnet of `view`.
    pub fn new(view: Arc<View>, state_source: Arc<dyn SaStateSource>) -> PublishedSa {
        PublishedSa { view, state_source }
    }
}

impl SaQueries for PublishedSa {
    fn counters(&self) -> v1::SaCounters {
        shown(&self.state_source.counters())
    }

    fn paths(&self, question: &PathQuestion) -> Result<v1::ResolvePathResponse, SaError> {
        paths::between(
            &self.view.published(),
            &self.state_source.sa_snapshot(),
            question,
        )
    }

    fn qos(&self) -> Result<v1::GetQosResponse, SaError> {
        Ok(qos::shown(
            &self.view.published(),
            &self.state_source.sa_snapshot(),
        ))
    }

    fn services(
        &self,
        after: Option<ServiceKey>,
        limit: usize,
        filter: ServiceFilter,
    ) -> BoxFuture<'_, Result<Page<Keyed<ServiceKey, v1::Service>>, SaError>> {
        Box::pin(async move {
            let services = self.state_source.holdings().await?.services;
            let (published, now) = (self.view.published(), self.view.now());
            Ok(services::services(
                &published, &services, now, after, limit, &filter,
            ))
        })
    }

    fn subscriptions(
        &self,
        after: Option<SubscriptionKey>,
        limit: usize,
        port: Option<PortId>,
    ) -> BoxFuture<'_, Result<Page<Keyed<SubscriptionKey, v1::Subscription>>, SaError>> {
        Box::pin(async move {
            let view = self.state_source.holdings().await?.subscriptions;
            let published = self.view.published();
            Ok(subscriptions::subscriptions(
                &published, &view, after, limit, port,
            ))
        })
    }

    fn alias_guids(
        &self,
        after: Option<AliasGuidKey>,
        limit: usize,
        port: Option<PortId>,
    ) -> BoxFuture<'_, Result<Page<Keyed<AliasGuidKey, v1::AliasGuid>>, SaError>> {
        Box::pin(async move {
            let names = self.state_source.holdings().await?.alias_guids;
            let published = self.view.published();
            Ok(aliases::aliases(&published, &names, after, limit, port))
        })
    }

    fn multicast_groups(
        &self,
        after: Option<Gid>,
        limit: usize,
        filter: MulticastGroupFilter,
    ) -> BoxFuture<'_, Result<Page<Keyed<Gid, v1::MulticastGroup>>, SaError>> {
        Box::pin(async move {
            let groups = self.state_source.holdings().await?.groups;
            let published = self.view.published();
            Ok(multicast::groups(
                &published, &groups, after, limit, &filter,
            ))
        })
    }

    fn multicast_group(
        &self,
        group: GroupSelector,
    ) -> BoxFuture<'_, Result<v1::MulticastGroup, SaError>> {
        Box::pin(async move {
            let groups = self.state_source.holdings().await?.groups;
            let group = multicast::find(&groups, group)?;
            Ok(multicast::group(&self.view.published(), group))
        })
    }

    fn multicast_members(
        &self,
        group: GroupSelector,
        after: Option<Guid>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Page<Keyed<Guid, v1::MulticastMember>>, SaError>> {
        Box::pin(async move {
            let groups = self.state_source.holdings().await?.groups;
            let group = multicast::find(&groups, group)?;
            let published = self.view.published();
            Ok(multicast::members(&published, group, after, limit))
        })
    }

    fn multicast_switches(
        &self,
        group: GroupSelector,
        after: Option<Guid>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Page<Keyed<Guid, v1::MulticastSwitch>>, SaError>> {
        Box::pin(async move {
            let groups = self.state_source.holdings().await?.groups;
            let mlid = multicast::find(&groups, group)?.mlid;
            drop(groups);
            let published = self.view.published();
            Ok(multicast::switches(&published, mlid, after, limit))
        })
    }
}

/// Name of unknown attributes, methods and statuses.
const OTHER: &str = "other";

/// Converts the counters, with their names.
fn shown(counters: &SaCounters) -> v1::SaCounters {
    let requests = counters.requests.iter().map(|(&key, &count)| {
        let (attribute, method) = key;
        let is_other = key == SaCounters::OTHER;
        v1::SaRequests {
            attribute_id: attribute.0.into(),
            attribute: fields::of_record(attribute)
                .map_or(OTHER, |layout| layout.name)
                .to_owned(),
            method_id: method.0.into(),
            method: if is_other {
                OTHER.to_owned()
            } else {
                method.to_string()
            },
            count,
        }
    });
    let answers = counters.answers.iter().map(|(&status, &count)| {
        let is_other = status == SaCounters::OTHER_STATUS;
        v1::SaAnswers {
            status_id: status.0.into(),
            status: if is_other {
                OTHER.to_owned()
            } else {
                SaStatus::name(status).to_string()
            },
            count,
        }
    });
    v1::SaCounters {
        requests: requests.collect(),
        answers: answers.collect(),
        latencies: Some(latencies(&counters.latencies)),
        busy: counters.busy,
        dropped: counters.dropped,
        failed: counters.failed,
        ignored: counters.ignored,
        wrong_keys: counters.wrong_keys,
        unknown_issuers: counters.unknown_issuers,
        unserved: counters.unserved,
    }
}

fn latencies(counts: &LatencyCounts) -> v1::Latencies {
    let bucket = |&(below_ns, count): &(Option<u64>, u64)| v1::LatencyBucket {
        below_ns: below_ns.unwrap_or(0),
        count,
    };
    v1::Latencies {
        count: counts.count(),
        sum_ns: counts.sum_nanos,
        buckets: counts.buckets.iter().map(bucket).collect(),
    }
}
