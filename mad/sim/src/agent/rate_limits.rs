//! The agent's answers for QoSConfigSL of adapters: the rate limits of service levels, of ports and
//! of virtual ports.

use rsm_mad::wire::attr::QosConfigSl;
use rsm_mad::wire::header::{AttrId, Status};
use rsm_mad::wire::smp::SMP_DATA_LEN;

use super::{Handled, Request};
use crate::fabric::PortTables;
use crate::personality::Habit;

type Data = [u8; SMP_DATA_LEN];

impl Request<'_> {
    /// Whether the device announces the capability for rate limits.
    pub(super) fn has_rate_limits(&self) -> bool {
        let habits = [
            Habit::RateLimits,
            Habit::RefusesRateLimits,
            Habit::RefusesRateLimitSets,
            Habit::DropsRateLimits,
            Habit::DeafToRateLimits,
        ];
        !self.is_switch() && habits.into_iter().any(|habit| self.has(habit))
    }

    /// The tables of the port or virtual port that a modifier names. Fails if the device refuses
    /// QoSConfigSL, or has no such port.
    fn tables_at(&mut self, modifier: u32) -> Result<&mut PortTables, Status> {
        if !self.has_rate_limits() || self.has(Habit::RefusesRateLimits) {
            return Err(Status::UNSUPPORTED_METHOD_ATTRIBUTE);
        }
        match QosConfigSl::modifier_vport(modifier) {
            Some(index) => {
                let vports = self
                    .fabric
                    .vports
                    .get_mut(&self.entry)
                    .ok_or(Status::INVALID_FIELD)?;
                let vport = vports.vports.get_mut(&index);
                Ok(&mut vport.ok_or(Status::INVALID_FIELD)?.tables)
            }
            None => {
                let index = self.info_port(modifier)?;
                Ok(self.fabric.port_mut(index).tables_mut())
            }
        }
    }

    pub(super) fn get_rate_limits(&mut self, modifier: u32, data: &mut Data) -> Handled {
        *data = self.tables_at(modifier)?.rate_limits.unwrap_or([0; 64]);
        Ok(())
    }

    pub(super) fn set_rate_limits(&mut self, modifier: u32, data: &mut Data) -> Handled {
        if self.has(Habit::RefusesRateLimitSets) {
            return Err(Status::INVALID_FIELD);
        }
        let is_kept = !self.has(Habit::DropsRateLimits);
        let tables = self.tables_at(modifier)?;
        if is_kept {
            tables.rate_limits = Some(*data);
        }
        *data = tables.rate_limits.unwrap_or([0; 64]);
        Ok(())
    }

    /// Whether the agent leaves a request for QoSConfigSL unanswered.
    pub(super) fn is_deaf_to_rate_limits(&self, attribute: AttrId) -> bool {
        attribute == AttrId::QOS_CONFIG_SL && self.has(Habit::DeafToRateLimits)
    }
}
