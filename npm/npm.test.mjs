// Tests the npm packages that make dist has written: packs them, installs them
// from the tarballs alone, and uses them as people do. For Linux and macOS.
import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const packages = path.join(root, 'dist', 'npm');
const version = fs.readFileSync(path.join(root, 'version.txt'), 'utf8').trim();
const platform = `@herdr-link/${process.platform}-${process.arch}`;
const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'herdr-link-npm-'));
const app = path.join(scratch, 'app');
const launcher = path.join(app, 'node_modules', 'herdr-link', 'bin', 'herdr-link.js');
const binary = path.join(app, 'node_modules', platform, 'bin', 'herdr-link');

// Nothing of this may reach a registry, or the home of whoever runs it.
const env = { ...process.env, HOME: path.join(scratch, 'home'), npm_config_cache: path.join(scratch, 'cache'), npm_config_offline: 'true', npm_config_update_notifier: 'false' };
for (const name of Object.keys(env)) if (name.startsWith('HERDR_')) delete env[name];
const run = (command, args, options = {}) => execFileSync(command, args, { cwd: app, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'], ...options });

before(() => {
  assert.ok(fs.existsSync(packages), 'dist/npm is not there: make dist writes it');
  const tarballs = path.join(scratch, 'tarballs');
  for (const dir of [tarballs, app, env.HOME]) fs.mkdirSync(dir);
  const packed = ['herdr-link', platform].map((name) => {
    const [about] = JSON.parse(run('npm', ['pack', '--json', '--pack-destination', tarballs], { cwd: path.join(packages, name) }));
    return about;
  });
  assert.deepEqual(packed.map((p) => [p.name, p.version]), [['herdr-link', version], [platform, version]]);
  assert.deepEqual(packed[1].files.map((f) => f.path).sort(), ['LICENSE', 'LICENSE-GO', 'README.md', 'bin/herdr-link', 'package.json']);
  assert.equal(packed[1].files.find((f) => f.path === 'bin/herdr-link').mode & 0o777, 0o755);
  fs.writeFileSync(path.join(app, 'package.json'), '{"private":true}\n');
  run('npm', ['install', '--offline', '--no-audit', '--no-fund', ...packed.map((p) => path.join(tarballs, p.filename))]);
});
after(() => fs.rmSync(scratch, { recursive: true, force: true }));

test('npx herdr-link version', () => {
  assert.equal(run('npx', ['herdr-link', 'version']), `herdr-link ${version}\n`);
});

test('arguments, stdin and exit codes pass through', () => {
  const call = (args, input) => spawnSync('npx', ['herdr-link', ...args], { cwd: app, env, input, encoding: 'utf8' });
  const usage = call(['send', 'two words', '', '"*"', '--nonsense']);
  assert.equal(usage.status, 2);
  assert.match(usage.stderr, /^herdr-link: .*nonsense/);
  const outside = call(['send', 'reviewer'], 'hi');
  assert.equal(outside.status, 1);
  assert.match(outside.stderr, /^NOT_IN_HERDR/);
});

// probe runs those of the binary's checks of which a launcher could break the
// promise: what passes through stdin, stdout, arguments and exit code. None of
// them goes by the clock. Starting npx takes up to a second of processor time,
// and six start at once, hence the patience.
function probe(patterns, ...args) {
  for (const pattern of patterns) {
    const got = spawnSync(binary, ['probe', '--own', '--patience', '2m', '--run', pattern, '--', ...args], { cwd: app, env, encoding: 'utf8' });
    console.log(`probe --run ${pattern} -- ${path.basename(args[0])} …: ${got.stdout.trimEnd().split('\n').at(-1)}`);
    assert.equal(got.status, 0, got.stdout + got.stderr);
  }
}

test('probe of npx herdr-link', () => probe(['rpc/[lo]*', 'cli/', 'life/end-*'], 'npx', 'herdr-link'));

// Both ways of starting the binary: Node replaces itself, or waits for it.
const noExecve = path.join(scratch, 'no-execve.cjs');
fs.writeFileSync(noExecve, 'delete process.execve;\n');
const ways = { spawn: ['--require', noExecve] };
if (typeof process.execve === 'function') ways.execve = [];
else test('execve', { skip: `Node ${process.version} has no process.execve` }, () => {});

for (const [way, options] of Object.entries(ways)) {
  test(`${way}: probe`, () => probe(['rpc/', 'send/', 'cli/', 'life/end-*'], process.execPath, ...options, launcher));

  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
    test(`${way}: ${signal} ends launcher and binary`, async () => {
      const { child, pids } = await serve(way, options);
      child.kill(signal);
      await once(child, 'exit');
      await gone(pids);
    });
  }

  test(`${way}: the end of input ends launcher and binary, with exit 0`, async () => {
    const { child, pids } = await serve(way, options);
    child.stdin.end();
    assert.deepEqual(await once(child, 'exit'), [0, null]);
    await gone(pids);
  });

  test(`${way}: a launcher that is killed leaves no binary behind`, async () => {
    const { child, pids } = await serve(way, options);
    child.kill('SIGKILL');
    await once(child, 'exit');
    await gone(pids); // stdin is still open: it must notice by itself
    child.stdin.destroy();
  });

  test(`${way}: a binary that is killed ends the launcher by the same signal`, async () => {
    const { child, pids } = await serve(way, options);
    process.kill(pids.at(-1), 'SIGKILL');
    assert.deepEqual(await once(child, 'exit'), [null, 'SIGKILL']);
    await gone(pids);
  });
}

test('npx: SIGTERM leaves no process', async () => {
  const child = spawn('npx', ['herdr-link'], { cwd: app, env, stdio: ['pipe', 'pipe', 'inherit'] });
  await answer(child);
  const pids = family(child.pid);
  assert.ok(pids.length > 1, 'npx has children');
  child.kill('SIGTERM');
  await once(child, 'exit');
  await gone(pids);
});

test('without the platform package it says which and why, and ends with 1', () => {
  const bare = path.join(scratch, 'bare', 'node_modules', 'herdr-link');
  fs.cpSync(path.join(packages, 'herdr-link'), bare, { recursive: true });
  const got = spawnSync(process.execPath, [path.join(bare, 'bin', 'herdr-link.js'), 'version'], { cwd: scratch, env, encoding: 'utf8' });
  assert.equal(got.status, 1);
  assert.equal(got.stdout, '');
  assert.match(got.stderr, new RegExp(platform));
  assert.match(got.stderr, /--omit=optional/);

  const strange = path.join(scratch, 'strange.cjs');
  fs.writeFileSync(strange, "Object.defineProperty(process, 'arch', { value: 'mips' });\n");
  const other = spawnSync(process.execPath, ['--require', strange, path.join(bare, 'bin', 'herdr-link.js')], { env, encoding: 'utf8' });
  assert.equal(other.status, 1);
  assert.match(other.stderr, /no binary for .* on mips/);
});

// serve starts the launcher as a server and waits until it answers.
async function serve(way, options) {
  const child = spawn(process.execPath, [...options, launcher], { cwd: app, env, stdio: ['pipe', 'pipe', 'inherit'] });
  await answer(child);
  const pids = family(child.pid);
  assert.equal(pids.length, way === 'execve' ? 1 : 2);
  return { child, pids };
}

async function answer(child) {
  child.stdin.on('error', () => {});
  child.stdin.write('{"jsonrpc":"2.0","id":1,"method":"ping"}\n');
  let text = '';
  for await (const part of child.stdout.iterator({ destroyOnReturn: false })) if ((text += part).includes('\n')) break;
  assert.deepEqual(JSON.parse(text), { jsonrpc: '2.0', id: 1, result: {} });
}

// family returns the ids of a process and its descendants, elders first.
function family(pid) {
  const children = new Map();
  for (const line of run('ps', ['-A', '-o', 'ppid=,pid=']).trim().split('\n')) {
    const [parent, child] = line.trim().split(/\s+/).map(Number);
    children.set(parent, [...(children.get(parent) ?? []), child]);
  }
  const all = [pid];
  for (const p of all) all.push(...(children.get(p) ?? []));
  return all;
}

// gone waits until the processes have ended; npm/run has a limit for all.
async function gone(pids) {
  const living = () => pids.filter((pid) => {
    try { process.kill(pid, 0); } catch { return false; }
    return !run('ps', ['-A', '-o', 'pid=,stat=']).split('\n').some((line) => line.trim().startsWith(`${pid} `) && line.includes('Z'));
  });
  while (living().length > 0) await sleep(100);
}
