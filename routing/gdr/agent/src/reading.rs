//! Reads the host on a thread that may hang.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rsm_gdr::inventory::HostInventory;
use rsm_probe::{NvmlSource, ProbeError, ProbeSettings};

use crate::arguments::Arguments;
use crate::note;

/// The time that /sys may take beside the drivers: an attribute of an adapter may ask its firmware.
const SYS_LIMIT: Duration = Duration::from_secs(30);

/// Programs that one reading runs at most, one after the other.
const PROGRAMS: u32 = 3;

/// The result of a reading of the host.
pub(crate) enum Outcome {
    /// The host.
    Host(Box<HostInventory>),
    /// No GPU host: nothing to report.
    Nothing(String),
    /// The host could not be read.
    Failed(String),
}

/// Reads the host. A reading that hangs is left behind: its thread ends when the kernel lets it.
pub(crate) fn read(arguments: &Arguments) -> Outcome {
    let settings = settings(arguments);
    let limit = SYS_LIMIT + settings.limit * PROGRAMS;
    let (sender, receiver) = mpsc::channel();
    let started = thread::Builder::new().spawn(move || {
        // After the time-out no receiver is left.
        let _ = sender.send(rsm_probe::read(&settings));
    });
    if let Err(error) = started {
        return Outcome::Failed(format!("no thread to read the host: {error}"));
    }
    let reading = match receiver.recv_timeout(limit) {
        Ok(Ok(reading)) => reading,
        Ok(Err(error @ ProbeError::Nothing { .. })) => return Outcome::Nothing(error.to_string()),
        Ok(Err(error)) => return Outcome::Failed(error.to_string()),
        Err(_) => {
            let sys = arguments.sys.display();
            return Outcome::Failed(format!(
                "{sys} was not read within {limit:?}: a driver may hang"
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
