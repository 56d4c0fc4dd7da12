//! ARInfo of NVIDIA switches.

use rsm_mad::wire::attr::{ArInfo, Attribute};
use rsm_mad::wire::header::Status;
use rsm_mad::wire::smp::SMP_DATA_LEN;

use super::{Handled, Request};
use crate::adaptive::AdaptiveRouting;

type Data = [u8; SMP_DATA_LEN];

impl Request<'_> {
    fn adaptive(&mut self, modifier: u32) -> Result<&mut AdaptiveRouting, Status> {
        let switch = self.fabric.node_mut(self.node).switch.as_mut();
        let adaptive = switch.and_then(|switch| switch.adaptive.as_mut());
        let adaptive = adaptive.ok_or(Status::UNSUPPORTED_METHOD_ATTRIBUTE)?;
        if modifier == ArInfo::MODIFIER {
            Ok(adaptive)
        } else {
            Err(Status::INVALID_FIELD)
        }
    }

    pub(super) fn get_ar_info(&mut self, modifier: u32, data: &mut Data) -> Handled {
        *data = *self.adaptive(modifier)?.info.as_data();
        Ok(())
    }

    pub(super) fn set_ar_info(&mut self, modifier: u32, data: &mut Data) -> Handled {
        let adaptive = self.adaptive(modifier)?;
        if adaptive.locked {
            return Err(Status::INVALID_FIELD);
        }
        adaptive.info = *ArInfo::from_data(data);
        Ok(())
    }
}
