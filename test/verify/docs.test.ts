import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { BROKERS } from '../../src/verify/brokers.ts';
import { ANCHORS } from '../../src/verify/report/because.ts';

const page = readFileSync(new URL('../../docs/verify.md', import.meta.url), 'utf8');

test('every section that a report points at is there, and none that no report points at', () => {
  const sections = [...page.matchAll(/^### (.+)$/gm)].map(([, name]) => `#${name}`);
  expect(sections.sort()).toEqual([...ANCHORS].sort());
});

test('the page names every broker, and whether the ack of one who has lost the message counts there', () => {
  for (const { name, staleAck } of Object.values(BROKERS)) {
    const row = page.split('\n').find(line => line.startsWith(`| \`${name}\` |`));
    expect(row?.endsWith(staleAck ? '| may count |' : '| does not count |'), name).toBe(true);
  }
});
