// The command line of @modelcontextprotocol/inspector against the binary. Each
// of its commands starts a server of its own, which is dormant again.
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { binary, end, talk, walk } from './check.mjs';

const program = path.join(path.dirname(fileURLToPath(import.meta.url)), 'node_modules', '.bin', 'mcp-inspector');

function inspect(w, args, ...method) {
  const env = Object.entries(w.env).flatMap(([key, value]) => ['-e', `${key}=${value}`]);
  const got = spawnSync(program, ['--cli', ...env, '--', binary, ...args, '--method', ...method], { encoding: 'utf8', timeout: 120_000 });
  if (got.status !== 0) throw new Error(`${method.join(' ')} ended with ${got.status}: ${got.stderr}${got.stdout}`);
  return JSON.parse(got.stdout);
}

for (const args of [[], ['--era', '2026-07-28']]) {
  await walk(['inspector', ...args].join(' '), async (w) => {
    w.check('the tools', inspect(w, args, 'tools/list').tools.map((t) => t.name), ['herdr_link']);
    const call = (name, values) => inspect(w, args, 'tools/call', '--tool-name', name,
      ...Object.entries(values).flatMap(([key, value]) => ['--tool-arg', `${key}=${typeof value === 'string' ? value : JSON.stringify(value)}`]));
    w.check('active', call('herdr_link', {}).structuredContent?.status, 'active');
    await talk(w, call, true);
  });
}
end('inspector');
