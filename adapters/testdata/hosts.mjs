// Small stand-ins for the hosts: loads an adapter, lets it live as its host would, and prints what could be seen.
// node hosts.mjs pi|opencode ADAPTER JOURNAL
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const [host, file, journal] = process.argv.slice(2);
const adapter = await import(pathToFileURL(file));
const seen = {};

const started = () => readFileSync(journal, "utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line));
const failure = (promise) => promise.then(() => "no error", (error) => `${error.name}: ${error.message}`);

async function until(ok) {
  for (let i = 0; i < 2000; i++, await sleep(10)) if (ok()) return;
  throw new Error("it did not come to pass");
}

const lives = (pid) => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

// aborted ends a call that would take long, and tells how.
async function aborted(begin) {
  const controller = new AbortController();
  const call = failure(begin(controller.signal));
  await until(() => started().some((p) => p.stdin?.includes("hang")));
  controller.abort();
  const error = await call;
  const { pid } = started().find((p) => p.stdin?.includes("hang"));
  return { error, lives: lives(pid), before: await failure(begin(controller.signal)), processes: started().filter((p) => p.stdin?.includes("hang")).length };
}

function piHost() {
  const tools = new Map();
  const handlers = {};
  const notes = [];
  let active = ["read", "bash"];
  const api = {
    registerTool: (tool) => (tools.set(tool.name, tool), active.push(tool.name)),
    getAllTools: () => [...tools.values()],
    getActiveTools: () => [...active],
    setActiveTools: (names) => (active = names),
    on: (event, handler) => (handlers[event] ??= []).push(handler),
  };
  const emit = (event, data = {}) => (handlers[event] ?? []).map((handler) => handler(data, { ui: { notify: (text) => notes.push(text) } }));
  const call = (name, args, signal) => tools.get(name).execute("id", tools.get(name).prepareArguments(args), signal);
  return { api, tools, notes, emit, call, active: () => active };
}

if (host === "pi") {
  const pi = piHost();
  await adapter.default(pi.api);
  if (process.env.HERDR_LINK_TEST_TWICE) await adapter.default(pi.api);
  const begin = () => pi.emit("before_agent_start", { systemPrompt: "BASE" }).map((result) => result?.systemPrompt ?? "untouched").join("|") || "untouched";
  seen.loading = [...pi.tools.keys()];
  pi.emit("session_start");
  seen.tools = [...pi.tools.values()];
  seen.dormant = { active: pi.active(), prompt: begin() };
  if (pi.tools.size > 0) {
    seen.activation = await pi.call("herdr_link", {});
    seen.active = { active: pi.active(), prompt: begin() };
    pi.emit("session_start");
    seen.next = { active: pi.active(), prompt: begin() };
    seen.byAction = await pi.call("herdr_link", { action: "peers", arguments: null });
    seen.again = await pi.call("herdr_link", { action: "peers" });
    seen.error = await failure(pi.call("herdr_link_send", { to: "a", message: "fail" }));
    seen.misuse = await failure(pi.call("herdr_link_send", { to: "a", message: "misuse" }));
    seen.flood = await failure(pi.call("herdr_link_send", { to: "a", message: "flood" }));
    await Promise.all([
      pi.call("herdr_link_send", { to: "c", message: "slow", reply_to: null }),
      pi.call("herdr_link_send", { to: "a", message: "first", reply_to: null }),
      pi.call("herdr_link", { action: "send", arguments: { to: "a", message: "second" } }),
      pi.call("herdr_link_close", { agent: "a" }),
      pi.call("herdr_link_send", { to: "b", message: "after the close" }),
      pi.call("herdr_link_peers", { beside: true }),
    ]);
    seen.abort = await aborted((signal) => pi.call("herdr_link_send", { to: "a", message: "hang" }, signal));
  }
  seen.notes = pi.notes;
} else {
  const plugins = Object.values(adapter);
  seen.exports = plugins.length;
  seen.failed = "";
  const hooks = await plugins[0]({}).catch((error) => ((seen.failed = error.message), {}));
  seen.hooks = Object.keys(hooks);
  if (hooks.tool) {
    const asked = [];
    const context = (sessionID, abort = new AbortController().signal) => ({ sessionID, abort, ask: async (what) => void asked.push(what) });
    const call = (session, args, abort) => hooks.tool.herdr_link.execute(args, context(session, abort));
    const system = async (sessionID) => {
      const output = { system: ["BASE"] };
      await hooks["experimental.chat.system.transform"]({ sessionID }, output);
      return output.system.join("|");
    };
    const definition = async (toolID) => {
      const output = { description: "", parameters: {}, jsonSchema: { required: ["all"] } };
      await hooks["tool.definition"]({ toolID }, output);
      return output.jsonSchema;
    };
    seen.tools = hooks.tool;
    seen.definition = await definition("herdr_link");
    seen.foreign = await definition("bash");
    seen.dormant = [await system("one"), await system("two"), await system(undefined)];
    seen.activation = await call("one", {});
    seen.active = [await system("one"), await system("two"), await system(undefined)];
    seen.byAction = await call("two", { action: "peers" });
    seen.both = [await system("one"), await system("two")];
    await hooks.event({ event: { type: "session.idle", properties: { sessionID: "one" } } });
    seen.idle = [await system("one"), await system("two")];
    await hooks.event({ event: { type: "session.deleted", properties: { info: { id: "one" } } } });
    seen.deleted = [await system("one"), await system("two")];
    seen.error = await failure(call("two", { action: "send", to: "a", message: "fail" }));
    await Promise.all([
      call("two", { action: "send", arguments: { to: "c", message: "slow" } }),
      call("two", { action: "send", arguments: { to: "a", message: "first" } }),
      call("two", { action: "send", to: "a", message: "second" }),
      call("two", { action: "close", arguments: { agent: "a" } }),
      call("two", { action: "send", arguments: { to: "b", message: "after the close" } }),
      call("two", { action: "peers", beside: true }),
    ]);
    seen.abort = await aborted((signal) => call("two", { action: "send", arguments: { to: "a", message: "hang" } }, signal));
    seen.asked = asked;
  }
}
if (process.env.HERDR_LINK_TEST_BOOTSTRAPS) await until(() => started().some((p) => p.args[0] === "bootstrap"));
console.log(JSON.stringify(seen));
