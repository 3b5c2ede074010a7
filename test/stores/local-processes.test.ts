import { test } from 'vitest';
import { oneEffect } from './lease-copies.ts';
import { temporaryPath } from './local-support.ts';

const PROCESSES = 5;
const COPIES = 20;

test(`C84: ${PROCESSES * COPIES} copies of one message at once in ${PROCESSES} processes on one file: one effect, and all get its result`, async () => {
  const { path, remove } = temporaryPath();
  const targets = Array.from({ length: PROCESSES }, () => ({ local: path }));
  await oneEffect(targets, COPIES, `${path}.effects`);
  remove();
});
