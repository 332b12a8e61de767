"""The official Python client (mcp 2) against the binary, in both eras."""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import traceback
from contextlib import asynccontextmanager

from mcp import Client, ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

BINARY = os.environ["HERDR_LINK_BINARY"]
SCENE = os.environ["HERDR_LINK_SCENE"]
FOUR = ["herdr_link", "herdr_link_close", "herdr_link_peers", "herdr_link_send"]
ERA = ["--era", "2026-07-28"]


class Count:
    passed = failed = 0


def check(what, got, want=True):
    if got == want:
        Count.passed += 1
    else:
        Count.failed += 1
        print(f"FAIL {what}: {got!r}, not {want!r}")


def scene(*args):
    return json.loads(subprocess.run([SCENE, *args], check=True, capture_output=True).stdout)


async def walk(name, talk):
    """Runs talk(where, env, check) in a scene of its own, in lead's pane."""
    failed = Count.failed
    with tempfile.TemporaryDirectory(prefix="herdr-link-sdk-", ignore_cleanup_errors=True) as home:
        where = os.path.join(home, "scene")
        try:
            env = scene("new", where, BINARY)["w1:p1"] | {"HOME": home}
            await talk(where, env, lambda what, *values: check(f"{name}: {what}", *values))
        except BaseException:
            check(f"{name}: {traceback.format_exc()}", False)
    print("ok  " if Count.failed == failed else "FAIL", name)


def names(listed):
    return sorted(t.name for t in listed.tools)


async def talk(client, where, check, alone):
    """Does with a server what agents do; alone: herdr_link is the only tool."""

    def use(name, arguments):
        if alone:
            return client.call_tool("herdr_link", {"action": name, "arguments": arguments})
        return client.call_tool(f"herdr_link_{name}", arguments)

    peers = await use("peers", {})
    check("self", peers.structured_content["self"]["name"], "lead")
    check("the peers", [p["name"] for p in peers.structured_content["peers"]], ["reviewer"])

    message = 'Look at "a" & <b>,\nplease: ü 漢 🙂'
    sent = await use("send", {"to": "reviewer", "message": message})
    check("sent", sent.structured_content["status"], "sent")
    arrived = []
    for _ in range(100):  # Herdr presses Enter a moment after the text
        arrived = scene("show", where)["w1:p2"]
        if arrived:
            break
        await asyncio.sleep(0.1)
    check("one message arrived", len(arrived), 1)
    envelope = json.loads(arrived[0].split("\n")[-1])
    check("its id, sender and text", [envelope["id"], envelope["from"], envelope["message"]], [sent.structured_content["id"], "lead", message])

    nobody = await use("send", {"to": "builder", "message": "hi"})
    check("an error is a result", nobody.is_error)
    check("its code", nobody.content[0].text.startswith("PEER_NOT_FOUND: "))

    closed = await use("close", {"agent": "reviewer"})
    check("closed", closed.structured_content, {"status": "closed", "agent": "reviewer"})
    check("the pane is gone", "w1:p2" in scene("show", where), False)


@asynccontextmanager
async def server_ends(check):
    """Sees that no server of this process is left."""
    yield
    left = True
    for _ in range(50):
        listed = subprocess.run(["ps", "-A", "-o", "ppid=,args="], capture_output=True, text=True).stdout
        left = any(line.split(None, 1)[0] == str(os.getpid()) and BINARY in line for line in listed.splitlines())
        if not left:
            break
        await asyncio.sleep(0.1)
    check("the server has ended", left, False)


async def legacy(where, env, check):
    changes = []

    async def note(message):
        if "ToolListChanged" in type(getattr(message, "root", message)).__name__:
            changes.append(message)

    parameters = StdioServerParameters(command=BINARY, env=env)
    async with server_ends(check), stdio_client(parameters) as streams, ClientSession(*streams, message_handler=note) as session:
        about = await session.initialize()
        check("version and name", [about.protocol_version, about.server_info.name], ["2025-11-25", "herdr-link"])
        check("dormant: one tool", names(await session.list_tools()), ["herdr_link"])
        active = await session.call_tool("herdr_link", {})
        check("active", active.structured_content["status"], "active")
        check("the contract", len(active.structured_content["contract"]) > 500)
        check("told once that the tools changed", len(changes), 1)
        check("active: four tools", names(await session.list_tools()), FOUR)
        try:
            check("an unknown tool", await session.call_tool("no_such_tool", {}), None)
        except Exception as err:
            check("an unknown tool", err.error.code, -32602)
        await talk(session, where, check, False)


def client(args, mode, version):
    async def run(where, env, check):
        parameters = StdioServerParameters(command=BINARY, args=args, env=env)
        async with server_ends(check), Client(parameters, mode=mode) as c:
            check("the version", c.protocol_version, version)
            check("one tool", names(await c.list_tools()), ["herdr_link"])
            active = await c.call_tool("herdr_link", {})
            check("active", active.structured_content["status"], "active")
            await talk(c, where, check, bool(args))

    return run


async def main():
    await walk("ClientSession", legacy)
    await walk("Client", client([], "auto", "2025-11-25"))
    await walk("Client, server with --era", client(ERA, "auto", "2026-07-28"))
    await walk("Client, only 2026-07-28", client(ERA, "2026-07-28", "2026-07-28"))
    print(f"python: {Count.passed} passed, {Count.failed} failed")
    sys.exit(Count.failed > 0 or Count.passed == 0)


asyncio.run(main())
