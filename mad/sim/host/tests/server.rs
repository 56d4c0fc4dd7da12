//! Tests of the server with clients that keep the protocol and clients that break it.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::ids::{DirectedPath, Tid};
use rsm_mad::wire::attr::{Attribute, CapabilityMask, NodeInfo, PortInfo};
use rsm_mad::wire::header::{AttrId, Method};
use rsm_mad::wire::smp::{Smp, SmpRequest};
use rsm_routing::generate;
use rsm_sim::live::{self, SimHandle};
use rsm_sim::{Sim, SimConfig};
use rsm_sim_host::abi::{ENABLE_PKEY, HEADER_LEN, REGISTER_AGENT, RegisterRequest, UserMadHeader};
use rsm_sim_host::protocol::{
    ALL_PORTS, ASK_TREE, Answer, Call, Hello, MAX_INLINE, OPEN_ISSM, OPEN_UMAD, Parcel, SHORT,
    VERSION, WRITE, split,
};
use rsm_sim_host::server::{self, HostServer, HostServerOptions, ServerError};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use tempfile::TempDir;
use zerocopy::IntoBytes;

/// The maximum time that a test waits: far longer than any test needs.
const WAIT_LIMIT: Duration = Duration::from_secs(20);

/// A simulated ring of switches with hosts, and the server that offers their devices.
struct Fabric {
    // The fields are dropped in this order: the server removes its files from the directory first.
    server: Option<HostServer>,
    sim: SimHandle,
    hosts: Vec<Guid>,
    socket: PathBuf,
    directory: TempDir,
}

impl Fabric {
    fn new() -> Fabric {
        let netlist = generate::generate("ring:4").unwrap();
        let sim = Sim::new(&netlist, SimConfig::default(), 1).unwrap();
        let hosts: Vec<Guid> = sim
            .end_ports()
            .filter(|(_, port)| port.0 == 1)
            .map(|(guid, _)| guid)
            .collect();
        let sim = live::spawn(sim).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("fabric");
        let options = HostServerOptions {
            socket: socket.clone(),
            node: hosts[0],
        };
        let server = server::serve(sim.clone(), &options).unwrap();
        Fabric {
            server: Some(server),
            sim,
            hosts,
            socket,
            directory,
        }
    }

    fn connect(&self) -> OwnedFd {
        let flags = SocketFlags::CLOEXEC;
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
        let socket = socket.unwrap();
        let address = SocketAddrUnix::new(&self.socket).unwrap();
        rustix::net::connect(&socket, &address).unwrap();
        socket
    }

    /// Sends a Hello for the node `name`. Returns the connection, the error number (0 for success),
    /// and the body of the answer.
    fn ask(&self, hello: &Hello, name: &str) -> (OwnedFd, u32, Vec<u8>) {
        let socket = self.connect();
        send(&socket, &[hello.as_bytes(), name.as_bytes()], None);
        let (packet, _) = receive(&socket).unwrap();
        let (answer, body) = split::<Answer>(&packet).unwrap();
        (socket, answer.errno, body.to_vec())
    }

    /// The folder with the sysfs tree of the node `name`; an empty name is the server's default
    /// node.
    fn tree(&self, name: &str) -> PathBuf {
        let (_, errno, path) = self.ask(&hello(ASK_TREE), name);
        assert_eq!(errno, 0);
        String::from_utf8(path).unwrap().into()
    }

    /// Whether IsSM is set at a host's port.
    fn is_sm(&self, host: usize) -> bool {
        let guid = self.hosts[host];
        let info = self
            .sim
            .with(move |sim| *sim.port_info(guid, PortNum(1)).unwrap());
        info.unwrap()
            .capability_mask()
            .contains(CapabilityMask::IS_SM)
    }
}

/// A Hello for the first device of a node.
fn hello(what: u32) -> Hello {
    Hello {
        version: VERSION,
        what,
        device: 0,
        port: ALL_PORTS,
        nonblocking: 0,
    }
}

fn send(socket: &OwnedFd, parts: &[&[u8]], attached: Option<BorrowedFd<'_>>) {
    let parts: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = attached.map(|descriptor| [descriptor]);
    if let Some(descriptors) = &descriptors {
        assert!(control.push(SendAncillaryMessage::ScmRights(descriptors)));
    }
    rustix::net::sendmsg(socket, &parts, &mut control, SendFlags::NOSIGNAL).unwrap();
}

/// The next packet, with the file that came with it; an empty packet is the end of the connection.
/// `None` if no packet arrives within `limit`.
fn receive_within(socket: &OwnedFd, limit: Duration) -> Option<(Vec<u8>, Option<OwnedFd>)> {
    let mut ready = [PollFd::new(socket, PollFlags::IN)];
    let limit = Timespec::try_from(limit).unwrap();
    if rustix::event::poll(&mut ready, Some(&limit)).unwrap() == 0 {
        return None;
    }
    let mut packet = vec![0; 2 * MAX_INLINE];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let len = match rustix::net::recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut packet)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    ) {
        Ok(message) => message.bytes,
        Err(Errno::CONNRESET) => 0,
        Err(error) => panic!("{error}"),
    };
    let mut attached = None;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            attached = attached.or(descriptors.last());
        }
    }
    packet.truncate(len);
    Some((packet, attached))
}

fn receive(socket: &OwnedFd) -> Option<(Vec<u8>, Option<OwnedFd>)> {
    receive_within(socket, WAIT_LIMIT)
}

fn is_closed(socket: &OwnedFd) -> bool {
    receive(socket).is_some_and(|(packet, _)| packet.is_empty())
}

/// An open device with P_Key indices.
struct Device(OwnedFd);

impl Device {
    /// Opens the first device of the node `name`.
    fn open(fabric: &Fabric, name: &str) -> Device {
        let (socket, errno, _) = fabric.ask(&hello(OPEN_UMAD), name);
        assert_eq!(errno, 0);
        let device = Device(socket);
        assert_eq!(device.control(ENABLE_PKEY, &[]).0, 0);
        device
    }

    fn control(&self, request: u32, argument: &[u8]) -> (u32, Vec<u8>) {
        let (answer_end, server_end) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .unwrap();
        let call = Call {
            what: request,
            len: argument.len() as u32,
        };
        send(
            &self.0,
            &[call.as_bytes(), argument],
            Some(server_end.as_fd()),
        );
        let (packet, _) = receive(&answer_end).unwrap();
        let (answer, body) = split::<Answer>(&packet).unwrap();
        (answer.errno, body.to_vec())
    }

    fn register(&self, class: u8, version: u8, methods: u128, rmpp_version: u8) -> u32 {
        let mut request = RegisterRequest {
            method_mask: methods.to_ne_bytes(),
            qpn: u8::from(class == 3),
            mgmt_class: class,
            mgmt_class_version: version,
            rmpp_version,
            ..RegisterRequest::default()
        };
        let (errno, answer) = self.control(REGISTER_AGENT, request.as_bytes());
        assert_eq!(errno, 0);
        request.as_mut_bytes().copy_from_slice(&answer);
        request.id
    }

    fn write(&self, header: &UserMadHeader, message: &[u8]) {
        let call = Call {
            what: WRITE,
            len: (HEADER_LEN + message.len()) as u32,
        };
        if HEADER_LEN + message.len() <= MAX_INLINE {
            return send(
                &self.0,
                &[call.as_bytes(), header.as_bytes(), message],
                None,
            );
        }
        let file = rustix::fs::memfd_create("m", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let full_message = [header.as_bytes(), message].concat();
        assert_eq!(
            rustix::io::pwrite(&file, &full_message, 0).unwrap(),
            full_message.len()
        );
        send(&self.0, &[call.as_bytes()], Some(file.as_fd()));
    }

    /// Receives a message as `read` does. Returns its header and datagram, and the smallest buffer
    /// in bytes that `read` accepts for it.
    fn read(&self) -> (UserMadHeader, Vec<u8>, u32) {
        let mut received = receive(&self.0).expect("a message is ready to be read");
        let announced = split::<Parcel>(&received.0).unwrap().0.is_announcement();
        if announced {
            received = receive(&self.0).expect("the announced message");
        }
        let (packet, attached) = received;
        let (parcel, inline) = split::<Parcel>(&packet).unwrap();
        let total = parcel.total as usize;
        assert_eq!(announced, total > SHORT);
        let mut full_message = inline.to_vec();
        if total > MAX_INLINE {
            assert_eq!(inline.len(), parcel.min_buffer as usize);
            full_message.resize(total, 0);
            assert_eq!(
                rustix::io::pread(attached.unwrap(), &mut full_message, 0).unwrap(),
                total
            );
        }
        assert_eq!(full_message.len(), total);
        let (header, message) = split::<UserMadHeader>(&full_message).unwrap();
        (header, message.to_vec(), parcel.min_buffer)
    }

    /// Sends a request to the node at the end of a directed route.
    fn ask(&self, id: u32, request: &SmpRequest) {
        let smp = Smp::directed(&DirectedPath::new(), request);
        let header = UserMadHeader {
            id,
            timeout_ms: 10_000,
            lid: Lid::PERMISSIVE.0.into(),
            ..UserMadHeader::default()
        };
        self.write(&header, smp.as_bytes());
    }
}

fn request(method: Method, attribute: AttrId, tid: u64, data: [u8; 64]) -> SmpRequest {
    SmpRequest {
        method,
        attribute,
        modifier: 0,
        tid: Tid(tid),
        m_key: 0,
        data,
    }
}

/// The content of the file `file` in a sysfs tree.
fn file_content(tree: &Path, file: &str) -> String {
    std::fs::read_to_string(tree.join(file)).unwrap()
}

/// Sets the LID of the first host's port.
fn set_lid_of_host(device: &Device, lid: u16) {
    let smi = device.register(0x81, 1, 0, 0);
    let mut info = PortInfo::default();
    info.set_lid(Lid(lid)).set_master_sm_lid(Lid(7));
    device.ask(
        smi,
        &request(Method::SET, AttrId::PORT_INFO, 1, *info.as_data()),
    );
    let (header, answer, _) = device.read();
    assert_eq!(header.status, 0);
    assert_eq!(answer[4..6], [0x80, 0]);
}

#[test]
fn a_written_request_is_answered_through_read() {
    let fabric = Fabric::new();
    let device = Device::open(&fabric, "");
    let id = device.register(0x81, 1, 0, 0);
    device.ask(id, &request(Method::GET, AttrId::NODE_INFO, 9, [0; 64]));
    let (header, answer, min_buffer) = device.read();
    assert_eq!((header.id, header.status, header.length), (id, 0, 320));
    assert_eq!((answer.len(), min_buffer), (256, 320));
    let smp: &[u8; 256] = answer[..].try_into().unwrap();
    let info = NodeInfo::from_data(Smp::from_bytes(smp).data());
    assert_eq!(info.node_guid(), fabric.hosts[0]);
}

#[test]
fn the_sysfs_tree_shows_the_present_state_of_the_port() {
    let fabric = Fabric::new();
    let tree = fabric.tree("");
    let port = "infiniband/rsm0/ports/1";
    assert_eq!(file_content(&tree, "infiniband_mad/abi_version"), "5\n");
    assert_eq!(file_content(&tree, "infiniband_mad/umad0/ibdev"), "rsm0\n");
    assert_eq!(file_content(&tree, &format!("{port}/lid")), "0x0\n");
    assert_eq!(file_content(&tree, &format!("{port}/state")), "2: INIT\n");
    set_lid_of_host(&Device::open(&fabric, ""), 0x2A);
    assert_eq!(fabric.tree(""), tree);
    assert_eq!(file_content(&tree, &format!("{port}/lid")), "0x2a\n");
    assert_eq!(file_content(&tree, &format!("{port}/sm_lid")), "0x7\n");
    // Another node has another directory, and a switch has port 0.
    let other = fabric.tree(&fabric.hosts[1].to_string());
    assert_ne!(other, tree);
    assert_eq!(file_content(&other, &format!("{port}/lid")), "0x0\n");
    let switch = fabric
        .sim
        .with(|sim| sim.end_ports().find(|(_, port)| port.0 == 0));
    let switch = fabric.tree(&switch.unwrap().unwrap().0.to_string());
    assert_eq!(
        file_content(&switch, "infiniband/rsm0/node_type"),
        "2: SWITCH\n"
    );
    assert_eq!(
        file_content(&switch, "infiniband/rsm0/ports/0/state"),
        "4: ACTIVE\n"
    );
}

#[test]
fn a_message_longer_than_a_packet_is_written_and_read_whole() {
    const SERVES: u128 = 1 << 0x12;
    let fabric = Fabric::new();
    let (server, client) = (Device::open(&fabric, ""), Device::open(&fabric, ""));
    set_lid_of_host(&server, 5);
    let serving = server.register(3, 2, SERVES, 1);
    let asking = client.register(3, 2, 0, 1);
    let mut question = vec![0; 256];
    question[..4].copy_from_slice(&[1, 3, 2, 0x12]);
    let header = |id, timeout_ms| UserMadHeader {
        id,
        timeout_ms,
        lid: 5.into(),
        qpn: 1.into(),
        ..UserMadHeader::default()
    };
    client.write(&header(asking, 20_000), &question);
    let (_, question, _) = server.read();
    let mut table: Vec<u8> = (0..300_000u32).map(|index| (index % 251) as u8).collect();
    table[..56].copy_from_slice(&question[..56]);
    table[3] = 0x92;
    table[26] = 1;
    server.write(&header(serving, 0), &table);
    let (header, received, min_buffer) = client.read();
    assert_eq!(
        (header.status, received.len(), min_buffer),
        (0, table.len(), 320)
    );
    assert!(received[56..] == table[56..]);
}

#[test]
fn while_one_client_holds_issm_the_next_client_waits() {
    let fabric = Fabric::new();
    assert!(!fabric.is_sm(0));
    let (first, errno, _) = fabric.ask(&hello(OPEN_ISSM), "");
    assert_eq!(errno, 0);
    assert!(fabric.is_sm(0));
    let mut nonblocking = hello(OPEN_ISSM);
    nonblocking.nonblocking = 1;
    let (_, errno, _) = fabric.ask(&nonblocking, "");
    assert_eq!(errno, Errno::AGAIN.raw_os_error() as u32);
    // A blocking open waits, and the server forgets a waiting open whose connection has closed.
    let (waiting, abandoned) = (fabric.connect(), fabric.connect());
    for socket in [&abandoned, &waiting] {
        send(socket, &[hello(OPEN_ISSM).as_bytes()], None);
    }
    assert!(receive_within(&waiting, Duration::from_millis(50)).is_none());
    drop(abandoned);
    drop(first);
    let (packet, _) = receive(&waiting).unwrap();
    assert_eq!(split::<Answer>(&packet).unwrap().0.errno, 0);
    assert!(fabric.is_sm(0));
    drop(waiting);
    // The server sees the close before it answers the next request.
    fabric.tree("");
    assert!(!fabric.is_sm(0));
}

#[test]
fn a_refused_hello_gets_an_error_and_a_reason() {
    let fabric = Fabric::new();
    let refused = |hello: &Hello, name: &str| {
        let (socket, errno, reason) = fabric.ask(hello, name);
        assert!(is_closed(&socket));
        (errno, String::from_utf8(reason).unwrap())
    };
    let (errno, reason) = refused(&hello(OPEN_UMAD), "nobody");
    assert_eq!(errno, Errno::NODEV.raw_os_error() as u32);
    assert!(reason.contains("nobody"), "{reason}");
    let mut no_port = hello(OPEN_UMAD);
    no_port.port = 77;
    let (_, reason) = refused(&no_port, "");
    assert!(reason.contains("no end port 77"), "{reason}");
    let mut no_device = hello(OPEN_UMAD);
    no_device.device = 3;
    assert_eq!(
        refused(&no_device, "").0,
        Errno::NOENT.raw_os_error() as u32
    );
    let mut wrong_version = hello(OPEN_UMAD);
    wrong_version.version = 99;
    assert_eq!(
        refused(&wrong_version, "").0,
        Errno::PROTO.raw_os_error() as u32
    );
    assert_eq!(refused(&hello(9), "").0, Errno::PROTO.raw_os_error() as u32);
    assert_ne!(refused(&hello(OPEN_UMAD), &"n".repeat(500)).0, 0);
}

#[test]
fn an_invalid_packet_closes_only_its_connection() {
    let fabric = Fabric::new();
    let device = Device::open(&fabric, "");
    let id = device.register(0x81, 1, 0, 0);
    let not_a_hello = fabric.connect();
    send(&not_a_hello, &[b"what?"], None);
    assert!(is_closed(&not_a_hello));
    let call = |what, len| Call { what, len };
    for (call, body) in [
        // Invalid packets: no call; an ioctl without a socket for the answer; a message without a
        // memory file; a message that is too long.
        (&b"no"[..], &[][..]),
        (call(REGISTER_AGENT, 28).as_bytes(), &[0; 28][..]),
        (call(WRITE, 100_000).as_bytes(), &[][..]),
        (call(WRITE, u32::MAX).as_bytes(), &[][..]),
    ] {
        let (socket, errno, _) = fabric.ask(&hello(OPEN_UMAD), "");
        assert_eq!(errno, 0);
        send(&socket, &[call, body], None);
        assert!(is_closed(&socket));
    }
    // An unknown ioctl and a message that is too short are refused, and the device stays open.
    assert_eq!(
        device.control(0x5401, &[]).0,
        Errno::NOTTY.raw_os_error() as u32
    );
    assert_eq!(
        device.control(REGISTER_AGENT, &[0; 3]).0,
        Errno::NOTTY.raw_os_error() as u32
    );
    send(&device.0, &[call(WRITE, 10).as_bytes(), &[0; 10]], None);
    device.ask(id, &request(Method::GET, AttrId::NODE_INFO, 9, [0; 64]));
    assert_eq!(device.read().0.status, 0);
}

#[test]
fn a_client_that_does_not_read_blocks_no_other_client() {
    const MANY: u64 = 3_000;
    let fabric = Fabric::new();
    let (non_reader, reader) = (Device::open(&fabric, ""), Device::open(&fabric, ""));
    let (non_reader_id, reader_id) = (
        non_reader.register(0x81, 1, 0, 0),
        reader.register(0x81, 1, 0, 0),
    );
    let get = |tid| request(Method::GET, AttrId::NODE_INFO, tid, [0; 64]);
    for tid in 0..MANY {
        non_reader.ask(non_reader_id, &get(tid));
        // The agent has room for 64 requests.
        if tid % 32 == 0 {
            reader.ask(reader_id, &get(tid));
            assert_eq!(reader.read().0.status, 0);
        }
    }
    for _ in 0..MANY {
        assert_eq!(non_reader.read().0.status, 0);
    }
}

#[test]
fn a_socket_has_one_server_and_a_dead_server_is_replaced() {
    let mut fabric = Fabric::new();
    let options = HostServerOptions {
        socket: fabric.socket.clone(),
        node: fabric.hosts[0],
    };
    let second = server::serve(fabric.sim.clone(), &options);
    assert!(
        matches!(second, Err(ServerError::Taken { .. })),
        "{second:?}"
    );
    fabric.tree("");
    drop(fabric.server.take());
    // No file may be left.
    assert_eq!(
        std::fs::read_dir(fabric.directory.path()).unwrap().count(),
        0
    );
    drop(std::os::unix::net::UnixListener::bind(&fabric.socket).unwrap());
    assert!(fabric.socket.exists());
    fabric.server = Some(server::serve(fabric.sim.clone(), &options).unwrap());
    fabric.tree("");
}
