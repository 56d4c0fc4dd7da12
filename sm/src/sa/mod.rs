//! Subnet administration: hosts get their answers (IBA 15).
//!
//! A state machine without I/O: [`Administration::handle`] takes a message and gives the answer to it, from what was last
//! handed over with [`Administration::replace`]. It never waits for a sweep or for planning, and neither waits for it. An
//! answer that is a table is produced while it is sent, record by record, however long it is.

mod answer;
mod directory;
pub mod events;
pub mod guids;
mod latencies;
pub mod mcast;
mod membership;
mod memory;
mod partitions;
mod path;
mod query;
mod reregister;
pub mod services;
mod statistics;
mod template;
mod trust;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

pub use answer::{Answer, Pulled, TooLong, WORK_PER_PULL};
pub use directory::{Directory, EndIx, EndPort};
pub use latencies::{Latencies, LatencyCounts};
pub use memory::{Remembered, Unsaved};
pub use path::NoPath;
pub use path::between::{PathEnd, PathQuestion, TracedPath};
use rsm_ids::Guid;
use rsm_mad::Time;
use rsm_mad::ids::Tid;
use rsm_mad::transport::RemoteAddress;
use rsm_mad::wire::attr::Notice;
use rsm_mad::wire::header::{AttrId, BASE_VERSION, Class, Method, Status};
use rsm_mad::wire::sa::{
    CLASS_VERSION, GuidInfoRecord, InformInfo, McMemberRecord, Record as _, SaHeader, SaStatus,
    ServiceRecord,
};
pub use statistics::{Counters, Statistics};
pub use trust::Trust;

use self::events::{Events, News, Report};
use self::mcast::{Registry, SavedGroup, View};
use self::reregister::Reregister;
use crate::core::role::Role;
use crate::core::snapshot::Snapshot;
use crate::plan::groups::GroupSet;
use crate::plan::guids::AliasGuids;

/// The least time between two times that the core is told who takes part in multicast: thousands that join at once are
/// told of together, and nobody waits noticeably.
const GROUPS_PAUSE: Duration = Duration::from_millis(20);

/// The least time between two times that something is to be remembered: each costs a write of the disk, and a copy of
/// what changes while it is made.
const SAVE_PAUSE: Duration = Duration::from_millis(250);

/// How long members that were remembered count although nobody has seen their ports: longer than a large subnet takes to
/// be swept and brought up.
const RESTORED_FOR: Duration = Duration::from_secs(300);

/// A message that arrived.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Header and data, as many as came.
    pub bytes: &'a [u8],
    /// Who sent it.
    pub requester: RemoteAddress,
}

/// What the administrator decides by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// The SM_Key that trusted requesters show; 0: nobody is trusted.
    pub sm_key: u64,
}

/// What is answered from: a snapshot, arranged. Making it takes some milliseconds for a large subnet, which is why it can be
/// made elsewhere than where questions are answered.
#[derive(Clone, Debug, Default)]
pub struct Standing {
    /// `None` until the first plan is in force.
    directory: Option<Arc<Directory>>,
    is_master: bool,
}

impl Standing {
    /// What `snapshot` says; parts of `previous` are kept where nothing has changed.
    pub fn of(snapshot: &Snapshot, previous: Option<&Standing>) -> Standing {
        let previous = previous.and_then(|previous| previous.directory.as_ref());
        Standing {
            directory: Directory::of(snapshot, previous),
            is_master: snapshot.role == Role::Master,
        }
    }

    /// What questions are answered from; `None` while they are not.
    fn in_force(&self) -> Option<&Arc<Directory>> {
        self.directory.as_ref().filter(|_| self.is_master)
    }

    /// Who is where; `None` until the first plan is in force.
    pub fn directory(&self) -> Option<&Arc<Directory>> {
        self.directory.as_ref()
    }

    /// Whether this subnet manager is the master, so that hosts are answered.
    pub fn is_master(&self) -> bool {
        self.is_master
    }

    /// Whether ports, partitions and what the operator decides are the same.
    fn has_ports_of(&self, other: &Standing) -> bool {
        match (&self.directory, &other.directory) {
            (Some(mine), Some(theirs)) => {
                Arc::ptr_eq(&mine.fabric, &theirs.fabric)
                    && Arc::ptr_eq(&mine.plan.policy, &theirs.plan.policy)
                    && Arc::ptr_eq(&mine.plan.partitions, &theirs.plan.partitions)
                    && self.is_master == other.is_master
            }
            _ => false,
        }
    }

    /// Computes ahead of time what questions for paths would else compute bit by bit. Takes seconds for thousands of switches
    /// with links of several kinds, and nothing where all are alike; for any thread, while questions are answered.
    pub fn prepare(&self) {
        if let Some(directory) = &self.directory {
            directory.minima.prepare();
        }
    }
}

/// How far ports were looked through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Looked {
    /// Up to this one; `None`: not begun.
    UpTo(Option<Guid>),
    AtAll,
}

/// What hosts have told the administrator, at one moment. Holding on to it costs a copy of what changes meanwhile.
#[derive(Clone, Debug, Default)]
pub struct Holdings {
    /// Multicast groups and their members.
    pub groups: View,
    /// Services that ports offer.
    pub services: services::View,
}

/// The subnet administrator.
#[derive(Debug)]
pub struct Administration {
    config: Config,
    standing: Standing,
    multicast: Registry,
    services: services::Registry,
    guids: guids::Registry,
    /// How far the ports of `standing` were looked through for members that are gone.
    looked: Looked,
    events: Events,
    reregister: Reregister,
    /// What was last looked through.
    seen: Option<Arc<Directory>>,
    /// When it was last told who takes part in multicast.
    told: Option<Time>,
    /// When that was last to be remembered.
    saved: Option<Time>,
    statistics: Arc<Statistics>,
}

impl Administration {
    /// An administrator that knows nothing yet and asks everybody for patience.
    pub fn new(config: Config) -> Administration {
        Administration {
            config,
            standing: Standing::default(),
            multicast: Registry::new(mcast::Config::default()),
            services: services::Registry::default(),
            guids: guids::Registry::default(),
            looked: Looked::AtAll,
            events: Events::default(),
            reregister: Reregister::default(),
            seen: None,
            told: None,
            saved: None,
            statistics: Arc::default(),
        }
    }

    /// Answers from `snapshot` from now on. Answers that are being produced stay with what they began with.
    pub fn replace(&mut self, snapshot: &Snapshot) {
        self.stand(Standing::of(snapshot, Some(&self.standing)));
    }

    /// As [`Administration::replace`], with what was made of a snapshot elsewhere.
    pub fn stand(&mut self, standing: Standing) {
        // While members come by the thousand, each of whom changes the plan, ports and partitions stay what they are.
        let same = standing.has_ports_of(&self.standing);
        self.standing = standing;
        self.name_ports();
        if same {
            return;
        }
        self.looked = Looked::UpTo(None);
        if !self.standing.is_master {
            // What another one told of meanwhile is no news.
            self.seen = None;
        }
        if let Some(directory) = self.standing.directory.as_ref() {
            let registry = &mut self.multicast;
            registry.configure(mcast::Config {
                packet_life_time: directory.plan.policy.ports.packet_life_time,
                subnet_prefix: directory.prefix(),
                ..mcast::Config::default()
            });
            registry.set_capacity(directory.multicast_capacity());
            // What has no room is told of by nobody who asks for it: there is always room for the first ones.
            registry.set_well_known(&directory.well_known_groups());
        }
    }

    /// Has the directory know the names that ports have beside their own.
    fn name_ports(&mut self) {
        if let Some(directory) = &mut self.standing.directory {
            *directory = Arc::new(directory.with_names(self.guids.names()));
        }
    }

    /// Does what is due at `now`, a turn's worth. Call it after each [`Administration::stand`] too.
    pub fn handle_deadline(&mut self, now: Time) {
        let Standing {
            directory,
            is_master,
        } = &self.standing;
        if let Looked::UpTo(after) = self.looked
            && let Some(directory) = directory
            && *is_master
        {
            if after.is_none() {
                self.services.ports_changed(directory, now);
                self.guids.ports_changed(directory, now);
                self.events.ports_changed(directory, now);
                // What there is when it begins is news to nobody.
                if let Some(before) = self.seen.replace(directory.clone()) {
                    self.events.compare(&before, directory, now);
                }
                self.reregister.ports_changed(directory);
            }
            let after = self.multicast.ports_changed(directory.as_ref(), after, now);
            self.looked = match after {
                Some(_) => Looked::UpTo(after),
                None => Looked::AtAll,
            };
        }
        self.reregister.lost(self.multicast.handle_deadline(now));
        self.reregister.lost(self.events.handle_deadline(now));
        self.services.handle_deadline(now);
        if let Some(directory) = directory {
            while let Some(event) = self.multicast.poll_event() {
                let news = match event {
                    mcast::Event::Created(mgid, p_key) => {
                        News::of_group(directory, mgid, p_key, true)
                    }
                    mcast::Event::Deleted(mgid, p_key) => {
                        News::of_group(directory, mgid, p_key, false)
                    }
                };
                self.events.take(news, now);
            }
        }
        if self.guids.handle_deadline(now) {
            self.name_ports();
        }
    }

    /// A port has reported something to the subnet manager: subscribers are told.
    pub fn notice(&mut self, notice: &Notice, now: Time) {
        let Some(directory) = self.standing.in_force() else {
            return;
        };
        match News::of_trap(directory, notice) {
            Some(news) => self.events.take(news, now),
            None => self.statistics.unknown_issuer(),
        }
    }

    /// The next report to be sent to a subscriber. Call it until there is none; while [`Administration::next_deadline`] has
    /// come there will be more, after others had their turn.
    pub fn poll_report(&mut self, now: Time) -> Option<Report> {
        let directory = self.standing.in_force()?;
        self.events.poll_report(directory, now)
    }

    /// The transport has waited in vain for the answer to what was sent with this transaction.
    pub fn unanswered(&mut self, tid: Tid) {
        self.events.unanswered(tid);
    }

    /// The ports whose hosts are to register anew, each once.
    pub fn poll_reregister(&mut self) -> Option<BTreeSet<Guid>> {
        self.reregister.take()
    }

    /// Who subscribed to what.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// When there is something to do next: for [`Administration::handle_deadline`], or to ask for groups.
    pub fn next_deadline(&self) -> Option<Time> {
        let groups = self.multicast.is_stale().then(|| self.next_telling());
        let unsaved = self.multicast.is_unsaved()
            || self.services.is_unsaved()
            || self.guids.is_unsaved()
            || self.events.is_unsaved();
        let save = unsaved.then(|| self.next_saving());
        let of_groups = self.multicast.next_deadline();
        let of_services = self.services.next_deadline();
        let of_guids = self.guids.next_deadline();
        let of_events = self.standing.in_force().and(self.events.next_deadline());
        let names = self.guids.is_untold().then_some(Time::ZERO);
        let look = self.is_looking().then_some(Time::ZERO);
        [
            groups,
            names,
            save,
            look,
            of_groups,
            of_services,
            of_guids,
            of_events,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Whether there are ports to be looked at.
    fn is_looking(&self) -> bool {
        let Standing {
            directory,
            is_master,
        } = &self.standing;
        self.looked != Looked::AtAll && directory.is_some() && *is_master
    }

    /// Who takes part in multicast, if that has changed, for the core to plan for. Changes that follow each other closely
    /// are told together.
    pub fn poll_groups(&mut self, now: Time) -> Option<Arc<GroupSet>> {
        if !self.multicast.is_stale() || now < self.next_telling() {
            return None;
        }
        self.told = Some(now);
        Some(self.multicast.group_set())
    }

    /// The names that ports are to have beside their own, if they have changed, for the core to write.
    pub fn poll_guids(&mut self) -> Option<Arc<AliasGuids>> {
        self.guids.take_untold()
    }

    fn next_telling(&self) -> Time {
        self.told.map_or(Time::ZERO, |told| told + GROUPS_PAUSE)
    }

    fn next_saving(&self) -> Time {
        self.saved.map_or(Time::ZERO, |saved| saved + SAVE_PAUSE)
    }

    /// What there is to be remembered, if anything of it is new.
    pub fn poll_save(&mut self, now: Time) -> Option<Unsaved> {
        if now < self.next_saving() {
            return None;
        }
        let groups = self.multicast.take_unsaved();
        let services = self.services.take_unsaved();
        let guids = self.guids.take_unsaved();
        let subscriptions = self.events.take_unsaved();
        let unsaved = Unsaved {
            groups: groups.then(|| self.multicast.view()),
            services: services.then(|| self.services.view()),
            guids: guids.then(|| self.guids.names().aliases().clone()),
            subscriptions: subscriptions.then(|| self.events.view()),
        };
        if unsaved.is_empty() {
            return None;
        }
        self.saved = Some(now);
        Some(unsaved)
    }

    /// Takes back what was remembered, at the start. Returns how many records could not be.
    pub fn restore(&mut self, remembered: Remembered, now: Time) -> usize {
        let Remembered {
            groups,
            services,
            guids,
            subscriptions,
        } = remembered;
        if groups.is_empty() {
            // There is always one, that of IP over InfiniBand, so that nothing was remembered.
            self.multicast.remember_nothing();
        }
        let until = now + RESTORED_FOR;
        let left_out = [
            self.multicast.restore(groups, until),
            self.services.restore(services, now),
            self.guids.restore(&guids, until),
            self.events.restore(subscriptions, until),
        ];
        left_out.into_iter().sum()
    }

    /// What hosts have told, as it is now.
    pub fn holdings(&self) -> Holdings {
        Holdings {
            groups: self.multicast.view(),
            services: self.services.view(),
        }
    }

    /// Groups and their members.
    pub fn multicast(&self) -> &Registry {
        &self.multicast
    }

    /// Services that ports offer.
    pub fn services(&self) -> &services::Registry {
        &self.services
    }

    /// Alias GUIDs of ports.
    pub fn guids(&self) -> &guids::Registry {
        &self.guids
    }

    /// Counts in `statistics` from now on, which others may count in and read.
    #[must_use]
    pub fn counting_in(mut self, statistics: Arc<Statistics>) -> Administration {
        self.statistics = statistics;
        self
    }

    /// What was asked so far, and what became of it.
    pub fn counters(&self) -> Counters {
        self.statistics.counters()
    }

    /// Answers `request`, which arrived at `now`, in bounded time: what takes longer is [open](Answer::is_open), or a table.
    /// `None` only where the specification has none: for responses, for bytes that are no message of the
    /// class, and for a wrong SM_Key, which is not to be found out by trying.
    pub fn handle(&mut self, request: Request<'_>, now: Time) -> Option<Answer> {
        let Some((header, data)) = SaHeader::split(request.bytes).filter(|(header, _)| {
            let mad = header.mad();
            mad.class() == Class::SUBNET_ADMINISTRATION && expects_answer(mad.method())
        }) else {
            if !self.report_answered(request) {
                self.statistics.ignored();
            }
            return None;
        };
        let Some(trust) = Trust::of(header.sm_key(), self.config.sm_key) else {
            self.statistics.wrong_key();
            return None;
        };
        let mad = header.mad();
        self.statistics.asked(mad.attribute(), mad.method());
        let answer = match self.answer((header, data), trust, request.requester, now) {
            Ok(body) => Answer::new(request.requester, header, body),
            Err(status) => Answer::refusal(request.requester, header, status),
        };
        self.count(&answer);
        Some(answer)
    }

    /// Goes on looking for the record of an answer that is [open](Answer::is_open), for as long as [`Answer::pull`] takes.
    /// Whether there is nothing more to look for.
    pub fn go_on(&mut self, answer: &mut Answer) -> bool {
        let was_open = answer.is_open();
        let settled = answer.go_on();
        if was_open {
            self.count(answer);
        }
        settled
    }

    /// Counts an answer by its status, once that is known.
    fn count(&self, answer: &Answer) {
        if !answer.is_open() {
            self.statistics.decided(answer.status());
        }
    }

    fn answer(
        &mut self,
        (header, data): (&SaHeader, &[u8]),
        trust: Trust,
        requester: RemoteAddress,
        now: Time,
    ) -> Result<answer::Body, Status> {
        let mad = header.mad();
        if mad.base_version() != BASE_VERSION || mad.class_version() != CLASS_VERSION {
            return Err(Status::BAD_VERSION);
        }
        if !query::is_method(mad.method()) {
            return Err(Status::UNSUPPORTED_METHOD);
        }
        if !query::is_attribute(mad.attribute()) {
            return Err(Status::UNSUPPORTED_METHOD_ATTRIBUTE);
        }
        let directory = self.standing.in_force().ok_or(Status::BUSY)?;
        let address = requester;
        let requester = directory.by_lid(address.lid).ok_or(SaStatus::REQ_DENIED)?;
        let changes = matches!(mad.method(), Method::SET | Method::DELETE);
        match mad.attribute() {
            McMemberRecord::ID if changes => {
                let registry = &mut self.multicast;
                let asked = (header, data);
                return query::mc_member::change(registry, directory, asked, requester, trust);
            }
            GuidInfoRecord::ID if changes => {
                let asker = guids::Asker {
                    directory,
                    port: requester,
                    trust,
                    multicast: &self.multicast,
                };
                let registry = &mut self.guids;
                let answer = query::guid_info::change(registry, (header, data), &asker);
                self.name_ports();
                return answer;
            }
            ServiceRecord::ID if changes => {
                let asker = services::Asker {
                    directory,
                    port: requester,
                    trust,
                };
                let registry = &mut self.services;
                return query::service::change(registry, (header, data), &asker, now);
            }
            InformInfo::ID if mad.method() == Method::SET => {
                let asker = (requester, address);
                return query::inform_info::change(&mut self.events, directory, data, asker, trust);
            }
            _ => {}
        }
        let view = if mad.attribute() == McMemberRecord::ID {
            self.multicast.lasting_view().ok_or(Status::BUSY)?
        } else {
            self.multicast.view()
        };
        query::answer(&query::Asked {
            header,
            data,
            trust,
            requester,
            directory,
            view: &view,
            services: &self.services.view(),
            subscriptions: &self.events.view(),
            now,
        })
    }

    /// Takes the answer to a report, if that is what came.
    fn report_answered(&mut self, request: Request<'_>) -> bool {
        let Some((header, _)) = SaHeader::split(request.bytes) else {
            return false;
        };
        let mad = header.mad();
        let is_one = mad.class() == Class::SUBNET_ADMINISTRATION
            && (mad.attribute(), mad.method()) == (AttrId::NOTICE, Method::REPORT_RESPONSE);
        let remote = request.requester;
        let from = self
            .standing
            .in_force()
            .filter(|_| is_one)
            .and_then(|directory| Some(directory.end(directory.by_lid(remote.lid)?).guid));
        match from {
            Some(port) => {
                self.events.answered(mad.tid(), port, remote.qpn);
                true
            }
            None => false,
        }
    }
}

/// Whether a message with this method is one that is answered.
fn expects_answer(method: Method) -> bool {
    // TrapRepress has no R bit and is a response all the same; a Send is by its meaning not answered.
    !method.is_response() && method != Method::TRAP_REPRESS && method != Method::SEND
}
