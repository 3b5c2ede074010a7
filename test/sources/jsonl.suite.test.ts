import { appendFile, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'vitest';
import { sourceSuite } from '../../src/conformance/index.ts';
import { jsonlSource } from '../../src/sources/jsonl/index.ts';

sourceSuite({
  test,
  name: 'jsonl',
  capabilities: {
    retryLater: false,
    readAhead: true,
    finite: true,
    countsAttempts: 'a file does not know how often it was read',
    redelivers: 'a file does not wait for anybody',
    revokes: 'nobody takes a file away',
    repeatsHeaders: true,
    nul: true,
    binary: 'JSON holds text',
  },
  create: async () => {
    const directory = await mkdtemp(join(tmpdir(), 'jsonl-'));
    const file = join(directory, 'messages.jsonl');
    await writeFile(file, '');
    return {
      source: jsonlSource(file),
      send: async messages => {
        for (const message of messages) await appendFile(file, `${JSON.stringify(message)}\n`);
      },
      close: () => rm(directory, { recursive: true }),
    };
  },
});
