//! Shows progress on a terminal.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use rsm_core::Core;
use rsm_state::Activity;
use tokio::runtime::Handle;
use tokio::sync::watch;

/// Maximum time that the end of the display waits for the terminal.
const LAST_DRAWING: Duration = Duration::from_secs(1);

/// Shows the current stage on standard error. A separate thread draws, because a stopped terminal
/// accepts no output until it continues.
pub(super) struct ProgressDisplay {
    /// Stage to show; `None` while the display ends.
    stage: Option<watch::Sender<Activity>>,
    /// Disconnected once the thread has drawn for the last time.
    end: mpsc::Receiver<()>,
}

impl ProgressDisplay {
    /// Starts the thread that draws, if the terminal shows progress. Must be called within a
    /// runtime.
    pub(super) fn start(is_shown: bool) -> std::io::Result<Option<ProgressDisplay>> {
        if !is_shown {
            return Ok(None);
        }
        let (stage, mut shown) = watch::channel(Activity::Idle);
        let (ended, end) = mpsc::channel::<()>();
        let runtime = Handle::current();
        let drawing = thread::Builder::new().name("progress".to_owned());
        drawing.spawn(move || {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
                bar.set_style(style);
            }
            while runtime.block_on(shown.changed()).is_ok() {
                let stage = *shown.borrow_and_update();
                draw(&bar, stage);
            }
            bar.finish_and_clear();
            drop(ended);
        })?;
        let stage = Some(stage);
        Ok(Some(ProgressDisplay { stage, end }))
    }

    /// Shows the stage of `core`; never waits for the terminal.
    pub(super) fn show(&self, core: &Core) {
        let activity = core.activity();
        if let Some(stage) = &self.stage {
            stage.send_if_modified(|shown| std::mem::replace(shown, activity) != activity);
        }
    }
}

impl Drop for ProgressDisplay {
    fn drop(&mut self) {
        self.stage = None;
        // Both a timeout and the thread's end mean that the display can end.
        let _ = self.end.recv_timeout(LAST_DRAWING);
    }
}

/// Draws a stage; clears the display if nothing is under way.
fn draw(bar: &ProgressBar, stage: Activity) {
    let message = match stage {
        Activity::Idle => {
            bar.finish_and_clear();
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
    if bar.is_finished() {
        bar.reset();
    }
    bar.set_message(message);
    bar.tick();
}
