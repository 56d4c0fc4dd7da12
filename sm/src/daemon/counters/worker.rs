//! Thread of the collector: sends requests for counters, takes answers and shows readings.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use rsm_config::SymptomLimits;
use rsm_ids::PortKey;
use rsm_mad::Time;
use rsm_mad::transport::PerformancePort;
use rsm_monitor::counters::{Collector, CountedSubnet, CountersSnapshot, PlannedLevels};
use rsm_monitor::health::{PortErrors, evidence};
use rsm_state::{Role, Snapshot};

use super::{Call, ErrorsSink, Orders};
use crate::daemon::compute;
use crate::daemon::sa::TimeSource;

/// Time between two snapshots of the readings. A snapshot copies a pointer for each agent, and a
/// large fabric has 50,000 agents.
const SNAPSHOT_INTERVAL: Duration = Duration::from_secs(1);

/// Service level for destinations without a service level in the plan.
const SL: u8 = 0;

/// Thread that owns the collector.
pub(super) struct Worker {
    pub(super) collector: Collector,
    pub(super) calls: Receiver<Call>,
    pub(super) orders: Arc<Orders>,
    pub(super) port: Arc<dyn PerformancePort>,
    pub(super) clock: TimeSource,
    /// Limits of link errors; the thread reports a port that exceeds one to the core.
    pub(super) limits: SymptomLimits,
    pub(super) errors: ErrorsSink,
    /// Ports that were last reported to the core.
    pub(super) reported: Arc<BTreeMap<PortKey, PortErrors>>,
    /// Time of the next snapshot of the readings; `None` while there are no new readings.
    pub(super) snapshot_at: Option<Time>,
}

impl Worker {
    /// Runs until the handle stops the collector.
    pub(super) fn run(mut self) {
        // Answers to hosts and convergence take precedence over counters.
        compute::lower_priority();
        while !self.orders.is_closing.load(Ordering::Acquire) {
            self.follow_orders();
            self.send();
            self.take_snapshot_if_due();
            match self.wait() {
                Ok(call) => {
                    self.handle_call(call);
                    while let Ok(call) = self.calls.try_recv() {
                        self.handle_call(call);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.collector.handle_deadline((self.clock)());
        }
        self.take_snapshot();
    }

    /// Passes the latest settings and the latest snapshot to the collector.
    fn follow_orders(&mut self) {
        let settings = self.orders.settings.lock().take();
        let snapshot = self.orders.snapshot.lock().take();
        let now = (self.clock)();
        if let Some(settings) = settings {
            self.collector.configure(settings.collector, now);
            self.limits = settings.limits;
            self.schedule_snapshot(now);
        }
        if let Some(snapshot) = snapshot {
            self.collector.follow(counted_subnet(&snapshot), now);
            self.schedule_snapshot(now);
        }
    }

    /// Sends the requests that are due.
    fn send(&mut self) {
        let now = (self.clock)();
        while let Some(transmit) = self.collector.poll_transmit(now) {
            let sent = self
                .port
                .send_performance(&transmit.datagram, transmit.timeout);
            if let Err(error) = sent {
                let error: &dyn std::error::Error = &error;
                tracing::debug!(error, "a request for counters was not sent");
                self.collector.not_sent(&transmit, now);
            }
        }
    }

    /// Passes an answer or notice to the collector.
    fn handle_call(&mut self, call: Call) {
        if let Call::Inbound(inbound) = call {
            let now = (self.clock)();
            self.collector.handle(&inbound, now);
            self.schedule_snapshot(now);
        }
    }

    /// Schedules a snapshot of the readings, unless one is scheduled already.
    fn schedule_snapshot(&mut self, now: Time) {
        self.snapshot_at.get_or_insert(now + SNAPSHOT_INTERVAL);
    }

    /// Shows the readings if a scheduled snapshot is due.
    fn take_snapshot_if_due(&mut self) {
        let now = (self.clock)();
        if self.snapshot_at.is_some_and(|at| at <= now) {
            self.take_snapshot();
        }
    }

    /// Shows the present readings to readers, and reports ports with errors.
    fn take_snapshot(&mut self) {
        self.snapshot_at = None;
        let now = (self.clock)();
        let snapshot = self.collector.snapshot(now);
        self.report_errors(&snapshot, now);
        // The old snapshot may be the last owner of many readings, so it is dropped after the lock
        // is released.
        let before = std::mem::replace(&mut *self.orders.latest.write(), snapshot);
        drop(before);
    }

    /// Reports the ports that exceed a limit to the core, if they differ from the last report.
    fn report_errors(&mut self, counters: &CountersSnapshot, now: Time) {
        let exceeding = evidence(counters, &self.limits, now);
        if exceeding == *self.reported {
            return;
        }
        let exceeding = Arc::new(exceeding);
        if (self.errors)(exceeding.clone()) {
            self.reported = exceeding;
        } else {
            // The core is busy; the next snapshot repeats the report.
            self.schedule_snapshot(now);
        }
    }

    /// Waits for a call, but no longer than until the next due time.
    fn wait(&self) -> Result<Call, RecvTimeoutError> {
        let deadlines = [self.collector.next_deadline(), self.snapshot_at];
        match deadlines.into_iter().flatten().min() {
            Some(at) => self.calls.recv_timeout(at.since((self.clock)())),
            None => self
                .calls
                .recv()
                .map_err(|_| RecvTimeoutError::Disconnected),
        }
    }
}

/// Extracts the collector's view of the subnet from a snapshot.
fn counted_subnet(snapshot: &Snapshot) -> CountedSubnet {
    CountedSubnet {
        is_master: snapshot.role == Role::Master,
        fabric: snapshot.fabric.clone(),
        levels: snapshot.plan.as_ref().map(|plan| PlannedLevels {
            topology: plan.topology.clone(),
            routing: plan.routing.clone(),
            sm_lid: plan.sm_lid,
        }),
        sl: SL,
    }
}
