//! Reads the host on a thread that may hang.

use std::io;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rsm_gdr::inventory::HostInventory;
use rsm_probe::{NvmlSource, ProbeError, ProbeSettings, Reading};

use crate::arguments::Arguments;
use crate::console::note;

/// The time that reading /sys may take beside the drivers: an attribute of an adapter may query
/// firmware.
const SYS_LIMIT: Duration = Duration::from_secs(30);

/// The maximum number of programs that one reading runs, one after the other.
const PROGRAMS: u32 = 3;

/// The result of a reading of the host.
pub(crate) enum Outcome {
    /// The inventory of the host.
    Host(Box<HostInventory>),
    /// The host is not a GPU host, so there is nothing to report.
    Nothing(String),
    /// The host could not be read; the text is the reason.
    Failed(String),
}

/// Starts readings, one at a time.
#[derive(Default)]
pub(crate) struct Reader {
    readings: Bounded<Result<Reading, ProbeError>>,
}

impl Reader {
    /// Reads the host. A reading that hangs is abandoned: its thread ends when the kernel releases
    /// it, and no other reading starts before.
    pub(crate) fn read(&mut self, arguments: &Arguments) -> Outcome {
        let settings = settings(arguments);
        let limit = SYS_LIMIT + settings.limit * PROGRAMS;
        let sys = arguments.sys.display();
        let job = move || rsm_probe::read(&settings);
        let reading = match self.readings.within(limit, job) {
            Ok(Ok(reading)) => reading,
            Ok(Err(error @ ProbeError::NoDevices { .. })) => {
                return Outcome::Nothing(error.to_string());
            }
            Ok(Err(error)) => return Outcome::Failed(error.to_string()),
            Err(NoResult::NoThread(error)) => {
                return Outcome::Failed(format!("no thread to read the host: {error}"));
            }
            Err(NoResult::Hangs) => {
                return Outcome::Failed(format!(
                    "{sys} was not read within {limit:?}: a driver may hang"
                ));
            }
            Err(NoResult::StillHangs) => {
                return Outcome::Failed(format!(
                    "{sys} is not read: an earlier reading hangs, and no other starts before it ends"
                ));
            }
        };
        reading.notes.iter().for_each(|text| note(text));
        match reading.inventory.gpus.is_empty() && !arguments.without_gpus {
            true => {
                Outcome::Nothing("no GPU here: nothing to report without --without-gpus".to_owned())
            }
            false => Outcome::Host(Box::new(reading.inventory)),
        }
    }
}

/// Runs jobs on a separate thread, at most one at any time.
struct Bounded<T> {
    /// The receiver for the result of a job that hangs.
    hanging: Option<mpsc::Receiver<T>>,
}

/// The reason why a job has no result.
#[derive(Debug)]
enum NoResult {
    /// The thread could not be started.
    NoThread(io::Error),
    /// The job has not ended within its time.
    Hangs,
    /// The job has not begun, because an earlier one still hangs.
    StillHangs,
}

impl<T> Default for Bounded<T> {
    fn default() -> Bounded<T> {
        Bounded { hanging: None }
    }
}

impl<T: Send + 'static> Bounded<T> {
    /// Runs a job, and returns its result if it ends in time. The late result of an earlier job is
    /// dropped.
    fn within(
        &mut self,
        limit: Duration,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NoResult> {
        if let Some(hanging) = &self.hanging
            && let Err(mpsc::TryRecvError::Empty) = hanging.try_recv()
        {
            return Err(NoResult::StillHangs);
        }
        self.hanging = None;
        let (sender, receiver) = mpsc::channel();
        thread::Builder::new()
            .spawn(move || {
                // Sending fails only after an abandoned receiver is dropped.
                let _ = sender.send(job());
            })
            .map_err(NoResult::NoThread)?;
        receiver.recv_timeout(limit).map_err(|_| {
            self.hanging = Some(receiver);
            NoResult::Hangs
        })
    }
}

/// The settings of a reading; the agent itself is the program that calls NVML.
fn settings(arguments: &Arguments) -> ProbeSettings {
    let nvml = match (arguments.nvml.to_str(), std::env::current_exe()) {
        (Some("off"), _) => NvmlSource::Off,
        (_, Ok(program)) => NvmlSource::Program(vec![
            program.into_os_string(),
            "nvml".into(),
            arguments.nvml.clone(),
        ]),
        (_, Err(error)) => {
            note(&format!(
                "NVML is not asked: this program has no path: {error}"
            ));
            NvmlSource::Off
        }
    };
    ProbeSettings {
        sys: arguments.sys.clone(),
        nvml,
        tools: arguments.tools.clone().unwrap_or_default(),
        limit: arguments.limit(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn no_other_job_starts_while_one_hangs() {
        let mut jobs = Bounded::default();
        let begun = Arc::new(AtomicUsize::new(0));
        let (release, gate) = mpsc::channel::<()>();
        let count = begun.clone();
        let hanging = move || {
            count.fetch_add(1, Ordering::Relaxed);
            // Ends as soon as the other end is gone.
            gate.recv().is_ok()
        };
        let short = Duration::from_millis(10);
        let first = jobs.within(short, hanging);
        assert!(matches!(first, Err(NoResult::Hangs)), "{first:?}");
        for _ in 0..100 {
            let count = begun.clone();
            let other = jobs.within(short, move || count.fetch_add(1, Ordering::Relaxed) > 0);
            assert!(matches!(other, Err(NoResult::StillHangs)), "{other:?}");
        }
        assert_eq!(begun.load(Ordering::Relaxed), 1);
        drop(release);
        let long = Duration::from_secs(60);
        // The first job ends at some time, and its late result is not that of the next job.
        let next = loop {
            match jobs.within(long, || true) {
                Err(NoResult::StillHangs) => thread::yield_now(),
                next => break next,
            }
        };
        assert!(matches!(next, Ok(true)), "{next:?}");
    }
}
