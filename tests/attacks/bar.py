#!/usr/bin/env python3
"""A bar of attacks: a tenant with root on one of 1,024 simulated hosts, against a resident rsm.

`bar.py --bin DIR [--mode off|report|enforce|keys] [--only NAME] [--part floods|rest] [--json]`, where DIR has rsm, rsmctl and librsm_sim_preload.so.
`keys` is `enforce` with an M_Key for each port.

Each attack runs at a host of its own, in a process of its own, with raw datagrams through libibumad. Before and after, what the SA
holds of others is compared, and what the hardware holds, which an observer reads by directed SMPs at the manager's host. The columns:

  answer   what came back to the attacker
  others   `same`: nothing of others changed; else what, and after how many seconds it was as before (at most RESTORED)
  named    milliseconds from the first datagram until a finding names the host, with the finding
  p99      a fellow's path queries: 99th percentile, while the flood goes on, and its ratio to that before
  repair   milliseconds from a broken cable elsewhere to the end of its convergence, under the flood, and before it

The exit code is 1 where, in `enforce` and `keys`, an attack changed what others have for more than RESTORED seconds, or no finding
names it within NAMED seconds of its end; or an attacker has seen what is others'.
"""

import argparse
import json
import os
import pathlib
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
FABRIC = "fat-tree:k=16,levels=3"
RED, BLUE = 0x10, 0x11
RESTORED = 60.0
NAMED = 1.0
FLOOD_SECONDS = 3.0
LOOKS = 3
MODES = {"off": "off", "report": "report", "enforce": "enforce", "keys": "enforce"}


class Node:
    """A host with its leaf: GUIDs, LIDs, and the leaf's port."""

    def __init__(self, guid, lid, description, leaf, leaf_port):
        self.guid, self.lid, self.description, self.leaf, self.leaf_port = guid, lid, description, leaf, leaf_port


class Site:
    """The simulated fabric with its manager."""

    def __init__(self, binaries, mode):
        self.binaries = pathlib.Path(binaries).resolve()
        self.mode = mode
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="rsm-attacks-"))
        self.processes = []
        try:
            self.start()
        except BaseException:
            self.stop()
            raise

    def start(self):
        self.fabric = self.directory / "fabric.sock"
        self.spawn([self.binaries / "rsm", "sim", "serve", FABRIC, "--socket", self.fabric,
                    "--listen", "127.0.0.1:0"], "served")
        line = self.wait(lambda: re.search(r"--server (\S+) sim", self.log("served")), 60, "the simulation")
        self.sim = line.group(1)
        hosts = [0xE09D730300000000 + 8 * number for number in range(1, 1025)]
        half = len(hosts) // 2
        partitions = "Default=0x7fff, ipoib : ALL=limited, SELF=full;\n"
        for name, key, members in (("red", RED, hosts[1:half]), ("blue", BLUE, hosts[half:])):
            listed = ", ".join(f"{guid:#x}=full" for guid in members)
            partitions += f"{name}={key:#x}, ipoib : {listed};\n"
        (self.directory / "partitions.conf").write_text(partitions)
        config = f'[sa]\ntrust_mode = "{MODES[self.mode]}"\n'
        if self.mode == "keys":
            secret = self.directory / "secret"
            secret.write_text(os.urandom(32).hex() + "\n")
            secret.chmod(0o600)
            config = ('[sm]\nm_keys = "per-port"\nm_key_secret_file = "secret"\nm_key_protection_level = 1\n' + config)
        (self.directory / "rsm.toml").write_text(config)
        self.spawn([self.binaries / "rsm", "--state-dir", self.directory / "state", "--config",
                    self.directory / "rsm.toml", "--partitions", self.directory / "partitions.conf", "--listen", "off"],
                   "rsm", self.at("host-0001 mlx5_0"))
        self.wait(lambda: self.state() == "up", 120, "the subnet")
        time.sleep(3)
        self.nodes = self.read_nodes()

    def spawn(self, command, name, env=None, **pipes):
        log = open(self.directory / f"{name}.log", "ab")
        process = subprocess.Popen([str(part) for part in command], env=env, cwd=self.directory, stderr=log,
                                   stdout=pipes.pop("stdout", log), text=True, **pipes)
        self.processes.append(process)
        return process

    def at(self, node):
        """The environment of a program at a node."""
        preload = str(self.binaries / "librsm_sim_preload.so")
        return dict(os.environ, LD_PRELOAD=preload, RSM_SIM_SOCKET=str(self.fabric), RSM_SIM_NODE=node)

    def log(self, name):
        return (self.directory / f"{name}.log").read_text(errors="replace")

    def wait(self, until, seconds, what):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if result := until():
                return result
            time.sleep(0.005)
        raise SystemExit(f"{what}: not within {seconds} s; see {self.directory}")

    def rsmctl(self, *arguments):
        """The answer as JSON; `None` where rsm does not answer."""
        command = [self.binaries / "rsmctl", "--socket", self.directory / "state" / "rsm.sock", "--format", "json"]
        done = subprocess.run([str(part) for part in [*command, *arguments]], capture_output=True, text=True)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def simulate(self, *arguments):
        subprocess.run([str(self.binaries / "rsmctl"), "--server", self.sim, "sim", *arguments], check=True,
                       capture_output=True)

    def state(self):
        status = self.rsmctl("status")
        return status and status["state"]

    def read_nodes(self):
        """Hosts by number, with their leaves."""
        listed = {node["guid"]: node for node in self.rsmctl("nodes")}
        self.switch_lids = [node["lids"][0] for node in listed.values() if node["kind"] == "switch"]
        nodes = {}
        for link in self.rsmctl("links"):
            ends = [link["a"], link["b"]]
            for host, leaf in (ends, ends[::-1]):
                node = listed[host["port"]["node_guid"]]
                if node["kind"] != "switch":
                    number = int(re.match(r"host-(\d+)", node["description"]).group(1))
                    switch = listed[leaf["port"]["node_guid"]]
                    nodes[number] = Node(int(node["guid"], 16), node["lids"][0], node["description"],
                                         switch, leaf["port"]["number"])
        return nodes

    def stop(self):
        for process in reversed(self.processes):
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
        self.processes = []

    def remove(self):
        self.stop()
        shutil.rmtree(self.directory)


class Helper:
    """A process at a host, which answers lines with lines."""

    def __init__(self, site, role, node, known):
        self.process = site.spawn([sys.executable, HERE / "bar.py", "--as", role, json.dumps(known)], f"{role}",
                                  site.at(node.description), stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, line):
        self.tell(line)
        return self.answer()

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("a helper ended; see its log")
        return json.loads(line)

    def end(self):
        self.process.stdin.close()
        self.process.wait(10)


def known_of(site, node, fellow, stranger, extra=None):
    """What an attacker is told."""
    others = [(other.guid, other.lid) for other in site.nodes.values()]
    number = {other.guid: number for number, other in site.nodes.items()}
    known = {
        "guid": node.guid, "lid": node.lid, "sm_lid": site.nodes[1].lid,
        # The fellow's leaf, which the observer reads, and a port there that is not the fellow's.
        "leaf_lid": fellow.leaf["lids"][0], "leaf_port": site.nodes[3].leaf_port,
        "fellow_guid": fellow.guid, "fellow_lid": fellow.lid, "fellow_leaf_port": fellow.leaf_port,
        "stranger_guid": stranger.guid, "stranger_lid": stranger.lid,
        "stranger_fellow_guid": site.nodes[number[stranger.guid] + 1].guid,
        "fellows": [other.guid for at, other in site.nodes.items() if at in range(2, 512) and other is not node],
        "others": others, "switch_lids": site.switch_lids, "red": RED, "blue": BLUE,
        "has_m_keys": site.mode == "keys", "group": VICTIM_GROUP, "blue_group": BLUE_GROUP, "service": VICTIM_SERVICE,
    }
    return known | (extra or {})


VICTIM_GROUP, BLUE_GROUP, VICTIM_SERVICE = "ff12401b801000000000000000c0ffee", "ff12401b801100000000000000c0ffee", 0xC0FFEE


# Roles of helpers


def decoded(known):
    for name in ("group", "blue_group"):
        known[name] = bytes.fromhex(known[name])
    return known


def run_victim(known):
    """Joins a group, registers a service, subscribes; then asks for paths while it is told to."""
    from attacks import Place
    import umad
    place = Place(decoded(known), 0)
    key, group = (RED, place.group) if known["is_red"] else (BLUE, place.blue_group)
    guid = umad.gid(place.guid)
    data = umad.member(group, guid, key | 0x8000)
    results = [place.sa(umad.SET, umad.MEMBER_RECORD, umad.MEMBER_CREATE, data)]
    data = umad.service(place.service + known["is_red"], guid, key | 0x8000)
    results.append(place.sa(umad.SET, umad.SERVICE_RECORD, umad.SERVICE_MASK, data))
    results.append(place.sa(umad.SET, umad.INFORM_INFO, 0, umad.inform_info(number=65)))
    print(json.dumps(results), flush=True)
    data, mask = umad.path(slid=place.lid, dlid=known["target"], count=1)
    times, running = [], False
    for_lines = sys.stdin
    while True:
        ready = select.select([for_lines], [], [], 0 if running else None)[0]
        if ready:
            line = for_lines.readline()
            if not line:
                return
            if line.strip() == "begin":
                times, running = [], True
            else:
                running = False
                print(json.dumps(times), flush=True)
        if running:
            began = time.monotonic()
            result = place.sa(umad.GET, umad.PATH_RECORD, mask, data)
            times.append(1000 * (time.monotonic() - began) if result == "0x0000" else 2000.0)
            place.port.drain()
            time.sleep(0.002)


def run_attacker(known):
    import attacks
    place = attacks.Place(decoded(known), FLOOD_SECONDS)
    one = next(one for one in attacks.ATTACKS if one.name == known["attack"])
    print(json.dumps("ready"), flush=True)
    sys.stdin.readline()
    try:
        answer = one.run(place)
    except Exception as error:
        answer = f"failed: {type(error).__name__}: {error}"
    print(json.dumps(answer), flush=True)
    sys.stdin.readline()


def run_observer(known):
    """Reads what switches and hosts hold, along directed ways: `way what` by line."""
    import umad
    port = umad.Port()
    for line in sys.stdin:
        held = {}
        for name, way, attribute, modifier in json.loads(line):
            try:
                answer = port.ask(umad.directed(port, way, umad.GET, attribute, modifier), 0xFFFF, timeout_ms=1000)
                data = bytearray(answer[64:128])
                if attribute == umad.PORT_INFO:
                    data = data[8:24] + data[29:34]  # GID prefix to CapabilityMask; widths to states
                if attribute == umad.SWITCH_INFO:
                    data = data[:10]
                held[name] = data.hex()
            except umad.Silence:
                held[name] = "silence"
        print(json.dumps(held), flush=True)


ROLES = {"victim": run_victim, "attacker": run_attacker, "observer": run_observer}


# Judgement


def parts_of(way_leaf, leaf_ports, lids, fellow_way):
    """What the observer reads of a leaf and of one host below it."""
    from umad import (GUID_INFO, LINEAR_TABLE, MULTICAST_TABLE, P_KEY_TABLE, PORT_INFO, SL_TO_VL, SWITCH_INFO)
    parts = [("leaf SwitchInfo", way_leaf, SWITCH_INFO, 0)]
    parts += [(f"leaf table {block}", way_leaf, LINEAR_TABLE, block) for block in range(max(lids) // 64 + 1)]
    parts += [(f"leaf multicast {block}", way_leaf, MULTICAST_TABLE, block) for block in range(2)]
    for port in leaf_ports:
        parts.append((f"leaf port {port}", way_leaf, PORT_INFO, port))
        parts.append((f"leaf P_Keys {port}", way_leaf, P_KEY_TABLE, port << 16))
    parts += [("host port", fellow_way, PORT_INFO, 1), ("host P_Keys", fellow_way, P_KEY_TABLE, 0),
              ("host SLtoVL", fellow_way, SL_TO_VL, 0), ("host GUIDs", fellow_way, GUID_INFO, 0)]
    return parts


class Bar:
    def __init__(self, site):
        self.site = site
        self.host_of = {}
        nodes = site.nodes
        # The observer sits at the manager's host, and reads the fellow beside it.
        self.fellow, self.stranger = nodes[2], nodes[600]
        target = nodes[300]
        self.red = Helper(site, "victim", self.fellow,
                          known_of(site, self.fellow, nodes[3], self.stranger, {"is_red": True, "target": target.lid}))
        self.blue = Helper(site, "victim", self.stranger,
                           known_of(site, self.stranger, nodes[601], self.fellow,
                                    {"is_red": False, "target": nodes[900].lid}))
        for victim in (self.red, self.blue):
            results = victim.answer()
            if set(results) != {"0x0000"}:
                raise SystemExit(f"a victim was refused: {results}")
        for victim, group in ((self.fellow, VICTIM_GROUP), (self.stranger, BLUE_GROUP)):
            guid = f"{victim.guid:#018x}"
            site.wait(lambda: guid in self.members(group), 10, "a victim's group")
        self.observer = Helper(site, "observer", nodes[1], {})
        # One hop to the leaf, two to the host.
        if self.fellow.leaf["guid"] != nodes[1].leaf["guid"]:
            raise SystemExit("the fellow is not beside the manager")
        self.lids = [node.lid for node in nodes.values()] + site.switch_lids
        self.parts = parts_of([1], range(1, 17), self.lids, [1, self.fellow.leaf_port])
        self.quiet = None
        # Trees of the groups above may still be written, and the first attack would be blamed.
        looks = [None]
        def rests():
            looks.append(self.observer.ask(json.dumps(self.parts)))
            time.sleep(1)
            return looks[-1] == looks[-2]
        site.wait(rests, 60, "a rest before the first attack")

    def held(self, attacker, is_set):
        """What others have in the SA and in the hardware."""
        ours = {f"{attacker.guid:#018x}"}
        site = self.site
        held = self.observer.ask(json.dumps(self.parts))
        if attacker.leaf["guid"] == self.fellow.leaf["guid"]:
            # The port of the attacker's own cable.
            held.pop(f"leaf port {attacker.leaf_port}", None)
            if not is_set:
                # Groups that the attacker is in itself.
                held = {name: value for name, value in held.items() if not name.startswith("leaf multicast")}
        def of_others(rows, *fields):
            rows = [row for row in rows or [] if not ours & {row.get(field) for field in fields}]
            return json.dumps(sorted((strip(row) for row in rows), key=json.dumps), sort_keys=True)
        held["services"] = of_others(site.rsmctl("services"), "owner_guid")
        held["subscriptions"] = of_others(site.rsmctl("subscriptions"), "port_guid")
        held["aliases"] = of_others(site.rsmctl("aliases"), "port_guid")
        for name, group in (("red group", VICTIM_GROUP), ("blue group", BLUE_GROUP)):
            held[name] = json.dumps(sorted(self.members(group) - ours))
        return held

    def members(self, group):
        """GUIDs of the ports in a group."""
        spelled = ":".join(group[at:at + 4] for at in range(0, 32, 4))
        listed = self.site.rsmctl("multicast", spelled)
        # The switches of its tree follow a join by a push, and are no state of a host.
        return set(re.findall(r'"port_guid": "(0x[0-9a-f]{16})"', json.dumps(listed or [])))

    def named(self, helper, attacker, since, before):
        """Milliseconds until a finding names the host, and its kind; `None` where none does by NAMED
        seconds after the end of the attack. With the attack's answer."""
        spelled = f"{attacker.guid:#018x}"
        word = attacker.description.split()[0]
        answer, deadline = None, None
        while deadline is None or time.monotonic() < deadline:
            if answer is None and select.select([helper.process.stdout], [], [], 0)[0]:
                answer = helper.answer()
                deadline = time.monotonic() + NAMED
            for finding in self.site.rsmctl("findings") or []:
                text = json.dumps(finding)
                if finding["kind"] not in before and (spelled in text or word in text):
                    when = int(1000 * (time.monotonic() - since)), finding["kind"]
                    return when, answer if answer is not None else helper.answer()
            time.sleep(0.05)
        return None, answer

    def repair(self):
        """Milliseconds from a broken cable elsewhere to the end of its convergence."""
        site = self.site
        leaf = site.nodes[1000].leaf["guid"]
        port = f"{leaf}:12"
        before = site.rsmctl("status")["generation"]
        began = time.monotonic()
        site.simulate("unlink", port)
        done = site.wait(lambda: site.rsmctl("status")["generation"] != before and time.monotonic(), 60, "a repair")
        before = site.rsmctl("status")["generation"]
        site.simulate("relink", port)
        site.wait(lambda: site.rsmctl("status")["generation"] != before, 60, "a return")
        return 1000 * (done - began)

    def run(self, one, number):
        site = self.site
        # Each attacker is another host of the fellow's leaf or of leaves after it, within red.
        attacker = site.nodes[number]
        helper = Helper(site, "attacker", attacker,
                        known_of(site, attacker, self.fellow, self.stranger, {"attack": one.name}))
        helper.answer()
        before = self.held(attacker, one.is_set)
        findings = {row["kind"] for row in site.rsmctl("findings") or [] if attacker.description in json.dumps(row)}
        quiet = repair_before = None
        if one.is_flood:
            self.red.tell("begin")
            time.sleep(2)
            quiet = self.red.ask("end")
            repair_before = self.repair()
            self.red.tell("begin")
        began = time.monotonic()
        helper.tell("go")
        repair = self.repair() if one.is_flood else None
        named, answer = None, None
        if one.is_named:
            named, answer = self.named(helper, attacker, began, findings)
        else:
            answer = helper.answer()
        row = {"attack": one.name, "tries": one.tries, "answer": answer or "silence", "named": named}
        if one.is_flood:
            busy = self.red.ask("end")
            row["p99"], row["p99_quiet"] = percentile(busy, 99), percentile(quiet, 99)
            row["repair"], row["repair_quiet"] = repair, repair_before
        changed, looks = set(), 0
        deadline = began + RESTORED + 10
        while True:
            held = self.held(attacker, one.is_set)
            differing = {name for name in before if before[name] != held.get(name)}
            if one.is_flood:
                # The repair beside the flood moves routes.
                differing = {name for name in differing if not name.startswith("leaf table")}
            changed |= differing
            looks = 0 if differing else looks + 1
            if looks == 1:
                mended = time.monotonic()
            # What is late shows in the looks after the first.
            if looks == LOOKS:
                row["restored"] = round(mended - began, 1) if changed else 0.0
                break
            if time.monotonic() > deadline:
                row["restored"] = None
                break
            time.sleep(0.5)
            if one.stays:
                row["restored"] = "until an operator mends it"
                break
        row["changed"] = sorted(changed)
        row["must_be_named"] = one.is_named and (site.mode == "keys" or not one.is_set)
        helper.tell("end")
        helper.end()
        return row


def strip(row):
    """A record without times."""
    return {name: value for name, value in row.items() if not re.search(r"_ms$|lease|expires|_at$|_s$", name)}


def percentile(values, rank):
    values = sorted(values)
    return values[min(len(values) - 1, len(values) * rank // 100)] if values else None


def shown(row, mode):
    others = "same"
    if row["changed"]:
        when = {None: f"for more than {RESTORED:.0f} s"}.get(row["restored"], row["restored"])
        if isinstance(when, float):
            when = f"for {when} s"
        others = f"{', '.join(row['changed'])} {when}"
    named = f"{row['named'][1]} {row['named'][0]} ms" if row["named"] else "-"
    line = f"{mode:8} {row['attack']:36} {row['answer']:18} {others:44} {named:28}"
    if "p99" in row:
        line += f" p99 {row['p99']:.1f} ({row['p99'] / row['p99_quiet']:.1f}x), repair {row['repair']:.0f} ({row['repair_quiet']:.0f})"
    return line.rstrip()


def fails(row):
    """Why an attack counts as a success under `enforce`."""
    if row["restored"] is None:
        return "others' state stayed changed"
    if row["must_be_named"] and (row["named"] is None):
        return "not named in time"
    if "SEEN" in row["answer"]:
        return "it has seen what is others'"
    if row["answer"].startswith("failed"):
        return "the attack itself failed"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", default="target/release", help="folder of the programs")
    parser.add_argument("--mode", choices=sorted(MODES), action="append", help="what hosts may do; all if not given")
    parser.add_argument("--only", action="append", help="names of attacks")
    parser.add_argument("--part", choices=["floods", "rest"], help="floods alone, or what is no flood")
    parser.add_argument("--json", action="store_true", help="one object a line")
    parser.add_argument("--as", dest="role", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.role:
        role, known = arguments.role
        sys.path.insert(0, str(HERE))
        ROLES[role](json.loads(known))
        return 0
    sys.path.insert(0, str(HERE))
    from attacks import ATTACKS
    chosen = [one for one in ATTACKS if not arguments.only or one.name in arguments.only]
    if arguments.part:
        chosen = [one for one in chosen if one.is_flood == (arguments.part == "floods")]
    # Those that stay come last.
    chosen.sort(key=lambda one: one.stays)
    failures = 0
    for mode in arguments.mode or list(MODES):
        site = Site(arguments.bin, mode)
        try:
            bar = Bar(site)
            for at, one in enumerate(chosen):
                row = bar.run(one, 3 + at)
                print(json.dumps(dict(row, mode=mode)) if arguments.json else shown(row, mode), flush=True)
                if MODES[mode] == "enforce" and (why := fails(row)):
                    failures += 1
                    print(f"         ^ {why}", flush=True)
        finally:
            site.stop()
        site.remove()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
