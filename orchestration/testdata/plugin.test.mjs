// The plugin in Node, with a stand-in for OpenCode around it. plugin_test.go has made the folder CONFIG, and plays the program.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";

const { CONFIG, HOOKS, HERDR_LINK_TEST_JOURNAL: JOURNAL } = process.env;
const DATA = join(CONFIG, "herdr-link", "orchestration.json");
const data = JSON.parse(readFileSync(DATA, "utf8"));
const journal = () => readFileSync(JOURNAL, "utf8").trim().split("\n");

const { HerdrLinkOrchestration, ...others } = await import(pathToFileURL(join(CONFIG, "plugins", "herdr-link-orchestration.js")));

function host() {
  const said = [];
  const client = { app: { log: ({ body }) => (said.push(body), Promise.resolve()) } };
  return { said, start: () => HerdrLinkOrchestration({ client }) };
}

const start = () => host().start();
const keys = (o) => Object.keys(o);
const shell = async (hooks, sessionID, env = {}) => (await hooks["shell.env"]({ cwd: "/", sessionID }, { env }), env);
const prompt = (hooks, sessionID, agent) => hooks["chat.message"]({ sessionID, agent }, { message: { agent }, parts: [] });
const tell = (hooks, type, properties) => hooks.event({ event: { type, properties } });

test("it exports one plugin: OpenCode calls every export", () => assert.deepEqual(keys(others), []));

test("without anything of the user's, the agents are as in the data", async () => {
  const config = {};
  await (await start()).config(config);
  assert.deepEqual(config.agent, data.agents);
  assert.deepEqual(keys(config.agent["sheep-plan"].permission), keys(data.agents["sheep-plan"].permission));
});

test("a user's values replace in place, and what is new comes last", async () => {
  const bash = data.agents["sheep-build"].permission.bash;
  const config = {
    agent: {
      mine: { prompt: "" },
      "sheep-build": {
        prompt: " \n", model: "p/mine", description: null, mode: undefined, options: { a: 1 },
        permission: { task: "ask", bash: { "git push*": "allow", "*": "ask", "git push origin x": "allow" }, webfetch: "deny", grep: { "*.md": "allow" } },
      },
      "sheep-plan": { prompt: "mine", permission: "allow" },
      "shepherd-plan": null,
    },
  };
  await (await start()).config(config);
  const { agent } = config;
  assert.deepEqual(agent.mine, { prompt: "" });
  const got = agent["sheep-build"];
  assert.equal(got.prompt, data.agents["sheep-build"].prompt);
  assert.equal(got.description, data.agents["sheep-build"].description);
  assert.equal(got.mode, "primary");
  assert.equal(got.model, "p/mine");
  assert.deepEqual(keys(got.permission), [...keys(data.agents["sheep-build"].permission), "webfetch"]);
  assert.equal(got.permission.task, "ask");
  assert.deepEqual(got.permission.grep, { "*.md": "allow" });
  assert.deepEqual(keys(got.permission.bash), [...keys(bash), "git push origin x"]);
  assert.deepEqual({ ...got.permission.bash }, { ...bash, "git push*": "allow", "*": "ask", "git push origin x": "allow" });
  assert.equal(agent["sheep-plan"].prompt, "mine");
  assert.equal(agent["sheep-plan"].permission, "allow");
  assert.deepEqual(agent["shepherd-plan"], data.agents["shepherd-plan"]);
});

test("one rule of the user's changes one rule", async () => {
  const config = { agent: { "sheep-plan": { permission: { bash: { "git log": "deny" } } } } };
  await (await start()).config(config);
  const want = structuredClone(data.agents["sheep-plan"]);
  want.permission.bash["git log"] = "deny";
  assert.equal(JSON.stringify(config.agent["sheep-plan"]), JSON.stringify(want));
});

test("a configuration that is none of that shape does no harm", async () => {
  const hooks = await start();
  for (const config of [{ agent: [] }, { agent: "x" }, { agent: { "sheep-plan": "x", "sheep-build": [1] } }, { agent: null }]) {
    await hooks.config(config);
    assert.deepEqual(config.agent["sheep-plan"], data.agents["sheep-plan"]);
  }
  const config = JSON.parse('{"agent":{"sheep-plan":{"__proto__":{"mode":"all"},"permission":{"__proto__":{"edit":"allow"}}}}}');
  await hooks.config(config);
  assert.equal(config.agent["sheep-plan"].mode, "primary");
  assert.equal(config.agent["sheep-plan"].permission.edit, "deny");
  await hooks.config(undefined);
  await hooks.config(Object.freeze({}));
});

test("each session's shells know its agent", async () => {
  const hooks = await start();
  for (const [agent, mode] of Object.entries(data.modes)) {
    await prompt(hooks, agent, agent);
    assert.equal((await shell(hooks, agent)).SHEPHERD_MODE, mode);
  }
  assert.equal((await shell(hooks, "shepherd-plan")).SHEPHERD_MODE, "plan");
  await prompt(hooks, "shepherd-plan", "shepherd-build"); // the user has switched
  assert.equal((await shell(hooks, "shepherd-plan")).SHEPHERD_MODE, "build");
  await prompt(hooks, "shepherd-plan", "build");
  assert.equal((await shell(hooks, "shepherd-plan")).SHEPHERD_MODE, "none");
  await prompt(hooks, "a", undefined);
  await hooks["chat.message"]({ sessionID: "b" }, { message: { agent: "sheep-plan" }, parts: [] });
  assert.equal((await shell(hooks, "a")).SHEPHERD_MODE, "none");
  assert.equal((await shell(hooks, "b")).SHEPHERD_MODE, "sheep-plan");
  for (const agent of ["constructor", "__proto__", "toString"]) {
    await prompt(hooks, "c", agent);
    assert.equal((await shell(hooks, "c")).SHEPHERD_MODE, "none");
  }
});

test("an inherited mode never gets into a shell", async () => {
  process.env.SHEPHERD_MODE = "build";
  const hooks = await start();
  for (const session of ["unknown", undefined]) assert.equal((await shell(hooks, session)).SHEPHERD_MODE, "none");
  assert.equal((await shell(hooks, "unknown", { SHEPHERD_MODE: "plan" })).SHEPHERD_MODE, "none");
  delete process.env.SHEPHERD_MODE;
});

test("children inherit, and deleted sessions are forgotten", async () => {
  const hooks = await start();
  await prompt(hooks, "parent", "sheep-build");
  await tell(hooks, "session.created", { info: { id: "child", parentID: "parent" } });
  await tell(hooks, "session.created", { info: { id: "orphan", parentID: "nobody" } });
  await tell(hooks, "session.created", { info: { id: "named", parentID: "parent", agent: "shepherd-plan" } });
  await tell(hooks, "session.created", { info: { id: "free" } });
  assert.equal((await shell(hooks, "child")).SHEPHERD_MODE, "sheep-build");
  assert.equal((await shell(hooks, "named")).SHEPHERD_MODE, "plan");
  for (const id of ["orphan", "free"]) assert.equal((await shell(hooks, id)).SHEPHERD_MODE, "none");
  await prompt(hooks, "child", "general"); // an agent that has no mode of its own
  assert.equal((await shell(hooks, "child")).SHEPHERD_MODE, "sheep-build");
  await prompt(hooks, "child", "shepherd-build");
  assert.equal((await shell(hooks, "child")).SHEPHERD_MODE, "build");
  await tell(hooks, "session.deleted", { info: { id: "parent" } });
  await tell(hooks, "session.deleted", { sessionID: "child" });
  for (const id of ["parent", "child"]) assert.equal((await shell(hooks, id)).SHEPHERD_MODE, "none");
  assert.equal((await shell(hooks, "named")).SHEPHERD_MODE, "plan");
});

test("it remembers 4096 sessions, and forgets the oldest", async () => {
  const hooks = await start();
  for (let i = 0; i < 4096; i++) await prompt(hooks, "s" + i, "sheep-plan");
  await prompt(hooks, "s0", "sheep-plan"); // used again, so s1 is the oldest
  await prompt(hooks, "new", "sheep-plan");
  const mode = async (id) => (await shell(hooks, id)).SHEPHERD_MODE;
  assert.deepEqual([await mode("s0"), await mode("s1"), await mode("s2"), await mode("new")], ["sheep-plan", "none", "sheep-plan", "sheep-plan"]);
});

test("the push policy gets into the shells of these agents, if its files are there", async () => {
  const hooks = await start();
  await prompt(hooks, "s", "review");
  await prompt(hooks, "s", "shearer-review-low");
  const without = { SHEPHERD_MODE: "review" };
  assert.deepEqual(await shell(hooks, "s"), without);
  mkdirSync(HOOKS, { recursive: true });
  assert.deepEqual(await shell(hooks, "s"), without);
  writeFileSync(join(HOOKS, "pre-push"), "");
  const one = (n) => ({ [`GIT_CONFIG_KEY_${n}`]: "core.hooksPath", [`GIT_CONFIG_VALUE_${n}`]: HOOKS, GIT_CONFIG_COUNT: String(n + 1) });
  assert.deepEqual(await shell(hooks, "s"), { ...without, ...one(0) });
  assert.deepEqual(await shell(hooks, "s", { GIT_CONFIG_COUNT: "2" }), { ...without, ...one(2) });
  process.env.GIT_CONFIG_COUNT = "3";
  assert.deepEqual(await shell(hooks, "s"), { ...without, ...one(3) });
  for (const bad of ["x", "-1", "1.5", "1e99", ""]) {
    process.env.GIT_CONFIG_COUNT = bad;
    assert.deepEqual(await shell(hooks, "s"), { ...without, ...one(0) });
  }
  delete process.env.GIT_CONFIG_COUNT;
  assert.deepEqual(await shell(hooks, "unknown"), { SHEPHERD_MODE: "none" });
});

test("no argument of the tool is required", async () => {
  const hooks = await start();
  assert.deepEqual(keys(hooks.tool), ["herdr_agent_response"]);
  assert.deepEqual(hooks.tool.herdr_agent_response.args, data.tool.args);
  assert.equal(hooks.tool.herdr_agent_response.description, data.tool.description);
  const schema = { type: "object", properties: { target: {} }, required: ["target"] };
  const output = { jsonSchema: schema };
  await hooks["tool.definition"]({ toolID: "another" }, output);
  assert.equal(output.jsonSchema, schema);
  await hooks["tool.definition"]({ toolID: "herdr_agent_response" }, output);
  assert.deepEqual(output.jsonSchema, { ...schema, required: [] });
  await hooks["tool.definition"]({ toolID: "herdr_agent_response" }, {});
});

test("an answer comes from the program, byte for byte", async () => {
  const { execute } = (await start()).tool.herdr_agent_response;
  const call = (args, agent = "shepherd-plan") => execute(args, { agent, sessionID: "s", abort: new AbortController().signal });
  const { title, output, metadata } = await call({ target: "w", maxBytes: 1024 });
  assert.equal(title, "w");
  assert.ok(output.startsWith('{"ok":true,"target":"w"') && output.includes('"text":"<b>&"') && !output.endsWith("\n"), output);
  assert.deepEqual(metadata, { ok: true, target: "w", sessionID: "ses_1", messageID: "msg_1", offset: 0, nextOffset: 4, totalBytes: 9, complete: false });
  await execute(undefined, {});
  const [first, second] = journal().slice(-2).map((line) => JSON.parse(line));
  assert.deepEqual({ ...first, secret: "" }, { v: 1, secret: "", agent: "shepherd-plan", args: { target: "w", maxBytes: 1024 } });
  assert.deepEqual({ ...second, secret: "" }, { v: 1, secret: "", args: {} });
  assert.equal(Buffer.from(first.secret, "base64url").length, 32);
  assert.equal(first.secret, second.secret); // cursors live as long as the process
  const { execute: other } = (await start()).tool.herdr_agent_response;
  await other({}, {});
  assert.notEqual(JSON.parse(journal().at(-1)).secret, first.secret);
});

test("a refusal is an answer, too", async () => {
  const { execute } = (await start()).tool.herdr_agent_response;
  const { title, output, metadata } = await execute({ target: "refused" }, { agent: "shepherd-plan" });
  assert.equal(title, "AGENT_NOT_SETTLED");
  assert.equal(JSON.parse(output).agentStatus, "working");
  assert.deepEqual(metadata, { ok: false, code: "AGENT_NOT_SETTLED" });
});

test("without the program, or without an answer, the tool says so", async () => {
  for (const [bin, target] of [["/nowhere/herdr-link", "w"], ["", "silent"], ["", "garbage"]]) {
    if (bin) process.env.HERDR_LINK_BIN = bin;
    const { execute } = (await start()).tool.herdr_agent_response;
    delete process.env.HERDR_LINK_BIN;
    const { title, output, metadata } = await execute({ target }, { agent: "shepherd-plan" });
    const { ok, error } = JSON.parse(output);
    assert.deepEqual([title, metadata.code, ok, error.code, error.retryable], ["HELPER_UNAVAILABLE", "HELPER_UNAVAILABLE", false, "HELPER_UNAVAILABLE", false]);
    assert.ok(!output.includes("secret"));
  }
});

test("an abort ends the program within a second", async () => {
  const { execute } = (await start()).tool.herdr_agent_response;
  const aborting = new AbortController();
  const call = execute({ target: "hang" }, { agent: "shepherd-plan", abort: aborting.signal });
  while (journal().at(-1) !== "hangs") await new Promise((resolve) => setTimeout(resolve, 5));
  aborting.abort(new Error("enough"));
  await assert.rejects(call, /enough/); // only when its process has ended
  await assert.rejects(execute({ target: "w" }, { abort: aborting.signal }), /enough/);
});

test("an abort ends a program that does not obey, too", { timeout: 30_000 }, async () => {
  const { execute } = (await start()).tool.herdr_agent_response;
  const aborting = new AbortController();
  const call = execute({ target: "stubborn" }, { agent: "shepherd-plan", abort: aborting.signal });
  while (journal().at(-1) !== "is stubborn") await new Promise((resolve) => setTimeout(resolve, 5));
  aborting.abort(new Error("enough"));
  await assert.rejects(call, /enough/);
});

test("without its data it registers nothing, and says so once", async () => {
  const text = readFileSync(DATA, "utf8");
  for (const spoilt of [undefined, "", "{", "{}", "[]", JSON.stringify({ ...data, agents: 1 })]) {
    if (spoilt === undefined) rmSync(DATA);
    else writeFileSync(DATA, spoilt);
    const { said, start } = host();
    assert.deepEqual(await start(), {});
    assert.equal(said.length, 1);
    assert.match(said[0].message, /orchestration is off/);
    assert.deepEqual(await HerdrLinkOrchestration(), {});
    assert.deepEqual(await HerdrLinkOrchestration({ client: { app: { log: () => Promise.reject(new Error("x")) } } }), {});
  }
  writeFileSync(DATA, text);
});

test("what goes wrong in a hook is told, and does not reach OpenCode", async () => {
  const { said, start } = host();
  const hooks = await start();
  await hooks["chat.message"](undefined, undefined);
  await hooks.event({});
  await hooks["shell.env"]({}, {});
  await hooks["tool.definition"]({ toolID: "herdr_agent_response" }, undefined);
  await hooks.config(Object.freeze({}));
  assert.equal(said.length, 5);
});
