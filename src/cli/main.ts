#!/usr/bin/env node
// This file alone must load on an old Node.js, so it imports nothing before it has looked at the version.
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
if (major < 22 || (major === 22 && minor < 18)) {
  console.error(`nevertwice needs Node.js 22.18 or newer, and this is ${process.versions.node}; install a newer one`);
  process.exitCode = 1;
} else {
  const { enableCompileCache } = await import('node:module');
  // Node.js keeps the compiled code in the temporary folder: half of the time of a start would go into compiling.
  enableCompileCache();
  const { commandLine } = await import('./command-line.ts');
  await commandLine(process.argv.slice(2));
}
