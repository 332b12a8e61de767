// herdr-link orchestration. Written by herdr-link orchestration install, which also renews it; herdr-link orchestration uninstall removes it.
// Wiring only: agents, rules and texts come from the data file beside it, and answers from the program that it names.
import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

const TOOL = "herdr_agent_response";
const NONE = "none"; // the mode of every other agent
const SESSIONS = 4096; // remembered at most

const isObject = (v) => typeof v === "object" && v !== null && !Array.isArray(v);

// merge lays what a user has set over the defaults. Order decides between rules, the last that matches: the
// defaults come first, in theirs; a user's value takes its default's place, and what has none comes last.
function merge(defaults, own) {
  const merged = { ...defaults };
  for (const [key, value] of Object.entries(own)) {
    if (value === null || value === undefined || key === "__proto__") continue;
    const before = Object.hasOwn(defaults, key) ? defaults[key] : undefined;
    merged[key] = isObject(before) && isObject(value) ? merge(before, value) : value;
  }
  return merged;
}

// withDefaults is merge for an agent. A Markdown file without a body comes with an empty prompt, and means none.
function withDefaults(defaults, own) {
  if (!isObject(own)) return defaults;
  const { prompt, ...rest } = own;
  return merge(defaults, typeof prompt === "string" && prompt.trim() === "" ? rest : own);
}

// respond asks the program for an answer and returns its one JSON document, as text and decoded.
function respond(program, request, signal) {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const options = { timeout: 90_000, maxBuffer: 1 << 20, windowsHide: true };
    const child = execFile(program, ["orchestration", "respond"], options, (error, stdout) => {
      clearTimeout(hard);
      signal?.removeEventListener("abort", end);
      if (signal?.aborted) return reject(signal.reason);
      const text = stdout.trim();
      try {
        const document = JSON.parse(text);
        if (typeof document.ok === "boolean") return resolve({ text, document });
      } catch {}
      const message = `herdr-link gave no answer (${error?.code ?? error?.signal ?? "no JSON"}); herdr-link orchestration status says more`;
      const failure = { ok: false, error: { code: "HELPER_UNAVAILABLE", message, retryable: false } };
      resolve({ text: JSON.stringify(failure), document: failure });
    });
    let hard;
    const end = () => {
      child.kill(); // it ends what it has started
      hard = setTimeout(() => child.kill("SIGKILL"), 900);
    };
    signal?.addEventListener("abort", end);
    child.stdin?.on("error", () => {}); // it may end without reading
    child.stdin?.end(JSON.stringify(request));
  });
}

// result is what the model, and whoever looks at the session, get to see.
function result({ text, document }) {
  const { ok, target, sessionID, messageID, offset, nextOffset, totalBytes, complete, error } = document;
  if (!ok) return { title: String(error?.code), output: text, metadata: { ok, code: error?.code } };
  return { title: String(target), output: text, metadata: { ok, target, sessionID, messageID, offset, nextOffset, totalBytes, complete } };
}

export const HerdrLinkOrchestration = async ({ client } = {}) => {
  // OpenCode must start, whatever happens here.
  const complain = (message) => {
    try {
      client?.app?.log?.({ body: { service: "herdr-link", level: "error", message } })?.catch?.(() => {});
    } catch {}
  };
  let data;
  try {
    data = JSON.parse(readFileSync(new URL("../herdr-link/orchestration.json", import.meta.url), "utf8"));
    if (![data.agents, data.modes, data.tool?.args].every(isObject)) throw new Error("it is not whole");
  } catch (error) {
    complain(`orchestration is off, its data file cannot be used: ${error?.message}`);
    return {};
  }
  const guarded = (name, hook) => async (...args) => {
    try {
      await hook(...args);
    } catch (error) {
      complain(`orchestration: ${name}: ${error?.message}`);
    }
  };

  const secret = randomBytes(32).toString("base64url");
  const program = process.env.HERDR_LINK_BIN || data.binary;

  const sessions = new Map(); // by id: the mode of its agent, and that of its parent for agents that have none
  const modeOf = (agent) => (Object.hasOwn(data.modes, agent) ? data.modes[agent] : undefined);
  const remember = (id, session) => {
    sessions.delete(id); // to the end: the first is the oldest
    sessions.set(id, session);
    if (sessions.size > SESSIONS) sessions.delete(sessions.keys().next().value);
  };

  return {
    config: guarded("config", (config) => {
      const agents = isObject(config.agent) ? config.agent : {};
      for (const [name, defaults] of Object.entries(data.agents)) agents[name] = withDefaults(defaults, agents[name]);
      config.agent = agents;
    }),

    "chat.message": guarded("chat.message", ({ sessionID, agent }, output) => {
      const inherited = sessions.get(sessionID)?.inherited ?? NONE;
      remember(sessionID, { inherited, mode: modeOf(agent ?? output?.message?.agent) ?? inherited });
    }),

    event: guarded("event", ({ event: { type, properties } }) => {
      const id = properties?.info?.id ?? properties?.sessionID;
      if (type === "session.deleted") sessions.delete(id);
      const parent = type === "session.created" && properties?.info?.parentID;
      if (!parent) return;
      const inherited = sessions.get(parent)?.mode ?? NONE;
      remember(id, { inherited, mode: modeOf(properties.info.agent) ?? inherited });
    }),

    "shell.env": guarded("shell.env", ({ sessionID }, { env }) => {
      const mode = sessions.get(sessionID)?.mode ?? NONE;
      env.SHEPHERD_MODE = mode; // always: one that was inherited is another process's
      // Without its files there, that folder would only switch the repository's own hooks off.
      if (mode === NONE || !data.hooksPath || !existsSync(join(data.hooksPath, "pre-push"))) return;
      const given = Number(env.GIT_CONFIG_COUNT ?? process.env.GIT_CONFIG_COUNT ?? 0);
      const n = Number.isSafeInteger(given) && given > 0 ? given : 0;
      env[`GIT_CONFIG_KEY_${n}`] = "core.hooksPath";
      env[`GIT_CONFIG_VALUE_${n}`] = data.hooksPath;
      env.GIT_CONFIG_COUNT = String(n + 1);
    }),

    tool: {
      [TOOL]: {
        description: data.tool.description,
        args: data.tool.args,
        execute: async (args, { agent, abort }) => result(await respond(program, { v: 1, secret, agent, args: args ?? {} }, abort)),
      },
    },
    // OpenCode takes every plain argument for a required one.
    "tool.definition": guarded("tool.definition", ({ toolID }, output) => {
      if (toolID === TOOL && output.jsonSchema) output.jsonSchema = { ...output.jsonSchema, required: [] };
    }),
  };
};
