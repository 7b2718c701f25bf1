"""What a board is: read from the kernel where it tells, and a reason where it does not."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.errors import EdgememError

if TYPE_CHECKING:
    from collections.abc import Callable

_CPU = Path("/sys/devices/system/cpu")
_THROTTLED = (
    # A Raspberry Pi's bits since it was started: under-voltage, capped, throttled.
    Path("/sys/devices/platform/soc/soc:firmware/get_throttled"),
    # How often an x86 processor was too hot.
    _CPU / "cpu0/thermal_throttle/core_throttle_count",
)


class Looked(msgspec.Struct):
    """Values by name; what could not be had is None there, and has its reason in `missing`."""

    values: dict[str, Any] = {}
    missing: dict[str, str] = {}

    def look(self, name: str, how: Callable[[], Any]) -> Any:
        """Take a value, or the reason why there is none."""
        try:
            self.values[name] = how()
        except OSError as error:
            self.lack(name, f"{error.filename or name}: {error.strerror or error}")
        except (ValueError, LookupError, ImportError, EdgememError) as error:
            self.lack(name, str(error) or type(error).__name__)
        return self.values[name]

    def lack(self, name: str, reason: str) -> None:
        """Note that there is no such value here."""
        self.values[name] = None
        self.missing[name] = " ".join(reason.split())


def look_at_machine(folder: Path) -> Looked:
    """Look at the board, its processor, its memory, the disk of a folder, and what Python, SQLite and llama.cpp are."""
    seen = Looked()
    look = seen.look
    look("model", _model)
    look("cpu", _cpu)
    look("cores", os.cpu_count)
    look("max_mhz", lambda: int(_text(_CPU / "cpu0/cpufreq/cpuinfo_max_freq")) / 1e3)
    look("governor", lambda: _text(_CPU / "cpu0/cpufreq/scaling_governor"))
    look("ram_mb", lambda: round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e6))
    look("page_bytes", lambda: os.sysconf("SC_PAGE_SIZE"))
    look("kernel", lambda: f"{platform.system()} {platform.release()} {platform.machine()}")
    look("system", lambda: platform.freedesktop_os_release()["PRETTY_NAME"])
    look("file_system", lambda: _mount(folder)[0])
    look("disk", lambda: _mount(folder)[1])
    look("disk_rotates", lambda: _rotates(folder))
    look("python", platform.python_version)
    look("llama_cpp_python", _llama_version)
    look("llama_cpp_features", _llama_features)
    return seen


def look_at_heat() -> Looked:
    """Look at what may slow the board down just now."""
    seen = Looked()
    seen.look("temperature_c", _temperature)
    seen.look("throttled", _throttled)
    seen.look("mhz", lambda: int(_text(_CPU / "cpu0/cpufreq/scaling_cur_freq")) / 1e3)
    return seen


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace").strip(" \n\0")


def _model() -> str:
    """Return the name of the board, or of the PC."""
    board = Path("/proc/device-tree/model")
    return _text(board if board.exists() else Path("/sys/class/dmi/id/product_name"))


def _cpu() -> str:
    """Return the processor's name; ARM kernels give numbers only."""
    lines = _text(Path("/proc/cpuinfo")).splitlines()
    fields = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if "model name" in fields:
        return fields["model name"]
    return f"implementer {fields['CPU implementer']}, part {fields['CPU part']}"


def _temperature() -> float:
    """Return the hottest zone, in degrees Celsius."""
    zones = sorted(Path("/sys/class/thermal").glob("thermal_zone*/temp"))
    if not zones:
        raise LookupError("the kernel shows no thermal zone")
    return max(int(_text(zone)) for zone in zones) / 1e3


def _throttled() -> str:
    for path in _THROTTLED:
        if path.exists():
            return _text(path)
    raise LookupError("the kernel does not tell")


def _mount(folder: Path) -> tuple[str, str]:
    """Return the kind of the folder's file system, and what it lies on."""
    device = folder.stat().st_dev
    name = f"{os.major(device)}:{os.minor(device)}"
    for line in _text(Path("/proc/self/mountinfo")).splitlines():
        fields = line.split()
        if fields[2] == name:
            kind, source = fields[fields.index("-") + 1 :][:2]
            return kind, source
    raise LookupError(f"no mount has the device {name}")


def _rotates(folder: Path) -> bool:
    device = folder.stat().st_dev
    disk = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve(strict=True)
    # A partition's queue is that of the disk that it is part of.
    queue = next(path for path in (disk / "queue", disk.parent / "queue") if path.is_dir())
    return _text(queue / "rotational") == "1"


def _llama_version() -> str:
    from edgemem.llama import backend

    return str(backend.llama().__version__)


def _llama_features() -> str:
    """Return which instructions llama.cpp was built for and found."""
    from edgemem.llama import backend

    features: bytes = backend.llama().llama_print_system_info()
    return re.sub(r"\s+", " ", features.decode("utf-8", "replace")).strip(" |")
