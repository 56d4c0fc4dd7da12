//! Gets the NodeInfo of the node at the end of a directed path, through the local MAD device.
//!
//! ```text
//! cargo run -p rsm-mad --example smp_get -- 0          # this node
//! cargo run -p rsm-mad --example smp_get -- 0,1        # its neighbour
//! cargo run -p rsm-mad --example smp_get -- 0,1 20000  # as fast as possible, 64 in flight
//! cargo run -p rsm-mad --example smp_get -- --sm 0     # with IsSM set meanwhile
//! cargo run -p rsm-mad --example smp_get -- --list
//! ```

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool"
)]
#![allow(clippy::disallowed_methods, reason = "a command line tool")]

use std::error::Error;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use rsm_ids::PortNum;
use rsm_mad::Time;
use rsm_mad::client::{Client, ClientConfig, Completion, Handled, Request};
use rsm_mad::ids::DirectedPath;
use rsm_mad::transport::umad::{self, UmadSelector, UmadTransport};
use rsm_mad::transport::{Inbound, SendFailure, Transport};
use rsm_mad::wire::attr::{Attribute, NodeInfo};
use rsm_mad::wire::header::AttrId;
use rsm_mad::wire::smp::Smp;

const WINDOW: u32 = 64;

/// The capacity of the channel of received datagrams: more datagrams than ever wait at one time.
const INBOUND: usize = 1024;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("smp_get: {error}");
            let mut cause = error.source();
            while let Some(error) = cause {
                eprintln!("  because: {error}");
                cause = error.source();
            }
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        for port in umad::list_ports()? {
            println!("{port:?}");
        }
        return Ok(());
    }
    let argument_count = arguments.len();
    arguments.retain(|argument| argument != "--sm");
    let as_sm = arguments.len() < argument_count;
    let path = parse_path(arguments.first().map_or("0", String::as_str))?;
    let count = arguments.get(1).map_or(Ok(1), |count| count.parse())?;

    let (sender, inbound) = sync_channel(INBOUND);
    let sink = Box::new(move |event| {
        // Sending fails only when the receiver was dropped, at the end of the program.
        let _ = sender.send(event);
    });
    let transport = umad::open(&UmadSelector::default(), sink)?;
    let mut driver = Driver::new(transport, inbound);
    driver.transport.set_is_sm(as_sm)?;
    driver.run(path, count)
}

fn parse_path(text: &str) -> Result<DirectedPath, Box<dyn Error>> {
    let ports: Result<Vec<PortNum>, _> = text
        .split(',')
        .skip(1)
        .map(|port| port.parse().map(PortNum))
        .collect();
    Ok(DirectedPath::from_hops(&ports?)?)
}

/// Drives the client with the clock and with the datagrams of the channel.
struct Driver {
    transport: UmadTransport,
    inbound: Receiver<Inbound>,
    client: Client<()>,
    start: Instant,
}

impl Driver {
    fn new(transport: UmadTransport, inbound: Receiver<Inbound>) -> Driver {
        let config = ClientConfig {
            initial_window: WINDOW,
            max_window: WINDOW,
            target_cap: WINDOW as u16,
            ..ClientConfig::default()
        };
        Driver {
            transport,
            inbound,
            client: Client::new(config),
            start: Instant::now(),
        }
    }

    fn now(&self) -> Time {
        Time::ZERO + self.start.elapsed()
    }

    fn run(&mut self, path: DirectedPath, count: u32) -> Result<(), Box<dyn Error>> {
        let (mut submitted, mut completed) = (0, 0);
        let start = Instant::now();
        while completed < count {
            while submitted < count && submitted - completed < 2 * WINDOW {
                let request = Request::get(0, path, AttrId::NODE_INFO, 0, ());
                self.client
                    .submit(request)
                    .map_err(|full| full.to_string())?;
                submitted += 1;
            }
            self.transmit();
            for completion in self.wait()? {
                completed += 1;
                let response = completion.outcome?;
                if count == 1 {
                    let info = NodeInfo::from_data(&response.data);
                    println!("{path} {} {info:?}", response.status);
                }
            }
        }
        if count > 1 {
            let rate = f64::from(count) / start.elapsed().as_secs_f64();
            println!("{rate:.0} a second, {:?}", self.client.stats());
        }
        Ok(())
    }

    fn transmit(&mut self) {
        while let Some(transmit) = self.client.poll_transmit(self.now()) {
            if let Err(error) = self.transport.send(&transmit.datagram, transmit.timeout) {
                println!("{error}");
                let tid = Smp::from_bytes(&transmit.datagram.mad).header().tid();
                let now = self.now();
                self.client
                    .handle_send_failed(tid, SendFailure::Other(0), now);
            }
        }
    }

    /// Waits for an event or the next deadline, and handles all events.
    fn wait(&mut self) -> Result<Vec<Completion<()>>, Box<dyn Error>> {
        let mut completions = Vec::new();
        let deadline = self.client.next_deadline().unwrap_or(Time::MAX);
        let mut next = self.inbound.recv_timeout(deadline.since(self.now()));
        while let Ok(inbound) = next {
            let now = self.now();
            match inbound {
                Inbound::Mad(datagram) => {
                    if let Handled::Completed(completion) = self.client.handle(&datagram.mad, now) {
                        completions.push(completion);
                    }
                }
                Inbound::SendFailed { tid, kind, .. } => {
                    self.client.handle_send_failed(tid, kind, now);
                }
                Inbound::Port(event) => println!("{event:?}"),
            }
            next = self.inbound.recv_timeout(Duration::ZERO);
        }
        if next == Err(RecvTimeoutError::Disconnected) {
            return Err("the receive thread ended".into());
        }
        self.client.handle_deadline(self.now());
        completions.extend(std::iter::from_fn(|| self.client.poll_completion()));
        Ok(completions)
    }
}
