// What the clients in JavaScript share: a scene for each walk, checks that
// count, and the last line.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';

export const binary = process.env.HERDR_LINK_BINARY;
const sceneProgram = process.env.HERDR_LINK_SCENE;
export const four = ['herdr_link', 'herdr_link_close', 'herdr_link_peers', 'herdr_link_send'];

let passed = 0;
let failed = 0;

export function check(what, got, want = true) {
  if (isDeepStrictEqual(got, want)) passed++;
  else {
    failed++;
    console.log(`FAIL ${what}: ${JSON.stringify(got)}, not ${JSON.stringify(want)}`);
  }
}

// A walk is a run of f in a scene of its own, in lead's pane. A throw is a
// failure of that walk alone.
export async function walk(name, f) {
  const dir = mkdtempSync(path.join(tmpdir(), 'herdr-link-sdk-'));
  const scene = path.join(dir, 'scene');
  const ask = (...args) => JSON.parse(execFileSync(sceneProgram, args, { encoding: 'utf8' }));
  const before = failed;
  try {
    const env = { ...ask('new', scene, binary)['w1:p1'], HOME: dir };
    await f({
      env,
      check: (what, ...values) => check(`${name}: ${what}`, ...values),
      received: (pane) => ask('show', scene)[pane],
      async arrived(pane) { // Herdr presses Enter a moment after the text
        for (let i = 0; i < 100 && ask('show', scene)[pane].length === 0; i++) await sleep(100);
        return ask('show', scene)[pane];
      },
    });
  } catch (err) {
    check(`${name}: ${err?.stack ?? err}`, false);
  } finally {
    rmSync(dir, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  }
  console.log(`${failed === before ? 'ok  ' : 'FAIL'} ${name}`);
}

export function end(name) {
  console.log(`${name}: ${passed} passed, ${failed} failed`);
  process.exit(failed > 0 || passed === 0 ? 1 : 0);
}

// talk does with a server what agents do. call(name, args) returns a result of
// tools/call; alone says that herdr_link is the only tool.
export async function talk({ check, received, arrived }, call, alone) {
  const use = (name, args) => (alone ? call('herdr_link', { action: name, arguments: args }) : call(`herdr_link_${name}`, args));
  const text = (result) => result.content?.[0]?.text ?? '';
  const plain = ({ structuredContent: { contract, ...rest } }) => rest; // what activates carries the contract, too

  const peers = await use('peers', {});
  check('self', peers.structuredContent?.self?.name, 'lead');
  check('the peers', peers.structuredContent?.peers?.map((p) => p.name), ['reviewer']);
  check('text and structure say the same', JSON.parse(text(peers)), plain(peers));

  const message = 'Look at "a" & <b>,\nplease: ü 漢 🙂';
  const sent = await use('send', { to: 'reviewer', message });
  check('sent', [sent.structuredContent?.status, sent.structuredContent?.to], ['sent', 'reviewer']);
  const texts = await arrived('w1:p2');
  check('one message arrived', texts.length, 1);
  const { id, from, to, message: got } = JSON.parse(texts[0].split('\n').at(-1));
  check('what arrived', { id, from, to, message: got }, { id: sent.structuredContent?.id, from: 'lead', to: 'reviewer', message });

  const nobody = await use('send', { to: 'builder', message: 'hi' }); // of another workspace
  check('an error is a result', nobody.isError);
  check('its code', /^PEER_NOT_FOUND: /.test(text(nobody)));

  const closed = await use('close', { agent: 'reviewer' });
  check('closed', plain(closed), { status: 'closed', agent: 'reviewer' });
  check('the pane is gone', received('w1:p2') === undefined);
}
