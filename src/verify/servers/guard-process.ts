// The other end of guard.ts: a program that waits for its parent to end and then cleans up.
import { rm } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';

const CLEAN_WITHIN_MS = 20_000;
const pids = new Map<number, NodeJS.Signals>();
const folders = new Set<string>();

for await (const line of createInterface({ input: process.stdin })) {
  const [word, value, signal] = JSON.parse(line) as [string, never, NodeJS.Signals];
  if (word === 'started') pids.set(value, signal);
  else if (word === 'ended') pids.delete(value);
  else folders.add(value);
}

for (const [pid, signal] of pids) {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

const deadline = Date.now() + CLEAN_WITHIN_MS;
for (const folder of folders) await remove(folder);

/** A server that is going down still writes files into the folder that is being deleted. */
async function remove(folder: string): Promise<void> {
  for (;;) {
    try {
      return await rm(folder, { recursive: true, force: true });
    } catch (error) {
      if (Date.now() > deadline) throw error;
      await sleep(50);
    }
  }
}
