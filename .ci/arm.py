"""Try edgemem on an emulated aarch64: install it offline, embed, play the demo, recall, kill it, test it.

    make test-arm

Exit code 0 if all went well, 1 if something failed, 77 if this machine cannot try it. What takes minutes (the system,
the cross-built llama.cpp, the wheels) is kept in `arm64/` of the cache. Emulated code is 10 to 20 times slower than
this machine, so no time printed here says anything about a board.
"""

import fcntl
import json
import math
import os
import subprocess
import sys
import time
from typing import Any

from arm_root import CPU, FOLDER, INSIDE, VENV, check_ground, command_inside, emulation, inside, make_system
from arm_wheels import FOR_TESTS, WHEELS, check_libraries, make_wheels
from setup_env import PYTHON, ROOT, fail, run, say

PROBE = "/checkout/.ci/arm_probe.py"
KILLED = f"{INSIDE}/killed"
DEMO = f"{INSIDE}/demo"
LEAST_COSINE = 0.99
"""Below it, two vectors of the same sentence are not the same any more; rounding alone stays above .999."""
LEAST_FACTS = 20  # that were acknowledged when the process is killed

# What a processor can change: bits and bytes of vectors and postings, tokens, locks, threads, and a kill.
TESTS = (
    "tests/recall/index/test_postings.py",
    "tests/recall/test_vector_store.py",
    "tests/contracts/test_vector_index_contract.py",
    "tests/recall/test_recall.py",
    "tests/store/db/test_database.py",
    "tests/store/test_turns.py",
    "tests/llama/test_embedder.py::test_eight_threads_get_their_own_vectors",
    "tests/llama/test_embedder.py::test_text_that_is_embedded_gives_way_to_a_turn",
    "tests/test_clock.py",
    "tests/test_fence.py",
    "tests/crash/test_spool_kill.py",
)
# Thousands of examples or every vocabulary: minutes here, with nothing in them that a processor could change.
TOO_LONG = (
    "tests/test_fence.py::test_no_special_token_of_any_template_survives",
    "tests/test_fence.py::test_every_look_alike_is_seen_by_the_quick_checks",
    "tests/test_fence.py::test_a_block_has_one_opening_and_one_closing_fence",
    "tests/test_fence.py::test_cleaning_twice_changes_nothing",
)


def lowest_cosine(ours: list[list[float]], theirs: list[list[float]]) -> float:
    """Return the cosine of the two vectors of a pair that differ most."""
    if len(ours) != len(theirs):
        raise ValueError(f"{len(ours)} vectors against {len(theirs)}")
    return min(
        sum(a * b for a, b in zip(one, other, strict=True)) / (math.hypot(*one) * math.hypot(*other))
        for one, other in zip(ours, theirs, strict=True)
    )


def install() -> None:
    """Install from the wheel folder as a user without a network does, and then what the tests need."""
    python = f"{VENV}/bin/python"
    inside("installing offline", ["env", "VENV_OPTIONS=--clear", "sh", "/wheels/install.sh", VENV])
    (pip,) = WHEELS.glob("pip-*.whl")
    inside("installing the tests' packages", [
        python, f"/wheels/{pip.name}/pip", "install", "-q", "--no-index", "--find-links", "/wheels", *FOR_TESTS])  # fmt: skip
    left = (KILLED, DEMO, f"{INSIDE}/.edgemem", "/tmp/pytest")  # noqa: S108
    inside("clearing what an earlier run left", ["rm", "-rf", *left])


def check() -> str:
    """Run `edgemem check`, and return what it says about vec0 and the database."""
    inside(
        "a first fact", ["edgemem", "facts", "add", "board", "aarch64"]
    )  # a home that is missing is no `ok`
    found = {one["name"]: one for one in json.loads(inside("edgemem check", ["edgemem", "check", "--json"]))}
    bad = [f"{one['name']}: {one['detail']}" for one in found.values() if one["state"] != "ok"]
    if bad:
        fail(f"edgemem check on aarch64 says: {'; '.join(bad)}")
    return f"{found['vectors']['detail']}; {found['embedder']['detail']}"


def compare_vectors() -> tuple[float, dict[str, Any]]:
    """Embed the same sentences here and there; return the lowest cosine, and what the other side stands on."""
    ours = subprocess.run(
        [str(PYTHON), f"{ROOT}/.ci/arm_probe.py", "embed"],
        env=dict(os.environ, PYTHONPATH=str(ROOT)), capture_output=True, text=True, check=False)  # fmt: skip
    if ours.returncode:
        fail(f"this machine itself could not embed:\n\n{ours.stderr}")
    there = json.loads(inside("embedding", ["python", PROBE, "embed"]))
    lowest = lowest_cosine(json.loads(ours.stdout)["vectors"], there["vectors"])
    if there["machine"] != "aarch64" or lowest < LEAST_COSINE:
        fail(f"the lowest cosine between this machine and {there['machine']} is {lowest:.4f}")
    return lowest, there


def demo() -> str:
    """Play the demo to its end, find something in what it made, and return its checks."""
    played = json.loads(inside("edgemem demo", ["edgemem", "demo", "--home", DEMO, "--json"]))["summary"]
    checks = f"{played['checks_passed']} of {played['checks']} checks, {played['turns']} turns"
    if not (played["ok"] and played["embedder"] and played["exact_tokens"]):
        fail(f"the demo on aarch64 ended with {checks}: {played['failures']}")
    question = ["edgemem", "recall", "What must Oyelaran not eat?", "--home", DEMO, "--json"]
    found = json.loads(inside("edgemem recall", question))
    if not any("hazelnuts" in one["text"] and "meaning" in one["why"] for one in found):
        fail(f"recall on aarch64 did not find the hazelnuts: {[one['text'] for one in found]}")
    return checks


def kill() -> str:
    """Kill a process that writes with SIGKILL, open its home again, and return what was there."""
    acknowledged = -1
    command = command_inside(["python", PROBE, "write", KILLED])
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        for line in writer.stdout:
            acknowledged = int(line)
            if acknowledged >= LEAST_FACTS:
                break
        writer.kill()  # unshare's --kill-child hands it on to all inside
        rest = writer.stdout.read().splitlines(keepends=True)
    acknowledged = max([acknowledged, *(int(line) for line in rest if line.endswith("\n"))])
    counted = json.loads(inside("opening again after a kill", ["python", PROBE, "count", KILLED]))
    there = f"{acknowledged + 1} facts acknowledged, {counted['facts']} there after the kill"
    # the fact that was being written may be there, though nobody heard of it
    kept = counted["facts"] - acknowledged - 1 in {0, 1}
    if not (
        kept
        and acknowledged >= LEAST_FACTS
        and counted["whole"]
        and counted["found"]
        and counted["database"] == "ok"
    ):
        fail(f"{there}: {counted}")
    return there


def test() -> str:
    """Run the tests that a processor can break, and return pytest's last line."""
    # `python -m pytest` would put the checkout before the installed wheel
    left_out = [f"--deselect={name}" for name in TOO_LONG]
    said = inside("tests", [
        "pytest", "-q", "-p", "no:cacheprovider", "-o", "timeout=1800",
        "--basetemp=/tmp/pytest", *left_out, *TESTS], folder="/checkout")  # fmt: skip
    return said.strip().splitlines()[-1].strip("= ")


def main() -> None:
    """Make what is missing, go through all stages, and sum them up."""
    started = time.monotonic()
    os.nice(10)
    check_ground()
    FOLDER.mkdir(parents=True, exist_ok=True)
    if not PYTHON.exists():
        run("setting up edgemem on this machine", [sys.executable, str(ROOT / ".ci" / "setup_env.py"), "dev"])
    run(
        "models get",
        [str(PYTHON), "-m", "edgemem", "models", "get", "--quiet"],
        dict(os.environ, PYTHONPATH=str(ROOT)),
    )
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with emulation():
            make_system()
            make_wheels()
            summary = {"libraries": f"{check_libraries(WHEELS)} of 64-bit ARM, fit for pages of 16 KiB"}
            install()
            summary["check"] = check()
            lowest, there = compare_vectors()
            summary["versions"] = ", ".join(f"{name} {number}" for name, number in there["versions"].items())
            summary["embedding"] = f"lowest cosine to this machine's vectors {lowest:.5f}"
            summary["demo"] = demo()
            summary["kill -9"] = kill()
            summary["tests"] = test()
    say(f"aarch64 ({CPU}, by qemu) in {time.monotonic() - started:.0f} s")
    for name, result in summary.items():
        say(f"{name:10} {result}")


if __name__ == "__main__":
    main()
