//! An HTTP/1.1 client with one request per connection.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::clock::now;

/// The maximum time from the connection to the end of the answer, however many bytes arrive
/// meanwhile.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// An answer from a server.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status; 0 if the connection ended without an answer.
    pub status: u16,
    /// The headers, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, with chunks joined.
    pub body: Vec<u8>,
}

impl Answer {
    /// The first header with this name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON; null if it is not JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// Sends a GET request for a path.
#[must_use]
pub fn get(address: &str, path: &str) -> Answer {
    get_with(address, path, &[("host", address)])
}

/// Sends a GET request for a path with exactly the headers `headers`.
#[must_use]
pub fn get_with(address: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
    let mut request = format!("GET {path} HTTP/1.1\r\nconnection: close\r\n");
    for (name, value) in headers {
        request += &format!("{name}: {value}\r\n");
    }
    exchange(address, format!("{request}\r\n").as_bytes())
}

/// Sends bytes, and reads the answer until the server closes the connection, has sent the announced
/// length, or [`TIME_LIMIT`] has passed since the connection.
#[must_use]
pub fn exchange(address: &str, bytes: &[u8]) -> Answer {
    exchange_within(TIME_LIMIT, address, bytes)
}

/// Exchanges like [`exchange`], within `limit`.
fn exchange_within(limit: Duration, address: &str, bytes: &[u8]) -> Answer {
    let mut read = Vec::new();
    if let Ok(stream) = TcpStream::connect(address) {
        let mut stream = Timed {
            stream,
            deadline: now() + limit,
        };
        // If the server closes early, the rest of the request cannot be sent; the received bytes
        // are the answer.
        let _ = stream.write_all(bytes);
        let mut buffer = [0; 64 * 1024];
        while !is_whole(&read) {
            match stream.read(&mut buffer) {
                Ok(length @ 1..) => read.extend_from_slice(&buffer[..length]),
                Ok(0) | Err(_) => break,
            }
        }
    }
    parse(&read)
}

/// A connection that fails with [`io::ErrorKind::TimedOut`] after its deadline.
struct Timed {
    stream: TcpStream,
    deadline: Instant,
}

impl Timed {
    /// The time that is left.
    fn left(&self) -> io::Result<Duration> {
        let left = self.deadline.saturating_duration_since(now());
        match left.is_zero() {
            true => Err(io::ErrorKind::TimedOut.into()),
            false => Ok(left),
        }
    }
}

impl io::Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        self.stream.read(buffer)
    }
}

impl io::Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// The length of the head of an answer, without the empty line after it; `None` while the head is
/// incomplete.
fn head_end(read: &[u8]) -> Option<usize> {
    read.windows(4).position(|four| four == b"\r\n\r\n")
}

/// Whether the whole announced length has arrived; false for an answer that announces no length.
fn is_whole(read: &[u8]) -> bool {
    // The head is short, so the search for its end is limited: a search in everything received
    // would be slow for long bodies.
    let Some(end) = head_end(&read[..read.len().min(16 * 1024)]) else {
        return false;
    };
    let length = parse(&read[..end + 4]);
    let length = length
        .header("content-length")
        .and_then(|length| length.parse::<usize>().ok());
    length.is_some_and(|length| read.len() >= end + 4 + length)
}

/// Parses an answer as far as it has arrived.
fn parse(read: &[u8]) -> Answer {
    let end = head_end(read).unwrap_or(read.len());
    let head = String::from_utf8_lossy(&read[..end]);
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1));
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let body = read.get(end + 4..).unwrap_or_default();
    let mut answer = Answer {
        status: status.and_then(|status| status.parse().ok()).unwrap_or(0),
        headers,
        body: Vec::new(),
    };
    answer.body = match answer.header("transfer-encoding") {
        Some("chunked") => chunks(body),
        _ => body.to_vec(),
    };
    answer
}

/// Joins the chunks of a body that have been received.
fn chunks(mut body: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(line) = body.windows(2).position(|two| two == b"\r\n") {
        let size = std::str::from_utf8(&body[..line]).ok();
        let size = size.and_then(|size| usize::from_str_radix(size, 16).ok());
        let Some(chunk) = size.and_then(|size| body.get(line + 2..line + 2 + size)) else {
            break;
        };
        whole.extend_from_slice(chunk);
        body = body.get(line + 4 + chunk.len()..).unwrap_or_default();
    }
    whole
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_server_that_sends_a_byte_at_a_time_ends_the_exchange_at_the_deadline() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // The client has gone once a write fails; forty bytes at most keep a wrong client from
            // holding the test.
            let sent = (0..40).take_while(|_| {
                std::thread::sleep(Duration::from_millis(50));
                stream.write_all(b"x").is_ok()
            });
            sent.count()
        });
        let begun = now();
        let limit = Duration::from_millis(300);
        let answer = exchange_within(limit, &address, b"GET / HTTP/1.1\r\n\r\n");
        let took = now() - begun;
        assert_eq!(answer.status, 0);
        assert!((limit..4 * limit).contains(&took), "{took:?}");
        assert!(server.join().unwrap() < 40);
    }
}
