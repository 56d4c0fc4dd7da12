//! Shows progress on a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use rsm_core::Core;
use rsm_state::Activity;

/// Shows the current stage on standard error.
pub(super) struct ProgressDisplay {
    bar: ProgressBar,
}

impl ProgressDisplay {
    pub(super) fn new() -> ProgressDisplay {
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
            bar.set_style(style);
        }
        ProgressDisplay { bar }
    }

    pub(super) fn show(&mut self, core: &Core) {
        let message = match core.activity() {
            Activity::Idle => {
                self.bar.finish_and_clear();
                return;
            }
            Activity::Sweeping {
                nodes,
                settled,
                open,
            } => format!(
                "sweeping: {nodes} nodes found, {settled} of {} questions answered so far",
                settled + open
            ),
            Activity::Planning => "planning".to_owned(),
            Activity::Pushing { done, expected } => {
                format!("pushing: {done} of about {expected} Sets acknowledged")
            }
        };
        if self.bar.is_finished() {
            self.bar.reset();
        }
        self.bar.set_message(message);
        self.bar.tick();
    }
}
