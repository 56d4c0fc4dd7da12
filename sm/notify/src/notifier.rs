//! Passes events of the daemon to the threads that send them to receivers.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::Mutex;
use rsm_proto::v1;
use tokio::sync::watch;

use crate::filter::{Filter, MasterOnly, SendingRole};
use crate::queue::{Folder, Queue};
use crate::receiver::{Inbox, Status, Worker, WorkerContext};
use crate::report::Report;
use crate::settings::{ReceiverSettings, Settings};
use crate::source::Source;

/// Name of the folder with the queues, in the state folder.
const FOLDER: &str = "notify";

/// Kinds of receivers, in the order of the fields of [`Settings`].
const KINDS: [&str; 3] = ["webhook", "syslog", "otlp"];

/// Sends events to receivers outside the fabric. No method except [`Notifier::stop`] waits for a
/// receiver or a disk.
pub struct Notifier {
    /// Folder of the queues; `None` if events stay in memory.
    queues_dir: Option<PathBuf>,
    source: Source,
    report: Report,
    master_only: Mutex<MasterOnly>,
    /// Receivers in the order of [`KINDS`]; `None` for a receiver that was never configured.
    outlets: Mutex<[Option<Outlet>; 3]>,
}

/// The thread of a receiver, and the channels to it.
struct Outlet {
    /// Filter of the receiver; `None` if the receiver is not configured.
    filter: Option<Filter>,
    /// Address of the receiver; empty if the receiver is not configured.
    address: String,
    inbox: Arc<Inbox>,
    /// Passes settings to the thread; `None` if the receiver is not configured.
    settings: watch::Sender<Option<ReceiverSettings>>,
    status: Arc<Mutex<Status>>,
    thread: JoinHandle<()>,
}

impl Notifier {
    /// Creates a notifier without receivers. [`configure`](Notifier::configure) starts the threads
    /// of configured receivers.
    pub fn new(state_dir: Option<&Path>, source: Source, report: Report) -> Notifier {
        Notifier {
            queues_dir: state_dir.map(|dir| dir.join(FOLDER)),
            source,
            report,
            master_only: Mutex::default(),
            outlets: Mutex::default(),
        }
    }

    /// Uses `settings` from now on. Drops events that wait for a receiver that is no longer
    /// configured. Events that wait for a receiver with a new address go to the new address.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn configure(&self, settings: Settings) -> std::io::Result<()> {
        let mut unused = Vec::new();
        {
            let mut outlets = self.outlets.lock();
            let receiver_settings = [settings.webhook, settings.syslog, settings.otlp];
            for ((kind, outlet), settings) in KINDS
                .into_iter()
                .zip(outlets.iter_mut())
                .zip(receiver_settings)
            {
                match (outlet, settings) {
                    (Some(outlet), settings) => outlet.configure(settings),
                    (outlet @ None, Some(settings)) => *outlet = Some(self.start(kind, settings)?),
                    (None, None) => unused.push(kind),
                }
            }
        }
        // The lock is not held here: the disk may hang, and no event must wait for the disk.
        for kind in unused {
            self.remove_queue(kind);
        }
        Ok(())
    }

    /// Passes events, in order, to the receivers whose filter they pass. This manager had role
    /// `role` when the events occurred.
    pub fn put(&self, events: &[Arc<v1::Event>], role: SendingRole) {
        let admitted = self.master_only.lock().admit(events, role);
        for outlet in self.outlets.lock().iter().flatten() {
            let Some(filter) = &outlet.filter else {
                continue;
            };
            let passing = admitted.iter().filter(|event| filter.passes(event));
            let passing: Vec<_> = passing.cloned().collect();
            if !passing.is_empty() {
                outlet.inbox.put(passing.into_iter());
            }
        }
    }

    /// The configured receivers, with counts of events that were sent, wait, or were lost.
    pub fn receivers(&self) -> Vec<v1::EventReceiver> {
        let outlets = self.outlets.lock();
        let kinds = KINDS.into_iter().zip(outlets.iter());
        kinds
            .filter_map(|(kind, outlet)| {
                let outlet = outlet.as_ref().filter(|outlet| outlet.filter.is_some())?;
                let status = outlet.status.lock().clone();
                Some(v1::EventReceiver {
                    kind: kind.to_owned(),
                    address: outlet.address.clone(),
                    sent: status.sent,
                    waiting: status.waiting,
                    lost: status.lost,
                    failing_since_unix_ms: status.failing_since_unix_ms,
                    failure: status.failure,
                })
            })
            .collect()
    }

    /// Ends the threads: each writes its waiting events to the disk, and continues to send them for
    /// at most a second.
    pub fn stop(&self) {
        let outlets = std::mem::take(&mut *self.outlets.lock());
        for outlet in outlets.iter().flatten() {
            outlet.inbox.close();
        }
        for outlet in outlets.into_iter().flatten() {
            if outlet.thread.join().is_err() {
                tracing::error!("a thread that sends events panicked");
            }
        }
    }

    /// Starts the thread of a receiver.
    fn start(&self, kind: &'static str, settings: ReceiverSettings) -> std::io::Result<Outlet> {
        let inbox = Arc::new(Inbox::default());
        let status = Arc::new(Mutex::new(Status::default()));
        let filter = Some(settings.filter.clone());
        let address = settings.target.to_string();
        let (sender, receiver) = watch::channel(Some(settings));
        let context = WorkerContext {
            source: self.source.clone(),
            inbox: inbox.clone(),
            settings: receiver,
            status: status.clone(),
            report: self.report.clone(),
        };
        let folder = self.folder(kind);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let thread = std::thread::Builder::new()
            .name(format!("notify-{kind}"))
            .spawn(move || {
                let worker = Worker::new(kind, folder, context);
                runtime.block_on(worker.run());
                // A name lookup may hang on another thread, for which this thread must not wait.
                runtime.shutdown_background();
            })?;
        Ok(Outlet {
            filter,
            address,
            inbox,
            settings: sender,
            status,
            thread,
        })
    }

    /// Folder of the queue of a receiver; `None` if events stay in memory.
    fn folder(&self, kind: &str) -> Option<Folder> {
        self.queues_dir.as_ref().map(|dir| Folder(dir.join(kind)))
    }

    /// Removes the events of an earlier run for a receiver that is not configured.
    fn remove_queue(&self, kind: &str) {
        let Some(folder) = self.folder(kind) else {
            return;
        };
        // A queue with a bound of zero drops all its events when it is opened.
        let emptied = Queue::open(Some(folder), 0).map(|_| ());
        if let Err(error) = emptied {
            tracing::warn!("events of an earlier run for {kind} cannot be removed: {error}");
        }
    }
}

impl Outlet {
    /// Passes settings to the thread; `None` if the receiver is no longer configured.
    fn configure(&mut self, settings: Option<ReceiverSettings>) {
        self.filter = settings.as_ref().map(|settings| settings.filter.clone());
        self.address = settings
            .as_ref()
            .map_or_else(String::new, |settings| settings.target.to_string());
        self.settings.send_if_modified(|present| {
            let is_changed = *present != settings;
            *present = settings;
            is_changed
        });
    }
}
