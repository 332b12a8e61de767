// The official TypeScript clients against the binary: @modelcontextprotocol/sdk
// (the versions up to 2025-11-25) and @modelcontextprotocol/client (2026-07-28 as well).
import * as modern from '@modelcontextprotocol/client';
import * as modernStdio from '@modelcontextprotocol/client/stdio';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { binary, end, four, talk, walk } from './check.mjs';

const names = async (client) => (await client.listTools()).tools.map((t) => t.name).sort();

// session connects one client, gives it to f, and sees that its server ends.
async function session(w, { Client, Transport, options = {}, args = [] }, f) {
  let changes = 0;
  const client = new Client({ name: 'sdktest', version: '0' }, {
    capabilities: {},
    listChanged: { tools: { autoRefresh: false, debounceMs: 0, onChanged: () => changes++ } },
    ...options,
  });
  const transport = new Transport({ command: binary, args, env: w.env });
  await client.connect(transport);
  const pid = transport.pid;
  w.check('the server has a process', typeof pid, 'number');
  w.check('the server says who it is', client.getServerVersion()?.name, 'herdr-link');
  try {
    await f(client, (name, args) => client.callTool({ name, arguments: args }), () => changes);
  } finally {
    await client.close();
  }
  let alive = true;
  for (let i = 0; alive && i < 50; i++) {
    try { process.kill(pid, 0); await new Promise((r) => setTimeout(r, 100)); } catch { alive = false; }
  }
  w.check('the server has ended', alive, false);
}

// dormant is the life of a connection in the versions up to 2025-11-25.
const dormant = (w) => async (client, call, changes) => {
  w.check('dormant: one tool', await names(client), ['herdr_link']);
  const active = await call('herdr_link', {});
  w.check('active', active.structuredContent?.status, 'active');
  w.check('the contract', active.structuredContent?.contract?.length > 500);
  w.check('told once that the tools changed', changes(), 1);
  w.check('active: four tools', await names(client), four);
  const stranger = await call('no_such_tool', {}).then(() => 'a result', (err) => err.code);
  w.check('an unknown tool', stranger, -32602);
  await talk(w, call, false);
};

const v1 = { Client, Transport: StdioClientTransport };
const v2 = { Client: modern.Client, Transport: modernStdio.StdioClientTransport };

await walk('sdk', (w) => session(w, v1, dormant(w)));
await walk('sdk, server with --era', (w) => session(w, { ...v1, args: ['--era', '2026-07-28'] }, async (client, call) => {
  w.check('one tool', await names(client), ['herdr_link']);
  w.check('active', (await call('herdr_link', {})).structuredContent?.status, 'active');
  await talk(w, call, true);
}));
await walk('sdk, server with --eager', (w) => session(w, { ...v1, args: ['--eager'] }, async (client, call) => {
  w.check('four tools', await names(client), four);
  await talk(w, call, false);
}));
await walk('client', (w) => session(w, v2, dormant(w)));
await walk('client, asks for any version', (w) => session(w, { ...v2, options: { versionNegotiation: { mode: 'auto' } } }, dormant(w)));
for (const mode of ['auto', { pin: '2026-07-28' }]) {
  await walk(`client, ${mode.pin ? 'only' : 'also'} 2026-07-28`, (w) =>
    session(w, { ...v2, options: { versionNegotiation: { mode } }, args: ['--era', '2026-07-28'] }, async (client, call) => {
      w.check('the version', client.getNegotiatedProtocolVersion?.(), '2026-07-28');
      w.check('one tool', await names(client), ['herdr_link']);
      const active = await call('herdr_link', {});
      w.check('active', active.structuredContent?.status, 'active');
      await talk(w, call, true);
      w.check('still one tool', await names(client), ['herdr_link']);
    }));
}
end('typescript');
