"""Raw management datagrams through libibumad, and the layouts that the attacks write (IBA 13.4, 14.2, 15.2).

Nothing here comes from rsm: an error of rsm's own layouts would be an attack that does nothing.
"""

import ctypes
import ctypes.util
import struct
import time

GET, SET, SEND, TRAP, TRAP_REPRESS = 0x01, 0x02, 0x03, 0x05, 0x07
GET_TABLE, GET_MULTI, DELETE, GET_RESPONSE, REPORT_RESPONSE = 0x12, 0x14, 0x15, 0x81, 0x86
LID_ROUTED, DIRECTED, SUBN_ADM, PERFORMANCE, CONGESTION = 0x01, 0x81, 0x03, 0x04, 0x21

NODE_DESCRIPTION, NODE_INFO, SWITCH_INFO, GUID_INFO, PORT_INFO = 0x10, 0x11, 0x12, 0x14, 0x15
P_KEY_TABLE, SL_TO_VL, VL_ARBITRATION, LINEAR_TABLE, MULTICAST_TABLE = 0x16, 0x17, 0x18, 0x19, 0x1B
SM_INFO, NOTICE, CLASS_PORT_INFO, INFORM_INFO = 0x20, 0x02, 0x01, 0x03
(NODE_RECORD, PORT_INFO_RECORD, INFORM_INFO_RECORD, LINK_RECORD, SERVICE_RECORD, P_KEY_RECORD, PATH_RECORD,
 MEMBER_RECORD, GUID_INFO_RECORD, MULTI_PATH_RECORD, LFT_RECORD, MFT_RECORD, SM_INFO_RECORD) = (
    0x11, 0x12, 0xF3, 0x20, 0x31, 0x33, 0x35, 0x38, 0x30, 0x3A, 0x15, 0x17, 0x18)

Q_KEY = 0x80010000
HEADER = 64  # of a datagram of libibumad: agent, status, times, length and address
MAD = 256

_lib = ctypes.CDLL("libibumad.so.3", use_errno=True)


class Silence(Exception):
    """No answer within the time."""


class Port:
    """An open port with an agent for each class."""

    def __init__(self, answers=()):
        """Opens the first port. `answers` has the (class, method) pairs whose requests this program takes."""
        _lib.umad_init()
        self.fd = _lib.umad_open_port(None, 0)
        if self.fd < 0:
            raise OSError(-self.fd, "umad_open_port")
        self.agents = {}
        for cls in (LID_ROUTED, DIRECTED, SUBN_ADM, PERFORMANCE, CONGESTION):
            methods = (ctypes.c_uint32 * 4)()
            for wanted, method in answers:
                if wanted == cls:
                    methods[method // 32] |= 1 << (method % 32)
            version = 2 if cls in (SUBN_ADM, CONGESTION) else 1
            agent = _lib.umad_register(self.fd, cls, version, 0, methods)
            if agent < 0:
                raise OSError(-agent, f"umad_register of class {cls:#x}")
            self.agents[cls] = agent
        self.tid = int(time.time() * 1000) & 0xFFFFFF

    def next_tid(self):
        self.tid += 1
        return self.tid & 0xFFFFFFFF

    def send(self, mad, lid, qpn=None, timeout_ms=0):
        """Sends the 256 bytes to a LID, and waits for nothing."""
        cls = mad[1]
        datagram = bytearray(HEADER) + mad
        if qpn is None:
            qpn = 0 if cls in (LID_ROUTED, DIRECTED) else 1
        struct.pack_into(">IIHB", datagram, 20, qpn, Q_KEY if qpn else 0, lid, 0)
        buffer = (ctypes.c_char * len(datagram)).from_buffer(datagram)
        result = _lib.umad_send(self.fd, self.agents[cls], buffer, MAD, timeout_ms, 0)
        if result < 0:
            raise OSError(-result, "umad_send")

    def receive(self, timeout_ms):
        """The next datagram: its address's LID and its bytes; `None` after the time."""
        buffer = ctypes.create_string_buffer(HEADER + 4 * MAD)
        length = ctypes.c_int(4 * MAD)
        result = _lib.umad_recv(self.fd, buffer, ctypes.byref(length), timeout_ms)
        if result < 0:
            return None
        if struct.unpack_from("=I", buffer, 4)[0] != 0:
            raise Silence("the datagram was not answered")
        lid = struct.unpack_from(">H", buffer, 28)[0]
        return lid, buffer.raw[HEADER:HEADER + MAD]

    def drain(self):
        """Drops what has arrived."""
        while True:
            try:
                if self.receive(0) is None:
                    return
            except Silence:
                pass

    def ask(self, mad, lid, qpn=None, timeout_ms=2000):
        """Sends a request and returns the bytes of its answer.

        Raises Silence where none comes.
        """
        tid = struct.unpack_from(">I", mad, 12)[0]
        self.send(mad, lid, qpn, timeout_ms)
        deadline = time.monotonic() + timeout_ms / 1000 + 0.5
        while time.monotonic() < deadline:
            came = self.receive(timeout_ms)
            if came and struct.unpack_from(">I", came[1], 12)[0] == tid:
                return came[1]
        raise Silence("no answer")


def status(mad):
    """The status of an answer, as a number."""
    return struct.unpack_from(">H", mad, 4)[0] & 0x7FFF


def _header(cls, version, method, attribute, modifier, tid):
    mad = bytearray(MAD)
    struct.pack_into(">BBBBHHQHHI", mad, 0, 1, cls, version, method, 0, 0, tid, attribute, 0, modifier)
    return mad


def smp(port, method, attribute, modifier=0, data=b"", m_key=0):
    """A LID-routed SMP."""
    mad = _header(LID_ROUTED, 1, method, attribute, modifier, port.next_tid())
    struct.pack_into(">Q", mad, 24, m_key)
    mad[64:64 + len(data)] = data
    return mad


def directed(port, way, method, attribute, modifier=0, data=b"", m_key=0):
    """A directed SMP along the ports in `way`."""
    mad = _header(DIRECTED, 1, method, attribute, modifier, port.next_tid())
    struct.pack_into(">BB", mad, 6, 0, len(way))
    struct.pack_into(">QHH", mad, 24, m_key, 0xFFFF, 0xFFFF)
    mad[64:64 + len(data)] = data
    for hop, out in enumerate(way):
        mad[129 + hop] = out
    return mad


def sa(port, method, attribute, mask=0, data=b"", modifier=0, sm_key=0):
    """A request to the SA, without RMPP."""
    mad = _header(SUBN_ADM, 2, method, attribute, modifier, port.next_tid())
    struct.pack_into(">QHHQ", mad, 36, sm_key, 0, 0, mask)
    mad[24] = 1  # RMPP version
    mad[56:56 + len(data)] = data
    return mad


def gid(port_guid, prefix=0xFE80000000000000):
    return struct.pack(">QQ", prefix, port_guid)


def member(mgid, port_gid, p_key=0xFFFF, q_key=0xB1B, state=1, mtu=0x84, rate=0x83):
    """MCMemberRecord; `state` 1 is a full member."""
    data = bytearray(52)
    data[0:16] = mgid
    data[16:32] = port_gid
    struct.pack_into(">IHBBHBB", data, 32, q_key, 0, mtu, 0, p_key, rate, 0x92)
    struct.pack_into(">I", data, 44, 0)
    data[48] = 0x20 | state
    return bytes(data)


# MGID, PortGID, Q_Key, traffic class, P_Key, SL, flow label and JoinState: what makes a group.
MEMBER_CREATE = 0x130C7
# MGID, PortGID and JoinState.
MEMBER_JOIN = 0x10003


def service(service_id, service_gid, p_key=0xFFFF, name=b"bar", lease=0xFFFFFFFF):
    """ServiceRecord."""
    data = bytearray(176)
    struct.pack_into(">Q16sHHI", data, 0, service_id, service_gid, p_key, 0, lease)
    data[48:48 + len(name)] = name
    return bytes(data)


SERVICE_MASK = 0x57  # ServiceID, ServiceGID, P_Key, lease, name
SERVICE_KEY = 0x07


def path(source=None, target=None, slid=0, dlid=0, p_key=0, count=127):
    """PathRecord and its component mask."""
    data = bytearray(64)
    mask = 0
    if target is not None:
        data[8:24] = target
        mask |= 1 << 2
    if source is not None:
        data[24:40] = source
        mask |= 1 << 3
    if dlid:
        struct.pack_into(">H", data, 40, dlid)
        mask |= 1 << 4
    if slid:
        struct.pack_into(">H", data, 42, slid)
        mask |= 1 << 5
    data[49] = 0x80 | count
    mask |= 1 << 12
    if p_key:
        struct.pack_into(">H", data, 50, p_key)
        mask |= 1 << 13
    return bytes(data), mask


def guid_info_record(lid, block, guids):
    """GUIDInfoRecord and the mask of its LID, block and GUIDs, from index 1 on."""
    data = bytearray(72)
    struct.pack_into(">HB", data, 0, lid, block)
    mask = 3
    for index, guid in enumerate(guids, 1):
        struct.pack_into(">Q", data, 8 + 8 * index, guid)
        mask |= 1 << (index + 4)
    return bytes(data), mask


def notice(number, producer, issuer_lid, details, issuer_gid=bytes(16), generic_type=1):
    """A generic Notice: `producer` 1 is an adapter, 2 a switch, 4 a manager of a class."""
    data = bytearray(80)
    data[0] = 0x80 | generic_type
    data[1:4] = producer.to_bytes(3, "big")
    struct.pack_into(">HHH", data, 4, number, issuer_lid, 0)
    data[10:10 + len(details)] = details
    data[64:80] = issuer_gid
    return bytes(data)


def trap(port, data):
    """A Trap as an SMP."""
    return smp(port, TRAP, NOTICE, 0, data[:64])


def sm_info(guid, sm_key, activity, priority, state):
    """SMInfo."""
    return struct.pack(">QQIB", guid, sm_key, activity, priority << 4 | state)


def inform_info(subscribe=1, number=0xFFFF, lids=(0xFFFF, 0), is_generic=1):
    """InformInfo of all notices."""
    data = bytearray(36)
    struct.pack_into(">HH", data, 16, lids[0], lids[1])
    data[22] = is_generic
    data[23] = subscribe
    struct.pack_into(">HHI", data, 24, 0xFFFF, number, 1 << 8 | 18)
    struct.pack_into(">I", data, 32, 0xFFFFFF)
    return bytes(data)
