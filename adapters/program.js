// herdr-link adapter, version "@VERSION@"
// Written by herdr-link install, which also renews it; herdr-link uninstall removes it. Changes made here get lost.
// Wiring only: every name, schema and text comes from the program below, once, and every call goes to it.
import { execFile, spawn } from "node:child_process";

const PROGRAM = "@HERDR_LINK@";

// Tools whose names begin so are for active sessions; the gateway wakes them up and can stand in for them.
const GATEWAY = "herdr_link";
const whenActive = (name) => name.startsWith(GATEWAY + "_");
const ofLink = (name) => name === GATEWAY || whenActive(name);
const CLOSING = Symbol("the latest close");

function inside() {
  const env = process.env;
  return env.HERDR_ENV === "1" && !!env.HERDR_PANE_ID && !!env.HERDR_BIN_PATH && env.HERDR_LINK_OFF !== "1";
}

// The program as a child: always an argument vector, never a shell. Eager is for hosts that cannot refresh.
const options = () => ({ env: { ...process.env, HERDR_LINK_EAGER: "0" }, windowsHide: true });

// run gives the JSON that the program prints. It settles when the process has ended, also after an abort.
function run(args, { input = "", signal, timeout }) {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const child = execFile(PROGRAM, args, { ...options(), timeout, maxBuffer: 8 << 20 }, (error, stdout, stderr) => {
      signal?.removeEventListener("abort", end);
      if (signal?.aborted) return reject(signal.reason);
      try {
        resolve(JSON.parse(stdout));
      } catch {
        reject(new Error(stderr.trim().slice(0, 2048) || `herdr-link: ${error?.code ?? error?.signal}`));
      }
    });
    const end = () => child.kill();
    signal?.addEventListener("abort", end);
    child.stdin?.on("error", () => {}); // it may end without reading
    child.stdin?.end(input);
  });
}

const describe = () => run(["tools", "--json"], { timeout: 10_000 });

// bootstrap gives this agent a name, if it needs one: in the background, and nobody waits for it.
function bootstrap() {
  spawn(PROGRAM, ["bootstrap"], { ...options(), stdio: "ignore" }).on("error", () => {}).unref();
}

// call runs one tool behind the earlier calls for its target, whose ends are in tails. A close waits for every
// earlier send and close there, and they for it. The program limits itself to less than that timeout.
function call(tails, name, args, signal, allowed) {
  args ??= {};
  const action = name === GATEWAY ? args.action : name;
  const inner = (name === GATEWAY && args.arguments) || args;
  const closes = action === "close" || action === GATEWAY + "_close";
  const target = closes ? inner.agent : action === "send" || action === GATEWAY + "_send" ? inner.to : undefined;

  const begin = async () => {
    await allowed?.();
    const result = await run(["call", name], { input: JSON.stringify(args), signal, timeout: 60_000 });
    if (result.isError) throw new Error(result.content.map((part) => part.text).join("\n"));
    return result;
  };
  if (target === undefined) return begin();

  const before = closes ? [...tails.values()] : [tails.get(target), tails.get(CLOSING)];
  const keys = closes ? [target, CLOSING] : [target];
  const result = Promise.all(before).then(begin);
  const tail = result.catch(() => {}).then(() => {
    for (const key of keys) if (tails.get(key) === tail) tails.delete(key);
  });
  for (const key of keys) tails.set(key, tail);
  return result;
}
