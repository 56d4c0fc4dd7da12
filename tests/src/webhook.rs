//! A webhook that receives the events of managers, and keeps the order of their arrival.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use parking_lot::Mutex;
use serde_json::Value;

/// A webhook on this machine. Its thread ends with the process.
#[derive(Clone)]
pub struct Webhook {
    address: SocketAddr,
    events: Arc<Mutex<Vec<Value>>>,
}

impl Webhook {
    /// Starts a webhook that answers each request with 200.
    ///
    /// # Errors
    ///
    /// No port to listen at is free.
    pub fn start() -> std::io::Result<Webhook> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let webhook = Webhook {
            address: listener.local_addr()?,
            events: Arc::default(),
        };
        let serving = webhook.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let serving = serving.clone();
                // A killed manager leaves an incomplete request, which is an error here.
                thread::spawn(move || drop(serving.answer(stream)));
            }
        });
        Ok(webhook)
    }

    /// The URL of the webhook.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// The events so far, as `docs/operating.md` shows them.
    #[must_use]
    pub fn events(&self) -> Vec<Value> {
        self.events.lock().clone()
    }

    /// Answers the requests of a connection until its end.
    fn answer(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut stream = BufReader::new(stream);
        loop {
            let mut length = 0;
            loop {
                let mut line = String::new();
                if stream.read_line(&mut line)? == 0 {
                    return Ok(());
                }
                let line = line.trim().to_lowercase();
                if let Some(text) = line.strip_prefix("content-length: ") {
                    length = text.parse().map_err(std::io::Error::other)?;
                }
                if line.is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body)?;
            let body: Value = serde_json::from_slice(&body)?;
            let events = body["events"].as_array().cloned().unwrap_or_default();
            self.events.lock().extend(events);
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
            stream.get_mut().write_all(answer)?;
        }
    }
}
