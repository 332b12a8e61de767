#!/usr/bin/env node
// Starts the herdr-link binary of this platform, which npm has installed as an
// optional dependency. Nothing is downloaded.
'use strict';

const { spawn } = require('node:child_process');
const fs = require('node:fs');
const { constants } = require('node:os');

const windows = process.platform === 'win32';
const args = process.argv.slice(2);
const binary = find(`@herdr-link/${process.platform}-${process.arch}`);

if (typeof process.execve === 'function' && !windows) {
  process.execve(binary, [binary, ...args], process.env); // does not come back
} else {
  runAndWait();
}

function fail(...lines) {
  for (const line of lines) console.error(`herdr-link: ${line}`);
  process.exit(1);
}

// find returns the path of the binary in the package for this platform. It is
// looked at before it is run: a failing execve would abort Node.
function find(name) {
  let path;
  try {
    path = require.resolve(`${name}/bin/herdr-link${windows ? '.exe' : ''}`);
  } catch {
    const known = Object.keys(require('../package.json').optionalDependencies);
    if (!known.includes(name)) {
      fail(`there is no binary for ${process.platform} on ${process.arch}; there are ${known.join(', ')}`);
    }
    fail(
      `the package ${name} is missing, which holds the binary for this platform.`,
      'Most likely npm was told to leave out optional dependencies (--omit=optional), or node_modules',
      'comes from a machine of another kind. Install herdr-link again, here and without that option.',
    );
  }
  try {
    fs.accessSync(path, fs.constants.X_OK);
  } catch (err) {
    fail(`the binary cannot be run: ${err.message}`);
  }
  return path;
}

// runAndWait passes signals on to the child and ends as it does. The child reads
// stdin itself, so the end of input reaches it; it looks after its parent, so it
// does not outlive this process either.
function runAndWait() {
  let child;
  const pass = (signal) => child.kill(signal);
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, pass);
  child = spawn(binary, args, { stdio: 'inherit', windowsHide: true });
  child.on('error', (err) => fail(`the binary cannot be run: ${err.message}`));
  child.on('exit', (code, signal) => {
    if (signal === null) process.exit(code);
    process.removeListener(signal, pass);
    process.kill(process.pid, signal);
    setTimeout(() => process.exit(128 + constants.signals[signal]), 100); // if that one does not kill
  });
}
