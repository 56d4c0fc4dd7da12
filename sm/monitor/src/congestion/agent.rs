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
enum AgentStep {
    ClassPortInfo,
    Info,
    Key,
    Switch,
    Adapter,
    /// Block of the congestion control table, by its number.
    Table(u8),
}

impl AgentStep {
    fn attribute(self) -> AttrId {
        match self {
            AgentStep::ClassPortInfo => attribute::CLASS_PORT_INFO,
            AgentStep::Info => attribute::CONGESTION_INFO,
            AgentStep::Key => attribute::CONGESTION_KEY_INFO,
            AgentStep::Switch => attribute::SWITCH_CONGESTION_SETTING,
            AgentStep::Adapter => attribute::CA_CONGESTION_SETTING,
            AgentStep::Table(_) => attribute::CONGESTION_CONTROL_TABLE,
        }
    }

    fn name(self) -> &'static str {
        match self {
            AgentStep::ClassPortInfo => "ClassPortInfo",
            AgentStep::Info => "CongestionInfo",
            AgentStep::Key => "CongestionKeyInfo",
            AgentStep::Switch => "SwitchCongestionSetting",
            AgentStep::Adapter => "CACongestionSetting",
            AgentStep::Table(_) => "CongestionControlTable",
        }
    }

    fn modifier(self) -> u32 {
        match self {
            AgentStep::Table(block) => block.into(),
            _ => 0,
        }
    }
}

/// Result of comparing a setting with the policy.
enum SettingCheck {
    /// The setting agrees with the policy.
    Agrees,
    /// Another request is needed: a Set, or a Get after a Set.
    NeedsRequest,
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
    step: AgentStep,
    /// Whether the next request of the step is a Set.
    writes: bool,
    /// Whether a Set of the step was acknowledged.
    was_written: bool,
    /// CongestionKeyInfo at the last reading.
    held_key: CongestionKeyInfo,
    /// Number of unanswered attempts of the request.
    attempts: u8,
    /// Number of successive busy answers.
    busy_answers: u8,
    /// Whether requests contain the key zero instead of the policy's key.
    without_key: bool,
    /// Whether both keys were tried for this request.
    tried_both: bool,
    /// Whether the agent has ever answered a request.
    has_answered: bool,
    /// Number of doublings of the next [`PAUSE`].
    pause_doublings: u8,
    report: AgentReport,
}

impl Agent {
    /// An agent with unknown settings, whose first turn is at `now`.
    pub(super) fn new(lid: Lid, device: Device, now: Time) -> Agent {
        Agent {
            lid,
            device,
            due: Some(now),
            step: AgentStep::ClassPortInfo,
            writes: false,
            was_written: false,
            held_key: CongestionKeyInfo::default(),
            attempts: 0,
            busy_answers: 0,
            without_key: false,
            tried_both: false,
            has_answered: false,
            pause_doublings: 0,
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
    pub(super) fn restart(&mut self, now: Time) {
        *self = Agent {
            has_answered: self.has_answered,
            pause_doublings: self.pause_doublings,
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
            (AgentStep::Key, _) => policy.key_info(&self.held_key).to_data(),
            (AgentStep::Switch, Device::Switch(ports)) => policy.switch_setting(ports).to_data(),
            (AgentStep::Adapter, _) => policy.adapter.to_data(),
            (AgentStep::Table(block), _) => policy.table_block(block).to_data(),
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
        if status.is_busy() && self.busy_answers < BUSY_MAX {
            self.busy_answers += 1;
            self.due = Some(now + BUSY_PAUSE);
            return;
        }
        self.attempts = 0;
        if !status.is_ok() {
            return self.on_refusal(status, now);
        }
        (self.busy_answers, self.has_answered) = (0, true);
        match self.step {
            AgentStep::ClassPortInfo => {
                if redirects(data) {
                    return self.end(AgentStatus::Redirects);
                }
            }
            AgentStep::Info => {
                let blocks = CongestionInfo::of(data).control_table_cap();
                if blocks < policy.table_blocks() {
                    return self.end(AgentStatus::TableTooSmall(blocks));
                }
            }
            _ => {
                let agrees = self.agrees(policy, data);
                match self.on_setting(agrees) {
                    SettingCheck::Agrees => {}
                    SettingCheck::NeedsRequest => {
                        self.due = Some(now);
                        return;
                    }
                    SettingCheck::NotKept => {
                        return self.end(AgentStatus::NotKept(self.step.name()));
                    }
                }
            }
        }
        self.advance(policy, now);
    }

    /// Whether the setting in `data` agrees with the policy. Records the key and its violations if
    /// the setting is CongestionKeyInfo.
    fn agrees(&mut self, policy: &CongestionPolicy, data: &[u8; CC_DATA_LEN]) -> bool {
        match (self.step, self.device) {
            (AgentStep::Key, _) => {
                self.held_key = CongestionKeyInfo::of(data);
                self.report.key_violations = Some(self.held_key.violations());
                policy.has_key(&self.held_key)
            }
            (AgentStep::Switch, Device::Switch(ports)) => {
                policy.has_switch_setting(ports, &SwitchCongestionSetting::of(data))
            }
            (AgentStep::Adapter, _) => policy.has_adapter_setting(&CaCongestionSetting::of(data)),
            (AgentStep::Table(block), _) => {
                policy.has_table_block(block, &CongestionControlTable::of(data))
            }
            _ => true,
        }
    }

    /// Handles a setting in the answer to a Get or Set, which agrees with the policy if `agrees`.
    fn on_setting(&mut self, agrees: bool) -> SettingCheck {
        if self.writes {
            (self.writes, self.was_written) = (false, true);
            self.report.sets = self.report.sets.saturating_add(1);
            if self.step == AgentStep::Key {
                (self.without_key, self.tried_both) = (false, false);
            }
            // The answer to a Set may contain old values: a Get then shows the present values.
            return if agrees {
                SettingCheck::Agrees
            } else {
                SettingCheck::NeedsRequest
            };
        }
        if agrees {
            return SettingCheck::Agrees;
        }
        if self.was_written {
            return SettingCheck::NotKept;
        }
        self.writes = true;
        SettingCheck::NeedsRequest
    }

    /// Handles a status other than success.
    fn on_refusal(&mut self, status: Status, now: Time) {
        if self.step == AgentStep::ClassPortInfo && !self.has_answered {
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
        if self.step != AgentStep::ClassPortInfo && self.try_other_key() {
            self.due = Some(now);
            return;
        }
        let pause = PAUSE * (1 << self.pause_doublings);
        self.pause_doublings = (self.pause_doublings + 1).min(DOUBLINGS_MAX);
        let unanswered = self.step.name();
        self.restart(now + pause);
        self.report.status = AgentStatus::Unanswered(unanswered);
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
                self.pause_doublings = 0;
                self.end(AgentStatus::Set);
            }
        }
    }

    /// The step after the present one; `None` after the last step.
    fn next_step(&self, policy: &CongestionPolicy) -> Option<AgentStep> {
        let is_switch = matches!(self.device, Device::Switch(_));
        let blocks = policy.table_blocks();
        let mut steps = Vec::from([AgentStep::ClassPortInfo]);
        if !is_switch && blocks > 0 {
            steps.push(AgentStep::Info);
        }
        if policy.gives_key.is_some() {
            steps.push(AgentStep::Key);
        }
        if is_switch && policy.sets_switches() {
            steps.push(AgentStep::Switch);
        }
        if !is_switch {
            // The table precedes the settings, which refer to its entries.
            steps.extend((0..blocks).map(AgentStep::Table));
            steps.extend(policy.sets_adapters().then_some(AgentStep::Adapter));
        }
        let mut remaining = steps.into_iter().skip_while(|&step| step != self.step);
        remaining.nth(1)
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
