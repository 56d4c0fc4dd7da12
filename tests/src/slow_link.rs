//! A TCP proxy in front of a server, which delays the server's answers and can be cut.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::clock::Stopwatch;

/// The maximum number of bytes in one read.
const BUFFER: usize = 64 * 1024;

/// The interval at which the proxy checks for a new client, and for its own end.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// The proxy. Dropping the proxy ends its connections.
#[derive(Debug)]
pub struct SlowLink {
    address: SocketAddr,
    state: Arc<State>,
}

/// State that the proxy shares with its threads.
#[derive(Debug)]
struct State {
    /// The delay of the server's answers.
    delay_ms: AtomicU64,
    is_cut: AtomicBool,
    is_dropped: AtomicBool,
    /// Both streams of every connection since the last cut, to the client and to the server.
    streams: Mutex<Vec<TcpStream>>,
}

impl SlowLink {
    /// Starts a proxy in front of the server at `server`, without a delay.
    ///
    /// # Errors
    /// No port is free.
    pub fn start(server: SocketAddr) -> std::io::Result<SlowLink> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let state = Arc::new(State {
            delay_ms: AtomicU64::new(0),
            is_cut: AtomicBool::new(false),
            is_dropped: AtomicBool::new(false),
            streams: Mutex::default(),
        });
        let shared = state.clone();
        std::thread::spawn(move || {
            while !shared.is_dropped.load(Ordering::Relaxed) {
                match listener.accept() {
                    // While the link is cut, a client that connects is refused at once.
                    Ok((client, _)) if !shared.is_cut.load(Ordering::Relaxed) => {
                        // If the server refuses the connection, the client's connection ends too.
                        drop(connect(client, server, &shared));
                    }
                    Ok(_) => {}
                    Err(_) => std::thread::sleep(CHECK_INTERVAL),
                }
            }
        });
        Ok(SlowLink { address, state })
    }

    /// The address of the proxy.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Delays all further answers by `delay`.
    pub fn set_delay(&self, delay: Duration) {
        let delay = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        self.state.delay_ms.store(delay, Ordering::Relaxed);
    }

    /// Cuts or restores the link: cutting ends all connections and refuses new ones.
    pub fn set_cut(&self, is_cut: bool) {
        self.state.is_cut.store(is_cut, Ordering::Relaxed);
        if is_cut {
            self.state.close_all();
        }
    }
}

impl Drop for SlowLink {
    fn drop(&mut self) {
        self.state.is_dropped.store(true, Ordering::Relaxed);
        self.state.close_all();
    }
}

impl State {
    fn close_all(&self) {
        for stream in self.streams.lock().drain(..) {
            // The stream may be closed already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// Connects a client to the server, with one thread for each direction.
fn connect(client: TcpStream, server: SocketAddr, state: &Arc<State>) -> std::io::Result<()> {
    client.set_nonblocking(false)?;
    let server = TcpStream::connect(server)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let ends = [client.try_clone()?, server.try_clone()?];
    state.streams.lock().extend(ends);
    let (from, to) = (client.try_clone()?, server.try_clone()?);
    std::thread::spawn(move || forward(from, to));
    let state = state.clone();
    std::thread::spawn(move || forward_delayed(server, client, &state));
    Ok(())
}

/// Forwards bytes until one end closes.
fn forward(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = vec![0; BUFFER];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

/// Forwards the server's bytes, each with the delay that applied when the byte arrived. Delays do
/// not add up: several answers in flight each take the delay once.
fn forward_delayed(mut from: TcpStream, mut to: TcpStream, state: &State) {
    let watch = Stopwatch::start();
    let (sender, receiver) = mpsc::channel::<(Duration, Vec<u8>)>();
    let writer = std::thread::spawn(move || {
        while let Ok((deadline, bytes)) = receiver.recv() {
            std::thread::sleep(deadline.saturating_sub(watch.elapsed()));
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
    let mut buffer = vec![0; BUFFER];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let delay = Duration::from_millis(state.delay_ms.load(Ordering::Relaxed));
        let deadline = watch.elapsed() + delay;
        if sender.send((deadline, buffer[..length].to_vec())).is_err() {
            break;
        }
    }
    drop(sender);
    let _ = writer.join();
}
