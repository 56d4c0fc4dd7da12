//! Sends messages to a syslog daemon.

use std::io;

use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpStream, UdpSocket, UnixDatagram};

use super::Outcome;
use crate::settings::SyslogTarget;
use crate::source::{Record, Source};
use crate::syslog::{DATAGRAM_MAX, STREAM_MAX, frame, local_message, message};

/// A syslog daemon, and the connection to it.
pub(crate) struct Syslog {
    address: SyslogTarget,
    facility: u8,
    source: Source,
    connection: Option<Connection>,
}

/// Connection to a syslog daemon.
enum Connection {
    Udp(UdpSocket),
    Tcp(TcpStream),
    Local(UnixDatagram),
}

impl Syslog {
    /// Creates a sender without a connection.
    pub(super) fn new(address: SyslogTarget, facility: u8, source: Source) -> Syslog {
        Syslog {
            address,
            facility,
            source,
            connection: None,
        }
    }

    /// Sends records, and connects first if there is no connection.
    pub(super) async fn send(&mut self, records: &[Record]) -> Outcome {
        match self.try_send(records).await {
            Ok(()) => Outcome::TAKEN,
            Err(error) => {
                self.connection = None;
                Outcome::failed(error)
            }
        }
    }

    /// Sends records; after an error, the connection is unusable.
    async fn try_send(&mut self, records: &[Record]) -> io::Result<()> {
        if let Some(Connection::Tcp(stream)) = &self.connection
            && is_closed(stream)
        {
            self.connection = None;
        }
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => connect(&self.address).await?,
        };
        let connection = self.connection.insert(connection);
        match connection {
            Connection::Udp(socket) => {
                for record in records {
                    let text = message(&self.source, self.facility, &record.event, DATAGRAM_MAX);
                    if let Some(text) = text {
                        socket.send(&text).await?;
                    }
                }
            }
            Connection::Tcp(stream) => {
                let messages = records.iter().filter_map(|record| {
                    message(&self.source, self.facility, &record.event, STREAM_MAX)
                });
                let frames: Vec<u8> = messages.flat_map(|message| frame(&message)).collect();
                stream.write_all(&frames).await?;
                stream.flush().await?;
            }
            Connection::Local(socket) => {
                for record in records {
                    let text = local_message(self.facility, &record.event, STREAM_MAX);
                    if let Some(text) = text {
                        socket.send(&text).await?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Connects to a syslog daemon.
async fn connect(address: &SyslogTarget) -> io::Result<Connection> {
    Ok(match address {
        SyslogTarget::Udp(host, port) => {
            let mut addresses = tokio::net::lookup_host((host.as_str(), *port)).await?;
            let no_address = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
            let address = addresses.next().ok_or_else(no_address)?;
            let local = if address.is_ipv4() {
                "0.0.0.0:0"
            } else {
                "[::]:0"
            };
            let socket = UdpSocket::bind(local).await?;
            socket.connect(address).await?;
            Connection::Udp(socket)
        }
        SyslogTarget::Tcp(host, port) => {
            Connection::Tcp(TcpStream::connect((host.as_str(), *port)).await?)
        }
        SyslogTarget::Local(path) => {
            let socket = UnixDatagram::unbound()?;
            socket.connect(path)?;
            Connection::Local(socket)
        }
    })
}

/// Returns whether the daemon has closed the stream. A syslog daemon never writes, so anything
/// readable is the end of the stream or an error.
fn is_closed(stream: &TcpStream) -> bool {
    let mut byte = [0];
    match stream.try_read(&mut byte) {
        Ok(read) => read == 0,
        Err(error) => error.kind() != io::ErrorKind::WouldBlock,
    }
}
