//! Subnet administration as the API shows it.

use std::sync::Arc;

use rsm_api::model::{
    GroupSelector, MulticastGroup, MulticastGroupFilter, MulticastMember, MulticastSwitch, Page,
};
use rsm_api::{Administration, AdministrationError, BoxFuture};
use rsm_ids::{Gid, Guid};

use super::multicast;
use super::view::View;
use crate::sa::Holdings;

/// Where subnet administration, which is busy elsewhere, can be asked about itself.
pub trait Desk: Send + Sync + 'static {
    /// What hosts have told it, as it is when this is called or a little later. What comes of it is to be let go soon.
    fn holdings(&self) -> BoxFuture<'_, Result<Holdings, AdministrationError>>;
}

/// Answers readers from what subnet administration holds, and from the snapshot in force.
pub struct Administered {
    view: Arc<View>,
    desk: Arc<dyn Desk>,
}

impl Administered {
    /// What is known at `desk`, in the subnet of `view`.
    pub fn new(view: Arc<View>, desk: Arc<dyn Desk>) -> Administered {
        Administered { view, desk }
    }
}

impl Administration for Administered {
    fn multicast_groups(
        &self,
        after: Option<Gid>,
        limit: usize,
        filter: MulticastGroupFilter,
    ) -> BoxFuture<'_, Result<Page<MulticastGroup>, AdministrationError>> {
        Box::pin(async move {
            let groups = self.desk.holdings().await?.groups;
            let published = self.view.published();
            Ok(multicast::groups(
                &published, &groups, after, limit, &filter,
            ))
        })
    }

    fn multicast_group(
        &self,
        group: GroupSelector,
    ) -> BoxFuture<'_, Result<MulticastGroup, AdministrationError>> {
        Box::pin(async move {
            let groups = self.desk.holdings().await?.groups;
            let group = multicast::find(&groups, group)?;
            Ok(multicast::group(&self.view.published(), group))
        })
    }

    fn multicast_members(
        &self,
        group: GroupSelector,
        after: Option<Guid>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Page<MulticastMember>, AdministrationError>> {
        Box::pin(async move {
            let groups = self.desk.holdings().await?.groups;
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
    ) -> BoxFuture<'_, Result<Page<MulticastSwitch>, AdministrationError>> {
        Box::pin(async move {
            let groups = self.desk.holdings().await?.groups;
            let mlid = multicast::find(&groups, group)?.mlid;
            drop(groups);
            let published = self.view.published();
            Ok(multicast::switches(&published, mlid, after, limit))
        })
    }
}
