//! One agent of congestion control: the setting that is being read or written, and the handling of
//! answers.

use std::time::Duration;

use rsm_config::{CongestionPolicy, SwitchPorts};
use rsm_ids::Lid;
use rsm_mad::Time;
use rsm_mad::wire::congestion::{
    CC_DATA_LEN, CaCongestionSetting, CcAttribute, CongestionControlTable, CongestionInfo,
    CongestionKeyInfo, SwitchCongestionSetting, attribute,
};
use rsm_mad::wire::header::{AttrId, Method, Status};
use rsm_mad::wire::sa::{ClassPortInfo, Record};
use rsm_model::congestion::{AgentReport, AgentStatus};

/// Number of attempts of a request before its agent counts as silent.
const ATTEMPTS: u8 = 3;

/// Number of successive busy answers, over some seconds, after which an agent counts as silent.
const BUSY_MAX: u8 = 20;

/// Time until a busy agent is asked again.
const BUSY_PAUSE: Duration = Duration::from_millis(250);

/// Pause before all settings of an agent are read again after it left a request unanswered. Each
/// further such pause is twice as long.
const PAUSE: Duration = Duration::from_secs(60);

/// Maximum number of doublings of [`PAUSE`], which limits the pause to a little more than an hour.
const DOUBLINGS_MAX: u8 = 6;

/// Time limit of the first attempt. The limit of each further attempt is twice as long.
const TIMEOUT: Duration = Duration::from_millis(500);

/// Kind of the device that an agent belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Device {
    Switch(SwitchPorts),
    Adapter,
}

/// An attribute that rsm reads. Settings are written if they differ from the policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    ClassPortInfo,
    Info,
    Key,
    Switch,
    Adapter,
    /// Block of the congestion control table, by its number.
    Table(u8),
}

impl Step {
    fn attribute(self) -> AttrId {
        match self {
            Step::ClassPortInfo => attribute::CLASS_PORT_INFO,
            Step::Info => attribute::CONGESTION_INFO,
            Step::Key => attribute::CONGESTION_KEY_INFO,
            Step::Switch => attribute::SWITCH_CONGESTION_SETTING,
            Step::Adapter => attribute::CA_CONGESTION_SETTING,
            Step::Table(_) => attribute::CONGESTION_CONTROL_TABLE,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Step::ClassPortInfo => "ClassPortInfo",
            Step::Info => "CongestionInfo",
            Step::Key => "CongestionKeyInfo",
            Step::Switch => "SwitchCongestionSetting",
            Step::Adapter => "CACongestionSetting",
            Step::Table(_) => "CongestionControlTable",
        }
    }

    fn modifier(self) -> u32 {
        match self {
            Step::Table(block) => block.into(),
            _ => 0,
        }
    }
}

/// Result of reading a setting.
enum Reading {
    /// The setting agrees with the policy.
    Right,
    /// Another request is needed: a Set, or a Get after a Set.
    Again,
    /// A Get after an acknowledged Set shows other values.
    NotKept,
}

/// A request to an agent, without addresses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) method: Method,
    pub(super) attribute: AttrId,
    pub(super) modifier: u32,
    pub(super) key: u64,
    pub(super) data: [u8; CC_DATA_LEN],
    pub(super) timeout: Duration,
}

/// An agent of congestion control.
#[derive(Clone, Debug)]
pub(super) struct Agent {
    pub(super) lid: Lid,
    pub(super) device: Device,
    /// Time of the agent's next turn; `None` while a request is in flight, or if no request is left
    /// to send.
    pub(super) due: Option<Time>,
    step: Step,
    /// Whether the next request of the step is a Set.
    writes: bool,
    /// Whether a Set of the step was acknowledged.
    was_written: bool,
    /// CongestionKeyInfo at the last reading.
    held_key: CongestionKeyInfo,
    /// Number of unanswered attempts of the request.
    attempts: u8,
    /// Number of successive busy answers.
    busy: u8,
    /// Whether requests contain the key zero instead of the policy's key.
    without_key: bool,
    /// Whether both keys were tried for this request.
    tried_both: bool,
    /// Whether the agent has ever answered a request.
    has_answered: bool,
    /// Number of doublings of the next [`PAUSE`].
    pauses: u8,
    report: AgentReport,
}

impl Agent {
    /// An agent with unknown settings, whose first turn is at `now`.
    pub(super) fn new(lid: Lid, device: Device, now: Time) -> Agent {
        Agent {
            lid,
            device,
            due: Some(now),
            step: Step::ClassPortInfo,
            writes: false,
            was_written: false,
            held_key: CongestionKeyInfo::default(),
            attempts: 0,
            busy: 0,
            without_key: false,
            tried_both: false,
            has_answered: false,
            pauses: 0,
            report: AgentReport {
                status: AgentStatus::Pending,
                sets: 0,
                key_violations: None,
            },
        }
    }

    pub(super) fn report(&self) -> AgentReport {
        self.report
    }

    /// Reads all settings again from `now` on.
    pub(super) fn begin(&mut self, now: Time) {
        *self = Agent {
            has_answered: self.has_answered,
            pauses: self.pauses,
            report: AgentReport {
                status: AgentStatus::Pending,
                ..self.report
            },
            ..Agent::new(self.lid, self.device, now)
        };
    }

    /// The request of the present step.
    pub(super) fn request(&self, policy: &CongestionPolicy) -> Request {
        let data = match self.writes {
            true => self.wanted(policy),
            false => [0; CC_DATA_LEN],
        };
        Request {
            method: if self.writes {
                Method::SET
            } else {
                Method::GET
            },
            attribute: self.step.attribute(),
            modifier: self.step.modifier(),
            key: if self.without_key { 0 } else { policy.key },
            data,
            timeout: TIMEOUT * (1 << self.attempts),
        }
    }

    /// The data of a Set of the present step: the setting according to the policy.
    fn wanted(&self, policy: &CongestionPolicy) -> [u8; CC_DATA_LEN] {
        match (self.step, self.device) {
            (Step::Key, _) => policy.key_info(&self.held_key).to_data(),
            (Step::Switch, Device::Switch(ports)) => policy.switch_setting(ports).to_data(),
            (Step::Adapter, _) => policy.adapter.to_data(),
            (Step::Table(block), _) => policy.table_block(block).to_data(),
            _ => [0; CC_DATA_LEN],
        }
    }

    /// Handles an answer to the request.
    pub(super) fn on_answer(
        &mut self,
        policy: &CongestionPolicy,
        status: Status,
        data: &[u8; CC_DATA_LEN],
        now: Time,
    ) {
        if status.is_busy() && self.busy < BUSY_MAX {
            self.busy += 1;
            self.due = Some(now + BUSY_PAUSE);
            return;
        }
        self.attempts = 0;
        if !status.is_ok() {
            return self.on_refusal(status, now);
        }
        (self.busy, self.has_answered) = (0, true);
        match self.step {
            Step::ClassPortInfo => {
                if redirects(data) {
                    return self.end(AgentStatus::Redirects);
                }
            }
            Step::Info => {
                let blocks = CongestionInfo::of(data).control_table_cap();
                if blocks < policy.table_blocks() {
                    return self.end(AgentStatus::TableTooSmall(blocks));
                }
            }
            _ => {
                let is_right = self.is_right(policy, data);
                match self.on_setting(is_right) {
                    Reading::Right => {}
                    Reading::Again => {
                        self.due = Some(now);
                        return;
                    }
                    Reading::NotKept => {
                        return self.end(AgentStatus::NotKept(self.step.name()));
                    }
                }
            }
        }
        self.advance(policy, now);
    }

    /// Whether the setting in `data` agrees with the policy. Records the key and its violations if
    /// the setting is CongestionKeyInfo.
    fn is_right(&mut self, policy: &CongestionPolicy, data: &[u8; CC_DATA_LEN]) -> bool {
        match (self.step, self.device) {
            (Step::Key, _) => {
                self.held_key = CongestionKeyInfo::of(data);
                self.report.key_violations = Some(self.held_key.violations());
                policy.has_key(&self.held_key)
            }
            (Step::Switch, Device::Switch(ports)) => {
                policy.has_switch_setting(ports, &SwitchCongestionSetting::of(data))
            }
            (Step::Adapter, _) => policy.has_adapter_setting(&CaCongestionSetting::of(data)),
            (Step::Table(block), _) => {
                policy.has_table_block(block, &CongestionControlTable::of(data))
            }
            _ => true,
        }
    }

    /// Handles a setting in the answer to a Get or Set, which agrees with the policy if `is_right`.
    fn on_setting(&mut self, is_right: bool) -> Reading {
        if self.writes {
            (self.writes, self.was_written) = (false, true);
            self.report.sets = self.report.sets.saturating_add(1);
            if self.step == Step::Key {
                (self.without_key, self.tried_both) = (false, false);
            }
            // The answer to a Set may contain old values: a Get then shows the present ones.
            return if is_right {
                Reading::Right
            } else {
                Reading::Again
            };
        }
        if is_right {
            return Reading::Right;
        }
        if self.was_written {
            return Reading::NotKept;
        }
        self.writes = true;
        Reading::Again
    }

    /// Handles a status other than success.
    fn on_refusal(&mut self, status: Status, now: Time) {
        if self.step == Step::ClassPortInfo && !self.has_answered {
            return self.end(AgentStatus::Absent(status));
        }
        if self.try_other_key() {
            self.due = Some(now);
            return;
        }
        self.end(AgentStatus::Refuses(self.step.name(), status));
    }

    /// Handles an attempt that was not answered in time.
    pub(super) fn on_silence(&mut self, now: Time) {
        self.attempts += 1;
        if self.attempts < ATTEMPTS {
            self.due = Some(now);
            return;
        }
        self.attempts = 0;
        if !self.has_answered {
            return self.end(AgentStatus::Silent);
        }
        if self.step != Step::ClassPortInfo && self.try_other_key() {
            self.due = Some(now);
            return;
        }
        let pause = PAUSE * (1 << self.pauses);
        self.pauses = (self.pauses + 1).min(DOUBLINGS_MAX);
        let silent = self.step.name();
        self.begin(now + pause);
        self.report.status = AgentStatus::Unanswered(silent);
    }

    /// Switches to the other key, unless both keys were tried for this request: the agent may have
    /// no key yet, or may already have the policy's key. Returns whether the key was switched.
    fn try_other_key(&mut self) -> bool {
        if self.tried_both {
            return false;
        }
        (self.tried_both, self.without_key) = (true, !self.without_key);
        true
    }

    /// Continues with the next step, or ends the agent's turn after the last step.
    fn advance(&mut self, policy: &CongestionPolicy, now: Time) {
        (self.writes, self.was_written, self.tried_both) = (false, false, false);
        match self.next_step(policy) {
            Some(step) => {
                self.step = step;
                self.due = Some(now);
            }
            None => {
                self.pauses = 0;
                self.end(AgentStatus::Set);
            }
        }
    }

    /// The step after the present one; `None` after the last step.
    fn next_step(&self, policy: &CongestionPolicy) -> Option<Step> {
        let is_switch = matches!(self.device, Device::Switch(_));
        let blocks = policy.table_blocks();
        let mut steps = Vec::from([Step::ClassPortInfo]);
        if !is_switch && blocks > 0 {
            steps.push(Step::Info);
        }
        if policy.gives_key.is_some() {
            steps.push(Step::Key);
        }
        if is_switch && policy.sets_switches() {
            steps.push(Step::Switch);
        }
        if !is_switch {
            // The table precedes the settings, which refer to its entries.
            steps.extend((0..blocks).map(Step::Table));
            steps.extend(policy.sets_adapters().then_some(Step::Adapter));
        }
        let mut rest = steps.into_iter().skip_while(|&step| step != self.step);
        rest.nth(1)
    }

    /// Ends the requests to the agent with this status.
    fn end(&mut self, status: AgentStatus) {
        self.report.status = status;
        self.due = None;
    }
}

/// Whether a ClassPortInfo redirects requests (IBA 13.4.8.1).
fn redirects(data: &[u8; CC_DATA_LEN]) -> bool {
    let mut bytes = *data;
    ClassPortInfo::from_prefix_mut(&mut bytes).is_some_and(|info| {
        info.redirect_lid().is_unicast() || info.redirect_gid() != rsm_mad::ids::Gid::default()
    })
}
