use parking_lot::Mutex;
use rsm_ids::{Guid, Lid, PortNum};

use super::*;
use crate::transport::{Filled, LocalPort, Records, Source};
use crate::wire::attr::PortState;
use crate::wire::header::Method;
use crate::wire::rmpp::RmppHeader;
use zerocopy::FromBytes as _;

/// A port that does RMPP and records the messages sent.
#[derive(Default)]
struct Kernel {
    sent: Mutex<Vec<Vec<u8>>>,
}

impl SaPort for Kernel {
    fn does_rmpp(&self) -> bool {
        true
    }

    fn send(&self, bytes: &[u8], _: &RemoteAddress, _: Duration) -> Result<(), SendError> {
        self.sent.lock().push(bytes.to_vec());
        Ok(())
    }

    fn local_port(&self) -> LocalPort {
        LocalPort {
            ca: "kernel".to_owned(),
            port: PortNum(1),
            node_guid: Guid::ZERO,
            port_guid: Guid::ZERO,
            lid: Lid(1),
            sm_lid: Lid(1),
            state: PortState::Active,
        }
    }
}

fn headers() -> [u8; SA_HEADER_LEN] {
    let mut headers = [0; SA_HEADER_LEN];
    headers[3] = Method::GET_TABLE_RESPONSE.0;
    headers
}

fn streamed(data: Box<dyn Source>) -> Outgoing {
    Outgoing::Streamed(Streamed {
        header: headers(),
        data,
        remote: RemoteAddress::gsi(Lid(2), 0),
    })
}

fn messenger_over_kernel() -> (Arc<Kernel>, Messenger) {
    let kernel = Arc::new(Kernel::default());
    let port = Arc::clone(&kernel) as Arc<dyn SaPort>;
    (kernel, Messenger::new(port, RmppConfig::default()))
}

#[test]
fn a_transport_that_does_rmpp_is_given_whole_messages() {
    let (kernel, mut messenger) = messenger_over_kernel();
    let records: Vec<[u8; 64]> = (0..1000u32).map(|number| [number as u8; 64]).collect();
    let data = Box::new(Records::new(records.clone().into_iter()));
    let now = Time::ZERO;
    messenger.send(streamed(data), Duration::ZERO, now).unwrap();
    while messenger.transmit(1, now).unwrap() == Left::More {
        assert_eq!(kernel.sent.lock().len(), 0);
    }
    let sent = kernel.sent.lock().pop().unwrap();
    assert_eq!(sent[SA_HEADER_LEN..], *records.concat());
    let (rmpp, _) = RmppHeader::ref_from_prefix(&sent[24..]).unwrap();
    assert_eq!(rmpp.flags(), RmppFlags::ACTIVE | RmppFlags::FIRST);
    assert_eq!((rmpp.segment_number(), rmpp.payload_length()), (1, 70_400));

    let (bytes, remote) = (headers().to_vec(), RemoteAddress::gsi(Lid(2), 0));
    let short = Message { bytes, remote };
    messenger.send(short, Duration::ZERO, now).unwrap();
    assert_eq!(kernel.sent.lock().pop().unwrap().len(), MAD_LEN);

    let mad = [7; MAD_LEN];
    messenger
        .send_datagram(&mad, &remote, Duration::ZERO, now)
        .unwrap();
    assert_eq!(kernel.sent.lock().pop().unwrap(), mad);
}

/// A source that fills any room and never ends.
struct Endless;

impl Source for Endless {
    fn fill(&mut self, room: &mut [u8]) -> Filled {
        Filled {
            bytes: room.len(),
            ended: false,
        }
    }

    fn remaining(&self) -> Option<u64> {
        None
    }
}

#[test]
fn a_stream_beyond_the_longest_message_returns_too_long() {
    let (kernel, mut messenger) = messenger_over_kernel();
    let now = Time::ZERO;
    messenger
        .send(streamed(Box::new(Endless)), Duration::ZERO, now)
        .unwrap();
    while messenger.transmit(64, now).unwrap() == Left::More {}
    let Some(Delivery::TooLong { header, remote }) = messenger.poll() else {
        panic!("the message was sent");
    };
    assert_eq!((header, remote.lid), (headers(), Lid(2)));
    assert!(kernel.sent.lock().is_empty());
    // No message remains under construction.
    let RmppMode::Transport {
        partial_messages,
        partial_bytes,
    } = &messenger.mode
    else {
        unreachable!("the transport does RMPP");
    };
    assert_eq!((partial_messages.len(), *partial_bytes), (0, 0));
}

#[test]
fn messages_under_construction_for_one_lid_are_limited() {
    let (_, mut messenger) = messenger_over_kernel();
    let mut send = || messenger.send(streamed(Box::new(Endless)), Duration::ZERO, Time::ZERO);
    for _ in 0..MAX_PARTIAL_MESSAGES[1] {
        send().unwrap();
    }
    assert!(matches!(send(), Err(NotSent::Refused(Refused::ClientFull))));
}
