#!/usr/bin/env python3
"""A real S3 server for trials and benchmarks: Ceph's monitor, one storage daemon and the object gateway, on loopback.

    python tests/s3/ceph.py start STATE      prints its settings as shell `export` lines
    python tests/s3/ceph.py stop STATE       ends the three processes and removes STATE

Everything is kept in memory below STATE; nothing listens outside 127.0.0.1. Needs Debian's ceph-mon, ceph-osd,
ceph-common and radosgw; `start` here installs them with apt-get if it may (root), `CephServer.start` installs nothing.
"""

from __future__ import annotations

import contextlib
import os
import random
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from server import ACCESS_KEY, SECRET_KEY, settings

PACKAGES = ("ceph-mon", "ceph-osd", "ceph-common", "radosgw")
PROGRAMS = ("ceph-mon", "ceph-osd", "ceph", "ceph-authtool", "monmaptool", "radosgw", "radosgw-admin")
DAEMONS = ("rgw", "osd", "mon")  # in the order of stopping
MEMORY = 4 << 30  # most that the store may hold, bytes

CONFIGURATION = """\
[global]
fsid = {fsid}
mon host = [v2:127.0.0.1:{mon}/0,v1:127.0.0.1:{mon1}/0]
public addr = 127.0.0.1
cluster addr = 127.0.0.1
ms bind ipv4 = true
ms bind ipv6 = false
ms bind port min = {osd}
ms bind port max = {osd_last}
auth cluster required = none
auth service required = none
auth client required = none
auth supported = none
keyring = {state}/keyring
run dir = {state}/run
admin socket = {state}/run/$name.asok
crash dir = {state}/log
log file = {state}/log/$name.log
log to stderr = false
err to stderr = true
mon cluster log file = {state}/log/cluster.log
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 4
osd pool default pgp num = 4
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
[mon]
mon data = {state}/mon
mon allow pool size one = true
mon max pg per osd = 1000
mon data avail warn = 2
mon data avail crit = 1
auth allow insecure global id reclaim = false
paxos propose interval = 0.05
paxos min wait = 0.01
[osd]
osd data = {state}/osd
osd journal = {state}/osd/journal
osd objectstore = memstore
memstore device bytes = {memory}
osd class load list = *
osd class default list = *
osd op num shards = 4
osd scrub begin hour = 0
osd max object name len = 2048
osd max object namespace len = 256
[client]
ms mon client mode = secure crc
rgw data = {state}/rgw
rgw frontends = beast endpoint=127.0.0.1:{port} tcp_nodelay=1 request_timeout_ms=0
rgw thread pool size = 64
rgw dns name = localhost
rgw crypt require ssl = false
rgw rados pool pg num min = 4
rgw enable usage log = false
rgw enable ops log = false
rgw run sync thread = false
"""


class Unavailable(Exception):
    """The server's programs are not here and cannot be installed."""


def install(programs: tuple[str, ...], packages: tuple[str, ...]) -> None:
    """Install Debian packages unless their programs are here already.

    Raises
    ------
    Unavailable
        Not root, no apt-get, or no such packages.
    """
    if all(shutil.which(program) for program in programs):
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise Unavailable(f"{', '.join(packages)} are not installed, and only root can install them")
    # Keep the packages' scripts from starting services of their own.
    policy = Path("/usr/sbin/policy-rc.d")
    ours = not policy.exists()
    if ours:
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)
    try:
        command = ["apt-get", "install", "-y", "--no-install-recommends", *packages]
        environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": environment}
        if subprocess.run(command, check=False, **quiet).returncode:
            subprocess.run(["apt-get", "update"], check=False, **quiet)
            if subprocess.run(command, check=False, **quiet).returncode:
                raise Unavailable(f"apt-get cannot install {', '.join(packages)}")
    finally:
        if ours:
            policy.unlink()


def free_ports(count: int) -> list[int]:
    """Return neighbouring free ports on loopback, below those that outgoing connections get."""
    for _ in range(100):
        first = random.randrange(15000, 32000)
        ports = list(range(first, first + count))
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for port in ports:
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return ports
    raise Unavailable(f"no {count} neighbouring free ports")


class CephServer:
    """The server below one state directory."""

    def __init__(self, state: Path) -> None:
        self.state = state.absolute()
        self.config = self.state / "ceph.conf"
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        self._stopping = threading.Event()

    @property
    def port(self) -> int:
        return int((self.state / "port").read_text())

    @property
    def settings(self) -> dict[str, str]:
        """The environment that S3 clients need."""
        return settings(f"http://127.0.0.1:{self.port}")

    # --- starting

    def start(self) -> None:
        """Start the daemons and wait until the gateway answers.

        Raises
        ------
        Unavailable
            The packages are not installed.
        RuntimeError
            A daemon does not come up; the message ends with what it said.
        """
        if missing := [program for program in PROGRAMS if shutil.which(program) is None]:
            raise Unavailable(f"{', '.join(missing)}: not installed (packages: {' '.join(PACKAGES)})")
        if self.state.exists() and any(self.state.iterdir()):
            raise RuntimeError(f"{self.state} is not empty")
        for name in ("mon", "osd", "rgw", "log", "run", "pid"):
            (self.state / name).mkdir(parents=True)
        self.state.chmod(0o700)
        try:
            self._start()
        except BaseException:
            self.stop(wipe=False)
            raise

    def _start(self) -> None:
        ports = free_ports(14)
        (self.state / "port").write_text(str(ports[0]))
        fsid, osd_id = str(uuid.uuid4()), str(uuid.uuid4())
        self.config.write_text(
            CONFIGURATION.format(
                fsid=fsid,
                state=self.state,
                port=ports[0],
                mon=ports[1],
                mon1=ports[2],
                osd=ports[3],
                osd_last=ports[13],
                memory=MEMORY,
            )
        )
        keyring = f"{self.state}/keyring"
        self._run(
            "ceph-authtool", "--create-keyring", keyring, "--gen-key", "-n", "mon.", "--cap", "mon", "allow *"
        )
        for name in ("client.admin", "client.rgw"):
            caps = ("--cap", "mon", "allow *", "--cap", "osd", "allow *")
            self._run("ceph-authtool", keyring, "--gen-key", "-n", name, *caps)
        addresses = f"[v2:127.0.0.1:{ports[1]},v1:127.0.0.1:{ports[2]}]"
        monmap = f"{self.state}/monmap"
        self._run("monmaptool", "--create", "--fsid", fsid, "--addv", "a", addresses, monmap, "--clobber")
        conf = ("-c", str(self.config))
        self._run("ceph-mon", *conf, "--mkfs", "-i", "a", "--monmap", monmap, "--keyring", keyring)
        self._spawn("mon", "ceph-mon", "-f", "-i", "a", *conf)
        self._run("ceph", *conf, "--connect-timeout", "30", "osd", "new", osd_id)
        self._run("ceph-osd", *conf, "-i", "0", "--mkfs", "--osd-uuid", osd_id)
        self._spawn("osd", "ceph-osd", "-f", "-i", "0", *conf)
        user = (
            "--uid=test",
            "--display-name=test",
            f"--access-key={ACCESS_KEY}",
            f"--secret-key={SECRET_KEY}",
        )
        self._run("radosgw-admin", *conf, "user", "create", *user)
        self._spawn("rgw", "radosgw", "-f", "-n", "client.rgw", *conf)
        self._wait()
        threading.Thread(target=self._keep_gateway, name="S3 gateway", daemon=True).start()

    def _keep_gateway(self) -> None:
        """Start the gateway again whenever it ends by itself: it holds no data, and its clients try again."""
        while not self._stopping.is_set():
            status = self._started["rgw"].wait()
            if self._stopping.wait(0.1):
                return
            with open(self.state / "log" / "rgw.err", "a") as log:
                log.write(f"the gateway ended with status {status} and is started again\n")
            self._spawn("rgw", *map(str, self._started["rgw"].args))

    # --- asking

    def answers(self, seconds: float = 30) -> bool:
        """Whether the gateway answers, which may take a moment when it is just started again."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with contextlib.suppress(OSError):
                urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
                    f"http://127.0.0.1:{self.port}/", timeout=5
                ).close()
                return True
            time.sleep(0.1)
        return False

    def _run(self, *command: str) -> None:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        if done.returncode:
            raise RuntimeError(f"{shlex.join(command)}: {done.stderr[-2000:]}")

    def _spawn(self, name: str, *command: str) -> None:
        with open(self.state / "log" / f"{name}.err", "ab") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        (self.state / "pid" / name).write_text(str(process.pid))
        self._started[name] = process

    def _wait(self) -> None:
        for _ in range(60):
            if self.answers(1):
                return
            dead = [name for name, process in self._started.items() if process.poll() is not None]
            if dead:
                said = (self.state / "log" / f"{dead[0]}.err").read_text()[-2000:]
                raise RuntimeError(f"{dead[0]} ended: {said}")
        raise RuntimeError("the gateway does not answer")

    # --- stopping

    def _pid(self, name: str) -> int | None:
        with contextlib.suppress(OSError, ValueError):
            return int((self.state / "pid" / name).read_text())
        return None

    def _alive(self, name: str) -> bool:
        """Whether the recorded process still runs and is ours: its command line names our configuration."""
        pid = self._pid(name)
        if pid is None:
            return False
        with contextlib.suppress(OSError):
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            return os.fsencode(self.config) in arguments
        return False

    def stop(self, *, wipe: bool = True) -> None:
        """End the daemons by their recorded process numbers; remove the state."""
        self._stopping.set()
        for name in DAEMONS:
            pid = self._pid(name)
            for number in (signal.SIGTERM, signal.SIGKILL):
                if pid is None or not self._alive(name):
                    break
                os.kill(pid, number)
                for _ in range(100):
                    if name in self._started:
                        self._started[name].poll()
                    if not self._alive(name):
                        break
                    time.sleep(0.1)
        if wipe and self.config.exists():
            shutil.rmtree(self.state)


def main(arguments: list[str]) -> int:
    if len(arguments) != 2 or arguments[0] not in ("start", "stop"):
        print(__doc__, file=sys.stderr)
        return 2
    server = CephServer(Path(arguments[1]))
    if arguments[0] == "stop":
        server.stop()
        return 0
    try:
        install(PROGRAMS, PACKAGES)
        server.start()
    except (Unavailable, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 1
    for name, value in server.settings.items():
        print(f"export {name}={shlex.quote(value)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
